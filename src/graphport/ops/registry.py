"""Looking pages and rules up: by operator, by dialect and word."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import graphport.ops
from graphport.core.sequences import is_sequence
from graphport.ops import pattern
from graphport.ops.declare import LIFTINGS, LOWERINGS, PAGES, ShapeError

if TYPE_CHECKING:
    from graphport.ir.graph import Node, Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page, Rule

Lower = Callable[..., Any]
_parsed = cache(pattern.parse)

_UNSIGNED = frozenset({"openvino"})
"""Dialects whose files alone say how many operands a node has, of which rank, and what attributes are."""
_STUMBLES = (ValueError, LookupError, ArithmeticError, AttributeError)


@cache
def families() -> tuple[str, ...]:
    """Names of the packages that hold pages."""
    return tuple(f"graphport.ops.{found.name}" for found in iter_modules(graphport.ops.__path__) if found.ispkg)


@cache
def pages() -> Mapping[str, Page]:
    """Every page by operator name."""
    for family in families():
        import_module(family)
    return MappingProxyType(PAGES)


@cache
def patterns(dialect: str) -> Mapping[str, list[tuple[Page, pattern.Pattern]]]:
    """The call patterns of a dialect, by its words; several on one word are tried in the order of the pages."""
    found: dict[str, list[tuple[Page, pattern.Pattern]]] = {}
    for page in pages().values():
        for text in page.spellings.get(dialect, ()):
            parsed = _parsed(text)
            pattern.check(page, parsed)
            found.setdefault(parsed.word, []).append((page, parsed))
    return found


@cache
def load(dialect: str) -> None:
    """Import what the families say of a dialect."""
    pages()
    module = dialect.replace(".", "_")
    for family in families():
        if find_spec(f"{family}.{module}") is not None:
            import_module(f"{family}.{module}")


def version(node: Node) -> int | None:
    """The version of the node's dialect that its graph speaks, where dialects have one."""
    return None if node.graph is None else node.graph.root.opsets.get(node.dialect)


def lowering(dialect: str, word: str, opset: int | None = None) -> Lower | None:
    """The function that says `word` canonically, or `None` if there is none.

    For ONNX, the rule with the least `until` that is not below `opset`; a word that its page says is unchanged since
    `opset` is said verbatim.
    """
    load(dialect)
    for rule in LOWERINGS.get((dialect, word), ()):
        if rule.until is None or (opset is not None and opset <= rule.until):
            return rule.function
    if dialect == "onnx":
        return partial(_verbatim, pages()[word]) if is_verbatim(word, opset) else None
    said = patterns(dialect).get(word)
    return None if said is None else partial(_by_pattern, said)


@cache
def is_verbatim(word: str, opset: int | None) -> bool:
    """Whether an ONNX node of `opset` is canonical as it stands."""
    page = pages().get(word)
    if page is None or opset is None or not page.since <= opset:
        return False
    load("onnx")
    return not any(rule.until is not None and opset <= rule.until for rule in LOWERINGS.get(("onnx", word), ()))


def is_known(node: Node) -> bool:
    """Whether the fact of a node can be found: it has a page, or a way to pages."""
    if not node.dialect:
        return node.word in pages()
    return lowering(node.dialect, node.word, version(node)) is not None


def liftings(dialect: str, page: Page) -> list[Callable[[Builder, Node], tuple[Value, ...] | None]]:
    """Ways to say a node of `page` in `dialect`, to be tried in order."""
    load(dialect)
    functions = [partial(_by_function, rule) for rule in LIFTINGS.get((dialect, page.name), ())]
    said = [_parsed(text) for text in page.spellings.get(dialect, ())]
    return [*functions, *(partial(pattern.lifted, page, parsed) for parsed in said)]


def results(answer: Any) -> Sequence[Value | None]:
    """What a rule returned as a sequence."""
    return answer if is_sequence(answer) else (answer,)


def lowered(
    rule: Lower, builder: Builder, operands: Sequence[Value | None], attributes: Mapping[str, Any]
) -> Sequence[Value | None]:
    """What a rule makes of a node.

    Raises:
        ShapeError: the node has more or fewer operands, or other attributes, than the rule takes; in a dialect that is
            read without a signature also: the rule stumbles over what they are, the node has more results.
    """
    try:
        answer = results(rule(builder, *operands, **attributes))
    except TypeError as error:
        mismatch = _mismatch(rule, builder, *operands, **attributes)
        if mismatch is None and builder.dialect not in _UNSIGNED:
            raise
        message = f"its {len(operands)} operands are not what it takes: {mismatch or error}"
        raise ShapeError(message) from error
    except _STUMBLES as error:
        if isinstance(error, ShapeError) or builder.dialect not in _UNSIGNED:
            raise
        message = f"its operands and attributes do not go together: {error}"
        raise ShapeError(message) from error
    if len(answer) < builder.count and builder.dialect in _UNSIGNED:
        message = f"it is said to have {builder.count} results, and has {len(answer)}"
        raise ShapeError(message)
    return answer


def _mismatch(rule: Lower, *arguments: Any, **named: Any) -> TypeError | None:
    """Why a rule cannot be called so."""
    try:
        # A rule of a layer is called as it is wrapped, not as what it wraps.
        inspect.signature(rule, follow_wrapped=False).bind(*arguments, **named)
    except TypeError as error:
        return error
    return None


def _verbatim(page: Page, builder: Builder, *operands: Any, **attributes: Any) -> Any:
    return builder.results(page, builder.count, *operands, **attributes)


def _by_pattern(
    said: Sequence[tuple[Page, pattern.Pattern]], builder: Builder, *operands: Any, **attributes: Any
) -> Any:
    reason: Exception | None = None
    for page, parsed in said:
        try:
            return pattern.lowered(page, parsed, builder, operands, attributes)
        except pattern.UnsupportedError as error:
            reason = error
    raise reason or pattern.UnsupportedError


def _by_function(rule: Rule, builder: Builder, node: Node) -> Any:
    answer = rule.function(builder, *node.inputs, **node.attributes)
    return None if answer is None else tuple(results(answer))
