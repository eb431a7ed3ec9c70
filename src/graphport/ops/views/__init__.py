"""Views of operators with many parameters, generated from their definitions by `tools/operator_views.py`."""
