"""Compare graphport with peers on the same files: `make bench-peers` writes the figures to docs/benchmarks.md.

python -m benchmarks.peers.page [--rounds N] [--only TEXT] [--models FOLDER] [--page FILE]

Each task runs in a separate process, alternating between the tools, so that other load affects all. Times are processor
time of all threads; a ratio is that of the minimum times, and its spread that of the rounds.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import files
from benchmarks.peers import simplifiers

HERE = Path(__file__).parent
TOP = HERE.parent.parent
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
PACKAGES = (
    "graphport", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "onnxsim", "onnxslim", "openvino", "nnef", "ncnn",
    "polygraphy", "numpy",
)  # fmt: skip
MOST_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Row:
    """A task: the task of each tool, the file, the repetitions in a process, and the goal of the ratio."""

    name: str
    file: str
    ours: str
    peers: tuple[str, ...]
    times: int
    goal: str


ROWS = (
    Row("ONNX, 100,000 nodes: load", "large.onnx", "graphport.load", ("onnx-ir.load", "onnx.load"), 2, "1.0 s"),
    Row("ONNX, 100,000 nodes: save", "large.onnx", "graphport.save", ("onnx-ir.save", "onnx.save"), 2, "1.5 s"),
    Row("IR, a chain of 20,002 layers: read", "chain.xml", "graphport.read", ("openvino.read",), 3, "≤ 1.0"),
    Row("IR, half of the layers constants: read", "constants.xml", "graphport.read", ("openvino.read",), 3, "≤ 1.0"),
    Row("IR, chain: write", "chain.xml", "graphport.write", ("openvino.save",), 3, "≤ 1.0"),
    Row("IR, constants: write", "constants.xml", "graphport.write", ("openvino.save",), 3, "≤ 1.0"),
    Row("IR, a decoder of 8 layers: read", "decoder8.xml", "graphport.read", ("openvino.read",), 7, "≤ 5"),
    Row("IR, a decoder of 32 layers: read", "decoder32.xml", "graphport.read", ("openvino.read",), 3, "≤ 5"),
    Row("NNEF, 50,000 operations: read, shapes", "large.nnef", "graphport.read", ("nnef.read",), 2, "≤ 1.0"),
    Row("NNEF, 300 operations: read, shapes", "some.nnef", "graphport.read", ("nnef.read",), 21, "≤ 1.5"),
    Row("NNEF, 2 operations: read, shapes", "tiny.nnef", "graphport.read", ("nnef.read",), 51, "≤ 0.5"),
    Row("NNEF, 50,000 operations: canonical", "large.nnef", "graphport.load", ("nnef.read",), 2, "≤ 1.0"),
    Row("NNEF, 300 operations: canonical", "some.nnef", "graphport.load", ("nnef.read",), 21, "≤ 1.5"),
    Row("NNEF, 2 operations: canonical", "tiny.nnef", "graphport.load", ("nnef.read",), 51, "≤ 0.5"),
    Row("ncnn, 10,000 layers: load", "some.ncnn.param", "graphport.load", ("ncnn.load",), 2, ""),
    Row("ncnn, 100,000 layers: load", "large.ncnn.param", "graphport.load", ("ncnn.load",), 1, "2 s, 250 MB"),
    Row("ncnn, 100,000 layers: save", "large.ncnn.param", "graphport.save", (), 1, "2 s"),
    Row("PNNX, 100,000 operators: load", "large.pnnx.param", "graphport.load", (), 1, "2 s, 250 MB"),
    Row("PNNX, 100,000 operators: save", "large.pnnx.param", "graphport.save", (), 1, "2 s"),
    Row("reference, the size of ResNet-50", "resnet.onnx", "graphport.run", ("onnx.reference",), 3, "≤ 0.2"),
    Row("reference, node tests of onnx", "tiny.onnx", "graphport.node_tests", ("onnx.node_tests",), 1, "≤ 0.2"),
    Row("1 GB ONNX to ONNX", "huge.onnx", "graphport.to_onnx", ("cp.cp",), 1, "≤ 1.5 of the wall time"),
    Row("1 GB ONNX to IR", "huge.onnx", "graphport.to_ir", ("cp.cp",), 1, "≤ 1.5 of the wall time"),
    Row("1 GB ONNX to NNEF", "huge.onnx", "graphport.to_nnef", ("cp.cp",), 1, "≤ 1.5 of the wall time"),
    Row("1 GB ONNX to an archive", "huge.onnx", "graphport.to_archive", ("cp.cp",), 1, "≤ 1.5 of the wall time"),
)

COMMANDS = (
    ("check", ("graphport", "check", "{}"), (("onnx.checker", ("python", "-m", "onnx.bin.checker", "{}")),), "0.3 s"),
    ("inspect", ("graphport", "inspect", "{}"), (("polygraphy", ("polygraphy", "inspect", "model", "{}")),), "0.4 s"),
    ("simplify", ("graphport", "simplify", "{}", "{}.out.onnx", "--no-verify"), (
        ("onnxsim", ("onnxsim", "{}", "{}.sim.onnx")), ("onnxslim", ("onnxslim", "{}", "{}.slim.onnx"))), "0.6 s"),
)  # fmt: skip
"""Command lines on a small file: the whole process with its imports."""

MAKERS: dict[str, Callable[[Path], object]] = {
    "large.onnx": lambda path: files.onnx_chain(path, 100_000, 18),
    "tiny.onnx": lambda path: files.onnx_chain(path, 12, 18),
    "huge.onnx": lambda path: files.onnx_products(path, 60, 2048),
    "resnet.onnx": files.onnx_residual,
    "chain.xml": lambda path: files.ir_chain(path, 20_000),
    "constants.xml": lambda path: files.ir_constants(path, 20_000),
    "decoder8.xml": lambda path: _as_ir(path, 8),
    "decoder32.xml": lambda path: _as_ir(path, 32),
    "large.nnef": lambda path: path.write_text(files.nnef_text(50_000)),
    "some.nnef": lambda path: path.write_text(files.nnef_text(300)),
    "tiny.nnef": lambda path: path.write_text(files.TINY_NNEF),
    "some.ncnn.param": lambda path: files.ncnn_chain(path, 10_000),
    "large.ncnn.param": lambda path: files.ncnn_chain(path, 100_000),
    "large.pnnx.param": lambda path: files.pnnx_chain(path, 100_000),
}


def _as_ir(path: Path, layers: int) -> None:
    import openvino

    source = files.onnx_decoder(path.with_suffix(".onnx"), layers)
    openvino.save_model(openvino.convert_model(str(source)), str(path), compress_to_fp16=False)


@dataclass(slots=True)
class Times:
    """Times of a tool by round, and its peak memory."""

    cpu: list[float]
    wall: list[float]
    peak: float = 0.0


def environment() -> dict[str, str]:
    """Return environment variables that limit libraries to one thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def one(task: str, times: int, file: Path, folder: Path, found: Times) -> bool:
    """Run a task once more. Return `False` if the tool fails."""
    command = [sys.executable, str(HERE / "work.py"), task, str(times), str(file), str(folder)]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment(), check=False, timeout=MOST_SECONDS
    )
    if ended.returncode:
        sys.stderr.write(f"{task} {file.name}: {(ended.stderr.strip().splitlines() or ['failed'])[-1][:200]}\n")
        return False
    took = json.loads(ended.stdout.strip().splitlines()[-1])
    found.cpu.append(took["cpu_s"])
    found.wall.append(took["wall_s"])
    found.peak = max(found.peak, took["peak_mb"])
    return True


def process(command: Sequence[str], found: Times) -> bool:
    """Run a command once more and record the processor time of the whole process."""
    scripts = Path(sys.executable).parent
    program = [str(scripts / command[0]), *command[1:]]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(program, capture_output=True, env=environment(), check=False, timeout=MOST_SECONDS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        sys.stderr.write(f"{' '.join(command)}: {ended.stderr.decode(errors='replace')[-200:]}\n")
        return False
    found.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    found.wall.append(0.0)
    return True


def in_turns(rounds: int, works: dict[str, Callable[[Times], bool]]) -> dict[str, Times]:
    """Run each tool once a round; a tool that fails is left out."""
    found = {name: Times([], []) for name in works}
    for _ in range(rounds):
        for name in list(found):
            if not works[name](found[name]):
                del found[name]
    return found


def lines(name: str, found: dict[str, Times], goal: str) -> Iterator[list[str]]:
    """Yield the table rows of graphport and each peer, ratio first."""
    ours = found.pop("graphport", None)
    if ours is None:
        yield ["", "", name, "graphport fails", "", "", "", goal]
        return
    is_wall = "wall" in goal
    mine = ours.wall if is_wall else ours.cpu
    for peer, theirs in found.items() or [("", None)]:
        if theirs is None:
            yield ["", "", name, "", f"{min(mine):.3g}", "", _megabytes(ours), goal]
            continue
        other = theirs.wall if is_wall else theirs.cpu
        ratios = [a / b for a, b in zip(mine, other, strict=True)]
        spread = f"{min(ratios):.2g} to {max(ratios):.2g}"
        peaks = f"{_megabytes(ours)} / {_megabytes(theirs)}" if ours.peak else ""
        cells = [f"{min(mine):.3g}", f"{min(other):.3g}", peaks, goal]
        yield [f"**{min(mine) / min(other):.2f}**", spread, name, peer, *cells]


def _megabytes(times: Times) -> str:
    return f"{times.peak:.0f}" if times.peak else ""


HEADINGS = ("ratio", "spread", "run before", "work", "beside", "graphport, s", "the other, s", "peak MB", "goal")


def beside_last(row: list[str], last: dict[tuple[str, str], str]) -> list[str]:
    """Return a row with the previous ratio of the page after its spread."""
    ratio, spread, work, peer, *rest = row
    return [ratio, spread, last.get((work, peer), ""), work, peer, *rest]


def ratios(figures_: str) -> dict[tuple[str, str], str]:
    """Return the ratios of a page by work and tool."""
    found: dict[tuple[str, str], str] = {}
    place = ratio = 0
    for line in figures_.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if {"ratio", "work"} <= {*cells}:
            ratio, place = cells.index("ratio"), cells.index("work")
        elif len(cells) > place + 1 and cells[ratio].startswith("**"):
            found[cells[place], cells[place + 1]] = cells[ratio].strip("*")
    return found


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    every = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in every)


def figures(rounds: int, only: str, models: Path | None, last: dict[tuple[str, str], str]) -> Iterator[str]:
    """Yield the sections of the page as they are measured; `last` has its previous ratios."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        rows: list[list[str]] = []
        for row in ROWS:
            if only not in row.name:
                continue
            file = folder / row.file
            if not file.exists():
                MAKERS[row.file](file)
            (folder / "out").mkdir(exist_ok=True)
            works = {
                task.partition(".")[0]: lambda found, task=task, row=row, file=file: one(
                    task, row.times, file, folder / "out", found
                )
                for task in (row.ours, *row.peers)
            }
            rows += _told(lines(row.name, in_turns(rounds, works), row.goal))
        if rows:
            yield "## Reading, writing, computing\n\n" + table(HEADINGS, [beside_last(row, last) for row in rows])
        rows = []
        small = folder / "tiny.onnx"
        MAKERS["tiny.onnx"](small)
        for verb, ours, peers, goal in COMMANDS:
            if only in f"{verb} as a process":
                each = {"graphport": ours, **dict(peers)}
                works = {
                    tool: lambda found, command=command: process([w.replace("{}", str(small)) for w in command], found)
                    for tool, command in each.items()
                }
                rows += _told(lines(f"`{verb}` of 12 nodes, the process", in_turns(rounds + 2, works), goal))
        if rows:
            yield "## As a process\n\n" + table(HEADINGS, [beside_last(row, last) for row in rows])
        if only in "simplify exports":
            yield "## Simplifying what exporters write\n\n" + simplifiers.compared(models, folder)


def _told(rows: Iterator[list[str]]) -> list[list[str]]:
    found = list(rows)
    for row in found:
        sys.stderr.write(" | ".join(row) + "\n")
    return found


def machine() -> str:
    """Return the processor's name, the number of cores and the system."""
    names = Path("/proc/cpuinfo")
    lines_ = names.read_text(encoding="utf-8").splitlines() if names.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines_ if line.startswith("model name")), "")
    return f"{model or platform.processor() or platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def versions() -> str:
    """Return the versions of the compared packages."""
    found: list[str] = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*found, f"Python {platform.python_version()}"])


def main() -> None:
    """Measure, and write the figures between the marks of the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="work whose name has this in it")
    parser.add_argument("--models", type=Path, help="a folder of ONNX files to simplify, instead of those of the tests")
    parser.add_argument("--page", type=Path, default=TOP / "docs" / "benchmarks.md")
    given = parser.parse_args()
    date = dt.datetime.now(dt.UTC).date()
    head = f"Measured on {date:%d %B %Y}, {given.rounds} rounds: {machine()}.\n\n{versions()}.\n"
    page = given.page.read_text(encoding="utf-8") if given.page.exists() else f"{BEGIN}\n{END}\n"
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    parts = [head, *figures(given.rounds, given.only, given.models, ratios(old))]
    given.page.write_text(f"{before}{BEGIN}\n\n" + "\n".join(parts) + f"\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
