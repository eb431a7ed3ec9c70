"""The record by which a format registers: its names, its options, and the functions that read and write it.

Each format's package defines one `FORMAT`. `graphport.formats` lists the packages of the built-in formats; other
distributions register a record, or a package that has one, under the entry point group `graphport.formats`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from graphport.core.argument_types import raise_mismatches
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.faults import as_finding
from graphport.core.garbage_collection import paused_collection
from graphport.formats.interrupted_writes import report_marker
from graphport.formats.options import option_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from graphport.ir.graph import Graph

FINDINGS = "findings"
"""The reader's option that names a list for its warnings."""


class Recognizer(Protocol):
    """Whether a file or folder is in a format.

    Args:
        path: a folder, or the name of a file; a file with content is called `model`, so that its bytes decide.
        head: the first bytes of a file, at most `graphport.formats.HEAD`; none of a folder or an empty file.
    """

    def __call__(self, path: Path, head: bytes, /) -> bool: ...


class ModelReader(Protocol):
    """Read a file as a graph in the format's dialect.

    Returns the graph and warnings, or the graph alone if the format has the option `findings`.
    """

    def __call__(self, path: str | Path, /, **options: Any) -> Any: ...


class Writer(Protocol):
    """Write a graph in the format's dialect, completely or not at all."""

    def __call__(self, graph: Graph, path: str | Path, /, **options: Any) -> Any: ...


class VersionReader(Protocol):
    """The version of the file that a graph was read from: its edition, or its operator sets by name."""

    def __call__(self, graph: Graph, /) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class TensorContents:
    """A weight of a file."""

    dtype: str
    shape: tuple[int, ...]
    is_quantized: bool = False


@dataclass(frozen=True)
class ModuleContents:
    """A module of a file, with its own weights by name; the path of the root is empty."""

    path: str
    type: str
    tensors: Mapping[str, TensorContents]


@dataclass(frozen=True)
class Contents:
    """The parts of a file that no graph has."""

    versions: Mapping[str, str]
    methods: tuple[str, ...]
    """Signatures of the root's methods."""
    modules: tuple[ModuleContents, ...]
    extra_files: Mapping[str, int]
    """Bytes of the files that were saved with the model."""


@dataclass(frozen=True)
class Hooks:
    """The functions of a format: `recognize`, `read` and `versions` are required; `Format` documents the others."""

    recognize: Recognizer
    read: ModelReader
    versions: VersionReader
    write: Writer | None = None
    can_stay: Callable[..., bool] | None = None
    encoding: Callable[[bytes], str | None] | None = None
    decode: Callable[[Path, str], bytes] | None = None
    contents: Callable[[Path], Contents] | None = None
    copy_unchanged: Callable[[Graph, str | Path], bool] | None = None
    dialects_with: Callable[..., tuple[str, ...]] | None = None
    has_facts: Callable[[Graph], bool] | None = None
    model_folder: Callable[[Path], Path] | None = None
    keeps: Callable[[str], bool] | None = None
    kernels: Callable[[Graph], Iterable[tuple[str, int, int, str]]] | None = None
    least_snr: Callable[..., float | None] | None = None
    mark_again: Callable[[Graph], None] | None = None
    refuse_path: Callable[[Path, Path], None] | None = None
    choose_flavour: Callable[..., tuple[Graph, Mapping[str, Any], list[Diagnostic]]] | None = None


@dataclass(frozen=True)
class Format:
    """One exchange format."""

    name: str
    title: str
    endings: tuple[str, ...]
    dialect: str
    """The dialect that its writer takes; the canonical dialect is empty."""
    hooks: Hooks
    options: tuple[str, ...] = ()
    """The reader's options besides the path; with `findings`, a list that takes the warnings."""
    choices: tuple[str, ...] = ()
    """The writer's options besides the path."""
    faithful_choices: tuple[str, ...] = ()
    """Options with which a model of the same format is written as read, without conversion."""
    streamed: str | None = None
    """The extension of a file that holds a whole model, where one file does."""
    has_one_width: bool = False
    """Whether floats are float32 wherever a file does not state their type."""
    wide_flavour: str | None = None
    """The writer's flavour that does state the type of floats."""
    packed_in: tuple[str, ...] = ()
    """Archive types of the format's files (`zip`, `tar`, `gzip`): its reader reports damaged ones."""
    tells: bool = False
    """Whether its writer takes a list `findings` for its warnings."""
    has_metadata: bool = False
    """Whether its writer stores the note `METADATA`."""
    takes_any_model: bool = True
    """Whether its writer takes every model whose operators it has; otherwise it takes models of one kind."""
    preparations: tuple[str, ...] = ()
    """Options that select the passes before the writer."""
    rules: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    """Packages of import and export rules by dialect; formats of graphport itself are listed in `ops.dialects`."""

    @property
    def writes(self) -> bool:
        """Whether it is written."""
        return self.hooks.write is not None

    def read(self, path: str | Path, **options: Any) -> tuple[Graph, list[Diagnostic]]:
        """Read a graph in the format's dialect, and the warnings. Options that its reader does not have are ignored."""
        known = {name: value for name, value in options.items() if name in self.options}
        with as_finding(f"reading {self.title}", Span(Source(str(path)))):
            if FINDINGS not in self.options:
                graph, findings = self.hooks.read(path, **known)
            else:
                findings = list[Diagnostic]()
                graph = self.hooks.read(path, findings=findings, **known)
        return graph, [*findings, *report_marker(path)]

    def write(self, graph: Graph, path: str | Path, **options: Any) -> list[Diagnostic]:
        """Write a graph in the format's dialect, completely or not at all. Return the warnings.

        Raises:
            DiagnosticError: IO0008 unknown option; the writer's errors.
            TypeError: the format is read only.
        """
        write = self.hooks.write
        if write is None:
            message = f"{self.title} has no writer"  # `by_name` has refused it
            raise TypeError(message)
        self.check_choices(options)
        findings: list[Diagnostic] = []
        rest = {name: value for name, value in options.items() if name not in self.preparations}
        with as_finding(f"writing {self.title}", Span(Source(str(path)))), paused_collection():
            write(graph, path, **rest, **({FINDINGS: findings} if self.tells else {}))
        return findings

    def check_choices(self, options: Mapping[str, Any]) -> None:
        """Refuse options that its writer does not have, and values of another type.

        Raises:
            DiagnosticError: IO0008 for each option; IO0021 for each value.
        """
        unknown = sorted(set(options) - set(self.choices))
        if unknown:
            known = f"options: {', '.join(self.choices)}" if self.choices else "remove the option: the format has none"
            raise DiagnosticError(
                *(
                    Diagnostic("IO0008", f"the writer of {self.title} has no option {name!r}", None, known)
                    for name in unknown
                )
            )
        raise_mismatches(f"the writer of {self.title}", option_types(), options)

    def contents(self, path: Path) -> Contents | None:
        """The modules, weights, methods and extra files of a file; `None` for formats without modules."""
        return None if self.hooks.contents is None else self.hooks.contents(path)

    def encoding(self, head: bytes) -> str | None:
        """Return the name of the format's other encoding, such as text, for a file with the first bytes `head`."""
        return None if self.hooks.encoding is None else self.hooks.encoding(head)

    def decode(self, path: Path, encoding: str) -> bytes:
        """The content of a file in another encoding, as its reader takes it.

        Raises:
            DiagnosticError: the file is damaged.
        """
        if self.hooks.decode is None:
            message = f"{self.title} has no encoding {encoding}"
            raise TypeError(message)
        return self.hooks.decode(path, encoding)

    def model_folder(self, path: Path) -> Path:
        """The file or folder of a model that is written to `path`."""
        return path if self.hooks.model_folder is None else self.hooks.model_folder(path)

    def refuse_path(self, path: Path, written: Path) -> None:
        """Refuse to move a model that was written to `written` to `path`, because of files at `path`.

        Raises:
            DiagnosticError: what `write` would raise at `path`.
        """
        if self.hooks.refuse_path is not None:
            self.hooks.refuse_path(path, written)

    def kernels(self, graph: Graph) -> Sequence[tuple[str, int, int, str]]:
        """Operators of a raw graph: op type, version, count, and whether a delegate takes them."""
        return () if self.hooks.kernels is None else tuple(self.hooks.kernels(graph))

    def has_facts(self, graph: Graph) -> bool:
        """Whether its reader has set all facts of a graph that was just read, as inference would."""
        return self.hooks.has_facts is not None and bool(self.hooks.has_facts(graph))

    def mark_again(self, graph: Graph) -> None:
        """Record that a graph with more facts, or in another dialect, still equals its file."""
        if self.hooks.mark_again is not None:
            self.hooks.mark_again(graph)

    def copy_unchanged(self, graph: Graph, path: str | Path) -> bool:
        """Copy the file of an unchanged graph to `path`, byte for byte. Return whether that was done."""
        return self.hooks.copy_unchanged is not None and bool(self.hooks.copy_unchanged(graph, path))

    @property
    def has_documents(self) -> bool:
        """Whether its files hold documents besides the graph: see `archive.Documents`."""
        return "documents" in self.choices

    def keeps(self, dialect: str) -> bool:
        """Whether the format stores nodes of another dialect, as ONNX stores other domains."""
        return self.hooks.keeps is not None and bool(self.hooks.keeps(dialect))

    def least_snr(self, **options: Any) -> float | None:
        """Minimum SNR of the outputs in decibels where `options` of `write` round weights; `None` where they do not."""
        return None if self.hooks.least_snr is None else self.hooks.least_snr(**options)

    def can_stay(self, graph: Graph, **options: Any) -> bool:
        """Whether the writer accepts an unchanged graph of the reader's dialect with these options."""
        return self.hooks.can_stay is None or bool(self.hooks.can_stay(graph, **options))

    def versions(self, graph: Graph) -> dict[str, str]:
        """The version of a raw graph's file: its edition, or its operator sets by name."""
        return dict(self.hooks.versions(graph))

    def choose_flavour(
        self, stated: Callable[[str], Graph], options: Mapping[str, Any], versions: Mapping[str, str]
    ) -> tuple[Graph, Mapping[str, Any], list[Diagnostic]]:
        """Choose the output dialect. Return the graph, the writer's options, and findings about the choice.

        Args:
            stated: exports the model to a dialect; raises `DiagnosticError` if it cannot.
            options: options of the writer. If they do not name a dialect, the model decides.
            versions: result of `versions` for a source in the same format.

        Raises:
            DiagnosticError: no possible dialect can express the model; with the reasons of each dialect.
        """
        if self.hooks.choose_flavour is None:
            return stated(self.dialect), options, []
        return self.hooks.choose_flavour(stated, options, versions)

    def dialects_with(self, **options: Any) -> tuple[str, ...]:
        """Return the dialects that the writer accepts with these options, the largest one last."""
        return (self.dialect,) if self.hooks.dialects_with is None else self.hooks.dialects_with(**options)

    @property
    def read_dialect(self) -> str:
        """The dialect that its reader returns; the canonical dialect is ONNX at one version of many."""
        return self.dialect or "onnx"


def deferred(package: str, name: str) -> Any:
    """A function that imports `name` from `package` when it is called: registering a format imports no reader."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(package), name)(*arguments, **options)

    call.__name__, call.__module__ = name, package
    return call


def resolve(hook: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a deferred hook calls."""
    return getattr(import_module(hook.__module__), hook.__name__)
