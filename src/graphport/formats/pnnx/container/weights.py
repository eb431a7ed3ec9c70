"""Weights of a `.param` text, read from its archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core import budget
from graphport.core.diagnostics import DiagnosticError, Source
from graphport.core.regular_files import belonging
from graphport.core.storage import FileStorage, MappedFile
from graphport.formats.pnnx.container.archive import Archive, Layout, read_archive
from graphport.formats.pnnx.container.values import parse_tensor

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.core.storage import Storage
    from graphport.formats.pnnx.container.param import Field, Findings

ENDING = ".param"


class Weights:
    """The archive next to a text, opened on first access."""

    def __init__(self, place: Path, findings: Findings) -> None:
        self._path = belonging(place.with_name(place.name.removesuffix(ENDING) + ".bin"), place)
        self._findings = findings
        self._file: MappedFile | None = None
        self._archive: Archive | None = None
        self._is_missing = False

    @property
    def layout(self) -> Layout:
        """Return the layout of the archive; opens it if that has not happened yet."""
        self._open_archive(None)
        return Layout.WIDE if self._archive is None else self._archive.layout

    def _open_archive(self, field: Field | None) -> None:
        if self._file is not None or self._is_missing:
            return
        try:
            file = MappedFile(self._path)
            archive = read_archive(file, Source(str(self._path)))
        except OSError as error:
            self._is_missing = True
            if field is not None:
                message = f"the weights of {self._path.name} cannot be read: {error.strerror or error}"
                self._findings.error(
                    "PNNX0101", message, field, "place the .bin next to the .param, with the same stem"
                )
        except DiagnosticError as error:
            self._is_missing = True
            for finding in error.diagnostics:
                self._findings.add(finding)
        else:
            self._file, self._archive = file, archive

    def storage(self, name: str, field: Field) -> Storage | None:
        """Return the elements of the weight `name`, declared in field `field`; `None` after an error was reported."""
        try:
            dtype, shape = parse_tensor(field.text, name)
        except ValueError as error:
            self._findings.error("PNNX0006", f"{name}: {error}", field)
            return None
        lengths = [dim for dim in shape if isinstance(dim, int)]
        if dtype is None or len(lengths) < len(shape):
            self._findings.error(
                "PNNX0106", f"{name} is declared as {field.text}, which is not a valid weight type", field
            )
            return None
        self._open_archive(field)
        if self._archive is None or self._file is None:
            return None
        member = self._archive.members.get(name)
        if member is None:
            message = f"{self._path.name} has no member {name}"
            self._findings.error(
                "PNNX0105", message, field, "pass the .bin of this .param: it belongs to another model"
            )
            return None
        storage = FileStorage(self._file, member.start, dtype, lengths)
        if not budget.fits_in_memory(lengths):
            message = f"{name} is declared as {field.text}, which exceeds the addressable memory"
            self._findings.error("PNNX0106", message, field, "correct the shape")
            return None
        if storage.nbytes != member.length:
            size = budget.shown(storage.nbytes)
            message = f"{name} is declared as {field.text} ({size} bytes), but its member has {member.length} bytes"
            self._findings.error(
                "PNNX0106", message, field, "pass the .bin of this .param: it belongs to another model"
            )
            return None
        return storage
