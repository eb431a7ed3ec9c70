"""Outputs compared with the shapes and element types that their file declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.proof.runners import NativeRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.proof.runners import Runner
    from graphport.runtimes.serve import Port


def mismatch(runner: Runner, outputs: Sequence[Any]) -> str | None:
    """Report the first output whose shape or dtype contradicts the file's declaration; `None` without one."""
    ports: Sequence[Port] = ()
    if isinstance(runner, NativeRunner) and runner.loaded_file is not None:
        ports = runner.loaded_file.outputs
    runtime = runner.side.runtime
    is_exact = runtime is None or runtime.has_exact_types or not runner.is_native
    has_batches = runtime is None or runtime.has_batches or not runner.is_native
    for index, output in enumerate(outputs):
        if output is None or is_sequence(output):
            continue
        array = np.asarray(output)
        if array.size == 0:
            continue
        if index < len(ports) and not _matches_dims(array, ports[index].shape):
            declared = f"declares {ports[index].name} as {_format_dims(ports[index].shape)}"
            return f"{runner.sentence} {declared}, and gives {list(array.shape)}"
        values = runner.side.graph.outputs
        if index < len(values) and has_batches:
            reason = _against(array, values[index], is_exact=is_exact)
            if reason:
                return (
                    f"{runner.sentence} gives {values[index].name} as {array.dtype.name}{list(array.shape)}, {reason}"
                )
    return None


def _against(array: Any, value: Value, *, is_exact: bool) -> str | None:
    fact = value.fact
    if not isinstance(fact, TensorFact):
        return None
    dims = None if fact.shape is None else tuple(dim if isinstance(dim, int) else None for dim in fact.shape)
    if not _matches_dims(array, dims):
        return f"and {_format_dims(dims)} is declared"
    dtype = fact.dtype
    if is_exact and dtype is not None and dtype.kind != "s" and array.dtype.name != dtype.numpy.name:
        return f"and {dtype} is declared"
    return None


def _matches_dims(array: Any, dims: Sequence[int | None] | None) -> bool:
    if dims is None:
        return True
    return len(dims) == array.ndim and all(d is None or d == n for d, n in zip(dims, array.shape, strict=True))


def _format_dims(dims: Sequence[int | None] | None) -> str:
    return "anything" if dims is None else f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"
