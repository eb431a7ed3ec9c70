"""SVG drawing of a model without scripts and external references."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from graphport.reports import colors
from graphport.reports.layout import Layout, layout, tops
from graphport.reports.tree import HEADER, PAD, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.reports.tree import Box

_FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
_ROUND = {"n": 4, "s": 4, "i": 12, "o": 12}


def drawing(document: Mapping[str, Any], *, most: int = 400) -> str:
    """Return the first model with scopes expanded up to `most` boxes, coloured by difference or by operator family."""
    tree = Tree(document["models"][0])
    placed = _Placed(tree, tree.unfolded(most), _Palette(document))
    width, height = placed.size(-1)
    body = "".join([*placed.draw(-1, 0.0, 0.0), *placed.joints()])
    title = _escape(document["title"])
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='{-PAD} {-PAD} {width + 2 * PAD:.0f} {height + 2 * PAD:.0f}' "
        f"width='{width + 2 * PAD:.0f}' height='{height + 2 * PAD:.0f}' role='img'><title>{title}</title>"
        f"<rect x='{-PAD}' y='{-PAD}' width='100%' height='100%' fill='#ffffff'/>{body}</svg>\n"
    )


def _escape(text: str) -> str:
    """Escape a string for XML, which permits no control characters and no surrogates."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


class _Palette:
    """The colour of a node and the text below its name."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        nodes = document["models"][0]["nodes"]
        families = dict.fromkeys(node["family"] for node in nodes if "family" in node)
        self._stripes = {name: colors.FAMILIES[i % len(colors.FAMILIES)] for i, name in enumerate(families)}
        self._errors = {error["a"]: error for error in document.get("errors", ())}
        self._nodes = nodes

    def stripe(self, index: int) -> str:
        """Return the colour of the operator family of a node."""
        return self._stripes.get(self._nodes[index].get("family", ""), "#888888")

    def error(self, index: int) -> Mapping[str, Any] | None:
        """Return the worst difference among the results of a node."""
        found = [self._errors[v] for v in self._nodes[index]["outputs"] if v in self._errors]
        return min(found, key=lambda e: (e["passed"], e["snr_db"] if e["snr_db"] is not None else 1e9), default=None)


@dataclass(frozen=True, slots=True)
class _Scope:
    layout: Layout
    tops: list[float]
    sizes: list[tuple[float, float]]


class _Placed:
    """Positions of scopes, computed from the innermost scope outwards, and the sizes of their boxes."""

    def __init__(self, tree: Tree, opened: set[int], palette: _Palette) -> None:
        self._tree = tree
        self._opened = opened
        self._palette = palette
        self._scopes: dict[int, _Scope] = {}
        self._frames: dict[tuple[str, int], tuple[float, float, float, float]] = {}
        # A scope follows its parent, so that all inner scopes are placed when iterating backwards.
        for scope in [*sorted(opened - {-1}, reverse=True), -1]:
            boxes = tree.boxes[scope]
            sizes = [self.size(b.index) if b.kind == "s" and b.index in opened else (b.width, b.height) for b in boxes]
            found = layout([width for width, _ in sizes], tree.edges.get(scope, ()))
            self._scopes[scope] = _Scope(found, tops(found, [height for _, height in sizes]), sizes)

    def size(self, scope: int) -> tuple[float, float]:
        """Return width and height of a scope with its frame."""
        of = self._scopes[scope]
        width = max((of.layout.x[i] + of.sizes[i][0] / 2 for i in range(len(of.sizes))), default=0.0)
        around = (0.0, 0.0) if scope == -1 else (2 * PAD, 2 * PAD + HEADER)
        return width + around[0], of.tops[-1] + around[1]

    def draw(self, scope: int, left: float, top: float) -> list[str]:
        """Draw the edges and boxes of a scope with the given inner corner."""
        of = self._scopes[scope]
        found: list[str] = []
        where: dict[int, tuple[float, float]] = {}
        for number, layer in enumerate(of.layout.layers):
            for entry in layer:
                where[entry] = (left + of.layout.x[entry], top + of.tops[number])
        for edge in of.layout.edges:
            (x0, y0), (x1, y1) = where[edge.source], where[edge.target]
            points = [(x0, y0 + of.sizes[edge.source][1]), *(where[bend] for bend in edge.bends), (x1, y1)]
            found.append(f"<path d='{curve(points)}' fill='none' stroke='#8a8f98' stroke-width='1.2'/>")
        for index, box in enumerate(self._tree.boxes[scope]):
            x, y = where[index]
            self._frames[box.kind, box.index] = (x - of.sizes[index][0] / 2, y, *of.sizes[index])
            found += self._box(box, x - of.sizes[index][0] / 2, y, *of.sizes[index])
        return found

    def joints(self) -> list[str]:
        """Draw the lines from the frames of expanded scopes to the boxes inside; call after drawing everything else."""
        found: dict[str, None] = {}
        for source, target, _ in self._tree.links():
            scope, one, other = self._tree.meeting(source, target)
            if scope not in self._opened or one == other:
                continue
            boxes = self._tree.boxes[scope]
            for end, outer, is_source in ((source, boxes[one], True), (target, boxes[other], False)):
                inner = self._visible(end)
                if inner != (outer.kind, outer.index):
                    points = [
                        _port(self._frames[each], is_below=is_source) for each in (inner, (outer.kind, outer.index))
                    ]
                    path = curve(points if is_source else points[::-1])
                    found[f"<path d='{path}' fill='none' stroke='#8a8f98' stroke-dasharray='4 3'/>"] = None
        return list(found)

    def _visible(self, end: tuple[str, int]) -> tuple[str, int]:
        """Return the innermost drawn box that contains an end of a link."""
        while end not in self._frames:
            end = "s", self._tree.place[end][0]
        return end

    def _box(self, box: Box, x: float, y: float, width: float, height: float) -> list[str]:
        is_open = box.kind == "s" and box.index in self._opened
        fill = "#f3f5f8" if is_open else "#e4e9f0" if box.kind == "s" else "#eef7f2" if box.kind in "io" else "#ffffff"
        error = self._palette.error(box.index) if box.kind == "n" else None
        if error is not None:
            fill = colors.snr_color(error["snr_db"], passed=error["passed"])
        parts = [_rect(x, y, width, height, fill, _ROUND[box.kind])]
        if is_open:
            parts.append(_text(box.title, x + 8, y + 16, colors.text_color(fill), 12, "bold", "start"))
            return parts + self.draw(box.index, x + PAD, y + PAD + HEADER)
        if box.kind == "n":
            stripe = self._palette.stripe(box.index)
            parts.append(f"<rect x='{x:.1f}' y='{y:.1f}' width='5' height='{height:.1f}' fill='{stripe}'/>")
        middle, ink = x + width / 2 + (2 if box.kind == "n" else 0), colors.text_color(fill)
        parts.append(_text(box.title, middle, y + 16, ink, 12, "bold" if box.kind in "ns" else "normal", "middle"))
        label = box.label if error is None or error["snr_db"] is None else f"{error['snr_db']:.1f} dB"
        if label:
            parts.append(_text(label, middle, y + 31, ink, 10, "normal", "middle"))
        return parts


def _port(frame: tuple[float, float, float, float], *, is_below: bool) -> tuple[float, float]:
    x, y, width, height = frame
    return x + width / 2, y + (height if is_below else 0.0)


def _rect(x: float, y: float, width: float, height: float, fill: str, corner: int) -> str:
    return (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' rx='{corner}' fill='{fill}' "
        "stroke='#5b6470' stroke-width='1'/>"
    )


def _text(text: str, x: float, y: float, fill: str, size: int, weight: str, anchor: str) -> str:
    shown = _escape(text)
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {_FONT} font-size='{size}' font-weight='{weight}' text-anchor='{anchor}' "
        f"fill='{fill}'>{shown}</text>"
    )


def curve(points: list[tuple[float, float]]) -> str:
    """Return a path through points with vertical tangents."""
    (x, y), *rest = points
    stated = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in rest:
        middle = (y + next_y) / 2
        stated.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return "".join(stated)
