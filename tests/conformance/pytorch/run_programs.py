"""Run exported programs in torch, in one process: `PYTHON run_programs.py FOLDER [unflatten|code]`; PYTHON has torch.

Each `NAME.pt2` is loaded by `torch.export.load` and run on `NAME.in.npz`; `NAME.out.npz` has its outputs, or `NAME.error`
the first line of the error. Arrays that NumPy has no type for are integers of their width, and the name of the array ends in
the type.
"""

from __future__ import annotations

import logging
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]  # in an environment of its own

BITS = {
    "bfloat16": (torch.bfloat16, torch.uint16),
    "float8_e4m3fn": (torch.float8_e4m3fn, torch.uint8),
    "float8_e4m3fnuz": (torch.float8_e4m3fnuz, torch.uint8),
    "float8_e5m2": (torch.float8_e5m2, torch.uint8),
    "float8_e5m2fnuz": (torch.float8_e5m2fnuz, torch.uint8),
    "float8_e8m0fnu": (torch.float8_e8m0fnu, torch.uint8),
}


def to_tensor(name: str, array: np.ndarray) -> torch.Tensor:
    """The tensor of a saved array."""
    found = torch.from_numpy(np.array(array))
    kind = name.partition("|")[2]
    return found.view(BITS[kind][0]) if kind in BITS else found


def to_array(index: int, tensor: torch.Tensor) -> tuple[str, np.ndarray]:
    """The name and the array of an output."""
    found = tensor.detach().contiguous()
    kind = str(found.dtype).removeprefix("torch.")
    if kind in BITS:
        return f"{index}|{kind}", found.view(BITS[kind][1]).numpy()
    return f"{index}|", found.numpy()


def run(path: Path) -> None:
    """Run one program."""
    stem = str(path).removesuffix(".pt2")
    try:
        program = torch.export.load(str(path))
        module = program.module()
        if "unflatten" in sys.argv:
            module = torch.export.unflatten(program)
            assert set(module.state_dict()) == set(program.state_dict)
        elif "code" in sys.argv:
            module = runpy.run_path(f"{stem}_module.py")["load"]()
            assert set(module.state_dict()) == set(program.state_dict)
            trained = {name for name, each in module.named_parameters() if each.requires_grad}
            assert trained == {name for name, each in program.named_parameters() if each.requires_grad}
        with np.load(f"{stem}.in.npz") as given, torch.no_grad():
            names = sorted(given.files, key=lambda name: int(name.partition("|")[0]))
            found = module(*(to_tensor(name, given[name]) for name in names))
        outputs = [found] if isinstance(found, torch.Tensor) else list(found)
        arrays: Any = dict(to_array(index, each) for index, each in enumerate(outputs))
        np.savez(f"{stem}.out.npz", **arrays)
    except Exception as error:  # noqa: BLE001  whatever torch raises is the outcome
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        told = lines[-1] if lines and lines[0].startswith("Failed deserializing") else lines[0] if lines else ""
        Path(f"{stem}.error").write_text(f"{type(error).__name__}: {told[:300]}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.disable()
    for each in sorted(Path(sys.argv[1]).glob("*.pt2")):
        run(each)
