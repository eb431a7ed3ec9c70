"""Other readers of the mutated files: an exception is accepted, a terminated process is a finding."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fuzzing.subjects import Seed


def _nnef(path: Path) -> object:
    import nnef

    return nnef.load_graph(str(path))


def _onnx(path: Path) -> None:
    import onnx

    onnx.checker.check_model(onnx.load(str(path)))


def _onnxruntime(path: Path) -> object:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _openvino(path: Path) -> object:
    import openvino

    return openvino.Core().read_model(str(path))


PEERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "peer nnef": ("nnef", _nnef),
    "peer onnx": ("onnx", _onnx),
    "peer onnxruntime": ("onnx", _onnxruntime),
    "peer openvino": ("openvino", _openvino),
}
"""Readers by name: the kind of seed and the read function."""


def peers(known: dict[str, list[Seed]]) -> dict[str, list[Seed]]:
    """Return the seeds of each peer: those of its kind, so that its cases equal the cases of graphport's reader."""
    for name in PEERS:
        package = name.removeprefix("peer ")
        print(f"{package} {version(package)}")
    return {name: known[kind] for name, (kind, _) in PEERS.items() if kind in known}


def verbs_of_peer(name: str, path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the one verb of a peer: read a file, with output discarded."""

    def read() -> None:
        from graphport import DiagnosticError
        from graphport.core.diagnostics import Diagnostic

        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.close(silence)
        try:
            PEERS[name][1](path)
        except Exception as error:
            raise DiagnosticError(Diagnostic("PEER0001", type(error).__name__)) from error

    yield "read", read
