"""Export every network of `nets` with both of PyTorch's exporters: `python -m tests.world.make_torch FOLDER [NAME …]`.

Needs torch, onnxscript and onnx. Beside each `NAME.MODE.onnx` lie `NAME.KIND.SIZE.npz`: inputs and PyTorch's own results.
"""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.world.nets import DYNAMIC, NETS, Net

MODES: Mapping[str, dict[str, Any]] = {
    "dyn18": {"dynamo": True, "optimize": False, "opset_version": 18},
    "dynopt": {"dynamo": True},
    "ext": {"dynamo": True, "external_data": True},
    "dyn23": {"dynamo": True, "opset_version": 23},
    "dyn25": {"dynamo": True, "optimize": False, "opset_version": 25},
    "ts11": {"dynamo": False, "opset_version": 11},
    "ts14": {"dynamo": False, "opset_version": 14},
    "ts17": {"dynamo": False, "opset_version": 17},
    "half": {"dynamo": True},
    "bfloat": {"dynamo": True, "opset_version": 22},
    "double": {"dynamo": True, "optimize": False, "opset_version": 20},
}
KINDS = {"half": torch.float16, "bfloat": torch.bfloat16, "double": torch.float64}
"""Modes of another element type; its results are its own."""
NARROWED = ("attention", "rotary", "convolutional", "elements", "recurrent", "reductions", "norms")
WITH_FILES = ("attention", "shared")


def main(folder: Path, wanted: list[str]) -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for name in wanted or NETS:
        for mode in MODES:
            if (mode in KINDS and name not in NARROWED) or (mode == "ext" and name not in WITH_FILES):
                continue
            try:
                export(folder, name, mode)
                sys.stdout.write(f"{name} {mode} written\n")
            except Exception as error:  # noqa: BLE001  what an exporter cannot do is no fault of ours
                first = (str(error).strip().splitlines() or [""])[0]
                sys.stdout.write(f"{name} {mode} not written: {type(error).__name__} {first[:120]}\n")


def export(folder: Path, name: str, mode: str) -> None:
    net, dtype = NETS[name], KINDS.get(mode, torch.float32)
    torch.manual_seed(zlib.crc32(name.encode()) % 10_000)
    network = net.make().eval().to(dtype)
    sizes = {size: tuple(_typed(x, dtype) for x in make()) for size, make in net.sizes.items()}
    with torch.no_grad():
        for size, arguments in sizes.items():
            results = torch.utils._pytree.tree_leaves(network(*arguments))
            kind = mode if mode in KINDS else "single"
            arrays = {f"in{i}": _array(x) for i, x in enumerate(arguments)} | {
                f"out{i}": _array(x) for i, x in enumerate(results)
            }
            np.savez_compressed(folder / f"{name}.{kind}.{size}.npz", **arrays)
        torch.onnx.export(
            network, sizes["a"], folder / f"{name}.{mode}.onnx", **_options(net, MODES[mode], len(sizes["a"]))
        )


def _options(net: Net, given: dict[str, Any], count: int) -> dict[str, Any]:
    axes = net.open_axes
    if given["dynamo"]:
        # An `Of` has one variadic argument, which the exporter takes for a tuple.
        shapes: Any = tuple(dict.fromkeys(each, DYNAMIC) for each in axes) or None
        is_variadic = getattr(net.make(), "function", None) is not None
        return {
            "external_data": False,
            **given,
            "verbose": False,
            "dynamic_shapes": (shapes,) if is_variadic and shapes else shapes,
        }
    names = [f"in{i}" for i in range(count)]
    named = {name: {axis: f"{name}_{axis}" for axis in each} for name, each in zip(names, axes, strict=False)}
    return {**given, "input_names": names, "dynamic_axes": named or None}


def _typed(x: Any, dtype: torch.dtype) -> Any:
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def _array(x: Any) -> Any:
    x = x.detach()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
