"""The rules that variables keep across a whole document: labels, and what updates them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.formats.nnef.container.evaluation_frame import open_dims
from graphport.formats.nnef.container.operation import Operation, Tensor

if TYPE_CHECKING:
    from graphport.formats.nnef.container.evaluation_frame import Frame, Reporter
    from graphport.formats.nnef.container.syntax import Node

_LABEL = re.compile(r"[A-Za-z0-9_.\-/\\]+")
_OUTSIDE = re.compile(r"[^A-Za-z0-9_.\-/\\]")


class Variables:
    """Checker of a document's variables."""

    def __init__(self, reporter: Reporter, *, is_final: bool) -> None:
        self._reporter = reporter
        self._is_final = is_final
        self._labels: dict[str, Operation] = {}
        self._spellings: dict[str, str] = {}
        self._updates: dict[int, Operation] = {}

    def check(self, operation: Operation, node: Node, frame: Frame) -> None:
        """Check a new `variable` or `update`."""
        if operation.name == "variable":
            self._variable(operation, node, frame)
        elif operation.name == "update":
            self._update(operation, node, frame)

    def _variable(self, operation: Operation, node: Node, frame: Frame) -> None:
        shape, label = operation.attributes["shape"], operation.attributes["label"]
        for dim in open_dims({"shape": shape})[:1]:
            inputs = ", ".join(self._reporter.described(dim)) or "the document"
            message = f"the shape of variable '{label}' depends on '{dim}', which {inputs} does not set"
            self._reporter.error("NNEF0513", message, node, frame, self._reporter.binding(dim))
        if not isinstance(label, str) or not label:
            self._reporter.error(
                "NNEF0340",
                "empty label",
                operation.argument_of("label") or node,
                frame,
                "set the label to the name of the variable's tensor file",
            )
            return
        if self._is_final and not _LABEL.fullmatch(label):
            found = _OUTSIDE.search(label)
            shown = "" if found is None else found[0]
            message = f"unsupported character {shown!r} in the label '{label[:60]}'"
            remedy = "use letters, digits and _ . - / \\"
            self._reporter.error("NNEF0341", message, operation.argument_of("label") or node, frame, remedy)
        self._shared(operation, label, node, frame)

    def _shared(self, operation: Operation, label: str, node: Node, frame: Frame) -> None:
        first = self._labels.setdefault(label, operation)
        if first is not operation:
            kinds = [(each.attributes["shape"], each.generic) for each in (first, operation)]
            if kinds[0] != kinds[1]:
                message = f"variables with the label '{label}' differ in shape or type"
                remedy = f"use another label: the variable in line {first.origin.span.line} has the same tensor file"
                self._reporter.error("NNEF0343", message, operation.argument_of("label") or node, frame, remedy)
        spelling = self._spellings.setdefault(label.lower(), label)
        if self._is_final and spelling != label:
            message = f"the labels '{label}' and '{spelling}' differ only in case"
            self._reporter.warn(
                "NNEF0342",
                message,
                operation.argument_of("label") or node,
                frame,
                "rename one label: some file systems ignore case",
            )

    def _update(self, operation: Operation, node: Node, frame: Frame) -> None:
        target = operation.operands["variable"]
        if not isinstance(target, Tensor):
            return
        place = operation.argument_of("variable") or node
        if target.producer is None or target.producer.name != "variable":
            remedy = "pass the result of 'variable' as the first argument"
            self._reporter.error("NNEF0311", "'update' of a tensor that is not a variable", place, frame, remedy)
            return
        label = target.producer.attributes.get("label")
        first = self._updates.setdefault(target.order, operation)
        if first is not operation:
            remedy = f"remove this or the first update in line {first.origin.span.line}"
            self._reporter.error("NNEF0312", f"duplicate update of variable '{label}'", place, frame, remedy)
