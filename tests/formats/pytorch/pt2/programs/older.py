"""Writes programs in the layouts and schemas of older versions of PyTorch: `python older.py`, where torch is installed.

Archives and pickles are those that PyTorch 2.13 writes; the program's JSON is taken back to what the schemas of 2.3
(5.1), of the time before 2.5 (6.1) and of 2.5 (7.3) had: fewer fields, extents as plain text, `as_none` as an empty
list, numbers of float8 that have changed since. Programs are those of `make.py`.
"""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportCallIssue=false

import json
import zipfile
from pathlib import Path

import numpy as np
import sympy
import torch
from torch import nn
from torch._export.serde.serialize import serialize
from torch.utils._sympy import functions

HERE = Path(__file__).parent
FLOAT8 = {30: 23, 29: 24, 32: 25, 31: 26}
SINCE = {
    "kind": 8,
    "is_hop_single_tensor_return": 8,
    "sym_float_values": 8,
    "treespec_namedtuple_fields": 8,
    "guards_code": 8,
    "torch_version": 8,
    "forward_arg_names": 8,
}
"""The major version of the schema that has a field first."""
NAMES = {name: getattr(functions, name) for name in dir(functions) if name[0].isupper()}


class Narrow(nn.Module):
    """Weights of element types that `torch.save` has no storage class for."""

    def __init__(self):
        super().__init__()
        weight = torch.linspace(-3, 3, 12).view(3, 4)
        self.register_buffer("eight", weight.to(torch.float8_e4m3fn))
        self.register_buffer("other", weight.t().to(torch.float8_e5m2))
        self.register_buffer("counts", torch.arange(4).to(torch.uint16))
        self.weight = nn.Parameter(torch.arange(12.0).view(4, 3)[:, 1:])

    def forward(self, x):
        y = x @ self.eight.to(torch.float32).t() + self.other.to(torch.float32)[0]
        return y @ self.eight.to(torch.float32) @ self.weight + self.counts.to(torch.float32)[:2]


def plain(text):
    """SymPy's own text of an expression as people write it, which older versions did too."""
    return str(sympy.sympify(text, locals=NAMES))


def taken_back(found, major):
    """JSON of the newest schema as an older one has it."""
    if isinstance(found, list):
        return [taken_back(item, major) for item in found]
    if not isinstance(found, dict):
        return found
    kept = {}
    for key, value in found.items():
        if major < SINCE.get(key, 0):
            continue
        if key == "as_none":
            kept[key] = []
        elif key == "expr_str":
            kept[key] = plain(value)
        elif key in ("dtype", "as_scalar_type") and isinstance(value, int):
            kept[key] = FLOAT8.get(value, value)
        elif key == "min_val":
            kept[key] = 0 if value is None else value
        elif key == "max_val":
            kept[key] = 9223372036854775806 if value is None else value
        else:
            kept[key] = taken_back(value, major)
    return kept


def older(program, major, minor):
    """The JSON of a program in an older schema."""
    made: dict = taken_back(json.loads(program), major)  # pyright: ignore[reportAssignmentType]
    for node in made["graph_module"]["graph"]["nodes"]:
        node.pop("name", None)
    made["schema_version"] = {"major": major, "minor": minor}
    if major < 7:
        made["dialect"] = "ATEN"
        made.pop("verifiers", None)
    return json.dumps(made).encode()


def write(name, program, major, minor):
    """One flat archive; before 2.5, archives of `torch.save` were called as if they were JSON."""
    found = serialize(program)
    ending = "json" if major < 6 else "pt"
    with zipfile.ZipFile(HERE / f"{name}.schema{major}.pt2", "w") as archive:
        archive.writestr("serialized_exported_program.json", older(found.exported_program, major, minor))
        archive.writestr(f"serialized_state_dict.{ending}", found.state_dict)
        archive.writestr(f"serialized_constants.{ending}", found.constants)
        archive.writestr("version", f"{major}.{minor}")


def main():
    for name, major, minor in (("names", 5, 1), ("sizes", 6, 1), ("cache", 7, 3), ("open", 7, 3)):
        write(name, torch.export.load(HERE / f"{name}.core.pt2"), major, minor)
    module, x = Narrow().eval(), torch.linspace(-1, 1, 8).view(2, 4)
    program = torch.export.export(module, (x,)).run_decompositions()
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    write("narrow", program, 7, 1)
    torch.export.save(program, HERE / "narrow.core.pt2")
    np.savez_compressed(HERE / "narrow.npz", in0=x.numpy(), out0=module(x).detach().numpy())


if __name__ == "__main__":
    main()
