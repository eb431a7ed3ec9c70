"""Older forms of control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.facts import Fact, TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import Sub
from graphport.ops.definitions.control.loops import Scan
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Shape, Unsqueeze
from graphport.ops.operator_facts import BodyFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value


@Scan.lower("onnx", until=8)
def scan_8(
    b: Builder,
    sequence_lens: Value | None,
    *operands: Value,
    body: Graph,
    num_scan_inputs: int,
    directions: tuple[int, ...] | None = None,
) -> tuple[Value, ...]:
    """Scan-8: every operand has a batch axis, and scanned ones a step axis after it: nested scans.

    With sequence lengths, stacked values are zero-padded.
    """
    states = len(operands) - num_scan_inputs
    if states < 0:
        message = f"num_scan_inputs is {num_scan_inputs}, but the node has {len(operands)} inputs"
        raise ShapeError(message)
    attributes: dict[str, Any] = {"num_scan_inputs": num_scan_inputs, "scan_input_directions": directions}
    if b.graph is None:
        sample: Any = _SampleFacts(BodyFacts(b.inference, body), attributes)
        return b.results(Scan, b.count, *operands, body=sample, num_scan_inputs=len(operands))
    sample = Graph("sample")
    b.graph.share_names(sample)
    inner = Builder(b.inference, sample, origin=b.origin, stem=b.stem)
    length = None if sequence_lens is None else sample.add_input(f"{b.stem}.length", TensorFact(None, ()))
    entries = [sample.add_input(f"{b.stem}.{i}", _without_batch(x)) for i, x in enumerate(operands)]
    sample.set_outputs(_one_sample(inner, entries, states, length, body, attributes, b.count))
    lengths = [] if sequence_lens is None else [sequence_lens]
    return b.results(Scan, b.count, *lengths, *operands, body=sample, num_scan_inputs=len(lengths) + len(operands))


class _SampleFacts:
    """The scan of one sample over facts."""

    def __init__(self, body: BodyFacts, attributes: dict[str, Any]) -> None:
        self._body = body
        self._attributes = attributes

    def __call__(self, *operands: Fact) -> Sequence[Fact | None]:
        answer = Scan.shape(*operands, body=self._body, **self._attributes)
        return answer if isinstance(answer, list | tuple) else [answer]  # pyright: ignore[reportReturnType]


def _without_batch(x: Value) -> Fact:
    fact = x.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return fact
    return fact.with_shape(fact.shape[1:])


def _one_sample(
    b: Builder,
    entries: Sequence[Value],
    states: int,
    length: Value | None,
    body: Graph,
    attributes: dict[str, Any],
    count: int,
) -> list[Value]:
    cut = [*entries[:states], *(x if length is None else _slice_prefix(b, x, length) for x in entries[states:])]
    results = b.results(Scan, count, *cut, body=rewrite.copy(body), **attributes)
    if length is None:
        return list(results)
    whole = b(Shape, entries[states], start=0, end=1)
    missing = b(Sub, whole, b(Unsqueeze, length, [0]))
    return [*results[:states], *(_zero_padded(b, y, missing) for y in results[states:])]


def _slice_prefix(b: Builder, x: Value, length: Value) -> Value:
    return b(Slice, x, [0], b(Unsqueeze, length, [0]), [0])


def _zero_padded(b: Builder, y: Value, missing: Value) -> Value:
    """Zero-pad `y` after its last step."""
    rank = len(b.dims(y))
    zeros = [b.constant(np.zeros(n, np.int64)) for n in (rank, rank - 1)]
    return b(Pad, y, b(Concat, zeros[0], missing, zeros[1], axis=0))
