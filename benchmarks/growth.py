"""Measure how CPU time and memory of each command grow with the size of a model.

python -m benchmarks.growth [--only TEXT] [--verb VERB] [--page FILE] [--json FILE]

Each command runs in a separate process on models of n and 4n elements and on the smallest model of the family, whose
CPU time and memory are subtracted. Exit code 1 if an exponent exceeds its limit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.families import FAMILIES, Family

TOP = Path(__file__).parent.parent
BEGIN, END = "<!-- growth -->", "<!-- end of growth -->"
FACTOR = 4
MAX_CPU_EXPONENT = 1.15
MAX_MEMORY_EXPONENT = 1.1
MIN_SECONDS = 0.25
"""Differences of CPU time below this, in seconds, are noise: their exponent is not computed."""
MIN_MEGABYTES = 25
MAX_SECONDS = 120
"""CPU seconds after which a command is stopped."""

VERBS: dict[str, tuple[str, ...]] = {
    "check": ("check", "{}"),
    "inspect": ("inspect", "{}"),
    "shapes": ("shapes", "{}"),
    "simplify": ("simplify", "{}", "{}.out.onnx", "--no-verify"),
    "prepare": ("prepare", "{}", "{}.out.onnx", "--no-verify"),
    "to ONNX": ("convert", "{}", "{}.out.onnx", "--opset", "21", "--no-verify"),
    "to IR": ("convert", "{}", "{}.out.xml", "--no-verify"),
    "to NNEF": ("convert", "{}", "{}.out.nnef", "--no-verify", "--allow-fragments"),
    "to TFLite": ("convert", "{}", "{}.out.tflite", "--no-verify"),
    "to archive": ("convert", "{}", "{}.out.graphport", "--no-verify"),
    "cast": ("cast", "{}", "{}.out.onnx", "--to", "float16", "--no-verify"),
    "cut": ("cut", "{}", "{}.out.onnx", "--no-verify"),
    "report": ("report", "{}", "-o", "{}.out.html"),
}


class Cost(NamedTuple):
    """CPU seconds, peak memory in MB and exit code of a process; exit code `None` if it was stopped."""

    seconds: float
    megabytes: float
    code: int | None


class Growth(NamedTuple):
    """Costs of one command on one family at the sizes `few` and `FACTOR * few`, and the exponents if measurable."""

    verb: str
    family: str
    few: int
    small: Cost
    large: Cost
    cpu: float | None
    memory: float | None

    @property
    def is_linear(self) -> bool:
        """Return whether both exponents are within their limits and the command ended."""
        return self.large.code is not None and (
            (self.cpu or 0) <= MAX_CPU_EXPONENT and (self.memory or 0) <= MAX_MEMORY_EXPONENT
        )


def measure(arguments: Sequence[str]) -> Cost:
    """Run graphport and return its cost."""
    program = [sys.executable, "-m", "graphport", "-q", *arguments]

    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = usage.ru_utime + usage.ru_stime
    return Cost(seconds, usage.ru_maxrss / 1024, process.returncode if process.returncode >= 0 else None)


def exponent(start: float, small: float, large: float, least: float) -> float | None:
    """Return log(large - start) / (small - start) to the base `FACTOR`; `None` below `least`."""
    if large - start < least:
        return None
    return math.log((large - start) / max(small - start, least / FACTOR)) / math.log(FACTOR)


def grow(name: str, family: Family, verbs: Sequence[str], folder: Path) -> Iterator[Growth]:
    """Measure the commands on one family."""
    sizes = (1, family.size, FACTOR * family.size)
    for size in sizes:
        (folder / f"{size}.onnx").write_bytes(family.build(size).SerializeToString())
    for verb in verbs:
        costs: list[Cost] = []
        for size in sizes:
            room = folder / "room"
            room.mkdir()
            shutil.copy(folder / f"{size}.onnx", room / "model.onnx")
            costs.append(measure([word.replace("{}", str(room / "model.onnx")) for word in VERBS[verb]]))
            shutil.rmtree(room)
        start, small, large = costs
        cpu = exponent(start.seconds, small.seconds, large.seconds, MIN_SECONDS)
        memory = exponent(start.megabytes, small.megabytes, large.megabytes, MIN_MEGABYTES)
        yield Growth(verb, name, family.size, small, large, cpu, memory)


def line(growth: Growth) -> str:
    """Return one line of the log."""
    (a, b), shown = (growth.small, growth.large), [f"{x:.2f}" if x else "–" for x in (growth.cpu, growth.memory)]
    flag = "" if growth.is_linear else "  NOT LINEAR"
    code = "stopped" if b.code is None else f"exit {b.code}"
    return (
        f"{growth.family:20} {growth.verb:11} {growth.few:6} {a.seconds:6.2f} s {a.megabytes:5.0f} MB   "
        f"x{FACTOR} {b.seconds:6.2f} s {b.megabytes:5.0f} MB   cpu {shown[0]} memory {shown[1]} {code}{flag}"
    )


def table(found: Sequence[Growth]) -> str:
    """Return the Markdown table of exponents: a row for each family, a column for each command."""
    verbs = list(dict.fromkeys(each.verb for each in found))
    cells = {(each.family, each.verb): each for each in found}
    rows = [
        "| family, size | " + " | ".join(verbs) + " |",
        "|---|" + "---|" * len(verbs),
    ]
    for family in dict.fromkeys(each.family for each in found):
        first = next(each for each in found if each.family == family)
        shown = [_cell(cells.get((family, verb))) for verb in verbs]
        rows.append(f"| {family}, {FACTOR * first.few:,} | " + " | ".join(shown) + " |")
    return "\n".join(rows)


def _cell(growth: Growth | None) -> str:
    if growth is None:
        return ""
    if growth.large.code is None:
        return f"stopped after {MAX_SECONDS} s"
    power = "–" if growth.cpu is None else f"{growth.cpu:.2f}"
    return f"{growth.large.seconds:.1f} s, {power}"


def main() -> None:
    """Measure, print a line for each command and family, and update the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="families whose names contain this text; several with a comma")
    parser.add_argument("--verb", action="append", choices=list(VERBS), help="only this command; repeatable")
    parser.add_argument("--page", type=Path, help="write the table into this Markdown page")
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    parser.add_argument("--divide", type=int, default=1, help="divide the sizes by this number")
    options = parser.parse_args()
    found: list[Growth] = []
    for name, family in FAMILIES.items():
        if not any(part in name for part in options.only.split(",")):
            continue
        size = max(family.size // options.divide, 2)
        with TemporaryDirectory() as folder:
            for growth in grow(name, Family(family.build, size), options.verb or list(VERBS), Path(folder)):
                sys.stdout.write(line(growth) + "\n")
                sys.stdout.flush()
                found.append(growth)
    if options.json:
        options.json.write_text(json.dumps([each._asdict() for each in found], indent=1))
    if options.page:
        before, _, rest = options.page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        options.page.write_text(f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}")
    sys.exit(not all(each.is_linear for each in found))


if __name__ == "__main__":
    main()
