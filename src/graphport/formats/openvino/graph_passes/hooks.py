"""OpenVINO keeps state in variables of the model, and may return one tensor twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage, Storage
from graphport.formats.openvino import MEAN_VALUES, result_names
from graphport.formats.openvino.container.notes import DECOMPRESSION
from graphport.formats.openvino.graph_passes.opset_conversion import rule as older
from graphport.formats.openvino.graph_passes.states import ASSIGN, expose_states, has_op_type, hide_states
from graphport.formats.openvino.graph_passes.variable_initializers import restore
from graphport.formats.openvino.rules.generate_range import differing_counts
from graphport.ir.graph import Node, Value
from graphport.ops.constant_folding import Widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Graph

__all__ = ["after_export", "before", "before_export", "before_using_rules", "older"]

_MOST_CHANNELS = 1024
"""Scales of one tensor that are looked at."""


def before(graph: Graph) -> list[Diagnostic]:
    """Warn of each Range-4 whose number of elements depends on how the ambiguous specification is read."""
    findings: list[Diagnostic] = []
    for node in graph:
        counts = differing_counts(node)
        if counts is not None:
            message = f"{node.op} has {counts[0]} elements; without casting its operands first it has {counts[1]}"
            help_ = "the specification is ambiguous: use integer operands, or cast the result of a float Range"
            findings.append(Diagnostic("OV0113", message, node.origin, help_, Severity.WARNING))
    return findings


def before_using_rules(graph: Graph, legalize: Callable[[Graph], None]) -> None:
    """Convert variables to inputs and outputs, and make every output a separate value."""
    _drop_dead(graph)
    _subtract_preprocess_mean(graph)
    expose_states(graph, legalize)
    _name_dequantization(graph)
    _widen_decompression(graph)
    _separate_outputs(graph)


def before_export(graph: Graph) -> None:
    """Convert QuantizeLinear-DequantizeLinear pairs to FakeQuantize, which the runtime executes in integers.

    Variables whose initial value is computed by the first run are restored.
    """
    restore(graph)
    for node in graph:
        if not node.dialect and node.op_type == "QuantizeLinear":
            _fuse(graph, node)


def after_export(graph: Graph) -> None:
    """Convert inputs that came from variables back, and mark float16 weights so that OpenVINO keeps them compressed."""
    hide_states(graph)
    _narrow_storage(graph)
    for node in graph:
        if _converts(node, DType.FLOAT32) and _is_half(node.operand(0)):
            node.notes[DECOMPRESSION] = True


def _narrow_storage(graph: Graph) -> None:
    """Store widened constants in their original narrow type, with a Convert before their users."""
    for value in list(graph.constants):
        storage = value.storage
        if not isinstance(storage, Widened):
            continue
        wide = Value(graph.fresh(value.name), value.fact, origin=value.origin)
        value.replace_uses(wide)
        stored = graph.add_constant(f"{value.name}_stored", TensorFact.of(storage.source), storage.source)
        type = {"destination_type": storage.dtype}
        node = Node("opset1.Convert", [stored], [wide], type, dialect="openvino", origin=value.origin)
        graph.insert_after(None, node)
        graph.remove_constant(value)


def _is_half(value: Value | None) -> bool:
    storage = None if value is None or not value.is_constant else value.storage
    return storage is not None and storage.dtype in _HALVES and storage.count >= _FEWEST


_HALVES = frozenset((DType.FLOAT16, DType.BFLOAT16))
_FEWEST = 16
"""Elements of a constant whose Convert is marked; shorter ones are folded at once by every reader."""


def _subtract_preprocess_mean(graph: Graph) -> None:
    """Subtract the mean values of the `pre-process` section from their inputs."""
    for value in graph.inputs:
        mean_values = value.notes.pop(MEAN_VALUES, None) if value.has_notes else None
        if not isinstance(mean_values, Storage):
            continue
        centred = Value(graph.fresh(f"{value.name}_centred"), value.fact)
        value.replace_uses(centred)
        constant = graph.add_constant(f"{value.name}_mean", TensorFact.of(mean_values), mean_values)
        graph.insert_after(None, Node("opset1.Subtract", [value, constant], [centred], dialect="openvino"))


def _drop_dead(graph: Graph) -> None:
    """Remove layers that no output and no variable depends on: the runtime does not check them."""
    for node in reversed(graph):
        if not any(value.uses or value.is_output for value in node.results) and not has_op_type(node, ASSIGN):
            graph.remove(node)


def _separate_outputs(graph: Graph) -> None:
    """Insert Identity for outputs that are inputs, constants or returned twice.

    Before  return x, y, y     with an input x
    After   a = Identity(x);  b = Identity(y);  return a, y, b
    """
    names = result_names(graph)
    seen: set[Value] = set()
    for index, value in enumerate(graph.outputs):
        if value.producer is None or value in seen:
            copy = Value(graph.fresh(names[index] if index < len(names) else value.name), value.fact)
            graph.append(Node("Identity", [value], [copy]))
            graph.set_output(index, copy)
        seen.add(value)


_DECOMPRESSION = frozenset({"opset1.Subtract", "opset1.Multiply", "opset1.Reshape", "opset1.Transpose"})
"""Operators between compressed weights and the weights that are used."""


def _widen_decompression(graph: Graph) -> None:
    """Dequantize weights in float32 where the file uses float16, as the runtime does.

    Before  w = Convert(Multiply(Subtract(Convert(c, f16), z), s), f32)  of constants c, z, s
    After   the same with every Convert to f32, and z and s converted

    Intermediate rounding to float16 would differ from the runtime's results by a relative 1e-3.
    """
    for node in graph:
        if not _converts(node, DType.FLOAT32):
            continue
        chain = _chain(node)
        if not chain or not _converts(chain[-1], DType.FLOAT16):
            continue
        for inner in chain[:-1]:
            _widen(graph, inner)
        if all(has_op_type(user, ("opset1.MatMul",)) for user in node.output.users):
            _widen(graph, chain[-1])
        else:
            _widen_after(graph, chain[-1])


def _widen_after(graph: Graph, convert: Node) -> None:
    """Insert a Convert to float32 after `convert`, which keeps table entries rounded to float16."""
    rounded = convert.output
    wide = Value(graph.fresh(rounded.name), TensorFact(DType.FLOAT32, rounded.shape))
    rounded.replace_uses(wide)
    behind = Node("opset1.Convert", [rounded], [wide], {"destination_type": DType.FLOAT32}, dialect="openvino")
    graph.insert_after(convert, behind)


_STEPS = frozenset({DType.INT8, DType.UINT8, DType.INT4, DType.UINT4})


def _name_dequantization(graph: Graph) -> None:
    """Replace the dequantization of integer weights by one operator, so that they stay compressed.

    Before  w = Reshape(Multiply(Subtract(Convert(c), Convert(z)), s), shape)  of constants, with z of the type of c
    After   w = DequantizeLinear(c, s, z), blocked if a Reshape joins axes with separate scales

    Does not apply to scales that vary along more than one axis (except blocks of the last) or zero points of another
    type.
    """
    for node in list(graph):
        if has_op_type(node, ("opset1.Multiply",)) and node.graph is graph:
            found = _Compressed.of(node)
            if found is not None:
                found.replace(graph)


@dataclass(frozen=True, slots=True)
class _Compressed:
    """Compressed weights with dequantization up to node `last`; `shape` is the result of the Reshape, if any."""

    weights: Value
    zero: Value | None
    scale: Value
    last: Node
    shape: tuple[int, ...] | None

    @classmethod
    def of(cls, multiply: Node) -> _Compressed | None:
        """Match a dequantization (Convert, Subtract, Multiply) that ends in `multiply`; `None` if it is not one."""
        steps, scale = multiply.operand(0), _converted(multiply.operand(1))
        if steps is None or scale is None or scale.storage is None or not scale.storage.dtype.is_floating:
            return None
        zero = None
        maker = steps.producer
        if maker is not None and has_op_type(maker, ("opset1.Subtract",)) and _is_lone(steps):
            zero = _converted(maker.operand(1))
            steps = maker.operand(0)
            if zero is None:
                return None
        weights = _converted(steps)
        if steps is None or steps.producer is None or weights is None or not _is_lone(steps):
            return None
        dtype = None if weights.storage is None else weights.storage.dtype
        if dtype not in _STEPS or (zero is not None and (zero.storage is None or zero.storage.dtype is not dtype)):
            return None
        last, shape = multiply, None
        following = _only_user(multiply)
        if following is not None and has_op_type(following, ("opset1.Reshape",)):
            shape = _static_shape(following)
            last = following if shape is not None else multiply
        following = _only_user(last)
        if following is not None and _converts(following, DType.FLOAT32):
            last = following
        kept = last.output.fact
        is_wide = isinstance(kept, TensorFact) and kept.dtype is DType.FLOAT32
        return cls(weights, zero, scale, last, shape) if is_wide else None

    def replace(self, graph: Graph) -> None:
        """Replace the dequantization by one DequantizeLinear if its layout permits, and remove the unused nodes."""
        form = self._layout()
        if form is None:
            return
        shape, small, attributes = form
        made = [
            _reshaped(graph, self.weights, shape),
            _as_float32(graph, _reshaped(graph, self.scale, small), self.last),
        ]
        if self.zero is not None:
            made.append(_reshaped(graph, self.zero, small))
        node = Node("DequantizeLinear", made, attributes=attributes, origin=self.last.origin)
        graph.insert_before(self.last, node)
        node.take_outputs(self.last)
        pending = [self.last]
        while pending:
            left = pending.pop()
            if left.graph is graph and not any(value.uses for value in left.results):
                pending += [value.producer for value in left.operands if value.producer is not None]
                graph.remove(left)

    def _layout(self) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, int]] | None:
        """Return the result shape, the shape of the scales and the attributes `axis` and `block_size`."""
        wide, small = _shape_of(self.weights), _shape_of(self.scale)
        if self.zero is not None and _shape_of(self.zero) != small:
            return None
        if all(n == 1 for n in small):
            return self.shape or wide, (), {}
        if len(small) > len(wide):
            return None
        small = (*(1 for _ in wide[len(small) :]), *small)
        spread = [axis for axis, n in enumerate(small) if n != 1]
        if any(small[axis] != wide[axis] for axis in spread):
            return None
        shape = self.shape
        if shape is None or shape == wide:
            return (wide, (small[spread[0]],), {"axis": spread[0]}) if len(spread) == 1 else None
        *front, groups, size = wide if len(wide) > 1 else (1, *wide)
        if shape != (*front, groups * size) or small != (*front, groups, 1):
            return None
        return shape, (*front, groups), {"axis": len(front), "block_size": size}


def _converted(value: Value | None) -> Value | None:
    """Return the constant that `value` is, or that a Convert casts to it."""
    maker = None if value is None else value.producer
    if maker is not None and has_op_type(maker, ("opset1.Convert",)):
        value = maker.operand(0)
    return value if value is not None and value.is_constant and value.storage is not None else None


def _is_lone(value: Value) -> bool:
    return len(value.uses) == 1 and not value.is_output


def _only_user(node: Node) -> Node | None:
    return node.output.users[0] if node.outputs and _is_lone(node.output) and node.output.users else None


def _static_shape(node: Node) -> tuple[int, ...] | None:
    """Return the target shape of a Reshape if it consists of positive constants."""
    asked = node.operand(1)
    known = asked.fact.elements if asked is not None and isinstance(asked.fact, TensorFact) else None
    found = tuple(n for n in known or () if isinstance(n, int) and n > 0)
    return found if known and len(found) == len(known) else None


def _shape_of(value: Value) -> tuple[int, ...]:
    return () if value.storage is None else value.storage.shape


def _reshaped(graph: Graph, value: Value, shape: tuple[int, ...]) -> Value:
    if value.storage is None or value.storage.shape == shape:
        return value
    storage = value.storage.reshaped(shape)
    return graph.add_constant(value.name, TensorFact.of(storage), storage, origin=value.origin)


def _as_float32(graph: Graph, scale: Value, before_: Node) -> Value:
    """Return the scale as float32; insert a Cast before `before_` if it has another dtype."""
    if scale.storage is None or scale.storage.dtype is DType.FLOAT32:
        return scale
    wide = Value(graph.fresh(scale.name), TensorFact(DType.FLOAT32, scale.storage.shape))
    graph.insert_before(before_, Node("Cast", [scale], [wide], {"to": DType.FLOAT32}))
    return wide


def _converts(node: Node, dtype: DType) -> bool:
    return has_op_type(node, ("opset1.Convert",)) and node.attributes.get("destination_type") is dtype


def _chain(node: Node) -> list[Node]:
    """Return the single-user nodes between a constant and `node`, last first; empty if there is any other."""
    found: list[Node] = []
    value = node.operand(0)
    while value is not None and value.producer is not None:
        inner = value.producer
        others = [x for x in inner.operands[1:] if not _is_constant(x)]
        if value.is_output or len(value.users) != 1 or others or inner.dialect != "openvino":
            return []
        if not (inner.op_type in _DECOMPRESSION or _converts(inner, DType.FLOAT16)):
            return []
        found.append(inner)
        value = inner.operand(0)
    return found if value is not None and value.is_constant else []


def _is_constant(value: Value) -> bool:
    """Whether a value is a constant, or a constant converted to float16."""
    maker = value.producer
    if maker is None:
        return value.is_constant
    source = maker.operand(0)
    return _converts(maker, DType.FLOAT16) and source is not None and source.is_constant


def _widen(graph: Graph, node: Node) -> None:
    if node.op_type == "opset1.Convert":
        node.attributes["destination_type"] = DType.FLOAT32
    for place, value in enumerate(node.inputs):
        if value is None or place == 0 or node.op_type not in ("opset1.Subtract", "opset1.Multiply"):
            continue
        wide = Value(graph.fresh(value.name), TensorFact(DType.FLOAT32, value.shape))
        source = value if value.producer is None else value.producer.operand(0)
        convert = Node("opset1.Convert", [source], [wide], {"destination_type": DType.FLOAT32}, dialect="openvino")
        graph.insert_before(node, convert)
        node.set_input(place, wide)
    for result in node.results:
        result.fact = TensorFact(DType.FLOAT32, result.shape)


def _fuse(graph: Graph, quantize: Node) -> None:
    """Replace a pair by one FakeQuantize.

    Before  q = QuantizeLinear(x, s, z);  y = DequantizeLinear(q, s, z)
    After   y = FakeQuantize(x, low, high, low, high)  with  low = (least - z) * s,  high = (greatest - z) * s

    Does not apply if q has another user, x is constant, a scale is not constant, or the scales are blocked.
    """
    x, users = quantize.operand(0), quantize.output.users
    if x is None or x.is_constant or quantize.output.is_output or len(users) != 1:
        return
    (dequantize,) = users
    if dequantize.dialect or dequantize.op_type != "DequantizeLinear" or dequantize.graph is not graph:
        return
    limits = _limits(x, quantize, dequantize)
    if limits is None:
        return
    low, high = (graph.add_constant(f"{x.name}_{name}", TensorFact.of(each), each) for name, each in limits)
    fake = Node(
        "opset1.FakeQuantize",
        [x, low, high, low, high],
        attributes={"levels": 256},
        dialect="openvino",
        origin=quantize.origin,
    )
    graph.insert_before(dequantize, fake)
    fake.take_outputs(dequantize)
    graph.remove(dequantize)
    graph.remove(quantize)


def _limits(x: Value, quantize: Node, dequantize: Node) -> tuple[tuple[str, Storage], ...] | None:
    """Return the limits of the FakeQuantize that equals a QuantizeLinear and DequantizeLinear pair."""
    fact, both = x.fact, (quantize, dequantize)
    if not isinstance(fact, TensorFact) or not all(set(node.attributes) <= {"axis"} for node in both):
        return None
    scale, zero = _array(quantize.operand(1)), _array(quantize.operand(2))
    same = [_array(dequantize.operand(place)) for place in (1, 2)]
    if scale is None or zero is None or zero.dtype.itemsize != 1 or zero.dtype.kind not in "iu":
        return None
    if scale.dtype != np.float32 or any(
        b is None or not np.array_equal(a, b) for a, b in zip((scale, zero), same, strict=True)
    ):
        return None
    info = np.iinfo(zero.dtype)
    if scale.size > 1:
        if fact.shape is None or scale.ndim != 1:
            return None
        rank = len(fact.shape)
        axis, other = (cast("int", node.attributes.get("axis", 1)) % rank for node in both)
        if axis != other:
            return None
        scale, zero = (each.reshape([-1, *[1] * (rank - 1 - axis)]) for each in (scale, zero))
    wide = scale.astype(np.float64)
    ends = ((info.min - zero.astype(np.int64)) * wide, (info.max - zero.astype(np.int64)) * wide)
    low, high = (ArrayStorage(np.asarray(end, np.float32)) for end in ends)
    return ("low", low), ("high", high)


def _array(value: Value | None) -> np.ndarray[Any, Any] | None:
    if value is None or value.storage is None or not value.is_constant or value.storage.count > _MOST_CHANNELS:
        return None
    return value.storage.numpy()
