"""Help in editors: a language server for NNEF texts, and for the texts of PNNX, ncnn and Caffe."""
