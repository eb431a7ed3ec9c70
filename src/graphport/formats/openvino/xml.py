"""Elements of an IR file, and their text in the layout that OpenVINO writes."""

from __future__ import annotations

import re
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

_ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", '"': "&quot;"} | {chr(code): f"&#{code:02};" for code in range(32)}
)
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render(root: Element) -> Iterator[str]:
    """The text of a tree in the layout of OpenVINO's writer, piece by piece."""
    yield '<?xml version="1.0"?>\n'
    # Layers that were spelled alike have the same list of children, whose text is kept from the second time on.
    yield from _rendered([root], 0, {})


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
        yield from _opening(element, "\t" * depth)
        children = element.children
        if not children and not element.dims and not element.ends:
            continue
        closing = "\t" * depth + f"</{element.tag}>\n"
        key = id(children), depth, bool(element.names)
        if element.tag == "layer" and (element.names or key in known):
            pieces = known.get(key)
            if pieces is None:
                pieces = _inside(element, depth + 1)
                known[key] = pieces if key in known else None
            pieces[2::3] = element.names
            yield from pieces
            yield closing
            continue
        if element.tag == "layer":
            known[key] = None
        pending.append((None, depth, closing))
        pending += [(child, depth + 1, "") for child in reversed(children)]


def _opening(element: Element, indent: str) -> Iterator[str]:
    """All of an element in front of its children; the whole of one that has nothing in it but text."""
    stated = "".join([f' {name}="{value.translate(_ESCAPED)}"' for name, value in element.attributes.items()])
    if not element.children and not element.dims and not element.ends:
        text = element.text.translate(_IN_TEXT)
        yield (
            f"{indent}<{element.tag}{stated}>{text}</{element.tag}>\n"
            if text
            else f"{indent}<{element.tag}{stated} />\n"
        )
        return
    yield f"{indent}<{element.tag}{stated}>\n"
    for ends in element.ends:
        a, b, c, d = ends if "".join(ends).isdecimal() else [end.translate(_ESCAPED) for end in ends]
        yield f'{indent}\t<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}" />\n'
    for dim in element.dims or ():
        yield f"{indent}\t<dim>{dim.translate(_IN_TEXT)}</dim>\n"
