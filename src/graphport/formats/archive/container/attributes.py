"""Checks of nodes against their operator definitions: the text is untrusted."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import OptionalFact, SequenceFact, TensorFact
from graphport.core.storage import Storage
from graphport.ir.graph import Graph, walk
from graphport.ops import registry
from graphport.ops.infer import Inference
from graphport.ops.types import Body

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Node, Value

_BITS = 64
_FOREIGN = "write the archive with graphport"


def faults(graph: Graph) -> list[Diagnostic]:
    """Return a diagnostic for each canonical attribute that does not match its signature, and each bad extent."""
    found = [finding for inner in walk(graph) for node in inner for finding in _faults(node)]
    return found + [finding for inner in walk(graph) for value in inner.inputs for finding in _extents(value)]


def _extents(value: Value) -> list[Diagnostic]:
    shape = value.shape
    wrong = [extent for extent in shape or () if isinstance(extent, int) and not 0 <= extent < 1 << (_BITS - 1)]
    return [
        Diagnostic("IO0216", f"the input {value.name} has an invalid dim {extent}", value.origin, _FOREIGN)
        for extent in wrong
    ]


def _faults(node: Node) -> list[Diagnostic]:
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    findings: list[Diagnostic] = []
    for name, attribute in node.attributes.items() if op_def is not None else ():
        keyword = op_def.signature.keywords.get(name) if op_def is not None else None
        if keyword is not None and not has_signature_type(keyword.annotation, attribute):
            expected = _annotation_text(keyword.annotation)
            message = f"{node.op}: the attribute {name} is {_attribute_type(attribute)}, expected {expected}"
            findings.append(Diagnostic("IO0216", message, node.origin, _FOREIGN))
    return findings


def has_signature_type(annotation: Any, attribute: Attribute) -> bool:
    """Whether `attribute` has the type that an operator's signature declares."""
    if get_origin(annotation) in (Union, UnionType):
        return any(has_signature_type(each, attribute) for each in get_args(annotation))
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        return isinstance(attribute, tuple) and all(has_signature_type(inner, each) for each in attribute)
    if annotation is int:
        return isinstance(attribute, int) and attribute.bit_length() < _BITS
    if annotation is float:
        return isinstance(attribute, int | float) and not isinstance(attribute, bool)
    if annotation is Body:
        return isinstance(attribute, Graph)
    if get_origin(annotation) is np.ndarray:
        return isinstance(attribute, Storage)
    known = (str, DType, TensorFact, SequenceFact, OptionalFact, NoneType)
    return annotation in known and isinstance(attribute, annotation)


def inferred(graph: Graph) -> list[Diagnostic]:
    """Infer the facts of `graph`, whose attributes are valid, and return contradictions.

    Raises:
        DiagnosticError: IO0216 an operator of a dialect violates the rules of its format.
    """
    inference = Inference()
    for node in graph:
        try:
            inference.settle(node, check_declared=True)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            # Rules of dialect operators rely on checks of the format's reader, which has not run here.
            if not _is_foreign(node):
                raise
            message = f"{node.op} has invalid attributes or operands: {error}"
            finding = Diagnostic("IO0216", message, node.origin, "write the archive with graphport")
            raise DiagnosticError(finding) from error
    return list(dict.fromkeys(inference.findings))


def _is_foreign(node: Node) -> bool:
    """Whether a node, or a node in its bodies, belongs to a dialect."""
    return bool(node.dialect) or any(inner.dialect for body in node.bodies() for graph in walk(body) for inner in graph)


def _attribute_type(attribute: Attribute) -> str:
    match attribute:
        case None:
            return "none"
        case Storage():
            return "a tensor"
        case Graph():
            return "a graph"
        case tuple():
            return "a list"
        case _:
            return f"{attribute!s:.40}"


def _annotation_text(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
