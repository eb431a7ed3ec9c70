"""Variables of OpenVINO's models that begin with what their first run computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.openvino.container.shapes import write_shape
from graphport.ir import states
from graphport.ir.graph import Graph, Node, Value

_GATHERS = ("opset1.Gather", "opset7.Gather", "opset8.Gather")


def select_start(graph: Graph, node: Node, state: Value) -> Value | None:
    """Return the value to use for reads of a variable whose initial value depends on the run, else `None`.

    Before  s = ReadValue(start, variable_id='v')
    After   s = If(states_are_kept, then_branch={return v}, else_branch={return start})

    A variable without start is empty along its open axes. If another axis is empty, the runtime gathers any index along
    an empty axis: such a variable begins with as many entries as are gathered.
    """
    start = node.operand(0) or _gathered(graph, node, state)
    if start is None:
        return None
    read = Value(graph.fresh(f"{state.name}_read"), UNKNOWN)
    branches = {"then_branch": _body("kept", state), "else_branch": _body("first", start)}
    graph.insert_before(node, Node("If", [_flag(graph)], [read], branches, origin=node.origin))
    return read


def _body(name: str, value: Value) -> Graph:
    body = Graph(name)
    result = Value(f"{value.name}_{name}", value.fact)
    body.append(Node("Identity", [value], [result]))
    body.add_output(result)
    return body


def _flag(graph: Graph) -> Value:
    """Return the boolean input that selects stored variables instead of initial values; create it if needed."""
    found = next((value for value in graph.inputs if states.is_flag(value)), None)
    if found is not None:
        return found
    flag = graph.add_input(states.KEPT, TensorFact(DType.BOOL, ()))
    flag.storage = ArrayStorage(np.zeros((), np.bool_))
    yes = ArrayStorage(np.ones((), np.bool_))
    result = Value(f"{flag.name}_next", flag.fact)
    graph.append(Node("Identity", [graph.add_constant("yes", flag.fact, yes)], [result]))
    graph.add_output(result)
    states.mark(flag, states.State(result.name, states.KEPT))
    return flag


def _gathered(graph: Graph, node: Node, state: Value) -> Value | None:
    """Return zeros with one entry per gathered index, for a variable that is empty along another open axis."""
    fact = state.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None:
        return None
    open_axes = [axis for axis, dim in enumerate(fact.shape) if isinstance(dim, Symbolic)]
    for user in node.output.users:
        indices, axis = user.operand(1), _scalar_of(user.operand(2))
        if user.dialect != "openvino" or user.op_type not in _GATHERS or indices not in graph.input_set or axis is None:
            continue
        axis %= max(len(fact.shape), 1)
        if indices is None or axis not in open_axes or len(open_axes) < 2 or user.operand(0) is not node.output:
            continue

        def append_node(op_type: str, *operands: Value, **attributes: int) -> Value:
            result = Value(graph.fresh(f"{state.name}_{op_type.lower()}"), UNKNOWN)
            graph.insert_before(node, Node(op_type, operands, [result], attributes, origin=node.origin))
            return result

        count = append_node("Reshape", append_node("Size", indices), _constant(graph, np.array([1], np.int64)))
        known = np.array([0 if isinstance(dim, Symbolic) else dim for dim in fact.shape], np.int64)
        front, back = (_constant(graph, part) for part in (known[:axis], known[axis + 1 :]))
        shape = append_node("Concat", front, count, back, axis=0)
        return append_node("Expand", _constant(graph, np.zeros((), fact.dtype.numpy)), shape)
    return None


def _constant(graph: Graph, array: np.ndarray[Any, Any]) -> Value:
    storage = ArrayStorage(array)
    return graph.add_constant("start", TensorFact.of(storage), storage)


def _scalar_of(value: Value | None) -> int | None:
    storage = None if value is None or not value.is_constant else value.storage
    return None if storage is None or storage.count != 1 else int(storage.numpy().reshape(-1)[0])


def restore(graph: Graph) -> None:
    """Undo `select_start`: read variables again, and remove an unused flag."""
    for node in list(graph):
        if node.dialect or node.op_type != "If" or not states.is_flag(node.operand(0)):
            continue
        state, start = (_outer(node.attributes.get(name)) for name in ("then_branch", "else_branch"))
        if state is not None and start is not None and states.state_of(state) is not None and len(state.uses) == 1:
            _read(graph, node, state, start)
    for flag in [value for value in graph.inputs if states.is_flag(value) and not value.uses]:
        kept = states.state_of(flag)
        graph.set_outputs([value for value in graph.outputs if kept is None or value.name != kept.output])
        graph.remove_input(flag)


def variable_dtype(dtype: DType | None) -> DType | None:
    """Return the element type of a variable: int32 for 16-bit and int64 states, which the CPU plugin lacks."""
    return DType.INT32 if dtype in {DType.INT16, DType.UINT16, DType.INT64} else dtype


def _read(graph: Graph, choice: Node, state: Value, start: Value) -> None:
    """Replace the If that selects the start of a variable by a ReadValue."""
    fact = state.fact if isinstance(state.fact, TensorFact) else TensorFact(None, None)
    kept = states.state_of(state)
    own = variable_dtype(fact.dtype)
    attributes = {
        "variable_id": state.name if kept is None else kept.variable,
        "variable_type": own,
        "variable_shape": write_shape(fact.shape, least=1),
    }

    def append_node(op_type: str, value: Value, to: DType | None) -> Value:
        result = Value(graph.fresh(f"{state.name}_read"), TensorFact(to, fact.shape))
        graph.insert_before(choice, Node(op_type, [value], [result], {"to": to}, origin=choice.origin))
        return result

    operands = [] if _is_empty(start, choice) else [start if own is fact.dtype else append_node("Cast", start, own)]
    result = Value(graph.fresh(f"{state.name}_read"), TensorFact(own, fact.shape))
    node = Node("opset6.ReadValue", operands, [result], attributes, dialect="openvino", origin=choice.origin)
    graph.insert_before(choice, node)
    choice.output.replace_uses(result if own is fact.dtype else append_node("Cast", result, fact.dtype))
    graph.remove(choice)


def _is_empty(start: Value, choice: Node) -> bool:
    """Whether an initial value is empty and used by Gather only: OpenVINO then starts with it by default.

    A static 0 in a start would fix the length of the variable in every run.
    """
    shape = start.shape
    return 0 in (shape or ()) and all(user.op_type == "Gather" and not user.dialect for user in choice.output.users)


def _outer(body: object) -> Value | None:
    """Return the outer value that a body returns unchanged."""
    if not isinstance(body, Graph) or len(body.outputs) != 1:
        return None
    (result,) = body.outputs
    maker = result.producer
    while maker is not None and maker.graph is body and not maker.dialect and maker.op_type == "Identity":
        result = maker.operands[0]
        maker = result.producer
    return None if (maker is not None and maker.graph is body) or result in body.constants else result
