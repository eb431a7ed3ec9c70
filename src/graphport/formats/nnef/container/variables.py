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
            message = f"the shape of variable '{label}' depends on '{dim}', which {inputs} leaves open"
            self._reporter.error("NNEF0513", message, node, frame, self._reporter.binding(dim))
        if not isinstance(label, str) or not label:
            self._reporter.error(
                "NNEF0340",
                "the label is empty",
                operation.argument_of("label") or node,
                frame,
                "name the variable's tensor file",
            )
            return
        if self._is_final and not _LABEL.fullmatch(label):
            found = _OUTSIDE.search(label)
            shown = "" if found is None else found[0]
            message = f"the label '{label[:60]}' contains {shown!r}"
            remedy = "labels are made of letters, digits and _ . - / \\"
            self._reporter.error("NNEF0341", message, operation.argument_of("label") or node, frame, remedy)
        self._shared(operation, label, node, frame)

    def _shared(self, operation: Operation, label: str, node: Node, frame: Frame) -> None:
        first = self._labels.setdefault(label, operation)
        if first is not operation:
            kinds = [(each.attributes["shape"], each.generic) for each in (first, operation)]
            if kinds[0] != kinds[1]:
                message = f"variables of the label '{label}' differ in shape or type"
                remedy = f"the first is in line {first.origin.span.line}; who shares a label shares the tensor"
                self._reporter.error("NNEF0343", message, operation.argument_of("label") or node, frame, remedy)
        spelling = self._spellings.setdefault(label.lower(), label)
        if self._is_final and spelling != label:
            message = f"the labels '{label}' and '{spelling}' differ in case only"
            self._reporter.warn(
                "NNEF0342", message, operation.argument_of("label") or node, frame, "some file systems ignore case"
            )

    def _update(self, operation: Operation, node: Node, frame: Frame) -> None:
        target = operation.operands["variable"]
        if not isinstance(target, Tensor):
            return
        place = operation.argument_of("variable") or node
        if target.producer is None or target.producer.name != "variable":
            remedy = "the first argument is the result of 'variable'"
            self._reporter.error("NNEF0311", "what is updated is no variable", place, frame, remedy)
            return
        label = target.producer.attributes.get("label")
        first = self._updates.setdefault(target.order, operation)
        if first is not operation:
            remedy = f"the first time in line {first.origin.span.line}; once a cycle is allowed"
            self._reporter.error("NNEF0312", f"variable '{label}' is updated twice", place, frame, remedy)
