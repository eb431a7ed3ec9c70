"""Write graphs of the dialect `pytorch` as files for `torch.export.load`; weights are streamed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.atomic_write import together
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.python_code import CodeError
from graphport.core.write_errors import write_remedy
from graphport.formats.pytorch.graph_passes.narrow_types import report_narrow_types
from graphport.formats.pytorch.pt2.archive import ArchiveWriter
from graphport.formats.pytorch.pt2.custom_operators import CustomOperators
from graphport.formats.pytorch.pt2.module_code import code_of
from graphport.formats.pytorch.pt2.program_writer import ProgramWriter
from graphport.formats.pytorch.pt2.safetensors import header, write_weights
from graphport.formats.pytorch.pt2.schema import DTYPES, STRIDED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph

MODEL = "model"
_NUMBER_OF = {dtype: number for number, dtype in DTYPES.items()}


def write(
    graph: Graph,
    path: str | Path,
    *,
    allow_custom: bool | None = None,
    code: bool | None = None,
    findings: list[Diagnostic] | None = None,
) -> None:
    """Write a graph as an exported program.

    Args:
        graph: the graph.
        path: the output file.
        allow_custom: write operators that torch lacks as custom operators, and stubs of them as `NAME_custom.py`.
        code: also write `NAME_module.py`, a PyTorch module, and its weights as `NAME_module.safetensors`.
        findings: receives a warning for each element type that torch lacks and that a wider type holds (PT0106).

    Raises:
        DiagnosticError: PT0101 the rank or element type of a value is unknown or not supported by torch; PT0102 the
            elements of a weight are not available; PT0103 an operator does not exist in torch; PT0104 an operator
            does not have the argument; PT0105 the file cannot be written; PT0107 the program has no form in Python.
    """
    target = Path(path)
    source = Source(str(path))
    custom = CustomOperators() if allow_custom else None
    writer = ProgramWriter(graph, source, custom)
    document = writer.document()
    if writer.findings:
        raise DiagnosticError(*writer.findings)
    module = _module(document, writer, target, source) if code else None
    if findings is not None:
        findings += report_narrow_types(graph)
    try:
        with together(target) as files:
            stubs = "" if custom is None else custom.code(target.name)
            if stubs:
                files.open_file(target.with_name(f"{target.stem}_custom.py")).write(stubs.encode())
            if module is not None:
                files.open_file(target.with_name(f"{target.stem}_module.py")).write(module.text.encode())
                weights = files.open_file(target.with_name(f"{target.stem}_module.safetensors"))
                write_weights(weights, module.header, module.weights)
            _write_archive(files.open_file(target), target.stem or MODEL, document, writer.weights)
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("PT0105", message, Span(source), write_remedy(error))) from error


class _Module(NamedTuple):
    """A program as Python source and the file of its weights."""

    text: str
    header: bytes
    weights: Mapping[str, Storage]


def _module(document: dict[str, Any], writer: ProgramWriter, target: Path, source: Source) -> _Module:
    weights = {name: storage for name, (storage, _) in writer.weights.items()}
    try:
        text = code_of(document, target.stem, f"{target.stem}_module.safetensors")
        return _Module(text, header(weights), weights)
    except CodeError as error:
        message = f"cannot generate the Python code: {error}"
        raise DiagnosticError(Diagnostic("PT0107", message, Span(source), "omit --code")) from error


def _write_archive(
    file: BinaryIO, folder: str, document: dict[str, Any], weights: dict[str, tuple[Storage, bool]]
) -> None:
    archive = ArchiveWriter(file, folder)
    config: dict[str, Any] = {}
    members: dict[int, str] = {}
    for name, (storage, is_parameter) in weights.items():
        member = members.get(id(storage))
        if member is None:
            member = members[id(storage)] = f"weight_{len(members)}"
            archive.add(f"data/weights/{member}", storage.chunks(), storage.nbytes)
        config[name] = _payload(storage, member, is_parameter=is_parameter)
    program = json.dumps(document, allow_nan=False).encode()
    texts = {
        f"data/weights/{MODEL}_weights_config.json": json.dumps({"config": config}).encode(),
        f"data/constants/{MODEL}_constants_config.json": b'{"config": {}}',
        f"models/{MODEL}.json": program,
        # torch.export.load requires the member; an empty one means no sample inputs.
        f"data/sample_inputs/{MODEL}.pt": b"",
        "archive_format": b"pt2",
        "archive_version": b"0",
        ".data/version": b"6\n",
        "byteorder": b"little",
        ".data/serialization_id": f"{int(hashlib.sha256(program).hexdigest(), 16) % 10**40:040}".encode(),
    }
    for name, data in texts.items():
        archive.add(name, [data], len(data))
    archive.close()


def _payload(storage: Storage, member: str, *, is_parameter: bool) -> dict[str, Any]:
    strides: list[int] = []
    step = 1
    for size in reversed(storage.shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return {
        "path_name": member,
        "is_param": is_parameter,
        "use_pickle": False,
        "tensor_meta": {
            "dtype": _NUMBER_OF[storage.dtype],
            "sizes": [{"as_int": size} for size in storage.shape],
            "requires_grad": is_parameter,
            "device": {"type": "cpu", "index": None},
            "strides": [{"as_int": stride} for stride in strides],
            "storage_offset": {"as_int": 0},
            "layout": STRIDED,
        },
    }
