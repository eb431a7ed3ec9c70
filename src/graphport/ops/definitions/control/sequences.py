"""Lists of tensors."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, decide_equal, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, Fact, SequenceFact, TensorFact, Unknown, named
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.control.joins import join
from graphport.ops.shapes import axis_index
from graphport.ops.types import ALL_4, CLASSIC, INDICES, INT64, SCALAR, Body, Sequence, Tensor, Types

T = Annotated[Tensor, Types("T", CLASSIC)]
S = Annotated[Sequence, Types("S", CLASSIC, "sequence")]
I = Annotated[Tensor, Types("I", INDICES)]  # noqa: E741  the letter of the specification
Length = Annotated[Tensor, Types("I", INT64)]
V = Annotated[Any, Types("V", CLASSIC, "any")]
Wide = Annotated[Tensor, Types("T", ALL_4)]
WideS = Annotated[Sequence, Types("S", ALL_4, "sequence")]


def _element(fact: Fact) -> TensorFact:
    """Return the fact of each element of a sequence; raise `Unknown` if it is unknown."""
    if isinstance(fact, SequenceFact) and isinstance(fact.element, TensorFact):
        return fact.element
    raise Unknown


def _sequence_shape(*inputs: TensorFact) -> SequenceFact:
    if not inputs:
        message = "the node has no operand, expected at least one"
        raise ShapeError(message, "use SequenceEmpty for an empty sequence")
    fact: Fact = inputs[0].with_elements(None)
    for other in inputs[1:]:
        fact = join(fact, other)
    return SequenceFact(fact)


@op(shape=_sequence_shape, since=11, outputs=("output_sequence",), moves_data=True, exactness="exact")
def SequenceConstruct(*inputs: T) -> S:
    """The operands as a sequence.  Shapes: any.

    Raises:
        ShapeError: there is no operand.

    Source: ONNX SequenceConstruct-11.
    """
    return list(inputs)


def _empty_shape(*, dtype: DType | None = None) -> SequenceFact:
    return SequenceFact(TensorFact(dtype or DType.FLOAT32, None))


@op(shape=_empty_shape, since=11, outputs=("output",), exactness="exact")
def SequenceEmpty(*, dtype: DType | None = None) -> S:
    """A sequence of no tensors, of float32 or `dtype`.  Shapes: none → no element.  Source: ONNX SequenceEmpty-11."""
    return []


def _position(position: TensorFact | None) -> None:
    if position is not None and position.shape is not None and len(position.shape) > 1:
        message = f"position has rank {len(position.shape)}"
        raise ShapeError(message, "expected a scalar")


def _insert_shape(input_sequence: Fact, tensor: TensorFact, position: TensorFact | None = None) -> SequenceFact:
    _position(position)
    element = _element(input_sequence)
    if None not in (element.dtype, tensor.dtype) and element.dtype is not tensor.dtype:
        message = f"the tensor is {tensor.dtype}, the sequence has {element.dtype} elements"
        raise ShapeError(message, "cast the tensor")
    return SequenceFact(join(element, tensor))


@op(
    shape=_insert_shape,
    since=11,
    outputs=("output_sequence",),
    moves_data=True,
    exactness="exact",
    index_operands=("position",),
    ranks={"position": SCALAR},
)
def SequenceInsert(input_sequence: S, tensor: T, position: I | None = None) -> S:
    """Insert `tensor` before `position`, or at the end without a position; negative positions count from the end.

    Shapes: any, position [].

    Raises:
        ShapeError: the element types differ.
        IndexError: the position is not in [-n, n] for n elements.

    Source: ONNX SequenceInsert-11.
    """
    count = len(input_sequence)
    place = count if position is None else _from_front(position, count, count + 1)
    return [*input_sequence[:place], tensor, *input_sequence[place:]]


def _from_front(position: Tensor, count: int, length: int) -> int:
    """Return a nonnegative position below `length`; a negative one counts from the end of `count` elements."""
    given = int(position.reshape(-1)[0])
    place = given + count if given < 0 else given
    if not 0 <= place < length:
        message = f"there is no position {given} in a sequence of {count}"
        raise IndexError(message)
    return place


def _erase_shape(input_sequence: Fact, position: TensorFact | None = None) -> Fact:
    _position(position)
    return input_sequence


@op(
    shape=_erase_shape,
    since=11,
    outputs=("output_sequence",),
    moves_data=True,
    exactness="exact",
    index_operands=("position",),
    ranks={"position": SCALAR},
)
def SequenceErase(input_sequence: S, position: I | None = None) -> S:
    """Remove the element at `position`, or the last one without a position; negative positions count from the end.

    Shapes: any, position [].

    Raises:
        IndexError: the position is out of range.

    Source: ONNX SequenceErase-11.
    """
    count = len(input_sequence)
    place = _from_front(np.array(-1) if position is None else position, count, count)
    return [*input_sequence[:place], *input_sequence[place + 1 :]]


def _at_shape(input_sequence: Fact, position: TensorFact) -> TensorFact:
    _position(position)
    return _element(input_sequence)


@op(
    shape=_at_shape,
    since=11,
    outputs=("tensor",),
    moves_data=True,
    exactness="exact",
    index_operands=("position",),
    ranks={"position": SCALAR},
)
def SequenceAt(input_sequence: S, position: I) -> T:
    """Return the element at `position`; negative positions count from the end.  Shapes: any, position [].

    Raises:
        IndexError: the position is out of range.

    Source: ONNX SequenceAt-11.
    """
    return input_sequence[_from_front(position, len(input_sequence), len(input_sequence))]


def _length_shape(input_sequence: Fact) -> TensorFact:
    return TensorFact(DType.INT64, ())


@op(shape=_length_shape, since=11, outputs=("length",), exactness="exact", role="index")
def SequenceLength(input_sequence: S) -> Length:
    """Number of elements.  Shapes: any → [].  Source: ONNX SequenceLength-11."""
    return np.array(len(input_sequence), np.int64)


def _split_shape(
    input: TensorFact, split: TensorFact | None = None, *, axis: int = 0, keepdims: int = 1
) -> SequenceFact:
    place = axis_index(axis, input.rank)
    before, after = input.dims[:place], input.dims[place + 1 :]
    if split is None:
        return SequenceFact(input.with_shape([*before, *([1] if keepdims else []), *after]))
    part = _part_length(input.dims[place], split)
    return SequenceFact(input.with_shape([*before, part, *after]))


def _part_length(length: Dim, split: TensorFact) -> Dim:
    """Return the common length of the parts along the split axis; open unless all are provably equal."""
    if split.elements is None or split.shape is None:
        return OPEN
    if any(isinstance(part, int) and part < 0 for part in split.elements) or split.elements == (0,):
        message = f"the parts {list(map(str, split.elements))} are no lengths"
        raise ShapeError(message)
    if split.shape == ():
        (part,) = split.elements
        return part if decide_equal(length % part, 0) else OPEN
    total = sum(split.elements)
    # An open length may be 0.
    if decide_equal(total, length) is False and (total != 0 or isinstance(length, int)):
        message = f"the parts {list(map(str, split.elements))} do not fill {length} entries"
        raise ShapeError(message)
    return split.elements[0] if len(set(split.elements)) == 1 else OPEN


@op(
    shape=_split_shape,
    since=11,
    outputs=("output_sequence",),
    moves_data=True,
    exactness="exact",
    index_operands=("split",),
    ranks={"split": (0, 1)},
)
def SplitToSequence(input: Wide, split: I | None = None, *, axis: int = 0, keepdims: int = 1) -> WideS:
    """Split `input` along `axis`: into slices of length 1, parts of length `split`, or parts of lengths `split`.

    With one length the last part may be shorter. Slices lose the axis unless `keepdims`.

    Shapes: input [*s], split [] or [k] → [*s] with the part's length at `axis`.

    Raises:
        ShapeError: a length is negative, or they do not fill the axis.

    Source: ONNX SplitToSequence-24.
    """
    length = input.shape[axis]
    if split is None:
        return [np.asarray(np.take(input, [i] if keepdims else i, axis)) for i in range(length)]
    if split.ndim == 0:
        starts = range(0, length, int(split))
        return [np.take(input, range(i, min(i + int(split), length)), axis) for i in starts]
    if int(split.sum()) != length:
        message = f"the parts {split.tolist()} do not fill {length} entries"
        raise ValueError(message)
    ends = np.cumsum(split)
    return [np.take(input, range(end - part, end), axis) for part, end in zip(split, ends, strict=True)]


def _concat_shape(input_sequence: Fact, *, axis: int, new_axis: int = 0) -> TensorFact:
    element = _element(input_sequence)
    if new_axis not in (0, 1):
        message = f"new_axis is {new_axis}"
        raise ShapeError(message, "0 or 1")
    place = axis_index(axis, element.rank + new_axis)
    return element.with_shape([*element.dims[:place], OPEN, *element.dims[place + 1 - new_axis :]])


@op(shape=_concat_shape, since=11, outputs=("concat_result",), moves_data=True, exactness="exact")
def ConcatFromSequence(input_sequence: S, *, axis: int, new_axis: int = 0) -> T:
    """Concatenate the elements along `axis`, or stack them along a new axis if `new_axis`.

    Shapes: each [*s] → [*s] with the sum of lengths at `axis`, or with the number of elements at a new axis.

    Raises:
        ShapeError: `axis` is out of range.

    Source: ONNX ConcatFromSequence-11.
    """
    return np.stack(input_sequence, axis) if new_axis else np.concatenate(input_sequence, axis)


def _map_shape(input_sequence: Fact, *additional_inputs: Fact, body: Body) -> list[Fact]:
    operands = [SequenceFact(_element(input_sequence)), *additional_inputs]
    taken = [
        named(fact.element, f"{_ELEMENT}.{i}") if isinstance(fact, SequenceFact) else fact
        for i, fact in enumerate(operands)
    ]
    shared = frozenset(name for fact in operands for dim in _dims(fact) for name in symbols(dim))
    return [SequenceFact(_of_all(fact, shared)) for fact in body(*taken)]


_ELEMENT = "\0element"


def _dims(fact: Fact) -> tuple[Dim, ...]:
    while not isinstance(fact, TensorFact):
        fact = fact.element
    return fact.shape or ()


def _of_all(fact: Fact, shared: frozenset[str]) -> Fact:
    """Return a body result's fact for all elements, with open dims for symbols not in `shared`."""
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return fact
    return fact.with_shape([dim if shared.issuperset(symbols(dim)) else OPEN for dim in fact.shape])


@op(shape=_map_shape, since=17, outputs=("*out_sequence",), exactness="exact")
def SequenceMap(input_sequence: S, *additional_inputs: V, body: Body) -> tuple[S, ...]:
    """Apply `body` to each element of the sequence and return sequences of the results.

    Of additional inputs, a sequence contributes its element at the current position, a tensor is passed unchanged.

    Shapes: any.

    Source: ONNX SequenceMap-17.
    """
    rounds = [
        body(element, *(x[place] if isinstance(x, list) else x for x in additional_inputs))
        for place, element in enumerate(input_sequence)
    ]
    if not rounds:
        return tuple([] for _ in body.facts)
    return tuple(list(results) for results in zip(*rounds, strict=True))
