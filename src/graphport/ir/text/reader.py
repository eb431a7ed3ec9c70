"""Reads graphs from text."""

from __future__ import annotations

import struct
from math import isnan, nan, prod
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.diagnostics import Diagnostic, Source, Span, raise_errors
from graphport.core.dims import Dim, Symbol, Symbolic, parse_dim
from graphport.core.facts import UNKNOWN, Fact, OptionalFact, SequenceFact, TensorFact
from graphport.core.garbage_collection import paused_collection
from graphport.core.storage import ArrayStorage, Storage, storage_of
from graphport.ir.graph import Attribute, Graph, Node, Value
from graphport.ir.text.elements import Bits, Element, Misfit, array_of
from graphport.ir.text.scanner import REMEDY, Scanner
from graphport.ir.text.words import DTYPES, INTEGER, NUMBER, PATH, WORD, dim_end, name_text, split_op, value_text

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from graphport.core.dtypes import DType

MOST_NESTED = 64
"""Graphs within each other that are read."""

_CONSTANTS: dict[str, bool | None] = {"none": None, "true": True, "false": False}
_NOTHING = storage_of([])
"""Stand-in for missing elements until the diagnostics are raised."""


def from_text(text: str | Source, *, table: Mapping[str, Storage] | None = None) -> Graph:
    """Parse a graph in the text form of `to_text`; `verify` accepts the result.

    Args:
        text: see the grammar of the package.
        table: the storages that the text refers to by name.

    Raises:
        DiagnosticError: IO0101 to IO0109: the text does not follow the grammar or describes an invalid graph; all
            errors up
            to the first syntax error.
    """
    with paused_collection():
        return _GraphParser(Source("text", text) if isinstance(text, str) else text, table or {}).read_graph()


class _Raw(NamedTuple):
    """The fact of a tensor before the bounds of its symbols are known."""

    dtype: DType | None
    shape: list[int | str] | None
    elements: list[int | str] | None
    reals: list[float] | None


class _GraphParser(Scanner):
    """Recursive-descent parser; only nested bodies recurse. Stops at the first syntax error."""

    def __init__(self, source: Source, table: Mapping[str, Storage]) -> None:
        super().__init__(source)
        self.table = table
        self.scope: dict[str, Value] = {}
        self.entered: list[list[str]] = []
        self.symbols: dict[str, Symbolic] = {}
        self.dims: dict[str, Dim] = {}
        self.definitions: dict[str, Dim] = {}

    def read_graph(self) -> Graph:
        self.demand_word("graph")
        graph = self.graph()
        if self.at < len(self.text):
            self.fail("the end of the file")
        raise_errors(self.findings)
        graph.extents.declared.update(self.symbols)
        for name, dim in self.definitions.items():
            graph.extents.declared.setdefault(name, Symbol(name))
            graph.extents.definitions[name] = dim
        return graph

    # Graphs and nodes

    def graph(self) -> Graph:
        """Parse a graph after its keyword."""
        if len(self.entered) == MOST_NESTED:
            message = f"graphs are nested more than {MOST_NESTED} levels deep"
            self.stop(Diagnostic("IO0102", message, self.span(self.at), REMEDY))
        self.entered.append([])
        graph = Graph(self.name("the name of the graph"))
        self.demand("(")
        for value, span in self.listed(")", self.input):
            self.enter(graph.adopt_input(value), span)
        if self.accept_keyword("opsets"):
            graph.opsets = self.read_named_items(self.integer)
        self.demand("{")
        while (literal := self.accept_keyword("literal")) or self.accept_keyword("constant"):
            value, span = self.constant()
            value.is_literal = literal
            self.enter(graph.adopt_constant(value), span)
        while not self.accept_keyword("return"):
            self.node(graph)
        if not self.sign("}"):
            graph.set_outputs([self.resolve_value()])
            while not self.sign("}"):
                self.demand(",")
                graph.add_output(self.resolve_value())
        for name in self.entered.pop():
            del self.scope[name]
        return graph

    def enter(self, value: Value, span: Span) -> None:
        if value.name in self.scope:
            message = f"duplicate value {value_text(value.name)}"
            self.findings.append(Diagnostic("IO0104", message, span, "choose another name"))
            return
        self.scope[value.name] = value
        self.entered[-1].append(value.name)

    def value(self, expected: str) -> str:
        if not self.sign("%"):
            self.fail(expected)
        if self.is_next('"'):
            return self.string()
        found = self.match(PATH)
        if found is None:
            self.fail("the name of a value")
        return found[0]

    def declared(self, expected: str = "a value") -> tuple[Value, Span]:
        start = self.at
        name = self.value(expected)
        span = self.span(start)
        return Value(name, self.fact() if self.sign(":") else UNKNOWN), span

    def input(self, expected: str = "a value") -> tuple[Value, Span]:
        value, span = self.declared(expected)
        if self.sign("="):
            value.storage = self.tensor(self.dtype(), self.shape())
        return value, span

    def constant(self) -> tuple[Value, Span]:
        start = self.at
        name = self.value("a value")
        span = self.span(start)
        fact = self.fact() if self.sign(":") else None
        storage = self.tensor(self.dtype(), self.shape()) if self.sign("=") else None
        if fact is None:
            fact = UNKNOWN if storage is None else TensorFact.of(storage)
        return Value(name, fact, storage=storage), span

    def operand(self) -> Value | None:
        return None if self.accept_keyword("_") else self.resolve_value("a value or '_'")

    def resolve_value(self, expected: str = "a value") -> Value:
        """Return the named value, which must be visible here."""
        start = self.at
        name = self.value(expected)
        value = self.scope.get(name)
        if value is None:
            value = Value(name)
            message = f"undefined value {value_text(value.name)}"
            remedy = "use a value after its definition, in the same graph or a subgraph"
            self.findings.append(Diagnostic("IO0103", message, self.span(start), remedy))
        return value

    def node(self, graph: Graph) -> None:
        results = self.results()
        start = self.at
        op_type = self.name("an operator")
        dialect, op_type = (op_type, self.name("an operator")) if self.sign(":") else split_op(op_type)
        origin = self.span(start)
        self.demand("(")
        operands = self.listed(")", self.operand)
        attributes = self.read_named_items(self.attribute) if self.is_next("{") else {}
        name = self.string() if self.accept_keyword("name") else ""
        values = [None if result is None else result[0] for result in results]
        graph.append(Node(op_type, operands, values, attributes, dialect=dialect, name=name, origin=origin))
        for result in results:
            if result is not None:
                self.enter(*result)

    def results(self) -> list[tuple[Value, Span] | None]:
        if self.sign("("):
            self.demand(")")
            self.demand("=")
            return []
        results = [self.result()]
        while not self.sign("="):
            if not self.sign(","):
                self.fail("',' or '='")
            results.append(self.result())
        return results

    def result(self) -> tuple[Value, Span] | None:
        return None if self.accept_keyword("_") else self.declared("a result or 'return'")

    # Attributes

    def attribute(self) -> Attribute:
        # Iterative, because tuples may be nested to any depth.
        open_: list[list[Attribute]] = []
        while True:
            if not self.sign("("):
                item = self.leaf()
            elif self.sign(")"):
                item: Attribute = ()
            else:
                open_.append([])
                continue
            while open_:
                open_[-1].append(item)
                if self.sign(","):
                    break
                if not self.sign(")"):
                    self.fail("',' or ')'")
                item = tuple(open_.pop())
            else:
                return item

    def leaf(self) -> Attribute:
        """Parse an attribute that is not a tuple."""
        if self.is_next('"'):
            return self.string()
        if self.is_next('b"'):
            return self.data()
        start = self.at
        number = self.match(NUMBER)
        if number:
            return self.parse_number(number, start)
        for op_type, constant in _CONSTANTS.items():
            if self.accept_keyword(op_type):
                return constant
        if self.accept_keyword("graph"):
            return self.graph()
        if self.accept_keyword("complex"):
            return self.complex()
        found = WORD.match(self.text, self.at)
        if found is None or found[0] not in DTYPES:
            return self.fact("an attribute")
        dtype = self.dtype()
        if not self.is_next("["):
            return dtype
        shape = self.shape()
        if self.is_next("(", "@"):
            return self.tensor(dtype, shape)
        return self.build_fact(self.raw(dtype, shape))

    def parse_number(self, found: re.Match[str], start: int) -> int | float:
        element = self.element_of(found, start)
        if not isinstance(element, Bits):
            return element
        (number,) = struct.unpack(">d", element.bits.to_bytes(8, "big"))
        if not isnan(number):
            self.misfit(f"{found[0]} is not a float64 NaN", start)
        return number

    def element_of(self, found: re.Match[str], start: int) -> int | float | Bits:
        if found[1]:
            return Bits(int(found[1], 16))
        if INTEGER.fullmatch(found[0]):
            return self.counted(found[0], start)
        return float(found[0])

    def complex(self) -> complex:
        self.demand("(")
        parts = self.listed(")", self.read_float)
        if len(parts) != 2:
            self.fail("a complex number with two parts before this")
        return complex(*parts)

    def read_float(self) -> float:
        start = self.at
        found = self.match(NUMBER)
        if found is None:
            self.fail("a number")
        return float(self.parse_number(found, start))

    # Facts

    def dtype(self) -> DType:
        found = WORD.match(self.text, self.at)
        if found is None or found[0] not in DTYPES:
            self.fail("an element type")
        self.match(WORD)
        return DTYPES[found[0]]

    def shape(self) -> list[int | str] | None:
        self.demand("[")
        if self.sign("..."):
            self.demand("]")
            return None
        return self.listed("]", self.dim)

    def raw(self, dtype: DType | None, shape: list[int | str] | None) -> _Raw:
        elements = self.listed("}", self.dim) if self.sign("{") else None
        reals = self.listed(">", self.read_float_fact) if self.sign("<") else None
        return _Raw(dtype, shape, elements, reals)

    def read_float_fact(self) -> float:
        number = self.read_float()
        return nan if isnan(number) else number

    def dim(self) -> int | str:
        if self.is_next('"'):
            return self.string()
        start = self.at
        stop = dim_end(self.text, start)
        if stop == start:
            self.fail("a dim")
        self.step(stop)
        found = self.text[start:stop]
        return self.counted(found, start) if INTEGER.fullmatch(found) else found

    def fact(self, expected: str = "a fact") -> Fact:
        wrappers: list[type[SequenceFact | OptionalFact]] = []
        while (sequence := self.accept_keyword("sequence")) or self.accept_keyword("optional"):
            wrappers.append(SequenceFact if sequence else OptionalFact)
            self.demand("(")
        found = WORD.match(self.text, self.at)
        if self.sign("?"):
            dtype = None
        elif found is None or found[0] not in DTYPES:
            self.fail(expected)
        else:
            dtype = self.dtype()
        raw = self.raw(dtype, self.shape())
        for _ in wrappers:
            self.demand(")")
        fact = self.build_fact(raw)
        for wrapper in reversed(wrappers):
            fact = wrapper(fact)
        return fact

    def build_fact(self, raw: _Raw) -> Fact:
        """Apply the `where` clause to a fact."""
        if self.accept_keyword("where"):
            self.bound()
            while self.accept_keyword("and"):
                self.bound()
        shape = None if raw.shape is None else tuple(map(self.known_dim, raw.shape))
        elements = None if raw.elements is None else tuple(map(self.known_dim, raw.elements))
        return TensorFact(raw.dtype, shape, elements, None if raw.reals is None else tuple(raw.reals))

    def bound(self) -> None:
        start = self.at
        name = self.name("a symbol")
        if self.sign("="):
            self.definitions[name] = self.known_dim(self.dim())
            return
        self.demand_word("in")
        lower = None if self.is_next("..") else self.integer()
        self.demand("..")
        upper = self.integer() if INTEGER.match(self.text, self.at) else None
        try:
            self.symbols[name] = Symbol(name, lower, upper)
        except ValueError as error:
            self.findings.append(Diagnostic("IO0108", str(error), self.span(start), "correct the bounds"))
        self.dims.clear()

    def known_dim(self, dim: int | str) -> Dim:
        if isinstance(dim, int):
            return dim
        if not dim:
            self.stop(Diagnostic("IO0108", "empty dim", self.span(self.at), "write a name or an expression"))
        if dim not in self.dims:
            self.dims[dim] = parse_dim(dim, self.symbols)
        return self.dims[dim]

    # Tensors

    def tensor(self, dtype: DType, shape: list[int | str] | None) -> Storage:
        """Parse the elements after element type and shape."""
        start = self.at
        if shape is None or not all(isinstance(dim, int) and dim >= 0 for dim in shape):
            self.stop(
                Diagnostic(
                    "IO0105",
                    "a tensor constant has a symbolic shape",
                    self.span(start),
                    "write the shape with integers",
                )
            )
        lengths = tuple(dim for dim in shape if isinstance(dim, int))
        if self.sign("@"):
            return self.referred(dtype, lengths, start)
        if self.sign("(...)"):
            message = "the elements of this tensor were omitted from the text"
            self.findings.append(Diagnostic("IO0106", message, self.span(start), "write the text with all elements"))
            return _NOTHING
        self.demand("(")
        items = self.listed(")", self.element)
        wanted = prod(lengths) * (2 if dtype.kind == "c" else 1)
        if len(items) != wanted:
            self.misfit(f"{dtype}{list(lengths)} has {wanted} elements, got {len(items)}", start)
            return _NOTHING
        try:
            return ArrayStorage(array_of(dtype, items).reshape(lengths), dtype)
        except (Misfit, ValueError, OverflowError) as error:
            # NumPy limits lengths and ranks.
            self.misfit(str(error), start)
            return _NOTHING

    def referred(self, dtype: DType, shape: tuple[int, ...], start: int) -> Storage:
        name = self.name()
        storage = self.table.get(name)
        if storage is None or (storage.dtype, storage.shape) != (dtype, shape):
            there = "nothing" if storage is None else f"{storage.dtype}{list(storage.shape)}"
            message = f"the weight {name_text(name)} is {there}, expected {dtype}{list(shape)}"
            self.findings.append(
                Diagnostic("IO0107", message, self.span(start), "pass the weights that belong to the text")
            )
            return _NOTHING
        return storage

    def element(self) -> Element:
        if self.is_next('"'):
            return self.string()
        if self.is_next('b"'):
            return self.data()
        start = self.at
        found = self.match(NUMBER)
        if found:
            return self.element_of(found, start)
        if self.accept_keyword("true"):
            return True
        if not self.accept_keyword("false"):
            self.fail("an element")
        return False

    def misfit(self, message: str, start: int) -> None:
        self.findings.append(Diagnostic("IO0105", message, self.span(start), "correct the type or the elements"))
