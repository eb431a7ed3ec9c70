"""Operators of TensorFlow: rules as functions and as rows, and rules shared with TFLite."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any

from graphport.core.sequences import is_sequence
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.lowering.operands import as_int64, as_scalar, as_vector, cast, dtype_of, transposed
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.rule_language.rule import ImportRule

DIALECT = "tensorflow"
CHANNELS_FIRST = ("NCHW", "NCDHW", "NCHW_VECT_C")


def operator(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the import rule of operators; its keyword-only parameters are the attributes that it needs."""

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(rule)
        parameters = signature.parameters.values()
        known = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}

        @wraps(rule)
        def lowered(b: Builder, *operands: Value | None, **attributes: Any) -> Any:
            kept = {name: value for name, value in attributes.items() if name in known}
            answer = rule(b, *operands, **kept)
            return answer if is_sequence(answer) else [answer]

        others = inspect.Parameter("others", inspect.Parameter.VAR_KEYWORD)
        vars(lowered)["__signature__"] = signature.replace(parameters=[*parameters, others])
        for name in names:
            lower(DIALECT, name)(lowered)
        return rule

    return register


def _register(*names: str) -> Callable[[ImportRule], None]:
    """Register a row of operators; their attributes that the row does not name are not used."""

    def register(row: ImportRule) -> None:
        signature = inspect.signature(row)

        def rule(b: Builder, *operands: Value, **attributes: Any) -> Any:
            return row(b, *operands, **attributes)

        vars(rule).update(__wrapped__=row, __signature__=signature)
        operator(*names)(rule)

    return register


def by_tflite(b: Builder, op_type: str, *operands: Value | None, count: int = 1, **options: Any) -> list[Value]:
    """Return the results of the equivalent operator of TFLite.

    Raises:
        UnsupportedError: there is none.
    """
    return _by_dialect(b, "tflite", op_type, operands, count, options)


def by_pytorch(b: Builder, op_type: str, *operands: Value | None, count: int = 1, **options: Any) -> list[Value]:
    """Return the results of the equivalent operator of PyTorch.

    Raises:
        UnsupportedError: there is none.
    """
    return _by_dialect(b, "pytorch", op_type, operands, count, options)


def _by_dialect(
    b: Builder, dialect: str, op_type: str, operands: Sequence[Value | None], count: int, options: dict[str, Any]
) -> list[Value]:
    rule = registry.lowering(dialect, op_type)
    if rule is None:
        message = f"unsupported op type {op_type}"
        raise UnsupportedError(message)
    wanted = b.count
    b.count = count
    try:
        return [result for result in registry.lowered(rule, b, list(operands), options) if result is not None]
    finally:
        b.count = wanted


def to_channels_first(b: Builder, x: Value, data_format: str) -> Value:
    """`x` with its channels after the batch."""
    rank = len(b.dims(x))
    return x if data_format in CHANNELS_FIRST else transposed(b, x, (0, rank - 1, *range(1, rank - 1)))


def from_channels_first(b: Builder, x: Value, data_format: str) -> Value:
    """`x`, which has its channels after the batch, in the data format of the operator."""
    return x if data_format in CHANNELS_FIRST else transposed(b, x, (0, *range(2, len(b.dims(x))), 1))


def spatial(numbers: Sequence[int], data_format: str) -> tuple[int, ...]:
    """The entries of the spatial axes of a list with one entry an axis."""
    return tuple(numbers[2:] if data_format in CHANNELS_FIRST else numbers[1:-1])


RULES = RuleTable(
    DIALECT,
    {
        "int64": as_int64,
        "scalar": as_scalar,
        "vector": as_vector,
        "tflite": lambda b, op_type, *operands, **options: by_tflite(b, op_type, *operands, **options)[0],
    },
    register=_register,
)


def as_type(b: Builder, x: Value, like: Value) -> Value:
    """`x` in the element type of another value."""
    return cast(b, x, dtype_of(like))
