"""What dialects say, above the pages: a folder for each dialect, in it a module for each family of operators.

`openvino/convolution.py` lowers and lifts the convolutions of OpenVINO, and `convolution_transpose.py` beside it is a
part of that. How a dialect binds operands and attributes is in its `binding.py`; modules here serve several dialects.
"""
