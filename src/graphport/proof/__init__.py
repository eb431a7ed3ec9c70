"""Proofs that two files compute the same: each runs in the native runtime of its format on the same test inputs.

`judge.prove` makes a proof; `verdict.decide` computes its verdict from the matrix of runs (`run`), the coverage
(`coverage`) and the interface (`interface`); `runtimes` has a row and a process for each native runtime.
"""
