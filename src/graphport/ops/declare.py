"""Operator definitions: semantics, signature, shape rule and call patterns of an operator in one function.

A definition is a NumPy function decorated with `@op`. Its positional parameters are operands, its keyword-only ones
attributes, with ONNX's names (in lower case) and defaults; the docstring is the documentation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from graphport.core.docstrings import docstring
from graphport.ops.types import Rank, Types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.ir.graph import Node

OPSET = 26
"""The canonical version of ai.onnx: the newest opset that ONNX Runtime accepts by default."""
MAX_RESULTS = 1 << 16
"""Most results of one node; attributes of a hostile file may declare 2^63 of them."""

ShapeRule: TypeAlias = "Callable[..., Fact | Sequence[Fact | None]]"
"""The signature of an operator definition over facts instead of tensors; a body is a callable from facts to facts."""

HoldsRule: TypeAlias = "Callable[..., tuple[Dim, Dim | tuple[Dim, ...]]]"
"""Returns the smallest valid integer of an operand and the first one that is too large, from facts."""

MacRule: TypeAlias = "Callable[..., Dim]"
"""Multiply-accumulates of one run, from the fact of the first result and the facts of the operands."""

RankStatement: TypeAlias = "int | tuple[int, int | None] | Rank"
"""The rank of an operand: an integer, a range of ranks (`None`: no limit), or `SCALAR`."""

ImportRule: TypeAlias = Callable[..., Any]
"""An import rule: `(builder, *operands, **attributes)` returns the canonical value or values of an op type."""

ExportRule: TypeAlias = Callable[..., Any]
"""An export rule: `(builder, *operands, **attributes)` returns the dialect's value or values, or `None`."""

Exactness = Literal["exact", "rounding", "accumulation"]
"""Permitted deviation of an implementation: none; a few ulp; or the rounding of long sums."""

Turns = Literal["", "axis", "axes", "reduced"]
"""How an operator refers to axes: by `axis`, by `axes` (all in order if absent), or by reduced axes that are kept
(all if absent).
"""

Role = Literal["weighted", "pointwise", "passive", "index", "none"]
"""How the quantizer treats an operand: weights and activations; activations; scale of its operand; never; ignored."""


class ShapeError(ValueError):
    """The facts of the operands violate a rule of the operator; the inference adds code and location."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


@dataclass(frozen=True, slots=True)
class Refusal:
    """An import rule that always refuses an op type, with a reason."""

    reason: str

    def __call__(self, builder: Any, *operands: Any, **attributes: Any) -> Any:
        """Raise UnsupportedError with the reason."""
        del builder, operands, attributes
        raise UnsupportedError(self.reason)


class UnsupportedError(Exception):
    """A rule cannot convert this node; the message is the reason.

    `cause` is a reason that several nodes share and is reported once; `help` is the remedy. `is_secondary` marks a node
    that fails only because of its consumers, which are exported or reported themselves.
    """

    def __init__(
        self, message: str = "", *, cause: str | None = None, help: str | None = None, is_secondary: bool = False
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.help = help
        self.is_secondary = is_secondary


class ElementTypeError(ShapeError):
    """The operand has a dtype that ONNX does not permit for the operator; another dialect may permit it.

    `is_index`: the operand holds sizes, indices or axes, and the dtype is no integer; no dialect permits that.
    """

    def __init__(
        self, message: str, help: str | None = None, *, dtype: DType | None = None, is_index: bool = False
    ) -> None:
        super().__init__(message, help)
        self.dtype = dtype
        self.is_index = is_index


@dataclass(frozen=True, slots=True)
class Operand:
    """A positional parameter of an operator definition."""

    name: str
    types: Types | None
    is_optional: bool = False
    is_variadic: bool = False
    rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class Keyword:
    """An attribute of an operator definition."""

    name: str
    annotation: Any
    default: Any = None
    is_required: bool = False


@dataclass(frozen=True)
class Signature:
    """Operands, attributes and result types, derived from the definition function."""

    operands: tuple[Operand, ...]
    keywords: dict[str, Keyword]
    results: tuple[Types | None, ...]

    @property
    def variadic(self) -> Operand | None:
        """The variadic operand, if there is one."""
        return self.operands[-1] if self.operands and self.operands[-1].is_variadic else None

    def operand(self, index: int) -> Operand | None:
        """Return the operand at `index`; `None` beyond the last one."""
        if index < len(self.operands):
            return self.operands[index]
        return self.variadic

    @cached_property
    def least(self) -> int:
        """The minimum number of operands; a variadic operand without others counts as one."""
        required = [i + 1 for i, o in enumerate(self.operands) if not o.is_optional and not o.is_variadic]
        return max(required, default=int(self.variadic is not None and len(self.operands) == 1))


@dataclass(frozen=True, eq=False)
class OpDef:
    """The definition of a canonical operator."""

    name: str
    function: Callable[..., Any]
    shape: ShapeRule
    outputs: tuple[str, ...]
    since: int
    domain: str = ""
    symbolic: bool = False
    moves_data: bool = False
    moves_where: tuple[tuple[str, object], ...] = ()
    exactness: Exactness = "rounding"
    role: Role = "none"
    index_operands: tuple[str, ...] = ()
    ranks: Mapping[str, RankStatement] = field(default_factory=dict[str, "RankStatement"])
    holds: Mapping[str, HoldsRule] = field(default_factory=dict[str, HoldsRule])
    macs: MacRule | None = None
    is_random: bool = False
    turns: Turns = ""
    homogeneous: bool = False
    bias: str = ""
    picks: bool = False
    reshapes: bool = False
    neutral: int | None = None
    inverse: str = ""
    negation: str = ""
    states: tuple[str, ...] = ()
    finds: str = ""
    decomposes: str = ""
    spellings: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @cached_property
    def signature(self) -> Signature:
        """Operands, attributes and results."""
        return _signature(self.function, self.ranks)

    @property
    def manual(self) -> str:
        """The documentation (docstring)."""
        return docstring(self.function)

    @property
    def quantizes(self) -> bool:
        """Whether an operand or result consists of quantized integers with a zero point."""
        return any("zero_point" in name for name in (*(each.name for each in self.signature.operands), *self.outputs))

    @property
    def is_variadic_output(self) -> bool:
        """Whether the number of results depends on the node."""
        return self.outputs[-1].startswith("*")

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Evaluate the operator: arrays in, array or tuple of arrays out."""
        return self.function(*operands, **attributes)

    def lower(
        self, dialect: str, op_type: str | None = None, until: int | None = None
    ) -> Callable[[ImportRule], ImportRule]:
        """Register the import rule of `op_type` in `dialect` (for ONNX opsets up to `until`)."""
        return lower(dialect, op_type or self.name, until=until)

    def export_rule(self, dialect: str, until: int | None = None) -> Callable[[ExportRule], ExportRule]:
        """Register an export rule of this operator for `dialect` (for ONNX opsets up to `until`)."""
        return export_rule(dialect, self.name, until=until)

    lift = export_rule  # deprecated name


@dataclass(frozen=True, slots=True)
class Dialect:
    """Properties of a dialect; `RECORD` of its package."""

    parent: str | None = None
    """The dialect whose op types it extends."""
    asked_for: str | None = None
    """The writer option that enables this dialect in files of its parent."""
    formulas: str | None = None
    """The dialect whose decompositions are used for operators without an export rule."""
    broadcasts_by_attribute: bool = False
    """Whether the attribute `auto_broadcast` of a node decides how its operands broadcast."""
    has_literals: bool = False
    """Whether operands may be literals, including `None`, which rules must handle."""
    infers_anew: bool = False
    """Whether its native runtime ignores the dtypes declared in a file."""
    has_complex: bool = False
    """Whether its op types compute with complex numbers, which ONNX operators do not."""
    is_domain: bool = False
    """Whether ONNX files contain its operators unchanged, in the domain of the same name."""
    records_facts: bool = False
    """Whether its files record the fact of every value; in a contradiction, inference is then wrong."""
    decomposes: bool = False
    """Whether operators without an export rule are exported by the decomposition in their definition."""
    rounds: bool = False
    """Whether its runtime rounds integers differently, so that some op types have an `exact` function."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered import or export rule; `until` is the newest opset that it applies to."""

    dialect: str
    op_type: str
    function: Callable[..., Any]
    until: int | None = None
    reads_facts_alone: bool = False
    """Whether the result depends only on the facts of operands, not on the elements of constants."""


@dataclass(frozen=True, slots=True)
class Exact:
    """The bit-exact semantics of an op type for nodes that `when` accepts."""

    function: Callable[..., Any]
    when: Callable[[Node], bool]


OP_DEFS: dict[str, OpDef] = {}
"""All operator definitions by name. Filled by `@op` on import of the families; read it through `ops.definitions`."""
IMPORT_RULES: dict[tuple[str, str], list[Rule]] = {}
EXPORT_RULES: dict[tuple[str, str], list[Rule]] = {}
MEANINGS: dict[tuple[str, str], Callable[..., Any]] = {}
"""Functions of op types without a canonical form, by dialect and op type."""
EXPANSIONS: dict[tuple[str, str], ImportRule] = {}
"""Canonical forms of op types that stay unchanged in their own format, by dialect and op type."""
EXACT: dict[tuple[str, str], Exact] = {}
"""Bit-exact functions of op types whose canonical form is only approximately equal, by dialect and op type."""
OWN: dict[tuple[str, str], OpDef] = {}
"""Definitions of operators declared by users, by dialect and op type; see `ops.custom_operators`."""
FALLBACKS: dict[str, Callable[[str], ImportRule | None]] = {}
"""By dialect: a function that finds the import rule of an op type without a registered one."""


def op(
    *,
    shape: ShapeRule,
    since: int,
    outputs: Sequence[str] = ("y",),
    name: str | None = None,
    domain: str = "",
    symbolic: bool = False,
    moves_data: bool = False,
    moves_where: Sequence[tuple[str, object]] = (),
    exactness: Exactness = "rounding",
    role: Role = "none",
    index_operands: Sequence[str] = (),
    ranks: Mapping[str, RankStatement] | None = None,
    holds: Mapping[str, HoldsRule] | None = None,
    macs: MacRule | None = None,
    is_random: bool = False,
    turns: Turns = "",
    homogeneous: bool = False,
    bias: str = "",
    picks: bool = False,
    reshapes: bool = False,
    neutral: int | None = None,
    inverse: str = "",
    negation: str = "",
    states: Sequence[str] = (),
    finds: str = "",
    decomposes: str = "",
    **spellings: str | tuple[str, ...],
) -> Callable[[Callable[..., Any]], OpDef]:
    """Define an operator; the decorated function is its semantics.

    Args:
        shape: maps facts of operands, and attributes, to facts of results.
        since: the oldest opset with unchanged semantics; older forms have an import rule with `until`.
        outputs: names of the results; `*outputs` as the last name means a variable number of results.
        name: ONNX's name, if it is not a valid Python function name.
        domain: ONNX's domain.
        symbolic: the function accepts object arrays of symbolic dims.
        moves_data: elements of the results are elements of operands, at other indices; implied by `picks`.
        moves_where: attribute values under which `moves_data` is true if it is false in general.
        exactness: permitted deviation of an implementation.
        role: how the quantizer treats the operator.
        index_operands: operands that are shapes, axes, indices or counts.
        ranks: rank of operands with limited rank: an integer, the smallest and largest one, or `SCALAR`.
        holds: for operands of indices or lengths, the range of valid integers.
        macs: number of multiply-accumulates, for operators that they dominate.
        turns: how the operator refers to axes of its first operands, other than by order.
        homogeneous: a positive factor on a channel of the first operand is a factor on that channel of the result.
        bias: the operand that is added per channel to the result.
        picks: each element of the results is an element of the first operand (of any operand if variadic).
        reshapes: the result has the elements of the first operand, in the same order.
        neutral: the second operand for which the result equals the first operand.
        inverse: the operator that undoes this one with the same second operand.
        negation: for integers, the operator with the opposite boolean result.
        states: operands that are initial states, zero if absent.
        finds: the result that contains indices of a searched element; for equal elements, any index is valid.
        decomposes: a decomposition, in the notation of rule tables, for dialects without the operator.
        is_random: equal nodes may give different results, so they are not folded or merged.
        **spellings: call patterns by dialect.
    """

    def declare(function: Callable[..., Any]) -> OpDef:
        op_def = OpDef(
            name=name or function.__name__,
            function=function,
            shape=shape,
            outputs=tuple(outputs),
            since=since,
            domain=domain,
            symbolic=symbolic,
            moves_data=moves_data or picks,
            moves_where=tuple(moves_where),
            exactness=exactness,
            role=role,
            index_operands=tuple(index_operands),
            ranks=dict(ranks or {}),
            holds=dict(holds or {}),
            macs=macs,
            is_random=is_random,
            turns=turns,
            homogeneous=homogeneous,
            bias=bias,
            picks=picks,
            reshapes=reshapes,
            neutral=neutral,
            inverse=inverse,
            negation=negation,
            states=tuple(states),
            finds=finds,
            decomposes=decomposes,
            spellings={
                dialect: (stated,) if isinstance(stated, str) else stated for dialect, stated in spellings.items()
            },
        )
        if op_def.name in OP_DEFS:
            message = f"{op_def.name} is defined twice"
            raise ValueError(message)
        OP_DEFS[op_def.name] = op_def
        return op_def

    return declare


def lower(
    dialect: str, op_type: str, *, until: int | None = None, reads_facts_alone: bool = False
) -> Callable[[ImportRule], ImportRule]:
    """Register an import rule of the op type `op_type` in `dialect`.

    It is called as `function(builder, *operands, **attributes)` and returns the results in order. It raises
    `ShapeError` for an invalid node and `UnsupportedError` if no canonical form exists.

    Args:
        dialect: the dialect of the op type.
        op_type: the op type.
        until: the newest opset that the rule applies to, for versioned dialects.
        reads_facts_alone: see `Rule`; the result is then shared by layers that differ in weights only.
    """
    return _register(IMPORT_RULES, dialect, op_type, until, reads_facts_alone=reads_facts_alone)


def export_rule(dialect: str, name: str, *, until: int | None = None) -> Callable[[ExportRule], ExportRule]:
    """Register an export rule of the canonical operator `name` for `dialect`."""
    return _register(EXPORT_RULES, dialect, name, until)


lift = export_rule  # deprecated name


def meaning(dialect: str, op_type: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the semantics of an op type without canonical form: arrays in, array or tuple of arrays out."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        MEANINGS[dialect, op_type] = function
        return function

    return register


def expansion(dialect: str, op_type: str) -> Callable[[ImportRule], ImportRule]:
    """Register the canonical expansion of an op type that stays unchanged in formats that support it.

    Its results' facts are inferred from the expansion, which replaces the node in every other format.
    """

    def register(function: ImportRule) -> ImportRule:
        EXPANSIONS[dialect, op_type] = function
        return function

    return register


def exact(
    dialect: str, op_type: str, *, when: Callable[[Node], bool]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the bit-exact semantics of an op type whose canonical form is only approximately equal.

    The reference interpreter uses it for graphs legalized with `exact` (`conversion.legalize`).
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        EXACT[dialect, op_type] = Exact(function, when)
        return function

    return register


def _register(
    registry: dict[tuple[str, str], list[Rule]],
    dialect: str,
    op_type: str,
    until: int | None,
    *,
    reads_facts_alone: bool = False,
) -> Callable[[ImportRule], ImportRule]:
    def register(function: ImportRule) -> ImportRule:
        rules = registry.setdefault((dialect, op_type), [])
        if any(rule.until == until for rule in rules):
            message = f"{dialect}.{op_type} already has a rule of this kind"
            raise ValueError(message)
        rules.append(Rule(dialect, op_type, function, until, reads_facts_alone))
        rules.sort(key=lambda rule: OPSET + 1 if rule.until is None else rule.until)
        return function

    return register


def _signature(function: Callable[..., Any], ranks: Mapping[str, RankStatement]) -> Signature:
    hints = get_type_hints(function, include_extras=True)
    operands: list[Operand] = []
    keywords: dict[str, Keyword] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        is_required = parameter.default is inspect.Parameter.empty
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            default = None if is_required else parameter.default
            keywords[parameter.name] = Keyword(parameter.name, hint, default, is_required)
        else:
            variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
            rank = Rank.of(ranks[parameter.name]) if parameter.name in ranks else None
            operands.append(Operand(parameter.name, _types(hint), not is_required and not variadic, variadic, rank))
    returned = hints.get("return")
    results = get_args(returned) if get_origin(returned) is tuple else (returned,)
    return Signature(tuple(operands), keywords, tuple(_types(result) for result in results if result is not Ellipsis))


def _types(hint: Any) -> Types | None:
    if get_origin(hint) is Annotated:
        return next((item for item in get_args(hint)[1:] if isinstance(item, Types)), None)
    return next((found for item in get_args(hint) if (found := _types(item)) is not None), None)
