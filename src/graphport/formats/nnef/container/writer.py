"""Write graphs of the dialect `nnef` to NNEF models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbolic, example, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.names import unique
from graphport.core.storage import ArrayStorage
from graphport.formats.nnef.container import flavours
from graphport.formats.nnef.container.build import CONSTANT, DIALECT, DTYPE, GENERIC, call_form
from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.editions import provisional_words
from graphport.formats.nnef.container.files import Files, Verbatim
from graphport.formats.nnef.container.grouping import operand_groups, targets_text
from graphport.formats.nnef.container.item_types import Fill
from graphport.formats.nnef.container.lexer import string_literal
from graphport.formats.nnef.container.literals import (
    Unspellable,
    attribute_text,
    constant_texts,
    data_of,
    default_of,
    is_default,
    literal_text,
)
from graphport.formats.nnef.container.naming import LABEL, ORIGINALLY, Labels, Names
from graphport.formats.nnef.container.operators import COPIES
from graphport.formats.nnef.container.original_text import original_of
from graphport.formats.nnef.container.packaging import write_container
from graphport.formats.nnef.container.primitives import EXTENSION, Primitives
from graphport.formats.nnef.container.printer import to_text
from graphport.formats.nnef.container.quant import quantization_text
from graphport.formats.nnef.container.quantized import quantization_of
from graphport.formats.nnef.container.recognition import GRAPH
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.types import ArrayOf, TensorOf
from graphport.ir.graph import Graph, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphport.core.diagnostics import Diagnostic
    from graphport.core.dims import Dim
    from graphport.formats.nnef.container.build import Structure
    from graphport.formats.nnef.container.declarations import Declaration, Formal
    from graphport.formats.nnef.container.grouping import Group
    from graphport.formats.nnef.container.original_text import Original
    from graphport.formats.nnef.container.syntax import Fragment
    from graphport.formats.nnef.container.tensors import Payload
    from graphport.formats.nnef.container.types import Type
    from graphport.ir.graph import Attribute, Node

SYMBOLS = "tract_symbol"
_MOST_NUMBERS = 1024
_DATA = frozenset(("scalar", "integer", "logical"))


def write(
    graph: Graph,
    path: str | Path,
    *,
    edition: Edition | str | None = None,
    strict: bool = True,
    flatten: bool = False,
    allow_fragments: bool = False,
    flavour: str | None = None,
    findings: list[Diagnostic] | None = None,
) -> dict[str, str]:
    """Write `graph` to `path`: a folder, `.tar`, `.tgz`, or a text if there are no weights.

    An unmodified graph is written as its original text, with fragments, comments and names. Any other graph is written
    flat: one operation per line, without defaults, exact numbers; names that are not identifiers are changed and
    recorded in a comment. The output is deterministic.

    Args:
        graph: nodes of the dialect `nnef`.
        path: its suffix selects the container, see `write_container`.
        edition: of a flat text, the final one by default; an edition other than the original's makes it flat.
        strict: use only what all known readers support, possibly several operations for one of a graph that was not
            read from NNEF; otherwise elements keep their widths, and symbolic dims of inputs become symbols of
                a vendor's
            extension.
        flatten: write a flat text in any case.
        allow_fragments: declare fragments without body for canonical operators without NNEF equivalent.
        flavour: `tract` for its own operators and types; `khronos` for the standard's, `both` for those of them that
            tract accepts, too. `None` means `both` if possible, else `khronos` (see `flavour_choice` for graphs
                of other
            dialects).
        findings: receives a note (NNEF0774) for each obstacle for tract in a text of unspecified flavour.

    Returns:
        Original names by changed names.

    Raises:
        DiagnosticError: everything that NNEF cannot represent (NNEF0760 to NNEF0774) or store (NNEF0720 to NNEF0744);
            existing files are unchanged.
    """
    path = Path(path)
    flavours.check(flavour)
    if flavour == "tract":
        from graphport.formats.nnef.container.tract.writer import files_of

        write_container(path, files_of(graph, path))
        return {}
    wanted = None if edition is None else Edition(edition)
    original = original_of(graph)
    is_still = original is not None and original.is_still(graph)
    if original is not None and is_still and not flatten and flavour is None:
        document = original.checked.document
        if wanted in (None, document.edition) and document.source is not None:
            writer = Verbatim(graph, original, document.source, path)
            write_container(path, writer.files())
            return {}
    is_shared, collected = False, [] if findings is None else findings
    if strict and (flavour == "both" or not is_still):
        graph, is_shared = flavours.worded(graph, wanted or Edition.FINAL, flavour, collected)
    primitives = Primitives() if allow_fragments else None
    writer = _Flat(graph, wanted or Edition.FINAL, original, path, primitives, strict=strict, is_shared=is_shared)
    files = writer.files()
    write_container(path, files)
    return writer.bent


def unwritten_inputs(graph: Graph) -> list[Diagnostic]:
    """Return the reasons why standard NNEF cannot represent the inputs of `graph`."""
    alone = Graph(graph.name)
    for value in graph.inputs:
        alone.add_output(alone.add_input(value.name, value.fact))
    try:
        _Flat(alone, Edition.FINAL, None, Path(GRAPH), None, strict=True, is_shared=True).files()
    except DiagnosticError as error:
        return [replace(each, span=None) for each in error.diagnostics]
    return []


class _Flat(Files):
    """A graph as a flat text."""

    def __init__(
        self,
        graph: Graph,
        edition: Edition,
        original: Original | None,
        path: Path,
        primitives: Primitives | None,
        *,
        strict: bool,
        is_shared: bool,
    ) -> None:
        super().__init__(graph, path, edition)
        self._primitive = primitives
        self.bent: dict[str, str] = {}
        self._is_final = edition is Edition.FINAL
        self._strict = strict
        # tract takes an integer in the text for an extent, which is no number that it returns.
        self._has_integers = self._is_final and not is_shared
        self._library = standard(edition)
        self._original = original
        self._lines: list[str] = []
        self._labels = Labels()
        self._defined: set[Value] = set()
        self._inline = {value: text for value in graph.constants if (text := self._inlined(value)) is not None}
        self._names = Names(graph, edition, self._inline, strict=strict)
        self._symbols: dict[str, None] = {}
        self._primitives: dict[str, Fragment] = {}

    def files(self) -> dict[str, Payload]:
        graph = self.graph
        self.bent = self._names.bent
        self.check_ends()
        for value in graph.inputs:
            self._external(value)
        for node in graph:
            for value in node.operands:
                self._constant(value)
            self._operation(node)
        results = self._results()
        parameters = ", ".join(self._names[value] for value in graph.inputs)
        # Readers take a graph that is called after an operation for that.
        name = unique(
            self._names.identifier(graph.name), standard(Edition.FINAL), reserved=standard(Edition.PROVISIONAL)
        )
        header = f"graph {name}( {parameters} ) -> ( {', '.join(results)} )\n{{\n"
        body = "".join(f"    {line}\n" for line in self._lines)
        return self.complete(f"{self._preamble()}\n{header}{body}}}\n", self._quantization())

    def _quantization(self) -> str | None:
        """Return the quantization file for the remaining values, with their present names."""
        found = {
            self._names[value]: quantization
            for value in self.graph.values()
            if (quantization := quantization_of(value)) is not None and value not in self._inline
        }
        return quantization_text(found, self.edition) if found else None

    def _preamble(self) -> str:
        end = ";" if self._is_final else ""
        lines = [f"version 1.0{end}"]
        if self._original is not None and self._is_final:
            # A flat text has neither fragments nor operators.
            given = self._original.checked.document.extensions
            lines += [to_text(each).rstrip("\n") for each in given if not each.names[0].text.startswith("KHR_")]
        lines += [f"extension {SYMBOLS} {name};" for name in self._symbols]
        made = {} if self._primitive is None else self._primitive.fragments
        fragments = self._primitives | made
        if fragments:
            lines.append(f"extension {EXTENSION};")
        for fragment in fragments.values():
            lines += ["", to_text(fragment).rstrip("\n")]
        return "\n".join(lines) + "\n"

    def _add_line(self, line: str, values: Iterable[Value | None]) -> None:
        end = ";" if self._is_final else ""
        names = {
            self._names[value]: original
            for value in values
            if value is not None and (original := self._names.original(value)) is not None
        }
        comment = f"  {ORIGINALLY}{json.dumps(names)}" if names else ""
        self._lines.append(f"{line}{end}{comment}")

    # ── inputs and constants ──

    def _external(self, value: Value) -> None:
        self._defined.add(value)
        fact = value.fact
        shape = fact.shape if isinstance(fact, TensorFact) else None
        if shape is None:
            message = f"the rank of the input '{value.name}' is unknown"
            self.error("NNEF0761", message, value.origin, "set its shape with --input")
            return
        extents = [self._extent(value, axis, shape) for axis in range(len(shape))]
        generic = self._generic(value)
        self._add_line(f"{self._names[value]} = external{generic}(shape = [{', '.join(extents)}])", [value])

    def _extent(self, value: Value, axis: int, shape: tuple[Dim, ...]) -> str:
        dim = shape[axis]
        if isinstance(dim, int):
            if dim > 0 or not self._is_final:
                return str(dim)
            self.error(
                "NNEF0763",
                f"axis {axis} of '{value.name}' has no elements",
                value.origin,
                "choose another format: NNEF does not support empty tensors",
            )
            return "1"
        if not self._is_final:
            return "0"
        name = str(dim)
        if not self._strict and list(symbols(dim)) == [name] and name.isidentifier() and name.isascii():
            if self._original is None or name not in self._original.checked.symbols:
                self._symbols[name] = None
            return name
        message = f"axis {axis} of the input '{value.name}' is {dim}, but standard NNEF requires static extents"
        remedy = (
            f"set the extents, for example --input {value.name}={example(shape)}, "
            "or use --flavour tract, which keeps them symbolic"
        )
        self.error("NNEF0762", message, value.origin, remedy)
        return "1"

    def _generic(self, value: Value) -> str:
        """Return the type argument in < > of an input or constant."""
        dtype = value.dtype
        data = data_of(dtype)
        if data is None or (data != "scalar" and not self._is_final):
            message = f"'{value.name}' holds {dtype}"
            remedy = (
                "cast to float, integer or bool"
                if self._is_final
                else "cast to float: the provisional edition has only scalars"
            )
            self.error("NNEF0764", message, value.origin, remedy)
        return "" if data in (None, "scalar") else f"<{data}>"

    def _inlined(self, value: Value) -> str | None:
        """Return the literal to write at uses of `value`, `None` if it needs a name."""
        if value.storage is None or value.is_output or (value.has_notes and LABEL in value.notes):
            return None
        if value.storage.dtype.is_integer and not self._has_integers:
            return None  # neither does the provisional edition cast integers to tensors
        return literal_text(value.storage, allows_minus=self._is_final)

    def _constant(self, value: Value) -> None:
        if value in self._defined or value in self._inline or not value.is_constant:
            return
        self._defined.add(value)
        fact = value.fact
        shape = fact.shape if isinstance(fact, TensorFact) else None
        if shape is None or any(isinstance(dim, Symbolic) for dim in shape):
            self.error("NNEF0761", f"the shape of '{value.name}' is unknown", value.origin)
            return
        extents = ", ".join(self._extent(value, axis, shape) for axis in range(len(shape)))
        generic = self._generic(value)
        numbers = self._constant_literals(value)
        if numbers is not None:
            text = f"constant{generic}(shape = [{extents}], value = [{', '.join(numbers)}])"
        else:
            label = self._labels.of(value, self._names[value])
            text = f"variable{generic}(shape = [{extents}], label = {string_literal(label)})"
            self.add(value, label, is_plain=self._strict)
        self._add_line(f"{self._names[value]} = {text}", [value])

    def _constant_literals(self, value: Value) -> list[str] | None:
        """Return the literals of a constant that is written as an operation, which some readers lack."""
        storage = value.storage
        if self._strict or storage is None or not (value.has_notes and value.notes.get(CONSTANT)):
            return None
        if isinstance(storage, Fill):
            storage = ArrayStorage(storage.number.reshape(1), storage.dtype)
        if storage.count > _MOST_NUMBERS:
            return None
        try:
            return constant_texts(storage, allows_minus=self._is_final)
        except Unspellable:
            return None

    # ── operations ──

    def _operation(self, node: Node) -> None:
        if not node.dialect and self._primitive is not None and self._is_final:
            self._canonical(node, self._primitive)
            return
        if node.dialect != DIALECT or any(True for _ in node.bodies()):
            message = f"NNEF has no equivalent of {node.op}"
            self.error("NNEF0765", message, node.origin, "export the graph to the dialect nnef first")
            return
        op_type, attributes = node.op_type, node.attributes
        if not self._is_final:
            op_type, attributes = provisional_words(op_type, attributes)
        declaration = self._declaration(node, op_type)
        try:
            call = self._call(node, op_type, attributes, declaration)
        except Unspellable as reason:
            self.error("NNEF0766", f"{node.op_type}: {reason}", node.origin, reason.remedy)
            return
        self._defined.update(node.results)
        self._add_line(f"{self._targets(node, declaration)} = {call}", node.outputs)

    def _canonical(self, node: Node, primitives: Primitives) -> None:
        """Write a canonical operator as a call of a fragment without body."""
        try:
            op_type, operands, attributes = primitives.fragment_of(node)
        except Unspellable as reason:
            message = f"{node.op} cannot be written as a fragment: {reason}"
            self.error("NNEF0766", message, node.origin, "choose another format")
            return
        arguments = [
            self._text(each) if isinstance(each, Value) else f"[{', '.join(map(self._text, each))}]"
            for each in operands
        ]
        self._defined.update(node.results)
        names = (self._names.unused() if value is None else self._names[value] for value in node.outputs)
        targets = ", ".join(names)
        self._add_line(f"{targets} = {op_type}({', '.join([*arguments, *attributes])})", node.outputs)

    def _declaration(self, node: Node, op_type: str) -> Declaration | None:
        """Return the declaration of an operation; a primitive declared by the document is declared again."""
        own = None if self._original is None else self._original.checked.operations.own.get(op_type)
        if own is not None and not own.is_expanded:
            self._primitives[op_type] = own.fragment
            return own
        if op_type in self._library:
            return self._library[op_type]
        if call_form(node) is None:
            message = f"the {self.edition} edition has no operation '{op_type}'"
            self.error("NNEF0767", message, node.origin, "choose the final edition, or a format that has the operation")
        return None

    def _call(
        self, node: Node, op_type: str, attributes: Mapping[str, Attribute], declaration: Declaration | None
    ) -> str:
        if declaration is None:
            arguments = list(self._undeclared(node))
        else:
            arguments = [*self._operands(node, declaration), *self._attributes(attributes, declaration)]
        generic = node.notes.get(GENERIC) if node.has_notes else None
        dtype = node.attributes.get(DTYPE)
        if isinstance(dtype, DType):
            generic = data_of(dtype)
        return f"{op_type}{'' if generic is None else f'<{generic}>'}({', '.join(arguments)})"

    def _text(self, value: Value) -> str:
        return self._inline.get(value) or self._names[value]

    def _operands(self, node: Node, declaration: Declaration) -> list[str]:
        """Return positional tensor arguments; trailing defaults are omitted."""
        formals = [formal for formal in declaration.formals if formal.takes_tensors]
        texts: list[str] = []
        needed = 0
        for formal, operand in zip(formals, operand_groups(node, formals), strict=True):
            text = self._operand(node, formal, operand)
            texts.append(text)
            is_stated = formal.default is None or text != attribute_text(default_of(formal.default), None)
            needed = len(texts) if is_stated else needed
        return texts[:needed]

    def _operand(self, node: Node, formal: Formal, operand: Group) -> str:
        if isinstance(operand, list):
            return f"[{', '.join(self._operand(node, formal, item) for item in operand)}]"
        if operand is None:
            if formal.default is None:
                raise Unspellable(f"missing operand '{formal.name}'")
            return attribute_text(default_of(formal.default), None)
        wanted = _tensor_data_of(formal.type)
        given = data_of(operand.fact.dtype) if isinstance(operand.fact, TensorFact) else None
        if wanted in _DATA and given in _DATA and wanted != given:
            message = f"'{formal.name}' requires a tensor of type {wanted}, but '{operand.name}' is {given}"
            raise Unspellable(message, "cast to float before this operation, or choose another format")
        return self._text(operand)

    def _attributes(self, attributes: Mapping[str, Attribute], declaration: Declaration) -> list[str]:
        """Return named attribute arguments; defaults are omitted."""
        left = {name: value for name, value in attributes.items() if name != DTYPE}
        texts: list[str] = []
        for formal in declaration.formals:
            if formal.takes_tensors:
                continue
            if formal.name not in left:
                if formal.default is None:
                    raise Unspellable(f"missing attribute '{formal.name}'")
                continue
            value = left.pop(formal.name)
            if formal.default is None or not is_default(value, default_of(formal.default)):
                text = attribute_text(value, formal.type, allows_minus=self._is_final)
                texts.append(f"{formal.name} = {text}")
        if left:
            raise Unspellable(f"unknown attribute '{next(iter(left))}'")
        return texts

    def _undeclared(self, node: Node) -> Iterator[str]:
        """Yield the original arguments of an operation without declaration; positional ones are named by index."""
        form = call_form(node)
        values = iter(node.inputs)
        operands = {} if form is None else form.operands
        texts = {name: self._structured(structure, values) for name, structure in operands.items()}
        for name, attribute in node.attributes.items():
            if name != DTYPE:
                texts[name] = attribute_text(attribute, None, allows_minus=self._is_final)
        numbered = sorted((name for name in texts if name.isdigit()), key=int)
        yield from (texts[name] for name in numbered)
        yield from (f"{name} = {text}" for name, text in texts.items() if not name.isdigit())

    def _structured(self, structure: Structure, values: Iterator[Value | None]) -> str:
        if structure is None:
            value = next(values)
            return "" if value is None else self._text(value)
        return f"[{', '.join(self._structured(each, values) for each in structure)}]"

    # ── results ──

    def _targets(self, node: Node, declaration: Declaration | None) -> str:
        names = iter([self._names[value] if value is not None else self._names.unused() for value in node.outputs])
        form = call_form(node)
        if form is not None:
            return ", ".join(targets_text(structure, names) for structure in form.results)
        if declaration is not None and len(declaration.results) == 1 and isinstance(declaration.results[0][1], ArrayOf):
            return f"[{', '.join(names)}]"
        wanted = 1 if declaration is None else len(declaration.results)
        given = list(names)
        return ", ".join([*given, *(self._names.unused() for _ in range(wanted - len(given)))])

    def _results(self) -> list[str]:
        """The names of the outputs: each once, and none of an input."""
        texts: list[str] = []
        for value in self.graph.outputs:
            self._constant(value)
            name = self._names[value]
            if value.is_input or name in texts:
                copy = self._names.another(value)
                end = ";" if self._is_final else ""
                comment = f"  {ORIGINALLY}{json.dumps({copy: value.name})}"
                self._lines.append(f"{copy} = {COPIES[self.edition]}({name}){end}{comment}")
                name = copy
            texts.append(name)
        return texts


def _tensor_data_of(of: Type) -> str | None:
    """Return the data-type of the tensors in a type, if it has one."""
    while isinstance(of, ArrayOf) and of.item is not None:
        of = of.item
    return of.item.name if isinstance(of, TensorOf) and of.item is not None else None
