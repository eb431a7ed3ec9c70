"""Lookup of operator definitions and rules by operator, dialect and op type."""

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
    EXPANSIONS,
    EXPORT_RULES,
    FALLBACKS,
    IMPORT_RULES,
    MEANINGS,
    OP_DEFS,
    OPSET,
    OWN,
    Dialect,
    OpDef,
    Rule,
    ShapeError,
)
from graphport.ops.dialects import RULES
from graphport.ops.rule_language.rule import ExportRule
from graphport.ops.rule_language.text import parse_rule

if TYPE_CHECKING:
    from graphport.ir.graph import Node, Value
    from graphport.ops.builder import Builder

Lower = Callable[..., Any]
DEFINITIONS_ROOT = "graphport.ops.definitions."
"""The prefix of the module names of operator definitions."""

_parsed = cache(pattern.parse)

_BROADCAST = "auto_broadcast"
_BROADCAST_AXIS = "auto_broadcast_axis"
_CHOICE = 3
_ABSENT = "None"
"""The annotation text of an operand that may be absent."""


@cache
def families() -> tuple[str, ...]:
    """Names of the packages with operator definitions."""
    above = import_module(DEFINITIONS_ROOT.removesuffix("."))
    return tuple(found.name for found in iter_modules(above.__path__) if found.ispkg)


def dialects() -> tuple[str, ...]:
    """Names of the dialects with rules; a dot in the name of a dialect is `_` here."""
    return tuple(RULES)


@cache
def names() -> tuple[str, ...]:
    """All dialects with rules, by their names in nodes."""
    for package in dialects():
        load(package)
    dialects_with_patterns = {dialect for op_def in op_defs().values() for dialect in op_def.spellings}
    return tuple(sorted(dialects_with_patterns | {dialect for dialect, _ in (*IMPORT_RULES, *MEANINGS)}))


@cache
def record(dialect: str) -> Dialect:
    """Return the properties of a dialect; the defaults for an unknown domain."""
    package = dialect.replace(".", "_")
    found = getattr(import_module(RULES[package]), "RECORD", None) if package in RULES else None
    return Dialect() if found is None else found


@cache
def op_defs() -> Mapping[str, OpDef]:
    """All operator definitions by name."""
    for family in families():
        import_module(f"graphport.ops.definitions.{family}")
    return MappingProxyType(OP_DEFS)


@cache
def stating(fact: str) -> Mapping[str, Any]:
    """Map each operator with a non-default value of the `OpDef` field `fact` to that value."""
    default = next(each.default for each in fields(OpDef) if each.name == fact)
    found = {name: getattr(op_def, fact) for name, op_def in op_defs().items()}
    return MappingProxyType({name: declared for name, declared in found.items() if declared != default})


@cache
def patterns(dialect: str) -> Mapping[str, list[tuple[OpDef, pattern.Pattern]]]:
    """The call patterns of a dialect by op type; several patterns of one op type are tried in order."""
    found: dict[str, list[tuple[OpDef, pattern.Pattern]]] = {}
    for op_def in op_defs().values():
        for text in op_def.spellings.get(dialect, ()):
            parsed = _parsed(text)
            pattern.check(op_def, parsed)
            found.setdefault(parsed.op_type, []).append((op_def, parsed))
    return found


@cache
def load(dialect: str) -> None:
    """Import all rules of a dialect and of its parent."""
    op_defs()
    if parent := record(dialect).parent:
        load(parent)
    for family in families():
        _load_family(family, dialect)


@cache
def _load_family(family: str, dialect: str) -> None:
    """Import the module of a family in a dialect's folder and its continuations, such as `pooling_regions`."""
    package = dialect.replace(".", "_")
    for name in _modules(package) if package in RULES else ():
        if name == family or name.startswith(f"{family}_"):
            import_module(f"{RULES[package]}.{name}")


@cache
def _modules(package: str) -> tuple[str, ...]:
    """Names of the modules in a dialect's folder."""
    return tuple(found.name for found in iter_modules(import_module(RULES[package]).__path__))


def _load_own(op_def: OpDef, dialect: str) -> None:
    """Import the rules of a dialect for the family of `op_def`."""
    module = op_def.function.__module__
    if module.startswith(DEFINITIONS_ROOT):
        _load_family(module.removeprefix(DEFINITIONS_ROOT).partition(".")[0], dialect)


def _registered_import_rules(dialect: str, op_type: str) -> Sequence[Rule]:
    """Return the import rules of `op_type`, importing as few families as possible.

    The rules of an ONNX operator are in its family; an op type with a call pattern has its rules in the family of its
    operators. Every other op type has one rule, in any family.
    """
    if dialect == "onnx" and op_type in op_defs():
        _load_own(op_defs()[op_type], dialect)
    elif declared := patterns(dialect).get(op_type):
        for op_def, _ in declared:
            _load_own(op_def, dialect)
    elif dialect == "onnx" or (dialect, op_type) not in IMPORT_RULES:
        load(dialect)
    return IMPORT_RULES.get((dialect, op_type), ())


def _registered_export_rules(dialect: str, op_def: OpDef) -> Sequence[Rule]:
    """Return the export rules of the operator `op_def` for `dialect`, which are all in one family.

    Other families are imported only if the operator's own family has none.
    """
    op_defs()
    _load_own(op_def, dialect)
    if (dialect, op_def.name) not in EXPORT_RULES and dialect not in op_def.spellings:
        load(dialect)
    return EXPORT_RULES.get((dialect, op_def.name), ())


def version(node: Node) -> int | None:
    """Return the version of the node's dialect in its graph, if the dialect is versioned."""
    return None if node.graph is None else node.graph.root.opsets.get(node.dialect)


def lowering(dialect: str, op_type: str, opset: int | None = None) -> Lower | None:
    """Return the import rule of `op_type`, or `None`.

    For ONNX, this is the rule with the smallest `until` that is at least `opset`; an operator that is unchanged since
    `opset` is canonical already.
    """
    for rule in _registered_import_rules(dialect, op_type):
        if rule.until is None or (opset is not None and opset <= rule.until):
            return rule.function
    if dialect == "onnx":
        return partial(_verbatim, op_defs()[op_type]) if is_verbatim(op_type, opset) else None
    declared = patterns(dialect).get(op_type)
    if declared is not None:
        return partial(_by_pattern, declared)
    if parent := record(dialect).parent:
        return _of_parent(dialect, parent, op_type)
    return FALLBACKS[dialect](op_type) if dialect in FALLBACKS else None


@cache
def reads_facts_alone(dialect: str, op_type: str) -> bool:
    """Whether the import rules of an op type read only dtypes and shapes of operands, not their elements."""
    rules = _registered_import_rules(dialect, op_type)
    if rules:
        return all(rule.reads_facts_alone for rule in rules)
    declared = patterns(dialect).get(op_type)
    return bool(declared) and all(
        term.kind in ("name", "rest") and term.value not in op_def.signature.keywords
        for op_def, parsed in declared
        for key, term in parsed.arguments
        if key is None
    )


def _of_parent(dialect: str, parent: str, op_type: str) -> Lower | None:
    rule = lowering(parent, op_type)
    return None if rule is None else partial(import_module(f"{RULES[dialect]}.binding").inherited, rule)


def meaning(node: Node) -> Callable[..., Any] | None:
    """Return the function that evaluates a node on arrays; `None` if its op type has no semantics."""
    if not node.dialect:
        return op_defs().get(node.op_type)
    load(node.dialect)
    return MEANINGS.get((node.dialect, node.op_type)) or exact(node)


def expansion(dialect: str, op_type: str) -> Lower | None:
    """Return the rule that replaces an unchanged op type by canonical operators in other formats."""
    load(dialect)
    return EXPANSIONS.get((dialect, op_type))


def exact(node: Node) -> Callable[..., Any] | None:
    """Return the bit-exact function of a node of a dialect, if its canonical form is only approximately equal."""
    if not record(node.dialect).rounds:
        return None
    load(node.dialect)
    found = EXACT.get((node.dialect, node.op_type))
    return found.function if found is not None and found.when(node) else None


def user_definition(node: Node) -> OpDef | None:
    """Return the user's definition of an operator that has no other definition."""
    return OWN.get((node.dialect, node.op_type)) if OWN else None


@cache
def is_verbatim(op_type: str, opset: int | None) -> bool:
    """Whether an ONNX node of `opset` is canonical without conversion."""
    op_def = op_defs().get(op_type)
    if op_def is None or opset is None or not op_def.since <= opset:
        return False
    return not any(rule.until is not None and opset <= rule.until for rule in _registered_import_rules("onnx", op_type))


def is_of_later_opset(node: Node) -> bool:
    """Whether an ONNX node belongs to an opset newer than the canonical one, with possibly more types or attributes."""
    opset = version(node)
    return node.dialect == "onnx" and opset is not None and opset > OPSET


def has_definition_or_rule(node: Node) -> bool:
    """Whether the facts of a node can be inferred: it has an operator definition or an import rule."""
    if not node.dialect:
        return node.op_type in op_defs()
    return user_definition(node) is not None or lowering(node.dialect, node.op_type, version(node)) is not None


def export_rules(dialect: str, op_def: OpDef) -> list[Callable[[Builder, Node], tuple[Value, ...] | None]]:
    """Return the export rules of the operator `op_def` for `dialect`, in the order in which they are tried."""
    rules, known = _registered_export_rules(dialect, op_def), record(dialect)
    functions = [partial(_by_function, op_def, rule) for rule in rules]
    if known.parent:
        return [*functions, *(partial(_in_parent, known.parent, rule) for rule in export_rules(known.parent, op_def))]
    user_definition = [
        *functions,
        *(partial(pattern.exported, op_def, _parsed(text)) for text in op_def.spellings.get(dialect, ())),
    ]
    if not user_definition and known.decomposes and op_def.decomposes:
        return [partial(_by_function, op_def, _decomposition(op_def))]
    return (
        [*user_definition, partial(_written_out, known.formulas, op_def, bool(user_definition))]
        if known.formulas
        else user_definition
    )


@cache
def _decomposition(op_def: OpDef) -> Rule:
    """Return the decomposition in the operator definition as a rule."""
    return Rule("", op_def.name, ExportRule(parse_rule(f"{op_def.name} -> {op_def.decomposes}"), op_def, {}))


def has_export_rule(dialect: str, op_def: OpDef) -> bool:
    """Whether a dialect can export nodes of the operator; the rules of all families must be loaded."""
    is_decomposed = record(dialect).decomposes and bool(op_def.decomposes)
    return (dialect, op_def.name) in EXPORT_RULES or dialect in op_def.spellings or is_decomposed


def option_with_export_rule(dialect: str, op_def: OpDef) -> str | None:
    """Return the writer option of an extension of this dialect that has export rules for the operator."""
    above = (other for other in dialects() if record(other).parent == dialect and record(other).asked_for)
    return next((record(other).asked_for for other in above if _registered_export_rules(other, op_def)), None)


def _written_out(other: str, op_def: OpDef, has_reason: bool, builder: Builder, node: Node) -> Any:
    """Apply the export rules of another dialect if they create canonical operators only.

    With `has_reason`, their refusal is not reported because another reason exists.
    """
    builder.dialect = ""
    for rule in _registered_export_rules(other, op_def):
        try:
            answer = _by_function(op_def, rule, builder, node)
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
    """Return the innermost `__wrapped__` function or row of a rule, without its dialect's wrappers."""
    while (inner := getattr(rule, "__wrapped__", None)) is not None:
        rule = inner
    return rule


def results(answer: Any) -> Sequence[Value | None]:
    """Return the result of a rule as a sequence."""
    return answer if is_sequence(answer) else (answer,)


def _alike(operands: Sequence[Value | None], attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that all operands have one shape, and remove the broadcasting attribute, which requires it.

    Raises:
        ShapeError: the shapes differ.
    """
    facts = [value.fact for value in operands if value is not None]
    shapes = [fact.shape for fact in facts if isinstance(fact, TensorFact) and fact.shape is not None]
    for shape in shapes[1:]:
        if len(shape) != len(shapes[0]) or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(shapes[0], shape, strict=True)
        ):
            message = f"{list(map(str, shapes[0]))} and {list(map(str, shape))} are not equal shapes".replace("'", "")
            raise ShapeError(message, f'{_BROADCAST} is "none", expected "numpy"')
    return {name: attribute for name, attribute in attributes.items() if name != _BROADCAST}


def _broadcast(
    builder: Builder, operands: Sequence[Value | None], attributes: Mapping[str, Any]
) -> tuple[Sequence[Value | None], Mapping[str, Any]]:
    """Convert operands whose broadcasting attributes differ from NumPy's rules, and remove these attributes.

    Raises:
        ShapeError: the operands cannot be broadcast.
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
    """Append axes of length 1 to the operands so that they begin at `axis` of the reference operand.

    The reference is the first operand, or the second of three (`Where` has its condition first). -1 aligns the last
    axes.

    Raises:
        ShapeError: an operand has more axes than the reference, or other dims.
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
        user_definition = b.dims(value)
        behind = 0 if axis == -1 else len(dims) - axis - len(user_definition)
        at = len(dims) - len(user_definition) - behind
        if min(at, behind) < 0 or any(
            isinstance(a, int) and isinstance(n, int) and n not in (1, a)
            for a, n in zip(dims[at:], user_definition, strict=False)
        ):
            message = (
                f"{list(map(str, user_definition))} does not fit {list(map(str, dims))} from axis {axis} on".replace(
                    "'", ""
                )
            )
            raise ShapeError(message, f'{_BROADCAST} is "pdpd": "numpy" fits the last axes')
        ends = np.arange(len(user_definition), len(user_definition) + behind, dtype=np.int64)
        found.append(b(op_defs()["Unsqueeze"], value, b.constant(ends)) if user_definition and behind else value)
    return found


def lowered(
    rule: Lower, builder: Builder, operands: Sequence[Value | None], attributes: Mapping[str, Any]
) -> Sequence[Value | None]:
    """Apply an import rule to a node.

    Raises:
        ShapeError: the number of operands or results, or an attribute, does not match the rule; a required operand is
            absent; or an attribute has the wrong type.
    """
    if _BROADCAST in attributes and record(builder.dialect).broadcasts_by_attribute:
        operands, attributes = _broadcast(builder, operands, attributes)
    _check_against(_rule_signature(rule, has_literals=record(builder.dialect).has_literals), operands, attributes)
    try:
        values = results(rule(builder, *operands, **attributes))
    except TypeError as error:
        mismatch = _mismatch(rule, builder, *operands, **attributes)
        if mismatch is None:
            raise
        message = f"its {len(operands)} operands do not match its signature: {mismatch}"
        raise ShapeError(message) from error
    if len(values) < builder.count:
        message = f"it has {builder.count} results, expected at most {len(values)}"
        raise ShapeError(message)
    return values


class _RuleSignature(NamedTuple):
    """Requirements on operands and attributes in the signature of a rule."""

    required: Mapping[int, str]
    """The required operands, by index."""
    rest: str
    """The name of a variadic operand none of which may be absent."""
    first: int
    """The index of its first operand."""
    types: Mapping[str, Any]
    """The types of attributes."""


_UNSTATED = _RuleSignature({}, "", 0, {})


def _rule_signature(rule: Lower, *, has_literals: bool) -> _RuleSignature:
    """Return the requirements in the signature of a rule; none if it is not a plain function."""
    return _UNSTATED if isinstance(rule, partial) else _signature_of(row(rule), has_literals)


@cache
def _signature_of(rule: Callable[..., Any], has_literals: bool) -> _RuleSignature:
    forms = {"Value", "Value | None"} if has_literals else {"Value", "Value | None", "_empty"}
    parameters = list(inspect.signature(rule).parameters.values())[1:]
    types = {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}
    operands = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    required: dict[int, str] = {}
    rest, first = "", len(operands)
    if operands and not has_literals and _is_record(type_name(operands[0].annotation)):
        operands = operands[1:]
    for index, parameter in enumerate(operands):
        declared = type_name(parameter.annotation)
        if declared not in forms:
            # Operands may be literals.
            return _RuleSignature({}, "", 0, types)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest, first = ("" if _ABSENT in declared else parameter.name), index
        elif parameter.default is parameter.empty and _ABSENT not in declared:
            required[index] = parameter.name
    return _RuleSignature(required, rest, first, types)


def _is_record(declared: str) -> bool:
    """Whether the first parameter of a rule is an options record built from the attributes."""
    return declared.isidentifier() and declared not in {"Any", "Value", "_empty"} and not declared.islower()


def _check_against(declared: _RuleSignature, operands: Sequence[Value | None], attributes: Mapping[str, Any]) -> None:
    """Check a node against the signature of its rule.

    Raises:
        ShapeError: a required operand is absent, or an attribute has the wrong type.
    """
    if declared.rest and not declared.first and not operands:
        message = "0 operands, at least 1 is needed"
        raise ShapeError(message)
    for index, operand in enumerate(operands) if None in operands else ():
        name = declared.required.get(index, declared.rest if declared.rest and index >= declared.first else "")
        if operand is None and name:
            message = f"operand {index}, {name}, is absent"
            raise ShapeError(message, "only optional operands can be")
    for name, attribute in attributes.items():
        if name in declared.types and not is_of_type(attribute, declared.types[name]):
            message = f"the attribute {name} is {attribute!r:.60}, expected {type_name(declared.types[name])}"
            raise ShapeError(message)


def _mismatch(rule: Lower, *arguments: Any, **named: Any) -> TypeError | None:
    """Return why a rule cannot be called with these arguments."""
    try:
        # A wrapped rule is called by the wrapper's signature.
        inspect.signature(rule, follow_wrapped=False).bind(*arguments, **named)
    except TypeError as error:
        return error
    return None


def _verbatim(op_def: OpDef, builder: Builder, *operands: Any, **attributes: Any) -> Any:
    return builder.results(op_def, builder.count, *operands, **attributes)


def _by_pattern(
    declared: Sequence[tuple[OpDef, pattern.Pattern]], builder: Builder, *operands: Any, **attributes: Any
) -> Any:
    reason: Exception | None = None
    for op_def, parsed in declared:
        try:
            return pattern.lowered(op_def, parsed, builder, operands, attributes)
        except pattern.UnsupportedError as error:
            reason = error
    raise reason or pattern.UnsupportedError


def _by_function(op_def: OpDef, rule: Rule, builder: Builder, node: Node) -> Any:
    """Apply an export rule; attributes equal to their defaults are omitted."""
    known = op_def.signature.keywords
    declared = {
        name: value for name, value in node.attributes.items() if name not in known or value != known[name].default
    }
    answer = rule.function(builder, *node.inputs, **declared)
    return None if answer is None else tuple(results(answer))
