"""The manifest of an archive: its version, its sections, and the types of its weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span
from graphport.core.dtypes import DType
from graphport.formats.archive.container.layout import GRAPH, MANIFEST, MOST_NESTED, NOTES, VERSION, WEIGHTS
from graphport.ir.documents import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.diagnostics import Source

_KNOWN = frozenset({"graph", "notes", WEIGHTS, *SECTIONS})


class Weight(NamedTuple):
    """Location of a weight's elements in a member."""

    member: str
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The parsed manifest."""

    version: tuple[int, int]
    sections: Mapping[str, str]
    """Members by section, for supported sections."""
    weights: Mapping[str, Weight]


def create_manifest(weights: Mapping[str, Weight], documents: Mapping[str, str], *, has_notes: bool) -> bytes:
    """Return the manifest of an archive: `weights` by name, and the member of each section in `documents`."""
    sections: list[dict[str, Any]] = [{"name": "graph", "member": GRAPH, "required": True}]
    if weights:
        sections.append({"name": WEIGHTS, "required": True})
    if has_notes:
        sections.append({"name": "notes", "member": NOTES, "required": False})
    sections += [{"name": name, "member": member, "required": False} for name, member in documents.items()]
    numbers = {
        name: {"member": weight.member, "dtype": str(weight.dtype), "shape": list(weight.shape)}
        for name, weight in weights.items()
    }
    return as_json({"version": list(VERSION), "sections": sections, "weights": numbers})


def as_json(document: object) -> bytes:
    """Serialize a document deterministically.

    Raises:
        TypeError: it contains a value that JSON does not support.
    """
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def parsed(data: bytes, name: str, source: Source) -> dict[str, Any]:
    """Parse the JSON object in the bytes of the member `name`.

    Raises:
        DiagnosticError: IO0210 not JSON, not an object, or nested too deep to be written again.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _corrupt_error(f"{name} is not valid JSON: {error}", name, source) from error
    if not isinstance(document, dict):
        raise _corrupt_error(f"{name} is not a JSON object", name, source)
    if _is_deep(cast("dict[str, Any]", document)):
        raise _corrupt_error(f"{name} is nested more than {MOST_NESTED} levels deep", name, source)
    return cast("dict[str, Any]", document)


def _is_deep(document: dict[str, Any]) -> bool:
    level: list[dict[str, Any] | list[Any]] = [document]
    for _ in range(MOST_NESTED):
        entries = [entry for outer in level for entry in (outer.values() if isinstance(outer, dict) else outer)]
        level = [entry for entry in entries if isinstance(entry, dict | list)]
    return bool(level)


def understood(document: dict[str, Any], source: Source) -> tuple[Manifest, list[Diagnostic]]:
    """Parse and check the manifest; return it with warnings.

    Raises:
        DiagnosticError: IO0204 the major version is newer than supported, IO0206 a required section is unknown,
            IO0210 an entry is invalid.
    """
    version = _version(document.get("version"), source)
    findings = _about_version(version, source)
    sections: dict[str, str] = {}
    for entry in _objects(document.get("sections"), "sections", source):
        name, member = entry.get("name"), entry.get("member", "")
        if not isinstance(name, str) or not isinstance(member, str):
            raise _corrupt_error("a section has no name", MANIFEST, source)
        if name in _KNOWN:
            sections[name] = member
        elif entry.get("required") is not False:
            message = f"unsupported required section {name!r}"
            raise DiagnosticError(Diagnostic("IO0206", message, _span(source), "update graphport"))
        else:
            message = f"the reader ignores the unknown section {name!r}"
            warning = Diagnostic("IO0205", message, _span(source), "update graphport", Severity.WARNING)
            findings.append(warning)
    if "graph" not in sections:
        raise _corrupt_error("missing section 'graph'", MANIFEST, source)
    return Manifest(version, sections, _weights(document.get("weights", {}), source)), findings


def _about_version(version: tuple[int, int], source: Source) -> list[Diagnostic]:
    stated, ours = (".".join(map(str, each)) for each in (version, VERSION))
    if version[0] > VERSION[0]:
        message = f"the archive has version {stated}, the newest supported version is {ours}"
        raise DiagnosticError(Diagnostic("IO0204", message, _span(source), "update graphport"))
    if version <= VERSION:
        return []
    message = f"the archive has version {stated}, this reader supports {ours}; newer content is skipped"
    return [Diagnostic("IO0205", message, _span(source), "update graphport to read it completely", Severity.WARNING)]


def _version(found: object, source: Source) -> tuple[int, int]:
    match found:
        case [int(major), int(minor)] if major > 0 and minor >= 0:
            return major, minor
        case _:
            raise _corrupt_error(f"invalid version {found!r:.40}", MANIFEST, source)


def _weights(found: object, source: Source) -> dict[str, Weight]:
    if not isinstance(found, dict):
        raise _corrupt_error("'weights' is not a JSON object", MANIFEST, source)
    weights: dict[str, Weight] = {}
    for name, entry in cast("dict[str, Any]", found).items():
        stated = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        member, dtype, shape = stated.get("member"), stated.get("dtype"), stated.get("shape")
        if not isinstance(member, str) or not isinstance(dtype, str) or not isinstance(shape, list):
            raise _corrupt_error(f"the weight {name!r} has no member, dtype or shape", MANIFEST, source)
        weights[name] = _weight(name, member, dtype, cast("list[Any]", shape), source)
    return weights


def _weight(name: str, member: str, dtype: str, shape: list[Any], source: Source) -> Weight:
    known = {str(each): each for each in DType}
    if dtype not in known:
        raise _corrupt_error(f"unknown element type {dtype!r:.40} of the weight {name!r}", MANIFEST, source)
    extents = [extent for extent in shape if isinstance(extent, int) and not isinstance(extent, bool) and extent >= 0]
    if len(extents) != len(shape) or prod(extents) >= 1 << 62:
        raise _corrupt_error(f"invalid shape {shape!r:.60} of the weight {name!r}", MANIFEST, source)
    return Weight(member, known[dtype], tuple(extents))


def _objects(found: object, what: str, source: Source) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in cast("list[object]", found)):
        raise _corrupt_error(f"{what!r} is not a list of objects", MANIFEST, source)
    return cast("list[dict[str, Any]]", found)


def _corrupt_error(message: str, member: str, source: Source) -> DiagnosticError:
    span = Span(source, place=f"member {member!r}")
    return DiagnosticError(
        Diagnostic("IO0210", message, span, "write the archive again: it is corrupt or was not written by graphport")
    )


def _span(source: Source) -> Span:
    return Span(source, place=f"member {MANIFEST!r}")
