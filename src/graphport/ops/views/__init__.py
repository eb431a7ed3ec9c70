"""Views of the operators with many parameters, made from their pages by `tools/operator_views.py`."""
