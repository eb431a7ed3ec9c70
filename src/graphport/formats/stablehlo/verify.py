"""Checks of operations before an import rule reads them: operands, results, regions and types of attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.stablehlo.program import TensorType
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.emitter import COMPLEX, RULES, mismatch

if TYPE_CHECKING:
    from graphport.formats.stablehlo.program import Operation, Program

MAX_RANK = 32
"""Axes of a tensor; rules add axes, and NumPy has 64."""
_REGIONS = {
    **dict.fromkeys(("reduce", "reduce_window", "scatter", "sort", "map"), 1),
    **dict.fromkeys(("if", "while", "select_and_scatter"), 2),
}
"""The number of regions of an operation."""
_WITHOUT_RESULTS = frozenset({"custom_call", "call", "composite", "case", "if", "while", "optimization_barrier"})
"""Operations that may have no results."""
_ATTRIBUTES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("feature_index", "dimension", "iota_dimension", "index", "k", "dim", "batch_dims"), (int,)),
    **dict.fromkeys(("exponent_bits", "mantissa_bits", "concat_dimension", "split_dimension", "split_count"), (int,)),
    **dict.fromkeys(("feature_group_count", "batch_group_count", "top_k"), (int,)),
    **dict.fromkeys(("comparison_direction", "compare_type", "fft_type", "einsum_config"), (str,)),
    **dict.fromkeys(("dot_dimension_numbers", "dimension_numbers", "scatter_dimension_numbers"), (dict,)),
    "epsilon": (int, float),
}
"""The types of attributes that rules read without a check of their own."""


def verify(program: Program) -> None:
    """Check every operation that has an import rule, in all functions and regions.

    Rules recognize patterns of operations in regions, so regions are checked before any rule runs.

    Raises:
        RefusedError: SH0007 an operation has another number of operands, results or regions than its rule reads, or
            an attribute of another type; SH0008 a tensor has more than `MAX_RANK` axes.
    """
    blocks = [function.body for function in program.functions.values() if function.body is not None]
    while blocks:
        block = blocks.pop()
        _check_ranks([type for _, type in block.arguments])
        for operation in block.operations:
            _check_ranks(operation.result_types, operation)
            if operation.name in RULES or operation.name in COMPLEX:
                _verify(operation)
            blocks += operation.regions


def _check_ranks(types: list[Any], operation: Operation | None = None) -> None:
    rank = max((len(type.shape) for type in types if isinstance(type, TensorType)), default=0)
    if rank > MAX_RANK:
        offset = None if operation is None else operation.offset
        refuse("SH0008", f"a tensor has rank {rank}, the limit is {MAX_RANK}", offset=offset)


def _verify(operation: Operation) -> None:
    shown, offset = operation.shown(), operation.offset
    rules = [table[operation.name] for table in (RULES, COMPLEX) if operation.name in table]
    reasons = [mismatch(function, len(operation.operands)) for function in rules]
    if all(reasons):
        refuse("SH0007", f"{shown} has {len(operation.operands)} operands: {reasons[0]}", offset=offset)
    if len(operation.results) != len(operation.result_types):
        message = f"{shown} has {len(operation.results)} results but {len(operation.result_types)} result types"
        refuse("SH0007", message, offset=offset)
    if not operation.results and operation.name not in _WITHOUT_RESULTS:
        refuse("SH0007", f"{shown} has no results", offset=offset)
    expected = _REGIONS.get(operation.name)
    if expected is not None and len(operation.regions) != expected:
        refuse("SH0007", f"{shown} has {len(operation.regions)} regions, expected {expected}", offset=offset)
    for name, value in operation.attributes.items():
        types = _ATTRIBUTES.get(name)
        if types is not None and not (value is None and str in types) and not _is_of(value, types):
            names = " or ".join(each.__name__ for each in types)
            message = f"{shown}: the attribute {name} is {type(value).__name__}, expected {names}"
            refuse("SH0007", message, offset=offset)


def _is_of(value: Any, types: tuple[type, ...]) -> bool:
    """Whether an attribute has one of the types; integers are int64."""
    return isinstance(value, types) and not (isinstance(value, int) and abs(value) >= 1 << 63)
