"""The interface that operators on lists and tables, branches and loops have to the evaluation of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from graphport.core.storage import Storage
    from graphport.formats.tensorflow.container.findings import Findings
    from graphport.formats.tensorflow.container.items import Frame, Table, Variable
    from graphport.formats.tensorflow.container.records import Body, Record, Ref
    from graphport.ir.graph import Graph, Value


class Evaluator(Protocol):
    """Evaluates nodes at the end of the current graph; see `build.Building`."""

    findings: Findings
    graph: Graph
    variables: dict[str, Variable]
    tables: dict[str, Table]

    def table_contents(self, name: str, /) -> tuple[Storage, Storage] | None: ...
    def function(self, name: str, place: str) -> Body: ...
    def call(self, body: Body, arguments: Sequence[Any], prefix: str) -> list[Any]: ...
    def nested(self, place: str) -> AbstractContextManager[None]: ...
    def inside(self, body: Graph) -> AbstractContextManager[None]: ...
    def evaluate(self, frame: Frame, refs: Sequence[Ref], effects: Iterable[str] = ()) -> list[Any]: ...
    def resolve(self, frame: Frame, ref: Ref) -> Any: ...
    def emit(
        self,
        op_type: str,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        name: str,
        count: int = 1,
        *,
        dialect: str = ...,
    ) -> list[Value]: ...
    def node_attributes(self, record: Record) -> dict[str, Any]: ...
    def value(self, item: Any, record: Record) -> Value: ...
    def constant(self, data: Storage | np.ndarray[Any, Any], name: str = "constant") -> Value: ...
    def refuse(self, code: str, message: str, place: str, help: str) -> Never: ...
