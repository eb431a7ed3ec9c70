"""Convert TFLite FlatBuffers to graphs of the dialect `tflite`, and back."""
