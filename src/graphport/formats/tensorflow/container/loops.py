"""Loops as `Loop` of ONNX: loop variables that do not change are captured, lists are scan outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.tensorflow.container import lists
from graphport.formats.tensorflow.container.items import Dead, TensorList
from graphport.formats.tensorflow.container.lists import UnstackedError
from graphport.formats.tensorflow.container.results import isolate_results, refuse_writes, states
from graphport.ir.graph import Graph, Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.tensorflow.container.evaluator import Evaluator
    from graphport.formats.tensorflow.container.records import Record

_MAX_COMPARED = 64
"""Nodes of two expressions that are compared."""
_SIMPLE = frozenset({"Less", "LogicalAnd", "Identity", "Cast"})


def build_loop(
    building: Evaluator,
    record: Record,
    prefix: str,
    items: Sequence[Any],
    condition: Callable[[list[Any]], Any],
    step: Callable[[list[Any]], list[Any]],
) -> list[Any]:
    """The items after the last iteration of a loop.

    A list of which each iteration writes one element, in order, is a scan output. Where a list is used in another
    way, it is a tensor that each iteration updates.

    Raises:
        DiagnosticError: TF0207 the loop writes a variable, or the shape of the elements of a list is not known.
    """
    current = list(items)
    for _ in range(len(current) + 1):
        loop = _Loop(building, record, prefix, current)
        try:
            return loop.build(condition, step)
        except UnstackedError as error:
            loop.discard()
            place = next((index for index, each in loop.inner.items() if each is error.source), None)
            if place is None:
                raise
            found = current[place]
            dense = lists.zeros(building, found, record)
            current[place] = TensorList(found.dtype, stacked=dense)
    return current


class _Loop:
    """A loop that is being built."""

    def __init__(self, building: Evaluator, record: Record, prefix: str, items: Sequence[Any]) -> None:
        self.building = building
        self.record = record
        self.prefix = prefix
        self.items = list(items)
        self.graph = Graph(building.graph.fresh(f"{prefix}body"))
        self.inner: dict[int, TensorList] = {}
        """Lists at the start of an iteration that have no tensor, by the index of the loop variable."""
        self.inputs: dict[int, Value] = {}
        """Inputs of the body by the index of the loop variable."""

    def discard(self) -> None:
        """Remove the nodes of a body that is not used."""
        for graph in list(walk(self.graph)):
            graph.set_outputs([])
        for graph in reversed(list(walk(self.graph))):
            for node in reversed(list(graph)):
                node.inputs = []
                graph.remove(node)

    def build(self, condition: Callable[[list[Any]], Any], step: Callable[[list[Any]], list[Any]]) -> list[Any]:
        building = self.building
        building.graph.share_names(self.graph)
        before = states(building)
        with building.inside(self.graph), building.nested(self.prefix):
            self.graph.add_input(self.graph.fresh(f"{self.prefix}iteration"), TensorFact(DType.INT64, ()))
            self.graph.add_input(self.graph.fresh(f"{self.prefix}continue"), TensorFact(DType.BOOL, ()))
            current = [self._begin(index, item) for index, item in enumerate(self.items)]
            after = step(list(current))
            again = building.value(condition(list(after)), self.record)
        refuse_writes(building, before, self.record)
        scans = {index: self._scanned(index, current, after) for index in self.inner if self._is_changed(index, after)}
        return self._finish(condition, after, again, scans)

    def _begin(self, index: int, item: Any) -> Any:
        """The item of a loop variable at the start of an iteration."""
        name = f"{self.prefix}variable_{index}"
        if isinstance(item, Value):
            self.inputs[index] = self.graph.add_input(self.graph.fresh(name), UNKNOWN)
            return self.inputs[index]
        if not isinstance(item, TensorList):
            return item
        if item.stacked is not None:
            self.inputs[index] = self.graph.add_input(self.graph.fresh(name), UNKNOWN)
            return TensorList(item.dtype, stacked=self.inputs[index])
        self.inner[index] = TensorList(item.dtype, size=item.size, element_shape=item.element_shape, is_loop_input=True)
        return self.inner[index]

    def _is_changed(self, index: int, after: Sequence[Any]) -> bool:
        return after[index] is not self.inner[index]

    def _scanned(self, index: int, current: Sequence[Any], after: Sequence[Any]) -> Value:
        """The element that an iteration writes to a list.

        Raises:
            UnstackedError: it is written elsewhere than at the number of the iteration.
        """
        source, result = self.inner[index], after[index]
        if not isinstance(result, TensorList) or result.source is not source or result.element is None:
            raise UnstackedError(source)
        is_in_order = result.index is None or self._is_counter(result.index, current, after)
        if not is_in_order and not self._overwrites(source, result):
            raise UnstackedError(source)
        return result.element

    @staticmethod
    def _overwrites(source: TensorList, result: TensorList) -> bool:
        """Whether each iteration writes the only element of a list."""
        return _scalar(source.size) == 1 and _scalar(result.index) == 0

    def _is_counter(self, value: Value, current: Sequence[Any], after: Sequence[Any]) -> bool:
        """Whether a value is the number of the iteration: a loop variable from 0 to which each iteration adds 1."""
        place = next((index for index, each in enumerate(current) if each is value), None)
        if place is None or _scalar(self.items[place]) != 0:
            return False
        maker = after[place].producer if isinstance(after[place], Value) else None
        if maker is None or maker.op_type not in ("AddV2", "Add") or len(maker.inputs) != 2:
            return False
        one, two = maker.inputs
        return (one is value and _scalar(two) == 1) or (two is value and _scalar(one) == 1)

    def _finish(
        self,
        condition: Callable[[list[Any]], Any],
        after: Sequence[Any],
        again: Value,
        scans: dict[int, Value],
    ) -> list[Any]:
        building, graph = self.building, self.graph
        results = {index: self._value(after[index]) for index in self.inputs}
        fixed = [index for index, value in results.items() if value is self.inputs[index]]
        carried = [index for index in self.inputs if index not in fixed]
        for index in fixed:
            outer = self._value(self.items[index])
            self.inputs[index].replace_uses(outer)
            graph.remove_input(self.inputs[index])
        moved = {self.inputs[index]: self._value(self.items[index]) for index in fixed}
        begins = building.value(condition(list(self.items)), self.record)
        outputs = [again, *(results[index] for index in carried), *scans.values()]
        with building.inside(graph):
            graph.set_outputs(
                isolate_results(building, graph, [moved.get(each, each) for each in outputs], self.prefix)
            )
        operands = [None, begins, *(self._value(self.items[index]) for index in carried)]
        count = len(carried) + len(scans)
        values = building.emit("Loop", operands, {"body": graph}, f"{self.prefix}loop", count, dialect="")
        return self._results(fixed, carried, scans, values, begins, after)

    def _results(
        self,
        fixed: Sequence[int],
        carried: Sequence[int],
        scans: dict[int, Value],
        values: Sequence[Value],
        begins: Value,
        after: Sequence[Any],
    ) -> list[Any]:
        found: list[Any] = []
        place = dict(zip([*carried, *scans], values, strict=True))
        for index, item in enumerate(self.items):
            if index in fixed or index not in place:
                found.append(item)
            elif index in scans:
                found.append(self._list_of(item, after[index], place[index], begins))
            elif isinstance(item, TensorList):
                found.append(TensorList(item.dtype, stacked=place[index]))
            else:
                found.append(place[index])
        return found

    def _list_of(self, item: TensorList, written: TensorList, scanned: Value, begins: Value) -> TensorList:
        """The list after the loop; elements that no iteration wrote are zeros."""
        if _scalar(item.size) == 1 and _scalar(written.index) == 0:
            last = self.building.constant(np.array([-1], np.int64))
            stacked = self.building.emit("TensorListGather", [scanned, last], {}, f"{self.prefix}last")[0]
            return TensorList(item.dtype, stacked=stacked)
        if item.size is None or _is_bounded_by(begins, item.size):
            return TensorList(item.dtype, stacked=scanned)
        padded = self.building.emit("TensorListResize", [scanned, item.size], {}, f"{self.prefix}padded")[0]
        return TensorList(item.dtype, stacked=padded)

    def _value(self, item: Any) -> Value:
        if isinstance(item, Dead):
            self.building.refuse(
                "TF0207", "a loop without results", f"node {self.record.name}", "freeze the model again"
            )
        return self.building.value(item, self.record)


def _scalar(item: Any) -> Any:
    storage = item.storage if isinstance(item, Value) else None
    return None if storage is None or storage.count != 1 else storage.numpy().reshape(-1)[0]


def _is_bounded_by(begins: Value, size: Value) -> bool:
    """Whether a loop runs `size` times: all conditions are that a counter is less than that."""
    maker = begins.producer
    if maker is None or maker.op_type not in _SIMPLE:
        return False
    if maker.op_type == "Less":
        bound = maker.operand(1)
        return _scalar(maker.operand(0)) == 0 and bound is not None and are_equal(bound, size)
    return all(_is_bounded_by(each, size) for each in maker.operands)


def are_equal(one: Value, two: Value) -> bool:
    """Whether two values are equal because equal operators compute them from equal values."""
    stack, left = [(one, two)], _MAX_COMPARED
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        left -= 1
        if left < 0:
            return False
        if a.storage is not None and b.storage is not None:
            same = a.storage.count == b.storage.count <= _MAX_COMPARED and bool(
                (a.storage.numpy().reshape(-1) == b.storage.numpy().reshape(-1)).all()
            )
            if not same:
                return False
            continue
        if not _are_alike(a.producer, b.producer):
            return False
        stack += zip(_operands(a.producer), _operands(b.producer), strict=True)
    return True


def _operands(node: Node | None) -> list[Value]:
    return [] if node is None else node.operands


def _are_alike(one: Node | None, two: Node | None) -> bool:
    if one is None or two is None or one.has_bodies or two.has_bodies:
        return False
    return one.op == two.op and dict(one.attributes) == dict(two.attributes) and len(one.operands) == len(two.operands)
