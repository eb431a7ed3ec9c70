"""Import and export rules of Caffe layers."""
