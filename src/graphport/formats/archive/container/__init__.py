"""Files of the archive: its members, and the graph in its text form."""
