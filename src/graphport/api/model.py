"""A model: a graph with where it came from."""

from __future__ import annotations

import copyreg
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from graphport.core.diagnostics import Diagnostic
from graphport.core.short_repr import MAX_LENGTH, abridge_text
from graphport.ir import rewrite
from graphport.ir.graph import Graph, walk
from graphport.ir.results import labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from graphport.core.facts import Fact
    from graphport.formats.ncnn import Scales
    from graphport.ir.graph import Value
    from graphport.quantization.dequantize import DequantizeReport
    from graphport.quantization.half.cast import CastReport
    from graphport.quantization.report import QuantizationReport

    Shapes = Mapping[str, Sequence[float | str] | float | str]
    Inputs = object
    """Arrays by input name, a list or tuple in the order of the inputs, or the only array: see `run`."""
    ModelSource = object
    """A `Model`, a path, bytes, a file that is open for reading bytes, or a model of another package: see `load`."""


def _reduce_graph(graph: Graph) -> tuple[Any, ...]:
    """Pickle as an archive file with the weights: nested objects of a deep graph exceed the recursion limit."""
    from graphport.api.pickling import reduce_graph

    return reduce_graph(graph)


copyreg.pickle(Graph, _reduce_graph)


@dataclass(frozen=True, slots=True, eq=False)
class DialectGraph:
    """A dialect graph, and the structure of the canonical graph that was derived from it."""

    graph: Graph
    structure: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Model:
    """A graph and its source.

    `findings` are warnings of the reader; `versions` are the edition or the opsets that the file declares. `kernels`
    are the file's versioned operators: name, version, count, and whether a delegate supports them. `kept` is the graph
    with operators of other ONNX domains, which `graph` has in canonical form. `words` is the dialect graph of operators
    that the reference interpreter computes bit-exactly, if any: TFLite's integer operators.
    """

    graph: Graph
    format: str = ""
    path: Path | None = None
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    kernels: Sequence[tuple[str, int, int, str]] = field(default=(), kw_only=True)
    kept: DialectGraph | None = field(default=None, repr=False, kw_only=True)
    words: DialectGraph | None = field(default=None, repr=False, kw_only=True)

    @property
    def inputs(self) -> dict[str, Value]:
        """Inputs by name, in order."""
        return {value.name: value for value in self.graph.inputs}

    @property
    def outputs(self) -> dict[str, Value]:
        """Outputs by name, in order; one that is listed again is called `name:2`."""
        return dict(zip(labels(self.graph.outputs), self.graph.outputs, strict=True))

    @property
    def is_raw(self) -> bool:
        """Whether the graph is in its format's dialect: it has dialect nodes and no canonical nodes."""
        dialects = {node.dialect for inner in walk(self.graph) for node in inner}
        return bool(dialects) and "" not in dialects

    def shapes(self) -> dict[str, Fact]:
        """Element type and shape of every value by name."""
        return {value.name: value.fact for value in self.graph.values()}

    def __copy__(self) -> Self:
        """Share the graph."""
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the graph; weights are immutable and shared."""
        return replace(self, graph=rewrite.copy(self.graph))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the records of the dialect graph."""
        from graphport.api.pickling import reduce_model

        return reduce_model(self)

    def __repr__(self) -> str:
        name = abridge_text(str(self.path or self.graph.name), MAX_LENGTH)
        return f"<{type(self).__name__} {name}: {len(self.graph)} nodes>"

    def _repr_html_(self) -> str:
        from graphport.reports.notebook import summary_of

        return summary_of(self.graph, "" if self.path is None else self.path.name, self.format, self.versions)


@dataclass(frozen=True, eq=False, repr=False)
class CastModel(Model):
    """A model in another precision, and the report of the cast."""

    report: CastReport | None = None


@dataclass(frozen=True, eq=False, repr=False)
class DequantizedModel(Model):
    """A float model that was quantized, and the report of the removed operators."""

    report: DequantizeReport | None = None


@dataclass(frozen=True, eq=False, repr=False)
class QuantizedModel(Model):
    """A quantized model, and the report of its quantization.

    `scales` are the lines of ncnn's calibration table, a sidecar file. `exact` lists results of products with weights
    of few bits for which ONNX Runtime must not quantize activations; `form` is the form of integers in ONNX files.
    """

    report: QuantizationReport | None = None
    scales: tuple[Scales, ...] | None = None
    exact: tuple[str, ...] = ()
    form: str = "qdq"
