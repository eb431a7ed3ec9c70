"""Add image preprocessing to a network: element type, layout, size, channel order, mean and standard deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.short_repr import short_repr
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.attributes import Attribute

NHWC_TO_NCHW, NCHW_TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


@short_repr
@dataclass(frozen=True, slots=True)
class Preprocess:
    """Preprocessing steps in the order in which they are applied.

    Convert to float, to channels first, to the network's size, swap channels, `(x * scale - mean) / std`. `mean` and
    `std` have one element, or one per channel in the network's order of channels. `size` is the image size: None for
    the network's size, or two dims (integers or open) that are resized.
    """

    is_u8: bool = False
    is_nhwc: bool = False
    size: tuple[Dim, Dim] | None = None
    is_reversed: bool = False
    scale: float | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def preprocess(graph: Graph, value: Value, steps: Preprocess) -> None:
    """Compute the input `value` [N, C, H, W] by `steps` from a new input of that name.

    Raises:
        ValueError: the input does not have rank 4 with known channels and size, or the number of means is wrong.
    """
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None or fact.rank != 4 or fact.dtype is None:
        message = f"the input {value.name} is {fact}, expected an image of rank 4"
        raise ValueError(message)
    batch, channels, height, width = fact.dims
    for stats in (steps.mean, steps.std):
        if len(stats) > 1 and len(stats) != channels:
            message = f"{len(stats)} elements for {channels} channels of {value.name}"
            raise ValueError(message)
    if steps.size is not None and not (isinstance(height, int) and isinstance(width, int)):
        message = f"{value.name} has dynamic spatial dims ({fact}): the target size of the resize is unknown"
        raise ValueError(message)
    size = steps.size or (height, width)
    shape = (batch, *size, channels) if steps.is_nhwc else (batch, channels, *size)
    made = _ChainBuilder(graph, value, TensorFact(DType.UINT8 if steps.is_u8 else fact.dtype, shape))
    if steps.is_u8:
        made.add("Cast", to=fact.dtype)
    if steps.is_nhwc:
        made.add("Transpose", perm=NHWC_TO_NCHW)
    if steps.size is not None:
        is_known = isinstance(batch, int) and isinstance(channels, int)
        sizes = made.constant([batch, channels, height, width] if is_known else [height, width], DType.INT64)
        # Resize of older opsets resizes all axes.
        made.add("Resize", None, None, sizes, mode="linear", **({} if is_known else {"axes": (2, 3)}))
    if steps.is_reversed:
        count = channels if isinstance(channels, int) else 3
        made.add("Gather", made.constant(list(range(count))[::-1], DType.INT64), axis=1)
    if steps.scale is not None:
        made.add("Mul", made.constant([steps.scale], fact.dtype))
    if steps.mean:
        made.add("Sub", made.constant([[[number]] for number in steps.mean], fact.dtype))
    if steps.std:
        made.add("Div", made.constant([[[number]] for number in steps.std], fact.dtype))
    made.end()


def permute_axes(graph: Graph, value: Value, order: Sequence[int], *, is_input: bool) -> None:
    """Permute the axes of an input or output of rank 4; `order` are the source axes."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return
    inverse = tuple(order.index(axis) for axis in range(len(order)))
    if is_input:
        made = _ChainBuilder(graph, value, fact.with_shape([fact.dims[axis] for axis in order]))
        made.add("Transpose", perm=inverse)
        made.end()
        return
    result = Value(graph.fresh(value.name), fact.with_shape([fact.dims[axis] for axis in order]))
    append_to_output(graph, value, Node("Transpose", [value], [result], {"perm": tuple(order)}))


def set_element_type(graph: Graph, value: Value, dtype: DType, *, is_input: bool) -> None:
    """Change the element type of an input or output by a Cast.

    Raises:
        ValueError: the value is no tensor with a known element type.
    """
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        message = f"{value.name} is {fact}, not a tensor with a known element type"
        raise ValueError(message)
    if fact.dtype is dtype:
        return
    if is_input:
        chain = _ChainBuilder(graph, value, fact.with_dtype(dtype))
        chain.add("Cast", to=fact.dtype)
        chain.end()
    else:
        result = Value(graph.fresh(value.name), fact.with_dtype(dtype))
        append_to_output(graph, value, Node("Cast", [value], [result], {"to": dtype}))


def append_to_output(graph: Graph, value: Value, node: Node) -> None:
    """Append `node` and replace the output `value` by its last result, renamed to `value`."""
    graph.append(node)
    name, result = value.name, node.results[-1]
    graph.rename(value, graph.fresh(name))
    graph.rename(result, name)
    graph.set_outputs(result if each is value else each for each in graph.outputs)


def postprocess(graph: Graph, value: Value, step: str) -> None:
    """Compute `step` from an output along its last axis: `softmax`, `sigmoid`, `argmax`, or `topk=K` (the indices).

    Raises:
        ValueError: the step is unknown, or the output is no tensor with an axis.
    """
    fact = value.fact
    if not isinstance(fact, TensorFact) or not fact.shape:
        message = f"{value.name} is {fact}, not a tensor with an axis"
        raise ValueError(message)
    name, equals, number = step.partition("=")
    if name == "topk" and (number or "1").isdecimal() and int(number or 1) > 0:
        storage = storage_of([int(number or 1)], DType.INT64)
        count = graph.add_constant(graph.fresh(f"{value.name}_k"), TensorFact.of(storage), storage)
        results = [Value(graph.fresh(f"{value.name}_values")), Value(graph.fresh(value.name))]
        append_to_output(graph, value, Node("TopK", [value, count], results, {"axis": -1}))
        return
    if equals or name not in _POSTPROCESSING:
        message = f"unknown postprocessing {step!r}: expected softmax, sigmoid, argmax, topk or topk=K"
        raise ValueError(message)
    op, attributes = _POSTPROCESSING[name]
    append_to_output(graph, value, Node(op, [value], [Value(graph.fresh(value.name))], attributes))


_POSTPROCESSING: dict[str, tuple[str, dict[str, Attribute]]] = {
    "softmax": ("Softmax", {"axis": -1}),
    "sigmoid": ("Sigmoid", {}),
    "argmax": ("ArgMax", {"axis": -1, "keepdims": 0}),
}
"""Operators and attributes of the steps of `postprocess`."""


class _ChainBuilder:
    """A chain of nodes at the beginning of a graph, from a new input to the consumers of an old one."""

    def __init__(self, graph: Graph, value: Value, fact: TensorFact) -> None:
        self._graph = graph
        self._old = value
        self._first = graph.first_node
        name = value.name
        graph.rename(value, graph.fresh(name))
        self._given = self._last = Value(name, fact, origin=value.origin)

    def constant(self, numbers: object, dtype: DType) -> Value:
        """Add a constant to the graph."""
        storage = storage_of(numbers, dtype)
        return self._graph.add_constant(f"{self._given.name}_numbers", TensorFact.of(storage), storage)

    def add(self, op: str, *operands: Value | None, **attributes: Attribute) -> None:
        """Append an operator to the chain."""
        result = Value(self._graph.fresh(f"{self._given.name}_{op.lower()}"))
        node = Node(op, [self._last, *operands], [result], attributes)
        if self._first is None:
            self._graph.append(node)
        else:
            self._graph.insert_before(self._first, node)
        self._last = result

    def end(self) -> None:
        """Redirect the consumers of the old input to the end of the chain."""
        self._old.replace_uses(self._last)
        self._graph.replace_input(self._old, self._given)
