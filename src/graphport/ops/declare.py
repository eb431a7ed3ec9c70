"""Op pages: an operator's meaning, signature, shape rule and spellings in one place.

A page is a NumPy function behind `@op`. Its positional parameters are operands, its keyword-only ones attributes, both
with ONNX's names (in lower case) and defaults; the docstring is the manual.
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
"""The version of ai.onnx whose words are canonical: the newest that ONNX Runtime accepts by default."""

ShapeRule: TypeAlias = "Callable[..., Fact | Sequence[Fact | None]]"
"""A page's signature over facts instead of tensors; a body is a callable from facts to facts."""

HoldsRule: TypeAlias = "Callable[..., tuple[Dim, Dim | tuple[Dim, ...]]]"
"""The least integer that an operand may hold and the first that is too large: a page's signature over facts."""

MacRule: TypeAlias = "Callable[..., Dim]"
"""Multiply-accumulates of one run: fact of the first result, then a page's signature over facts."""

RankStatement: TypeAlias = "int | tuple[int, int | None] | Rank"
"""The rank of an operand: a number, the least and largest one (`None`: no limit), or `SCALAR`."""

Lowering: TypeAlias = Callable[..., Any]
"""`(builder, *operands, **attributes)` of a dialect's word to canonical value or values."""

Lifting: TypeAlias = Callable[..., Any]
"""`(builder, *operands, **attributes)` of a canonical node to a dialect's value or values; `None` where it cannot."""

Exactness = Literal["exact", "rounding", "accumulation"]
"""What a right implementation may differ by: nothing; a few units in the last place; the rounding of long sums."""

Turns = Literal["", "axis", "axes", "reduced"]
"""How axes are told apart but by their order: by `axis`, by `axes` (all in order, if absent), or by those that are
reduced and kept (all, if absent)."""

Role = Literal["weighted", "pointwise", "passive", "index", "none"]
"""How a quantizer treats it: weights and activations; activations; the scale of its operand; never; not at all."""


class ShapeError(ValueError):
    """The operands' facts break a rule of the operator; the inference driver adds code and place."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule of a word that no operator means, whatever it is given: the reason."""

    reason: str

    def __call__(self, builder: Any, *operands: Any, **attributes: Any) -> Any:
        """Raise the reason."""
        del builder, operands, attributes
        raise UnsupportedError(self.reason)


class UnsupportedError(Exception):
    """A lowering or lifting cannot say this node in the other language; the reason is its text.

    `cause` is what many nodes of a graph fail for alike, and is told once for all of them; `help` what helps.
    `is_secondary` says that the node is left to its readers, which can be said or are told themselves.
    """

    def __init__(
        self, message: str = "", *, cause: str | None = None, help: str | None = None, is_secondary: bool = False
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.help = help
        self.is_secondary = is_secondary


class ElementTypeError(ShapeError):
    """An operand has an element type that ONNX does not compute the operator in; another language may."""

    def __init__(self, message: str, help: str | None = None, *, dtype: DType | None = None) -> None:
        super().__init__(message, help)
        self.dtype = dtype


@dataclass(frozen=True, slots=True)
class Operand:
    """One positional parameter of a page."""

    name: str
    types: Types | None
    is_optional: bool = False
    is_variadic: bool = False
    rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class Keyword:
    """One attribute of a page."""

    name: str
    annotation: Any
    default: Any = None
    is_required: bool = False


@dataclass(frozen=True)
class Signature:
    """Operands, attributes and the types of results, read from a page's function once."""

    operands: tuple[Operand, ...]
    keywords: dict[str, Keyword]
    results: tuple[Types | None, ...]

    @property
    def variadic(self) -> Operand | None:
        """The operand that takes all the rest, if there is one."""
        return self.operands[-1] if self.operands and self.operands[-1].is_variadic else None

    def operand(self, index: int) -> Operand | None:
        """The operand that stands for position `index`; `None` behind the last."""
        if index < len(self.operands):
            return self.operands[index]
        return self.variadic

    @cached_property
    def least(self) -> int:
        """Number of leading operands up to the last that must be there; of a variadic operand alone, one."""
        required = [i + 1 for i, o in enumerate(self.operands) if not o.is_optional and not o.is_variadic]
        return max(required, default=int(self.variadic is not None and len(self.operands) == 1))


@dataclass(frozen=True, eq=False)
class Page:
    """Everything that is known of one canonical operator."""

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
        """The docstring."""
        return docstring(self.function)

    @property
    def quantizes(self) -> bool:
        """Whether integers stand for real numbers in what it takes or gives: they have a zero point."""
        return any("zero_point" in name for name in (*(each.name for each in self.signature.operands), *self.outputs))

    @property
    def is_variadic_output(self) -> bool:
        """Whether the node decides how many results there are."""
        return self.outputs[-1].startswith("*")

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """The meaning: arrays in, array or tuple of arrays out."""
        return self.function(*operands, **attributes)

    def lower(self, dialect: str, word: str | None = None, until: int | None = None) -> Callable[[Lowering], Lowering]:
        """Register how `word` of `dialect` (of ONNX opsets up to `until`) is said with this page and others."""
        return lower(dialect, word or self.name, until=until)

    def lift(self, dialect: str, until: int | None = None) -> Callable[[Lifting], Lifting]:
        """Register how a node of this page is said in `dialect` (in ONNX opsets up to `until`)."""
        return lift(dialect, self.name, until=until)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What holds of all words of a dialect; `RECORD` of its package."""

    parent: str | None = None
    """The dialect that it has its words from, where it says nothing else."""
    asked_for: str | None = None
    """The option by which a writer of its parent's files is asked for its words."""
    formulas: str | None = None
    """The dialect whose formulas it takes for operators that it has no word for."""
    checks_operands: bool = False
    """Whether its rules find out how many operands a node has, and of what kind: its files alone say so."""
    has_literals: bool = False
    """Whether operands may be literals, `None` among them: each rule has to find out what it is given."""
    infers_anew: bool = False
    """Whether its own runtime ignores the element types that a file declares."""
    has_complex: bool = False
    """Whether it computes with complex numbers in words that ONNX has none for."""
    is_domain: bool = False
    """Whether ONNX files have its operators as they are, in the domain of its name."""
    records_facts: bool = False
    """Whether its files record what every value is: where inference says otherwise, it is inference that is wrong."""
    decomposes: bool = False
    """Whether operators that it has no words for are written as their pages decompose them."""
    rounds: bool = False
    """Whether its runtime rounds integers in its own way: some of its words are `exact`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered `lower` or `lift`; `until` bounds the opset versions that it is for."""

    dialect: str
    word: str
    function: Callable[..., Any]
    until: int | None = None
    reads_facts_alone: bool = False
    """Whether what it makes of operands depends on no number of a constant that is not in its fact."""


@dataclass(frozen=True, slots=True)
class Exact:
    """What a word of a dialect computes to the last bit, of nodes that `when` takes."""

    function: Callable[..., Any]
    when: Callable[[Node], bool]


PAGES: dict[str, Page] = {}
"""Filled by `@op` while the families are imported; read through `ops.pages`."""
LOWERINGS: dict[tuple[str, str], list[Rule]] = {}
LIFTINGS: dict[tuple[str, str], list[Rule]] = {}
MEANINGS: dict[tuple[str, str], Callable[..., Any]] = {}
"""By dialect and word: what is computed by a word that has no canonical form, and stays in every file as it is."""
EXACT: dict[tuple[str, str], Exact] = {}
"""By dialect and word: what the format's own runtime computes to the last bit, to which the canonical form is close."""
OWN: dict[tuple[str, str], Page] = {}
"""By dialect and word: pages of operators that a user has declared; see `ops.own`."""
FALLBACKS: dict[str, Callable[[str], Lowering | None]] = {}
"""By dialect: where else the rule of a word is that has none of its own; filled with `LOWERINGS`."""


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
) -> Callable[[Callable[..., Any]], Page]:
    """Declare the page of an operator; the function below is its meaning.

    Args:
        shape: facts of operands, and attributes, to facts of results.
        since: the oldest opset in which a node, word for word, means the same; older forms have a `lower` with `until`.
        outputs: names of the results; a last one `*outputs` stands for as many as the node has.
        name: ONNX's name, where Python cannot spell the function so.
        domain: ONNX's domain.
        symbolic: the function also computes with symbolic dims in object arrays.
        moves_data: results are operands' elements, some of them, elsewhere; what `picks` does so.
        moves_where: defaults of attributes with all of which that is so, where it is not so with others.
        exactness: what a right implementation may differ by.
        role: how a quantizer treats it.
        index_operands: operands that are shapes, axes, positions or counts.
        ranks: the rank of operands that cannot have every rank: a number, the least and largest one, or `SCALAR`.
        holds: for operands of integers that are places or lengths, which integers these can be.
        macs: how many multiply-accumulates it takes, where that is what it takes time for.
        turns: how else than by their order it tells axes of its first operands apart.
        homogeneous: a positive factor of a channel of its first operand is one of that channel of its result.
        bias: the operand with a number for each channel that is added to what it computes.
        picks: entries of its results are entries of its first operand, of all where it takes any number, and no others.
        reshapes: the entries of its result are those of its first operand, in the same order, in another shape.
        neutral: the number that its first operand comes out with as it is, as its second one.
        inverse: the operator that takes the same second operand away again.
        negation: of integers, the operator that holds where it does not.
        states: operands that it begins with, zeros where they are absent.
        finds: the result that says where its operand holds what it looks for: of equal numbers, any of their places.
        decomposes: the operator in others, as a row says it behind its arrow, for dialects that have no word for it.
        is_random: two nodes, or two runs, that say the same need not agree: nothing is folded or merged.
        **spellings: call patterns by dialect.
    """

    def declare(function: Callable[..., Any]) -> Page:
        page = Page(
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
        if page.name in PAGES:
            message = f"{page.name} has a page already"
            raise ValueError(message)
        PAGES[page.name] = page
        return page

    return declare


def lower(
    dialect: str, word: str, *, until: int | None = None, reads_facts_alone: bool = False
) -> Callable[[Lowering], Lowering]:
    """Register a function that says `word` of `dialect` canonically.

    It is called as `function(builder, *operands, **attributes)` and returns the results in order. It raises
    `ShapeError` where the node is wrong and `UnsupportedError` where no canonical form has its meaning.

    Args:
        dialect: whose word it is.
        word: as the dialect has it.
        until: the newest opset that it is for, where dialects have such.
        reads_facts_alone: see `Rule`; layers that differ in weights are read once then.
    """
    return _register(LOWERINGS, dialect, word, until, reads_facts_alone=reads_facts_alone)


def lift(dialect: str, name: str, *, until: int | None = None) -> Callable[[Lifting], Lifting]:
    """Register a function that says the canonical operator `name` in `dialect`."""
    return _register(LIFTINGS, dialect, name, until)


def meaning(dialect: str, word: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the meaning of a word that stays as it is: arrays in, array or tuple of arrays out, as of a page."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        MEANINGS[dialect, word] = function
        return function

    return register


def exact(
    dialect: str, word: str, *, when: Callable[[Node], bool]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what a word computes to the last bit, where its canonical form is as close as real numbers are.

    The reference computes it so where it is given the words of a format (`conversion.legalize`, `exact`).
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        EXACT[dialect, word] = Exact(function, when)
        return function

    return register


def _register(
    registry: dict[tuple[str, str], list[Rule]],
    dialect: str,
    word: str,
    until: int | None,
    *,
    reads_facts_alone: bool = False,
) -> Callable[[Lowering], Lowering]:
    def register(function: Lowering) -> Lowering:
        rules = registry.setdefault((dialect, word), [])
        if any(rule.until == until for rule in rules):
            message = f"{dialect}.{word} has such a rule already"
            raise ValueError(message)
        rules.append(Rule(dialect, word, function, until, reads_facts_alone))
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
