"""Convert every operator with operands of rank 0, extent 0 and extent 1, and compare with the reference interpreter.

    python tools/small_shapes.py                        all operators and formats
    python tools/small_shapes.py --only Softmax --list  one operator, and every refusal

The bases are the node tests of the `onnx` package with one node. In a variant all data operands have rank 0, or one
extent of the data operands is 0 or 1. Models that ONNX Runtime rejects are skipped. The exit code is 1 if a result is
wrong or an exception is raised. `--every 10` converts a tenth of the models.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

import graphport as gp
from graphport import DiagnosticError
from graphport.ops.registry import op_defs
from graphport.proof.process import UnansweredError, pool
from graphport.proof.runtimes import RUNTIMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TARGETS = {
    "onnx": "m.onnx",
    "openvino": "m.xml",
    "tflite": "m.tflite",
    "nnef": "m.nnef.tgz",
    "ncnn": "m.ncnn.param",
    "pt2": "m.pt2",
}
"""Formats and names of their files; a format without a runtime is computed as graphport reads it."""
MAX_EXTENTS, MAX_CASES, MAX_ELEMENTS = 3, 2, 100_000
TOLERANCE = 2e-3
"""Maximum difference relative to the largest element: the default configurations of runtimes are not used."""
EXCLUDED = {"Bernoulli", "Dropout", "Multinomial", "RandomNormalLike", "RandomUniformLike"}
FAULTS = {
    ("onnx", "Gemm"): "beta is ignored where K is 0",
    ("onnx", "QLinearMatMul"): "the result is 0 instead of the zero point where K is 0",
    ("onnx", "MeanVarianceNormalization"): "NaN where the variance is 0",
    ("onnx", "ReduceMean"): "0 instead of NaN for no elements",
    ("onnx", "NegativeLogLikelihoodLoss"): "0 instead of NaN for the mean of no elements",
    ("onnx", "NonZero"): "shape [1, 1] instead of [0, 1] for rank 0",
}
"""Known faults of runtimes, by format and operator."""


class Case(NamedTuple):
    """A model, its inputs and the results of the reference interpreter."""

    name: str
    proto: onnx.ModelProto
    inputs: Mapping[str, Any]
    expected: list[Any]


def main() -> int:
    """Convert, run and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="regular expression of op types")
    parser.add_argument("--formats", nargs="*", default=list(TARGETS))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print every refusal")
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    for number, case in enumerate(cases(options.only)):
        if number % options.every:
            continue
        for format in options.formats:
            kind, reason = outcome(case, format)
            counts[format, kind] += 1
            if kind in ("refused", "rejected"):
                reasons[format, re.sub(r"'[^']*'|\d+", "…", reason)] += 1
            if kind in ("wrong", "exception", "rejected") or (options.list and kind == "refused"):
                sys.stdout.write(f"{case.name} {format}: {kind}: {reason[:300]}\n")
                sys.stdout.flush()
    for (format, reason), count in sorted(reasons.items(), key=lambda each: (each[0][0], -each[1])):
        sys.stdout.write(f"{count:4} {format}: {reason[:160]}\n")
    sys.stdout.writelines(f"{format} {kind} {count}\n" for (format, kind), count in sorted(counts.items()))
    return int(any(kind in ("wrong", "exception") for _, kind in counts))


def cases(only: str) -> Iterator[Case]:
    """Yield the variants that ONNX Runtime and the reference interpreter compute."""
    from onnx.backend.test.loader import load_node_model_tests

    seen: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_node_model_tests()
    for test in sorted(tests, key=lambda each: each.name):
        model = test.model
        if model is None or not test.data_sets or len(model.graph.node) != 1:
            continue
        op_type = model.graph.node[0].op_type
        is_known = op_type in op_defs() and not model.graph.node[0].domain and op_type not in EXCLUDED
        if not is_known or seen[op_type] >= MAX_CASES or not re.fullmatch(only or ".*", op_type):
            continue
        names = [value.name for value in model.graph.input]
        arrays = dict(zip(names, test.data_sets[0][0], strict=False))
        if not all(getattr(array, "size", MAX_ELEMENTS) < MAX_ELEMENTS for array in arrays.values()):
            continue
        seen[op_type] += 1
        for kind, changed in variants(model.graph.node[0], arrays):
            found = case(f"{test.name} {kind}", model, changed)
            if found is not None:
                yield found


def variants(node: onnx.NodeProto, arrays: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and inputs of the variants; operands with axes, sizes and indices keep their elements."""
    op_def = op_defs()[node.op_type]
    operands = {name: op_def.signature.operand(index) for index, name in enumerate(node.input)}
    fixed = {
        name for name, operand in operands.items() if operand is not None and operand.name in op_def.index_operands
    }
    data = [name for name in arrays if name not in fixed]
    yield "rank 0", {name: resized(x, () if name in data else x.shape) for name, x in arrays.items()}
    extents = dict.fromkeys(size for name in data for size in arrays[name].shape if size > 1)
    for extent in list(extents)[:MAX_EXTENTS]:
        for size in (0, 1):
            yield (
                f"{extent} -> {size}",
                {
                    name: resized(x, tuple(size if n == extent else n for n in x.shape)) if name in data else x
                    for name, x in arrays.items()
                },
            )


def resized(array: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of another shape with the elements of `array`, in order."""
    return np.resize(array, shape).astype(array.dtype)


def case(name: str, model: onnx.ModelProto, arrays: Mapping[str, Any]) -> Case | None:
    """Return a model with inputs of other shapes and constant axes and sizes; `None` if ONNX Runtime rejects it."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model)
    node = proto.graph.node[0]
    op_def = op_defs()[node.op_type]
    inputs = dict(arrays)
    del proto.graph.input[:], proto.graph.value_info[:]
    for name_, array in arrays.items():
        operand = op_def.signature.operand(list(node.input).index(name_)) if name_ in node.input else None
        if (
            operand is not None
            and operand.name in op_def.index_operands
            and array.dtype.kind == "i"
            and array.ndim == 1
        ):
            proto.graph.initializer.append(numpy_helper.from_array(array, name_))
            del inputs[name_]
        else:
            dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
            proto.graph.input.append(helper.make_tensor_value_info(name_, dtype, array.shape))
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    if not inputs:
        return None
    with TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        path.write_bytes(proto.SerializeToString())
        try:
            native("onnx", path, inputs)
            found = gp.run(gp.from_onnx(proto), inputs, backend="reference")
        except (UnansweredError, DiagnosticError):
            return None
    return Case(name, proto, inputs, list(found.values()))


def outcome(case: Case, format: str) -> tuple[str, str]:
    """Return the kind of outcome of a conversion, and its reason."""
    try:
        model = gp.from_onnx(case.proto)
        if (format, case.proto.graph.node[0].op_type) in FAULTS:
            return "runtime fault", ""
        with TemporaryDirectory() as folder:
            path = Path(folder, TARGETS[format])
            gp.save(model, path)
            return ran(case, format, path)
    except DiagnosticError as error:
        found = error.diagnostics[0]
        return "exception" if found.code.startswith("BUG") else "refused", f"{found.code} {found.message}"
    except Exception as error:  # noqa: BLE001  a fault of the product
        return "exception", repr(error)


def ran(case: Case, format: str, path: Path) -> tuple[str, str]:
    """Run a file in the runtime of its format, or as graphport reads it."""
    runtime = RUNTIMES.get(format)
    if runtime is None or format == "pt2" or not runtime.is_installed:
        return compared(case, list(gp.run(path, case.inputs, backend="reference").values()))
    try:
        return compared(case, native(format, path, case.inputs), has_shapes=runtime.has_batches)
    except UnansweredError as error:
        return "rejected", str(error)


def native(format: str, path: Path, inputs: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of the format's runtime in its strict configuration.

    Raises:
        UnansweredError: the runtime rejects the file or ends.
    """
    process = pool().acquire(RUNTIMES[format], "a")
    try:
        process.ask_to_load(str(path), 1, is_strict=True)
        ports = process.finish_loading().inputs
        arrays = [inputs.get(port.name, array) for port, array in zip(ports, inputs.values(), strict=False)]
        types = [port.dtype for port in ports]
        given = [x if t in (None, "string", str(x.dtype)) else x.astype(t) for x, t in zip(arrays, types, strict=True)]
        process.ask_to_run(given, {})
        return list(process.answer().outputs)
    finally:
        pool().give_back(process, "a")


def compared(case: Case, found: list[Any], *, has_shapes: bool = True) -> tuple[str, str]:
    """Compare results with those of the reference interpreter."""
    for x, y in zip(case.expected, map(np.asarray, found), strict=False):
        if x.shape != y.shape and (has_shapes or x.size != y.size):
            return "wrong", f"shape {list(y.shape)}, expected {list(x.shape)}"
        if x.dtype.kind not in "biuf":
            continue
        a, b = (np.asarray(each, np.float64).reshape(-1) for each in (x, y))
        limit = TOLERANCE * max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0)))
        if not np.allclose(a, b, rtol=0, atol=limit, equal_nan=True):
            return "wrong", f"{b[:4].tolist()}, expected {a[:4].tolist()}"
    return "right", ""


if __name__ == "__main__":
    raise SystemExit(main())
