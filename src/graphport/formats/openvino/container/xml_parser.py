"""The text of an IR file as a tree: expat without document types, within limits."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from pyexpat import ErrorString, ExpatError, ParserCreate
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.formats.openvino.container import xml_patterns
from graphport.formats.openvino.container.limits import DEFAULT, Limits
from graphport.formats.openvino.container.xml import NAMED, Element, Layer, Spelling
from graphport.formats.openvino.container.xml_patterns import (
    BLANK,
    CONSTANT,
    DATA,
    EDGE,
    EDGES,
    LAYER,
    LAYER_END,
    LAYER_TAG,
    MOST_KNOWN,
    NEXT_LAYER,
    STATED,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_ENCODINGS = {"utf-8": "utf-8", "us-ascii": "utf-8", "ascii": "utf-8", "iso-8859-1": "latin-1", "latin-1": "latin-1"}
_STRUCTURE = frozenset({"layers", "layer", "data", "input", "output", "port", "edges", "edge", "body", "port_map"})
"""Elements without text."""
_ATTRIBUTE = re.compile(r"=\s*[\"']")
_LONG = 1 << 16
"""Characters from one `<` to the next that are worth a look at their number of attributes."""

_PORTS = re.compile("<(input|output)>")
_LONGEST_KNOWN = 1 << 14
"""Characters of a spelling that is remembered."""
_INSIDE = 4
"""Depth of elements within a layer: layer, group, port, dim."""


def read_text(data: bytes, name: str) -> str:
    """Decode the text of a file: UTF-8, UTF-16 or UTF-32 with a byte order mark, ASCII or ISO-8859-1.

    Raises:
        DiagnosticError: OV0002 for any other encoding.
    """
    if data[:4] in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        encoding = "utf-32"
    elif data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-16"
    else:
        found = _ENCODING.match(data[:400].removeprefix(codecs.BOM_UTF8).lstrip())
        stated = "utf-8" if found is None else found[1].decode("ascii").lower()
        encoding = _ENCODINGS.get(stated, "")
        if not encoding:
            finding = Diagnostic(
                "OV0002", f"unsupported encoding {stated!r}", Span(Source(name)), "save the file as UTF-8"
            )
            raise DiagnosticError(finding)
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        place = Span(Source(name), None, None, f"byte {error.start}")
        finding = Diagnostic(
            "OV0002", f"the file is not valid {encoding.upper()}: {error.reason}", place, "save the file as UTF-8"
        )
        raise DiagnosticError(finding) from error


def parse(text: str, name: str, limits: Limits = DEFAULT) -> tuple[Element, Source]:
    """Parse a text to its element tree and the source of its locations.

    Layers with equal text share the list of their children.

    Raises:
        DiagnosticError: OV0001 not well-formed, OV0003 has a document type, OV0004 exceeds a limit.
    """
    source = Source(name, text)
    _check_tags(text, source, limits)
    # Without comments and CDATA sections, every `<` starts a tag.
    if _has_tags_only(text):
        with suppress(ExpatError, DiagnosticError):  # reported with locations by the second parse
            tree = _Tree(source, limits)
            tree.feed_new()
            return tree.root, source
    tree = _Tree(source, limits)
    try:
        tree.feed(0, len(text), is_last=True)
    except ExpatError as error:
        reason = ErrorString(error.code) or "not well-formed"
        place = tree.error_place
        finding = Diagnostic(
            "OV0001", f"malformed XML: {reason}", Span(source, place, place + 1), "restore the file: it is corrupt"
        )
        raise DiagnosticError(finding) from error
    return tree.root, source


def _has_tags_only(text: str) -> bool:
    # One character is found much faster than two.
    return ("!" not in text or "<!" not in text) and (text.count("?") < 2 or text.count("<?") < 2)


def _check_tags(text: str, source: Source, limits: Limits) -> None:
    """Refuse very many elements, and very many or very long attributes, on which the parser itself takes long."""
    # All but the declaration in front; what comments hide is counted while it is parsed.
    count = text.count("<")
    if count > limits.elements + 1:
        count -= text.count("</") + text.count("<!")
    if count > limits.elements + 1:
        _refuse(source, 0, f"the file has {count} elements", limits.elements)
    begin = text.find("<")
    while 0 <= begin < len(text) - _LONG:
        following = text.rfind("<", begin + 1, begin + _LONG)
        if following < 0:
            following = text.find("<", begin + 1)
            _check_tag(text, begin, len(text) if following < 0 else following, source, limits)
        begin = following


def _check_tag(text: str, begin: int, end: int, source: Source, limits: Limits) -> None:
    if text[begin + 1] == "!":
        return
    if end - begin > limits.tag:
        _refuse(source, begin, f"a tag has {end - begin} characters", limits.tag)
    count = sum(1 for _ in _ATTRIBUTE.finditer(text, begin, end))
    if count > limits.attributes:
        _refuse(source, begin, f"an element has {count} attributes", limits.attributes)


def _refuse(source: Source, at: int, what: str, limit: int) -> None:
    span = Span(source, at, at + 1)
    raise DiagnosticError(
        Diagnostic(
            "OV0004", f"{what}, the limit is {limit}", span, "check the file: it is too large to be the XML of a model"
        )
    )


def _has_names(children: list[Element], names: list[str]) -> bool:
    """Whether `names` are the values of all `names` attributes of ports in `children`, all in the last `output`."""
    found = [
        (group, port.attributes["names"]) for group in children for port in group.children if "names" in port.attributes
    ]
    outputs = [group for group in children if group.tag == "output"]
    return names == [name for _, name in found] and all(group in outputs[-1:] for group, _ in found)


def _data_of(found: re.Match[str]) -> Element:
    element_type, shape, offset, size = found.groups()
    return Element("data", {"element_type": element_type, "shape": shape, "offset": offset, "size": size})


_Known = dict[tuple[int | str, ...], tuple[list[Element], int]]
"""The children of layers, and the number of all elements in them, by the depth and the pieces of their text."""


class _Tree:
    """Build the element tree of `source` from the parser's events."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.root = Element("")
        self._parser: Any = ParserCreate("utf-8")
        self._source = source
        self._text = source.text or ""
        self._limits = limits
        self._layers: list[Element] = []
        """Those whose place is one in the bytes that the parser has seen."""
        self._stack = [self.root]
        self._pieces: list[str] = []
        self._count = 0
        self._seen = 0
        self._stretch = 0, b""
        self._known_ports: xml_patterns.Known = {}
        self._known_groups: xml_patterns.Known = {}
        self._ports: xml_patterns.Ports = {}
        self._known_layers: _Known = {}
        self._known_unnamed: _Known = {}
        """Layers by the attributes of `data` and the text between tensor names; also without `data`."""
        self._last: dict[str, Spelling] = {}
        """Last layer of each type: most layers have the same text as the last one of their type."""
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._install()

    def _doctype(self, *_: object) -> None:
        at = self._at(self._parser.CurrentByteIndex)
        span = Span(self._source, at, at + 1)
        message = "document type declarations (DOCTYPE) are not supported"
        raise DiagnosticError(Diagnostic("OV0003", message, span, "remove the DOCTYPE"))

    def _install(self) -> None:
        # A model has 20 elements per layer, so each event is handled in a single function.
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
                element.at = parser.CurrentByteIndex
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

    def _refuse(self, depth: int, count: int) -> None:
        at = self._at(self._parser.CurrentByteIndex)
        if depth > self._limits.depth:
            _refuse(self._source, at, f"elements are nested {depth} levels deep", self._limits.depth)
        _refuse(self._source, at, f"the file has {count} elements", self._limits.elements)

    def feed(self, begin: int, end: int, *, is_last: bool = False) -> None:
        """Parse a stretch of the text."""
        data = self._text[begin:end].encode("utf-8", "surrogatepass")
        self._stretch = begin, data
        self._parser.Parse(data, is_last)
        self._locate(begin, data)
        self._seen += len(data)

    def _feed_whole(self, begin: int, end: int) -> None:
        """Parse a stretch that ends between two tags, or raise `ExpatError`."""
        self.feed(begin, end)
        if self._parser.CurrentByteIndex != self._seen:
            raise ExpatError

    def _locate(self, begin: int, data: bytes) -> None:
        """Convert the positions of layers from expat's byte offsets to character indices."""
        byte = 0
        for layer in self._layers:
            after = layer.at - self._seen
            begin += len(data[byte:after].decode("utf-8", "replace"))
            byte = after
            layer.at = begin
        self._layers.clear()

    def _at(self, byte: int) -> int:
        begin, data = self._stretch
        return begin + len(data[: byte - self._seen].decode("utf-8", "replace"))

    @property
    def error_place(self) -> int:
        """Character index at which the parser reported an error."""
        return self._at(self._parser.ErrorByteIndex)

    # Reuse of layers with equal text

    def feed_new(self) -> None:
        """Parse the whole text, which has only elements and character data; reuse layers with equal text.

        Layers with equal text after their own tag share children, equal ports share elements, and a list of edges in
        standard form is not parsed: the XML parser does not see them.

        Raises:
            ExpatError: the text is not well-formed.
            DiagnosticError: the text exceeds a limit; locations may be wrong.
        """
        text, stack, last = self._text, self._stack, self._last
        next_layer, following, layer = NEXT_LAYER.match, LAYER.search, Layer.of
        position = place = 0
        while True:
            found = next_layer(text, place) if place == position else None
            if found is None:
                found = following(text, place)
                if found is None:
                    break
                if text[position : found.start()].strip(BLANK):
                    self._feed_edges(position, found.start())
            number, name, type, version = found.groups()
            position, place = found.start(1) - LAYER_TAG, found.end()
            parent = stack[-1]
            if parent.tag != "layers":
                continue
            spelling = last.get(type)
            if spelling is not None and spelling.depth == len(stack) and spelling.version == version:
                if text.startswith(spelling.text, place):
                    parent.children.append(layer(number, name, spelling, spelling.children, (), position))
                    self._count += spelling.count
                    position = place = place + len(spelling.text)
                    continue
                data = CONSTANT.match(text, place) if type == "Const" else None
                if data is not None and text.startswith(spelling.text, data.end()):
                    children = [_data_of(data), *spelling.children]
                    parent.children.append(layer(number, name, spelling, children, (), position))
                    self._count += spelling.count + 1
                    position = place = data.end() + len(spelling.text)
                    continue
            end = self._new_layer(found, position)
            if end:
                position = place = end
        self._feed_edges(position, len(text))
        self.feed(len(text), len(text), is_last=True)
        if self._count > self._limits.elements:
            self._refuse(0, self._count)

    def _new_layer(self, found: re.Match[str], begin: int) -> int:
        """Create the layer at `begin` from a known or self-contained text; return its end, or 0 if impossible."""
        text, parent, depth, inside = self._text, self._stack[-1], len(self._stack), found.end()
        number, name, type, version = found.groups()
        end = text.find(LAYER_END, inside)
        if end < 0:
            return 0
        behind, rest = end + len(LAYER_END), text[inside:end]
        names: Sequence[str] = ()
        same = self._known_layers.get((depth, rest))
        is_known = same is not None
        if same is None and "<layer" not in rest and "body" not in rest:
            same, names = self._alike(inside, end, rest)
            if same is None:
                same, names = self._parse_standard_layer(inside, end), ()
            if same is None:
                self._feed_layer(begin, inside, end)
                return behind
        if same is None:
            return 0
        children, count = same
        spelling = Spelling(type, version, children, count, depth, text[inside:behind])
        parent.children.append(Layer.of(number, name, spelling, children, names, begin))
        self._count += count
        data = CONSTANT.match(text, inside, end) if type == "Const" and not names else None
        if data is not None:
            self._last[type] = Spelling(type, version, children[1:], count - 1, depth, text[data.end() : behind])
        elif is_known:
            self._last[type] = spelling
        return behind

    def _alike(self, inside: int, end: int, rest: str) -> tuple[tuple[list[Element], int] | None, list[str]]:
        """Return the children of a known layer that differs only in `data` and tensor names, and these names."""
        found, depth = DATA.match(self._text, inside, end), len(self._stack)
        stated, behind = ("", rest) if found is None else (found[1], self._text[found.end() : end])
        pieces = NAMED.split(behind)
        names = pieces[2::3]
        del pieces[2::3]
        known = self._known_unnamed
        same = known.get((depth, stated, *pieces))
        if same is not None or not stated:
            return same, names
        tail = known.get((depth, "", *pieces))
        attributes = [] if tail is None else STATED.findall(stated)
        data = Element("data", dict(attributes))
        if tail is None or len(data.attributes) < len(attributes):
            return None, names
        same = [data, *tail[0]], tail[1] + 1
        # Constants are never shared: each has its own offset.
        if "offset" not in data.attributes:
            if names:
                self._remember(known, (depth, stated, *pieces), *same, len(rest))
            else:
                self._remember(self._known_layers, (depth, rest), *same, len(rest))
        return same, names

    def _remember(
        self, known: _Known, key: tuple[int | str, ...], children: list[Element], count: int, length: int
    ) -> None:
        if length <= _LONGEST_KNOWN and len(known) < MOST_KNOWN:
            known[key] = children, count

    def _feed_layer(self, begin: int, inside: int, end: int) -> None:
        """Parse a layer that is not in standard form and has no nested layers; cache it by its text."""
        stack, parent, before = self._stack, self._stack[-1], self._count
        count = len(parent.children)
        self._feed_ports(begin, end + len(LAYER_END))
        if stack[-1] is not parent or len(parent.children) != count + 1:
            return
        layer = parent.children[-1]
        if layer.dims is None:
            self._remember_layer(inside, end, layer.children, self._count - before)

    def _parse_standard_layer(self, inside: int, end: int) -> tuple[list[Element], int] | None:
        """Return the children of a layer in standard form, and remember them."""
        if len(self._stack) >= self._limits.depth - _INSIDE:
            return None
        found = xml_patterns.children(self._text, inside, end, self._known_groups, self._ports)
        if found is not None:
            self._remember_layer(inside, end, *found)
        return found

    def _remember_layer(self, inside: int, end: int, children: list[Element], count: int) -> None:
        depth, rest, data = len(self._stack), self._text[inside:end], DATA.match(self._text, inside, end)
        self._remember(self._known_layers, (depth, rest), children, count, len(rest))
        pieces = NAMED.split(rest if data is None else self._text[data.end() : end])
        names = pieces[2::3]
        if not _has_names(children, names):
            return
        del pieces[2::3]
        key = depth, "", *pieces
        if data is None:
            self._remember(self._known_unnamed, key, children, count, len(rest))
            return
        self._remember(self._known_unnamed, key, children[1:], count - 1, len(rest))
        self._remember(self._known_unnamed, (depth, data[1], *pieces), children, count, len(rest))

    def _feed_ports(self, begin: int, end: int) -> None:
        text, stack, known = self._text, self._stack, self._known_ports
        position = begin
        for found in _PORTS.finditer(text, begin, end):
            start, closing = found.start(), f"</{found[1]}>"
            stop = text.find(closing, start, end) + len(closing)
            if start < position or stop < start:
                continue
            self._feed_whole(position, start)
            position = stop
            layer, group, before = stack[-1], text[start:stop], self._count
            same = known.get(group) if layer.tag == "layer" else None
            if same is not None:
                layer.children.append(same[0])
                self._count += same[1]
                continue
            children = len(layer.children)
            self._feed_whole(start, stop)
            is_whole = stack[-1] is layer and layer.tag == "layer" and len(layer.children) == children + 1
            if is_whole and len(group) <= _LONGEST_KNOWN and len(known) < MOST_KNOWN:
                known[group] = layer.children[-1], self._count - before
        self._feed_whole(position, end)

    def _feed_edges(self, begin: int, end: int) -> None:
        """Parse the text between two layers; lists of edges in standard form are matched by a pattern instead."""
        for found in EDGES.finditer(self._text, begin, end):
            self._feed_whole(begin, found.start())
            begin = found.start()
            if 1 < len(self._stack) < self._limits.depth - 1:
                edges = Element("edges")
                edges.ends = EDGE.findall(self._text, *found.span())
                self._stack[-1].children.append(edges)
                self._count += 1 + len(edges.ends)
                begin = found.end()
        self._feed_whole(begin, end)
