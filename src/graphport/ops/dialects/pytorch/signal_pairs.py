"""Rules for targets of exported programs that take or give complex tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from graphport.ops.declare import lower
from graphport.ops.dialects.pnnx.signal_pairs import in_pairs
from graphport.ops.dialects.pytorch.overloads import DIALECT, plain
from graphport.ops.dialects.torch_functions import COMPLEX, Function, bound


def pairs(*words: str, ignores: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Register a function as the meaning of targets where complex tensors are among operands or results."""

    def register(function: Function) -> Function:
        for word in words:
            lower(DIALECT, f"{COMPLEX}{word}")(plain(partial(in_pairs, bound(word, function, ignores))))
        return function

    return register
