"""The pages: a folder for each family of operators, a function for each operator. Pages know nothing of dialects."""
