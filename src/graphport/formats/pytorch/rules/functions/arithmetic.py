"""Element-wise functions of PyTorch, and PNNX expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.expression.functions import ARITIES, NUMPY_FUNCTIONS, SIGNATURES
from graphport.expression.parse import parse
from graphport.expression.scalars import apply_to_scalars
from graphport.expression.syntax import Call, List, Literal, Node, Reference, postorder
from graphport.formats.pytorch.rules.binding import DIALECT, Scalar, Tensor, emits, scalar_of
from graphport.formats.pytorch.rules.promotion import DEFAULT, cast, common, computed, kernel, promoted
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops import expressions
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Max, Min, Mul, Reciprocal, Sub
from graphport.ops.definitions.comparison import Equal, IsInf, IsNaN, Less, Or, Where
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, finite_limits, vector

# ── expressions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@lower(DIALECT, "Expression")
def expression(b: Builder, *operands: Value, expr: str, **keys: Any) -> Value:
    """Evaluate an expression of elementwise functions on tensors, or of arithmetic on sizes."""
    del keys  # operands are referenced by index
    try:
        tree = parse(expr, ARITIES, lenient=True).tree
        if isinstance(tree, List | Literal) or any(isinstance(n, Call) and n.text == "size" for n in postorder(tree)):
            return _as_tensor(b, _evaluated(b, tree, operands))
        return expressions.expanded(b, str(tree), operands)
    except DiagnosticError as error:
        raise UnsupportedError(error.diagnostics[0].message) from error


def _evaluated(b: Builder, tree: Node, operands: Sequence[Value]) -> Any:
    """Evaluate a tree; return a number, a tensor, or a list of both."""
    done: list[Any] = []
    for node in postorder(tree):
        taken = done[len(done) - len(node.arguments) :] if node.arguments else []
        del done[len(done) - len(taken) :]
        match node:
            case Reference():
                done.append(_operand(operands, node.index))
            case Literal():
                done.append(node.value)
            case List():
                done.append(list(taken))
            case _:
                done.append(_called(b, node.text, taken))
    return done[0]


def _operand(operands: Sequence[Value], index: int) -> Value:
    if index >= len(operands):
        message = f"operand @{index} does not exist"
        raise UnsupportedError(message)
    return operands[index]


def _called(b: Builder, name: str, taken: Sequence[Any]) -> Any:
    if name == "size":
        return _size(b, *taken)
    if all(isinstance(x, bool | int | float | complex) for x in taken):
        return apply_to_scalars(NUMPY_FUNCTIONS[name], taken)
    if any(not isinstance(x, Value | bool | int | float) for x in taken):
        message = f"{name} of a list is not supported"
        raise UnsupportedError(message)
    if name not in SIGNATURES:
        raise UnsupportedError(name)
    return computed(b, name, *taken)


def _size(b: Builder, x: Any, axis: Any = None) -> Any:
    """Return the shape, or one dim, as a number if it is static."""
    if not isinstance(x, Value):
        message = "size() of a number"
        raise UnsupportedError(message)
    dims = b.dims(x)
    if axis is None:
        return [_size(b, x, place) for place in range(len(dims))]
    place = int(scalar_of(axis)) % max(len(dims), 1)
    known = dims[place]
    return known if isinstance(known, int) else b(Squeeze, b(Shape, x, start=place, end=place + 1), [0])


def _as_tensor(b: Builder, found: Any) -> Value:
    if isinstance(found, Value):
        return found
    if isinstance(found, bool | int | float):
        kind = DType.BOOL if isinstance(found, bool) else DType.INT64 if isinstance(found, int) else DEFAULT
        return b.constant(found, kind)
    if not isinstance(found, list):
        message = f"expected a tensor, found {found}"
        raise UnsupportedError(message)
    if all(isinstance(x, int) for x in found):
        return vector(b, found)
    if any(isinstance(x, Value) and (dtype_of(x) is DType.BOOL or len(b.dims(x)) > 1) for x in found):
        message = "a list of tensors that are boolean or have a rank above 1"
        raise UnsupportedError(message)
    entries = [b(Unsqueeze, cast(b, x, DType.INT64), [0]) if isinstance(x, Value) else x for x in found]
    if not all(isinstance(x, Value | int) for x in entries):
        message = "a nested list is not supported"
        raise UnsupportedError(message)
    parts = [x if isinstance(x, Value) else vector(b, [x]) for x in entries]
    return b(Concat, *(b(Reshape, part, [-1]) for part in parts), axis=0)


# ── functions that expressions have, too ──────────────────────────────────────────────────────────────────────────────

_NOT_CALLED = frozenset({"size", "int", "torch.float", "torch.long", "torch.bool", "and", "or", "xor", "add", "sub"})
_OTHER_NAMES = {"lshift": ("bitwise_left_shift", "__lshift__"), "rshift": ("bitwise_right_shift", "__rshift__")}


def _register_functions() -> None:
    for name, signature in SIGNATURES.items():
        if name in _NOT_CALLED or name in ("max", "min", "div", "pow"):
            continue
        words = [
            f"{space}{op_type}" for op_type in (name, *_OTHER_NAMES.get(name, ())) for space in ("torch.", "aten::")
        ]
        operands = "input" if signature.arities == (1,) else "input, other"
        PNNX.lower(f'{", ".join(words)}({operands}) -> computed("{name}", {operands})')


_register_functions()


def _times(b: Builder, x: Tensor, factor: Scalar) -> Tensor:
    if factor == 1:
        return x
    return computed(b, "mul", x, factor) if isinstance(x, Value) else x * factor


def _is_integral(b: Builder, *operands: Tensor) -> bool:
    return common(b, *operands).is_integer


def _double(b: Builder, x: Tensor) -> Tensor:
    return cast(b, x, DType.FLOAT64) if isinstance(x, Value) else x


PNNX.having(is_integral=_is_integral, double=_double).lower("""
torch.div, aten::div, aten::div_, torch.true_divide(input, other, rounding_mode=None)
    -> rounding_mode is None: computed("div", input, other)
    -> rounding_mode == "floor": computed("floor_divide", input, other)
    -> rounding_mode == "trunc" and is_integral(input, other): Div(*promoted(input, other))
    -> rounding_mode == "trunc": computed("trunc", computed("div", input, other))
torch.float_power, aten::float_power(input, exponent) -> computed("pow", double(input), double(exponent))
# The extreme; where one of both is no number, the other.
torch.fmax, aten::fmax(input, other)
    -> x, y = promoted(input, other); is_floating(x): Where(IsNaN(x), y, Where(IsNaN(y), x, Max(x, y)))
    -> Max(x, y)
torch.fmin, aten::fmin(input, other)
    -> x, y = promoted(input, other); is_floating(x): Where(IsNaN(x), y, Where(IsNaN(y), x, Min(x, y)))
    -> Min(x, y)
""")


PNNX.having(times=_times).lower("""
torch.add, aten::add, aten::add_(input, other, alpha=1) -> computed("add", input, times(other, alpha))
torch.sub, aten::sub, aten::sub_(input, other, alpha=1) -> computed("sub", input, times(other, alpha))
torch.rsub, aten::rsub(input, other, alpha=1) -> computed("sub", other, times(input, alpha))
torch.pow, aten::pow(input, exponent) -> computed("pow", input, exponent)
torch.ldexp, aten::ldexp(input, other) -> computed("mul", input, computed("pow", 2.0, other))
torch.addcmul, aten::addcmul(input, tensor1, tensor2, value=1)
    -> computed("add", input, times(computed("mul", tensor1, tensor2), value))
torch.addcdiv, aten::addcdiv(input, tensor1, tensor2, value=1)
    -> computed("add", input, times(computed("div", tensor1, tensor2), value))
torch.where, aten::where(condition, input, other) <-> Where(condition, *promoted(input, other))
""")


PNNX.lower("""
torch.log2, aten::log2(input) -> Div(computed("log", floating(input)), math.log(2))
torch.exp2, aten::exp2, torch.special_exp2, aten::special_exp2(input) -> Exp(Mul(floating(input), math.log(2)))
torch.erfc, aten::erfc(input) -> Sub(1, computed("erf", floating(input)))
torch.frac, aten::frac(input) -> Sub(input, computed("trunc", input))
torch.sgn, aten::sgn(input) -> Sign(input)
torch.deg2rad, aten::deg2rad(input) -> computed("mul", floating(input), math.pi / 180)
torch.rad2deg, aten::rad2deg(input) -> computed("mul", floating(input), 180 / math.pi)
torch.sinc, aten::sinc(input)
    -> Where(is_zero := Equal(x := floating(input), 0), 1,
             Div(Sin(angle := Mul(x, math.pi)), Where(is_zero, 1, angle)))
# Without `eps` the ends 0 and 1 are infinite.
torch.logit, aten::logit(input, eps: float = None)
    -> eps is None: Log(Div(x := floating(input), Sub(1, x)))
    -> Log(Div(x := Min(Max(floating(input), eps), 1 - eps), Sub(1, x)))
torch.heaviside, aten::heaviside(input, values)
    -> Where(Equal(input, 0), values, Where(Less(input, 0), like(input, 0), like(input, 1)))
""")


def _as_tensor_of_one(b: Builder, x: Tensor) -> Value:
    return x if isinstance(x, Value) else b.constant(x)


PNNX.having(tensor=_as_tensor_of_one).lower("""
# A tensor of one element and the number that it is are the same here.
prim::NumToTensor, aten::Int, aten::ScalarImplicit, aten::IntImplicit, aten::FloatImplicit(input) -> tensor(input)
""")


@emits("torch.hypot", "aten::hypot")
def hypot(b: Builder, input: Value, other: Value) -> Value:
    """hypot: large * sqrt(1 + (small / large)²), because the squares may overflow."""
    x, y = (b(Abs, each) for each in promoted(b, input, other))
    large, small = b(Max, x, y), b(Min, x, y)
    is_zero = b(Equal, large, 0)
    one = b.like(large, 1)
    ratio = b(Div, small, b(Where, is_zero, one, large))
    return b(Mul, large, kernel(b, "sqrt", b(Add, one, b(Mul, ratio, ratio))))


def _has_sign(b: Builder, x: Value) -> Value:
    """Whether the sign bit is set: x < 0, or 1 / x < 0 for the negative zero."""
    zero = b.like(x, 0)
    if not dtype_of(x).is_floating:
        return b(Less, x, zero)
    return b(Or, b(Less, x, zero), b(Less, b(Reciprocal, x), zero))


PNNX.having(has_sign=_has_sign).lower("""
torch.signbit, aten::signbit(input) -> has_sign(input)
torch.copysign, aten::copysign(input, other)
    -> x, y = promoted(input, other); Where(has_sign(floating(y)), Neg(size := Abs(floating(x))), size)
torch.logaddexp2, aten::logaddexp2(input, other)
    -> x, y = promoted(input, other);
       Div(kernel("logaddexp", Mul(x, math.log(2)), Mul(y, math.log(2))), math.log(2))
# 0 where the first is 0, also of the logarithm of 0.
torch.xlogy, aten::xlogy, aten::special_xlogy(input, other)
    -> x, y = promoted(input, other);
       Where(IsNaN(y := floating(y)), y, Where(Equal(x := floating(x), 0), 0, Mul(x, kernel("log", y))))
""")


PNNX.lower(
    """
torch.positive, aten::positive, torch.clone, Tensor.clone, aten::clone, Tensor.detach, aten::detach, Tensor.contiguous,
    aten::contiguous, aten::alias, aten::lift_fresh_copy, Tensor.cpu, Tensor.cuda(input) -> input
""",
    ignores=("memory_format",),
)


# ── of three and more ─────────────────────────────────────────────────────────────────────────────────────────────────


@emits("torch.lerp", "aten::lerp")
def lerp(b: Builder, input: Value, end: Value, weight: Tensor) -> Value:
    """lerp, computed from `input` for weights below 0.5, else from `end`, like PyTorch."""
    gap = b(Sub, end, input)
    near, far = b(Add, input, computed(b, "mul", gap, weight)), b(Sub, end, _scale_by_complement(b, gap, weight))
    if not isinstance(weight, Value):
        return near if abs(weight) < 0.5 else far
    return b(Where, b(Less, b(Abs, weight), 0.5), near, far)


def _scale_by_complement(b: Builder, gap: Value, weight: Tensor) -> Value:
    left = computed(b, "sub", 1, weight) if isinstance(weight, Value) else 1 - weight
    return computed(b, "mul", gap, left)


def _filler(b: Builder, value: Tensor, x: Value) -> Value:
    return cast(b, value, dtype_of(x)) if isinstance(value, Value) else b.like(x, value)


PNNX.having(filler=_filler).lower("""
Tensor.masked_fill, torch.masked_fill, aten::masked_fill(input, mask, value)
    -> Where(mask, filler(value, input), input)
""")


@emits("torch.nan_to_num", "aten::nan_to_num")
def nan_to_num(b: Builder, input: Value, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Value:
    dtype = dtype_of(input)
    if not dtype.is_floating:
        return input
    low, high = finite_limits(dtype)
    high = high if posinf is None else scalar_of(posinf)
    low = low if neginf is None else scalar_of(neginf)
    y = b(Where, b(IsNaN, input), b.like(input, scalar_of(nan) or 0.0), input)
    y = b(Where, b(IsInf, y, detect_negative=0), b.like(input, high), y)
    return b(Where, b(IsInf, y, detect_positive=0), b.like(input, low), y)
