"""What `tools/fuzz.py` is made of: damages, the subjects that are damaged, and what they are taken through."""
