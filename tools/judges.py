"""The native runtimes in the proofs of each conversion between all writable formats, as a table for docs/proof.md.

    .venv/bin/python tools/judges.py [--check]

One convolutional network is written in every format, and each file is converted to every other format, as by `graphport
convert`. With `--check` the exit code is 1 if a conversion is not verified, or if a format with a native runtime was
not run by it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

import graphport as gp

if TYPE_CHECKING:
    from graphport.proof.document import Proof

FILES = {
    "onnx": "net.onnx",
    "openvino": "net.xml",
    "ncnn": "net.ncnn.param",
    "tflite": "net.tflite",
    "nnef": "net.nnef",
    "pnnx": "net.pnnx.param",
}
WITHOUT_RUNTIME = frozenset({"pnnx"})
_NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "litert": "LiteRT"}
HEAD = "| from | to | runtime of the source | runtime of the written file | largest difference |\n|---|---|---|---|---|"


def main() -> int:
    """Print the table; with `--check` return 1 if there is a failure."""
    rows: list[str] = []
    poor: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        sources = _sources(Path(folder))
        for source, path in sources.items():
            for target, name in FILES.items():
                if target == source:
                    continue
                report = gp.convert(path, Path(folder) / f"{source}-{name}", format=target)
                proof = report.proof
                if proof is None or not report.passed:
                    poor.append(f"{source} to {target}: {proof}")
                    continue
                rows.append(
                    f"| {source} | {target} | {_judges(proof, 'a')} | {_judges(proof, 'b')} | {_largest(proof)} |"
                )
                poor += [
                    f"{source} to {target}: no native runtime ran {kind}"
                    for kind, side in ((source, "a"), (target, "b"))
                    if kind not in WITHOUT_RUNTIME
                    and not any(w.is_own and w.ran for w in proof.witnesses if w.side == side)
                ]
    print(HEAD, *rows, sep="\n")
    print(*poor, sep="\n", file=sys.stderr)
    return 1 if poor and "--check" in sys.argv else 0


def _sources(folder: Path) -> dict[str, Path]:
    """Return the network's file in every format, each written from ONNX."""
    random = np.random.default_rng(0)
    weights = {"w": (6, 3, 3, 3), "b": (6,), "v": (4, 6, 1, 1)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("LeakyRelu", ["c"], ["l"], alpha=0.125),
            helper.make_node("Conv", ["l", "v"], ["d"]),
            helper.make_node("Sigmoid", ["d"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
        [numpy_helper.from_array(random.standard_normal(dims).astype(np.float32), k) for k, dims in weights.items()],
    )
    found = {"onnx": folder / FILES["onnx"]}
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), found["onnx"])
    for kind, name in FILES.items():
        if kind not in found:
            found[kind] = folder / name
            gp.save(gp.load(found["onnx"]), found[kind], format=kind)
    return found


def _judges(proof: Proof, side: str) -> str:
    """Return the runtimes that computed a side, the native one first."""
    asked = [witness for witness in proof.witnesses if witness.side == side and witness.ran]
    names = [_NAMES.get(str(w.runtime), str(w.runtime)) for w in sorted(asked, key=lambda w: not w.is_own)]
    return ", ".join(dict.fromkeys(names))


def _largest(proof: Proof) -> str:
    return "?" if proof.max_abs is None else f"{proof.max_abs:.1e}"


if __name__ == "__main__":
    sys.exit(main())
