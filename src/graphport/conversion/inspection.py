"""Statistics of a model: operators, weights, multiply-accumulates, and formats that support it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from graphport.conversion.coverage import coverage
from graphport.conversion.sampling import sample_graph
from graphport.core.facts import UNKNOWN, TensorFact, Unknown, as_integer
from graphport.core.short_repr import short_repr
from graphport.core.storage import Storage
from graphport.core.table import Tabular, with_one_type
from graphport.ir.graph import Node, walk
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Use, Value


@short_repr
@dataclass(frozen=True, slots=True)
class Example:
    """Multiply-accumulates for example values of the symbolic dims (`sizes`)."""

    sizes: dict[str, int]
    macs: int
    macs_by_operator: dict[str, int]


@short_repr
@dataclass(frozen=True, slots=True)
class Weight:
    """A constant with data; `shape` has integers."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@short_repr
@dataclass(frozen=True, slots=True)
class Activations:
    """Largest number of bytes of live activations, and the node that runs then.

    `sizes` are example values of the symbolic dims. `live_bytes` of `graphport.conversion.activations` defines live.
    """

    sizes: dict[str, int]
    peak_bytes: int
    node: str
    operator: str


@short_repr
@dataclass(frozen=True, slots=True)
class Inspection(Tabular):
    """Statistics of a model. Operators are canonical where possible; nodes in bodies count once.

    `versions` are the opsets or the edition of the file. `parameters` counts the elements of all constants except those
    that are only used as shapes, axes or indices; `weight_bytes` counts their bytes. Shared storage counts once. `macs`
    are the multiply-accumulates of one run, symbolic for dynamic shapes, and by operator in `macs_by_operator`;
    `macs_unknown` counts nodes of unknown shape. `example` evaluates long formulas for example sizes. `unsupported`
    maps each format to the operators that it does not support, with counts. `kernels` lists the versioned operators of
    the file: name, version, count, and whether a delegate supports them. `weights` are the parameters, the largest
    first.
    """

    format: str
    versions: Mapping[str, str]
    inputs: dict[str, Fact]
    outputs: dict[str, Fact]
    operators: dict[str, int]
    parameters: int
    weight_bytes: int
    macs: Dim
    macs_by_operator: dict[str, Dim] = field(default_factory=dict[str, "Dim"])
    macs_unknown: dict[str, int] = field(default_factory=dict[str, int])
    unsupported: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    example: Example | None = None
    kernels: Sequence[tuple[str, int, int, str]] = ()
    weights: Sequence[Weight] = ()
    activations: Activations | None = None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row per operator; `macs` are strings in all rows if one is symbolic."""
        macs = with_one_type([_int_or_text(self.macs_by_operator.get(op)) for op in self.operators])
        return [
            {
                "operator": op,
                "nodes": count,
                "macs": each,
                "of_unknown_shape": self.macs_unknown.get(op, 0),
            }
            for (op, count), each in zip(self.operators.items(), macs, strict=True)
        ]

    @property
    def caption(self) -> str:
        """Inputs, outputs, parameters and multiply-accumulates in one line."""
        ends = " → ".join(", ".join(f"{n}: {f}" for n, f in of.items()) for of in (self.inputs, self.outputs))
        return f"{ends}; {self.parameters:,} parameters in {self.weight_bytes:,} bytes, {_int_or_text(self.macs)} MACs"


def _int_or_text(dim: Dim | None) -> int | str | None:
    return dim if dim is None or isinstance(dim, int) else str(dim)


def inspect(
    graph: Graph, format: str = "", versions: Mapping[str, str] | None = None, *, has_coverage: bool = True
) -> Inspection:
    """Compute the statistics of `graph`, which is canonical where possible.

    `format` and `versions` describe the source file.

    `has_coverage=False` skips the check of which formats support the graph.
    """
    nodes = [node for inner in walk(graph) for node in inner]
    weights = sorted(_weights(graph), key=lambda weight: (-weight.nbytes, weight.name))
    macs, unknown = _macs(nodes)
    total: Dim = 0
    for count in macs.values():
        total = total + count
    return Inspection(
        format=format,
        versions=dict(versions or {}),
        inputs=_facts(graph.inputs),
        outputs=_facts(graph.outputs),
        operators=_sorted_by_count(Counter(node.op for node in nodes)),
        parameters=sum(prod(weight.shape) for weight in weights),
        weight_bytes=sum(weight.nbytes for weight in weights),
        macs=total,
        macs_by_operator=macs,
        macs_unknown=_sorted_by_count(unknown),
        unsupported=coverage(*sample_graph(graph)) if has_coverage else {},
        weights=weights,
    )


def _facts(values: list[Value]) -> dict[str, Fact]:
    return {value.name: value.fact for value in values}


def _sorted_by_count(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _weights(graph: Graph) -> Iterator[Weight]:
    """Yield the parameters; shared storage once, with its first name."""
    seen: set[Storage] = set()
    for value in (value for inner in walk(graph) for value in inner.constants if any(map(_reads_numbers, value.uses))):
        if value.storage is not None:
            if value.storage not in seen:
                seen.add(value.storage)
                yield _weight(value.name, value.storage)
        elif isinstance(value.fact, TensorFact) and value.fact.dtype is not None and value.fact.is_static:
            # The data is not available, but the file states the element count.
            shape = tuple(map(as_integer, value.fact.dims))
            yield Weight(value.name, str(value.fact.dtype), shape, value.fact.dtype.size(prod(shape)))
    for name, storage in _weights_in_nodes(graph):
        if storage not in seen:
            seen.add(storage)
            yield _weight(name, storage)


def _weight(name: str, storage: Storage) -> Weight:
    return Weight(name, str(storage.dtype), storage.shape, storage.dtype.size(storage.count))


def _weights_in_nodes(graph: Graph) -> Iterator[tuple[str, Storage]]:
    """Yield the weights stored as attributes of nodes without operands (`Constant` nodes)."""
    for node in (node for inner in walk(graph) for node in inner if not node.inputs):
        if any(_reads_numbers(use) for value in node.results for use in value.uses):
            name = node.results[0].name
            yield from ((name, each) for each in node.attributes.values() if isinstance(each, Storage))


def _reads_numbers(use: Use) -> bool:
    """Whether this use of a constant reads its elements as data, not as a shape, axes or indices."""
    if not isinstance(use.user, Node) or use.user.dialect:
        return True
    op_def = registry.op_defs().get(use.user.op_type)
    operand = None if op_def is None else op_def.signature.operand(use.index)
    return op_def is None or operand is None or operand.name not in op_def.index_operands


def _macs(nodes: list[Node]) -> tuple[dict[str, Dim], Counter[str]]:
    """Return the multiply-accumulates by operator, and by operator the count of nodes for which they are unknown."""
    found: dict[str, Dim] = {}
    unknown: Counter[str] = Counter()
    for node in nodes:
        try:
            count = macs_of(node)
        except Unknown:
            unknown[node.op] += 1
        else:
            if count is not None:
                found[node.op] = found.get(node.op, 0) + count
    return found, unknown


def macs_of(node: Node) -> Dim | None:
    """Return the multiply-accumulates of one run of `node`; `None` if the operator definition states none.

    Raises:
        Unknown: they depend on unknown shapes.
    """
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    if op_def is None or op_def.macs is None:
        return None
    first = node.outputs[0] if node.outputs else None
    operands = [None if value is None else value.fact for value in node.inputs]
    return op_def.macs(UNKNOWN if first is None else first.fact, *operands, **node.attributes)
