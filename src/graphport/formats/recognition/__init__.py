"""Recognize files by their content: the only model in a container, and the kinds of files that are not read.

evidence      first bytes, text, members, name; signatures that test them
kinds         the table of files that are not read: signature, name, remedy
containers    folders, archives and compressed files with one model
"""

EXPORTED = ("onnx/model.onnx", "model.onnx")
"""Exported models in a folder of Hugging Face, which are read in place of its checkpoint."""
