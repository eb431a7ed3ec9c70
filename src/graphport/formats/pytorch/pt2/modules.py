"""Module hierarchy of a program: the modules around each node, as `torch.export.unflatten` reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.formats.pytorch.pt2.names import MAX_DEPTH, module_name
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.ir.graph import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Value

Path = tuple[str, ...]
"""Names of modules, outermost first; each may have dots, for containers that are not called."""

_GENERATED = re.compile(r"onnx::\w+|val_\d+|\d+")
_WEIGHTS = {"weight": "weight", "bias": "bias", "other": "weight", "mat2": "weight"}
"""Arguments of ATen operators that are parameters of modules."""
_TYPE = "torch.nn.modules.module.Module"


def scope_paths(graph: Graph) -> dict[Node, Path]:
    """Return the modules around the nodes of `graph` that the source records; empty if it records none."""
    found: dict[Node, Path] = {}
    for node in graph:
        scope = None if node.origin is None else node.origin.scope
        if scope is not None:
            names = [name for part in scope.split("/") if (name := module_name(part))]
            found[node] = tuple(names[:MAX_DEPTH])
    return found if any(found.values()) else {}


def weight_paths(graph: Graph, qualified: Mapping[Value, str]) -> dict[Node, Path]:
    """Return the module of the weights of each node; `qualified` has the qualified names of the weights."""
    found: dict[Node, Path] = {}
    for node in graph:
        owners = {qualified[value].rpartition(".")[0] for value in node.operands if value in qualified}
        found[node] = (owners.pop(),) if len(owners) == 1 and "" not in owners else ()
    return found


def readable_name(value: Value, paths: Mapping[Node, Path]) -> str:
    """Return the name of a weight; generated names are replaced by module and argument: `layers.0.conv.weight`."""
    own = value.name.removeprefix("onnx::")
    if not _GENERATED.fullmatch(value.name) or len(value.uses) != 1:
        return own
    node, index = next(iter(value.uses))
    keys = node.attributes.get(KEYS) if isinstance(node, Node) else None
    name = _WEIGHTS.get(str(keys[index])) if isinstance(keys, tuple) else None
    path = paths.get(node) if isinstance(node, Node) else None
    return ".".join((*path, name)) if path and name else own


class ModuleStacks:
    """Encoder of `nn_module_stack`: `KEY,QUALIFIED NAME,TYPE` for each module, joined by semicolons.

    A module is called once: if nodes of other modules interrupt its nodes, nodes after the interruption belong to the
    parent module.
    """

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._called: set[str] = set()

    def encode(self, path: Path | None) -> str:
        """Return the module stack for the next node in the modules `path`; with `None`, that of the previous node."""
        names = self._stack if path is None else [".".join(path[: index + 1]) for index in range(len(path))]
        kept: list[str] = []
        for index, name in enumerate(names):
            is_open = self._stack[index : index + 1] == [name]
            if not is_open and name in self._called:
                break
            kept.append(name)
        self._called.update(kept)
        self._stack = kept
        return ";".join([f",,{_TYPE}", *(f"{name},{name},{_TYPE}" for name in kept)])
