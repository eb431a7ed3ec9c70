"""What a program calls, a module a subject; `import graphport` offers it."""
