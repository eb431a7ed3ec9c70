"""Convert variables (ReadValue, Assign) to inputs and outputs, and back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbolic, bounds
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.openvino.container.shapes import UnreadableError, read_shape, write_shape
from graphport.formats.openvino.graph_passes.variable_initializers import select_start, variable_dtype
from graphport.ir import rewrite, states
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.constant_folding import Computed, folded

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.storage import Storage

READ, ASSIGN = ("opset3.ReadValue", "opset6.ReadValue"), ("opset3.Assign", "opset6.Assign")
_COPIES = ("opset1.Convert", "opset16.Identity")
_MAX_EVALUATED_NODES = 64
"""Layers to evaluate for the initial value of a variable."""
_MAX_ZEROS = 1 << 24
"""Elements of a zero-initialized variable that is materialized."""


def expose_states(graph: Graph, legalize: Callable[[Graph], None]) -> None:
    """Convert each variable to an input and an output that holds its value for the next run.

    Before  s = ReadValue(start, variable_id='v');  t = f(s, x);  Assign(t, variable_id='v')
    After   v is an input with default `start`;  t = f(v, x);  v_next = Identity(t);  v_next is an output

    A variable without start begins with zeros and is empty along open axes. If the start depends on inputs, the first
    run computes it (`variable_initializers`).
    """
    updates = {str(node.attributes.get("variable_id")): node for node in graph if has_op_type(node, ASSIGN)}
    for node in [node for node in graph if has_op_type(node, READ)]:
        variable = str(node.attributes.get("variable_id"))
        update = updates.pop(variable, None)
        source = None if update is None else update.operand(0)
        if update is None or source is None or not node.outputs:
            continue
        state = graph.adopt_input(Value(graph.fresh(variable), _declared_fact(node), origin=node.origin))
        state.storage = _initial_value(node, state, legalize)
        result = Value(graph.fresh(f"{variable}_next"), source.fact)
        graph.insert_before(update, Node("Identity", [source], [result], origin=update.origin))
        _take_names(state, node, variable)
        _take_names(result, update, f"{variable}_next")
        read = select_start(graph, node, state) if state.storage is None or node.operand(0) is None else None
        if state.storage is None and read is not None:
            state.storage = _zeros(state)
        if state.storage is not None or node.operand(0) is None:
            states.mark(state, states.State(result.name, variable))
        node.output.replace_uses(read or state)
        for old in update.results:
            old.replace_uses(source)
        graph.remove(update)
        graph.remove(node)
        graph.add_output(result)


def _take_names(value: Value, node: Node, name: str) -> None:
    """Exchange the names of `value` and of the result of `node` that is named `name`."""
    for old in node.results:
        if old.name == name:
            rewrite.swap_names(value, old)


def hide_states(graph: Graph) -> None:
    """Convert inputs that were variables to ReadValue, in order, and outputs for the next run to Assign."""
    last: Node | None = None
    restored = {str(node.attributes.get("variable_id")): node for node in graph if has_op_type(node, READ)}
    for state, result, kept in states.state_pairs(graph):
        fact = state.fact if isinstance(state.fact, TensorFact) else TensorFact(None, None)
        own = variable_dtype(fact.dtype)
        if kept.variable not in restored:
            read = _read(graph, state, kept, own, last)
            last = read.producer
            if own is not fact.dtype:
                read = _convert_after(graph, read.producer, read, fact.dtype)
            rewrite.swap_names(state, read)
            state.replace_uses(read)
        graph.remove_input(state)
        assigned = Value(graph.fresh(result.name), result.fact)
        if not kept.is_returned:
            graph.set_outputs([value for value in graph.outputs if value is not result])
        source = _skip_copy(graph, result)
        if not kept.is_returned:
            rewrite.swap_names(result, assigned)
        if own is not fact.dtype:
            source = _convert_after(graph, None, source, own)
            assigned.fact = source.fact
        attributes = {"variable_id": kept.variable}
        graph.append(Node("opset6.Assign", [source], [assigned], attributes, dialect="openvino"))


def _read(graph: Graph, state: Value, kept: states.State, own: DType | None, last: Node | None) -> Value:
    """Read a variable instead of an input, with the input's default as start; insert it after `last`."""
    fact = state.fact if isinstance(state.fact, TensorFact) else TensorFact(None, None)
    attributes = {
        "variable_id": kept.variable,
        "variable_type": own,
        "variable_shape": write_shape(fact.shape, least=1),
    }
    read = Value(graph.fresh(state.name), TensorFact(own, fact.shape))
    start: list[Value] = []
    if state.storage is not None:
        storage = state.storage if own is fact.dtype or own is None else _as(state.storage, own)
        start = [graph.add_constant(f"{kept.variable}_start", TensorFact.of(storage), storage)]
    elif (empty := _empty_start(graph, state, fact, own, last)) is not None:
        start, last = [empty], empty.producer
    node = Node("opset6.ReadValue", start, [read], attributes, dialect="openvino", origin=state.origin)
    graph.insert_after(last, node)
    return read


def _empty_start(graph: Graph, state: Value, fact: TensorFact, own: DType | None, last: Node | None) -> Value | None:
    """Append an empty start after `last`: dims that may be 0 are 0, other open dims are those of ordinary inputs.

    Before  ReadValue()  begins with 0 along every open axis
    After   ReadValue(Broadcast(0, Concat(ShapeOf(x)[i], n, 0, …)))

    Returns None if all open dims may be 0 or one is not a dim of an input.
    """
    if fact.shape is None or own is None:
        return None
    can_be_empty = [isinstance(dim, Symbolic) and bounds(dim)[0] == 0 for dim in fact.shape]
    opened = [dim for dim, is_empty in zip(fact.shape, can_be_empty, strict=True) if not is_empty]
    places = {dim: _find_dim(graph, state, dim) for dim in opened if isinstance(dim, Symbolic)}
    if not any(can_be_empty) or not places or None in places.values():
        return None

    def constant(array: np.ndarray[Any, Any], name: str) -> Value:
        storage = ArrayStorage(array)
        return graph.add_constant(name, TensorFact.of(storage), storage)

    def append(op_type: str, operands: list[Value], made: TensorFact, **attributes: Any) -> Value:
        nonlocal last
        value = Value(graph.fresh(f"{state.name}_start"), made)
        last = graph.insert_after(last, Node(op_type, operands, [value], attributes, dialect="openvino"))
        return value

    parts: list[Value] = []
    index = TensorFact(DType.INT64, (1,))
    for dim, is_empty in zip(fact.shape, can_be_empty, strict=True):
        place = places.get(dim) if isinstance(dim, Symbolic) else None
        if is_empty or place is None:
            parts.append(constant(np.array([0 if is_empty else int(str(dim))], np.int64), "dim"))
            continue
        source, axis = place
        whole = append(
            "opset3.ShapeOf", [source], TensorFact(DType.INT64, (len(source.shape or ()),)), output_type=DType.INT64
        )
        picked = [whole, constant(np.array([axis], np.int64), "axis"), constant(np.array(0, np.int64), "axis")]
        parts.append(append("opset8.Gather", picked, index, batch_dims=0))
    shape = append("opset1.Concat", parts, TensorFact(DType.INT64, (len(parts),)), axis=0)
    zero = constant(np.zeros((), own.numpy), "zero")
    return append("opset3.Broadcast", [zero, shape], TensorFact(own, fact.shape), mode="numpy")


def _find_dim(graph: Graph, state: Value, dim: Symbolic) -> tuple[Value, int] | None:
    """Return an ordinary input with an axis of that size, and the axis."""
    for value in graph.inputs:
        if value is not state and states.state_of(value) is None and dim in (value.shape or ()):
            return value, (value.shape or ()).index(dim)
    return None


def _as(storage: Storage, dtype: DType) -> Storage:
    def narrowed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.astype(dtype.numpy)

    return Computed(narrowed, (storage,), dtype, storage.shape)


def _convert_after(graph: Graph, place: Node | None, value: Value, dtype: DType | None) -> Value:
    """Convert a value to another type, after `place` or at the end."""
    shape = value.shape
    made = Value(graph.fresh(value.name), TensorFact(dtype, shape))
    node = Node("opset1.Convert", [value], [made], {"destination_type": dtype}, dialect="openvino")
    if place is None:
        graph.append(node)
    else:
        graph.insert_after(place, node)
    return made


def _skip_copy(graph: Graph, result: Value) -> Value:
    """Return the source of a result that is an unused copy, and remove the copy; else the result."""
    copy = result.producer
    if copy is None or result.uses or result.is_output or not has_op_type(copy, _COPIES):
        return result
    (source,) = copy.operands
    if source.fact != result.fact:
        return result
    graph.remove(copy)
    return source


def has_op_type(node: Node, words: tuple[str, ...]) -> bool:
    """Whether a node is an OpenVINO node with one of the op types `words`."""
    return node.dialect == "openvino" and node.op_type in words


def _declared_fact(node: Node) -> TensorFact:
    """Return the fact of a variable: its declaration, else that of its start, else that of its port."""
    start, claim = node.operand(0), node.output.fact
    fact = claim if isinstance(claim, TensorFact) else TensorFact(None, None)
    if start is not None and isinstance(start.fact, TensorFact):
        fact = TensorFact(start.fact.dtype or fact.dtype, fact.shape if start.fact.shape is None else start.fact.shape)
    dtype, text = node.attributes.get("variable_type"), node.attributes.get("variable_shape")
    shape = fact.shape
    if isinstance(text, str) and text:
        with suppress(UnreadableError):
            shape = read_shape(text, str(node.attributes.get("variable_id")), lower=0)
    return TensorFact(dtype if isinstance(dtype, DType) else fact.dtype, shape)


def _initial_value(node: Node, state: Value, legalize: Callable[[Graph], None]) -> Storage | None:
    """Return the initial value of the variable if it is known before a run."""
    start = node.operand(0)
    if start is not None:
        return start.storage if start.is_constant else _evaluate(start, legalize)
    return _zeros(state)


def _zeros(state: Value) -> Storage | None:
    """Return zeros of a variable's shape; open axes have length 0."""
    fact = state.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None:
        return None
    shape = tuple(dim if isinstance(dim, int) else 0 for dim in fact.shape)
    if int(np.prod(shape, dtype=object)) > _MAX_ZEROS:
        return None
    return ArrayStorage(np.zeros(shape, fact.dtype.numpy), fact.dtype)


def _evaluate(value: Value, legalize: Callable[[Graph], None]) -> Storage | None:
    """Evaluate a value that depends on constants only; `None` otherwise."""
    needed: dict[Node, None] = {}
    pending = [value]
    while pending:
        maker = pending.pop().producer
        if maker is None or maker in needed:
            continue
        if len(needed) == _MAX_EVALUATED_NODES or any(True for _ in maker.bodies()):
            return None
        needed[maker] = None
        pending += maker.operands
    if any(operand.producer is None and not operand.is_constant for node in needed for operand in node.operands):
        return None
    alone = Graph("start")
    twins: dict[Value, Value] = {}
    for node in [node for node in value.graph or () if node in needed]:
        for operand in node.operands:
            if operand not in twins:
                twins[operand] = alone.add_constant(operand.name, operand.fact, operand.storage)
        made = alone.append(rewrite.copy_node(node, twins))
        twins |= {old: new for old, new in zip(node.outputs, made.outputs, strict=True) if old and new}
    alone.add_output(twins[value])
    legalize(alone)
    return folded(alone.outputs[0])
