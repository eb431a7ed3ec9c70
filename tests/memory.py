"""How much memory a conversion takes, measured in a process of its own."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

MIB = 1 << 20
LIMIT = 200 * MIB
"""What a tensor file of 1 GB may take."""

_PROGRAM = """
import json, sys, threading, warnings

def status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field + ":"))

def watch():
    while not done.wait(0.002):
        peak[0] = max(peak[0], status("RssAnon"))

peak, done = [0], threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
try:
    import graphport as gp

    source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    findings = gp.check(source)
    shapes = {name: str(fact) for name, fact in gp.load(source).shapes().items()}
    gp.convert(source, target, verify=False, **options)
finally:
    done.set()
    watcher.join()
print(json.dumps({"anonymous": peak[0], "resident": status("VmHWM"), "findings": len(findings), "shapes": shapes}))
"""
"""Checks a model, infers its shapes and converts it; tells the peaks of both kinds of memory.

`VmHWM` is what `ru_maxrss` counts, but for this process alone: `ru_maxrss` remembers the one that started it, too.
"""


class Peaks(NamedTuple):
    """Bytes: of memory that no file backs, and of all pages that were in memory."""

    anonymous: int
    resident: int
    shapes: dict[str, str]


def large_model(folder: Path, rows: int, columns: int) -> Path:
    """An NNEF folder with a matrix product whose weights are a tensor file with a hole in place of the numbers."""
    folder.mkdir()
    (folder / "graph.nnef").write_text(
        "version 1.0;\n\n"
        "graph large(x) -> (y)\n{\n"
        f"    x = external(shape = [1, {rows}]);\n"
        f"    w = variable(shape = [{rows}, {columns}], label = 'w');\n"
        "    h = matmul(x, w);\n"
        "    y = relu(h);\n"
        "}\n"
    )
    size = rows * columns * 4
    header = struct.pack("<2sBBII8IIHH", b"\x4e\xef", 1, 0, size, 2, rows, columns, *[0] * 6, 32, 0, 0)
    with (folder / "w.dat").open("wb") as file:
        file.write(header.ljust(128, b"\0"))
        file.truncate(128 + size)
    return folder


def peaks(source: Path, target: Path, **options: object) -> Peaks:
    """What it takes to check `source`, infer its shapes and convert it without verification."""
    command = [sys.executable, "-W", "error", "-c", _PROGRAM, str(source), str(target), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["findings"] == 0
    return Peaks(told["anonymous"], told["resident"], told["shapes"])
