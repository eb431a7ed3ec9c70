"""Implementation of the Python interface, one module per operation; `import graphport` exports it."""
