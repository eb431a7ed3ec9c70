"""Nested boxes of a model and their widths, shared by drawings and the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEIGHT = 38.0
PILL = 24.0
HEADER = 24.0
PAD = 14.0
_LETTER_WIDTH = 6.7
_MIN_BOX_WIDTH, _MAX_BOX_WIDTH = 72.0, 240.0
_MAX_NAME_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Box:
    """A box; `kind` is `n` for a node, `s` for a scope, `i` and `o` for a model input and output."""

    kind: str
    index: int
    title: str
    label: str
    width: float
    height: float


class Tree:
    """Boxes by scope (`-1` is the model itself) and the edges between the boxes of each scope."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self.model = model
        self.nodes = model["nodes"]
        self.scopes = model["scopes"]
        self.boxes: dict[int, list[Box]] = {-1: list[Box]()}
        self.place: dict[tuple[str, int], tuple[int, int]] = {}
        self.counts = self._counts()
        outer = model["graphs"][0]
        for value in outer["inputs"]:
            self._add_box(-1, self._pill("i", value))
        for scope, entry in self._boxes_in_order():
            self._add_box(scope, entry)
        for position in range(len(outer["outputs"])):
            self._add_box(-1, self._pill("o", position))
        self.edges = self._edges()

    def _add_box(self, scope: int, box: Box) -> None:
        boxes = self.boxes.setdefault(scope, list[Box]())
        self.place[box.kind, box.index] = (scope, len(boxes))
        boxes.append(box)

    def _counts(self) -> list[int]:
        counts = [0] * len(self.scopes)
        for node in self.nodes:
            if "scope" in node:
                counts[node["scope"]] += 1
        for index in reversed(range(len(self.scopes))):
            parent = self.scopes[index].get("parent")
            if parent is not None:
                counts[parent] += counts[index]
        return counts

    def _boxes_in_order(self) -> Iterator[tuple[int, Box]]:
        """Yield each node and scope with its parent scope, in node order."""
        seen: set[int] = set()
        for index, node in enumerate(self.nodes):
            if node.get("constant"):
                continue
            home = node.get("scope", -1)
            chain = list[int]()
            scope = home
            while scope != -1 and scope not in seen:
                seen.add(scope)
                chain.append(scope)
                scope = self.scopes[scope].get("parent", -1)
            for each in reversed(chain):
                yield self.scopes[each].get("parent", -1), self._folded(each)
            yield home, self._node(index, node)

    def _node(self, index: int, node: Mapping[str, Any]) -> Box:
        name = node["name"] or next((self.model["values"][v]["name"] for v in node["outputs"] if v is not None), "")
        return Box("n", index, node["op"], truncate_name(name), _width(node["op"], name), HEIGHT)

    def _folded(self, index: int) -> Box:
        name, count = self.scopes[index]["name"], f"{self.counts[index]} nodes"
        return Box("s", index, truncate_name(name), count, _width(name, count), HEIGHT)

    def _pill(self, kind: str, index: int) -> Box:
        value = index if kind == "i" else self.model["graphs"][0]["outputs"][index]
        name = self.model["values"][value]["name"]
        return Box(kind, index, truncate_name(name), "", _width(name, ""), PILL)

    def links(self) -> Iterator[tuple[tuple[str, int], tuple[str, int], int]]:
        """Yield (producer, consumer, value index) of each use; constants have no producer."""
        makers: dict[int, tuple[str, int]] = {value: ("i", value) for value in self.model["graphs"][0]["inputs"]}
        for index, node in enumerate(self.nodes):
            if not node.get("constant"):
                makers |= {value: ("n", index) for value in node["outputs"] if value is not None}
        for index, node in enumerate(self.nodes):
            for value in dict.fromkeys(node["inputs"]):
                if value in makers:
                    yield makers[value], ("n", index), value
        for body in self.model["graphs"][1:]:
            for value in dict.fromkeys(body["outputs"]):
                if value in makers:
                    yield makers[value], ("n", body["node"]), value
        for position, value in enumerate(self.model["graphs"][0]["outputs"]):
            if value in makers:
                yield makers[value], ("o", position), value

    def _edges(self) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, dict[tuple[int, int], None]] = {}
        for source, target, _ in self.links():
            scope, one, other = self.meeting(source, target)
            if one != other:
                found.setdefault(scope, {})[one, other] = None
        return {scope: list(pairs) for scope, pairs in found.items()}

    def meeting(self, source: tuple[str, int], target: tuple[str, int]) -> tuple[int, int, int]:
        """Return the innermost common scope of two boxes, and the boxes of it that contain them."""
        above: dict[int, int] = {}
        scope, box = self.place[source]
        above[scope] = box
        while scope != -1:
            scope, box = self.place["s", scope]
            above[scope] = box
        scope, box = self.place[target]
        while scope not in above:
            scope, box = self.place["s", scope]
        return scope, above[scope], box

    def unfolded(self, most: int) -> set[int]:
        """Return the scopes to expand, outermost first, so that at most `most` boxes are visible."""
        opened, seen = {-1}, len(self.boxes[-1])
        pending = [-1]
        while pending:
            level = [box.index for scope in pending for box in self.boxes[scope] if box.kind == "s"]
            pending = list[int]()
            for scope in sorted(level, key=lambda each: len(self.boxes[each])):
                if seen + len(self.boxes[scope]) - 1 <= most:
                    seen += len(self.boxes[scope]) - 1
                    opened.add(scope)
                    pending.append(scope)
        return opened


def truncate_name(name: str) -> str:
    """Return the end of a long name, the part that distinguishes it."""
    return name if len(name) <= _MAX_NAME_LENGTH else "…" + name[1 - _MAX_NAME_LENGTH :]


def _width(title: str, label: str) -> float:
    letters = max(len(truncate_name(title)) * 1.12, len(truncate_name(label)))
    return min(max(letters * _LETTER_WIDTH + 22, _MIN_BOX_WIDTH), _MAX_BOX_WIDTH)
