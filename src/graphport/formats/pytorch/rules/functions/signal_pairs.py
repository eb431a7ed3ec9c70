"""Complex tensors of PyTorch as pairs of real tensors, because ONNX operators compute on real tensors.

Before import, a graph pass converts every complex tensor to a real one with a last axis of 2, and adds the prefix
`COMPLEX` to op types of nodes with complex operands or results; the attribute of this name marks complex operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import Literal, Node, Reference, postorder
from graphport.formats.pytorch.rules.binding import COMPLEX, DIALECT, Function, bound, scalar_of, weight_of
from graphport.formats.pytorch.rules.functions.arithmetic import hypot
from graphport.formats.pytorch.rules.promotion import cast, computed, kernel
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Add, Cos, Div, Exp, Mul, Neg, Sin, Sub
from graphport.ops.definitions.reshape import Concat, Split, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, vector
from graphport.ops.lowering.table import RuleTable
from graphport.ops.rule_language.rule import ImportRule


@dataclass(frozen=True, slots=True)
class Pair:
    """Real and imaginary part of a complex tensor."""

    real: Value
    imaginary: Value


Part = Value | Pair


def split_complex(b: Builder, x: Value) -> Pair:
    """Split a tensor with a last axis of 2 into real and imaginary part."""
    last = vector(b, [-1])
    real, imaginary = b.results(Split, 2, x, [1, 1], axis=-1)
    return Pair(b(Squeeze, real, last), b(Squeeze, imaginary, last))


def stacked(b: Builder, x: Part) -> Value:
    if isinstance(x, Value):
        return x
    last = vector(b, [-1])
    return b(Concat, b(Unsqueeze, x.real, last), b(Unsqueeze, x.imaginary, last), axis=-1)


def in_pairs(function: Function, b: Builder, /, *operands: Value | None, **attributes: Any) -> tuple[Value, ...]:
    """Call a function of complex tensors; operands and results are real tensors with a last axis of 2."""
    flags = attributes.pop(COMPLEX, ())
    given = [split_complex(b, x) if flag and x is not None else x for x, flag in zip(operands, flags, strict=True)]
    found = registry.results(function(b, *given, **attributes))
    return tuple(stacked(b, y) for y in found if y is not None)


def of_pairs(op_type: str, function: Function, ignores: Sequence[str] = ()) -> Function:
    """Return the rule of an operator with complex operands or results."""
    rule = partial(in_pairs, bound(op_type, function, ignores))
    if isinstance(function, ImportRule):
        # A function may also be the rule for real tensors; a row is not.
        vars(rule)["__wrapped__"] = function
    return rule


def pairs(*words: str) -> Callable[[Function], Function]:
    """Register an import rule for op types with complex operands or results."""

    def register(function: Function) -> Function:
        for op_type in words:
            lower(DIALECT, f"{COMPLEX}{op_type}")(of_pairs(op_type, function))
        return function

    return register


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def polar(b: Builder, size: Value, angle: Value) -> Pair:
    """Create a complex tensor from absolute value and angle."""
    return Pair(b(Mul, size, b(Cos, angle)), b(Mul, size, b(Sin, angle)))


def real_component(b: Builder, x: Part) -> Value:
    """Return the real part; a real tensor unchanged."""
    del b
    return x.real if isinstance(x, Pair) else x


def imaginary(b: Builder, x: Pair) -> Value:
    """Return the imaginary part."""
    del b
    return x.imaginary


def conjugate(b: Builder, x: Part) -> Part:
    """Return the complex conjugate."""
    return Pair(x.real, b(Neg, x.imaginary)) if isinstance(x, Pair) else x


def opposite(b: Builder, x: Pair) -> Pair:
    """Return -x."""
    return Pair(b(Neg, x.real), b(Neg, x.imaginary))


# ── arithmetic ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _times(b: Builder, x: Pair, y: Pair) -> Pair:
    left = b(Sub, b(Mul, x.real, y.real), b(Mul, x.imaginary, y.imaginary))
    return Pair(left, b(Add, b(Mul, x.real, y.imaginary), b(Mul, x.imaginary, y.real)))


def _inverse(b: Builder, x: Pair) -> Pair:
    size = b(Add, b(Mul, x.real, x.real), b(Mul, x.imaginary, x.imaginary))
    return Pair(b(Div, x.real, size), b(Neg, b(Div, x.imaginary, size)))


def scaled(b: Builder, x: Pair, factor: Value) -> Pair:
    return Pair(b(Mul, x.real, factor), b(Mul, x.imaginary, factor))


def exponential(b: Builder, x: Pair) -> Pair:
    return polar(b, b(Exp, x.real), x.imaginary)


_ALONE: dict[str, Callable[[Builder, Pair], Part]] = {
    "abs": lambda b, x: hypot(b, x.real, x.imaginary),
    "neg": opposite,
    "square": lambda b, x: _times(b, x, x),
    "reciprocal": _inverse,
    "exp": exponential,
}


def _alike_types(b: Builder, x: Part, y: Part) -> tuple[Part, Part]:
    """Cast both to the wider of their float types; integers, booleans and scalars take the other's type."""
    sides = [each.real if isinstance(each, Pair) else each for each in (x, y)]
    ranked = [dtype_of(each) for each in sides if b.dims(each) and dtype_of(each).is_floating]
    types = ranked or [dtype_of(each.real) for each in (x, y) if isinstance(each, Pair)]
    wide = max(types, key=lambda each: each.bits)
    return _cast(b, x, wide), _cast(b, y, wide)


def _cast(b: Builder, x: Part, dtype: DType) -> Part:
    return Pair(cast(b, x.real, dtype), cast(b, x.imaginary, dtype)) if isinstance(x, Pair) else cast(b, x, dtype)


def like_component(b: Builder, x: Any, like: Value) -> Part:
    """Return a tensor unchanged, and a Python number as a constant like `like`."""
    if isinstance(x, Value | Pair):
        return x
    if isinstance(x, complex):
        return Pair(b.like(like, x.real), b.like(like, x.imag))
    return b.like(like, scalar_of(x))


def both(b: Builder, name: str, x: Any, y: Any) -> Part:
    """Apply a binary function with at least one complex operand; the other may be a Python number."""
    like = next(each.real if isinstance(each, Pair) else each for each in (x, y) if isinstance(each, Pair | Value))
    x, y = _alike_types(b, like_component(b, x, like), like_component(b, y, like))
    wide = [each if isinstance(each, Pair) else Pair(each, b.like(each, 0)) for each in (x, y)]
    match name:
        case "add" | "sub":
            op_def = Add if name == "add" else Sub
            return Pair(b(op_def, wide[0].real, wide[1].real), b(op_def, wide[0].imaginary, wide[1].imaginary))
        case "mul" if isinstance(x, Pair) and isinstance(y, Value):
            return scaled(b, x, y)
        case "mul" if isinstance(x, Value) and isinstance(y, Pair):
            return scaled(b, y, x)
        case "mul":
            return _times(b, *wide)
        case "div" if isinstance(x, Pair) and isinstance(y, Value):
            return Pair(b(Div, x.real, y), b(Div, x.imaginary, y))
        case "div":
            return _times(b, wide[0], _inverse(b, wide[1]))
        case _:
            message = f"{name} of complex tensors"
            raise UnsupportedError(message)


@lower(DIALECT, f"{COMPLEX}Expression")
def expression(b: Builder, *operands: Value, expr: str, **keys: Any) -> Value:
    """Evaluate an expression with complex tensors."""
    flags = keys.pop(COMPLEX, ())
    given = [split_complex(b, x) if flag else x for x, flag in zip(operands, flags, strict=True)]
    try:
        tree = parse(expr, ARITIES, lenient=True).tree
    except DiagnosticError as error:
        raise UnsupportedError(error.diagnostics[0].message) from error
    like = next((x.real for x in given if isinstance(x, Pair)), None) or cast(b, operands[0], DType.FLOAT32)
    return stacked(b, _evaluated(b, tree, given, like))


def _evaluated(b: Builder, tree: Node, operands: Sequence[Part], like: Value) -> Part:
    done: list[Part] = []
    for node in postorder(tree):
        match node:
            case Reference() if node.index < len(operands):
                done.append(operands[node.index])
            case Literal() if isinstance(node.value, complex):
                done.append(Pair(b.like(like, node.value.real), b.like(like, node.value.imag)))
            case Literal() if isinstance(node.value, bool | int | float):
                done.append(b.like(like, node.value))
            case _:
                taken = done[len(done) - len(node.arguments) :] if node.arguments else []
                del done[len(done) - len(taken) :]
                done.append(_applied(b, node.text, taken))
    return done[0]


def _applied(b: Builder, name: str, taken: Sequence[Part]) -> Part:
    values = [x for x in taken if isinstance(x, Value)]
    if len(values) == len(taken) and taken:
        return computed(b, name, *values)
    match taken:
        case [Pair() as x] if name in _ALONE:
            return _ALONE[name](b, x)
        case [Pair() as x, Value() as y] if name == "pow" and _is_constant_two(y):
            return _times(b, x, x)
        case [x, y]:
            return both(b, name, x, y)
        case _:
            message = f"{name} of complex tensors"
            raise UnsupportedError(message)


def _is_constant_two(x: Value) -> bool:
    storage = weight_of(x)
    return storage is not None and storage.count == 1 and float(storage.numpy().reshape(-1)[0]) == 2


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "both": both,
        "conjugate": conjugate,
        "exponential": exponential,
        "hypot": hypot,
        "im": imaginary,
        "inverse": _inverse,
        "kernel": kernel,
        "opposite": opposite,
        "pair": lambda _b, x, y: Pair(x, y),
        "pairs": split_complex,
        "polar": polar,
        "re": real_component,
        "stacked": stacked,
        "times": _times,
    }
)
"""Functions on parts that rules of complex tensors may use."""
RULES = RuleTable(DIALECT, FUNCTIONS, register=pairs)
RULES.lower("""
torch.view_as_real, aten::view_as_real(input) -> stacked(input)
torch.view_as_complex, aten::view_as_complex(input) -> pairs(input)
torch.complex, aten::complex(real, imag) -> pair(real, imag)
torch.polar, aten::polar(abs, angle) -> polar(abs, angle)
torch.real, aten::real(input) -> re(input)
torch.imag, aten::imag(input) -> im(input)
torch.conj, aten::conj, aten::_conj, torch.conj_physical, aten::conj_physical(input) -> conjugate(input)
torch.resolve_conj, aten::resolve_conj, aten::resolve_neg, torch.clone, Tensor.clone,
    aten::clone(input, memory_format: ignored = None) -> input
torch.abs, aten::abs(input) -> hypot(re(input), im(input))
torch.angle, aten::angle(input) -> kernel("atan2", im(input), re(input))
torch.neg, aten::neg(input) -> opposite(input)
torch.square, aten::square(input) -> times(input, input)
torch.reciprocal, aten::reciprocal(input) -> inverse(input)
torch.exp, aten::exp(input) -> exponential(input)
torch.add, aten::add(input, other, alpha: number = 1)
    -> alpha == 1: both("add", input, other)
    -> both("add", input, both("mul", other, alpha))
torch.sub, aten::sub(input, other, alpha: number = 1)
    -> alpha == 1: both("sub", input, other)
    -> both("sub", input, both("mul", other, alpha))
torch.mul, aten::mul(input, other) -> both("mul", input, other)
torch.div, aten::div(input, other) -> both("div", input, other)
""")


def apply_to_components(rule: Function, b: Builder, /, *operands: Value | None, **attributes: Any) -> tuple[Value, ...]:
    """Apply the rule of real tensors to the real parts and to the imaginary parts."""
    flags = attributes.pop(COMPLEX, ())
    given = [split_complex(b, x) if flag and x is not None else x for x, flag in zip(operands, flags, strict=True)]
    sides = [
        registry.results(rule(b, *(side(x) if isinstance(x, Pair) else x for x in given), **attributes))
        for side in (lambda pair: pair.real, lambda pair: pair.imaginary)
    ]
    found = zip(*sides, strict=True)
    return tuple(stacked(b, Pair(x, y)) for x, y in found if x is not None and y is not None)


def _as(way: Function, *words: str) -> Callable[[Function], Function]:
    def register(rule: Function) -> Function:
        bound = partial(way, rule)
        vars(bound)["__wrapped__"] = rule
        for op_type in words:
            lower(DIALECT, f"{COMPLEX}{op_type}")(bound)
        return rule

    return register


RuleTable(DIALECT, register_alias=partial(_as, apply_to_components)).lower("""
Tensor.reshape, Tensor.view, Tensor.permute, Tensor.select, Tensor.slice, Tensor.expand, Tensor.repeat,
    Tensor.unflatten, Tensor.contiguous, Tensor.index, torch.flatten, torch.permute, torch.transpose, torch.squeeze,
    torch.unsqueeze, torch.cat, torch.stack, torch.flip, torch.roll, torch.sum, torch.mean, torch.cumsum, torch.diff,
    torch.split, torch.chunk, torch.unbind, torch.index_select, torch.narrow, torch.tile, torch.select, torch.t,
    torch.movedim, aten::movedim, aten::fft_fftshift, aten::fft_ifftshift, torch.fft.fftshift, torch.fft.ifftshift -> _
""")


# ── products of matrices ──────────────────────────────────────────────────────────────────────────────────────────────


def _product(rule: Function, b: Builder, /, *operands: Value, **attributes: Any) -> Value:
    """Apply a bilinear rule (product and sum) to two tensors, at least one of which is complex."""
    flags = attributes.pop(COMPLEX, ())
    if len(operands) != 2:
        message = f"{rule} of {len(operands)} operands with complex ones"
        raise UnsupportedError(message)
    x, y = _alike_types(
        b, *(split_complex(b, each) if flag else each for each, flag in zip(operands, flags, strict=True))
    )

    def product(left: Value, right: Value) -> Value:
        return rule(b, left, right, **attributes)

    match x, y:
        case Pair(), Pair():
            real = b(Sub, product(x.real, y.real), product(x.imaginary, y.imaginary))
            found = Pair(real, b(Add, product(x.real, y.imaginary), product(x.imaginary, y.real)))
        case Pair(), Value():
            found = Pair(product(x.real, y), product(x.imaginary, y))
        case Value(), Pair():
            found = Pair(product(x, y.real), product(x, y.imaginary))
        case _:
            message = f"{rule} of real tensors"
            raise UnsupportedError(message)
    return stacked(b, found)


RuleTable(DIALECT, register_alias=partial(_as, _product)).lower(
    "torch.einsum, torch.matmul, torch.mm, torch.bmm, aten::matmul, aten::mm, aten::bmm -> _"
)
