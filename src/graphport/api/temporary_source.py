"""Temporary files for models that are passed as bytes or as open files."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from graphport import formats
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source
from graphport.core.storage import Bits, FileStorage, MappedFile, View
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from graphport.ir.graph import Graph

SOURCE_NAME = "<bytes>"
"""What findings call a model that has no path."""


@contextmanager
def write_temporary(data: bytes | bytearray | memoryview | BinaryIO, format: str | None = None) -> Generator[Path]:
    """Write `data` to a temporary file that exists inside the block; diagnostics call it `<bytes>`.

    Raises:
        DiagnosticError: IO0003 the format is unknown; errors of the block.
        TypeError: `data` is neither bytes nor a file that is open for reading bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="graphport-"))
    path = folder / f"model{'' if format is None else next(iter(formats.called(format).endings), '')}"
    try:
        with path.open("wb") as file:
            if isinstance(data, bytes | bytearray | memoryview):
                file.write(data)
            else:
                shutil.copyfileobj(data, file)
        yield path
    except DiagnosticError as error:
        raise DiagnosticError(*(replace_path(finding, path) for finding in error.diagnostics)) from error
    finally:
        # On systems where mapped files cannot be removed, the file stays until the system cleans up.
        shutil.rmtree(folder, ignore_errors=True)


def replace_path(finding: Diagnostic, path: Path) -> Diagnostic:
    """Replace the path of the temporary file in a diagnostic."""
    span = finding.span
    if span is not None:
        span = replace(span, source=Source(span.source.name.replace(str(path), SOURCE_NAME), span.source.text))
    return replace(finding, message=finding.message.replace(str(path), SOURCE_NAME), span=span)


def map_weights(graph: Graph) -> None:
    """Map every file that contains weights of `graph`; a mapping stays valid after the file is removed."""
    for storage in _storages(graph):
        file = storage.file
        if isinstance(file, MappedFile):
            file.view(0, 0)


def _storages(graph: Graph) -> Iterator[FileStorage]:
    for inner in walk(graph):
        held: list[object] = [value.storage for value in inner.constants]
        held += [attribute for node in inner for attribute in node.attributes.values()]
        while held:
            each = held.pop()
            if isinstance(each, FileStorage):
                yield each
            elif isinstance(each, View | Bits):
                held.append(each.of)
            elif isinstance(each, tuple):
                held.extend(cast("tuple[object, ...]", each))
