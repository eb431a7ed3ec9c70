"""A model: a graph with where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic
from graphport.ir.graph import walk
from graphport.ir.results import labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from graphport.core.facts import Fact
    from graphport.formats.ncnn import Scales
    from graphport.ir.graph import Graph, Value
    from graphport.quantization.half.cast import CastReport
    from graphport.quantization.report import QuantizationReport

    Shapes = Mapping[str, Sequence[int | str]]


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A graph as it was read, and the structure of the canonical one that was made of it."""

    graph: Graph
    structure: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Model:
    """A graph with where it came from.

    `findings` are the warnings that reading it gave; `versions` what the file says of its edition or operator sets.
    `kernels` are the file's own operators where they have versions: name, version, how many, and whether a delegate
    takes them. `kept` has what was read with operators of ONNX's other domains, which the graph has in canonical words.
    `words` has what was read in words that the reference computes to the last bit, if there are any: TFLite's integers.
    """

    graph: Graph
    format: str = ""
    path: Path | None = None
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    kernels: Sequence[tuple[str, int, int, str]] = field(default=(), kw_only=True)
    kept: Kept | None = field(default=None, repr=False, kw_only=True)
    words: Kept | None = field(default=None, repr=False, kw_only=True)

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
        """Whether it is still in its format's own words: some node is, and none is canonical."""
        dialects = {node.dialect for inner in walk(self.graph) for node in inner}
        return bool(dialects) and "" not in dialects

    def shapes(self) -> dict[str, Fact]:
        """Element type and shape of every value by name."""
        return {value.name: value.fact for value in self.graph.values()}

    def __repr__(self) -> str:
        return f"<Model {self.path or self.graph.name}: {len(self.graph)} nodes>"

    def _repr_html_(self) -> str:
        from graphport.reports.notebook import summary_of

        return summary_of(self.graph, "" if self.path is None else self.path.name, self.format, self.versions)


@dataclass(frozen=True, eq=False)
class CastModel(Model):
    """A model in another precision, and the report on how it became one."""

    report: CastReport | None = None


@dataclass(frozen=True, eq=False)
class QuantizedModel(Model):
    """A quantized model, and the report on how it became one.

    `scales` are the lines of ncnn's calibration table, which is written beside a model for it. `exact` are results of
    products with weights of few bits for which ONNX Runtime is told not to round activations; `form` is how files of
    ONNX say integers.
    """

    report: QuantizationReport | None = None
    scales: tuple[Scales, ...] | None = None
    exact: tuple[str, ...] = ()
    form: str = "qdq"
