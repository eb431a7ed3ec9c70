"""Files of NNEF: texts, tensor files and archives to graphs of the dialects `nnef` and `tract`, and back."""
