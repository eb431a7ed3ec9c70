"""Write graphs of the dialect `openvino` to IR files."""

from __future__ import annotations

from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graphport.core.atomic_write import Replacing, together
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.write_errors import write_remedy
from graphport.formats.openvino.container import blobs, operators
from graphport.formats.openvino.container.fp16_weights import fp16_weights
from graphport.formats.openvino.container.int8_weights import int8_weights
from graphport.formats.openvino.container.layers import tree
from graphport.formats.openvino.container.xml import render
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Graph, Node

_VERSIONS = (10, 11)
_STORED: Mapping[str, Callable[[Graph], Graph]] = MappingProxyType(
    {"f32": lambda graph: graph, "f16": fp16_weights, "int8": int8_weights}
)
"""Transformation of the weights for each value of the option `weights`."""
_LEAST_SNR = {"f16": 40.0, "int8": 20.0}


def write(
    graph: Graph,
    path: str | Path,
    *,
    ir_version: int | None = None,
    ir_opset: int | None = None,
    weights: str | None = None,
) -> None:
    """Write a graph and its weights; both files are complete before either is renamed to its path.

    Args:
        graph: of the dialect `openvino`.
        path: of the `.xml`; the `.bin` has the same stem.
        ir_version: 10 or 11; if `None`, that of the file that was read, else 11.
        ir_opset: the newest operation set that the target device supports.
        weights: `f16` stores larger float32 constants as float16, `int8` stores weights as uint8 (see `int8_weights`);
            `f32` or `None` keeps them.

    Raises:
        DiagnosticError: OV0501 and OV0502 (see `tree`); OV0503 newer op types; OV0504 unknown IR version; OV0505 op
            types of other dialects; OV0506 unknown weight format; OV0507 path equal to that of the weights; OV0508 a
            file cannot be written.
    """
    if ir_version not in (None, *_VERSIONS):
        message = f"unsupported IR version {ir_version}"
        raise DiagnosticError(Diagnostic("OV0504", message, None, "choose 10 or 11"))
    if weights is not None and weights not in _STORED:
        message = f"unsupported weight type {weights}"
        raise DiagnosticError(Diagnostic("OV0506", message, None, f"choose {', '.join(_STORED)}"))
    target = Path(path)
    blob = target.with_suffix(".bin")
    if blob == target:
        raise DiagnosticError(
            Diagnostic(
                "OV0507",
                f"the model cannot be written to {target.name}, the file of its weights",
                None,
                "use the extension .xml",
            )
        )
    _check(graph, ir_opset)
    graph = _STORED[weights or "f32"](graph)
    try:
        with together(target) as files:
            _write(graph, files, target, None if ir_version is None else str(ir_version))
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("OV0508", message, Span(Source(str(path))), write_remedy(error))) from error


def least_snr(**options: Any) -> float | None:
    """Return the expected SNR of outputs in dB when `options` of `write` round weights; `None` if they do not.

    One layer of float16 weights keeps about 70 dB, one of per-channel 8-bit weights about 40 dB; depth lowers both.
    """
    return _LEAST_SNR.get(str(options.get("weights")))


def can_stay(graph: Graph, *, ir_opset: int | None = None, **_: Any) -> bool:
    """Whether no op type of a graph is newer than `ir_opset`; newer ones may have an equivalent in older sets."""
    return not any(_is_newer(node, ir_opset) for inner in walk(graph) for node in inner)


def _is_newer(node: Node, newest: int | None) -> bool:
    operator = None if newest is None else operators.find_operator(node.op_type)
    return newest is not None and operator is not None and operator.first > newest


def _check(graph: Graph, newest: int | None) -> None:
    findings: dict[str, Diagnostic] = {}
    for inner in walk(graph):
        for node in inner:
            if node.dialect != "openvino":
                message = f"{node.op} is not an OpenVINO op type"
                findings[node.op] = Diagnostic(
                    "OV0505", message, node.origin, "export the graph to the dialect openvino first"
                )
                continue
            if _is_newer(node, newest):
                version, _, type = node.op_type.partition(".")
                number = operators.set_of(version)
                message = f"{type} requires operation set {number}, the newest allowed set is {newest}"
                findings[node.op] = Diagnostic("OV0503", message, node.origin, f"set ir_opset to {number}")
    if findings:
        raise DiagnosticError(*findings.values())


def _write(graph: Graph, files: Replacing, target: Path, version: str | None) -> None:
    weights = files.open_file(target.with_suffix(".bin"))
    source = blobs.unchanged(graph)
    if source is not None:
        blobs.copy(source, weights)
        root = tree(graph, None, version=version)
    else:
        kept = blobs.Blobs(weights)
        root = tree(graph, kept.append, version=version)
        kept.finish()
    text = TextIOWrapper(files.open_file(target), encoding="utf-8", errors="surrogatepass", newline="")
    text.writelines(render(root))
    text.flush()
    text.detach()
