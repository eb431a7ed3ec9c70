"""Calibration data: where they lie, whether they fit, and runs of them one after another.

Data of an input are stacked along axis 0. They are read in blocks, forwards, as often as somebody asks: a file with
many samples takes no more memory than one with few.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from itertools import groupby, islice
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from graphport.backends.inputs import checked
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from graphport.ir.graph import Graph, Value

Array: TypeAlias = "np.ndarray[Any, Any]"
Run: TypeAlias = "tuple[dict[str, Array], int]"
"""Inputs of one run, and how many samples they hold."""

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_REAL = "fV"
"""Kinds of element types that hold real numbers; those that NumPy has no type of its own for are void."""
_DAMAGED = (ValueError, EOFError, KeyError, OSError, RuntimeError, zipfile.BadZipFile)
_MOST = 1 << 34
"""Bytes that an entry of an archive may have."""


class Column(Protocol):
    """The data of one input: `count` entries along axis 0."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole shape."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        ...

    def rows(self) -> Iterator[Array]:
        """The entries in order."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ArrayColumn:
    """Data in memory."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def rows(self) -> Iterator[Array]:
        return iter(self.array)


@dataclass(frozen=True, slots=True, eq=False)
class FileColumn:
    """Data in a `.npy` file or in an entry of a `.npz`, read entry by entry."""

    path: Path
    entry: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool

    def rows(self) -> Iterator[Array]:
        try:
            yield from self._rows()
        except _DAMAGED as error:
            raise _damaged(self.path, error) from error

    def _rows(self) -> Iterator[Array]:
        with _opened(self.path, self.entry) as file:
            if self.is_fortran or not self.shape:
                yield from np.atleast_1d(np.lib.format.read_array(file, allow_pickle=False))
                return
            _header(file)
            size = prod(self.shape[1:]) * self.dtype.itemsize
            for _ in range(self.shape[0]):
                data = file.read(size)
                if len(data) < size:
                    message = "it ends before its last entry"
                    raise ValueError(message)
                yield np.frombuffer(data, self.dtype).reshape(self.shape[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Several columns one after another."""

    parts: tuple[Column, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.parts[0].dtype

    def rows(self) -> Iterator[Array]:
        for part in self.parts:
            yield from part.rows()


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Runs of a graph: for each input its column, and how many of its entries make one run of one sample.

    `steps` has the length of axis 0 for an input that has a fixed one, 1 for one whose axis 0 is free, and 0 where an
    entry of the column is a whole input. `fixed` are inputs that are the same in every run.
    """

    graph: Graph
    columns: Mapping[str, Column]
    steps: Mapping[str, int]
    fixed: Mapping[str, Array]
    count: int

    @property
    def is_batched(self) -> bool:
        """Whether several samples may make one run: axis 0 of every input is free."""
        inputs = {value.name: value for value in self.graph.inputs}
        return bool(self.columns) and all(_is_free(inputs[name]) and self.steps[name] == 1 for name in self.columns)

    def runs(self, batch: int, *, leave_out: frozenset[int] = frozenset()) -> Iterator[Run]:
        """Inputs of runs of up to `batch` samples each, all but the samples in `leave_out`.

        Raises:
            DiagnosticError: QUANT0003 data are not numbers, or do not fit the inputs.
        """
        size = batch if self.is_batched else 1
        wanted = (sample for index, sample in enumerate(self._each()) if index not in leave_out)
        for group in _alike(wanted, size):
            yield self._run(group), len(group)

    def take(self, places: frozenset[int]) -> Samples:
        """The samples at `places`, in memory."""
        found = [sample for index, sample in enumerate(self._each()) if index in places]
        columns = {name: _joined([ArrayColumn(sample[name]) for sample in found]) for name in self.columns}
        return Samples(self.graph, columns, self.steps, self.fixed, len(found))

    def _each(self) -> Iterator[dict[str, Array]]:
        rows = {name: column.rows() for name, column in self.columns.items()}
        for _ in range(self.count if rows else 1):
            yield {name: np.stack(list(islice(given, self.steps[name] or 1))) for name, given in rows.items()}

    def _run(self, group: list[dict[str, Array]]) -> dict[str, Array]:
        inputs: dict[str, Array] = dict(self.fixed)
        for name, step in self.steps.items():
            parts = [sample[name] for sample in group]
            inputs[name] = parts[0][0] if not step else parts[0] if len(parts) == 1 else np.concatenate(parts)
        found = checked(self.graph, inputs)
        broken = [
            name for name, x in found.items() if getattr(x, "dtype", np.dtype(bool)).kind == "f" and not _finite(x)
        ]
        if broken:
            message = f"the calibration data of {', '.join(broken)} hold NaN or infinity"
            raise DiagnosticError(Diagnostic("QUANT0003", message, None, "leave such samples out"))
        return found


def _alike(samples: Iterable[dict[str, Array]], size: int) -> Iterator[list[dict[str, Array]]]:
    """Samples in groups of up to `size` that follow one another and have the same shapes."""
    for _, alike in groupby(samples, lambda sample: [x.shape for x in sample.values()]):
        while group := list(islice(alike, size)):
            yield group


def _finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def gather(graph: Graph, data: object) -> Samples:
    """Samples for `graph` from a path, a mapping of arrays, or an iterable (or a function that gives one) of mappings.

    Raises:
        DiagnosticError: QUANT0001 no data, or of a kind that is not known; QUANT0002 they do not fit the inputs, all
            that is wrong at once.
    """
    if isinstance(data, str | Path):
        columns = _of_path(graph, Path(data))
    elif _is_mapping(data):
        given = dict(cast("Mapping[str, Any]", data))
        columns = {name: ArrayColumn(np.asarray(x)) for name, x in given.items()}
    elif callable(data) or hasattr(data, "__iter__"):
        columns = _of_iterable(graph, cast("Iterable[object]", data() if callable(data) else data))
    else:
        message = f"calibration data are a path, a mapping or an iterable, not {type(data).__name__}"
        raise DiagnosticError(Diagnostic("QUANT0001", message, None, "such as {'x': array}"))
    return _fitted(graph, columns)


def _is_mapping(data: object) -> bool:
    return hasattr(data, "keys") and hasattr(data, "__getitem__")


def _of_iterable(graph: Graph, items: Iterable[object]) -> dict[str, Column]:
    """Each item is a run; where axis 0 of every input is free, runs are stacked along it."""
    names = [value.name for value in graph.inputs]
    is_stacked = all(_is_free(value) for value in graph.inputs)
    parts: dict[str, list[Column]] = {}
    for item in items:
        given = (
            dict(cast("Mapping[str, Any]", item))
            if _is_mapping(item)
            else dict(zip(names, _tupled(item), strict=False))
        )
        for name, x in given.items():
            parts.setdefault(str(name), []).append(ArrayColumn(np.asarray(x) if is_stacked else np.asarray(x)[None]))
    return {name: _joined(found) for name, found in parts.items()}


def _tupled(item: object) -> Sequence[object]:
    return cast("Sequence[object]", item) if isinstance(item, list | tuple) else (item,)


def _joined(parts: list[Column]) -> Column:
    return parts[0] if len(parts) == 1 else Columns(tuple(parts))


def _of_path(graph: Graph, path: Path) -> dict[str, Column]:
    try:
        if path.is_dir():
            return _of_folder(graph, path)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                names = [entry.filename for entry in archive.infolist() if entry.filename.endswith(".npy")]
            return {name.removesuffix(".npy"): _column(path, name) for name in names}
        if path.exists():
            return {graph.inputs[0].name if graph.inputs else "": _column(path, None)}
    except _DAMAGED as error:
        raise _damaged(path, error) from error
    message = f"there are no calibration data at {path}"
    raise DiagnosticError(
        Diagnostic("QUANT0001", message, Span(Source(str(path))), "a .npz, or a folder of .npy files")
    )


def _of_folder(graph: Graph, path: Path) -> dict[str, Column]:
    """Files `INPUT.npy`, folders `INPUT` of files, or for a graph of one input files of any name."""
    names = [value.name for value in graph.inputs]
    found: dict[str, Column] = {}
    for name in names:
        inside = path / name
        if not inside.resolve().is_relative_to(path.resolve()):
            continue
        if (path / f"{name}.npy").is_file():
            found[name] = _column(path / f"{name}.npy", None)
        elif inside.is_dir():
            found[name] = _joined([_column(file, None) for file in sorted(inside.glob("*.npy"))])
    if not found and len(names) == 1:
        files = sorted(path.glob("*.npy"))
        found = {names[0]: _joined([_column(file, None) for file in files])} if files else {}
    return found


def _opened(path: Path, entry: str | None) -> IO[bytes]:
    if entry is None:
        return path.open("rb")
    archive = zipfile.ZipFile(path)
    try:
        return archive.open(entry)
    finally:
        # The open entry keeps the file; the archive itself is not needed any more.
        archive.close()


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        message = f"version {version[0]}.{version[1]} of .npy is not known"
        raise ValueError(message)
    shape, is_fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        message = "it holds objects, not numbers"
        raise ValueError(message)
    if prod(shape) * dtype.itemsize > _MOST:
        message = f"it says that it has {prod(shape) * dtype.itemsize} bytes of numbers"
        raise ValueError(message)
    return shape, is_fortran, dtype


def _column(path: Path, entry: str | None) -> FileColumn:
    with _opened(path, entry) as file:
        shape, is_fortran, dtype = _header(file)
    return FileColumn(path, entry, shape, dtype, is_fortran)


def _damaged(path: Path, error: Exception) -> DiagnosticError:
    message = f"the calibration data in {path} cannot be read: {error}"
    return DiagnosticError(
        Diagnostic("QUANT0001", message, Span(Source(str(path))), "write them by np.savez(path, x=array)")
    )


def _fitted(graph: Graph, columns: Mapping[str, Column]) -> Samples:
    inputs = {value.name: value for value in graph.inputs}
    listed = f"inputs: {', '.join(inputs)}"
    findings = [
        Diagnostic("QUANT0002", f"there are calibration data for {name!r}, which is no input", None, listed)
        for name in columns
        if name not in inputs
    ]
    steps: dict[str, int] = {}
    for name, value in inputs.items():
        if name in columns:
            steps[name] = _step(value, columns[name], findings)
            _refuse_kind(value, columns[name].dtype, findings)
        elif value.storage is None:
            findings.append(
                Diagnostic("QUANT0002", f"there are no calibration data for {name!r}", None, f"it is {value.fact}")
            )
    if findings:
        raise DiagnosticError(*findings)
    counts = {name: columns[name].shape[0] // (step or 1) if columns[name].shape else 1 for name, step in steps.items()}
    count = max(counts.values(), default=1)
    fixed = {
        name: _only(columns[name], steps[name])
        for name, n in counts.items()
        if n == 1 and count > 1 and not _is_free(inputs[name])
    }
    uneven = {name: n for name, n in counts.items() if n != count and name not in fixed}
    if uneven or not count:
        numbers = ", ".join(f"{name} {n}" for name, n in counts.items())
        message = (
            f"the inputs have different numbers of samples: {numbers}" if count else "there is not a single sample"
        )
        raise DiagnosticError(Diagnostic("QUANT0002", message, None, "stack them along axis 0"))
    kept = {name: step for name, step in steps.items() if name not in fixed}
    return Samples(graph, {name: columns[name] for name in kept}, kept, fixed, count)


def _only(column: Column, step: int) -> Array:
    rows = list(column.rows())
    return np.stack(rows) if step else rows[0]


def _is_free(value: Value) -> bool:
    shape = value.fact.shape if isinstance(value.fact, TensorFact) else None
    return bool(shape) and isinstance(shape[0], Symbolic)


def _step(value: Value, column: Column, findings: list[Diagnostic]) -> int:
    """How many entries of `column` are one sample of `value`; 0 where an entry is all of it."""
    fact, shape = value.fact, column.shape
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return 1
    rank = len(fact.shape)
    if len(shape) == rank + 1:
        if _agree(fact.shape, shape[1:]):
            return 0
    elif len(shape) == rank and rank:
        first = fact.shape[0]
        step = 1 if isinstance(first, Symbolic) else first
        if step and shape[0] % step == 0 and _agree(fact.shape[1:], shape[1:]):
            return step
    elif not shape and not rank:
        return 0
    message = f"the calibration data of {value.name!r} have the shape {list(shape)}, the model takes {fact}"
    findings.append(Diagnostic("QUANT0002", message, None, "stack samples along axis 0"))
    return 1


def _refuse_kind(value: Value, dtype: np.dtype[Any], findings: list[Diagnostic]) -> None:
    """Numbers of another kind can be converted, but are hardly meant: bytes of a picture for its scaled pixels, say."""
    known = value.fact.dtype if isinstance(value.fact, TensorFact) else None
    if known is None or not known.is_floating or dtype.kind in _REAL:
        return
    message = f"the calibration data of {value.name!r} are {dtype}, the model takes {known}"
    remedy = f"prepare them as the model expects them, and convert them to {known}"
    findings.append(Diagnostic("QUANT0002", message, None, remedy))


def _agree(dims: Sequence[object], shape: Sequence[int]) -> bool:
    return all(isinstance(dim, Symbolic) or dim == n for dim, n in zip(dims, shape, strict=True))


def spread(count: int, wanted: int) -> frozenset[int]:
    """`wanted` places out of `count`, evenly apart."""
    if wanted >= count:
        return frozenset(range(count))
    return frozenset(int(place) for place in np.linspace(0, count - 1, wanted).round())


Progress: TypeAlias = "Callable[[str, int, int], None]"
"""Told a stage, how much of it is done, and how much there is."""
