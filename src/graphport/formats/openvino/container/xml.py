"""Elements of an IR file, and their text in the layout that OpenVINO writes."""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Ends = tuple[str, str, str, str]
"""An edge: source layer and port, target layer and port."""


class Element:
    """An XML element. Text is kept only for `dim` and elements without children.

    `ends` are the edges at the start of `edges` that have exactly the four attributes in OpenVINO's order; they precede
    `children`.

    `names` belongs to a layer that differs from an earlier one only in the `names` attributes of output ports and
    shares its children: it holds these attributes in order. If it is empty, the children hold them.
    """

    __slots__ = ("at", "attributes", "children", "dims", "ends", "names", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str] | None = None, at: int = 0) -> None:
        self.tag = tag
        self.attributes: dict[str, str] = {} if attributes is None else attributes
        self.children: list[Element] = []
        self.dims: list[str] | None = None
        self.ends: Sequence[Ends] = ()
        self.names: Sequence[str] = ()
        self.text = ""
        self.at = at

    def child(self, tag: str) -> Element | None:
        """The first child of that tag."""
        for child in self.children:
            if child.tag == tag:
                return child
        return None


class Spelling:
    """Shared text of layers that are equal after their names; `form` caches their properties.

    Constants that are equal after their `data` share one, too, but not their children.
    """

    __slots__ = ("children", "count", "depth", "form", "text", "type", "version")

    def __init__(self, type: str, version: str, children: list[Element], count: int, depth: int, text: str) -> None:
        self.type = type
        self.version = version
        self.children = children
        self.count = count
        """All elements inside."""
        self.depth = depth
        self.text = text
        """From the end of the layer's tag on to the end of the layer."""
        self.form: object = None


class Layer(Element):
    """A layer whose id is written canonically: no blanks, no sign, no leading zeros.

    What few ask for is made for them: a file has 20,000.
    """

    __slots__ = ("name", "number", "spelling")

    _DEFAULTS: ClassVar[dict[str, Any]] = {"tag": "layer", "dims": None, "ends": (), "text": ""}

    @staticmethod
    def of(number: str, name: str, spelling: Spelling, children: list[Element], names: Sequence[str], at: int) -> Layer:
        """Create a layer whose element begins at character `at`."""
        layer = _bare(Layer)
        layer.number = number
        layer.name = name
        layer.spelling = spelling
        layer.children = children
        layer.names = names
        layer.at = at
        return layer

    def __getattr__(self, name: str) -> Any:
        if name == "attributes":
            spelling = self.spelling
            self.attributes = {
                "id": self.number, "name": self.name, "type": spelling.type, "version": spelling.version,
            }  # fmt: skip
            return self.attributes
        if name not in self._DEFAULTS:
            message = f"a layer has no {name}"
            raise AttributeError(message)
        setattr(self, name, self._DEFAULTS[name])
        return self._DEFAULTS[name]


_bare = object.__new__

PLAIN = re.compile(r'[^"<&\0-\x1f\ud800-\udfff\ufffe\uffff]*+')
"""Characters that need no escape in an attribute."""
NAMED = re.compile(rf'(<port id="\d{{1,18}}" precision="\w{{1,64}}" names=")({PLAIN.pattern})(?=")', re.ASCII)
"""The tag of a port up to the names of its tensor, and the names."""

_BLOCK = 1 << 12
"""Pieces of text that are written at once."""
_ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", '"': "&quot;"} | {chr(code): f"&#{code:02};" for code in range(32)}
)
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render(root: Element) -> Iterator[str]:
    """The text of a tree in the layout of OpenVINO's writer, block by block."""
    # Layers with equal text share one list of children, whose rendered text is cached from the second use on.
    pieces = chain(('<?xml version="1.0"?>\n',), _rendered([root], 0, {}))
    while block := "".join(islice(pieces, _BLOCK)):
        yield block


def _inside(children: Sequence[Element], depth: int, *, has_names: bool) -> list[str]:
    """Render the children of a layer; with `has_names` split the text at tensor names: pieces 2, 5, 8, … are names."""
    text = "".join(_rendered(children, depth, {}))
    return NAMED.split(text) if has_names else [text]


_Known = dict[tuple[int, int, bool], "list[str] | None"]


def _rendered(roots: Sequence[Element], depth: int, known: _Known) -> Iterator[str]:
    pending: list[tuple[Element | None, int, str]] = [(root, depth, "") for root in reversed(roots)]
    while pending:
        element, depth, closing = pending.pop()
        if element is None:
            yield closing
            continue
        if type(element) is Layer:
            yield _layer(element, depth, known)
            continue
        indent = "\t" * depth
        children = element.children
        if not children and not element.dims and not element.ends:
            yield _empty(element, indent)
            continue
        yield f"{indent}<{element.tag}{_format_attributes(element)}>\n"
        if element.ends or element.dims:
            yield from _lines(element, indent)
        closing = f"{indent}</{element.tag}>\n"
        if type(children[-1] if children else None) is Layer and {Layer}.issuperset(map(type, children)):
            for layer in cast("list[Layer]", children):
                yield _layer(layer, depth + 1, known)
            yield closing
            continue
        if element.tag == "layer":
            key = id(children), depth, bool(element.names)
            if element.names or key in known:
                pieces = known.get(key)
                if pieces is None:
                    pieces = _inside(children, depth + 1, has_names=bool(element.names))
                    known[key] = pieces if key in known else None
                pieces[2::3] = element.names
                yield "".join(pieces)
                yield closing
                continue
            known[key] = None
        pending.append((None, depth, closing))
        pending += [(child, depth + 1, "") for child in reversed(children)]


def _layer(layer: Layer, depth: int, known: _Known) -> str:
    """Return the text of a layer that was read and needs no escapes."""
    indent, spelling = "\t" * depth, layer.spelling
    head = f'{indent}<layer id="{layer.number}" name="{layer.name}" type="{spelling.type}" version="{spelling.version}"'
    if not layer.children:
        return f"{head} />\n"
    key = id(spelling.children), depth, bool(layer.names)
    pieces = known.get(key)
    if pieces is None:
        pieces = known[key] = _inside(spelling.children, depth + 1, has_names=bool(layer.names))
    if layer.names:
        pieces[2::3] = layer.names
    own = "" if layer.children is spelling.children else _empty(layer.children[0], indent + "\t")
    return f"{head}>\n{own}{''.join(pieces)}{indent}</layer>\n"


def _format_attributes(element: Element) -> str:
    # Most attributes are alphanumeric.
    return "".join(
        [
            f' {name}="{value if value.isalnum() else value.translate(_ESCAPED)}"'
            for name, value in element.attributes.items()
        ]
    )


def _empty(element: Element, indent: str) -> str:
    """Render an element that contains only text, or nothing."""
    if element.text:
        return (
            f"{indent}<{element.tag}{_format_attributes(element)}>{element.text.translate(_IN_TEXT)}</{element.tag}>\n"
        )
    return f"{indent}<{element.tag}{_format_attributes(element)} />\n"


def _lines(element: Element, indent: str) -> Iterator[str]:
    """Yield the lines of the edges and dims of an element."""
    ends = element.ends
    if not "".join(chain.from_iterable(ends)).isdecimal():
        ends = [(*[end.translate(_ESCAPED) for end in each],) for each in ends]
    for a, b, c, d in ends:
        yield f'{indent}\t<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}" />\n'
    for dim in element.dims or ():
        yield f"{indent}\t<dim>{dim.translate(_IN_TEXT)}</dim>\n"
