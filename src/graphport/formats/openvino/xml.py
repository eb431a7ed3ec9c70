"""The text of an IR file as a tree, and back: expat without document types, and the layout that OpenVINO writes."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from pyexpat import ErrorString, ExpatError, ParserCreate
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.formats.openvino.limits import DEFAULT, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_ENCODINGS = {"utf-8": "utf-8", "us-ascii": "utf-8", "ascii": "utf-8", "iso-8859-1": "latin-1", "latin-1": "latin-1"}
_LONG_TAG = re.compile(r"<[^!<][^<]{65536,}")
_STRUCTURE = frozenset({"layers", "layer", "data", "input", "output", "port", "edges", "edge", "body", "port_map"})
"""Elements that have no text of their own."""
_ATTRIBUTE = re.compile(r"=\s*[\"']")
_PORTS = re.compile(rb"<(input|output)>")
_MOST_PORTS, _LONGEST_PORTS = 4096, 1 << 14
"""Spellings of the ports of a layer that are remembered, and bytes of one."""


class Element:
    """One element; of its text only that of `dim` and of elements without children is kept."""

    __slots__ = ("at", "attributes", "children", "dims", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str] | None = None, at: int = 0) -> None:
        self.tag = tag
        self.attributes: dict[str, str] = {} if attributes is None else attributes
        self.children: list[Element] = []
        self.dims: list[str] | None = None
        self.text = ""
        self.at = at

    def child(self, tag: str) -> Element | None:
        """The first child of that tag."""
        return next((child for child in self.children if child.tag == tag), None)


def read_text(data: bytes, name: str) -> str:
    """The text of a file: UTF-8, UTF-16 with a mark, ASCII or ISO-8859-1.

    Raises:
        DiagnosticError: OV0002, it is in no such encoding.
    """
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-16"
    else:
        found = _ENCODING.match(data.removeprefix(codecs.BOM_UTF8).lstrip()[:400])
        said = "utf-8" if found is None else found[1].decode("ascii").lower()
        encoding = _ENCODINGS.get(said, "")
        if not encoding:
            finding = Diagnostic("OV0002", f"the encoding {said!r} is not read", Span(Source(name)), "save it as UTF-8")
            raise DiagnosticError(finding)
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        place = Span(Source(name), None, None, f"byte {error.start}")
        finding = Diagnostic("OV0002", f"the file is no {encoding.upper()}: {error.reason}", place, "save it as UTF-8")
        raise DiagnosticError(finding) from error


def parse(text: str, name: str, limits: Limits = DEFAULT) -> tuple[Element, Source]:
    """The tree of a text, and the source that spans refer to.

    Raises:
        DiagnosticError: OV0001 it is not well-formed, OV0003 it has a document type, OV0004 it is past a limit.
    """
    source = Source(name, text)
    _check_tags(text, source, limits)
    data = text.encode("utf-8", "surrogatepass")
    is_plain = len(data) == len(text)
    # Without comments, sections of text and the like, a tag that stands somewhere is one.
    if b"<!" not in data and data.count(b"<?") < 2:
        with suppress(ExpatError, DiagnosticError):  # which are told with their places below
            tree = _Tree(ParserCreate("utf-8"), source, limits, is_plain=is_plain)
            tree.feed(data)
            return _finished(tree, data), source
    parser = ParserCreate("utf-8")
    tree = _Tree(parser, source, limits, is_plain=is_plain)
    try:
        parser.Parse(data, True)  # noqa: FBT003  expat's own interface
    except ExpatError as error:
        reason = ErrorString(error.code) or "not well-formed"
        place = tree.offset(parser.ErrorByteIndex, data)
        finding = Diagnostic(
            "OV0001", f"the XML is broken: {reason}", Span(source, place, place + 1), "restore the file"
        )
        raise DiagnosticError(finding) from error
    return _finished(tree, data), source


def _finished(tree: _Tree, data: bytes) -> Element:
    if not tree.is_plain:
        tree.count_code_points(data)
    return tree.root


def _check_tags(text: str, source: Source, limits: Limits) -> None:
    """Refuse very many elements, and very many or very long attributes, on which the parser itself takes long."""
    # All but the declaration in front; what comments hide is counted while it is parsed.
    count = text.count("<") - text.count("</") - text.count("<!")
    if count > limits.elements + 1:
        _refuse(source, 0, f"there are {count} elements", limits.elements)
    for found in _LONG_TAG.finditer(text):
        length = found.end() - found.start()
        if length > limits.tag:
            _refuse(source, found.start(), f"a tag has {length} characters", limits.tag)
        count = sum(1 for _ in _ATTRIBUTE.finditer(found[0]))
        if count > limits.attributes:
            _refuse(source, found.start(), f"an element has {count} attributes", limits.attributes)


def _refuse(source: Source, at: int, what: str, limit: int) -> None:
    span = Span(source, at, at + 1)
    raise DiagnosticError(Diagnostic("OV0004", f"{what}, more than {limit}", span, "a real model needs far fewer"))


class _Tree:
    """What the parser's events make."""

    def __init__(self, parser: Any, source: Source, limits: Limits, *, is_plain: bool) -> None:
        self.root = Element("")
        self.is_plain = is_plain
        self._parser = parser
        self._source = source
        self._limits = limits
        self._layers: list[Element] = []
        self._stack = [self.root]
        self._pieces: list[str] = []
        self._count = 0
        self._skipped = 0
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        self._install()

    def _doctype(self, *_: object) -> None:
        at = self._parser.CurrentByteIndex
        span = Span(self._source, at, at + 1)
        message = "the file declares a document type"
        raise DiagnosticError(Diagnostic("OV0003", message, span, "remove the DOCTYPE: IR files have none"))

    def _install(self) -> None:
        # A model has 20 elements a layer: what is done for each is done here, in one function for each event.
        parser, located, pieces, stack = self._parser, self._layers, self._pieces, self._stack
        push, pop, hear = stack.append, stack.pop, pieces.append
        most, deepest = self._limits.elements, self._limits.depth

        def start(tag: str, attributes: dict[str, str]) -> None:
            self._count = count = self._count + 1
            if tag == "dim":
                parser.CharacterDataHandler = hear
                pieces.clear()
                parent = stack[-1]
                if parent.dims is None:
                    parent.dims = []
                return
            element = Element(tag, attributes)
            stack[-1].children.append(element)
            push(element)
            if tag == "layer":
                element.at = parser.CurrentByteIndex + self._skipped
                located.append(element)
            parser.CharacterDataHandler = None if tag in _STRUCTURE else hear
            pieces.clear()
            if len(stack) > deepest or count > most:
                self._refuse(len(stack), count)

        def end(tag: str) -> None:
            if tag == "dim":
                dims = stack[-1].dims
                if dims is not None:
                    dims.append("".join(pieces))
            else:
                element = pop()
                if not pieces:
                    return
                if not element.children:
                    element.text = "".join(pieces).strip()
            parser.CharacterDataHandler = None
            pieces.clear()

        parser.StartElementHandler = start
        parser.EndElementHandler = end

    def feed(self, data: bytes) -> None:
        """Parse `data`, which has nothing but elements and text.

        Ports of a layer that are spelled like those of one before are the same elements: the parser does not see them.

        Raises:
            ExpatError: it is not well-formed, or DiagnosticError: it is past a limit; places are not the right ones.
        """
        parse, known = self._parser.Parse, dict[bytes, tuple[Element, int]]()
        position = 0
        for found in _PORTS.finditer(data):
            begin = found.start()
            if begin < position:
                continue
            closing = b"</" + found[1] + b">"
            end = data.find(closing, begin) + len(closing)
            if end < begin:
                break
            between, group, position = data[position:begin], data[begin:end], end
            layer = self._stack[-1]
            if layer.tag == "layer" and between.isspace():
                self._skipped += len(between)
            else:
                parse(between, False)  # noqa: FBT003
                layer = self._stack[-1]
            if layer.tag != "layer":
                parse(group, False)  # noqa: FBT003
                continue
            self._parser.CharacterDataHandler = None
            self._pieces.clear()
            same = known.get(group)
            if same is not None:
                layer.children.append(same[0])
                self._count += same[1]
                self._skipped += len(group)
                continue
            before, children = self._count, len(layer.children)
            parse(group, False)  # noqa: FBT003
            is_whole = self._stack[-1] is layer and len(layer.children) == children + 1
            if is_whole and len(group) <= _LONGEST_PORTS and len(known) < _MOST_PORTS:
                known[group] = layer.children[-1], self._count - before
        parse(data[position:], True)  # noqa: FBT003
        if self._count > self._limits.elements:
            self._refuse(0, self._count)

    def _refuse(self, depth: int, count: int) -> None:
        at = self._parser.CurrentByteIndex
        if depth > self._limits.depth:
            _refuse(self._source, at, f"{depth} elements are within each other", self._limits.depth)
        _refuse(self._source, at, f"there are {count} elements", self._limits.elements)

    def offset(self, byte: int, data: bytes) -> int:
        return byte if self.is_plain else len(data[:byte].decode("utf-8", "replace"))

    def count_code_points(self, data: bytes) -> None:
        """Turn places of layers, which expat gives in bytes, into places in the text."""
        byte = points = 0
        for layer in self._layers:
            points += len(data[byte : layer.at].decode("utf-8", "replace"))
            byte = layer.at
            layer.at = points


_ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", '"': "&quot;"} | {chr(code): f"&#{code:02};" for code in range(32)}
)
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render(root: Element) -> Iterator[str]:
    """The text of a tree in the layout of OpenVINO's writer, line by line."""
    yield '<?xml version="1.0"?>\n'
    pending: list[tuple[Element | None, int, str]] = [(root, 0, "")]
    while pending:
        element, depth, closing = pending.pop()
        if element is None:
            yield closing
            continue
        indent = "\t" * depth
        said = "".join([f' {name}="{value.translate(_ESCAPED)}"' for name, value in element.attributes.items()])
        if not element.children and not element.dims:
            text = element.text.translate(_IN_TEXT)
            yield (
                f"{indent}<{element.tag}{said}>{text}</{element.tag}>\n"
                if text
                else f"{indent}<{element.tag}{said} />\n"
            )
            continue
        yield f"{indent}<{element.tag}{said}>\n"
        for dim in element.dims or ():
            yield f"{indent}\t<dim>{dim.translate(_IN_TEXT)}</dim>\n"
        pending.append((None, depth, f"{indent}</{element.tag}>\n"))
        pending += [(child, depth + 1, "") for child in reversed(element.children)]
