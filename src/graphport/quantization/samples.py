"""Calibration data: check them against a model, and iterate over runs.

Data of an input are stacked along axis 0. They are read sequentially and repeatedly.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from itertools import groupby, islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.regular_files import open_regular, regular_status
from graphport.core.spill import UnnamedFile
from graphport.quantization import images as pictures
from graphport.quantization.columns import (
    ArrayColumn,
    Column,
    FileColumn,
    FollowingColumn,
    SpilledColumn,
    WholeColumn,
    archive_members,
    corrupt_error,
    joined,
    split_columns,
)
from graphport.quantization.decoder import decoder_of
from graphport.runtimes.inputs import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from graphport.ir.graph import Graph, Value
    from graphport.quantization.decoder import Decoder

Array: TypeAlias = "np.ndarray[Any, Any]"
Run: TypeAlias = "tuple[dict[str, Array], int]"
"""Inputs of one run, and the number of samples."""
Sample: TypeAlias = "dict[str, Array]"
"""Inputs of a run of one sample, without the constant ones."""

_TOKENS_RANK = 2
_MAX_MEMORY_BYTES = 1 << 25
"""Maximum bytes of iterator samples in memory; more are written to a temporary file."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Runs of a graph: for each input its column, and the number of its entries per sample.

    `steps` is the size of axis 0 for an input with a static one, 1 for an open axis 0, and 0 if an entry of the column
    is a whole input. `fixed` are inputs that are equal in every run.
    """

    graph: Graph
    columns: Mapping[str, Column]
    steps: Mapping[str, int]
    fixed: Mapping[str, Array]
    count: int

    @property
    def is_batched(self) -> bool:
        """Whether several samples may form one run: axis 0 of every input is open."""
        inputs = {value.name: value for value in self.graph.inputs}
        return bool(self.columns) and all(_is_free(inputs[name]) and self.steps[name] == 1 for name in self.columns)

    def runs(self, batch: int, *, leave_out: frozenset[int] = frozenset()) -> Iterator[Run]:
        """Yield inputs of runs of up to `batch` samples each, except samples in `leave_out`.

        Raises:
            DiagnosticError: RUN0007 and RUN0008 data do not fit the inputs; `survey` reports it before.
        """
        size = batch if self.is_batched else 1
        wanted = (sample for index, sample in enumerate(self.iterate()) if index not in leave_out)
        for group in _alike(wanted, size):
            yield self.run(group), len(group)

    def select_samples(self, indices: frozenset[int]) -> Samples:
        """Return the samples at `indices`, in memory."""
        return self.with_samples([sample for index, sample in enumerate(self.iterate()) if index in indices])

    def with_samples(self, samples: Sequence[Sample]) -> Samples:
        """Return a copy with `samples`, a selection."""
        columns = {name: joined([ArrayColumn(sample[name]) for sample in samples]) for name in self.columns}
        return Samples(self.graph, columns, self.steps, self.fixed, len(samples))

    def iterate(self) -> Iterator[Sample]:
        """Yield the samples in order; floats have the input's type."""
        rows = {name: column.rows() for name, column in self.columns.items()}
        for _ in range(self.count if rows else 1):
            yield {name: _stacked(list(islice(given, self.steps[name] or 1))) for name, given in rows.items()}

    def run(self, group: Sequence[Sample]) -> dict[str, Array]:
        """Return the inputs of one run of samples with equal shapes.

        Raises:
            DiagnosticError: RUN0007 and RUN0008 data do not fit the inputs.
        """
        inputs: dict[str, Array] = dict(self.fixed)
        for name, step in self.steps.items():
            parts = [sample[name] for sample in group]
            inputs[name] = parts[0][0] if not step else parts[0] if len(parts) == 1 else np.concatenate(parts)
        return checked(self.graph, {**inputs, **self._narrowed(inputs)})

    def _narrowed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Cast those `inputs` whose float type differs from the declared one."""
        found: dict[str, Array] = {}
        for value in self.graph.inputs:
            known, given = real_type(value), inputs.get(value.name)
            if known is not None and given is not None and given.dtype != known.numpy and _is_float(given.dtype):
                # Overflow gives infinity, which is reported later.
                with np.errstate(over="ignore"):
                    found[value.name] = given.astype(known.numpy)
        return found


def real_type(value: Value) -> DType | None:
    """Return the element type of a float input."""
    known = value.dtype
    return known if known is not None and known.is_floating else None


def _stacked(entries: list[Array]) -> Array:
    return entries[0][None] if len(entries) == 1 else np.stack(entries)


def _alike(samples: Iterable[Sample], size: int) -> Iterator[list[Sample]]:
    """Yield groups of up to `size` consecutive samples with equal shapes."""
    for _, alike in groupby(samples, lambda sample: [x.shape for x in sample.values()]):
        while group := list(islice(alike, size)):
            yield group


def gather(graph: Graph, data: object) -> Samples:
    """Return samples for `graph` from a path, images, a mapping of arrays, or an iterable (or function) of mappings.

    A graph with one input accepts an array; a language model accepts tokens, and the remaining inputs are derived. An
    iterable is read once; a list is used without a copy.

    Raises:
        DiagnosticError: QUANT0001 no data, or an unsupported kind; QUANT0002 they do not fit the inputs, with all
            mismatches.
    """
    columns: dict[str, Column]
    if isinstance(data, pictures.Pictures):
        columns = {**pictures.column_of(graph, data)}
    elif isinstance(data, str | Path):
        columns = _of_path(graph, Path(data))
    elif _is_array(data) and (only := _only_input(graph)) is not None:
        columns = {only.name: ArrayColumn(data)}
    elif _is_mapping(data):
        given = dict(cast("Mapping[str, Any]", data))
        columns = {str(name): ArrayColumn(_array(str(name), x)) for name, x in given.items()}
    elif callable(data) or hasattr(data, "__iter__"):
        items = data() if callable(data) else data
        if not hasattr(items, "__iter__"):
            message = f"the calibration function returns {type(items).__name__}, expected mappings"
            raise DiagnosticError(Diagnostic("QUANT0001", message, None, "return or yield mappings like {'x': array}"))
        columns = _of_iterable(graph, cast("Iterable[object]", items))
    else:
        message = f"unsupported calibration data: {type(data).__name__}, expected a path, a mapping or an iterable"
        raise DiagnosticError(Diagnostic("QUANT0001", message, None, "pass, for example, {'x': array}"))
    return _match_inputs(graph, _with_what_follows(graph, columns))


def _only_input(graph: Graph) -> Value | None:
    """Return the input of unnamed data: the only one, or the tokens of a language model."""
    if len(graph.inputs) == 1:
        return graph.inputs[0]
    reader = decoder_of(graph)
    return None if reader is None else reader.tokens


def _with_what_follows(graph: Graph, columns: dict[str, Column]) -> dict[str, Column]:
    """Add the derived inputs (masks, positions, caches) if `columns` has only the tokens of a language model."""
    reader = decoder_of(graph)
    if reader is None or columns.keys() != {reader.tokens.name}:
        return columns
    parts = split_columns(columns[reader.tokens.name])
    if any(len(part.shape) != _TOKENS_RANK for _, part in parts):
        return columns
    names = [name for name, _ in parts]
    others = [value.name for value in (*reader.masks, *reader.positions, *reader.caches)]
    made = {name: joined([_following(reader, name, part) for _, part in parts], names) for name in others}
    return {**columns, **made}


def _following(reader: Decoder, name: str, tokens: Column) -> Column:
    return FollowingColumn(tokens, lambda row: reader.inputs(row[None])[name][0])


def refuse_missing(path: Path) -> None:
    """Reject a path that does not exist.

    Raises:
        DiagnosticError: QUANT0001.
    """
    if not path.exists():
        message = f"calibration data not found: {path}"
        remedy = "pass an .npz, an .npy, or a folder of .npy files or of images"
        raise DiagnosticError(Diagnostic("QUANT0001", message, Span(Source(str(path))), remedy))


def _is_array(x: object) -> TypeGuard[Array]:
    """Whether it is a NumPy array."""
    return isinstance(x, np.ndarray)


def _is_mapping(data: object) -> bool:
    return hasattr(data, "keys") and hasattr(data, "__getitem__")


def _array(name: str, given: object) -> Array:
    try:
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as error:
        message = f"the calibration data of {name!r} are not an array: {error}"
        raise DiagnosticError(Diagnostic("QUANT0001", message, None, "pass rows of equal length")) from error


def _of_iterable(graph: Graph, items: Iterable[object]) -> dict[str, Column]:
    """Return the columns of items, each a run; if axis 0 of every input is open, items are stacked along it."""
    is_stacked = all(_is_free(value) for value in graph.inputs)
    parts: dict[str, list[Column]] = {}
    keep = ArrayColumn if isinstance(items, list | tuple) else spilling()
    for number, item in enumerate(items):
        for name, x in _named(graph, item, number).items():
            array = _array(name, x)
            parts.setdefault(name, []).append(keep(array if is_stacked else array[None]))
    return {name: joined(found, [f"item {number}" for number in range(len(found))]) for name, found in parts.items()}


def _named(graph: Graph, item: object, number: int) -> dict[str, object]:
    """Return an item by input names, which it may omit if it has an array for each input in order."""
    if _is_mapping(item):
        return {str(name): x for name, x in dict(cast("Mapping[Any, object]", item)).items()}
    given = cast("Sequence[object]", item) if isinstance(item, list | tuple) else (item,)
    names = [value.name for value in graph.inputs]
    if len(given) == 1 and (only := _only_input(graph)) is not None:
        return {only.name: given[0]}
    if len(given) > len(names):
        message = (
            f"item {number} of the calibration data has {len(given)} arrays, but the model has {len(names)} inputs"
        )
        raise DiagnosticError(Diagnostic("QUANT0002", message, None, f"inputs: {', '.join(names)}"))
    return dict(zip(names, given, strict=False))


def spilling() -> Callable[[Array], Column]:
    """Return a function that copies an array into a column, of a temporary file if all of them are large."""
    file, held = UnnamedFile(), 0

    def keep(array: Array) -> Column:
        nonlocal held
        held += array.nbytes
        # A generator may reuse the memory of its arrays.
        if held <= _MAX_MEMORY_BYTES or array.dtype.hasobject:
            return ArrayColumn(array.copy())
        return SpilledColumn.of(array, file)

    return keep


def _of_path(graph: Graph, path: Path) -> dict[str, Column]:
    refuse_missing(path)
    if path.is_dir():
        return _of_folder(graph, path)
    regular_status(path)  # NumPy would search for the end of a device forever
    if zipfile.is_zipfile(path):
        return {name.removesuffix(".npy"): FileColumn.of(path, name) for name in archive_members(path)}
    with open_regular(path) as file:
        if file.read(2) == b"PK":
            raise corrupt_error(path, ValueError("the archive is truncated"))
    only = _only_input(graph) or next(iter(graph.inputs), None)
    return {"" if only is None else only.name: FileColumn.of(path)}


def _of_folder(graph: Graph, path: Path) -> dict[str, Column]:
    """Read files `INPUT.npy`, folders `INPUT` of files, or for a graph with one input files of any name."""
    found: dict[str, Column] = {}
    for value in graph.inputs:
        name = value.name
        inside = path / name
        if not inside.resolve().is_relative_to(path.resolve()):
            continue
        if (path / f"{name}.npy").is_file():
            found[name] = FileColumn.of(path / f"{name}.npy")
        elif inside.is_dir() and (files := sorted(inside.glob("*.npy"))):
            found[name] = _of_files(value, files)
    files = sorted(path.glob("*.npy"))
    if not found and files and (only := _only_input(graph)) is not None:
        found = {only.name: _of_files(only, files)}
    if not found and not files:
        pictures.refuse_bare(path)
        names = ", ".join(value.name for value in graph.inputs)
        message = f"no .npy file in the calibration folder {path}"
        remedy = f"add a file, or a folder of files, for each input: {names}"
        raise DiagnosticError(Diagnostic("QUANT0001", message, Span(Source(str(path))), remedy))
    return found


def _of_files(value: Value, files: Sequence[Path]) -> Column:
    columns = [FileColumn.of(file) for file in files]
    return joined([_batched(value, column) for column in columns], [file.name for file in files])


def _batched(value: Value, column: Column) -> Column:
    """Return `column`; if only its batch axis is missing, as one sample of batch 1."""
    shape = value.shape
    is_sample = bool(shape) and len(column.shape) == len(shape) - 1 and _agree(shape[1:], column.shape)
    return WholeColumn(column) if is_sample and shape and (shape[0] == 1 or _is_free(value)) else column


def _match_inputs(graph: Graph, columns: Mapping[str, Column]) -> Samples:
    inputs = {value.name: value for value in graph.inputs}
    listed = f"inputs: {', '.join(inputs)}"
    findings = [
        Diagnostic("QUANT0002", f"calibration data for {name!r}, which is not an input", None, listed)
        for name in columns
        if name not in inputs
    ]
    steps: dict[str, int] = {}
    for name, value in inputs.items():
        if name in columns:
            steps[name] = _step(graph, value, columns[name], findings)
            _refuse_kind(value, columns[name], findings)
        elif value.storage is None:
            findings.append(
                Diagnostic(
                    "QUANT0002",
                    f"missing calibration data for the input {name!r}",
                    None,
                    f"pass arrays of {value.fact}",
                )
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
        listed = ", ".join(f"{name} {n}" for name, n in counts.items())
        message = (
            f"the inputs have different sample counts: {listed}" if count else "the calibration data have no samples"
        )
        raise DiagnosticError(Diagnostic("QUANT0002", message, None, "stack them along axis 0"))
    kept = {name: step for name, step in steps.items() if name not in fixed}
    return Samples(graph, {name: columns[name] for name in kept}, kept, fixed, count)


def _only(column: Column, step: int) -> Array:
    rows = list(column.rows())
    return np.stack(rows) if step else rows[0]


def _is_free(value: Value) -> bool:
    shape = value.shape
    return bool(shape) and isinstance(shape[0], Symbolic)


def _may_be_empty(graph: Graph, value: Value) -> bool:
    """Whether it is a cache of a language model, which is empty at first."""
    reader = decoder_of(graph)
    return reader is not None and value in reader.caches


def _step(graph: Graph, value: Value, column: Column, findings: list[Diagnostic]) -> int:
    """Return the number of entries of `column` per sample of `value`; 0 if one entry is a whole input."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return 1
    found: dict[int, str] = {}
    for name, part in split_columns(column):
        where = f" in {name}" if name else ""
        step = _entries_per_input(fact.shape, part.shape)
        if step is None:
            message = f"the calibration data of {value.name!r}{where} have shape {list(part.shape)}"
            findings.append(Diagnostic("QUANT0002", f"{message}, expected {fact}", None, _stacking(value, part)))
            return 1
        if part.shape[:1] != (0,) and not prod(part.shape) and not _may_be_empty(graph, value):
            message = f"the calibration data of {value.name!r}{where} have shape {list(part.shape)} without elements"
            findings.append(Diagnostic("QUANT0002", message, None, "pass non-empty samples"))
            return 1
        found.setdefault(step, name)
    if len(found) > 1:
        names = " and ".join(found.values())
        message = f"the calibration data of {value.name!r} have a batch axis in one of {names}, but not in another"
        findings.append(Diagnostic("QUANT0002", message, None, "save all files with a batch axis, or all without"))
    return next(iter(found), 1)


def _entries_per_input(dims: Sequence[object], shape: Sequence[int]) -> int | None:
    """Return the number of entries along axis 0 per input of `dims`; 0 if one is all of it, `None` if none fits."""
    rank = len(dims)
    if len(shape) == rank + 1:
        return 0 if _agree(dims, shape[1:]) else None
    if len(shape) != rank:
        return None
    if not rank:
        return 0
    step = 1 if isinstance(dims[0], Symbolic) else cast("int", dims[0])
    return step if step and shape[0] % step == 0 and _agree(dims[1:], shape[1:]) else None


def _stacking(value: Value, column: Column) -> str:
    """Return the remedy for samples whose shape differs from the input's: stack them along axis 0."""
    if _batched(value, column) is not column:
        return f"stack samples along axis 0; x[None] is a single sample of shape {[1, *column.shape]}"
    shape = (value.shape) or ()
    each = f"[{', '.join(map(str, shape[1:]))}]"
    return f"pass samples of shape {each}, stacked along axis 0" if len(shape) > 1 else "stack samples along axis 0"


def _refuse_kind(value: Value, column: Column, findings: list[Diagnostic]) -> None:
    """Reject elements of another kind (image bytes): a conversion is possible but unlikely to be intended."""
    known = real_type(value)
    if known is None:
        return
    for name, part in split_columns(column):
        if not _is_float(part.dtype):
            where = f" in {name}" if name else ""
            message = f"the calibration data of {value.name!r}{where} are {part.dtype}, expected {known}"
            remedy = f"preprocess the samples as the model expects, and convert them to {known}"
            findings.append(Diagnostic("QUANT0002", message, None, remedy))
            return


def _is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the element type is a float, NumPy's or an extension type."""
    if dtype.kind == "f":
        return True
    try:
        return dtype.kind == "V" and DType.of(dtype).is_floating
    except ValueError:
        return False


def _agree(dims: Sequence[object], shape: Sequence[int]) -> bool:
    return all(isinstance(dim, Symbolic) or dim == n for dim, n in zip(dims, shape, strict=True))


def evenly_spaced_indices(count: int, wanted: int) -> frozenset[int]:
    """Return `wanted` evenly spaced indices below `count`."""
    if wanted >= count:
        return frozenset(range(count))
    return frozenset(int(place) for place in np.linspace(0, count - 1, wanted).round())


Progress: TypeAlias = "Callable[[str, int, int], None]"
"""Callback with a stage, the amount of completed work, and the total."""
