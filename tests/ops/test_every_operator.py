"""Every page on random operands, element types and shapes against ONNX Runtime; no page can be left out.

A page is in `TABLE` (random cases here, judged by ONNX Runtime), in `NO_KERNEL` (random cases here, judged by the
reference implementation of the standard), in `MODELS` (what takes or gives sequences, optional values or bodies, in
whole models), in `ELSEWHERE` (random cases against ONNX Runtime in the test file of its family), or random.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.core.dims import evaluate, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ops import registry
from graphport.ops.declare import OPSET
from tests.draws import times
from tests.every import every
from tests.ops.oracle import check_operator, check_shapes, compare, run_operator, run_ort
from tests.ops.standard import check_by_standard

OP_DEFS = registry.op_defs()
F16, F32, F64 = np.float16, np.float32, np.float64
I8, I16, I32, I64 = np.int8, np.int16, np.int32, np.int64
U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
SIGNED, UNSIGNED = (I8, I16, I32, I64), (U8, U16, U32, U64)
INTEGERS = (*SIGNED, *UNSIGNED)
ANY = (F16, F32, F64, *INTEGERS, np.bool_, object)

# The same examples every time: what fails, fails for everybody.
EXAMPLES = settings(
    max_examples=times(25), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@dataclass(frozen=True, slots=True)
class Case:
    """Operands and attributes of one node, and how it is judged."""

    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = OPSET
    tolerance: float | None = None


Draw = Any
Maker = Callable[[Draw], Case]


def numbers(draw: Draw, shape: Any, dtype: Any, low: float = -4, high: float = 4) -> Any:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype is object:
        return np.asarray(rng.choice(["", "a", "bc", "é"], shape), object)
    if dtype is np.bool_:
        return np.asarray(rng.integers(0, 2, shape), dtype)
    if np.dtype(dtype).kind in "iu":
        return np.asarray(rng.integers(max(low, 0) if np.dtype(dtype).kind == "u" else low, high, shape), dtype)
    return np.asarray(rng.uniform(low, high, shape), dtype)


def shapes(least: int = 0, most: int = 3, *, low: int = 0, high: int = 4) -> Any:
    return st.lists(st.integers(low, high), min_size=least, max_size=most).map(tuple)


def joining(draw: Draw, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast together."""
    full = draw(shapes())
    found = []
    for _ in range(count):
        tail = full[draw(st.integers(0, len(full))) :]
        found.append(tuple(1 if draw(st.booleans()) else n for n in tail))
    return found


def unary(*types: Any, low: float = -4, high: float = 4, opset: int = OPSET, **attributes: Any) -> Maker:
    def make(draw: Draw) -> Case:
        x = numbers(draw, draw(shapes()), draw(st.sampled_from(types)), low, high)
        return Case([x], {name: draw(values) for name, values in attributes.items()}, opset=opset)

    return make


def binary(*types: Any, second: tuple[float, float] = (-4, 4), opset: int = OPSET, **attributes: Any) -> Maker:
    def make(draw: Draw) -> Case:
        a, b = joining(draw, 2)
        dtype = draw(st.sampled_from(types))
        inputs = [numbers(draw, a, dtype), numbers(draw, b, dtype, *second)]
        return Case(inputs, {name: draw(values) for name, values in attributes.items()}, opset=opset)

    return make


def variadic(*types: Any) -> Maker:
    def make(draw: Draw) -> Case:
        dtype = draw(st.sampled_from(types))
        return Case([numbers(draw, shape, dtype) for shape in joining(draw, draw(st.integers(1, 3)))])

    return make


def amount(low: float, high: float) -> Any:
    return st.floats(low, high, width=32).map(float)


flag = st.integers(0, 1)


def _prelu(draw: Draw) -> Case:
    shape = draw(shapes())
    tail = shape[draw(st.integers(0, len(shape))) :]
    slope = tuple(1 if draw(st.booleans()) else n for n in tail)
    return Case([numbers(draw, shape, F32), numbers(draw, slope, F32)])


def _clip(draw: Draw) -> Case:
    dtype = draw(st.sampled_from([F16, F32, F64, I8, I32, I64, U8, U32, U64]))
    low, high = (numbers(draw, (), dtype) if draw(st.booleans()) else None for _ in range(2))
    return Case([numbers(draw, draw(shapes()), dtype), low, high])


def _dropout(draw: Draw) -> Case:
    x = numbers(draw, draw(shapes()), draw(st.sampled_from([F32, F64])))
    rest = draw(st.sampled_from([[], [np.array(0.3, F32)], [np.array(0.3, F32), np.array(False)]]))
    return Case([x, *rest], outputs=2)


def _pow(draw: Draw) -> Case:
    a, b = joining(draw, 2)
    base, exponent = (draw(st.sampled_from([F32, F64, I32, I64])) for _ in range(2))
    return Case([numbers(draw, a, base, 1, 4), numbers(draw, b, exponent, 0, 4)])


def _mod(draw: Draw) -> Case:
    a, b = joining(draw, 2)
    dtype = draw(st.sampled_from([F32, F64, *INTEGERS]))
    sign = draw(st.sampled_from([1, -1] if dtype in SIGNED else [1]))
    divisor = np.asarray(numbers(draw, b, dtype, 1, 4) * np.asarray(sign, dtype))
    return Case([numbers(draw, a, dtype, -9, 9), divisor], {"fmod": 1 if dtype in (F32, F64) else draw(flag)})


def _div(draw: Draw) -> Case:
    case = _mod(draw)
    return Case(case.inputs)


def _cast(draw: Draw) -> Case:
    source, target = (draw(st.sampled_from([F16, F32, F64, *INTEGERS, np.bool_])) for _ in range(2))
    # What does not fit into an integer is undefined.
    return Case([numbers(draw, draw(shapes()), source, 0, 9)], {"to": DType.of(np.dtype(target))})


def _bit_cast(draw: Draw) -> Case:
    source, target = draw(st.sampled_from([(F32, I32), (I32, F32), (U8, I8), (F64, U64), (F16, I16)]))
    return Case([numbers(draw, draw(shapes()), source)], {"to": DType.of(np.dtype(target))})


def _where(draw: Draw) -> Case:
    a, b, c = joining(draw, 3)
    dtype = draw(st.sampled_from([F32, F64, I32, I64, U8, object]))
    return Case([numbers(draw, a, np.bool_), numbers(draw, b, dtype), numbers(draw, c, dtype)])


def _special(draw: Draw) -> Any:
    x = numbers(draw, draw(shapes()), draw(st.sampled_from([F16, F32, F64])))
    odd = numbers(draw, x.shape, I8, 0, 6)
    return np.select([odd == 0, odd == 1, odd == 2], [np.nan, np.inf, -np.inf], x).astype(x.dtype)


def _is_inf(draw: Draw) -> Case:
    x = _special(draw)
    wide = x if x.dtype != F16 else x.astype(F32)
    return Case([wide], {"detect_negative": draw(flag), "detect_positive": draw(flag)})


def _gather_nd(draw: Draw) -> Case:
    shape = draw(shapes(1, 4, low=1))
    batch = draw(st.integers(0, len(shape) - 1))
    depth = draw(st.integers(1, len(shape) - batch))
    lead = (*shape[:batch], *draw(shapes(0, 2)))
    extents = shape[batch : batch + depth]
    wanted = np.stack([numbers(draw, lead, I64, -n, n) for n in extents], -1)
    return Case([numbers(draw, shape, draw(st.sampled_from(ANY))), wanted], {"batch_dims": batch})


def _compress(draw: Draw) -> Case:
    shape = draw(shapes(1, low=1))
    axis = draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    length = int(np.prod(shape)) if axis is None else shape[axis]
    condition = numbers(draw, (draw(st.integers(0, length)),), np.bool_)
    return Case([numbers(draw, shape, draw(st.sampled_from(ANY))), condition], {"axis": axis})


def _one_hot(draw: Draw) -> Case:
    places, depth, filler = draw(
        st.sampled_from([(I64, I64, F32), (F32, F32, F32), (I32, I32, F32), (I64, I64, object)])
    )
    shape = draw(shapes(1))
    size = draw(st.integers(1, 4))
    index = numbers(draw, shape, places, -size - 1, size + 2)
    index = np.trunc(index).astype(places)
    values = numbers(draw, (2,), filler)
    return Case([index, np.array([size], depth), values], {"axis": draw(st.integers(-len(shape) - 1, len(shape)))})


def _non_zero(draw: Draw) -> Case:
    # Of a scalar, ONNX Runtime gives a row of places, NumPy's way; the standard says that there is none.
    return Case([numbers(draw, draw(shapes(1)), draw(st.sampled_from([F32, I32, I64, U8, np.bool_])), -1, 2)])


def _unique(draw: Draw) -> Case:
    shape = draw(shapes(1, low=1))
    x = numbers(draw, shape, draw(st.sampled_from([F32, F64, I8, I64, object])), -2, 2)
    axis = draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    return Case([np.trunc(x) if x.dtype.kind == "f" else x], {"axis": axis, "sorted": draw(flag)}, outputs=4)


def _reverse_sequence(draw: Draw) -> Case:
    shape = draw(shapes(2, 4, low=1))
    time = draw(flag)
    lengths = numbers(draw, (shape[1 - time],), I64, 1, shape[time] + 1)
    x = numbers(draw, shape, draw(st.sampled_from(ANY)))
    return Case([x, lengths], {"batch_axis": 1 - time, "time_axis": time})


def _trilu(draw: Draw) -> Case:
    x = numbers(draw, draw(shapes(2, 4)), draw(st.sampled_from([F16, F32, F64, I32, I64, np.bool_])))
    k = draw(st.none() | st.integers(-5, 5).map(lambda n: np.array(n, I64)))
    return Case([x, k], {"upper": draw(flag)})


def _scatter_elements(draw: Draw) -> Case:
    shape = draw(shapes(1, low=1))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    part = [draw(st.integers(1, n)) for n in shape]
    reduction = draw(st.sampled_from(["none", "add", "mul", "max", "min"]))
    dtype = draw(st.sampled_from([F32, F64, I32, I64, U8] if reduction != "none" else ANY))
    order = np.argsort(numbers(draw, shape, F64), axis)  # no place twice: which update comes last is not defined
    index = order[tuple(slice(n) for n in part)].astype(draw(st.sampled_from([I32, I64])))
    index -= numbers(draw, index.shape, index.dtype.type, 0, 2) * shape[axis]
    inputs = [numbers(draw, shape, dtype), index, numbers(draw, part, dtype)]
    return Case(inputs, {"axis": axis, "reduction": reduction})


def _scatter_nd(draw: Draw) -> Case:
    shape = draw(shapes(1, low=1))
    depth = draw(st.integers(1, len(shape)))
    reduction = draw(st.sampled_from(["none", "add", "mul", "max", "min"]))
    dtype = draw(st.sampled_from([F32, F64, I32, I64, U8] if reduction != "none" else ANY))
    cells = int(np.prod(shape[:depth]))
    flat = np.argsort(numbers(draw, (cells,), F64))[: draw(st.integers(1, cells))]
    index = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(I64)
    updates = numbers(draw, (len(flat), *shape[depth:]), dtype)
    return Case([numbers(draw, shape, dtype), index, updates], {"reduction": reduction})


def _constant(draw: Draw) -> Case:
    some = {
        "value": numbers(draw, draw(shapes()), draw(st.sampled_from([F32, F64, I8, I64, np.bool_]))),
        "value_float": draw(amount(-9, 9)),
        "value_floats": tuple(draw(st.lists(amount(-9, 9), max_size=3))),
        "value_int": draw(st.integers(-(2**63), 2**63 - 1)),
        "value_ints": tuple(draw(st.lists(st.integers(-9, 9), min_size=1, max_size=3))),
        "value_string": draw(st.sampled_from(["", "word", "é"])),
        "value_strings": ("a", "", "é"),
    }
    if not some["value_floats"]:
        del some["value_floats"]
    name = draw(st.sampled_from(sorted(some)))
    return Case([], {name: some[name]})


def _constant_of_shape(draw: Draw) -> Case:
    value = draw(st.none() | st.sampled_from([F16, F32, F64, *INTEGERS, np.bool_]))
    given_value = None if value is None else numbers(draw, (1,), value)
    return Case([np.array(draw(shapes()), I64)], {} if given_value is None else {"value": given_value})


def _eye_like(draw: Draw) -> Case:
    x = numbers(draw, draw(shapes(2, 2)), draw(st.sampled_from([F32, F64, I32, I64])))
    dtype = draw(st.none() | st.sampled_from([DType.FLOAT32, DType.INT64, DType.FLOAT64]))
    return Case([x], {"dtype": dtype, "k": draw(st.integers(-3, 3))})


def _matmul(draw: Draw) -> Case:
    batch = draw(shapes(0, 2, low=1))
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    dtype = draw(st.sampled_from([F32, F64, I32, I64, U32, U64]))
    a, b = draw(
        st.sampled_from([((*batch, m, k), (k, n)), ((m, k), (*batch, k, n)), ((k,), (k,)), ((*batch, m, k), (k,))])
    )
    return Case([numbers(draw, a, dtype), numbers(draw, b, dtype)])


def _matmul_integer(draw: Draw) -> Case:
    left, right = draw(st.sampled_from([(U8, U8), (U8, I8), (I8, I8)]))
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    zeros = draw(st.sampled_from([[], [np.array(3, left)], [np.array(3, left), np.array(2, right)]]))
    # Seven bits: kernels for old processors saturate the sum of two products of eight bits.
    batch = draw(shapes(0, 1, low=1))
    return Case([numbers(draw, (*batch, m, k), left, -60, 60), numbers(draw, (k, n), right, -60, 60), *zeros])


def _qlinear_matmul(draw: Draw) -> Case:
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    right = draw(st.sampled_from([U8, I8]))
    a, b = numbers(draw, (m, k), U8, 0, 60), numbers(draw, (k, n), right, -60, 60)
    # Scales that are powers of two, but of the result: nothing lies halfway between two integers.
    one = (np.array(0.5, F32), np.array(draw(st.integers(0, 9)), U8))
    two = (np.array(0.25, F32), np.array(draw(st.integers(0, 9)), right))
    result = (np.array(7.3, F32), np.array(100, U8))
    return Case([a, *one, b, *two, *result])


def _conv_integer(draw: Draw) -> Case:
    groups, extent = draw(st.integers(1, 2)), draw(st.integers(3, 5))
    x, w = numbers(draw, (1, 2, extent, extent), U8, 0, 60), numbers(draw, (4, 2 // groups, 2, 3), U8, 0, 60)
    zeros = draw(st.sampled_from([[], [np.array(3, U8)], [np.array(3, U8), np.array(2, U8)]]))
    pads = tuple(draw(st.integers(0, 1)) for _ in range(4))
    return Case([x, w, *zeros], {"group": groups, "pads": pads, "strides": (draw(st.integers(1, 2)), 1)})


def _batch_normalization(draw: Draw) -> Case:
    shape, dtype = (2, *draw(shapes(1, 3, low=1))), draw(st.sampled_from([F32, F64]))
    rest = [numbers(draw, shape[1:2], dtype, 0.5, 2) for _ in range(4)]
    return Case([numbers(draw, shape, dtype), *rest], {"epsilon": draw(amount(0.0625, 1))})


def _instance_normalization(draw: Draw) -> Case:
    shape = (*draw(shapes(2, 2, low=1)), *draw(shapes(1, 2, low=2)))
    rest = [numbers(draw, shape[1:2], F32) for _ in range(2)]
    return Case([numbers(draw, shape, F32), *rest], {"epsilon": draw(amount(0.0625, 1))}, tolerance=1e-4)


def _group_normalization(draw: Draw) -> Case:
    groups = draw(st.integers(1, 3))
    shape = (2, groups * draw(st.integers(1, 2)), *draw(shapes(1, 2, low=2)))
    rest = [numbers(draw, shape[1:2], F32) for _ in range(2)]
    return Case([numbers(draw, shape, F32), *rest], {"num_groups": groups, "epsilon": 1e-2}, tolerance=1e-4)


def _mean_variance_normalization(draw: Draw) -> Case:
    axes = draw(st.sampled_from([(0, 2, 3), (0, 1, 2, 3), (2, 3)]))
    return Case([numbers(draw, draw(shapes(4, 4, low=2)), F32)], {"axes": axes}, tolerance=1e-4)


def _lp_normalization(draw: Draw) -> Case:
    shape = draw(shapes(1, low=1))
    attributes = {"axis": draw(st.integers(-len(shape), len(shape) - 1)), "p": draw(st.integers(1, 2))}
    return Case([numbers(draw, shape, draw(st.sampled_from([F32, F64])))], attributes)


def _global(*types: Any, opset: int = OPSET, tolerance: float | None = None, **attributes: Any) -> Maker:
    def make(draw: Draw) -> Case:
        x = numbers(draw, draw(shapes(3, 5, low=1)), draw(st.sampled_from(types)))
        drawn = {name: draw(values) for name, values in attributes.items()}
        return Case([x], drawn, opset=opset, tolerance=tolerance)

    return make


def _max_unpool(draw: Draw) -> Case:
    kernel, extents = draw(st.integers(1, 3)), draw(shapes(2, 2, low=1))
    x = numbers(draw, (1, 2, *extents), F32)
    whole = 2 * kernel**2 * extents[0] * extents[1]
    places = np.argsort(numbers(draw, (whole,), F64))[: x.size].reshape(x.shape).astype(I64)
    return Case([x, places], {"kernel_shape": (kernel, kernel), "strides": (kernel, kernel)})


def _einsum(draw: Draw) -> Case:
    equation = draw(
        st.sampled_from(
            ["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->i", "ij,ij->", "ij,jk,kl->il", "...ij,...jk->...ik"]
        )
    )
    dtype = draw(st.sampled_from([F32, F64, I32, I64]))
    sizes = {letter: draw(st.integers(1, 3)) for letter in "bijkl"}
    terms = equation.split("->")[0].replace("...", "b").split(",")
    return Case([numbers(draw, [sizes[c] for c in term], dtype) for term in terms], {"equation": equation})


def _along(draw: Draw, shape: Any) -> Any:
    return np.array(draw(st.integers(-len(shape), len(shape) - 1)), draw(st.sampled_from([I32, I64])))


def _blocks(draw: Draw) -> Case:
    block = draw(st.integers(1, 3))
    n, c, h, w = draw(shapes(4, 4, low=1, high=2))
    x = numbers(draw, (n, c * block**2, h, w), draw(st.sampled_from([F32, F64, U8])))
    return Case([x], {"blocksize": block, "mode": draw(st.sampled_from(["DCR", "CRD"]))})


def _unblocked(draw: Draw) -> Case:
    block = draw(st.integers(1, 3))
    n, c, h, w = draw(shapes(4, 4, low=1, high=2))
    x = numbers(draw, (n, c, h * block, w * block), draw(st.sampled_from([F32, F64])))
    return Case([x], {"blocksize": block})


def _split(draw: Draw) -> Case:
    shape = list(draw(shapes(1)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    dtype = draw(st.sampled_from([F32, F64, I32, I64, U8, np.bool_, object]))
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    shape[axis] = sum(lengths)
    return Case([numbers(draw, shape, dtype), np.array(lengths, I64)], {"axis": axis}, outputs=len(lengths))


def _expand(draw: Draw) -> Case:
    a, b = joining(draw, 2)
    return Case([numbers(draw, a, draw(st.sampled_from([F16, F32, F64, *INTEGERS, np.bool_]))), np.array(b, I64)])


def _tile(draw: Draw) -> Case:
    shape = draw(shapes(1))
    x = numbers(draw, shape, draw(st.sampled_from([F32, F64, *INTEGERS, np.bool_, object])))
    return Case([x, numbers(draw, (len(shape),), I64, 0, 4)])


def _reshape(draw: Draw) -> Case:
    shape = draw(shapes(low=1))
    target = list(draw(st.permutations(shape)))
    if target and draw(st.booleans()):
        target[draw(st.integers(0, len(target) - 1))] = -1
    target = target if draw(st.booleans()) else [*target[:1], 1, *target[1:]]
    if target and shape and target[0] == shape[0] and draw(st.booleans()):
        target[0] = 0
    x = numbers(draw, shape, draw(st.sampled_from(ANY)))
    return Case([x, np.array(target, I64)])


def _flatten(draw: Draw) -> Case:
    shape = draw(shapes())
    x = numbers(draw, shape, draw(st.sampled_from(ANY)))
    return Case([x], {"axis": draw(st.integers(-len(shape), len(shape)))})


def _squeeze(draw: Draw) -> Case:
    shape = tuple(1 if draw(st.booleans()) else n for n in draw(shapes(1, 4)))
    ones = [axis - (len(shape) if draw(st.booleans()) else 0) for axis, n in enumerate(shape) if n == 1]
    axes = None if draw(st.booleans()) else np.array(ones, I64)
    axes = None if axes is not None and not axes.size else axes
    return Case([numbers(draw, shape, draw(st.sampled_from(ANY))), axes])


def _unsqueeze(draw: Draw) -> Case:
    shape = draw(shapes())
    rank = len(shape) + draw(st.integers(1, 2))
    axes = draw(st.permutations(range(rank)))[: rank - len(shape)]
    signed = [axis - (rank if draw(st.booleans()) else 0) for axis in axes]
    return Case([numbers(draw, shape, draw(st.sampled_from(ANY))), np.array(signed, I64)])


def _transpose(draw: Draw) -> Case:
    shape = draw(shapes())
    perm = draw(st.none() | st.permutations(range(len(shape))).map(tuple)) if shape else None
    return Case([numbers(draw, shape, draw(st.sampled_from(ANY)))], {"perm": perm})


def _shape(draw: Draw) -> Case:
    x = numbers(draw, draw(shapes()), draw(st.sampled_from(ANY)))
    return Case([x], {"start": draw(st.integers(-4, 4)), "end": draw(st.none() | st.integers(-4, 4))})


def _affine_grid(draw: Draw) -> Case:
    rank, dtype = draw(st.integers(2, 3)), draw(st.sampled_from([F32, F64]))
    size = [2, 3, *draw(shapes(rank, rank, low=2))]
    theta = numbers(draw, (2, rank, rank + 1), dtype)
    return Case([theta, np.array(size, I64)], {"align_corners": draw(flag)}, tolerance=1e-5)


def _running(draw: Draw) -> Case:
    shape = draw(shapes(1))
    x = numbers(draw, shape, draw(st.sampled_from([F32, F64, I32, I64])), -2, 3)
    return Case([x, _along(draw, shape)], {"exclusive": draw(flag), "reverse": draw(flag)})


TABLE: Mapping[str, Maker] = {
    # Activations
    "Relu": unary(F16, F32, F64, I8, I32),
    "Sigmoid": unary(F16, F32, F64),
    "LeakyRelu": unary(F16, F32, alpha=amount(-1, 1)),
    "PRelu": _prelu,
    "Elu": unary(F16, F32, alpha=amount(0.125, 2)),
    "Selu": unary(F16, F32, alpha=amount(0.125, 2), gamma=amount(0.125, 2)),
    "Celu": unary(F32, alpha=amount(0.125, 2)),
    "ThresholdedRelu": unary(F16, F32, alpha=amount(-1, 1)),
    "HardSigmoid": unary(F16, F32, alpha=amount(0, 1), beta=amount(0, 1)),
    "HardSwish": unary(F16, F32),
    "Mish": unary(F16, F32),
    "Gelu": unary(F16, F32, approximate=st.sampled_from(["none", "tanh"])),
    "Softplus": unary(F16, F32),
    "Softsign": unary(F16, F32),
    "Tanh": unary(F16, F32, F64),
    # ONNX Runtime rounds double precision to single here.
    "Shrink": unary(F16, F32, *INTEGERS, lambd=amount(0, 2), bias=st.integers(0, 2).map(float)),
    "Clip": _clip,
    "Dropout": _dropout,
    # Arithmetic
    "Add": binary(F16, F32, F64, *INTEGERS),
    "Sub": binary(F16, F32, F64, *INTEGERS),
    "Mul": binary(F16, F32, F64, *INTEGERS),
    "Div": _div,
    "Pow": _pow,
    "Mod": _mod,
    "Abs": unary(F16, F32, F64, *INTEGERS),
    "Neg": unary(F16, F32, F64, *SIGNED),
    "Reciprocal": unary(F16, F32, F64, low=0.25),
    "Sqrt": unary(F16, F32, F64, low=0),
    "Exp": unary(F16, F32, F64),
    "Log": unary(F16, F32, F64, low=0.125),
    "Erf": unary(F16, F32),
    "Sin": unary(F16, F32, F64),
    "Cos": unary(F16, F32, F64),
    "Tan": unary(F16, F32, low=-1.25, high=1.25),
    "Asin": unary(F16, F32, low=-1, high=1),
    "Acos": unary(F16, F32, low=-1, high=1),
    "Atan": unary(F16, F32),
    "Sinh": unary(F16, F32),
    "Cosh": unary(F16, F32),
    "Asinh": unary(F16, F32),
    "Acosh": unary(F16, F32, low=1),
    "Atanh": unary(F16, F32, low=-0.75, high=0.75),
    "Sign": unary(F16, F32, F64, *INTEGERS),
    "Floor": unary(F16, F32, F64),
    "Ceil": unary(F16, F32, F64),
    "Round": unary(F16, F32, F64),
    "BitwiseAnd": binary(*INTEGERS),
    "BitwiseOr": binary(*INTEGERS),
    "BitwiseXor": binary(*INTEGERS),
    "BitwiseNot": unary(*INTEGERS),
    "Sum": variadic(F16, F32, F64),
    "Mean": variadic(F16, F32),
    "Max": variadic(F16, F32, F64, I8, I32, I64, U8, U32, U64),
    "Min": variadic(F16, F32, F64, I8, I32, I64, U8, U32, U64),
    "Cast": _cast,
    "BitCast": _bit_cast,
    # Comparison and logic
    "Equal": binary(*ANY),
    "Less": binary(F16, F32, F64, *INTEGERS),
    "Greater": binary(F16, F32, F64, *INTEGERS),
    "LessOrEqual": binary(F16, F32, F64, *INTEGERS),
    "GreaterOrEqual": binary(F16, F32, F64, *INTEGERS),
    "And": binary(np.bool_),
    "Or": binary(np.bool_),
    "Xor": binary(np.bool_),
    "Not": unary(np.bool_),
    "IsNaN": lambda draw: Case([_special(draw)]),
    "IsInf": _is_inf,
    "Where": _where,
    # Indexing
    "GatherND": _gather_nd,
    "Compress": _compress,
    "OneHot": _one_hot,
    "NonZero": _non_zero,
    "Unique": _unique,
    "ReverseSequence": _reverse_sequence,
    "Trilu": _trilu,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    # Tensors out of nothing
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _eye_like,
    # Products
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
    "ConvInteger": _conv_integer,
    "Einsum": _einsum,
    "CumProd": _running,
    # Normalization and pooling
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _instance_normalization,
    "GroupNormalization": _group_normalization,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "LpNormalization": _lp_normalization,
    "GlobalAveragePool": _global(F16, F32),
    "GlobalMaxPool": _global(F16, F32),
    "GlobalLpPool": _global(F32, opset=21, tolerance=1e-4, p=st.integers(1, 3)),
    "MaxUnpool": _max_unpool,
    # Shapes
    "DepthToSpace": _blocks,
    "SpaceToDepth": _unblocked,
    "Split": _split,
    "Expand": _expand,
    "Tile": _tile,
    "Identity": unary(*ANY),
    "Shape": _shape,
    "Size": unary(*ANY),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "AffineGrid": _affine_grid,
}

NO_KERNEL: Mapping[str, tuple[str, Maker]] = {
    "Swish": ("ONNX Runtime 1.31 has no kernel and does not expand the function", unary(F32, alpha=amount(-2, 2))),
}

ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "definitions/activation/test_activation.py": ("Softmax", "LogSoftmax", "Hardmax"),
    "definitions/arithmetic/test_shifts.py": ("BitShift", "CastLike"),
    "definitions/attention/test_attention.py": ("Attention", "RotaryEmbedding"),
    "definitions/attention/test_cache.py": ("TensorScatter",),
    "definitions/convolution/test_convolution.py": ("Conv", "ConvTranspose", "DeformConv", "QLinearConv"),
    "definitions/detection/test_detection.py": ("NonMaxSuppression", "RoiAlign"),
    "definitions/generate/test_generate.py": ("Range",),
    "definitions/indexing/test_indexing.py": ("Gather", "GatherElements", "Slice"),
    "definitions/loss/test_loss.py": ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
    "definitions/matmul/test_determinant.py": ("Det",),
    "definitions/matmul/test_matmul.py": ("Gemm",),
    "definitions/normalization/test_normalization.py": ("LayerNormalization", "LRN", "RMSNormalization"),
    "definitions/padding/test_center.py": ("CenterCropPad",),
    "definitions/padding/test_padding.py": ("Pad",),
    "definitions/pooling/test_pooling.py": ("AveragePool", "LpPool", "MaxPool", "MaxRoiPool"),
    "definitions/quantization/test_quantization.py": ("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"),
    "definitions/recurrent/test_recurrent.py": ("GRU", "LSTM", "RNN"),
    "definitions/reduction/test_reduction.py": (
        *("ArgMax", "ArgMin", "CumSum", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax"),
        *("ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "TopK"),
    ),
    "definitions/reshape/test_columns.py": ("Col2Im",),
    "definitions/reshape/test_reshape.py": ("Concat",),
    "definitions/resize/test_resize.py": ("GridSample", "Resize"),
    "definitions/signal/test_signal.py": (
        "BlackmanWindow",
        "DFT",
        "HammingWindow",
        "HannWindow",
        "MelWeightMatrix",
        "STFT",
    ),
    "definitions/text/test_text.py": (
        "RegexFullMatch",
        "StringConcat",
        "StringNormalizer",
        "StringSplit",
        "TfIdfVectorizer",
    ),
}

SEQUENCES = """
agraph (TYPE[N, M] x, TYPE[K, M] y, int64 i) => (seq(TYPE[]) more, TYPE[] one, int64 n, seq(TYPE[]) fewer) {
    some = SequenceConstruct (x, y)
    more = SequenceInsert (some, x, i)
    one = SequenceAt (more, i)
    n = SequenceLength (more)
    fewer = SequenceErase (more, i)
}"""
OPTIONALS = """
agraph (TYPE[N, M] x) => (bool there, TYPE[] y) {
    o = Optional (x)
    there = OptionalHasElement (o)
    y = OptionalGetElement (o)
}"""

MODELS: Mapping[tuple[str, ...], str] = {
    ("If",): """
agraph (TYPE[N, M] x, bool flag) => (TYPE[] y) {
    y = If (flag) <
        then_branch = yes () => (TYPE[] a) { a = Concat <axis = 0> (x, x) },
        else_branch = no () => (TYPE[] b) { b = Neg (x) }
    >
}""",
    ("Loop",): """
agraph (int64 i, bool flag, TYPE[N, M] x) => (TYPE[] last, TYPE[] all) {
    zero = Constant <value_int = 0> ()
    rounds = Max (i, zero)
    last, all = Loop (rounds, flag, x) <body = step (int64 k, bool go, TYPE[N, M] v) => (bool on, TYPE[N, M] w, TYPE[N, M] s) {
        on = Identity (go)
        w = Add (v, x)
        s = Neg (w)
    }>
}""",
    ("Scan",): """
agraph (TYPE[M] z, TYPE[N, M] x) => (TYPE[] last, TYPE[] all) {
    last, all = Scan <num_scan_inputs = 1, scan_input_directions = [FLAG], scan_output_axes = [AXIS],
        body = step (TYPE[M] s, TYPE[M] e) => (TYPE[M] t, TYPE[M] u) {
            t = Add (s, e)
            u = Neg (t)
        }> (z, x)
}""",
    ("SequenceConstruct", "SequenceInsert", "SequenceAt", "SequenceLength", "SequenceErase"): SEQUENCES,
    ("Optional", "OptionalHasElement", "OptionalGetElement"): OPTIONALS,
    ("SequenceEmpty",): """
agraph (TYPE[N, M] x) => (seq(TYPE[]) one, int64 n) {
    none = SequenceEmpty <dtype = NUMBER> ()
    n = SequenceLength (none)
    one = SequenceInsert (none, x)
}""",
    ("SplitToSequence",): """
agraph (TYPE[N, M] x) => (seq(TYPE[]) s, int64 n) {
    s = SplitToSequence <axis = AXIS, keepdims = FLAG> (x)
    n = SequenceLength (s)
}""",
    ("ConcatFromSequence",): """
agraph (TYPE[N, M] x) => (TYPE[] y) {
    s = SequenceConstruct (x, x)
    y = ConcatFromSequence <axis = AXIS, new_axis = FLAG> (s)
}""",
    ("SequenceMap",): """
agraph (TYPE[N, M] x, TYPE[K, M] y, TYPE[M] z) => (seq(TYPE[]) s) {
    all = SequenceConstruct (x, y)
    s = SequenceMap (all, z) <body = each (TYPE[P, M] e, TYPE[M] w) => (TYPE[P, M] g) { g = Add (e, w) }>
}""",
}
ELEMENTS = {"float": F32, "double": F64, "int32": I32, "int64": I64}


def stored(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: storage_of(a) if isinstance(a, np.ndarray) else a for name, a in attributes.items()}


@pytest.mark.parametrize("name", TABLE)
@EXAMPLES
@given(data=st.data())
def test_a_definition_is_the_operator_of_onnx_runtime(name: str, data: st.DataObject) -> None:
    op_def, case = OP_DEFS[name], TABLE[name](data.draw)
    expected = run_ort(name, case.inputs, stored(case.attributes), opset=case.opset, outputs=case.outputs)
    found = run_operator(op_def, case.inputs, **case.attributes)[: case.outputs]
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        compare(a, b, tolerance=case.tolerance, what=f"{name}: result {number}")
    check_shapes(op_def, case.inputs, found, **case.attributes)


def test_onehot_and_unique_support_strings() -> None:
    words = np.array([["é", "a"], ["", "bc"], ["é", "a"]], object)
    check_operator(OP_DEFS["OneHot"], [np.array([1, 0, -1]), np.array([2]), words[0]])
    for axis in (None, 0, 1):
        for order in (0, 1):
            check_operator(OP_DEFS["Unique"], [words], outputs=4, axis=axis, sorted=order)


@pytest.mark.parametrize("name", NO_KERNEL)
@EXAMPLES
@given(data=st.data())
def test_a_definition_that_onnx_runtime_lacks_is_the_operator_of_the_standard(name: str, data: st.DataObject) -> None:
    case = NO_KERNEL[name][1](data.draw)
    check_by_standard(OP_DEFS[name], case.inputs, outputs=case.outputs, tolerance=case.tolerance, **case.attributes)


@pytest.mark.parametrize("name", NO_KERNEL)
def test_onnx_runtime_lacks_the_kernel(name: str) -> None:
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        run_ort(name, [np.ones((2, 3), F32)])


@pytest.mark.parametrize("names", MODELS, ids="-".join)
@EXAMPLES
@given(data=st.data())
def test_a_model_of_sequences_or_bodies_is_that_of_onnx_runtime(names: tuple[str, ...], data: st.DataObject) -> None:
    element = data.draw(st.sampled_from(sorted(ELEMENTS)))
    dtype, axis = ELEMENTS[element], data.draw(st.integers(-2, 1))
    text = MODELS[names].replace("TYPE", element).replace("AXIS", str(axis)).replace("FLAG", str(data.draw(flag)))
    text = text.replace("NUMBER", str(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    assert {*names} <= {node.op_type for node in proto.graph.node}
    sizes = {size: data.draw(st.integers(1, 4)) for size in "NMK"}
    feeds = {
        info.name: np.asarray(_fed(data.draw, info, sizes, dtype), _NUMPY.get(info.name, dtype))
        for info in proto.graph.input
    }
    expected: Any = _ort(proto, feeds)
    model = gp.from_onnx(proto)
    for backend in ("reference", "onnxruntime"):
        found: Any = list(gp.run(model, feeds, backend=backend).values())
        for a, b in zip(found, expected, strict=True):
            _same(a, b)
    known: Any = model.shapes()
    for info, value in zip(proto.graph.output, expected, strict=True):
        _fits(known[info.name], value, sizes)


_NUMPY = {"i": I64, "flag": np.bool_}


def _fed(draw: Draw, info: onnx.ValueInfoProto, sizes: Mapping[str, int], dtype: Any) -> Any:
    if info.name == "i":
        return draw(st.integers(-2, 2))
    if info.name == "flag":
        return draw(st.booleans())
    return numbers(draw, [sizes[dim.dim_param] for dim in info.type.tensor_type.shape.dim], dtype)


def _ort(proto: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def _same(found: Any, expected: Any) -> None:
    assert isinstance(found, list) == isinstance(expected, list)
    if not isinstance(expected, list):
        compare(np.asarray(found), np.asarray(expected))
        return
    for a, b in zip(found, expected, strict=True):
        _same(a, b)


def _fits(fact: Any, value: Any, sizes: Mapping[str, int]) -> None:
    if isinstance(value, list):
        for item in value:
            _fits(fact.element, item, sizes)
        return
    assert isinstance(fact, TensorFact)
    assert fact.dtype is DType.of(value.dtype)
    if fact.shape is None:
        return
    assert len(fact.shape) == value.ndim
    if not value.size:
        # No size is 0: a loop without a round, of which ONNX Runtime and the definition leave open dims 0.
        return
    for dim, n in zip(fact.shape, value.shape, strict=True):
        if isinstance(dim, int):
            assert dim == n
        elif symbols(dim).keys() <= sizes.keys():
            assert evaluate(dim, sizes) == n, f"{dim} with {sizes}, computed {n}"


def test_no_definition_is_omitted() -> None:
    grouped = [name for names in (*MODELS, *ELSEWHERE.values()) for name in names]
    tested = [*TABLE, *NO_KERNEL, *grouped]
    assert len(tested) == len(set(tested)), "an operator is listed twice"
    ours = {name for name, op_def in OP_DEFS.items() if not op_def.domain and not op_def.is_random}
    assert set(tested) == ours


@every("path", ELSEWHERE)
def test_the_tests_of_a_family_hold_its_definitions_against_onnx_runtime(path: str) -> None:
    text = (Path(__file__).parent / path).read_text(encoding="utf-8")
    assert "@given" in text
    assert re.search(r"\b(check_operator|run_ort)\(", text)
    for name in ELSEWHERE[path]:
        assert re.search(rf"\b{name}\b", text), f"{path} does not speak of {name}"
