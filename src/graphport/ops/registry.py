"""Looking pages and rules up: by operator, by dialect and word."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.ops import pattern
from graphport.ops.attribute_types import is_of_type, type_name
from graphport.ops.declare import (
    EXACT,
    FALLBACKS,
    LIFTINGS,
    LOWERINGS,
    MEANINGS,
    OPSET,
    OWN,
    PAGES,
    Dialect,
    Page,
    Rule,
    ShapeError,
)
from graphport.ops.dialects import RULES
from graphport.ops.rows.rule import Lifting
from graphport.ops.rows.text import row_of

if TYPE_CHECKING:
    from graphport.ir.graph import Node, Value
    from graphport.ops.builder import Builder

Lower = Callable[..., Any]
PAGES_ROOT = "graphport.ops.pages."
"""What the modules of pages are called, before the family."""

_parsed = cache(pattern.parse)

_STUMBLES = (ValueError, LookupError, ArithmeticError, AttributeError)


_BROADCAST = "auto_broadcast"
_BROADCAST_AXIS = "auto_broadcast_axis"
_CHOICE = 3
_ABSENT = "None"
"""What the annotation of an operand says where it may be absent."""


@cache
def families() -> tuple[str, ...]:
    """Names of the packages that hold pages."""
    above = import_module(PAGES_ROOT.removesuffix("."))
    return tuple(found.name for found in iter_modules(above.__path__) if found.ispkg)


def dialects() -> tuple[str, ...]:
    """Names of the dialects that have rules; a dot of a dialect's name is `_` here."""
    return tuple(RULES)


@cache
def names() -> tuple[str, ...]:
    """Every dialect that has words, as nodes have it."""
    for package in dialects():
        load(package)
    dialects_of_pages = {dialect for page in pages().values() for dialect in page.spellings}
    return tuple(sorted(dialects_of_pages | {dialect for dialect, _ in (*LOWERINGS, *MEANINGS)}))


@cache
def record(dialect: str) -> Dialect:
    """What holds of all words of a dialect; that of a domain that nobody knows says nothing."""
    package = dialect.replace(".", "_")
    found = getattr(import_module(RULES[package]), "RECORD", None) if package in RULES else None
    return Dialect() if found is None else found


@cache
def pages() -> Mapping[str, Page]:
    """Every page by operator name."""
    for family in families():
        import_module(f"graphport.ops.pages.{family}")
    return MappingProxyType(PAGES)


@cache
def stating(fact: str) -> Mapping[str, Any]:
    """The operators on whose pages something else than by default stands for a fact, with that."""
    default = next(each.default for each in fields(Page) if each.name == fact)
    found = {name: getattr(page, fact) for name, page in pages().items()}
    return MappingProxyType({name: stated for name, stated in found.items() if stated != default})


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
    """Import what the families say of a dialect, and of the one that it has its words from."""
    pages()
    if parent := record(dialect).parent:
        load(parent)
    for family in families():
        _load_family(family, dialect)


@cache
def _load_family(family: str, dialect: str) -> None:
    """Import the module of a family in a dialect's folder, and those whose names go on after it: `pooling_regions`."""
    package = dialect.replace(".", "_")
    for name in _modules(package) if package in RULES else ():
        if name == family or name.startswith(f"{family}_"):
            import_module(f"{RULES[package]}.{name}")


@cache
def _modules(package: str) -> tuple[str, ...]:
    """Names of the modules in a dialect's folder."""
    return tuple(found.name for found in iter_modules(import_module(RULES[package]).__path__))


def _load_own(page: Page, dialect: str) -> None:
    """Import what the family of `page` says of a dialect."""
    module = page.function.__module__
    if module.startswith(PAGES_ROOT):
        _load_family(module.removeprefix(PAGES_ROOT).partition(".")[0], dialect)


def _lowering_rules(dialect: str, word: str) -> Sequence[Rule]:
    """The functions that say `word` canonically; other families than those that have to are imported only to find any.

    The rules of an ONNX operator with a page are in its family, and the rule of a word with a pattern in that of one of
    its pages. Every other word has one rule, wherever that is.
    """
    if dialect == "onnx" and word in pages():
        _load_own(pages()[word], dialect)
    elif stated := patterns(dialect).get(word):
        for page, _ in stated:
            _load_own(page, dialect)
    elif dialect == "onnx" or (dialect, word) not in LOWERINGS:
        load(dialect)
    return LOWERINGS.get((dialect, word), ())


def _lifting_rules(dialect: str, page: Page) -> Sequence[Rule]:
    """The functions that say `page` in `dialect`: all in one family, its own in most cases.

    Others are imported only where that has none: what five operators mean needs five families, not twenty.
    """
    pages()
    _load_own(page, dialect)
    if (dialect, page.name) not in LIFTINGS and dialect not in page.spellings:
        load(dialect)
    return LIFTINGS.get((dialect, page.name), ())


def version(node: Node) -> int | None:
    """The version of the node's dialect that its graph speaks, where dialects have one."""
    return None if node.graph is None else node.graph.root.opsets.get(node.dialect)


def lowering(dialect: str, word: str, opset: int | None = None) -> Lower | None:
    """The function that says `word` canonically, or `None` if there is none.

    For ONNX, the rule with the least `until` that is not below `opset`; a word that its page says is unchanged since
    `opset` is said verbatim.
    """
    for rule in _lowering_rules(dialect, word):
        if rule.until is None or (opset is not None and opset <= rule.until):
            return rule.function
    if dialect == "onnx":
        return partial(_verbatim, pages()[word]) if is_verbatim(word, opset) else None
    stated = patterns(dialect).get(word)
    if stated is not None:
        return partial(_by_pattern, stated)
    if parent := record(dialect).parent:
        return _of_parent(dialect, parent, word)
    return FALLBACKS[dialect](word) if dialect in FALLBACKS else None


@cache
def reads_facts_alone(dialect: str, word: str) -> bool:
    """Whether a word is read with a rule, or with patterns, for which no number of an operand matters."""
    rules = _lowering_rules(dialect, word)
    if rules:
        return all(rule.reads_facts_alone for rule in rules)
    stated = patterns(dialect).get(word)
    return bool(stated) and all(
        term.kind in ("name", "rest") and term.value not in page.signature.keywords
        for page, parsed in stated
        for key, term in parsed.arguments
        if key is None
    )


def _of_parent(dialect: str, parent: str, word: str) -> Lower | None:
    rule = lowering(parent, word)
    return None if rule is None else partial(import_module(f"{RULES[dialect]}.binding").inherited, rule)


def meaning(node: Node) -> Callable[..., Any] | None:
    """What a node computes, arrays in, arrays out: its page, or the function of a word that stays as it is."""
    if not node.dialect:
        return pages().get(node.word)
    load(node.dialect)
    return MEANINGS.get((node.dialect, node.word)) or exact(node)


def exact(node: Node) -> Callable[..., Any] | None:
    """What a node of a dialect computes to the last bit, where its canonical form is only close to that."""
    if not record(node.dialect).rounds:
        return None
    load(node.dialect)
    found = EXACT.get((node.dialect, node.word))
    return found.function if found is not None and found.when(node) else None


def own(node: Node) -> Page | None:
    """The page that a user has declared of an operator that has no other."""
    return OWN.get((node.dialect, node.word)) if OWN else None


@cache
def is_verbatim(word: str, opset: int | None) -> bool:
    """Whether an ONNX node of `opset` is canonical as it stands."""
    page = pages().get(word)
    if page is None or opset is None or not page.since <= opset:
        return False
    return not any(rule.until is not None and opset <= rule.until for rule in _lowering_rules("onnx", word))


def is_of_later_opset(node: Node) -> bool:
    """Whether an ONNX node is of an opset after the canonical one: its operator may take more than its page knows."""
    opset = version(node)
    return node.dialect == "onnx" and opset is not None and opset > OPSET


def is_known(node: Node) -> bool:
    """Whether the fact of a node can be found: it has a page, or a way to pages."""
    if not node.dialect:
        return node.word in pages()
    return own(node) is not None or lowering(node.dialect, node.word, version(node)) is not None


def liftings(dialect: str, page: Page) -> list[Callable[[Builder, Node], tuple[Value, ...] | None]]:
    """Ways to say a node of `page` in `dialect`, to be tried in order."""
    rules, known = _lifting_rules(dialect, page), record(dialect)
    functions = [partial(_by_function, page, rule) for rule in rules]
    if known.parent:
        return [*functions, *(partial(_in_parent, known.parent, rule) for rule in liftings(known.parent, page))]
    own = [*functions, *(partial(pattern.lifted, page, _parsed(text)) for text in page.spellings.get(dialect, ()))]
    if not own and known.decomposes and page.decomposes:
        return [partial(_by_function, page, _decomposition(page))]
    return [*own, partial(_written_out, known.formulas, page, bool(own))] if known.formulas else own


@cache
def _decomposition(page: Page) -> Rule:
    """The operator in others, as its page has it."""
    return Rule("", page.name, Lifting(row_of(f"{page.name} -> {page.decomposes}"), page, {}))


def is_written(dialect: str, page: Page) -> bool:
    """Whether a dialect says nodes of `page` in any way; rules of all families are known."""
    is_decomposed = record(dialect).decomposes and bool(page.decomposes)
    return (dialect, page.name) in LIFTINGS or dialect in page.spellings or is_decomposed


def also_in(dialect: str, page: Page) -> str | None:
    """The option that asks for the words of a dialect on top of this one that has rules of its own for `page`."""
    above = (other for other in dialects() if record(other).parent == dialect and record(other).asked_for)
    return next((record(other).asked_for for other in above if _lifting_rules(other, page)), None)


def _written_out(other: str, page: Page, has_reason: bool, builder: Builder, node: Node) -> Any:
    """What the rules of another dialect make of a node, if that is canonical operators alone.

    Why they refuse it is told unless another reason `has_reason`.
    """
    builder.dialect = ""
    for rule in _lifting_rules(other, page):
        try:
            answer = _by_function(page, rule, builder, node)
        except pattern.UnsupportedError:
            if not has_reason:
                raise
            continue
        if answer is not None:
            return answer
    return None


def _in_parent(parent: str, rule: Callable[..., Any], builder: Builder, node: Node) -> Any:
    builder.dialect = parent
    return rule(builder, node)


def row(rule: Callable[..., Any]) -> Any:
    """The row, or else the function, that a rule calls, however its dialect has wrapped it."""
    while (inner := getattr(rule, "__wrapped__", None)) is not None:
        rule = inner
    return rule


def results(answer: Any) -> Sequence[Value | None]:
    """What a rule returned as a sequence."""
    return answer if is_sequence(answer) else (answer,)


def _alike(operands: Sequence[Value | None], attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes without that which says that operands have one shape.

    Raises:
        ShapeError: they have not.
    """
    facts = [value.fact for value in operands if value is not None]
    shapes = [fact.shape for fact in facts if isinstance(fact, TensorFact) and fact.shape is not None]
    for shape in shapes[1:]:
        if len(shape) != len(shapes[0]) or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(shapes[0], shape, strict=True)
        ):
            message = f"{list(map(str, shapes[0]))} and {list(map(str, shape))} are not one shape".replace("'", "")
            raise ShapeError(message, f'{_BROADCAST} is "none": say "numpy"')
    return {name: attribute for name, attribute in attributes.items() if name != _BROADCAST}


def _broadcast(
    builder: Builder, operands: Sequence[Value | None], attributes: Mapping[str, Any]
) -> tuple[Sequence[Value | None], Mapping[str, Any]]:
    """Operands that broadcast as in NumPy what the attributes say otherwise, and the attributes without that.

    Raises:
        ShapeError: they do not broadcast so.
    """
    match attributes.get(_BROADCAST):
        case "none" | "explicit":
            return operands, _alike(operands, attributes)
        case "pdpd":
            axis = attributes.get(_BROADCAST_AXIS, 0)
            kept = {name: text for name, text in attributes.items() if name not in (_BROADCAST, _BROADCAST_AXIS)}
            return _aligned(builder, operands, axis), kept
        case _:
            return operands, attributes


def _aligned(b: Builder, operands: Sequence[Value | None], axis: int) -> Sequence[Value | None]:
    """Operands with axes of 1 behind, so that they begin at `axis` of that which the others are fitted to.

    That is the first, or the second of three: a choice has its condition in front. -1 fits the last axes.

    Raises:
        ShapeError: they have more axes than it, or others.
    """
    fitted = operands[1 if len(operands) == _CHOICE else 0]
    if fitted is None:
        return operands
    dims = b.dims(fitted)
    found: list[Value | None] = []
    for value in operands:
        if value is None or value is fitted:
            found.append(value)
            continue
        own = b.dims(value)
        behind = 0 if axis == -1 else len(dims) - axis - len(own)
        at = len(dims) - len(own) - behind
        if min(at, behind) < 0 or any(
            isinstance(a, int) and isinstance(n, int) and n not in (1, a) for a, n in zip(dims[at:], own, strict=False)
        ):
            message = f"{list(map(str, own))} does not fit {list(map(str, dims))} from axis {axis} on".replace("'", "")
            raise ShapeError(message, f'{_BROADCAST} is "pdpd": "numpy" fits the last axes')
        ends = np.arange(len(own), len(own) + behind, dtype=np.int64)
        found.append(b(pages()["Unsqueeze"], value, b.constant(ends)) if own and behind else value)
    return found


def lowered(
    rule: Lower, builder: Builder, operands: Sequence[Value | None], attributes: Mapping[str, Any]
) -> Sequence[Value | None]:
    """What a rule makes of a node.

    Raises:
        ShapeError: the node has more or fewer operands or results, or other attributes, than the rule takes, an operand
            is absent that the rule needs, or an attribute is of another type; in a dialect that is read without a
            signature also: the rule fails over what they are.
    """
    checks = record(builder.dialect).checks_operands
    if checks and _BROADCAST in attributes:
        operands, attributes = _broadcast(builder, operands, attributes)
    _check_against(_stated(rule, has_literals=record(builder.dialect).has_literals), operands, attributes)
    try:
        answer = results(rule(builder, *operands, **attributes))
    except TypeError as error:
        mismatch = _mismatch(rule, builder, *operands, **attributes)
        if mismatch is None and not checks:
            raise
        message = f"its {len(operands)} operands are not what it takes: {mismatch or error}"
        raise ShapeError(message) from error
    except _STUMBLES as error:
        if isinstance(error, ShapeError) or not checks:
            raise
        message = f"its operands and attributes do not go together: {error}"
        raise ShapeError(message) from error
    if len(answer) < builder.count:
        message = f"it has {builder.count} results, at most {len(answer)} are known"
        raise ShapeError(message)
    return answer


class _Stated(NamedTuple):
    """What the signature of a rule says of operands and attributes."""

    required: Mapping[int, str]
    """The operands that must be there, by index."""
    rest: str
    """The name of a variadic operand none of which may be absent."""
    first: int
    """Where it begins."""
    types: Mapping[str, Any]
    """The types of attributes."""


_UNSTATED = _Stated({}, "", 0, {})


def _stated(rule: Lower, *, has_literals: bool) -> _Stated:
    """What the signature of a rule says; nothing where it is no function of its own."""
    return _UNSTATED if isinstance(rule, partial) else _stated_by(row(rule), has_literals)


@cache
def _stated_by(rule: Callable[..., Any], has_literals: bool) -> _Stated:
    forms = {"Value", "Value | None"} if has_literals else {"Value", "Value | None", "_empty"}
    parameters = list(inspect.signature(rule).parameters.values())[1:]
    types = {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}
    operands = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    required: dict[int, str] = {}
    rest, first = "", len(operands)
    if operands and not has_literals and _is_record(type_name(operands[0].annotation)):
        operands = operands[1:]
    for index, parameter in enumerate(operands):
        stated = type_name(parameter.annotation)
        if stated not in forms:
            # Operands may be literals.
            return _Stated({}, "", 0, types)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest, first = ("" if _ABSENT in stated else parameter.name), index
        elif parameter.default is parameter.empty and _ABSENT not in stated:
            required[index] = parameter.name
    return _Stated(required, rest, first, types)


def _is_record(stated: str) -> bool:
    """Whether the first parameter of a rule is a record of options, which its registration makes of the attributes."""
    return stated.isidentifier() and stated not in {"Any", "Value", "_empty"} and not stated.islower()


def _check_against(stated: _Stated, operands: Sequence[Value | None], attributes: Mapping[str, Any]) -> None:
    """Hold a node against the signature of its rule.

    Raises:
        ShapeError: an operand is absent that must be there, or an attribute is of another type.
    """
    if stated.rest and not stated.first and not operands:
        message = "0 operands, at least 1 is needed"
        raise ShapeError(message)
    for index, operand in enumerate(operands) if None in operands else ():
        name = stated.required.get(index, stated.rest if stated.rest and index >= stated.first else "")
        if operand is None and name:
            message = f"operand {index}, {name}, is absent"
            raise ShapeError(message, "only optional operands can be")
    for name, attribute in attributes.items():
        if name in stated.types and not is_of_type(attribute, stated.types[name]):
            message = f"the attribute {name} is {attribute!r:.60}, expected {type_name(stated.types[name])}"
            raise ShapeError(message)


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
    stated: Sequence[tuple[Page, pattern.Pattern]], builder: Builder, *operands: Any, **attributes: Any
) -> Any:
    reason: Exception | None = None
    for page, parsed in stated:
        try:
            return pattern.lowered(page, parsed, builder, operands, attributes)
        except pattern.UnsupportedError as error:
            reason = error
    raise reason or pattern.UnsupportedError


def _by_function(page: Page, rule: Rule, builder: Builder, node: Node) -> Any:
    """What a lifting makes of a node; attributes that say what is meant without them are left out."""
    known = page.signature.keywords
    stated = {
        name: value for name, value in node.attributes.items() if name not in known or value != known[name].default
    }
    answer = rule.function(builder, *node.inputs, **stated)
    return None if answer is None else tuple(results(answer))
