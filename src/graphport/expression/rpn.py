"""Reverse Polish notation: an expression as steps of a stack machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from graphport.expression.syntax import Call, List, Literal, Node, Number, Reference, postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Action(Enum):
    """The effect of a step on the stack."""

    LOAD = "load"
    """Push an operand."""
    PUSH = "push"
    """Push a constant."""
    APPLY = "apply"
    """Replace the topmost `arity` entries by the function's result; the deepest is its first argument."""
    COLLECT = "collect"
    """Replace the top `arity` elements by a list."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step: action, token text, number of consumed elements, and position."""

    action: Action
    text: str
    arity: int
    start: int
    end: int
    index: int = -1
    """Which operand a `LOAD` pushes."""
    value: Number | str | None = None
    """The value that a `PUSH` pushes."""

    @property
    def function(self) -> str:
        """The function that an `APPLY` applies."""
        return self.text.partition("/")[0]

    def __str__(self) -> str:
        return self.text


def rpn(tree: Node, arities: Mapping[str, tuple[int, ...]]) -> tuple[Step, ...]:
    """Return the steps that compute `tree`.

    Texts are the tokens; if a token does not determine its arity, the number follows: `size/2`, `list/3`.
    """
    return tuple(_step(node, arities) for node in postorder(tree))


def tree_of(steps: Sequence[Step]) -> Node:
    """The tree that `steps` compute.

    Raises:
        ValueError: they leave more or less than one result.
    """
    stack: list[Node] = []
    for step in steps:
        if step.arity > len(stack):
            message = f"{step} needs {step.arity} operands and finds {len(stack)}"
            raise ValueError(message)
        arguments = tuple(stack[len(stack) - step.arity :])
        del stack[len(stack) - step.arity :]
        stack.append(_node(step, arguments))
    if len(stack) != 1:
        message = f"{len(stack)} results remain on the stack, expected 1"
        raise ValueError(message)
    return stack[0]


def _step(node: Node, arities: Mapping[str, tuple[int, ...]]) -> Step:
    count = len(node.arguments)
    match node:
        case Reference():
            return Step(Action.LOAD, node.text, 0, node.start, node.end, index=node.index)
        case Literal():
            return Step(Action.PUSH, node.text, 0, node.start, node.end, value=node.value)
        case List():
            return Step(Action.COLLECT, f"list/{count}", count, node.start, node.end)
        case _:
            text = node.text if len(arities.get(node.text, ())) == 1 else f"{node.text}/{count}"
            return Step(Action.APPLY, text, count, node.start, node.end)


def _node(step: Step, arguments: tuple[Node, ...]) -> Node:
    match step.action:
        case Action.LOAD:
            return Reference(step.text, step.start, step.end, index=step.index)
        case Action.PUSH:
            return Literal(step.text, step.start, step.end, value=step.value)
        case Action.COLLECT:
            return List("[", step.start, step.end, arguments)
        case Action.APPLY:
            return Call(step.function, step.start, step.end, arguments)
