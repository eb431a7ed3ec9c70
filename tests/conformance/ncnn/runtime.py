"""Run ncnn on folders of cases in a separate process, since ncnn terminates its process on unexpected input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_ENDED = "the process ended"
_NARROW = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage")


def run_all(folders: Sequence[Path]) -> list[list[Any] | str]:
    """Return ncnn's outputs for `net.param` and `in.npz` in each folder, or its error."""
    found: list[list[Any] | str] = []
    while len(found) < len(folders):
        rest = folders[len(found) :]
        subprocess.run(
            [sys.executable, "-W", "ignore", __file__, *map(str, rest)], check=False, stderr=subprocess.DEVNULL
        )
        for folder in rest:
            answer = _answer(folder)
            found.append(_ENDED if answer is None else answer)
            if answer is None:
                break  # the process ended at this case: later ones have not run
    return found


def _answer(folder: Path) -> list[Any] | str | None:
    if (folder / "refused").exists():
        return (folder / "refused").read_text()
    if not (folder / "out.npz").exists():
        return None
    with np.load(folder / "out.npz") as file:
        return [file[f"arr_{index}"] for index in range(len(file.files))]


def _compute(folder: Path) -> list[Any] | str:
    import ncnn

    runtime: Any = ncnn  # it has no types
    net = runtime.Net()
    net.opt.num_threads = 1
    net.opt.lightmode = False
    for option in _NARROW:
        setattr(net.opt, option, False)
    if net.load_param(str(folder / "net.param")) or net.load_model(str(folder / "net.bin")):
        return "it does not load"
    extractor = net.create_extractor()
    kept: list[Any] = []
    with np.load(folder / "in.npz") as file:
        for name in file.files:
            # A Mat of an array borrows its memory, and lacks the gaps between channels that layers expect.
            array = file[name]
            kept.append(runtime.Mat(array).clone())
            extractor.input(name, kept[-1])
    found: list[Any] = []
    for name in (folder / "outputs").read_text().split():
        failed, blob = extractor.extract(name)
        if failed:
            return "it does not compute"
        found.append(np.array(blob))
    return found


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        place = Path(argument)
        answer_ = _compute(place)
        if isinstance(answer_, str):
            (place / "refused").write_text(answer_)
        else:
            np.savez(place / "part.npz", *answer_)
            (place / "part.npz").rename(place / "out.npz")
