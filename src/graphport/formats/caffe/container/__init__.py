"""Files of Caffe: `.prototxt` and `.caffemodel` to graphs of the dialect `caffe`, and back."""
