"""Parts of `tools/fuzz.py`: mutations of files, seeds, generated structures, and the verbs to run."""
