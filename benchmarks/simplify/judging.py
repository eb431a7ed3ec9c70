"""Criteria for a simplified model: the number of nodes, whether it loads, and whether its outputs are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Feeds = dict[str, Any]

CLOSE = 1e-5
"""Maximum error of an element, relative to the largest absolute element of its output plus `FLOOR`."""

FLOOR = 0.1
"""Added to the largest absolute element: for outputs near zero, rounding errors are relatively large."""

LENGTHS = (64, 96, 128, 160, 256, 320, 512, 576, 640, 1024, 1536, 2048, 4096, 16000, 44100, 32, 16, 8, 4, 2, 1)
"""Sizes to try for a symbolic axis until the model runs; the second input starts with the second size."""

RATES = (16000, 8000)
"""Values to try for an integer scalar: in the models at hand these are sample rates."""

_KINDS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Number of counted nodes, whether the model loads, and the largest relative error; `None` if it does not run."""

    nodes: int
    loads: bool
    difference: float | None

    @property
    def is_right(self) -> bool:
        """Return whether the model computes the outputs of the original."""
        return self.loads and self.difference is not None and self.difference <= CLOSE


def judge(path: Path, feeds: Sequence[Feeds], expected: Sequence[Sequence[Any]]) -> Verdict:
    """Return the verdict on a model; `feeds` are inputs and `expected` the original's outputs for them."""
    nodes = count_nodes(onnx.load(str(path), load_external_data=False).graph)
    try:
        made = session(path)
    except Exception:  # noqa: BLE001  any exception: it does not load
        return Verdict(nodes, loads=False, difference=None)
    try:
        found = [made.run(None, feed) for feed in feeds]
    except Exception:  # noqa: BLE001  any exception: it does not run
        return Verdict(nodes, loads=True, difference=None)
    return Verdict(nodes, loads=True, difference=max(map(_difference, expected, found)))


def session(path: Path) -> Any:
    """Return a session without graph optimizations, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def count_nodes(graph: onnx.GraphProto, known: frozenset[str] = frozenset()) -> int:
    """Count the nodes of a graph and its bodies, except constants and nodes with only constant operands."""
    constant = known | {each.name for each in graph.initializer}
    count = 0
    for node in graph.node:
        bodies = [each.g for each in node.attribute if each.HasField("g")]
        bodies += [body for each in node.attribute for body in each.graphs]
        is_fixed = node.op_type == "Constant" or (
            any(node.input) and not bodies and all(not name or name in constant for name in node.input)
        )
        if is_fixed and not node.op_type.startswith(("Random", "Bernoulli", "Multinomial")):
            constant = constant | set(node.output)
        else:
            count += 1 + sum(count_nodes(body, constant) for body in bodies)
    return count


def two_sizes(path: Path) -> list[Feeds]:
    """Return random inputs of two sizes that the model accepts, in two ranges; of one size if no dim is open."""
    made = session(path)
    shapes = [given.shape for given in made.get_inputs()]
    is_free = any(not isinstance(dim, int) for shape in shapes for dim in shape)
    found: list[Feeds] = []
    for batch, rate in zip((1, 2), RATES, strict=True):
        for length in LENGTHS[len(found) :] if is_free else (1,):
            feed = _feed(made, batch, length, rate, seed=len(found))
            if _runs(made, feed):
                found.append(feed)
                break
    return found


def _runs(made: Any, feed: Feeds) -> bool:
    try:
        made.run(None, feed)
    except Exception:  # noqa: BLE001  any exception: it does not accept this size
        return False
    return True


def _feed(made: Any, batch: int, length: int, rate: int, seed: int) -> Feeds:
    random = np.random.default_rng(seed)
    feed: Feeds = {}
    for given in made.get_inputs():
        kind = np.dtype(_KINDS[given.type])
        shape = [_length(given.shape, axis, batch, length) for axis in range(len(given.shape))]
        if not shape and kind.kind == "i":
            feed[given.name] = np.array(rate, kind)
        elif kind.kind == "f":
            feed[given.name] = random.normal(size=shape).astype(kind)
        else:
            feed[given.name] = random.integers(0, 2, shape).astype(kind)
    return feed


def _length(shape: Sequence[Any], axis: int, batch: int, length: int) -> int:
    """Return the size of an axis: its declared dim; `batch` for the first axis and for an axis between static ones."""
    if isinstance(shape[axis], int) and shape[axis] >= 0:
        return shape[axis]
    is_between = 0 < axis < len(shape) - 1 and all(isinstance(shape[n], int) for n in (axis - 1, axis + 1))
    return batch if axis == 0 or is_between else length


def _difference(expected: Sequence[Any], found: Sequence[Any]) -> float:
    if len(expected) != len(found):
        return float("inf")
    return max(map(_of_one, expected, found), default=0.0)


def _of_one(expected: Any, found: Any) -> float:
    a, b = np.asarray(expected), np.asarray(found)
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else float("inf")
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    a, b = np.where(np.isfinite(a), a, 0).astype(np.float64), np.where(np.isfinite(b), b, 0).astype(np.float64)
    largest = np.max(np.abs(a), initial=0)
    return float(np.max(np.abs(a - b), initial=0) / (largest + FLOOR))
