"""Compare shape inference tools on models: each value at two input sizes, against the shapes of ONNX Runtime.

python -m benchmarks.shapes.table --peers PYTHON FOLDER…

Every open axis of an input gets a separate symbol or its declared one; declared shapes of outputs and intermediate
values are removed. Inferred shapes are evaluated for the symbols of each run and compared with the arrays that ONNX
Runtime computes. `PYTHON` is the interpreter of an environment with the other tools (see README.md in this folder).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import onnx
from benchmarks.shapes.expressions import value_of
from benchmarks.simplify.judging import session, two_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Shape = tuple[int, ...]
    Measured = tuple[dict[str, int], dict[str, Shape]]

TOOLS = ("graphport", "onnx", "onnxruntime", "onnx-shape-inference")
KINDS = ("right", "unknown", "wrong")
MOST_SECONDS = 600
HERE = Path(__file__).parent
MODELS = HERE.parent.parent / "tests"


def stripped(path: Path, target: Path) -> onnx.ModelProto:
    """Write the model with symbols for open input axes and without other declared shapes."""
    model = onnx.load(str(path))
    constants = {each.name for each in model.graph.initializer}
    number = 0
    for given in model.graph.input:
        for dim in given.type.tensor_type.shape.dim if given.name not in constants else ():
            name = dim.dim_param
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                number += not name.isidentifier()
                dim.dim_param = name if name.isidentifier() else f"open{number}"
    del model.graph.value_info[:]
    for result in model.graph.output:
        result.type.tensor_type.ClearField("shape")
    onnx.save(model, str(target))
    return model


def measured(path: Path, model: onnx.ModelProto, folder: Path) -> Iterator[Measured]:
    """Yield the values of the symbols and the shape of every value, for each of two runs."""
    every = onnx.ModelProto()
    every.CopyFrom(model)
    returned = {value.name for value in every.graph.output}
    names = [name for node in every.graph.node for name in node.output if name and name not in returned]
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    target = folder / "every.onnx"
    onnx.save(every, str(target))
    made = session(target)
    order = [output.name for output in made.get_outputs()]
    for feed in two_sizes(path):
        symbols: dict[str, int] = {}
        for given in model.graph.input:
            if given.name in feed:
                dims = given.type.tensor_type.shape.dim
                symbols |= {d.dim_param: n for d, n in zip(dims, feed[given.name].shape, strict=True) if d.dim_param}
        shapes = {
            name: array.shape for name, array in zip(order, made.run(None, feed), strict=True) if _is_array(array)
        }
        yield symbols, shapes


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape")


def judged(found: Mapping[str, Any], runs: Sequence[Measured]) -> Counter[str]:
    """Count the values whose shape is right in all runs, wrong in one, or unknown from the symbols."""
    verdicts: Counter[str] = Counter()
    for name in runs[0][1]:
        kinds = {_verdict(found.get(name), shapes[name], symbols) for symbols, shapes in runs if name in shapes}
        verdicts["wrong" if "wrong" in kinds else "unknown" if "unknown" in kinds else "right"] += 1
    return verdicts


def _verdict(found: Sequence[Any] | None, shape: Shape, symbols: Mapping[str, int]) -> str:
    if found is None:
        return "unknown"
    if len(found) != len(shape):
        return "wrong"
    dims = [dim if isinstance(dim, int) or dim is None else value_of(dim, symbols) for dim in found]
    if any(dim is not None and dim != length for dim, length in zip(dims, shape, strict=True)):
        return "wrong"
    return "unknown" if None in dims else "right"


def worked(tool: str, python: str, path: Path, runs: Sequence[Measured]) -> tuple[Counter[str], float]:
    """Return the verdicts on one tool (all `crashed` if it gives no result) and its processor seconds."""
    command = [python, str(HERE / "tools.py"), tool, str(path)]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, cwd=path.parent, check=False, timeout=MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Counter(crashed=len(runs[0][1])), MOST_SECONDS
    if ended.returncode:
        return Counter(crashed=len(runs[0][1])), 0.0
    answer = json.loads(ended.stdout.strip().splitlines()[-1])
    return judged(answer["shapes"], runs), answer["cpu_s"]


def tell(cells: Sequence[object]) -> None:
    """Print a line of a Markdown table and flush."""
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


def main() -> None:
    """Print the table as Markdown, line by line, and the totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", default=sys.executable, help="interpreter that has the other tools")
    parser.add_argument("folders", type=Path, nargs="*", default=[MODELS])
    given = parser.parse_args()
    headings = ("model", "values", "tool", *KINDS, "crashed", "CPU s")
    tell(headings)
    tell(["---"] * len(headings))
    sums = {tool: Counter[str]() for tool in TOOLS}
    seconds: dict[str, float] = dict.fromkeys(TOOLS, 0.0)
    for model in sorted({path.resolve() for folder in given.folders for path in folder.rglob("*.onnx")}):
        with TemporaryDirectory() as name:
            path = Path(name) / model.name
            runs = list(measured(model, stripped(model, path), Path(name)))
            for tool in TOOLS if runs else ():
                python = sys.executable if tool == "graphport" else given.peers
                verdicts, took = worked(tool, python, path, runs)
                sums[tool] += verdicts
                seconds[tool] += took
                counts = [verdicts[kind] for kind in (*KINDS, "crashed")]
                tell([model.stem, len(runs[0][1]), tool, *counts, f"{took:.2f}"])
    for tool, verdicts in sums.items():
        share = 100 * verdicts["right"] / max(verdicts.total(), 1)
        counts = [f"{verdicts['right']} ({share:.2f} %)", *(verdicts[kind] for kind in (*KINDS[1:], "crashed"))]
        tell(["**all**", verdicts.total(), tool, *counts, f"{seconds[tool]:.2f}"])


if __name__ == "__main__":
    main()
