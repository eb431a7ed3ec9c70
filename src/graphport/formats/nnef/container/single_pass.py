"""Single-pass reader of flat texts: a statement with the form of an earlier one is converted to a node directly.

The first statement of each form passes all stages: parsing (`flat_statements`), type inference (`inference`),
evaluation (`expand`) and `build`. Further statements of the form with equal operand types reuse the result. Texts with
errors, texts that are not flat, and open dims are processed by the stages only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

from graphport.core.diagnostics import Span
from graphport.core.facts import UNKNOWN
from graphport.formats.nnef.container.build import DIALECT, Builder, is_source, source_fact
from graphport.formats.nnef.container.call_text import FlatCall
from graphport.formats.nnef.container.check import FRAGMENTS, OPERATORS, Checked, items_for
from graphport.formats.nnef.container.declarations import Operations, standard
from graphport.formats.nnef.container.evaluation_frame import Abandoned, Exhausted
from graphport.formats.nnef.container.expand import Expander
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.flat_statements import CALL, SKIP, FlatStatements
from graphport.formats.nnef.container.inference import Inference
from graphport.formats.nnef.container.lexer import COMMENT, IDENTIFIER, SPACE
from graphport.formats.nnef.container.operation import Tensor
from graphport.formats.nnef.container.propagation import Propagation
from graphport.formats.nnef.container.scope import Scope
from graphport.formats.nnef.container.sources import Sources
from graphport.formats.nnef.container.syntax import Array, Call, Document, Edition, Graph, Name, Tuple, Version
from graphport.formats.nnef.container.token_cursor import KEYWORDS
from graphport.formats.nnef.container.types import TensorOf
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
"""Text before the first statement; groups are the graph's name, inputs and outputs."""
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
"""Operations that depend on more than the kinds of their operands."""


class _OtherwiseError(Exception):
    """The text has a form that the single-pass reader does not support."""


class _TensorKind(NamedTuple):
    """Type and fact of a tensor; statements with operands of equal kinds have equal results."""

    type: Type
    data: str
    fact: TensorFact


class _KnownStatement(NamedTuple):
    """Result of a statement form on operands of given kinds; `rest` are the operands after the named ones."""

    op_type: str
    rest: tuple[ir.Value, ...]
    attributes: PlainAttributes
    kind: int
    fact: TensorFact
    length: int
    """Number of characters after the named operands."""


class _Spans:
    """Locations of calls, each encoded as one integer."""

    __slots__ = ("_base", "_source")

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self._base = size + 1

    def encode(self, start: int, stop: int) -> int:
        """Encode a location as an integer."""
        return start * self._base + stop

    def span(self, index: int) -> Span:
        """Decode a location."""
        return Span(self._source, *divmod(index, self._base))


def read_flat(
    source: Source, bound: Mapping[str, Sequence[Dim]], limits: Limits, weights: Weights | None
) -> ir.Graph | None:
    """Read the graph of a flat text of the final edition, with all facts; `None` if the stages must read it.

    Only elements may be faulty: errors go to the findings of `weights`; without `weights`, variables have no elements.
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
        # By name: values, and the index of their kind.
        self._values: dict[str, ir.Value] = {}
        self._kind: dict[str, int] = {}
        self._kinds: dict[tuple[Type, str, int], int] = {}
        self._told: list[_TensorKind] = []
        self._known: dict[tuple[object, ...], _KnownStatement] = {}
        self._variables: dict[str, _TensorKind] = {}
        self._facts: dict[TensorFact, TensorFact] = {}

    def _document(self, head: re.Match[str]) -> Document:
        """The document without its statements."""
        inputs, outputs = (tuple(map(Name, names)) for names in (self._inputs, self._outputs))
        graph = Graph(Name(head[1]), inputs, outputs, ())
        return Document(Edition.FINAL, Version("1.0"), (), (), graph, self._source)

    def graph(self) -> ir.Graph:
        self._check_head()
        offset = self._offset
        while following := self._repeat_statement(offset) or self._variable(offset) or self._read_new_form(offset):
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

    def _repeat_statement(self, offset: int) -> int:
        """Append the node of a statement of a known form; return its end, or 0 if the form is unknown."""
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
        origin = self._places, self._places.encode(match.start(2), match.start(5) + known.length)
        value = ir.Value(target, known.fact, origin=origin)
        self._graph.append_new(known.op_type, operands, (value,), known.attributes, DIALECT, "", origin)
        values[target] = value
        kinds[target] = known.kind
        self._made += 1
        return match.end()

    def _variable(self, offset: int) -> int:
        """Append the constant of a variable of a known shape; return its end, or 0."""
        match = _VARIABLE.match(self._text, offset)
        if match is None:
            return 0
        target, form, label, _ = match.groups()
        kind = self._variables.get(form)
        if kind is None or target in self._kind or target in self._refused:
            return 0
        self._label(label, form)
        origin = self._places, self._places.encode(match.start(2), match.end(4))
        value = self._sources.variable(target, label, kind.data, kind.fact, origin)
        value.fact = self._intern_fact(value.fact)
        self._values[target] = value
        self._kind[target] = self._kind_index(kind._replace(fact=value.fact))
        self._made += 1
        return match.end()

    def _label(self, label: str, form: str) -> None:
        """Record a label; for a repeated label of other case or shape use the general reader, which reports it."""
        if self._labels.setdefault(label.lower(), f"{form}{label}") != f"{form}{label}":
            raise _OtherwiseError

    # ── the first of a kind ──

    def _read_new_form(self, offset: int) -> int:
        """Run all stages on the statement after `offset`; return its end, or 0 if there is none."""
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
        """Define the operands that were created in the fast path for the general reader."""
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
        """Return the operations of a statement; each result must be named in the text and have a known shape."""
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
                value.fact = tensor.fact = self._intern_fact(tensor.fact or UNKNOWN)
        elif operation.name == "external":
            (tensor,) = operation.outputs()
            value = self._given[tensor.name] = self._sources.input(tensor, operation)
            tensor.fact = value.fact = self._intern_fact(source_fact(operation))
        else:
            (tensor,) = operation.outputs()
            # Facts with known elements are shared by the tensor and its value.
            value = self._sources.constant(operation)
            tensor.fact = value.fact = self._intern_fact(value.fact)

    def _intern_fact(self, fact: Fact) -> TensorFact:
        """Return the first equal fact, so that facts are compared by identity."""
        fact = cast("TensorFact", fact)
        return self._facts.setdefault(fact, fact) if fact.is_interchangeable else fact

    def _define(self, name: str, type: Type) -> None:
        tensor = self._expander.emitter.fixed[name]
        kind = _TensorKind(type, tensor.data, cast("TensorFact", tensor.fact))
        self._values[name] = self._builder.value(tensor)
        self._kind[name] = self._kind_index(kind)
        self._scope.types[name] = type

    def _kind_index(self, kind: _TensorKind) -> int:
        """Return the index of a kind; facts are compared by identity."""
        number = self._kinds.setdefault((kind.type, kind.data, id(kind.fact)), len(self._told))
        if number == len(self._told):
            self._told.append(kind)
        return number

    def _learn(self, call: Call, start: int, operations: Sequence[Operation], types: Mapping[str, Type]) -> None:
        """Record the form of a statement if statements of equal text after the operands have equal results."""
        if (
            not isinstance(call, FlatCall)
            or len(operations) != 1
            or self._inference.known_type(call, self._scope) is None
        ):
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
        self._known[key] = _KnownStatement(
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
