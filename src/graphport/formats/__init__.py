"""Bytes to dialect graph and back: a folder a format, independent of each other; this table names them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.collection import paused_collection
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from graphport.core.faults import as_finding
from graphport.core.names import near
from graphport.core.opening import beginning, belonging, regular
from graphport.core.replacing import interrupted_with, interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType

    from graphport.ir.graph import Graph

_FINDINGS = "findings"

HEAD = 4096
"""Bytes of a file that a format sees to recognize it."""

_NAMELESS = Path("model")

_FOLDERS = {"pt2": "pytorch.pt2", "torchscript": "pytorch.torchscript"}
"""Packages of formats that are called otherwise."""

_IR_CHOICES = ("ir_opset", "ir_version", "weights")

_GRAPHS = {".caffemodel": ".prototxt"}
"""Endings of weights that are opened like models, and of the graphs that they are written together with."""


@cache
def _module(name: str) -> ModuleType:
    """The package of a format; every one of them is asked of every file."""
    return import_module(f"graphport.formats.{_FOLDERS.get(name, name)}")


class Format(NamedTuple):
    """One exchange format."""

    name: str
    title: str
    endings: tuple[str, ...]
    dialect: str
    """The dialect that its writer takes; the canonical one is empty."""
    options: tuple[str, ...] = ()
    """What its reader can be told besides the path; with `findings`, a list that takes the warnings."""
    choices: tuple[str, ...] = ()
    """What its writer can be told besides the path."""
    faithful_choices: tuple[str, ...] = ()
    """Those of them with which a model of the same format is written as it was read, not in other words."""
    streamed: str | None = None
    """The ending of a file that holds a whole model, where one file does."""
    has_one_width: bool = False
    """Whether real numbers are single precision wherever nothing in a file says otherwise."""
    wide_flavour: str | None = None
    """The flavour, of those that its writer takes, in which a file does say otherwise."""
    tells: bool = False
    """Whether its writer takes a list `findings` for what it has to say of what it wrote."""
    writes: bool = True
    """Whether it is written."""
    preparations: tuple[str, ...] = ()
    """Those of its choices that are for what is done ahead of its writer."""

    @property
    def module(self) -> ModuleType:
        """`recognizes(path, head)`, `read(path, …)` and `write(graph, path, …)`."""
        return _module(self.name)

    def read(self, path: str | Path, **options: Any) -> tuple[Graph, list[Diagnostic]]:
        """The graph in the format's own words, and warnings; errors are raised. Options unknown to it are ignored."""
        known = {name: value for name, value in options.items() if name in self.options}
        with as_finding(f"reading {self.title}", Span(Source(str(path)))):
            if _FINDINGS not in self.options:
                graph, findings = self.module.read(path, **known)
            else:
                findings = list[Diagnostic]()
                graph = self.module.read(path, findings=findings, **known)
        return graph, [*findings, *_of_marker(path)]

    def write(self, graph: Graph, path: str | Path, **options: Any) -> list[Diagnostic]:
        """Write a graph in the format's own words, whole or not at all; return what there is to say of it.

        Raises:
            DiagnosticError: IO0008 its writer has no such option; what the writer raises.
        """
        self.check_choices(options)
        findings: list[Diagnostic] = []
        rest = {name: value for name, value in options.items() if name not in self.preparations}
        with as_finding(f"writing {self.title}", Span(Source(str(path)))), paused_collection():
            self.module.write(graph, path, **rest, **({_FINDINGS: findings} if self.tells else {}))
        return findings

    def check_choices(self, options: Iterable[str]) -> None:
        """Refuse what its writer cannot be told.

        Raises:
            DiagnosticError: IO0008 for each option.
        """
        unknown = sorted(set(options) - set(self.choices))
        if unknown:
            known = f"options: {', '.join(self.choices)}" if self.choices else "it has none"
            raise DiagnosticError(
                *(
                    Diagnostic("IO0008", f"{self.title} is written without an option {name!r}", None, known)
                    for name in unknown
                )
            )

    def home(self, path: Path) -> Path:
        """The file or folder that a model is that is written to `path`."""
        home = getattr(self.module, "home", None)
        return path if home is None else home(path)

    def refuse_path(self, path: Path, written: Path) -> None:
        """Refuse to move a model that was written elsewhere to `path`, for what lies there.

        Raises:
            DiagnosticError: what `write` would raise at `path`.
        """
        refuse = getattr(self.module, "refuse_path", None)
        if refuse is not None:
            refuse(path, written)

    def kernels(self, graph: Graph) -> Sequence[tuple[str, int, int, str]]:
        """Operators of a raw graph with their versions, how many they are, and whether a delegate takes them."""
        kernels = getattr(self.module, "kernels", None)
        return () if kernels is None else tuple(kernels(graph))

    def has_facts(self, graph: Graph) -> bool:
        """Whether its reader has set all facts of a graph that was just read, as inference would."""
        has_facts = getattr(self.module, "has_facts", None)
        return has_facts is not None and bool(has_facts(graph))

    def mark_again(self, graph: Graph) -> None:
        """Tell the format that a graph, of which more is known now, or in other words, is still what its file says."""
        mark_again = getattr(self.module, "mark_again", None)
        if mark_again is not None:
            mark_again(graph)

    def copy_unchanged(self, graph: Graph, path: str | Path) -> bool:
        """Whether a graph is as it was read, and its file, byte for byte, is at `path` now as well."""
        copy = getattr(self.module, "copy_unchanged", None)
        return copy is not None and bool(copy(graph, path))

    @property
    def has_documents(self) -> bool:
        """Whether its files have room for what is known of a model besides the graph: see `archive.Documents`."""
        return "documents" in self.choices

    def keeps(self, dialect: str) -> bool:
        """Whether it can write nodes of a dialect that is not its own, as ONNX can those of other domains."""
        keeps = getattr(self.module, "keeps", None)
        return keeps is not None and bool(keeps(dialect))

    def least_snr(self, **options: Any) -> float | None:
        """Decibels that outputs keep where `options` of `write` round weights; `None` where they do not."""
        least = getattr(self.module, "least_snr", None)
        return None if least is None else least(**options)

    def can_stay(self, graph: Graph, **options: Any) -> bool:
        """Whether its writer, told these faithful choices, takes a graph in its reader's own words as it is."""
        can_stay = getattr(self.module, "can_stay", None)
        return can_stay is None or bool(can_stay(graph, **options))

    def versions(self, graph: Graph) -> dict[str, str]:
        """What a raw graph says of the file's version: of its edition, or of its operator sets by name."""
        return self.module.versions(graph)

    @property
    def reads(self) -> bool:
        """Whether it is read."""
        return "read" in self.module.__all__

    def settled(
        self, stated: Callable[[str], Graph], options: Mapping[str, Any], versions: Mapping[str, str]
    ) -> tuple[Graph, Mapping[str, Any], list[Diagnostic]]:
        """A model in words that its writer takes, what to tell the writer, and what there is to say of the choice.

        Args:
            stated: the model in the words of a dialect; raises `DiagnosticError` where there are none.
            options: what the writer is told. Where they leave open which words are wanted, the model decides.
            versions: what a source in the same format says of its own.

        Raises:
            DiagnosticError: no words that are left open say the model; of all of them why.
        """
        settled = getattr(self.module, "settled", None)
        if settled is None:
            return stated(self.dialect), options, []
        return settled(stated, options, versions)

    def dialects_with(self, **options: Any) -> tuple[str, ...]:
        """The dialects that its writer takes with these options, that of the most words last."""
        dialects_with = getattr(self.module, "dialects_with", None)
        return (self.dialect,) if dialects_with is None else dialects_with(**options)

    @property
    def read_dialect(self) -> str:
        """The dialect that its reader gives; what is canonical is ONNX at one version of many."""
        return self.dialect or "onnx"


FORMATS: dict[str, Format] = {
    found.name: found
    for found in (
        Format(
            "nnef",
            "NNEF 1.0",
            (".nnef", ".nnef.tgz", ".nnef.tar.gz", ".nnef.tar", ".tgz", ".tar.gz", ".tar"),
            "nnef",
            ("edition", "shapes", "tolerant"),
            ("allow_fragments", "edition", "flatten", "flavour", "strict"),
            ("edition", "flatten", "strict"),
            ".nnef.tgz",
            has_one_width=True,
            wide_flavour="tract",
            tells=True,
        ),
        Format("onnx", "ONNX", (".onnx",), "", (_FINDINGS,), ("external_data", "opset"), streamed=".onnx"),
        Format("openvino", "OpenVINO IR", (".xml",), "openvino", (), _IR_CHOICES, _IR_CHOICES),
        Format("pnnx", "PNNX", (".pnnx.param",), "pnnx", ("tolerant",), ("code",)),
        Format(
            "ncnn",
            "ncnn",
            (".ncnn.param", ".param", ".param.bin"),
            "ncnn",
            choices=("batch", "optimize", "precision", "weights"),
            faithful_choices=("precision", "weights"),
            preparations=("batch", "optimize"),
            has_one_width=True,
        ),
        Format("caffe", "Caffe", (".prototxt", ".caffemodel"), "caffe", has_one_width=True),
        Format("pt2", "PyTorch exported program", (".pt2",), "pytorch", ("program", "states"), writes=False),
        Format(
            "torchscript",
            "TorchScript",
            (".pt", ".torchscript", ".ptl", ".pth"),
            "pytorch",
            ("shapes", "states"),
            writes=False,
        ),
        Format("keras", "Keras", (".keras", ".h5", ".hdf5"), "keras", writes=False),
        Format("tflite", "TFLite", (".tflite",), "tflite", ("program",), streamed=".tflite", tells=True),
        Format("checkpoint", "language-model checkpoint", (".gguf",), "", writes=False),
        Format("archive", "graphport archive", (".graphport",), "", (), ("documents",), ("documents",), ".graphport"),
    )
}


def graph_of(path: Path) -> Path:
    """The file of a model whose move makes the others of the model seen."""
    return path.with_suffix(_GRAPHS[path.suffix]) if path.suffix in _GRAPHS else path


def recognize(path: str | Path) -> Format:
    """The format of an existing file or folder, by content first, then by name.

    Raises:
        DiagnosticError: IO0001 there is nothing at `path`, IO0002 no format is recognized, IO0006 it cannot be read.
    """
    place = path if isinstance(path, Path) else Path(path)
    try:
        _refuse_incomplete(place)
        mode = _mode(place)
        if mode is None:
            message = f"there is no {path}"
            raise DiagnosticError(Diagnostic("IO0001", message, Span(Source(str(path))), "check the path"))
        is_file = not S_ISDIR(mode)
        if is_file and not S_ISREG(mode):
            regular(place)  # which says what it is
        found = _by_content(place, is_file=is_file) or _by_ending(place.name)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(Source(str(path))), "check the path")) from error
    if found is not None:
        return found
    message = f"{path} is in no format that is known"
    raise DiagnosticError(Diagnostic("IO0002", message, Span(Source(str(path))), f"known: {_known()}"))


def _graph_file(place: Path) -> Path:
    graph = graph_of(place)
    return graph if graph is place else belonging(graph, place)


def _refuse_incomplete(place: Path) -> None:
    """Refuse a model of which a writer of this user was stopped between two renames.

    Raises:
        DiagnosticError: IO0012.
    """
    graph = _graph_file(place)
    found = interruption(graph)
    if found is None and not graph.exists():
        found = interrupted_with(graph) if graph.parent.exists() else interruption(graph.parent)
    if found is None or not found.is_incomplete:
        return
    missing = ", ".join(found.missing)
    message = f"{place.name} is incomplete: its writer was interrupted before {missing} was in place"
    remedy = f"to finish, run the command that wrote {place.name} again"
    if found.restore:
        remedy += f"; to have the old files back, run in {found.marker.parent}: {found.restore}"
    raise DiagnosticError(Diagnostic("IO0012", message, Span(Source(str(place))), remedy))


def _of_marker(path: str | Path) -> list[Diagnostic]:
    """A warning where the marker of an interrupted write lies beside a model that is read."""
    found = interruption(_graph_file(Path(path)))
    if found is None:
        return []
    message = f"{found.marker.name} says that a write of this model was interrupted; it is not followed"
    remedy = "the next write of this model removes it if this user's graphport left it; if not, remove it yourself"
    return [Diagnostic("IO0013", message, Span(Source(str(found.marker))), remedy, Severity.WARNING)]


def _mode(place: Path) -> int | None:
    """What is at `place`, `None` for nothing; `Path.exists` before Python 3.14 takes a refusal for an absence."""
    try:
        return place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last of names with a NUL
        return None


def called(name: str) -> Format:
    """The format of that name.

    Raises:
        DiagnosticError: IO0003 there is none.
    """
    if name not in FORMATS:
        close = near(name, FORMATS)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"known: {_known()}"
        raise DiagnosticError(Diagnostic("IO0003", f"there is no format {name!r}", None, remedy))
    return FORMATS[name]


def by_name(path: str | Path, name: str | None = None) -> Format:
    """The format to write `path` in: `name`, else what its ending says; a name without ending is an NNEF folder.

    Raises:
        DiagnosticError: IO0003 neither says one.
    """
    if name is not None:
        found = called(name)
    else:
        found = _by_ending(Path(path).name)
        if found is None and not Path(path).suffix:
            found = FORMATS["nnef"]
    if found is None:
        raise DiagnosticError(Diagnostic("IO0003", f"the name {path} says no format", None, f"known: {_known()}"))
    if not found.writes:
        message = f"{found.title}s are read, not written"
        raise DiagnosticError(Diagnostic("IO0003", message, None, f"known: {_known()}"))
    return found


def _by_content(place: Path, *, is_file: bool) -> Format | None:
    head = b""
    if is_file:
        head = beginning(place, HEAD)
        # A format looks at the name, too; nothing lies below a file, and this name has no ending.
        place = _NAMELESS if head else place / "model"
    return next((found for found in FORMATS.values() if found.module.recognizes(place, head)), None)


def _by_ending(name: str) -> Format | None:
    lower = name.lower()
    fitting = [(len(e), found) for found in FORMATS.values() for e in found.endings if lower.endswith(e)]
    return max(fitting, key=lambda item: item[0])[1] if fitting else None


def _known() -> str:
    return ", ".join(f"{found.name} ({', '.join(found.endings)})" for found in FORMATS.values())
