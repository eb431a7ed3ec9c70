"""The journal of a pass: changes, skipped nodes and the reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable

    from graphport.core.diagnostics import Span
    from graphport.ir.graph import Graph, Node, Value


class NotApplicable(Exception):  # noqa: N818  nothing is wrong: the node stays as it is, and the text says why
    """Raised by a rule that matches a node but cannot apply; the message is the reason."""


class SizeLimitExceeded(NotApplicable):
    """The change would enlarge the weights by `growth` bytes, beyond the limit."""

    def __init__(self, text: str, growth: int) -> None:
        super().__init__(text)
        self.growth = growth


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about a node."""

    node: str
    text: str
    origin: Span | None = None
    count: int = 1
    """The number of changes that it stands for."""

    def __str__(self) -> str:
        return f"{self.node}: {self.text}"


@dataclass(slots=True)
class Journal:
    """The record that passes write while they run."""

    done: list[Note] = field(default_factory=list[Note])
    left: list[Note] = field(default_factory=list[Note])
    room: int = 0
    """Bytes by which constants may still grow."""
    wanted: list[int] = field(default_factory=list[int])
    """Bytes needed by each change that was skipped for lack of room."""
    derived: dict[Value, dict[Hashable, Value]] = field(default_factory=dict["Value", "dict[Hashable, Value]"])
    """Replacements of shared constants in some of their consumers, by content."""

    def did(self, node: Node | str, text: str, count: int = 1) -> None:
        """Record a change; `node` is the changed node, or its label if it was removed."""
        self.done.append(_note(node, text, count))

    def leave(self, node: Node, reason: str) -> None:
        """Record why a matching node stays unchanged."""
        self.left.append(_note(node, reason))


def label(node: Node) -> str:
    """Return the label of a node: op type, and its name or that of its first result."""
    return f"{node.op} {node.name or _result_name(node)}".rstrip()


def _result_name(node: Node) -> str:
    for value in node.outputs:
        if value is not None:
            return value.name
    return ""


def apply(
    graph: Graph, journal: Journal, rule: Callable[[Node], str | None], words: Container[str] | None = None
) -> None:
    """Apply `rule` to each node of `graph` and its bodies, in order.

    Args:
        graph: edited in place; the rule may remove its node and insert others.
        journal: receives changes and skipped nodes.
        rule: returns a description of the change, or None if it does not match; raises `Left` if it cannot apply.
        words: op types that it matches; all by default.
    """
    for inner in list(walk(graph)):
        if inner.root is not graph:
            continue  # the node that held this body was removed
        for node in inner:
            op = node.op if node.dialect else node.op_type
            if words is not None and op not in words:
                continue
            # Remember the parts of the label before the rule runs; few nodes need the formatted label.
            name = node.name or _result_name(node)
            try:
                done = rule(node)
            except NotApplicable as reason:
                journal.left.append(Note(f"{op} {name}".rstrip(), str(reason), node.origin))
                if isinstance(reason, SizeLimitExceeded):
                    journal.wanted.append(reason.growth)
                continue
            if done is not None:
                journal.done.append(Note(f"{op} {name}".rstrip(), done, node.origin))


def _note(node: Node | str, text: str, count: int = 1) -> Note:
    if isinstance(node, str):
        return Note(node, text, None, count)
    return Note(label(node), text, node.origin, count)
