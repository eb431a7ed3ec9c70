"""Models that are given as bytes or as an open file: kept in a file as long as it takes to read them."""

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

GIVEN = "<bytes>"
"""What findings call a model that has no path."""


@contextmanager
def received(data: bytes | bytearray | memoryview | BinaryIO, format: str | None = None) -> Generator[Path]:
    """A file with `data`, which is gone when the block ends; findings call it `<bytes>`.

    Raises:
        DiagnosticError: IO0003 there is no such format; what the block raises.
        TypeError: `data` is neither bytes nor a file that is open for reading bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="graphport-"))
    path = folder / f"model{'' if format is None else formats.called(format).endings[0]}"
    try:
        with path.open("wb") as file:
            if isinstance(data, bytes | bytearray | memoryview):
                file.write(data)
            else:
                shutil.copyfileobj(data, file)
        yield path
    except DiagnosticError as error:
        raise DiagnosticError(*(renamed(finding, path) for finding in error.diagnostics)) from error
    finally:
        # Where mapped files cannot be removed, this one stays until the system cleans up.
        shutil.rmtree(folder, ignore_errors=True)


def renamed(finding: Diagnostic, path: Path) -> Diagnostic:
    """`finding` with the name of what was given in place of the file that stands in for it."""
    span = finding.span
    if span is not None:
        span = replace(span, source=Source(span.source.name.replace(str(path), GIVEN), span.source.text))
    return replace(finding, message=finding.message.replace(str(path), GIVEN), span=span)


def hold(graph: Graph) -> None:
    """Map every file that weights of `graph` lie in: once mapped, it stays when its name goes."""
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
