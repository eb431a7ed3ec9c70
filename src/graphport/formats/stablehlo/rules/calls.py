"""Custom calls that frameworks write."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.program import Dense, TensorType, dictionary, elements_of
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.algebra import lu_factors
from graphport.formats.stablehlo.rules.elementwise import RULES
from graphport.formats.stablehlo.rules.emitter import Emitter, rule
from graphport.formats.stablehlo.rules.reductions import as_tensor, running_sums, windows_reduced
from graphport.formats.stablehlo.rules.shapes import ints_of, padded_axes
from graphport.formats.stablehlo.rules.sorting import largest_elements
from graphport.formats.stablehlo.rules.values import Held, Pair, flattened
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.formats.stablehlo.program import Attribute, Operation

_IDENTITIES = frozenset(
    {
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"),
        *("MoveToHost", "MoveToDevice", "LayoutConstraint", "xla.sdy.FuncResultSharding"),
    }
)
_ASSERTIONS = frozenset({"shape_assertion", "check.expect_close", "check.expect_eq", "check.expect_almost_eq"})


@rule("custom_call", takes_codes=True)
def custom_call(e: Emitter, op: Operation, *xs: Held) -> list[Held]:
    """A call of a known name; others are refused."""
    name = str(op.attributes.get("callee", ""))
    if name in _IDENTITIES:
        return list(xs)
    if name in _ASSERTIONS and not op.results:
        return []
    if name in ("mhlo.topk", "TopK") and len(xs) == 1 and isinstance(xs[0], Value):
        return _top_k(e, op, xs[0])
    if name == "ApproxTopK" and len(xs) >= 4:
        return _approximate_top_k(e, op, xs)
    if (routine := _LAPACK.fullmatch(name)) is not None:
        return _linear_algebra(e, op, routine[1], xs)
    if name == "check.eq":
        return [_all_equal(e, xs)]
    if name == "stablehlo.dynamic_reduce_window":
        return _dynamic_reduce_window(e, op, xs)
    own = name.replace("mhlo.", "chlo.", 1)
    if name.startswith("mhlo.") and own in RULES:
        return e.apply(replace(op, name=own), list(xs))
    help = "remove calls of host functions and libraries" if _is_host(name) else None
    return refuse("SH0006", f"unsupported: the custom call @{name}", help=help)


def _is_host(name: str) -> bool:
    return "callback" in name or name.startswith(("lapack", "xla_", "cu", "hip"))


def _top_k(e: Emitter, op: Operation, x: Value) -> list[Held]:
    attributes = dictionary(op.attributes.get("mhlo.attributes")) or dictionary(op.attributes.get("backend_config"))
    count = attributes.get("k")
    if isinstance(count, Dense):
        numbers = ints_of(count, "k")
        count = numbers[0] if len(numbers) == 1 else None
    if not isinstance(count, int) or attributes.get("largest") is False:
        refuse("SH0006", "unsupported: a custom call of top-k without a constant k, or of the smallest elements")
    return largest_elements(e, x, count)


def _approximate_top_k(e: Emitter, op: Operation, xs: Sequence[Held]) -> list[Held]:
    """The first elements in the order of a comparator: XLA sorts on CPU, with `is_fallback`."""
    names = elements_of(op.attributes.get("called_computations"))
    function = e.program.functions.get(str(names[0])) if names else None
    axis = _options(op).get("reduction_dim")
    shape = next((each.shape for each in op.result_types[:1] if isinstance(each, TensorType)), ())
    size = shape[axis] if isinstance(axis, int) and 0 <= axis < len(shape) else None
    if function is None or function.body is None or not isinstance(axis, int) or size is None:
        refuse("SH0006", "unsupported: the custom call @ApproxTopK without a comparator, or of an open size")
    given = list(xs[: len(xs) // 2])
    attributes: dict[str, Attribute] = {"dimension": axis, "is_stable": True}
    ordered = replace(op, name="sort", attributes=attributes, regions=[function.body])
    return [e.slice(as_tensor(x), axis, 0, size) for x in e.apply(ordered, given)]


def _options(op: Operation) -> Mapping[str, Attribute]:
    return dictionary(op.attributes.get("mhlo.backend_config"))


_LAPACK = re.compile(r"lapack_[sdcz](potrf|trsm|getrf)_ffi")


def _linear_algebra(e: Emitter, op: Operation, routine: str, xs: Sequence[Held]) -> list[Held]:
    if routine == "trsm" and len(xs) == 2:
        return _triangular_solve(e, op, xs)
    if len(xs) != 1 or not isinstance(xs[0], (Value, Pair)):
        refuse("SH0007", f"{routine}: expected one matrix")
    return _cholesky(e, op, xs[0]) if routine == "potrf" else list(lu_factors(e, op, xs[0]))


def _cholesky(e: Emitter, op: Operation, a: Value | Pair) -> list[Held]:
    """LAPACK's factor, with the unused triangle of `a`, and a number other than 0 if the factor does not exist."""
    is_lower = _options(op).get("uplo") == ord("L")
    (found,) = e.apply(replace(op, name="cholesky", attributes={"lower": is_lower}), [a])
    last = as_tensor(found)
    axes = [e.rank(last) - 2, e.rank(last) - 1]
    size = e.static(last, axes[0])
    if size == 0:
        return [found, e.expand(e.constant(0, DType.INT32), e.sizes(last)[:-2])]
    has_factor = e.constant(np.tri(size, dtype=bool) if is_lower else np.tri(size, dtype=bool).T)
    pairs = zip(flattened(found), flattened(a), strict=True)
    components = [e("Where", has_factor, computed, operand) for computed, operand in pairs]
    factor: Held = Pair(*components) if isinstance(a, Pair) else components[0]
    for axis in axes:
        last = e.slice(last, axis, size - 1, size)
    # A pivot that is not positive makes the last one NaN.
    return [factor, e.cast(e("IsNaN", e("Squeeze", last, e.ints(*axes))), DType.INT32)]


def _triangular_solve(e: Emitter, op: Operation, xs: Sequence[Held]) -> list[Held]:
    """LAPACK's solution of a triangular system; its options are ASCII codes of letters."""
    options = _options(op)
    kinds = {"TRANSPOSE": "T", "ADJOINT": "C"}
    attributes: dict[str, Attribute] = {
        "left_side": options.get("side") == ord("L"),
        "lower": options.get("uplo") == ord("L"),
        "transpose_a": next((k for k, c in kinds.items() if options.get("trans_x") == ord(c)), "NO_TRANSPOSE"),
        "unit_diagonal": options.get("diag") == ord("U"),
    }
    return e.apply(replace(op, name="triangular_solve", attributes=attributes), list(xs))


def _all_equal(e: Emitter, xs: Sequence[Held]) -> Value:
    """Whether all elements of two tensors are equal (`check.expect_eq`)."""
    values = [value for x in xs for value in flattened(x)]
    if len(values) != 2:
        refuse("SH0006", "unsupported: check.eq of non-numeric tensors")
    a, b = values
    same = e.cast(e("Equal", a, b), DType.INT32)
    return e.cast(e("ReduceMin", same, keepdims=0), DType.BOOL)


def _dynamic_reduce_window(e: Emitter, op: Operation, xs: tuple[Held, ...]) -> list[Held]:
    """Reduce windows whose sizes and padding are operands; except for running sums, sizes must be constant."""
    count = (len(xs) - 5) // 2
    names = elements_of(op.attributes.get("called_computations"))
    function = e.program.functions.get(str(names[0])) if names else None
    if count < 1 or len(xs) != 2 * count + 5 or function is None or function.body is None:
        refuse(
            "SH0007", "stablehlo.dynamic_reduce_window: expected operands, initial values, window sizes and a function"
        )
    given, initial, numbers = list(xs[:count]), list(xs[count : 2 * count]), xs[2 * count :]
    rank = e.rank(as_tensor(given[0]))
    window: dict[str, Any] = {name: e.known_sizes(x) for name, x in zip(_WINDOW, numbers, strict=True)}
    padding: list[Any] | None = window.pop("padding")
    if padding is None and isinstance(numbers[-1], Value):
        given = [_padded(e, x, start, numbers[-1]) for x, start in zip(given, initial, strict=True)]
        padding = [0] * (2 * rank)
    if padding is None:
        refuse("SH0007", "stablehlo.dynamic_reduce_window: the padding is not a tensor")
    lengths = [len(window[name] or [1] * rank) for name in _WINDOW[:-1]]
    if len(padding) != 2 * rank or any(length != rank for length in lengths):
        refuse("SH0007", f"stablehlo.dynamic_reduce_window: window of rank {lengths} for an operand of rank {rank}")
    window["low"], window["high"] = padding[0::2], padding[1::2]
    if count == 1 and (sums := running_sums(e, function.body, given[0], initial[0], window)) is not None:
        return [sums]
    for name, x in zip(_WINDOW[:-1], numbers, strict=False):
        window[name] = e.must_know(x, name)
        if min(window[name], default=1) < 1:
            refuse("SH0007", f"stablehlo.dynamic_reduce_window: {name} = {window[name]}")
    if any(not isinstance(n, int) for n in padding):
        given = [_padded(e, x, start, numbers[-1]) for x, start in zip(given, initial, strict=True)]
        window["low"] = window["high"] = [0] * (len(padding) // 2)
    return windows_reduced(e, function.body, given, initial, window)


_WINDOW = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")


def _padded(e: Emitter, x: Held, start: Held, padding: Held) -> Held:
    if not isinstance(x, Value) or not isinstance(start, Value) or not isinstance(padding, Value):
        refuse("SH0006", "unsupported: stablehlo.dynamic_reduce_window of complex tensors with dynamic padding")
    return padded_axes(e, x, start, padding, range(e.rank(x)))
