"""Images of open height and width, in operators whose shapes tract 0.23 computes with symbols.

tract takes `(H + 1) / 2` and `H / 2` for two lengths, also where H is even, and computes no shape of a smaller Resize.
A slice with step k that ends k - 1 elements before the last start has length `H / k` in any case.
"""

from __future__ import annotations

from itertools import product
from math import ceil, floor
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.graph_passes.tract_sampling import sample_by_indices
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.ops.pattern import constant_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Attribute, Graph

_END = 2**63 - 1
_MAX_FACTOR = 8


def size_open_images(graph: Graph) -> None:
    """Replace Concat, SpaceToDepth and Resize on dynamic sizes by slices whose lengths tract can prove equal."""
    for node in list(graph):
        match node.op:
            case "Concat":
                _align_slices(graph, node)
            case "SpaceToDepth":
                _slice_cells(graph, node)
            case "Resize":
                if not _shrink(graph, node):
                    sample_by_indices(graph, node)
            case "Slice":
                sample_by_indices(graph, node)
            case _:
                pass


def _align_slices(graph: Graph, concat: Node) -> None:
    """Shorten strided slices of equal length that a Concat joins, as in YOLO's Focus.

    Before  Concat(x[0::2], x[1::2])
    After   Concat(x[0:-1:2], x[1::2])

    Does not apply if the slices do not include the first and the last possible start: then H may be odd.
    """
    slices = [value.producer for value in concat.operands]
    ranges = [None if node is None or node.op != "Slice" else _ranges(node) for node in slices]
    known = [each for each in ranges if each is not None]
    if not known or len(known) < len(ranges) or len({node.operands[0] for node in slices if node is not None}) > 1:
        return
    rank = len(concat.output.shape or ())
    axis = concat.attributes.get("axis")
    steps = known[0][1]
    if any(each[1] != steps for each in known) or not isinstance(axis, int) or axis % max(rank, 1) in steps:
        return
    for place, step in steps.items():
        if not {0, step - 1} <= {each[0][place] for each in known}:
            return
    for node, (starts, _) in zip(slices, known, strict=True):
        if node is not None:
            ends = [_end(starts[place], step) for place, step in steps.items()]
            node.set_input(2, _vector(graph, ends))


def _ranges(node: Node) -> tuple[dict[int, int], dict[int, int]] | None:
    """Return starts and strides by axis of a slice along dynamic axes to their end, with strides of at least 2."""
    x = node.operands[0]
    numbers = [constant_numbers(value) for value in node.operands[1:]]
    if len(numbers) != 4 or any(each is None for each in numbers):
        return None
    starts, ends, axes, steps = ([int(n) for n in each or ()] for each in numbers)
    shape = x.shape or ()
    rank = max(len(shape), 1)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        is_open = -rank <= axis < len(shape) and isinstance(shape[axis], Symbolic)
        if not (is_open and 0 <= start < step <= _MAX_FACTOR and end >= 2**31 - 1):
            return None
    places = [axis % rank for axis in axes]
    return dict(zip(places, starts, strict=True)), dict(zip(places, steps, strict=True))


def _end(start: int, step: int) -> int:
    return start + 1 - step if start + 1 < step else _END


def _slice_cells(graph: Graph, node: Node) -> None:
    """SpaceToDepth: Concat(x[..., i::b, j::b] for each i, j of a cell) along the channels."""
    x, block = node.operands[0], node.attributes.get("blocksize")
    if not _is_open_image(x) or not isinstance(block, int) or not 2 <= block <= _MAX_FACTOR:
        return
    fact = node.output.fact
    channels = (x.shape or (0, 0))[1]
    made = fact.with_shape([*fact.dims[:1], channels, *fact.dims[2:]]) if isinstance(fact, TensorFact) else fact
    cells = [_sliced(graph, node, x, starts, (block, block), made) for starts in product(range(block), repeat=2)]
    result = _emit(graph, node, "Concat", cells, fact, {"axis": 1})
    rewrite.replace(node.output, result)
    graph.remove(node)


def _shrink(graph: Graph, node: Node) -> bool:
    """Resize by 1/2, 1/4 or 1/8: every k-th element, or the mean of each 2 x 2 cell. Return whether it applies."""
    x = node.operands[0]
    factors = _factors(node)
    if not _is_open_image(x) or factors is None or max(factors) == 1:
        return False
    coordinates = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    mode = node.attributes.get("mode", "nearest")
    if mode == "linear" and coordinates == "half_pixel" and set(factors) == {2}:
        attributes: dict[str, Attribute] = {"kernel_shape": (2, 2), "strides": (2, 2)}
        result = _emit(graph, node, "AveragePool", [x], node.output.fact, attributes)
    elif coordinates == "asymmetric" and mode in ("nearest", "linear"):
        result = _sliced(graph, node, x, (0, 0), factors, node.output.fact)
    elif coordinates == "half_pixel" and mode == "nearest":
        starts = [_nearest((k - 1) / 2, node.attributes.get("nearest_mode", "round_prefer_floor")) for k in factors]
        result = _sliced(graph, node, x, starts, factors, node.output.fact)
    else:
        return False
    rewrite.replace(node.output, result)
    graph.remove(node)
    return True


def _factors(node: Node) -> tuple[int, int] | None:
    """Return the integers by which a Resize divides height and width; `None` if it does something else."""
    plain = {"mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "extrapolation_value"}
    scales = constant_numbers(node.inputs[2]) if len(node.inputs) == 3 and node.inputs[2] is not None else None
    changed = {name for name, value in node.attributes.items() if value not in (0, "stretch", None)} - plain
    if scales is None or len(scales) != 4 or changed or list(scales[:2]) != [1, 1]:
        return None
    height, width = (round(1 / scale) if 0 < scale <= 1 else 0 for scale in scales[2:])
    pairs = zip((height, width), scales[2:], strict=True)
    is_whole = all(0 < k <= _MAX_FACTOR and k * scale == 1 for k, scale in pairs)
    return (height, width) if is_whole else None


def _nearest(offset: float, mode: object) -> int:
    """Round `offset` to an index; ties by the rounding mode."""
    return ceil(offset) if mode in ("ceil", "round_prefer_ceil") else floor(offset)


def _is_open_image(x: Value) -> bool:
    shape = x.shape or ()
    return len(shape) == 4 and any(isinstance(dim, Symbolic) for dim in shape[2:])


def _sliced(graph: Graph, place: Node, x: Value, starts: Sequence[int], steps: Sequence[int], fact: object) -> Value:
    ends = [_end(start, step) for start, step in zip(starts, steps, strict=True)]
    bounds = [_vector(graph, each) for each in (starts, ends, (2, 3), steps)]
    return _emit(graph, place, "Slice", [x, *bounds], fact, {})


def _vector(graph: Graph, numbers: Sequence[int]) -> Value:
    storage = storage_of(np.array(numbers, np.int64))
    return graph.add_constant(graph.fresh("bounds"), TensorFact.of(storage), storage)


def _emit(
    graph: Graph, place: Node, op: str, operands: Sequence[Value], fact: object, attributes: dict[str, Attribute]
) -> Value:
    made = Value(graph.fresh(place.output.name), fact if isinstance(fact, TensorFact) else place.output.fact)
    graph.insert_before(place, Node(op, operands, [made], attributes, origin=place.unasked_origin))
    return made
