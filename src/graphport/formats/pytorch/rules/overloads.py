"""Targets of exported programs: `aten.add.Tensor`, a function of PyTorch with the overload that was called.

Most of them are what PNNX calls `aten::add`, with the same arguments, and have no rule of their own: a word of this
dialect without one is looked up there. Where overloads differ in what they mean, or arguments in what they are called,
there is a rule for the overload, or for all that have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import BY_POSITION, COMPLEX, EXPORTED, LEFT, Function, bound
from graphport.formats.pytorch.rules.binding import DIALECT as PNNX
from graphport.formats.pytorch.rules.rows import FUNCTIONS
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import FALLBACKS, LOWERINGS, UnsupportedError, lower
from graphport.ops.lowering.table import Rows

DIALECT = EXPORTED
_SPACE = "aten."
_WITHOUT_MEANING = ("device", "layout", "pin_memory", "non_blocking", "memory_format", "generator")
"""Arguments for device and memory layout, which a graph does not represent."""
_DENSE = "strided"

Kind = Literal["same", "slice", "reshape", "undo", "cat", "stack", "never"]
Doubt = Literal["layout", "contiguous", "cast", "training"]

Inverse = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class View:
    """A word whose results look at the numbers of its first operand.

    `kind` is how numbers that are written into a result get back into the operand: they are it (`same`), `word` puts
    them there (`slice`), they take its shape (`reshape`), `word` undoes it (`undo`, with arguments that `inverse` makes
    of those of the view), all results together are it (`cat`, `stack`), or there is no way.
    """

    kind: Kind
    word: str | None = None
    inverse: Inverse | None = None
    doubt: Doubt | None = None
    """When it looks: where the layout allows it, where that is contiguous, where the type stays, unless it trains."""


VIEWS: dict[str, View] = {}
"""By word without overload."""
FUNCTIONAL: dict[str, str] = {}
"""Words that write into their operand and are not called like what they compute with an underscore behind."""


def aten(*words: str, ignores: Sequence[str] = (), by_position: bool = True) -> Callable[[Function], Function]:
    """Register a function as the meaning of targets: `aten.max.dim`, or `aten.max` for every overload without a rule.

    As `emits` for PNNX: parameters have PyTorch's names, tensors are values, numbers are what they are in Python.
    `by_position` says that the parameters are PyTorch's first ones in their order, of every overload that has a rule
    of its own: then it is also the meaning of PNNX's `aten::max`, whose operands have no names.
    """

    def register(function: Function) -> Function:
        for word in words:
            rule = _WithoutLayout(bound(word, function, ignores))
            lower(DIALECT, word)(rule)
            if by_position and word.startswith(_SPACE) and base_of(word) == word:
                BY_POSITION[word.removeprefix(_SPACE)] = rule
        return function

    return register


def _aliased(*words: str) -> Callable[[Function], Function]:
    """Register words that mean what PNNX calls otherwise, of the same arguments."""

    def register(rule: Function) -> Function:
        for word in words:
            lower(DIALECT, word)(_WithoutLayout(rule))
            if base_of(word) == word:
                BY_POSITION[word.removeprefix(_SPACE)] = rule
        return rule

    return register


ROWS = Rows(DIALECT, FUNCTIONS, other=PNNX, register=aten, register_alias=_aliased)


def view(
    *words: str, kind: Kind, word: str | None = None, inverse: Inverse | None = None, doubt: Doubt | None = None
) -> None:
    """Declare words whose results look at the numbers of their first operand; see `View`."""
    for name in words:
        VIEWS[name] = View(kind, word, inverse, doubt)


@dataclass(frozen=True, slots=True)
class _WithoutLayout:
    """A rule that is given no arguments about where numbers lie."""

    rule: Callable[..., Any]

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.rule

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        if attributes.get("layout", _DENSE) not in (_DENSE, None):
            message = f"unsupported tensor layout {attributes['layout']}, expected strided"
            raise UnsupportedError(message)
        kept = {name: value for name, value in attributes.items() if name not in _WITHOUT_MEANING}
        return self.rule(b, *operands, **kept)


def without_layout(rule: Callable[..., Any]) -> Callable[..., Any]:
    """`rule`, given no arguments about where numbers lie."""
    return _WithoutLayout(rule)


def base_of(word: str) -> str:
    """A word without its overload: `aten.add` of `aten.add.Tensor`, `aten.add_` of `aten.add_.Tensor`."""
    parts = word.split(".")
    return ".".join(parts[:2])


def writes_first_operand(word: str) -> bool:
    """Whether a word writes into its first operand."""
    base = base_of(word)
    return (base.startswith(_SPACE) and base.endswith("_") and not base.endswith("__")) or base in FUNCTIONAL


def functional(word: str) -> str:
    """The word that computes what `word` writes into its operand."""
    base = base_of(word)
    own = FUNCTIONAL.get(base, base.removesuffix("_"))
    return own + word[len(base) :]


_COPY = "_copy"


@cache
def _fallback(word: str) -> Callable[..., Any] | None:
    """The rule of a word that has none of its own: of all its overloads, of what it writes, or PNNX's."""
    prefix = COMPLEX if word.startswith(COMPLEX) else ""
    bare = word.removeprefix(COMPLEX)
    base = base_of(bare)
    name = base.removeprefix(_SPACE)
    own = (DIALECT, f"{prefix}{base}") in LOWERINGS or registry.lowering(PNNX, f"{prefix}{LEFT}{name}") is not None
    if base.endswith(_COPY) and not own:
        # A view that is copied at once is what the view is.
        return registry.lowering(DIALECT, f"{prefix}{base.removesuffix(_COPY)}{bare[len(base) :]}")
    if base != bare and (rule := registry.lowering(DIALECT, f"{prefix}{base}")) is not None:
        return rule
    if writes_first_operand(bare):
        return registry.lowering(DIALECT, f"{prefix}{functional(bare)}")
    if base != bare or not base.startswith(_SPACE):
        return None
    rule = registry.lowering(PNNX, f"{prefix}{LEFT}{name}")
    return None if rule is None else _WithoutLayout(rule)


FALLBACKS[DIALECT] = _fallback


def dtype_known(value: Value) -> bool:
    """Whether the element type is known."""
    return isinstance(value.fact, TensorFact) and value.fact.dtype is not None
