"""What a pass did, where, and what it left alone, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable

    from graphport.core.diagnostics import Span
    from graphport.ir.graph import Graph, Node, Value


class Left(Exception):  # noqa: N818  nothing is wrong: the node stays as it is, and the text says why
    """A rule keeps its hands off a node that it is meant for."""


class NoRoom(Left):
    """It would make the weights larger, by `growth` bytes, than they may become."""

    def __init__(self, text: str, growth: int) -> None:
        super().__init__(text)
        self.growth = growth


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence about one node."""

    node: str
    text: str
    origin: Span | None = None
    count: int = 1
    """Changes that it stands for."""

    def __str__(self) -> str:
        return f"{self.node}: {self.text}"


@dataclass(slots=True)
class Journal:
    """Filled by passes while they run."""

    done: list[Note] = field(default_factory=list[Note])
    left: list[Note] = field(default_factory=list[Note])
    room: int = 0
    """Bytes by which constants may still become larger than they were."""
    wanted: list[int] = field(default_factory=list[int])
    """Bytes that each of what was left alone for want of room would have taken."""
    derived: dict[Value, dict[Hashable, Value]] = field(default_factory=dict["Value", "dict[Hashable, Value]"])
    """What stands for shared constants in some of their readers, by its numbers."""

    def did(self, node: Node | str, text: str, count: int = 1) -> None:
        """Tell a change; `node` is what was changed, or what it was called before it went."""
        self.done.append(_note(node, text, count))

    def leave(self, node: Node, reason: str) -> None:
        """Tell why a node that the pass is meant for stays as it is."""
        self.left.append(_note(node, reason))


def label(node: Node) -> str:
    """What a node is called when it is talked about: its operator, and its name or that of its first result."""
    return f"{node.op} {node.name or _result_name(node)}".rstrip()


def _result_name(node: Node) -> str:
    for value in node.outputs:
        if value is not None:
            return value.name
    return ""


def apply(
    graph: Graph, journal: Journal, rule: Callable[[Node], str | None], words: Container[str] | None = None
) -> None:
    """Try `rule` on every node of `graph` and its bodies, in order.

    Args:
        graph: edited in place; the rule may remove the node that it is given and insert others.
        journal: takes what the rule did and did not.
        rule: returns what it did, or `None` where it does not apply; raises `Left` where it should and cannot.
        words: names of the operators that it looks at; all by default.
    """
    for inner in list(walk(graph)):
        if inner.root is not graph:
            continue  # the node that held this body is gone
        for node in inner:
            op = node.op if node.dialect else node.word
            if words is not None and op not in words:
                continue
            # What it is called before the rule has it; few nodes are spoken of, so nothing is put together yet.
            name = node.name or _result_name(node)
            try:
                done = rule(node)
            except Left as reason:
                journal.left.append(Note(f"{op} {name}".rstrip(), str(reason), node.origin))
                if isinstance(reason, NoRoom):
                    journal.wanted.append(reason.growth)
                continue
            if done is not None:
                journal.done.append(Note(f"{op} {name}".rstrip(), done, node.origin))


def _note(node: Node | str, text: str, count: int = 1) -> Note:
    if isinstance(node, str):
        return Note(node, text, None, count)
    return Note(label(node), text, node.origin, count)
