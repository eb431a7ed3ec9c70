"""Scalars that exported programs compute from sizes, as tensors of rank 0 (int64 or float64)."""

from __future__ import annotations

import builtins
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import KEYS, Function, Scalar, Tensor
from graphport.formats.pytorch.rules.overloads import DIALECT
from graphport.formats.pytorch.rules.promotion import cast, computed, promoted, static_scalar
from graphport.formats.pytorch.rules.rule_table import FUNCTIONS
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.comparison import Where
from graphport.ops.lowering.table import RuleTable

_PYTHON = (operator, math, builtins)
_REAL_OF_INTEGERS = (operator.truediv, math.sqrt, float)
_FAULTS = (TypeError, ValueError, ArithmeticError)


def _in_python(op_type: str, operands: Sequence[Tensor]) -> Scalar | None:
    """Compute with static floats like Python; `None` if an operand is not static or all are integers.

    Integers are computed as dims, because Python's powers of integers are unbounded.
    """
    name = op_type.rpartition(".")[2].removeprefix("_").removeprefix("sym_")
    function = next((getattr(module, name) for module in _PYTHON if hasattr(module, name)), None)
    known = [number for x in operands if (number := static_scalar(x)) is not None]
    if function is None or len(known) < len(operands):
        return None
    if function not in _REAL_OF_INTEGERS and not any(isinstance(x, float) for x in known):
        return None
    try:
        found = function(*known)
    except _FAULTS:
        return None
    return found if isinstance(found, float) or (isinstance(found, int) and abs(found) < _FAR) else None


def _called(op_type: str, rule: Function) -> Function:
    """Rename the arguments `a` and `b` of Python's `operator` functions; in rules, `b` is the builder."""
    signature = inspect.signature(rule)

    def call(builder: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        keys = attributes.pop(KEYS, ())
        given = dict(zip(keys, operands, strict=False)) | attributes
        names = {"b": "b_", "1": "b_", "0": "a"}
        named = {names.get(name, name): value for name, value in given.items()}
        for name in named.keys() & {"x", "number"}:
            # Parameter names of `round` and of the functions of `math` differ.
            named["a"] = named.pop(name)
        try:
            bound = signature.bind(builder, **named)
        except TypeError as error:
            message = f"its operands do not match its signature: {error}"
            raise UnsupportedError(message) from error
        _, *in_order = bound.arguments.values()
        known = _in_python(op_type, [x for x in in_order if x is not None])
        return rule(builder, **named) if known is None else _value(builder, known)

    vars(call)["__wrapped__"] = rule
    return call


def _size_word(*words: str) -> Callable[[Function], Function]:
    def register(rule: Function) -> Function:
        for op_type in words:
            lower(DIALECT, op_type)(_called(op_type, rule))
        return rule

    return register


_REAL = DType.FLOAT64
_FAR = 1 << 63


def _value(b: Builder, x: Tensor) -> Value:
    return x if isinstance(x, Value) else b.constant(x, _REAL if isinstance(x, float) else None)


def _cast_to_real_dtype(b: Builder, x: Tensor) -> Value:
    return cast(b, _value(b, x), _REAL)


def _promoted(b: Builder, *operands: Tensor) -> list[Value]:
    return promoted(b, *operands, default=_REAL)


def _computed(b: Builder, name: str, *operands: Tensor) -> Value:
    return computed(b, name, *operands, default=_REAL)


_FUNCTIONS = {**FUNCTIONS, "value": _value, "real": _cast_to_real_dtype, "promoted": _promoted, "computed": _computed}

RuleTable(DIALECT, _FUNCTIONS, register=_size_word).lower("""
_operator.add(a, b_) -> Add(*promoted(a, b_))
_operator.sub(a, b_) -> Sub(*promoted(a, b_))
_operator.mul(a, b_) -> Mul(*promoted(a, b_))
_operator.floordiv(a, b_) -> computed("floor_divide", a, b_)
_operator.mod(a, b_) -> computed("remainder", a, b_)
_operator.truediv(a, b_) -> computed("div", a, b_)
_operator.pow, torch.sym_pow(a, b_) -> computed("pow", a, b_)
_operator.lshift(a, b_) -> computed("lshift", a, b_)
_operator.rshift(a, b_) -> computed("rshift", a, b_)
_operator.neg(a) -> Neg(value(a))
_operator.pos(a) -> a
_operator.abs(a) -> Abs(value(a))
_operator.lt(a, b_) -> Less(*promoted(a, b_))
_operator.le(a, b_) -> LessOrEqual(*promoted(a, b_))
_operator.gt(a, b_) -> Greater(*promoted(a, b_))
_operator.ge(a, b_) -> GreaterOrEqual(*promoted(a, b_))
_operator.eq(a, b_) -> Equal(*promoted(a, b_))
_operator.ne(a, b_) -> Not(Equal(*promoted(a, b_)))
_operator.and_(a, b_) -> And(*promoted(a, b_))
_operator.or_(a, b_) -> Or(*promoted(a, b_))
torch.sym_max(a, b_) -> Max(*promoted(a, b_))
torch.sym_min(a, b_) -> Min(*promoted(a, b_))
torch.sym_not, _operator.not_(a) -> Not(value(a))
torch.sym_float, _operator.float(a) -> real(a)
torch.sym_int, math.trunc, _operator.int(a) -> cast(value(a), int64)
torch.sym_sqrt, torch._sym_sqrt, math.sqrt(a) -> Sqrt(real(a))
# Integers stay as they are.
math.floor(a)
    -> is_floating(x := value(a)): cast(Floor(x), int64)
    -> value(a)
math.ceil(a)
    -> is_floating(x := value(a)): cast(Ceil(x), int64)
    -> value(a)
_operator.round, builtins.round, math.round(a, ndigits=None)
    -> x = value(a); not is_floating(x): x
    -> ndigits is None: cast(Round(x), int64)
    -> aten.round.decimals(x, ndigits)
""")


@_size_word("torch.sym_ite")
def sym_ite(b: Builder, b_: Tensor, t: Tensor, f: Tensor) -> Value:
    return b(Where, _value(b, b_), *_promoted(b, t, f))
