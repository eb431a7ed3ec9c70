"""TensorFlow on a SavedModel or a frozen graph."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from graphport.runtimes.serve import Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

runtime: Any = tf  # it may be any version, of another interpreter
_LEFT_OUT = ("NoOp", "Assert", "Print", "PrintV2", "Const", "Placeholder", "Switch")


class _Model:
    """A model in TensorFlow: the signature that graphport reads by default."""

    def __init__(self, path: str, settings: Settings) -> None:
        if settings.threads:
            runtime.config.threading.set_intra_op_parallelism_threads(settings.threads)
            runtime.config.threading.set_inter_op_parallelism_threads(settings.threads)
        self._path = path
        try:
            names, outputs = self._load()
        except RefusedError:
            raise
        except Exception as error:
            raise RefusedError(_message(error)) from error
        self.inputs = [Port(name) for name in names]
        self.outputs = [Port(name) for name in outputs]

    def _load(self) -> tuple[list[str], list[str]]:
        if not Path(self._path).is_dir():
            return self._load_frozen()
        # Each run begins with the values of variables that the file has.
        self._loaded = runtime.saved_model.load(self._path)
        signatures = dict(self._loaded.signatures)
        name = "serving_default" if "serving_default" in signatures else next(iter(signatures), None)
        if name is None or (name != "serving_default" and len(signatures) > 1):
            reason = "no signature is the default one"
            raise RefusedError(reason)
        self._function = signatures[name]
        _, arguments = self._function.structured_input_signature
        return sorted(arguments, key=_natural), sorted(self._function.structured_outputs, key=_natural)

    def _load_frozen(self) -> tuple[list[str], list[str]]:
        graph = runtime.compat.v1.GraphDef()
        graph.ParseFromString(Path(self._path).read_bytes())
        inputs = [node.name for node in graph.node if node.op == "Placeholder"]
        outputs = _unread(graph)

        def imported() -> None:
            runtime.compat.v1.import_graph_def(graph, name="")

        wrapped = runtime.compat.v1.wrap_function(imported, [])
        elements = [wrapped.graph.get_tensor_by_name(f"{name}:0") for name in inputs]
        found = [wrapped.graph.get_tensor_by_name(f"{name}:{index}") for name, index in outputs]
        pruned = wrapped.prune(elements, found)
        names = [name if not index else f"{name}:{index}" for name, index in outputs]

        def run(**given: Any) -> dict[str, Any]:
            return dict(zip(names, pruned(*(given[name] for name in inputs)), strict=True))

        self._function = run
        return inputs, names

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            if Path(self._path).is_dir() and self._loaded.variables:
                self._load()
            given = {port.name: runtime.constant(value) for port, value in zip(self.inputs, inputs, strict=True)}
            found = self._function(**given)
            return [found[port.name].numpy() for port in self.outputs], states
        except Exception as error:
            raise RefusedError(_message(error)) from error


def _unread(graph: Any) -> list[tuple[str, int]]:
    """The results of nodes of which no other node reads one."""
    read = {re.sub(r":\d+$", "", name) for node in graph.node for name in node.input}
    known = runtime.Graph()
    with known.as_default():
        runtime.compat.v1.import_graph_def(graph, name="")
    leaves = [node for node in graph.node if node.name not in read and node.op not in _LEFT_OUT]
    return [(node.name, i) for node in leaves for i in range(len(known.get_operation_by_name(node.name).outputs))]


def _natural(name: str) -> list[Any]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def _message(error: Exception) -> str:
    """The first line of TensorFlow's message."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


if __name__ == "__main__":
    serve(runtime.__version__, _Model)
