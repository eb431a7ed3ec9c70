"""Numbers that exported programs compute from sizes: tensors of rank 0."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import Page, UnsupportedError, lower
from graphport.ops.dialects.pytorch.overloads import DIALECT
from graphport.ops.dialects.torch_functions import KEYS, Function, Tensor, dtype_of
from graphport.ops.dialects.torch_promotion import cast, computed, promoted
from graphport.ops.pages.arithmetic import Abs, Add, Ceil, Div, Floor, Max, Min, Mod, Mul, Neg, Round, Sqrt, Sub
from graphport.ops.pages.comparison import And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Not, Or, Where


def _binary(page: Page, b: Builder, a: Tensor, other: Tensor) -> Value:
    return b(page, *promoted(b, a, other))


def _operator(page: Page) -> Function:
    def operator(b: Builder, a: Tensor, b_: Tensor) -> Value:
        return _binary(page, b, a, b_)

    return operator


def _called(rule: Function) -> Function:
    """Arguments of `operator` are called `a` and `b`, and `b` is the builder here."""
    signature = inspect.signature(rule)

    def call(builder: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        keys = attributes.pop(KEYS, ())
        given = dict(zip(keys, operands, strict=False)) | attributes
        names = {"b": "b_", "1": "b_", "0": "a"}
        named = {names.get(name, name): value for name, value in given.items()}
        if "x" in named:
            # What functions of `math` call their only argument.
            named["a"] = named.pop("x")
        try:
            signature.bind(builder, **named)
        except TypeError as error:
            message = f"its operands are not what it takes: {error}"
            raise UnsupportedError(message) from error
        return rule(builder, **named)

    return call


def _size_word(*words: str) -> Callable[[Function], Function]:
    def register(rule: Function) -> Function:
        for word in words:
            lower(DIALECT, word)(_called(rule))
        return rule

    return register


for _word, _page in (
    ("add", Add), ("sub", Sub), ("mul", Mul), ("lt", Less), ("le", LessOrEqual), ("gt", Greater),
    ("ge", GreaterOrEqual), ("eq", Equal),
):  # fmt: skip
    _size_word(f"_operator.{_word}")(_operator(_page))
for _word, _page in (("and_", And), ("or_", Or)):
    _size_word(f"_operator.{_word}")(_operator(_page))
_size_word("torch.sym_max")(_operator(Max))
_size_word("torch.sym_min")(_operator(Min))


@_size_word("_operator.floordiv")
def floordiv(b: Builder, a: Tensor, b_: Tensor) -> Value:
    """Toward minus infinity; sizes are not negative, where ONNX's quotient is the same."""
    x, y = promoted(b, a, b_)
    if not dtype_of(x).is_integer:
        return b(Floor, b(Div, x, y))
    rest = b(Mod, x, y)
    return b(Div, b(Sub, x, rest), y)


@_size_word("_operator.mod")
def mod(b: Builder, a: Tensor, b_: Tensor) -> Value:
    return computed(b, "remainder", a, b_)


@_size_word("_operator.truediv")
def truediv(b: Builder, a: Tensor, b_: Tensor) -> Value:
    return computed(b, "div", a, b_)


@_size_word("_operator.ne")
def ne(b: Builder, a: Tensor, b_: Tensor) -> Value:
    return b(Not, _binary(Equal, b, a, b_))


@_size_word("_operator.neg")
def neg(b: Builder, a: Tensor) -> Value:
    return b(Neg, _value(b, a))


@_size_word("_operator.pow", "torch.sym_pow")
def pow_(b: Builder, a: Tensor, b_: Tensor) -> Value:
    return computed(b, "pow", a, b_)


@_size_word("torch.sym_not", "_operator.not_")
def sym_not(b: Builder, a: Tensor) -> Value:
    return b(Not, _value(b, a))


@_size_word("torch.sym_ite")
def sym_ite(b: Builder, a: Tensor, b_: Tensor = 0, t: Any = None, f: Any = None) -> Value:
    condition, yes, no = a, t if t is not None else b_, f
    return b(Where, _value(b, condition), *promoted(b, yes, no))


@_size_word("torch.sym_float", "_operator.float")
def sym_float(b: Builder, a: Tensor) -> Value:
    return cast(b, _value(b, a), DType.FLOAT32)


@_size_word("torch.sym_int", "math.trunc", "_operator.int")
def sym_int(b: Builder, a: Tensor) -> Value:
    return cast(b, _value(b, a), DType.INT64)


@_size_word("math.floor")
def floor(b: Builder, a: Tensor) -> Value:
    x = _value(b, a)
    return x if dtype_of(x).is_integer else cast(b, b(Floor, x), DType.INT64)


@_size_word("math.ceil")
def ceil(b: Builder, a: Tensor) -> Value:
    x = _value(b, a)
    return x if dtype_of(x).is_integer else cast(b, b(Ceil, x), DType.INT64)


@_size_word("_operator.round", "builtins.round", "math.round")
def round_(b: Builder, a: Tensor) -> Value:
    x = _value(b, a)
    return x if dtype_of(x).is_integer else cast(b, b(Round, x), DType.INT64)


@_size_word("torch.sym_sqrt", "torch._sym_sqrt", "math.sqrt")
def sym_sqrt(b: Builder, a: Tensor) -> Value:
    return b(Sqrt, cast(b, _value(b, a), DType.FLOAT32))


@_size_word("_operator.abs")
def size_abs(b: Builder, a: Tensor) -> Value:
    return b(Abs, _value(b, a))


def _value(b: Builder, x: Tensor) -> Value:
    return x if isinstance(x, Value) else b.constant(x)
