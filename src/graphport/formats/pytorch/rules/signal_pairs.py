"""Registration of import rules for op types of exported programs with complex tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from graphport.formats.pytorch.rules.binding import COMPLEX, Function
from graphport.formats.pytorch.rules.binding import DIALECT as PNNX
from graphport.formats.pytorch.rules.functions.signal_pairs import FUNCTIONS, apply_to_components, of_pairs
from graphport.formats.pytorch.rules.overloads import DIALECT, without_layout
from graphport.ops.declare import lower
from graphport.ops.lowering.table import RuleTable


def pairs(*words: str, ignores: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Register an import rule for op types with complex operands or results."""

    def register(function: Function) -> Function:
        for op_type in words:
            lower(DIALECT, f"{COMPLEX}{op_type}")(without_layout(of_pairs(op_type, function, ignores)))
        return function

    return register


RULES = RuleTable(DIALECT, FUNCTIONS, other=PNNX, register=pairs)
"""Rule table of operators on complex tensors."""


def _register_for_components(*words: str) -> Callable[[Function], Function]:
    """Register a rule that applies the rule of real tensors to the real and the imaginary part."""

    def register(rule: Function) -> Function:
        bound = partial(apply_to_components, rule)
        vars(bound)["__wrapped__"] = rule
        for op_type in words:
            lower(DIALECT, f"{COMPLEX}{op_type}")(without_layout(bound))
        return rule

    return register


ALIKE = RuleTable(DIALECT, register_alias=_register_for_components)
"""Rule table of operators that apply to real and imaginary part separately."""
