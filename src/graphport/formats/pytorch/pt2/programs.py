"""Find the programs of an archive in the layouts of all PyTorch versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, Severity, Span
from graphport.formats.pytorch.pt2.document import document
from graphport.formats.pytorch.pt2.legacy import LegacyWeights, NestedWeights
from graphport.formats.pytorch.pt2.schema import fields
from graphport.formats.pytorch.pt2.weights import Weights

if TYPE_CHECKING:
    from graphport.formats.pytorch.pt2.container import Container

MODELS, PROGRAM = "models/", "serialized_exported_program.json"
OLDEST, NEWEST, NEWEST_MINOR = 5, 8, 20


@dataclass(slots=True)
class Program:
    """A program and the location of its weights."""

    document: dict[str, Any]
    weights: Weights | LegacyWeights | NestedWeights
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    versions: dict[str, str] = field(default_factory=dict[str, str])


def program(container: Container, name: str | None) -> Program:
    """Return the program `name`; without a name, the only program.

    Raises:
        DiagnosticError: PT0007 the archive has no program, PT0008 `name` is missing or unknown, PT0009 the schema or
            layout is not supported, PT0010 the byte order is big-endian.
    """
    _check_archive(container)
    if PROGRAM in container:
        found = Program(document(container, PROGRAM), LegacyWeights(container))
    else:
        chosen = _select_program(container, name)
        nested = f"data/weights/{chosen}.pt" in container or f"data/constants/{chosen}.pt" in container
        weights = NestedWeights(container, chosen) if nested else Weights(container, chosen)
        found = Program(document(container, f"{MODELS}{chosen}.json"), weights)
    _check_schema(container, found)
    return found


def _check_archive(container: Container) -> None:
    if "archive_format" in container and container.read("archive_format").strip() != b"pt2":
        raise container.fault("PT0009", "the archive format is not pt2")
    if "archive_version" in container and container.read("archive_version").strip() != b"0":
        raise container.fault("PT0009", "unsupported archive version, expected 0")
    order = container.read("byteorder").strip() if "byteorder" in container else b"little"
    if order != b"little":
        raise container.fault("PT0010", "unsupported big-endian weights")


def _select_program(container: Container, name: str | None) -> str:
    names = [
        member.removeprefix(MODELS).removesuffix(".json")
        for member in container.below(MODELS)
        if member.endswith(".json")
    ]
    if not names:
        raise container.fault("PT0007", *_without_program(container))
    if name is None and len(names) == 1:
        return names[0]
    if name is None or name not in names:
        message = f"the file has {len(names)} programs" if name is None else f"unknown program {name!r}"
        raise container.fault("PT0008", message, f"choose a program with --program: {', '.join(names)}")
    return name


def _without_program(container: Container) -> tuple[str, str]:
    export = "export the module with torch.export.save"
    if container.below("data/aotinductor/"):
        return "the file is compiled by AOTInductor and has no program", export
    if container.below("data/executorch/"):
        return "the file is an ExecuTorch program", export
    if "constants.pkl" in container or container.below("code/"):
        return (
            "the file is a TorchScript archive, not an exported program",
            "export the module, or convert it with pnnx",
        )
    if "data.pkl" in container:
        return "the file is a pickle of weights (torch.save) and has no program", export
    return "the file has no program", export


def _check_schema(container: Container, found: Program) -> None:
    version = found.document.get("schema_version")
    ends = fields(version, "schema_version") if isinstance(version, dict) else {}
    major, minor = ends.get("major", version if isinstance(version, int) else None), ends.get("minor", 0)
    if not isinstance(major, int) or not isinstance(minor, int) or not OLDEST <= major <= NEWEST:
        message = f"unsupported schema version {str(major)[:20]}, expected {OLDEST} to {NEWEST}"
        raise container.fault("PT0009", message, "export the module with PyTorch 2.3 or newer")
    found.versions["schema"] = f"{major}.{minor}"
    writer = found.document.get("torch_version")
    if isinstance(writer, str):
        found.versions["torch"] = writer[:64]
    if (major, minor) > (NEWEST, NEWEST_MINOR):
        message = f"schema version {major}.{minor} is newer than {NEWEST}.{NEWEST_MINOR}: the reader ignores new fields"
        span = Span(container.source)
        found.findings.append(Diagnostic("PT0012", message, span, "update graphport", Severity.WARNING))
