"""Fourier transforms of PyTorch, and complex tensors: pairs of real ones, for ONNX computes on these alone.

Before a graph is lowered, every complex tensor becomes a real one with a last axis of two, and every node that takes or
gives one a word with `COMPLEX` in front, whose attribute of this name tells which operands are such pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import Literal, Node, Reference, postorder
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.dialects.pnnx.arithmetic import hypot
from graphport.ops.dialects.torch_functions import COMPLEX, DIALECT, Function, bound, dtype_of, vector, weight_of
from graphport.ops.dialects.torch_promotion import cast, computed, kernel
from graphport.ops.pages.arithmetic import Add, Cos, Div, Exp, Mul, Neg, Sin, Sub
from graphport.ops.pages.reshape import Concat, Split, Squeeze, Unsqueeze


@dataclass(frozen=True, slots=True)
class Pair:
    """A complex tensor."""

    real: Value
    imaginary: Value


Part = Value | Pair


def parts(b: Builder, x: Value) -> Pair:
    """A tensor with a last axis of two as a complex one."""
    last = vector(b, [-1])
    real, imaginary = b.results(Split, 2, x, vector(b, [1, 1]), axis=-1)
    return Pair(b(Squeeze, real, last), b(Squeeze, imaginary, last))


def stacked(b: Builder, x: Part) -> Value:
    if isinstance(x, Value):
        return x
    last = vector(b, [-1])
    return b(Concat, b(Unsqueeze, x.real, last), b(Unsqueeze, x.imaginary, last), axis=-1)


def in_pairs(function: Function, b: Builder, /, *operands: Value | None, **attributes: Any) -> tuple[Value, ...]:
    """The results of a function of complex tensors, given pairs and giving pairs."""
    flags = attributes.pop(COMPLEX, ())
    given = [parts(b, x) if flag and x is not None else x for x, flag in zip(operands, flags, strict=True)]
    found = registry.results(function(b, *given, **attributes))
    return tuple(stacked(b, y) for y in found if y is not None)


def pairs(*words: str) -> Callable[[Function], Function]:
    """Register a function as the meaning of `words` where complex tensors are among operands or results."""

    def register(function: Function) -> Function:
        for word in words:
            lower(DIALECT, f"{COMPLEX}{word}")(partial(in_pairs, bound(word, function)))
        return function

    return register


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pairs("torch.view_as_real", "aten::view_as_real")
def view_as_real(b: Builder, input: Pair) -> Value:
    return stacked(b, input)


@pairs("torch.view_as_complex", "aten::view_as_complex")
def view_as_complex(b: Builder, input: Value) -> Pair:
    return parts(b, input)


@pairs("torch.complex", "aten::complex")
def complex_(b: Builder, real: Value, imag: Value) -> Pair:
    del b
    return Pair(real, imag)


@pairs("torch.polar", "aten::polar")
def polar(b: Builder, abs: Value, angle: Value) -> Pair:
    return Pair(b(Mul, abs, b(Cos, angle)), b(Mul, abs, b(Sin, angle)))


@pairs("torch.real", "aten::real")
def real(b: Builder, input: Part) -> Value:
    del b
    return input.real if isinstance(input, Pair) else input


@pairs("torch.imag", "aten::imag")
def imag(b: Builder, input: Pair) -> Value:
    del b
    return input.imaginary


@pairs("torch.conj", "aten::conj", "aten::_conj", "torch.conj_physical", "aten::conj_physical")
def conjugate(b: Builder, input: Part) -> Part:
    return Pair(input.real, b(Neg, input.imaginary)) if isinstance(input, Pair) else input


@pairs("torch.resolve_conj", "aten::resolve_conj", "aten::resolve_neg", "torch.clone", "Tensor.clone", "aten::clone")
def same(b: Builder, input: Part, memory_format: Any = None) -> Part:
    del b, memory_format
    return input


@pairs("torch.abs", "aten::abs")
def absolute(b: Builder, input: Pair) -> Value:
    return hypot(b, input.real, input.imaginary)


@pairs("torch.angle", "aten::angle")
def angle(b: Builder, input: Pair) -> Value:
    return kernel(b, "atan2", input.imaginary, input.real)


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
    "abs": absolute,
    "neg": lambda b, x: Pair(b(Neg, x.real), b(Neg, x.imaginary)),
    "square": lambda b, x: _times(b, x, x),
    "reciprocal": _inverse,
    "exp": exponential,
}


def _alike_types(b: Builder, x: Part, y: Part) -> tuple[Part, Part]:
    """Both in the wider of their types of real numbers; integers, truths and single numbers take that of the other."""
    sides = [each.real if isinstance(each, Pair) else each for each in (x, y)]
    ranked = [dtype_of(each) for each in sides if b.dims(each) and dtype_of(each).is_floating]
    types = ranked or [dtype_of(each.real) for each in (x, y) if isinstance(each, Pair)]
    wide = max(types, key=lambda each: each.bits)
    return _cast(b, x, wide), _cast(b, y, wide)


def _cast(b: Builder, x: Part, dtype: DType) -> Part:
    return Pair(cast(b, x.real, dtype), cast(b, x.imaginary, dtype)) if isinstance(x, Pair) else cast(b, x, dtype)


def both(b: Builder, name: str, x: Part, y: Part) -> Part:
    """A function of two operands, of which at least one is complex."""
    x, y = _alike_types(b, x, y)
    wide = [each if isinstance(each, Pair) else Pair(each, b.like(each, 0)) for each in (x, y)]
    match name:
        case "add" | "sub":
            page = Add if name == "add" else Sub
            return Pair(b(page, wide[0].real, wide[1].real), b(page, wide[0].imaginary, wide[1].imaginary))
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
    """A tree of functions of which some are of complex tensors."""
    flags = keys.pop(COMPLEX, ())
    given = [parts(b, x) if flag else x for x, flag in zip(operands, flags, strict=True)]
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
        case [Pair() as x, Value() as y] if name == "pow" and _is_two(y):
            return _times(b, x, x)
        case [x, y]:
            return both(b, name, x, y)
        case _:
            message = f"{name} of complex tensors"
            raise UnsupportedError(message)


def _is_two(x: Value) -> bool:
    storage = weight_of(x)
    return storage is not None and storage.count == 1 and float(storage.numpy().reshape(-1)[0]) == 2


def _register_arithmetic() -> None:
    for name in ("add", "sub", "mul", "div"):
        pairs(f"torch.{name}", f"aten::{name}")(partial(_binary, name))
    for name in _ALONE:
        if name != "abs":
            pairs(f"torch.{name}", f"aten::{name}")(partial(_unary, name))


def _binary(name: str, b: Builder, input: Part, other: Part) -> Part:
    return both(b, name, input, other)


def _unary(name: str, b: Builder, input: Pair) -> Part:
    return _ALONE[name](b, input)


_register_arithmetic()

_ALIKE = (
    *("Tensor.reshape", "Tensor.view", "Tensor.permute", "Tensor.select", "Tensor.slice", "Tensor.expand"),
    *("Tensor.repeat", "Tensor.unflatten", "Tensor.contiguous", "Tensor.index", "torch.flatten", "torch.permute"),
    *("torch.transpose", "torch.squeeze", "torch.unsqueeze", "torch.cat", "torch.stack", "torch.flip", "torch.roll"),
    *("torch.sum", "torch.mean", "torch.cumsum", "torch.diff", "torch.split", "torch.chunk", "torch.unbind"),
    *("torch.index_select", "torch.narrow", "torch.tile", "torch.select", "torch.t", "torch.movedim", "aten::movedim"),
    *("aten::fft_fftshift", "aten::fft_ifftshift", "torch.fft.fftshift", "torch.fft.ifftshift"),
)
"""Words that do the same to both parts of a complex tensor."""


def _alike(word: str, b: Builder, *operands: Value | None, **attributes: Any) -> tuple[Value, ...]:
    rule = registry.lowering(DIALECT, word)
    flags = attributes.pop(COMPLEX, ())
    if rule is None:
        raise UnsupportedError
    given = [parts(b, x) if flag and x is not None else x for x, flag in zip(operands, flags, strict=True)]
    sides = [
        registry.results(rule(b, *(side(x) if isinstance(x, Pair) else x for x in given), **attributes))
        for side in (lambda pair: pair.real, lambda pair: pair.imaginary)
    ]
    found = zip(*sides, strict=True)
    return tuple(stacked(b, Pair(x, y)) for x, y in found if x is not None and y is not None)


for _word in _ALIKE:
    lower(DIALECT, f"{COMPLEX}{_word}")(partial(_alike, _word))


# ── products of matrices ──────────────────────────────────────────────────────────────────────────────────────────────


def _bilinear(word: str, b: Builder, *operands: Value, **attributes: Any) -> Value:
    """A word that multiplies two tensors, of which at least one is complex, and adds up."""
    rule = registry.lowering(DIALECT, word)
    flags = attributes.pop(COMPLEX, ())
    if rule is None or len(operands) != 2:
        message = f"{word} of {len(operands)} tensors of which some are complex"
        raise UnsupportedError(message)
    x, y = _alike_types(b, *(parts(b, each) if flag else each for each, flag in zip(operands, flags, strict=True)))

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
            message = f"{word} of real tensors"
            raise UnsupportedError(message)
    return stacked(b, found)


for _word in ("torch.einsum", "torch.matmul", "torch.mm", "torch.bmm", "aten::matmul", "aten::mm", "aten::bmm"):
    lower(DIALECT, f"{COMPLEX}{_word}")(partial(_bilinear, _word))
