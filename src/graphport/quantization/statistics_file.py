"""Statistics in a file, complete or of the shards before an interruption."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from math import isfinite
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from graphport.core.atomic_write import obstacle, replacing
from graphport.core.corrupt_files import CORRUPT
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.regular_files import contents, regular_status
from graphport.quantization.extremes import NUM_KEPT, Extremes
from graphport.quantization.fingerprint import Trail
from graphport.quantization.observe import BINS, Histogram, Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from graphport.quantization.fingerprint import Fingerprint
    from graphport.quantization.samples import Run
    from graphport.quantization.shards import Observer, Plan, States

Array: TypeAlias = "np.ndarray[Any, Any]"

KIND = "graphport statistics"
VERSION = 3
"""Version of the file format and of the counting of samples."""
_WRITE_INTERVAL_SECONDS = 20.0
"""Seconds between intermediate writes."""
_MAX_TEXT_BYTES = 1 << 26
_MAX_VALUES = 1 << 17
_ABOUT, _COUNTS, _ENDS = "about.npy", "counts.npy", "ends.npy"
_PARTS, _OTHERS = 6, (2, 3)
"""Arrays of ranges of each value, and those that exclude the sample of the first two."""

_ANEW = "delete the file to collect statistics again"
_ELSEWHERE = "choose another file; statistics are written to a new one"


@dataclass(slots=True, eq=False)
class ObservedShards:
    """Statistics of the first `shards` shards, complete if `is_whole`; `digest` identifies their runs."""

    states: States
    shards: int
    digest: str
    is_whole: bool


def refuse_path(path: Path) -> None:
    """Reject, before any work, a path where statistics cannot be written.

    Raises:
        DiagnosticError: QUANT0016 the folder does not exist, it cannot be written, or `path` is no file.
    """
    folder = path.absolute().parent
    message, remedy = "", "create the folder, or choose a file in another one"
    if path.is_dir():
        message, remedy = f"statistics cannot be stored in {path}: it is a folder", "pass a file name in the folder"
    elif path.exists() and not path.is_file():
        message = f"statistics cannot be stored in {path}: it is a device or a pipe"
        remedy = "pass the name of a regular or new file"
    elif not folder.is_dir():
        message = f"folder not found: {path.parent}, to store statistics"
    elif why := obstacle(folder):
        message, remedy = f"statistics cannot be stored in {path.parent}: {why}", "choose a file in another folder"
    if message:
        raise DiagnosticError(Diagnostic("QUANT0016", message, Span(Source(str(path))), remedy))


def observed_with(
    path: Path,
    fingerprint: Fingerprint,
    plan: Plan,
    shards: Iterable[Iterable[Run]],
    observer: Observer,
    heard: Callable[[int], None],
) -> States:
    """Return statistics of all shards, from the file as far as possible, which is completed.

    Shards that the file contains are read, to verify them, but not run. Statistics are written when an exception (also
    Ctrl-C) ends the work, and periodically.

    Raises:
        DiagnosticError: QUANT0009 the file is of another model, other samples or settings, or it is no such file;
            errors of `observer`.
    """
    found = remembered(path, fingerprint) if path.exists() else None
    trail = Trail()
    rest = trail.over(shards)
    seen = ObservedShards({name: Statistics(axis) for name, axis in plan.axes.items()}, 0, "", is_whole=False)
    if found is not None:
        _recognize(path, found, trail, rest, heard)
        seen = found
    if seen.is_whole:
        return seen.states
    written, last = seen.shards, monotonic()
    try:
        for states in observer(plan, rest, heard):
            whole = {name: seen.states[name].merge(state) for name, state in states.items()} if seen.shards else states
            seen = ObservedShards(whole, seen.shards + 1, trail.next_end(), is_whole=False)
            if monotonic() - last > _WRITE_INTERVAL_SECONDS:
                remember(path, fingerprint, seen)
                written, last = seen.shards, monotonic()
    except BaseException:
        if seen.shards > written:
            remember(path, fingerprint, seen)
        raise
    remember(path, fingerprint, ObservedShards(seen.states, seen.shards, seen.digest, is_whole=True))
    return seen.states


def _recognize(
    path: Path, found: ObservedShards, trail: Trail, shards: Iterator[Iterator[Run]], heard: Callable[[int], None]
) -> None:
    """Read the shards of `found`, and reject others."""
    digest = ""
    for _, shard in zip(range(found.shards), shards, strict=False):
        for _, count in shard:
            heard(count)
        digest = trail.next_end()
    if digest != found.digest:
        raise _mismatch_error(path, ["the samples or their order"])


def remember(path: Path, fingerprint: Fingerprint, seen: ObservedShards) -> None:
    """Write statistics to `path`, a `.npz`: the fingerprint as JSON, histogram counts, and ranges."""
    values = [_state_record(name, state) for name, state in seen.states.items()]
    states = list(seen.states.values())
    ends = [x for state in states for x in _ends_of(state)]
    about = {
        "kind": KIND,
        "version": VERSION,
        "of": fingerprint.as_json(),
        "shards": seen.shards,
        "digest": seen.digest,
        "whole": seen.is_whole,
        "states": values,
    }
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    counts = np.stack([state.histogram.counts for state in states]) if states else np.zeros((0, 2 * BINS), np.int64)
    with replacing(path) as file:
        np.savez_compressed(file, about=text, counts=counts, ends=np.concatenate(ends or [np.zeros(0, np.float32)]))


def remembered(path: Path, fingerprint: Fingerprint) -> ObservedShards:
    """Read statistics if they match model, kind of samples and settings.

    Raises:
        DiagnosticError: QUANT0009 they do not, or the file is corrupt or of another version.
    """
    span = Span(Source(str(path)))
    regular_status(path)
    if not zipfile.is_zipfile(path):
        is_ours = contents(path)[:2] == b"PK"
        message = f"truncated statistics file: {path}" if is_ours else f"{path} is not a statistics file"
        raise DiagnosticError(Diagnostic("QUANT0009", message, span, _ANEW if is_ours else _ELSEWHERE))
    try:
        with zipfile.ZipFile(path) as archive:
            about = _about(path, archive)
            differences = fingerprint.differences(about["of"])
            if differences:
                raise _mismatch_error(path, differences)
            return _read_states(archive, about)
    except CORRUPT as error:
        message = f"corrupt statistics file {path}: {error or type(error).__name__}"
        raise DiagnosticError(Diagnostic("QUANT0009", message, span, _ANEW)) from error


def _mismatch_error(path: Path, differences: list[str]) -> DiagnosticError:
    message = f"the statistics in {path} do not match; differences: {'; '.join(differences)}"
    remedy = f"{_ANEW}, choose another file, or restore the model, samples and settings"
    return DiagnosticError(Diagnostic("QUANT0009", message, Span(Source(str(path))), remedy))


def _about(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    names = archive.namelist()
    span = Span(Source(str(path)))
    if _ABOUT not in names:
        # Version 1 had a member for each number of each value, and no fingerprint.
        is_old = "names.npy" in names and ("0.numbers.npy" in names or len(names) == 1)
        message = (
            f"the statistics in {path} are of an earlier version, which has no fingerprint"
            if is_old
            else f"{path} has no statistics, but contains {', '.join(names[:5]) or 'nothing'}"
        )
        raise DiagnosticError(Diagnostic("QUANT0009", message, span, _ANEW if is_old else _ELSEWHERE))
    about = cast("dict[str, Any]", json.loads(_array(archive, _ABOUT, np.uint8, _MAX_TEXT_BYTES).tobytes()))
    if about["kind"] != KIND or about["version"] != VERSION:
        message = f"the statistics in {path} are of version {about['version']}, this is version {VERSION}"
        raise DiagnosticError(Diagnostic("QUANT0009", message, span, _ANEW))
    return about


def _read_states(archive: zipfile.ZipFile, about: Mapping[str, Any]) -> ObservedShards:
    """Read the states; sizes are checked before elements are read."""
    given: list[dict[str, Any]] = about["states"]
    if len(given) > _MAX_VALUES or [one["name"] for one in given] != list(about["of"]["values"]):
        message = "the value names do not match"
        raise ValueError(message)
    extremes = [min(NUM_KEPT, _count(one["elements"])) for one in given]
    lengths = [
        n for one, tail in zip(given, extremes, strict=True) for n in (*[_count(one["channels"])] * 4, tail, tail)
    ]
    counts = _array(archive, _COUNTS, np.int64, len(given) * 2 * BINS).reshape(len(given), 2 * BINS)
    ends = np.split(_array(archive, _ENDS, np.float32, sum(lengths)), np.cumsum(lengths)[:-1]) if given else []
    # Only these may be infinite: there are no other limits without a second sample.
    numbers = [
        x
        for place, x in enumerate(ends)
        if place % _PARTS not in _OTHERS or _count(given[place // _PARTS]["samples"]) > 1
    ]
    if (counts < 0).any() or any(np.isnan(x).any() for x in ends) or not all(np.isfinite(x).all() for x in numbers):
        message = "negative counts, or limits that are not finite"
        raise ValueError(message)
    states: dict[str, Statistics] = {}
    for index, one in enumerate(given):
        if int(counts[index].sum()) != one["elements"]:
            message = f"the histogram of {one['name']} does not sum to {one['elements']} elements"
            raise ValueError(message)
        states[one["name"]] = _state(one, counts[index].copy(), ends[_PARTS * index : _PARTS * (index + 1)])
    return ObservedShards(states, _count(about["shards"]), str(about["digest"]), about["whole"] is True)


def _state_record(name: str, state: Statistics) -> dict[str, Any]:
    return {
        "name": name,
        "axis": state.axis,
        "samples": state.samples,
        "elements": state.elements,
        "channels": len(state.lows),
        "exponent": state.histogram.exponent,
        "squares": state.squares,
        "average": list(state.average),
    }


def _ends_of(state: Statistics) -> tuple[Array, ...]:
    return (
        state.lows,
        state.highs,
        state.other_lows,
        state.other_highs,
        state.extremes.least,
        state.extremes.largest,
    )


def _state(one: Mapping[str, Any], counts: Array, ends: list[Array]) -> Statistics:
    lows, highs, other_lows, other_highs, least, largest = (x.copy() for x in ends)
    low, high, left = (_finite_number(x) for x in one["average"])
    axis = None if one["axis"] is None else _count(one["axis"])
    exponent = int(one["exponent"])
    if abs(exponent) > 1 << 10:
        message = f"bins cannot be as wide as 2 to the power of {exponent}"
        raise ValueError(message)
    return Statistics(
        axis,
        _count(one["samples"]),
        _count(one["elements"]),
        lows,
        highs,
        _finite_number(one["squares"]),
        (low, high, left),
        Histogram(exponent, counts),
        Extremes(least, largest),
        other_lows,
        other_highs,
    )


def _count(x: Any) -> int:
    if isinstance(x, bool) or not isinstance(x, int) or x < 0:
        message = f"{x!r} is not a count"
        raise ValueError(message)
    return x


def _finite_number(x: Any) -> float:
    if not isinstance(x, int | float) or not isfinite(x):
        message = f"{x!r} is not a number"
        raise ValueError(message)
    return float(x)


def _array(archive: zipfile.ZipFile, name: str, dtype: Any, most: int) -> Array:
    """Read an array of `most` elements, or, for bytes, of up to so many."""
    wanted = np.dtype(dtype)
    with archive.open(name) as file:
        shape, found = _header(file)
        size = int(np.prod(shape, dtype=object))
        if found != wanted or size > most or (wanted != np.uint8 and size != most):
            message = f"{name} has shape {list(shape)} and type {found}"
            raise ValueError(message)
        data = file.read(size * wanted.itemsize + 1)
    if len(data) != size * wanted.itemsize:
        message = f"{name} has {len(data)} bytes"
        raise ValueError(message)
    return np.frombuffer(data, wanted)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype
