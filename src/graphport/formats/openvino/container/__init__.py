"""Files of OpenVINO IR: XML and weights to graphs of the dialect `openvino`, and back."""
