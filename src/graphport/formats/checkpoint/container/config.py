"""`config.json` and other JSON files of a folder, within bounds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from graphport.core import budget
from graphport.core.diagnostics import Source
from graphport.core.regular_files import regular_status
from graphport.formats.checkpoint.container.faults import fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MAX_JSON_BYTES = 1 << 26
"""Length of the longest JSON file that is read; an index of 400,000 tensors has some 40 MB."""
_MAX_SIZE = 1 << 31
"""Upper limit of sizes in a configuration."""


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        DiagnosticError: CKPT0001 the file cannot be read; CKPT0002 it contains no JSON object or is too long.
    """
    return parse_object(_contents(path), Source(str(path)), "CKPT0002", path.name)


def read_list(path: Path) -> list[Any]:
    """Return the list in a JSON file; raises as `read_json`."""
    source = Source(str(path))
    found = _parsed(_contents(path), source, "CKPT0002", path.name)
    if not isinstance(found, list):
        raise fault(
            "CKPT0002", f"{path.name} is not a JSON list", source, remedy="download the file again: it is corrupt"
        )
    return cast("list[Any]", found)


def _contents(path: Path) -> bytes:
    source = Source(str(path))
    try:
        size = regular_status(path).st_size
        if size > (limit := budget.limit("checkpoint.json", MAX_JSON_BYTES)):
            message = f"{path.name} has {size} bytes, the limit is {limit}"
            raise fault(
                "CKPT0002", message, source, remedy="set GRAPHPORT_LIMITS=checkpoint.json=N to raise the limit to N"
            )
        return path.read_bytes()
    except OSError as error:
        message = f"{path.name} cannot be read: {error.strerror or error}"
        raise fault("CKPT0001", message, source, remedy="check the folder") from error


def parse_object(data: bytes, source: Source, code: str, name: str) -> dict[str, Any]:
    """Return the object that JSON text contains; a repeated name is an error.

    Raises:
        DiagnosticError: `code`, the text is not a JSON object.
    """
    found = _parsed(data, source, code, name)
    if not isinstance(found, dict):
        raise fault(code, f"{name} is not a JSON object", source, remedy="download the file again: it is corrupt")
    return cast("dict[str, Any]", found)


def _parsed(data: bytes, source: Source, code: str, name: str) -> object:
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError as error:
        raise fault(
            code, f"{name} is nested too deeply", source, remedy="download the file again: it is corrupt"
        ) from error
    except ValueError as error:
        raise fault(
            code, f"{name} is not valid JSON: {error}"[:300], source, remedy="download the file again: it is corrupt"
        ) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        message = f"the name {next(name for name in names if names.count(name) > 1)!r} occurs twice"
        raise ValueError(message)
    return found


class Config:
    """Values of a configuration by name, checked; `null` counts as absent."""

    def __init__(self, values: Mapping[str, Any], source: Source, prefix: str = "") -> None:
        self.values = values
        self.source = source
        self.prefix = prefix

    def find(self, names: Sequence[str]) -> tuple[str, Any]:
        """Return the first of several names that has a value, and the value; None if none has.

        `SECTION.NAME` is a value of a nested object.
        """
        for name in names:
            if (value := self.values.get(name)) is not None:
                return name, value
            section, _, inner = name.rpartition(".")
            nested: object = self.values.get(section)
            if isinstance(nested, dict) and (value := cast("dict[str, Any]", nested).get(inner)) is not None:
                return name, value
        return names[0], None

    def has(self, name: str) -> bool:
        """Whether a value is present and not null."""
        return self.values.get(name) is not None

    def integer(self, *names: str, default: int | None = None, low: int = 1, high: int = _MAX_SIZE) -> int:
        """Return an integer between `low` and `high`."""
        name, value = self.find(names)
        if value is None:
            return self._default(name, default, "an integer")
        if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:
            raise self.fault(name, f"{name} is {_shown(value)}, expected an integer")
        if not low <= value <= high:
            raise self.fault(name, f"{name} is {_shown(value)}, expected {low} to {high}")
        return int(value)

    def finite_float(self, *names: str, default: float | None = None) -> float:
        """Return a finite float."""
        name, value = self.find(names)
        if value is None:
            return self._default(name, default, "a number")
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e38:
            raise self.fault(name, f"{name} is {_shown(value)}, expected a number")
        return float(value)

    def flag(self, *names: str, default: bool | None = None) -> bool:
        """Return a boolean."""
        name, value = self.find(names)
        if value is None:
            return self._default(name, default, "a boolean")
        if not isinstance(value, bool):
            raise self.fault(name, f"{name} is {_shown(value)}, expected true or false")
        return value

    def text(self, *names: str, default: str | None = None) -> str:
        """Return a string."""
        name, value = self.find(names)
        if value is None:
            return self._default(name, default, "a string")
        if not isinstance(value, str):
            raise self.fault(name, f"{name} is {_shown(value)}, expected a string")
        return value

    def list_value(self, name: str, count: int | None = None) -> list[Any] | None:
        """Return a list of `count` values, or None."""
        value = self.values.get(name)
        if value is None:
            return None
        found: list[Any] = value
        if not isinstance(value, list) or (count is not None and len(found) != count):
            expected = "a list" if count is None else f"a list of {count} values"
            raise self.fault(name, f"{name} is {_shown(found)}, expected {expected}")
        return found

    def positive_floats(self, name: str, count: int) -> list[float]:
        """Return a list of `count` finite positive floats."""
        found = self.list_value(name, count)
        if found is None:
            raise self.fault(name, f"{name} is missing")
        values = [Config({name: each}, self.source, self.prefix).finite_float(name) for each in found]
        if min(values, default=1) <= 0:
            raise self.fault(name, f"{name} contains {min(values)}, expected positive numbers")
        return values

    def section(self, name: str) -> Config | None:
        """Return a nested object, or None."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fault(name, f"{name} is {_shown(value)}, expected an object")
        return Config(cast("dict[str, Any]", value), self.source, f"{self.prefix}{name}.")

    def fault(self, name: str, message: str, remedy: str = "correct the configuration") -> Exception:
        """Return the error about a value."""
        return fault("CKPT0006", message, self.source, self.prefix + name, remedy)

    def unsupported(
        self, name: str, message: str, remedy: str = "see docs/checkpoint.md for supported models"
    ) -> Exception:
        """Return the error about a value that is valid and not read."""
        return fault("CKPT0005", f"unsupported: {message}", self.source, self.prefix + name, remedy)

    def _default(self, name: str, default: Any, kind: str) -> Any:
        if default is None:
            raise self.fault(name, f"{name} is missing, expected {kind}")
        return default


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "an integer above 2^64"
    return text if len(text) <= 60 else f"{text[:60]}…"
