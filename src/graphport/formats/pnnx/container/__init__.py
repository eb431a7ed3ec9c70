"""Files of PNNX: `.param` and `.bin` to graphs of the dialect `pnnx`, and back."""
