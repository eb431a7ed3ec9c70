"""Write the networks of `networks.py` with `torch_to_nnef` in both flavours, and as programs of `torch.export`.

python -m tests.conformance.nnef.export OUT [NAME ...]    needs torch 2.13.0, torch_to_nnef 0.24.12, numpy

`benchmarks/nnef/exported.py` reads the results.
"""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# ruff: noqa: T201  a script that tells how far it is

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_to_nnef.inference_target.tract as target
from torch_to_nnef import export_model_to_nnef
from torch_to_nnef.compress import quantize_weights_min_max_Q4_0
from torch_to_nnef.inference_target import KhronosNNEF, TractNNEF

from tests.conformance.nnef.networks import NETWORKS, Network


class Cli:
    """Stands for the program that the exporter would download."""

    tract_path = Path("none")

    def __init__(self, version):
        self.version = version


target.TractCli.download = classmethod(lambda cls, version: Cli(version))  # pyright: ignore[reportAttributeAccessIssue]


def tensors(inputs):
    return [each() if callable(each) else torch.randn(*each) for each in inputs]


def results(module, inputs):
    with torch.no_grad():
        found = module(*inputs)
    return list(found) if isinstance(found, tuple | list) else [found]


def exported(network: Network, module, inputs, kind, path):
    """Export one file, or return the exporter's error."""
    open_axes = None if network.axes is None else {f"x{place}": axes for place, axes in network.axes.items()}
    if kind == "khronos":
        inference = KhronosNNEF.latest()
        inference.check_io = False
    else:
        version = TractNNEF.OFFICIAL_SUPPORTED_VERSIONS[0]
        inference = TractNNEF(version, check_io=False, dynamic_axes=open_axes, dump_identity_properties=False)
    count = len(results(module, inputs))
    try:
        export_model_to_nnef(
            model=module,
            args=tuple(inputs),
            file_path_export=path,
            inference_target=inference,
            log_level=logging.CRITICAL,
            input_names=[f"x{place}" for place in range(len(inputs))],
            output_names=[f"y{place}" for place in range(count)],
        )
    except Exception as error:  # noqa: BLE001  a failure of the exporter is part of the result
        path.unlink(missing_ok=True)
        return f"{type(error).__name__}: {error}".replace("\n", " ")[:160]
    return ""


def program(network: Network, module, inputs, path):
    dims = {name: torch.export.Dim(name) for axes in (network.axes or {}).values() for name in axes.values()}
    shapes: Any = None
    if network.axes is not None:
        found = [
            {axis: dims[name] for axis, name in network.axes.get(place, {}).items()} for place in range(len(inputs))
        ]
        # A module that takes any number of operands has them as one argument.
        shapes = (found[0], tuple(found[1:])) if len(found) > 1 else (found[0],)
    try:
        torch.export.save(torch.export.export(module, tuple(inputs), dynamic_shapes=shapes), path)
    except Exception as error:  # noqa: BLE001
        path.unlink(missing_ok=True)
        return f"{type(error).__name__}: {error}".replace("\n", " ")[:160]
    return ""


def main(out: Path, names: list[str], kinds: tuple[str, ...] = ("tract", "khronos", "pt2")) -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    listing = out / "manifest.json"
    manifest: dict[str, Any] = {"read": [], "write": [], "not written": {}}
    if listing.exists():
        manifest = json.loads(listing.read_text())
    for name in names or NETWORKS:
        network = NETWORKS[name]
        seed = sum(map(ord, name))
        torch.manual_seed(seed)
        module = network.make().eval()
        inputs, other = tensors(network.inputs), tensors(network.other)
        if network.blocks:
            module = quantize_weights_min_max_Q4_0(module)
        arrays = {}
        for prefix, given in (("", inputs), ("o", other)):
            if given:
                arrays |= {f"{prefix}x{place}": each.numpy() for place, each in enumerate(given)}
                arrays |= {f"{prefix}y{place}": each.numpy() for place, each in enumerate(results(module, given))}
        np.savez_compressed(out / f"{name}.npz", **arrays)
        for kind in kinds:
            if kind != "tract" and network.blocks:
                continue
            file = f"{name}.pt2" if kind == "pt2" else f"{name}.{kind}.nnef.tgz"
            if kind == "pt2":
                # The exporter has replaced weights by its tensors.
                torch.manual_seed(seed)
                told = program(network, network.make().eval(), inputs, out / file)
            else:
                told = exported(network, module, inputs, kind, out / file)
            part = manifest["write" if kind == "pt2" else "read"]
            part[:] = [case for case in part if case["file"] != file]
            manifest["not written"].pop(file, None)
            if told:
                manifest["not written"][file] = told
            else:
                part.append({"id": file, "file": file, "data": f"{name}.npz", "tolerance": network.tolerance})
            print(file, told or "written", flush=True)
    listing.write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
