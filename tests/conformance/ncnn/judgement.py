"""Compare ncnn's results for drawn layers with ours."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import graphport as gp
from graphport.core.diagnostics import Source
from graphport.formats.ncnn.container.param import Findings, parse_text
from graphport.formats.ncnn.container.weight_order import weights_of
from tests.conformance.ncnn.draw import DRAWS, Drawn, Random, draws
from tests.conformance.ncnn.runtime import run_all
from tests.conformance.ncnn.weighted import WEIGHTED

KINDS = sorted({*DRAWS, *WEIGHTED})


@dataclass(frozen=True, slots=True)
class Verdict:
    """`right`, `refused` by us, `runtime` (ncnn returns an error or NaN), or `wrong`."""

    case: Drawn
    state: str
    detail: str = ""


def numbers(random: Random, shape: tuple[int, ...], kind: str) -> Any:
    """Numbers of a kind: functions have domains, and divisors are not near 0."""
    if kind.startswith("places"):
        return random.integers(0, int(kind.split()[1]), shape).astype(np.int32)
    found = random.normal(size=shape).astype(np.float32)
    match kind:
        case "positive":
            return np.abs(found) * 0.5 + 0.2
        case "unit":
            return np.tanh(found) * np.float32(0.9)
        case "above":
            return np.abs(found) + 1.1
        case "away":
            return np.where(found < 0, -1, 1).astype(np.float32) * (np.abs(found) + 0.3)
        case "near":
            return np.clip(found, -2.8, 2.8)
        case "close":
            return np.clip(found, -2.2, 1.0)
        case _:
            return found


def written(case: Drawn, folder: Path, random: Random) -> dict[str, Any]:
    """The files of a case; gives its inputs."""
    names, outputs = [f"in{k}" for k in range(len(case.shapes))], [f"out{k}" for k in range(case.results)]
    rows = [f"Input {name} 0 1 {name}" for name in names]
    head = f"{case.kind} layer {len(names)} {len(outputs)} {' '.join([*names, *outputs])}"
    text = "\n".join(
        ["7767517", f"{len(rows) + 1} {len(names) + len(outputs)}", *rows, f"{head} {case.parameters}", ""]
    )
    folder.mkdir()
    (folder / "net.param").write_text(text)
    (folder / "outputs").write_text(" ".join(outputs))
    layer = parse_text(text, Findings(Source("net.param", text)))[-1]
    data = b""
    for index, weight in enumerate(weights_of(case.kind, layer.parameters)):
        values = random.normal(size=weight.length).astype(np.float32) * np.float32(0.5)
        values = np.abs(values) + np.float32(0.5) if case.kind == "BatchNorm" and index == 2 else values
        data += (struct.pack("<I", 0) if weight.is_tagged else b"") + values.tobytes()
    (folder / "net.bin").write_bytes(data)
    given = {name: numbers(random, shape, case.numbers) for name, shape in zip(names, case.shapes, strict=True)}
    np.savez(folder / "in.npz", **given)
    return given


def judged(seed: int, count: int, folder: Path, kinds: Iterable[str] | None = None) -> list[Verdict]:
    """The verdicts on `count` layers."""
    random = np.random.default_rng(seed)
    cases = [draws(random, KINDS if kinds is None else list(kinds)) for _ in range(count)]
    folders = [folder / str(index) for index in range(count)]
    given = [written(case, place, random) for case, place in zip(cases, folders, strict=True)]
    expected = run_all(folders)
    return [_verdict(*item) for item in zip(cases, folders, given, expected, strict=True)]


def _verdict(case: Drawn, folder: Path, given: dict[str, Any], expected: list[Any] | str) -> Verdict:
    if isinstance(expected, str):
        return Verdict(case, "runtime", expected)
    try:
        model = gp.load(folder / "net.param", shapes={name: (1, *array.shape) for name, array in given.items()})
        found = gp.run(model, {name: array[None] for name, array in given.items()}, backend="reference")
    except gp.DiagnosticError as error:
        return Verdict(case, "refused", error.diagnostics[0].message)
    # The maximum of no elements is the lowest float in ncnn, and -inf here.
    expected = [np.where(array < -3e38, -np.inf, array) for array in expected]
    if any(np.isnan(array).any() for array in expected):
        return Verdict(case, "runtime", "no numbers")
    for (name, array), other in zip(found.items(), expected, strict=False):
        if array.shape != (1, *other.shape):
            return Verdict(case, "wrong", f"{name}: {array.shape} for {(1, *other.shape)}")
        top = max(float(np.abs(other[np.isfinite(other)]).max(initial=0)), 1e-3)
        same = array[0] == other
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0, np.abs(array[0].astype(np.float64) - other))
        largest = float(apart.max(initial=0)) / top
        if not largest < 2e-3:
            return Verdict(case, "wrong", f"{name}: differs by {largest:.2g} of the largest")
    return Verdict(case, "right")
