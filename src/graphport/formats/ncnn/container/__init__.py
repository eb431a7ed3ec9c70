"""Files of ncnn: `.param` and `.bin` to graphs of the dialect `ncnn`, and back."""
