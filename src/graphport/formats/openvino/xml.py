"""Elements of an IR file, and their text in the layout that OpenVINO writes."""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Ends = tuple[str, str, str, str]
"""An edge: the layer and port that it comes from, and those that it goes to."""


class Element:
    """One element; of its text only that of `dim` and of elements without children is kept.

    `ends` are the edges of `edges` that have four attributes in OpenVINO's order and nothing else: those in front of
    `children`.

    `names` are of layers that differ from one before in the attributes `names` of output ports alone, and share its
    children: what these attributes are here, in order. Where it is empty, children say what they are.
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


PLAIN = re.compile(r'[^"<&\0-\x1f\ud800-\udfff\ufffe\uffff]*+')
"""Text that stands in an attribute as it is."""
NAMED = re.compile(rf'(<port id="\d{{1,18}}" precision="\w{{1,64}}" names=")({PLAIN.pattern})(?=")', re.ASCII)
"""The tag of a port as far as the names of its tensor, and these."""

_BLOCK = 1 << 12
"""Pieces of text that are written at once."""
_ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", '"': "&quot;"} | {chr(code): f"&#{code:02};" for code in range(32)}
)
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render(root: Element) -> Iterator[str]:
    """The text of a tree in the layout of OpenVINO's writer, block by block."""
    # Layers that were spelled alike have the same list of children, whose text is kept from the second time on.
    pieces = chain(('<?xml version="1.0"?>\n',), _rendered([root], 0, {}))
    while block := "".join(islice(pieces, _BLOCK)):
        yield block


def _inside(layer: Element, depth: int) -> list[str]:
    """The text of what is in a layer; where it has names, every third piece from the third on is one."""
    text = "".join(_rendered(layer.children, depth, {}))
    return NAMED.split(text) if layer.names else [text]


_Known = dict[tuple[int, int, bool], "list[str] | None"]


def _rendered(roots: Sequence[Element], depth: int, known: _Known) -> Iterator[str]:
    pending: list[tuple[Element | None, int, str]] = [(root, depth, "") for root in reversed(roots)]
    while pending:
        element, depth, closing = pending.pop()
        if element is None:
            yield closing
            continue
        indent = "\t" * depth
        children = element.children
        if not children and not element.dims and not element.ends:
            yield _empty(element, indent)
            continue
        yield f"{indent}<{element.tag}{_stated(element)}>\n"
        if element.ends or element.dims:
            yield from _lines(element, indent)
        closing = f"{indent}</{element.tag}>\n"
        if element.tag == "layer":
            key = id(children), depth, bool(element.names)
            if element.names or key in known:
                pieces = known.get(key)
                if pieces is None:
                    pieces = _inside(element, depth + 1)
                    known[key] = pieces if key in known else None
                pieces[2::3] = element.names
                yield "".join(pieces)
                yield closing
                continue
            known[key] = None
        pending.append((None, depth, closing))
        pending += [(child, depth + 1, "") for child in reversed(children)]


def _stated(element: Element) -> str:
    # Most of what is stated are numbers and words.
    return "".join(
        [
            f' {name}="{value if value.isalnum() else value.translate(_ESCAPED)}"'
            for name, value in element.attributes.items()
        ]
    )


def _empty(element: Element, indent: str) -> str:
    """The whole of an element that has nothing in it but text."""
    if element.text:
        return f"{indent}<{element.tag}{_stated(element)}>{element.text.translate(_IN_TEXT)}</{element.tag}>\n"
    return f"{indent}<{element.tag}{_stated(element)} />\n"


def _lines(element: Element, indent: str) -> Iterator[str]:
    """The edges and dims of an element."""
    for ends in element.ends:
        a, b, c, d = ends if "".join(ends).isdecimal() else [end.translate(_ESCAPED) for end in ends]
        yield f'{indent}\t<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}" />\n'
    for dim in element.dims or ():
        yield f"{indent}\t<dim>{dim.translate(_IN_TEXT)}</dim>\n"
