"""Rules for targets of exported programs that take or give complex tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from graphport.ops.declare import lower
from graphport.ops.dialects.pnnx.signal_pairs import FUNCTIONS, of_each_part, of_pairs
from graphport.ops.dialects.pytorch.overloads import DIALECT, without_layout
from graphport.ops.dialects.table import Rows
from graphport.ops.dialects.torch_functions import COMPLEX, Function
from graphport.ops.dialects.torch_functions import DIALECT as PNNX


def pairs(*words: str, ignores: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Register a function as the meaning of targets where complex tensors are among operands or results."""

    def register(function: Function) -> Function:
        for word in words:
            lower(DIALECT, f"{COMPLEX}{word}")(without_layout(of_pairs(word, function, ignores)))
        return function

    return register


ROWS = Rows(DIALECT, FUNCTIONS, other=PNNX, register=pairs)
"""Rows of complex tensors."""


def _of_each_part(*words: str) -> Callable[[Function], Function]:
    """Register the rule of a word of real tensors for both parts of complex ones."""

    def register(rule: Function) -> Function:
        bound = partial(of_each_part, rule)
        vars(bound)["__wrapped__"] = rule
        for word in words:
            lower(DIALECT, f"{COMPLEX}{word}")(without_layout(bound))
        return rule

    return register


ALIKE = Rows(DIALECT, register_alias=_of_each_part)
"""Rows of words that do the same to both parts of a complex tensor."""
