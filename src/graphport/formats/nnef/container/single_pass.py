"""A flat text as a graph in one pass: a statement like one that was read before becomes a node at once.

What a statement is, the stages say: `flat` reads it, `inference` checks it, `expand` evaluates it, `build` makes its
node. They are asked of the first statement of its form on operands that hold the same, and what they have made is made
again of every other. A text in which anything is wrong, or not flat, or open, is left to them as a whole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

from graphport.core.diagnostics import Span
from graphport.core.facts import UNKNOWN
from graphport.formats.nnef.container.build import DIALECT, Builder, is_source, source_fact
from graphport.formats.nnef.container.check import FRAGMENTS, OPERATORS, Checked, items_for
from graphport.formats.nnef.container.declare import Operations, standard
from graphport.formats.nnef.container.expand import Expander
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.flat import CALL, SKIP, FlatStatements
from graphport.formats.nnef.container.forms import FlatCall
from graphport.formats.nnef.container.frame import Abandoned, Exhausted
from graphport.formats.nnef.container.inference import Inference
from graphport.formats.nnef.container.lexer import COMMENT, IDENTIFIER, SPACE
from graphport.formats.nnef.container.operation import Tensor
from graphport.formats.nnef.container.propagation import Propagation
from graphport.formats.nnef.container.scope import Scope
from graphport.formats.nnef.container.sources import Sources
from graphport.formats.nnef.container.syntax import Array, Call, Document, Edition, Graph, Name, Tuple, Version
from graphport.formats.nnef.container.types import TensorOf
from graphport.formats.nnef.container.words import KEYWORDS
from graphport.ir import graph as ir
from graphport.ir.attributes import PlainAttributes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Source
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact, TensorFact
    from graphport.formats.nnef.container.limits import Limits
    from graphport.formats.nnef.container.operation import Operation
    from graphport.formats.nnef.container.syntax import Assignment, Expression
    from graphport.formats.nnef.container.types import Type
    from graphport.formats.nnef.container.weights import Weights

_S, _GAP = rf"{SPACE}*+", SKIP.pattern
_NAMES = rf"\({_GAP}({IDENTIFIER}{_GAP}(?:,{_GAP}{IDENTIFIER}{_GAP})*+)\)"
_KNOWN = f"(?:{FRAGMENTS}|{OPERATORS})"
_HEAD = re.compile(
    rf"{_GAP}version\b{_GAP}1\.0{_GAP};{_GAP}(?:extension\b{_GAP}{_KNOWN}{_GAP}(?:,{_GAP}{_KNOWN}{_GAP})*+;{_GAP})*+"
    rf"graph\b{_GAP}({IDENTIFIER}){_GAP}{_NAMES}{_GAP}->{_GAP}{_NAMES}{_GAP}\{{"
)
"""All in front of the first statement; groups are the graph's name, its inputs and its outputs."""
_AGAIN = re.compile(_GAP + CALL.pattern)
_VARIABLE = re.compile(
    rf"{_GAP}({IDENTIFIER}){_S}={_S}(variable{_S}(?:<[a-z]++>{_S})?\({_S}shape{_S}={_S}\[[0-9, ]*+\]{_S},"
    rf"{_S}label{_S}={_S})"
    rf"'([A-Za-z0-9_.\-/\\]++)'{_S}(\)){_S};"
)
"""A variable: its name, all that others of its kind are written with, and its label."""
_END = re.compile(rf"{_GAP}\}}{_GAP}\Z")
_NAME, _COMMENT = re.compile(IDENTIFIER), re.compile(COMMENT)
_NOT_ALONE = frozenset(("update",))
"""Operations that need more of their operands than what they hold."""


class _OtherwiseError(Exception):
    """The text is not one that is read in one pass."""


class _Kind(NamedTuple):
    """What the stages know of a tensor."""

    type: Type
    data: str
    fact: TensorFact


class _Known(NamedTuple):
    """What statements of one form on operands of such kinds make; `rest` are operands behind those that they name."""

    word: str
    rest: tuple[ir.Value, ...]
    attributes: PlainAttributes
    kind: int
    fact: TensorFact
    length: int
    """Characters of a call behind those names."""


class _Spans:
    """Where calls stand; a number has both ends of one."""

    __slots__ = ("_base", "_source")

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self._base = size + 1

    def number(self, start: int, stop: int) -> int:
        """The number of a place."""
        return start * self._base + stop

    def span(self, index: int) -> Span:
        """The place of a number."""
        return Span(self._source, *divmod(index, self._base))


def read_flat(
    source: Source, bound: Mapping[str, Sequence[Dim]], limits: Limits, weights: Weights | None
) -> ir.Graph | None:
    """The graph of a flat text of the final edition, all facts set; `None` where the stages have to read it.

    Only numbers may be wrong in it: what is goes to the findings of `weights`; without these, variables have none.
    """
    head = _HEAD.match(source.text or "")
    if head is None:
        return None
    try:
        return _SinglePass(source, head, bound, limits, weights).graph()
    except (_OtherwiseError, Abandoned, Exhausted):
        return None


class _SinglePass:
    def __init__(
        self,
        source: Source,
        head: re.Match[str],
        bound: Mapping[str, Sequence[Dim]],
        limits: Limits,
        weights: Weights | None,
    ) -> None:
        self._source = source
        self._text = source.text or ""
        self._offset = head.end()
        self._bound = set(bound)
        self._inputs = _NAME.findall(_COMMENT.sub("", head[2]))
        self._outputs = _NAME.findall(_COMMENT.sub("", head[3]))
        # Names that no statement may give a value.
        self._refused = KEYWORDS[Edition.FINAL].union(self._inputs)
        self._findings = Findings(source, limits.findings)
        self._flat = FlatStatements(self._text, Edition.FINAL, self._findings, limits)
        operations = Operations(standard(Edition.FINAL), {})
        self._inference = Inference(Edition.FINAL, operations, self._findings, limits)
        self._scope = Scope((), is_graph=True)
        document = self._document(head)
        checked = Checked(document, operations, (), [])
        self._expander = Expander(checked, Propagation(), bound, limits)
        self._graph = ir.Graph(head[1])
        self._builder = Builder(self._graph)
        self._sources = Sources(self._builder, weights, {})
        self._places = _Spans(source, len(self._text))
        self._match = _AGAIN.match
        self._made = 0
        self._given: dict[str, ir.Value] = {}
        self._labels: dict[str, str] = {}
        # By name: values, and the number of their kind.
        self._values: dict[str, ir.Value] = {}
        self._kind: dict[str, int] = {}
        self._kinds: dict[tuple[Type, str, int], int] = {}
        self._told: list[_Kind] = []
        self._known: dict[tuple[object, ...], _Known] = {}
        self._variables: dict[str, _Kind] = {}
        self._facts: dict[TensorFact, TensorFact] = {}

    def _document(self, head: re.Match[str]) -> Document:
        """The document without its statements."""
        inputs, outputs = (tuple(map(Name, names)) for names in (self._inputs, self._outputs))
        graph = Graph(Name(head[1]), inputs, outputs, ())
        return Document(Edition.FINAL, Version("1.0"), (), (), graph, self._source)

    def graph(self) -> ir.Graph:
        self._check_head()
        offset = self._offset
        while following := self._again(offset) or self._variable(offset) or self._first(offset):
            offset = following
        if _END.match(self._text, offset) is None or not self._expander.allows(self._made):
            raise _OtherwiseError
        self._finish()
        return self._graph

    def _check_head(self) -> None:
        inputs, outputs = set(self._inputs), set(self._outputs)
        if len(inputs) < len(self._inputs) or len(outputs) < len(self._outputs) or inputs & outputs:
            raise _OtherwiseError
        if KEYWORDS[Edition.FINAL] & {*inputs, *outputs, self._graph.name} or not self._bound <= inputs:
            raise _OtherwiseError

    def _finish(self) -> None:
        if self._given.keys() != set(self._inputs) or any(name not in self._values for name in self._outputs):
            raise _OtherwiseError
        for name in self._inputs:
            self._graph.adopt_input(self._given[name])
        self._graph.set_outputs([self._values[name] for name in self._outputs])

    # ── statements like one that was read ──

    def _again(self, offset: int) -> int:
        """Make the node of a statement of a form that is known; return where it ends, 0 where none was made."""
        match = self._match(self._text, offset)
        if match is None:
            return 0
        target, operation, generic, named, behind = match.groups()
        kinds, values = self._kind, self._values
        if "," in named:
            names = [name.strip() for name in named.split(",")]
            known = self._known.get((operation, generic, behind, *[kinds.get(name) for name in names]))
        else:
            names = [named]
            known = self._known.get((operation, generic, behind, kinds.get(named)))
        if known is None or target in kinds or target in self._refused:
            return 0
        operands = [values[name] for name in names]
        operands += known.rest
        origin = self._places, self._places.number(match.start(2), match.start(5) + known.length)
        value = ir.Value(target, known.fact, origin=origin)
        self._graph.append_new(known.word, operands, (value,), known.attributes, DIALECT, "", origin)
        values[target] = value
        kinds[target] = known.kind
        self._made += 1
        return match.end()

    def _variable(self, offset: int) -> int:
        """Make the constant of a variable of a shape that is known; return as `_again` does."""
        match = _VARIABLE.match(self._text, offset)
        if match is None:
            return 0
        target, form, label, _ = match.groups()
        kind = self._variables.get(form)
        if kind is None or target in self._kind or target in self._refused:
            return 0
        self._label(label, form)
        origin = self._places, self._places.number(match.start(2), match.end(4))
        value = self._sources.variable(target, label, kind.data, kind.fact, origin)
        value.fact = self._one(value.fact)
        self._values[target] = value
        self._kind[target] = self._number(kind._replace(fact=value.fact))
        self._made += 1
        return match.end()

    def _label(self, label: str, form: str) -> None:
        """Take note of a label; one that is written otherwise, or has another shape, has to be told of."""
        if self._labels.setdefault(label.lower(), f"{form}{label}") != f"{form}{label}":
            raise _OtherwiseError

    # ── the first of a kind ──

    def _first(self, offset: int) -> int:
        """Make what the stages make of the statement behind `offset`; return where it ends, 0 where there is none."""
        space = SKIP.match(self._text, offset)
        start = offset if space is None else space.end()
        statement = self._flat.statement(start)
        if statement is None:
            return 0
        call = statement.value
        if not isinstance(call, Call) or call.name in _NOT_ALONE:
            raise _OtherwiseError
        self._introduce(call)
        types = self._checked(statement, call)
        operations = self._expanded(statement)
        for operation in operations:
            self._build(operation)
        for name, type in types.items():
            self._define(name, type)
        self._learn(call, start, operations, types)
        if call.name == "variable":
            self._learn_variable(offset, operations)
        return statement.stop

    def _introduce(self, call: Call) -> None:
        """Let the stages know of the operands that were made without them."""
        if isinstance(call, FlatCall):
            names = call.tensors
        else:
            names = [name.text for argument in call.arguments for name in _names(argument.value)]
        for name in names:
            number = self._kind.get(name)
            if number is None or name in self._scope.types:
                continue
            kind = self._told[number]
            tensor = Tensor(kind.data, name, fact=kind.fact)
            self._scope.types[name] = kind.type
            self._expander.top.values[name] = tensor
            self._builder.define(tensor, self._values[name])

    def _checked(self, statement: Assignment, call: Call) -> dict[str, Type]:
        """The names that a statement gives values, with their types."""
        type = self._inference.type_of(call, self._scope)
        targets = [statement.target]
        types: Sequence[Type] = [type]
        if not isinstance(statement.target, Name):
            found = items_for(cast("Array | Tuple", statement.target), type)
            targets, types = list(cast("Array | Tuple", statement.target).items), found or ()
        names = {target.text: each for target, each in zip(targets, types, strict=False) if isinstance(target, Name)}
        deprecated = self._inference.deprecated
        if (
            self._findings.count
            or self._inference.fitting.has_misfits
            or deprecated.shape_of
            or deprecated.named_tensors
            or len(names) < len(targets)
            or any(name in self._kind for name in names)
            or not all(isinstance(each, TensorOf) for each in names.values())
            or any((name in self._inputs) is not (call.name == "external") for name in names)
        ):
            raise _OtherwiseError
        return names

    def _expanded(self, statement: Assignment) -> list[Operation]:
        """The operations of a statement; each result has a name of the text, and a shape that is known."""
        emitter = self._expander.emitter
        before = len(emitter.operations)
        self._expander.statement(statement)
        emitter.propagate()
        found = emitter.operations[before:]
        outputs = [tensor for operation in found for tensor in operation.outputs()]
        if self._expander.has_findings or any(
            tensor.fact is None or not tensor.fact.is_static or emitter.fixed.get(tensor.name) is not tensor
            for tensor in outputs
        ):
            raise _OtherwiseError
        return found

    def _build(self, operation: Operation) -> None:
        if not is_source(operation):
            node = self._builder.add(operation)
            for value, tensor in zip(node.results, operation.outputs(), strict=True):
                value.fact = tensor.fact = self._one(tensor.fact or UNKNOWN)
        elif operation.name == "external":
            (tensor,) = operation.outputs()
            value = self._given[tensor.name] = self._sources.input(tensor, operation)
            tensor.fact = value.fact = self._one(source_fact(operation))
        else:
            (tensor,) = operation.outputs()
            # What its numbers tell is known of what is made of it, too.
            value = self._sources.constant(operation)
            tensor.fact = value.fact = self._one(value.fact)

    def _one(self, fact: Fact) -> TensorFact:
        """The first fact that is the same."""
        fact = cast("TensorFact", fact)
        return self._facts.setdefault(fact, fact) if fact.is_plain else fact

    def _define(self, name: str, type: Type) -> None:
        tensor = self._expander.emitter.fixed[name]
        kind = _Kind(type, tensor.data, cast("TensorFact", tensor.fact))
        self._values[name] = self._builder.value(tensor)
        self._kind[name] = self._number(kind)
        self._scope.types[name] = type

    def _number(self, kind: _Kind) -> int:
        """The number of a kind; two facts are of one that are one object."""
        number = self._kinds.setdefault((kind.type, kind.data, id(kind.fact)), len(self._told))
        if number == len(self._told):
            self._told.append(kind)
        return number

    def _learn(self, call: Call, start: int, operations: Sequence[Operation], types: Mapping[str, Type]) -> None:
        """Take a statement for a pattern, if others will differ from it in the names of tensors alone."""
        if not isinstance(call, FlatCall) or len(operations) != 1 or self._inference.known(call, self._scope) is None:
            return
        found = self._expander.emitter.patterns.of(call, self._expander.top.values)
        (operation,) = operations
        if found is None or not self._builder.is_quick(operation, found[0]) or not found[0].declaration.is_standard:
            return
        pattern = found[0]
        (name,) = types
        number = self._kind[name]
        rest = [self._builder.value(cast("Tensor", operand)) for operand in pattern.rest.values()]
        match = cast("re.Match[str]", CALL.match(self._text, start))
        key = (call.name, call.generic, match[5], *[self._kind[each] for each in call.tensors])
        attributes = PlainAttributes(cast("dict[str, ir.Attribute]", pattern.attributes))
        self._known[key] = _Known(
            pattern.name, tuple(rest), attributes, number, self._told[number].fact, len(match[5].rstrip())
        )

    def _learn_variable(self, offset: int, operations: Sequence[Operation]) -> None:
        (operation,) = operations
        (tensor,) = operation.outputs()
        match = _VARIABLE.match(self._text, offset)
        label = str(operation.attributes["label"])
        form = repr((operation.generic, operation.attributes["shape"])) if match is None else match[2]
        self._label(label, form)
        if match is not None:
            kind = self._told[self._kind[tensor.name]]
            self._variables[form] = kind._replace(fact=source_fact(operation))


def _names(value: Expression) -> list[Name]:
    """The names in a flat expression."""
    found: list[Name] = []
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Name):
            found.append(node)
        elif isinstance(node, Array | Tuple):
            waiting += node.items
    return found
