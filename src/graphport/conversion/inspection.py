"""What a model holds: operators, weights, work, and who can say it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.conversion.coverage import coverage
from graphport.conversion.typical import typical
from graphport.core.dims import product
from graphport.core.facts import UNKNOWN, TensorFact, Unknown, number
from graphport.core.storage import Storage
from graphport.core.table import Tabular
from graphport.ir.graph import Node, walk
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Use, Value


@dataclass(frozen=True, slots=True)
class Example:
    """Multiply-accumulates where symbols are as long as `sizes` says."""

    sizes: dict[str, int]
    macs: int
    macs_by_operator: dict[str, int]


@dataclass(frozen=True, slots=True)
class Inspection(Tabular):
    """What a model holds; operators are canonical where they can be, and bodies count once.

    `versions` are those of the file (of operator sets, or the edition). `parameters` are the elements of all constants
    that somebody reads otherwise than as a shape, axes or positions, `weight_bytes` their bytes; what several constants
    share counts once. `macs` are the
    multiply-accumulates of one run, symbolic where extents are, by operator in `macs_by_operator`; nodes of which they
    are not known, since shapes are not, are counted in `macs_unknown`; where these formulas are long, `example`
    has their numbers at sizes that somebody can have in mind. `unsupported` has for each format the operators
    that it cannot say, with their numbers. `kernels` are the file's own operators where they have versions: name,
    version, how many, and whether a delegate takes them.
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

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each operator."""
        return [
            {
                "operator": op,
                "nodes": count,
                "macs": None if op not in self.macs_by_operator else _plain(self.macs_by_operator[op]),
                "of_unknown_shape": self.macs_unknown.get(op, 0),
            }
            for op, count in self.operators.items()
        ]

    @property
    def caption(self) -> str:
        """What all of it is."""
        ends = " → ".join(", ".join(f"{n}: {f}" for n, f in of.items()) for of in (self.inputs, self.outputs))
        return f"{ends}; {self.parameters:,} parameters in {self.weight_bytes:,} bytes, {_plain(self.macs)} MACs"


def _plain(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def inspect(
    graph: Graph, format: str = "", versions: Mapping[str, str] | None = None, *, has_coverage: bool = True
) -> Inspection:
    """What `graph` holds, which is canonical where it can be; the rest is said of the file that it came from.

    Without `has_coverage` nobody looks for who can say it.
    """
    nodes = [node for inner in walk(graph) for node in inner]
    parameters, weight_bytes = _weights(graph)
    macs, unknown = _macs(nodes)
    total: Dim = 0
    for count in macs.values():
        total = total + count
    return Inspection(
        format=format,
        versions=dict(versions or {}),
        inputs=_facts(graph.inputs),
        outputs=_facts(graph.outputs),
        operators=_by_number(Counter(node.op for node in nodes)),
        parameters=parameters,
        weight_bytes=weight_bytes,
        macs=total,
        macs_by_operator=macs,
        macs_unknown=_by_number(unknown),
        unsupported=coverage(*typical(graph)) if has_coverage else {},
    )


def _facts(values: list[Value]) -> dict[str, Fact]:
    return {value.name: value.fact for value in values}


def _by_number(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _weights(graph: Graph) -> tuple[int, int]:
    """Elements and bytes of the parameters."""
    elements, size = 0, 0
    seen: set[Storage] = set()
    for value in (value for inner in walk(graph) for value in inner.constants if any(map(_weighs, value.uses))):
        if value.storage is not None:
            if value.storage in seen:
                continue
            seen.add(value.storage)
            dtype, count = value.storage.dtype, value.storage.count
        elif isinstance(value.fact, TensorFact) and value.fact.dtype is not None and value.fact.is_static:
            # Its numbers are not at hand, and the file says how many they would be.
            dtype, count = value.fact.dtype, number(product(value.fact.dims))
        else:
            continue
        elements += count
        size += dtype.size(count)
    for storage in _in_nodes(graph):
        if storage not in seen:
            seen.add(storage)
            elements += storage.count
            size += storage.nbytes
    return elements, size


def _in_nodes(graph: Graph) -> Iterator[Storage]:
    """The weights that nodes without operands hold: exporters write them so, too."""
    for node in (node for inner in walk(graph) for node in inner if not node.inputs):
        if any(_weighs(use) for value in node.results for use in value.uses):
            yield from (each for each in node.attributes.values() if isinstance(each, Storage))


def _weighs(use: Use) -> bool:
    """Whether a constant is read here for its numbers, and not to say what shape something has."""
    if not isinstance(use.user, Node) or use.user.dialect:
        return True
    page = registry.pages().get(use.user.word)
    operand = None if page is None else page.signature.operand(use.index)
    return page is None or operand is None or operand.name not in page.index_operands


def _macs(nodes: list[Node]) -> tuple[dict[str, Dim], Counter[str]]:
    """Multiply-accumulates by operator, and how many nodes of each there are of which they are not known."""
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
    """Multiply-accumulates of one run of `node`; `None` where they are not what it takes time for.

    Raises:
        Unknown: they depend on shapes that are not known.
    """
    page = None if node.dialect else registry.pages().get(node.word)
    if page is None or page.macs is None:
        return None
    first = node.outputs[0] if node.outputs else None
    operands = [None if value is None else value.fact for value in node.inputs]
    return page.macs(UNKNOWN if first is None else first.fact, *operands, **node.attributes)
