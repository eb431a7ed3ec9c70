"""The names of the arguments of PyTorch's functions, a line for each overload: `python arguments.py NAME... > arguments.txt`."""

import sys

import torch

for name in sorted(sys.argv[1:]):
    function = getattr(torch.ops.aten, name, None)
    if function is None:
        continue
    for overload in function.overloads():
        if overload != "out" and not overload.endswith("_out"):
            names = [argument.name for argument in getattr(function, overload)._schema.arguments]
            sys.stdout.write(f"{' '.join([name, *names])}\n")
