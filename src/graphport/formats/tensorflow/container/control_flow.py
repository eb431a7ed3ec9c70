"""Branches and loops: functions of TensorFlow 2, and Switch, Merge, Enter and Exit of TensorFlow 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.container.findings import EXPORT
from graphport.formats.tensorflow.container.items import DEAD, Dead, Frame, Table, TensorList, Variable
from graphport.formats.tensorflow.container.loops import build_loop
from graphport.formats.tensorflow.container.records import FunctionRef
from graphport.formats.tensorflow.container.results import isolate_results, refuse_writes, states
from graphport.ir.graph import Graph, Value
from graphport.ops.declare import MAX_RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.tensorflow.container.evaluator import Evaluator
    from graphport.formats.tensorflow.container.records import Body, Record, Ref

_BRANCHES = frozenset({"If", "StatelessIf"})
_CASES = frozenset({"Case", "StatelessCase"})
_LOOPS = frozenset({"While", "StatelessWhile"})
FUNCTIONAL = _BRANCHES | _CASES | _LOOPS
_ENTER, _EXIT, _MERGE, _NEXT, _SWITCH = "Enter", "Exit", "Merge", "NextIteration", "Switch"
_ALIASES = {
    "_SwitchN": _SWITCH,
    "RefEnter": _ENTER,
    "RefExit": _EXIT,
    "RefMerge": _MERGE,
    "RefNextIteration": _NEXT,
    "RefSwitch": _SWITCH,
}
_PASSING = frozenset({"Identity", "StopGradient", "RefIdentity"})
_MALFORMED = "the control flow of the graph is malformed; freeze the model again"


def _control_op_type(record: Record) -> str:
    return _ALIASES.get(record.op_type, record.op_type)


@dataclass(slots=True)
class LoopFrame:
    """A loop of TensorFlow 1: the nodes of one frame."""

    name: str
    enters: list[Record] = field(default_factory=list["Record"])
    merges: list[Record] = field(default_factory=list["Record"])
    nexts: list[Ref] = field(default_factory=list["Ref"])
    """The input of the NextIteration of each Merge."""
    begins: list[Record] = field(default_factory=list["Record"])
    """The Enter of each Merge."""
    switches: dict[str, int] = field(default_factory=dict[str, int])
    """The index of the Merge that a Switch reads, by the name of the Switch."""
    exits: dict[str, int] = field(default_factory=dict[str, int])
    condition: Ref = ("", 0)


def _loop_frames(building: Evaluator, body: Body) -> dict[str, LoopFrame]:
    """The loops of TensorFlow 1 in a graph, by the names of their Exit nodes."""
    if body.loops is None:
        body.loops = _find_loops(building, body)
    return body.loops


def _find_loops(building: Evaluator, body: Body) -> dict[str, LoopFrame]:
    frames: dict[str, LoopFrame] = {}
    of_enter: dict[str, LoopFrame] = {}
    of_merge: dict[str, tuple[LoopFrame, int]] = {}
    for record in body.nodes.values():
        if _control_op_type(record) in (_ENTER, "LoopCond") and not record.inputs:
            building.refuse("TF0207", f"{record.op_type} has no input", f"node {record.name}", _MALFORMED)
        if _control_op_type(record) == _ENTER:
            name = str(record.attribute("frame_name", building.findings))
            frame = frames.setdefault(name, LoopFrame(name))
            frame.enters.append(record)
            of_enter[record.name] = frame
    for record in body.nodes.values():
        if _control_op_type(record) == _MERGE:
            _add_merge(body, record, of_enter, of_merge)
    found: dict[str, LoopFrame] = {}
    for record in body.nodes.values():
        if _control_op_type(record) == _SWITCH and len(record.inputs) > 1:
            source = _source(body, record.inputs[0])
            if source[0] in of_merge:
                frame, index = of_merge[source[0]]
                frame.switches[record.name] = index
                frame.condition = record.inputs[1]
    for record in body.nodes.values():
        if _control_op_type(record) == _EXIT and record.inputs:
            for frame in frames.values():
                if record.inputs[0][0] in frame.switches:
                    frame.exits[record.name] = frame.switches[record.inputs[0][0]]
                    found[record.name] = frame
    return found


def _add_merge(
    body: Body, record: Record, of_enter: dict[str, LoopFrame], of_merge: dict[str, tuple[LoopFrame, int]]
) -> None:
    makers = [body.nodes.get(name) for name, _ in record.inputs]
    enter = next((each for each in makers if each is not None and each.name in of_enter), None)
    following = next((each for each in makers if each is not None and _control_op_type(each) == _NEXT), None)
    if enter is None or following is None or not following.inputs:
        return
    frame = of_enter[enter.name]
    of_merge[record.name] = frame, len(frame.merges)
    frame.merges.append(record)
    frame.begins.append(enter)
    frame.nexts.append(following.inputs[0])


def _source(body: Body, ref: Ref) -> Ref:
    """The tensor that a tensor is a copy of."""
    for _ in range(len(body.nodes)):
        record = body.nodes.get(ref[0])
        if record is None or record.op_type not in _PASSING or not record.inputs:
            break
        ref = record.inputs[0]
    return ref


def needs(building: Evaluator, frame: Frame, record: Record) -> list[str] | None:
    """The nodes that must be evaluated before a node of control flow; `None` for other nodes: all of its inputs."""
    kind = _control_op_type(record)
    if kind == _EXIT:
        loop = _loop_frames(building, frame.body).get(record.name)
        return None if loop is None else [name for each in loop.enters for name, _ in each.inputs]
    if kind == _MERGE:
        return [_predicate(building, frame, record)[0][0]]
    return None


def evaluate(building: Evaluator, frame: Frame, record: Record) -> bool:
    """Evaluate a node of control flow; return whether it is one."""
    kind = _control_op_type(record)
    if kind == _EXIT:
        _exit(building, frame, record)
    elif kind == _MERGE:
        _merge(building, frame, record)
    elif kind == _SWITCH:
        _switch(building, frame, record)
    elif kind in (_ENTER, _NEXT):
        building.refuse("TF0207", f"{record.op_type} is not in a terminated loop", f"node {record.name}", _MALFORMED)
    elif kind == "LoopCond" and record.inputs:
        frame.items[record.name, 0] = building.resolve(frame, record.inputs[0])
    elif kind in FUNCTIONAL:
        _functional(building, frame, record)
    else:
        return False
    return True


# Functions as branches and bodies


def _functional(building: Evaluator, frame: Frame, record: Record) -> None:
    operands = [building.resolve(frame, ref) for ref in record.inputs]
    prefix = f"{frame.prefix}{record.name}/"

    def bodies(*names: str) -> list[Body]:
        attributes = [record.attribute(name, building.findings) for name in names]
        elements: list[Any] = []
        for attribute in attributes:
            elements += attribute if type(attribute) is tuple else (attribute,)
        functions = [element for element in elements if isinstance(element, FunctionRef)]
        if not functions or len(functions) < len(elements):
            building.refuse("TF0201", f"{record.op_type} has no function name", f"node {record.name}", _MALFORMED)
        return [building.function(function.name, record.name) for function in functions]

    def branch(body: Body) -> Callable[[], list[Any]]:
        return lambda: building.call(body, operands[1:], prefix)

    if record.op_type in _LOOPS:
        condition, step = bodies("cond", "body")
        results = build_loop(
            building,
            record,
            prefix,
            operands,
            lambda items: building.call(condition, items, prefix)[0],
            lambda items: building.call(step, items, prefix),
        )
    elif not operands:
        building.refuse("TF0201", f"{record.op_type} has no condition", f"node {record.name}", _MALFORMED)
    elif record.op_type in _BRANCHES:
        then, other = bodies("then_branch", "else_branch")
        chosen = _boolean(building, building.value(operands[0], record), record, prefix)
        results = build_if(building, record, prefix, chosen, branch(then), branch(other))
    else:
        results = _case(building, record, prefix, operands[0], [branch(each) for each in bodies("branches")])
    for index, item in enumerate(results):
        frame.items[record.name, index] = item


def _boolean(building: Evaluator, value: Value, record: Record, prefix: str) -> Value:
    """A condition, which may be a number, as a boolean."""
    dtype = record.attribute("Tcond", building.findings)
    if dtype is None or dtype is DType.BOOL:
        return value
    return building.emit("Cast", [value], {"SrcT": dtype, "DstT": DType.BOOL, "Truncate": False}, f"{prefix}cond")[0]


def _case(
    building: Evaluator, record: Record, prefix: str, index: Any, branches: Sequence[Callable[[], list[Any]]]
) -> list[Any]:
    """The branch of an index; the last one for an index that has none."""
    number = building.value(index, record)

    def build_branches_from(first: int) -> list[Any]:
        if first == len(branches) - 1:
            return branches[first]()
        here = building.constant(np.array(first, np.int32))
        is_here = building.emit("Equal", [number, here], {}, f"{prefix}is_{first}")[0]
        return build_if(building, record, prefix, is_here, branches[first], lambda: build_branches_from(first + 1))

    with building.nested(record.name):
        return build_branches_from(0)


def build_if(
    building: Evaluator,
    record: Record,
    prefix: str,
    condition: Value,
    then: Callable[[], list[Any]],
    other: Callable[[], list[Any]],
) -> list[Any]:
    """The results of one of two branches.

    Raises:
        DiagnosticError: TF0207 a branch writes a variable, or their results differ in kind.
    """
    graphs: list[Graph] = []
    found: list[list[Any]] = []
    for name, branch in (("then", then), ("else", other)):
        graph = Graph(building.graph.fresh(f"{prefix}{name}"))
        before = states(building)
        with building.inside(graph), building.nested(prefix):
            found.append(branch())
        refuse_writes(building, before, record)
        graphs.append(graph)
    results: list[Any] = []
    pairs: list[tuple[Value, Value]] = []
    for one, two in zip(*found, strict=False):
        if one is two and not isinstance(one, Value):
            results.append(one)
            continue
        if isinstance(one, Dead) or isinstance(two, Dead) or isinstance(one, Variable | Table):
            building.refuse(
                "TF0207", f"unsupported: {record.op_type} selects a resource", f"node {record.name}", EXPORT
            )
        is_list = isinstance(one, TensorList)
        with building.inside(graphs[0]):
            first = building.value(one, record)
        with building.inside(graphs[1]):
            second = building.value(two, record)
        pairs.append((first, second))
        results.append(TensorList(one.dtype) if is_list else None)
    if not pairs:
        return results
    for place, graph in enumerate(graphs):
        with building.inside(graph):
            graph.set_outputs(isolate_results(building, graph, [pair[place] for pair in pairs], prefix))
    bodies = {"then_branch": graphs[0], "else_branch": graphs[1]}
    values = iter(building.emit("If", [condition], bodies, f"{prefix}if", len(pairs), dialect=""))
    for index, item in enumerate(results):
        if item is None:
            results[index] = next(values)
        elif isinstance(item, TensorList) and item.stacked is None and item.size is None:
            item.stacked = next(values)
    return results


# TensorFlow 1


def _exit(building: Evaluator, frame: Frame, record: Record) -> None:
    loop = _loop_frames(building, frame.body).get(record.name)
    if loop is None:
        building.refuse("TF0207", "Exit is not in a loop", f"node {record.name}", _MALFORMED)
    constants = {each.name: building.resolve(frame, each.inputs[0]) for each in loop.enters if each not in loop.begins}
    items = [building.resolve(frame, each.inputs[0]) for each in loop.begins]

    def fork_frame(current: Sequence[Any], *, is_body: bool) -> Frame:
        inner = frame.fork()
        for name, item in constants.items():
            inner.items[name, 0] = item
            inner.done.add(name)
        for merge, item in zip(loop.merges, current, strict=True):
            inner.items[merge.name, 0] = item
            inner.done.add(merge.name)
        for name, index in loop.switches.items() if is_body else ():
            inner.items[name, 1] = current[index]
            inner.items[name, 0] = DEAD
            inner.done.add(name)
        return inner

    results = build_loop(
        building,
        record,
        f"{frame.prefix}{loop.name}/",
        items,
        lambda current: building.evaluate(fork_frame(current, is_body=False), [loop.condition])[0],
        lambda current: building.evaluate(fork_frame(current, is_body=True), loop.nexts),
    )
    for name, index in loop.exits.items():
        frame.items[name, 0] = results[index]
        frame.done.add(name)


def _switch(building: Evaluator, frame: Frame, record: Record) -> None:
    source, *predicates = record.inputs or (None,)
    side = frame.side(_source(frame.body, predicates[0])) if predicates else None
    if source is None or side is None:
        text = f"Switch {record.name} does not end in Merge"
        building.refuse("TF0207", text, f"node {record.name}", _MALFORMED)
    stated = record.attribute("num_outs", building.findings)
    count = stated if isinstance(stated, int) and 0 < stated <= MAX_RESULTS else 2
    item = building.resolve(frame, source)
    for index in range(max(count, side + 1)):
        frame.items[record.name, index] = item if index == side else DEAD


def _merge(building: Evaluator, frame: Frame, record: Record) -> None:
    predicate, sides = _predicate(building, frame, record)
    known = frame.side(predicate)
    if known is not None:
        place = sides.index(known) if known in sides else len(sides) - 1
        with building.nested(record.name):
            frame.items[record.name, 0] = building.evaluate(frame.fork(), [record.inputs[place]])[0]
        return
    condition = building.value(building.resolve(frame, predicate), record)
    prefix = f"{frame.prefix}{record.name}/"

    def branch(side: int) -> Callable[[], list[Any]]:
        inner = frame.fork()
        inner.taken[predicate] = side
        return lambda: building.evaluate(inner, [record.inputs[sides.index(side)]])

    if _is_numbered(frame.body, record):
        results = _case(building, record, prefix, condition, [branch(side) for side in sorted(sides)])
    else:
        results = build_if(building, record, prefix, condition, branch(1), branch(0))
    frame.items[record.name, 0] = results[0]


def _is_numbered(body: Body, record: Record) -> bool:
    """Whether an integer selects the branches of a Merge: their source is `_SwitchN`."""
    found = [each for ref in record.inputs for each in _switches(body, ref, is_near=True)]
    users = {each.inputs[1] for each in body.nodes.values() if each.op_type == "_SwitchN" and len(each.inputs) > 1}
    return any(each in {_source(body, ref) for ref in users} for each in found)


def _predicate(building: Evaluator, frame: Frame, record: Record) -> tuple[Ref, list[int]]:
    """The predicate that decides which input of a Merge is alive, and the result of Switch that each input needs.

    Raises:
        DiagnosticError: TF0207 there is none.
    """
    for is_near in (True, False):
        found = [_switches(frame.body, ref, is_near=is_near) for ref in record.inputs]
        for predicate in found[0] if len(found) > 1 else ():
            sides = [each.get(predicate, -1) for each in found]
            if sorted(sides) == list(range(len(sides))):
                return predicate, sides
    if len(record.inputs) == 2:
        near = [_switches(frame.body, ref, is_near=True) for ref in record.inputs]
        for place, other in ((0, 1), (1, 0)):
            # A branch that only returns a constant may have no Switch before it.
            for predicate, side in near[place].items() if not near[other] else ():
                if side in (0, 1):
                    return predicate, [side, 1 - side] if place == 0 else [1 - side, side]
    text = f"Merge {record.name} has no condition that decides between its inputs"
    return building.refuse("TF0207", text, f"node {record.name}", _MALFORMED)


def _switches(body: Body, ref: Ref, *, is_near: bool) -> dict[Ref, int]:
    """The predicates of the Switch nodes that a tensor depends on, with the result that it needs, -1 for several.

    `is_near`: only the Switch nodes that are met first on each path.
    """
    found: dict[Ref, int] = {}
    seen: set[Ref] = set()
    stack = [ref]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        record = body.nodes.get(current[0])
        if record is None:
            continue
        if _control_op_type(record) == _SWITCH and len(record.inputs) > 1:
            predicate = _source(body, record.inputs[1])
            side = current[1]
            found[predicate] = side if found.get(predicate, side) == side else -1
            if is_near:
                continue
            stack.append(record.inputs[0])
            continue
        stack += record.inputs
        stack += [(name, 0) for name in record.controls]
    return found
