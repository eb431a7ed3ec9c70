"""Passes on whole graphs that a dialect needs before and after its rules: modules in `graph_passes` of formats.

Its hooks are `before(graph)`, ahead of legalizing, which may return findings, or `before_using_rules(graph, legalize)`,
which can legalize other graphs on the way, `after(graph)` behind it, and on the way
back `before_lifting(graph)` and `after_lifting(graph)`, as far as it needs them; `optimize(graph)` where that is asked
for. Where its words come in versions, `older(word, newest)` gives the function that says one in words that are no
newer.
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
    "tflite": "graphport.formats.tflite.graph_passes.hooks",
    "tract": "graphport.formats.nnef.graph_passes.tract",
}
"""The module of each dialect that has hooks."""


def before_legalizing(graph: Graph, dialects: Iterable[str], legalize: Callable[[Graph], None]) -> list[Diagnostic]:
    """Let each of `dialects`, which nodes of `graph` are in, settle what its words alone cannot say.

    Returns:
        What they found.
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
    """Let each of `dialects` that a graph was written in say in canonical words what several of its own stand for."""
    for dialect in dialects:
        module = _module(dialect)
        if module is not None and hasattr(module, "after"):
            module.after(graph)


def before_lifting(graph: Graph, dialect: str) -> None:
    """Let `dialect` take out of a canonical graph what it says elsewhere than in its words."""
    module = _module(dialect)
    if module is not None and hasattr(module, "before_lifting"):
        module.before_lifting(graph)


def after_lifting(graph: Graph, dialect: str) -> None:
    """Let `dialect` add to a graph in its words what no operator stands for."""
    module = _module(dialect)
    if module is not None and hasattr(module, "after_lifting"):
        module.after_lifting(graph)


def optimize(graph: Graph, dialect: str) -> None:
    """Let `dialect` make a graph in its words quicker: layers that take in what is behind them."""
    module = _module(dialect)
    if module is not None and hasattr(module, "optimize"):
        module.optimize(graph)


def older(dialect: str, word: str, newest: int) -> Callable[[Builder, Node], tuple[Value, ...]] | None:
    """How a word that is newer than `newest` is said in words of `dialect` that are not, where there is a way."""
    module = _module(dialect)
    return module.older(word, newest) if module is not None and hasattr(module, "older") else None


@cache
def _module(dialect: str) -> ModuleType | None:
    name = _HOOKS.get(dialect)
    return None if name is None else import_module(name)
