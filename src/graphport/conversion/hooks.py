"""Whole-graph passes that a dialect needs before and after its rules (modules in `graph_passes` of formats).

All hooks are optional. Import: `before(graph)` runs before legalization and may return findings;
`before_using_rules(graph, legalize)` can also legalize other graphs; `after(graph)` runs after legalization. Export:
`before_export(graph)`, `after_export(graph)` and, on request, `optimize(graph)`. For a dialect with versioned op
types, `older(op_type, newest)` returns the rule that lowers an op type to op types of version `newest` or older.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from graphport.core.diagnostics import Diagnostic
    from graphport.ir.graph import Graph, Node, Value
    from graphport.ops.builder import Builder

_HOOKS = {
    "caffe": "graphport.formats.caffe.graph_passes.hooks",
    "keras": "graphport.formats.keras.graph_passes.hooks",
    "ncnn": "graphport.formats.ncnn.graph_passes.hooks",
    "nnef": "graphport.formats.nnef.graph_passes.hooks",
    "onnx": "graphport.formats.onnx.graph_passes.hooks",
    "openvino": "graphport.formats.openvino.graph_passes.hooks",
    "pnnx": "graphport.formats.pnnx.graph_passes.hooks",
    "pytorch": "graphport.formats.pytorch.graph_passes.hooks",
    "tensorflow": "graphport.formats.tensorflow.graph_passes.hooks",
    "tflite": "graphport.formats.tflite.graph_passes.hooks",
    "tract": "graphport.formats.nnef.graph_passes.tract",
}
"""The module of each dialect that has hooks."""


def before_legalizing(graph: Graph, dialects: Iterable[str], legalize: Callable[[Graph], None]) -> list[Diagnostic]:
    """Run the passes of `dialects`, those that nodes of `graph` belong to, before legalization.

    Returns:
        The findings of the passes.
    """
    findings: list[Diagnostic] = []
    for dialect in dict.fromkeys([*graph.opsets, *dialects]):
        module = _module(dialect)
        if module is not None and hasattr(module, "before"):
            findings += module.before(graph) or ()
        if module is not None and hasattr(module, "before_using_rules"):
            module.before_using_rules(graph, legalize)
    return findings


def after_legalizing(graph: Graph, dialects: Iterable[str]) -> None:
    """Run the passes of the source `dialects` on the canonical graph, for example to recompose operators."""
    for dialect in dialects:
        module = _module(dialect)
        if module is not None and hasattr(module, "after"):
            module.after(graph)


def before_export(graph: Graph, dialect: str) -> None:
    """Run the passes of `dialect` on the canonical graph before its export."""
    module = _module(dialect)
    if module is not None and hasattr(module, "before_export"):
        module.before_export(graph)


def after_export(graph: Graph, dialect: str) -> None:
    """Run the passes of `dialect` on the exported graph, for example to add nodes that have no canonical form."""
    module = _module(dialect)
    if module is not None and hasattr(module, "after_export"):
        module.after_export(graph)


def optimize(graph: Graph, dialect: str) -> None:
    """Run the optimizations of `dialect` on the exported graph, for example fusion of activations."""
    module = _module(dialect)
    if module is not None and hasattr(module, "optimize"):
        module.optimize(graph)


def older(dialect: str, op_type: str, newest: int) -> Callable[[Builder, Node], tuple[Value, ...]] | None:
    """Return the rule that lowers an op type newer than `newest` to older op types of `dialect`; `None` without one."""
    module = _module(dialect)
    return module.older(op_type, newest) if module is not None and hasattr(module, "older") else None


@cache
def _module(dialect: str) -> ModuleType | None:
    name = _HOOKS.get(dialect)
    return None if name is None else import_module(name)
