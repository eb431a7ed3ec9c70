"""PyTorch: the rules of its operators, and its file formats."""
