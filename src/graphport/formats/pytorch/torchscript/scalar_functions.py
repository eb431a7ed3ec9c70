"""Functions on scalars, strings and containers: computed for static arguments, graph nodes for others."""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.values import (
    Dict,
    List,
    NamedTuple,
    RuntimeScalar,
    Tensor,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.formats.pytorch.torchscript.emit import Emitter

MAX_TEXT = 1 << 16
MAX_ITEMS = 1 << 16
MAX_INTEGER = 1 << 63
_FAULTS = (TypeError, ValueError, ArithmeticError, IndexError, KeyError)


def _divide(a: Any, b: Any) -> Any:
    return a / b


def _round(x: Any, digits: int | None = None) -> Any:
    return round(x, digits) if digits is not None else float(round(x))


def _minimum(*given: Any) -> Any:
    """Return the minimum; a float if an argument is a float."""
    return min(map(float, given)) if any(isinstance(x, float) for x in given) else min(given)


def _maximum(*given: Any) -> Any:
    """Return the maximum; a float if an argument is a float."""
    return max(map(float, given)) if any(isinstance(x, float) for x in given) else max(given)


def _float_function(name: str) -> Callable[..., float]:
    """Return a math function that returns NaN or infinity outside of its domain, as in C."""

    def compute(*given: Any) -> float:
        try:
            return float(getattr(math, name)(*given))
        except (ValueError, ZeroDivisionError, OverflowError):
            with np.errstate(all="ignore"):
                return float(getattr(np, name)(*map(float, given)))

    return compute


def _shift(a: int, b: int) -> int:
    if b > 63:
        refuse("TS0008", f"the shift {a} << {b} has more than 64 bits")
    return a << b


def _range_length(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


def _format(text: str, *values: Any) -> str:
    parts = re.split(r"\{\}", text)
    found = parts[0]
    for i, part in enumerate(parts[1:]):
        found += (shown(values[i]) if i < len(values) else "{}") + part
    return found


def _percent(text: str, *values: Any) -> str:
    if len(values) == 1 and isinstance(values[0], tuple):
        values = cast("tuple[Any, ...]", values[0])
    given = tuple(shown(x) if not isinstance(x, int | float | str) else x for x in values)
    return text % (given[0] if len(given) == 1 else given)


def shown(value: Any) -> str:
    """Format a value like `str` in TorchScript."""
    match value:
        case List():
            return f"[{', '.join(shown(x) for x in value.items)}]"
        case tuple():
            return f"({', '.join(shown(x) for x in cast('tuple[Any, ...]', value))})"
        case Tensor() | RuntimeScalar():
            return "?"
        case _:
            return str(value)


def _round_to_zero_floordiv(a: Any, b: Any) -> Any:
    return int(a / b)


def _log(x: Any, base: Any = None) -> Any:
    logarithm = _float_function("log")(x)
    if base is None:
        return logarithm
    with np.errstate(all="ignore"):
        return float(np.divide(logarithm, _float_function("log")(base)))


def _factorial(n: Any) -> Any:
    return math.factorial(min(n, 21))


def _derive_index(i: Any, start: Any, step: Any) -> Any:
    return start + i * step


_OPERATOR: Any = operator
_ON_NUMBERS: Mapping[str, Callable[..., Any]] = {
    "add": _OPERATOR.add,
    "sub": _OPERATOR.sub,
    "mul": _OPERATOR.mul,
    "div": _divide,
    "true_divide": _divide,
    "floordiv": _OPERATOR.floordiv,
    "floor_divide": _OPERATOR.floordiv,
    "__round_to_zero_floordiv": _round_to_zero_floordiv,
    "remainder": _OPERATOR.mod,
    "mod": _OPERATOR.mod,
    "fmod": math.fmod,
    "pow": _float_function("pow"),
    "neg": _OPERATOR.neg,
    "abs": abs,
    "eq": _OPERATOR.eq,
    "ne": _OPERATOR.ne,
    "lt": _OPERATOR.lt,
    "le": _OPERATOR.le,
    "gt": _OPERATOR.gt,
    "ge": _OPERATOR.ge,
    "__and__": _OPERATOR.and_,
    "__or__": _OPERATOR.or_,
    "__xor__": _OPERATOR.xor,
    "__lshift__": _shift,
    "__rshift__": _OPERATOR.rshift,
    "__not__": _OPERATOR.not_,
    "min": _minimum,
    "max": _maximum,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": _round,
    "sqrt": _float_function("sqrt"),
    "exp": math.exp,
    "log": _log,
    "log2": _float_function("log2"),
    "log10": _float_function("log10"),
    "log1p": _float_function("log1p"),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "atan": math.atan,
    "atan2": math.atan2,
    "gcd": math.gcd,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "degrees": math.degrees,
    "radians": math.radians,
    "copysign": math.copysign,
    "factorial": _factorial,
    "__range_length": _range_length,
    "__derive_index": _derive_index,
    "divmod": divmod,
    "Int": int,
    "Float": float,
    "Bool": bool,
    "trunc": math.trunc,
}
_ON_OPEN = {
    "add": "_operator.add",
    "sub": "_operator.sub",
    "mul": "_operator.mul",
    "div": "_operator.truediv",
    "true_divide": "_operator.truediv",
    "floordiv": "_operator.floordiv",
    "floor_divide": "_operator.floordiv",
    "remainder": "_operator.mod",
    "mod": "_operator.mod",
    "pow": "_operator.pow",
    "neg": "_operator.neg",
    "abs": "_operator.abs",
    "eq": "_operator.eq",
    "ne": "_operator.ne",
    "lt": "_operator.lt",
    "le": "_operator.le",
    "gt": "_operator.gt",
    "ge": "_operator.ge",
    "__and__": "_operator.and_",
    "__or__": "_operator.or_",
    "__not__": "_operator.not_",
    "min": "torch.sym_min",
    "max": "torch.sym_max",
    "floor": "math.floor",
    "ceil": "math.ceil",
    "round": "_operator.round",
    "sqrt": "math.sqrt",
    "Int": "torch.sym_int",
    "Float": "torch.sym_float",
}
_FLOATS_OF_INTEGERS = ("div", "true_divide", "sqrt", "pow", "Float")
_ROUNDED = ("floor", "ceil", "round")
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "__and__", "__or__", "__not__", "Bool"})
_ON_STRINGS = frozenset(
    {
        *("upper", "lower", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace", "find", "rfind", "count"),
        *("capitalize", "title", "isdigit", "isalpha", "isalnum", "zfill", "swapcase", "isupper", "islower", "isspace"),
    }
)
_FUNCTIONS_OF_LISTS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "sum": sum, "any": any, "all": all}


def is_scalar(value: Any) -> bool:
    """Whether a value is a scalar, static or not."""
    return isinstance(value, bool | int | float | complex | RuntimeScalar)


def computed(emitter: Emitter, name: str, given: Sequence[Any]) -> Any:
    """Evaluate a function on scalars and strings; return `NotImplemented` for other functions.

    Raises:
        RefusedError: TS0008 the result is too large, TS0011 the arguments are not supported.
    """
    if all(is_scalar(x) for x in given) and given:
        if any(isinstance(x, RuntimeScalar) for x in given):
            return _symbolic(emitter, name, given)
        return _constant(name, given)
    if given and isinstance(given[0], str):
        return _of_string(name, given)
    if given and isinstance(given[0], List) and name in _FUNCTIONS_OF_LISTS and len(given) == 1:
        return _reduce_scalars(emitter, name, given[0].items)
    return NotImplemented


def _constant(name: str, given: Sequence[Any]) -> Any:
    function = _ON_NUMBERS.get(name)
    if function is None:
        return NotImplemented
    if name == "round" and all(isinstance(x, int) for x in given):
        return float(given[0]) if len(given) == 1 else given[0]
    if name in ("__and__", "__or__") and not all(isinstance(x, int) for x in given):
        return NotImplemented
    try:
        found = function(*given)
    except _FAULTS as error:
        refuse("TS0011", f"{name}({', '.join(map(str, given))}): {error}")
    if isinstance(found, int) and abs(found) > MAX_INTEGER:
        refuse("TS0008", f"integer overflow: the result of {name} exceeds 64 bits")
    if isinstance(found, bool) and name not in _COMPARISONS and not name.startswith("is"):
        return int(found)
    return found


def _symbolic(emitter: Emitter, name: str, given: Sequence[Any]) -> Any:
    """Emit a function of run-time scalars as nodes."""
    if name in ("__range_length", "__derive_index"):
        return _of_range(emitter, name, given)
    if name == "Bool":
        return given[0] if type_name(given[0]) == "bool" else _symbolic(emitter, "ne", [given[0], 0])
    if name in ("floor", "ceil", "Int") and type_name(given[0]) == "int":
        return given[0]
    if name == "__is__":
        return NotImplemented
    op_type = _ON_OPEN.get(name)
    if op_type is None and name not in _ON_NUMBERS:
        return NotImplemented
    if op_type is None:
        refuse("TS0009", f"{name} of a number that depends on run-time values")
    if name == "pow":
        given = [computed(emitter, "Float", [x]) for x in given]
    operands: list[tuple[str, Any, bool]] = []
    attributes: dict[str, Any] = {}
    for key, value in zip(("a", "b"), given, strict=False):
        if isinstance(value, RuntimeScalar):
            operands.append((key, value.value, True))
        else:
            attributes[key] = value
    kinds = {type_name(x) for x in given}
    kind: Any = (
        "bool" if name in _COMPARISONS else "float" if "float" in kinds or name in _FLOATS_OF_INTEGERS else "int"
    )
    if name in ("Int", *_ROUNDED):
        kind = "int"
    found = emitter.as_scalar(emitter.node(op_type, operands, attributes)[0], kind)
    return float(found) if kind == "float" and isinstance(found, int) and not isinstance(found, bool) else found


def _of_range(emitter: Emitter, name: str, given: Sequence[Any]) -> Any:
    def call(function: str, *values: Any) -> Any:
        return computed(emitter, function, values)

    if name == "__derive_index":
        index, start, step = given
        return call("add", start, index if step == 1 else call("mul", index, step))
    low, high, step = given
    span = high if low == 0 else call("sub", high, low)
    if step != 1:
        span = call("neg", call("floordiv", call("neg", span), step))
    return call("max", span, 0)


def _reduce_scalars(emitter: Emitter, name: str, items: Sequence[Any]) -> Any:
    if not all(is_scalar(x) for x in items):
        return NotImplemented
    if any(isinstance(x, RuntimeScalar) for x in items):
        function = {"min": "min", "max": "max", "sum": "add"}.get(name)
        if function is None:
            return NotImplemented
        found = items[0]
        for item in items[1:]:
            found = computed(emitter, function, [found, item])
        return found
    try:
        return _FUNCTIONS_OF_LISTS[name](items)
    except _FAULTS as error:
        refuse("TS0011", f"{name} of a list: {error}")


def _of_string(name: str, given: Sequence[Any]) -> Any:
    text = given[0]
    try:
        match name:
            case "format":
                found: Any = _format(*given)
            case "percentFormat":
                found = _percent(*given)
            case "add" | "eq" | "ne" | "lt" | "gt":
                found = _ON_NUMBERS[name](*given)
            case "mul" if isinstance(given[1], int) and len(text) * max(given[1], 0) <= MAX_TEXT:
                found = text * given[1]
            case "split":
                found = List(list(text.split(*given[1:])), "str")
            case "join":
                found = text.join(static_items_or_none(given[1]) or ())
            case "ord":
                found = ord(text)
            case _ if name in _ON_STRINGS:
                found = getattr(text, name)(*given[1:])
            case _:
                return NotImplemented
    except _FAULTS as error:
        refuse("TS0011", f"{name} of a string: {error}")
    if isinstance(found, str) and len(found) > MAX_TEXT:
        refuse("TS0008", f"a string exceeds {MAX_TEXT} characters")
    return found


# ── containers ────────────────────────────────────────────────────────────────────────────────────────────────────────


def static_items_or_none(value: Any) -> Sequence[Any] | None:
    """Return the items of a list or tuple of static length."""
    match value:
        case List() if value.stacked is None:
            return value.items
        case NamedTuple():
            return value.items
        case tuple():
            return cast("tuple[Any, ...]", value)
        case _:
            return None


def equal(a: Any, b: Any) -> bool | None:
    """Whether two values are equal; `None` if that depends on tensors or run-time scalars."""
    if isinstance(a, Tensor | RuntimeScalar) or isinstance(b, Tensor | RuntimeScalar):
        return None
    first, second = static_items_or_none(a), static_items_or_none(b)
    if first is not None and second is not None:
        if len(first) != len(second):
            return False
        found = [equal(x, y) for x, y in zip(first, second, strict=True)]
        return False if False in found else None if None in found else True
    if isinstance(a, Dict) and isinstance(b, Dict):
        return equal(tuple(a.items.items()), tuple(b.items.items()))
    return bool(a == b)


def check_length(items: Sequence[Any]) -> None:
    """Refuse a container that exceeds the length limit."""
    if len(items) > MAX_ITEMS:
        refuse("TS0008", f"a list exceeds {MAX_ITEMS} items")
