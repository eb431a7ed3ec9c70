"""Files of ONNX: protobuf messages to graphs of the dialect `onnx`, and back."""
