"""Nodes that are canonical as they stand and like one before, whose facts are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir.attributes import as_key

if TYPE_CHECKING:
    from collections.abc import Hashable

    from graphport.core.facts import Fact
    from graphport.ir.graph import Node
    from graphport.ops.infer import Inference

_MOST_KNOWN = 1 << 14
"""Nodes that are remembered."""


class AsBefore:
    """Nodes of ONNX that are canonical as they stand, and like one before: their facts are set without being asked for.

    Alike are nodes of one operator with the same attributes, whose operands have the same facts, and whose results the
    file claims the same of, told by their identity; as long as no symbol has got another meaning.
    """

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._version = 0
        # What is known by identity is kept, so that nothing else gets it.
        self._known: dict[Hashable, tuple[tuple[Fact, ...], object]] = {}
        self._words: set[str] = set()
        self._begun: tuple[Hashable, object, int] | None = None

    def settle(self, node: Node) -> bool:
        """Make `node` canonical and set its facts, if one before was alike."""
        if node.word not in self._words:
            return False
        known = self._known.get(_likeness(node))
        if known is None or self._inference.words.extents.version != self._version:
            return False
        node.dialect = ""
        for value, fact in zip(node.outputs, known[0], strict=True):
            if value is not None:
                value.fact = fact
        return True

    def begin(self, node: Node) -> None:
        """Take down what `node` is, before it is asked for."""
        self._begun = None
        if not node.has_bodies and None not in node.outputs:
            facts = [value.fact for value in (*node.operands, *node.results)]
            self._begun = _likeness(node), facts, len(self._inference.findings)

    def end(self, node: Node) -> None:
        """Keep the facts that `node` was given, if nothing was found and no symbol is its own."""
        if self._begun is None:
            return
        key, kept, count = self._begun
        self._begun = None
        words = self._inference.words
        facts = tuple([value.fact for value in node.results])
        if len(self._inference.findings) > count or not all(map(words.is_settled, facts)):
            return
        if words.extents.version != self._version or len(self._known) >= _MOST_KNOWN:
            self._known.clear()
            self._version = words.extents.version
        self._known[key] = facts, kept
        self._words.add(node.word)


def _likeness(node: Node) -> Hashable:
    """What nodes have to have in common; the number of results tells their facts from those of operands."""
    inputs, outputs = node.inputs, node.outputs
    facts = [None if value is None else id(value.fact) for value in inputs]
    claims = [None if value is None else id(value.fact) for value in outputs]
    return (node.word, len(outputs), *facts, *claims, *as_key(node.attributes))
