"""What dialects say, above the pages: a folder for each dialect, in it a module for each family of operators.

`openvino/pooling.py` lowers and lifts the poolings of OpenVINO, and `pooling_regions.py` beside it is a part of that:
what begins with the name of a family is imported with it. How a dialect binds operands and attributes is in its
`binding.py`; modules here serve several dialects.
"""
