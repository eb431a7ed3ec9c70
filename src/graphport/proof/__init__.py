"""Proofs that two files compute the same: each runs in its own runtime, and the reference is asked besides.

A *witness* is somebody who computes a file: its own runtime, which reads the file from disk in a process of its own
and shares no code with us, or a backend on the graph that we have read from it. `runtimes` is the table of the former,
`judge` asks them and decides, `document` is what a proof says.
"""
