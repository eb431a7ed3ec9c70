"""Fuzz every reader and verb: each case must end with a result or a diagnostic, within limits of time and memory.

python tools/fuzz.py --seconds 300            all formats, with reproducible mutations
python tools/fuzz.py --cases 1500 --jobs 2    as in CI: a fixed number of cases of each format
python tools/fuzz.py --seconds 3600 --seed 7  different mutations
python tools/fuzz.py --only onnx              one format, or statistics, samples, expression, editor, options
python tools/fuzz.py --seconds 36000 --cases 7000 --resume FILE   continue an interrupted run, with its findings
python tools/fuzz.py --peers --cases 1500     run the files in nnef, onnx, ONNX Runtime and OpenVINO
python tools/fuzz.py --structures             extreme dims, deep nesting, cycles, long chains and decompression bombs
python tools/fuzz.py --signatures             models generated from the signatures of operators
python tools/fuzz.py --replay FOLDER          repeat a finding and print its traceback

Seeds are the model files of the tests and their conversions to all other formats. Findings are written to `.fuzz/`, one
folder each; a copy of a finding in `tests/tools/fuzzed/KIND` is a regression test.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzing.damages import damage_of
from fuzzing.peers import PEERS, peers
from fuzzing.signatures import KINDS, known_bases, signature_case
from fuzzing.structures import structures
from fuzzing.subjects import COMPANIONS, Seed, seeds, verbs

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parent.parent
FINDINGS = ROOT / ".fuzz"
MAX_CPU_SECONDS = 10
MAX_WALL_SECONDS = 600
MAX_MEMORY = 1 << 30
"""Limits of a case whose files are below 100 KB: CPU seconds, wall-clock seconds, bytes beyond the process's own."""
MAX_ADDRESS_SPACE = 6 << 30
WORK = "work"
"""Name of the folder that verbs write to."""


def outcome(
    kind: str, path: Path, out: Path, turn: int | None = None, before: Callable[[], None] | None = None
) -> dict[str, str]:
    """Return the result of each verb: `done`, `told` (a diagnostic), or the unexpected exception and its location.

    `before` is called before each verb.
    """
    from graphport import DiagnosticError

    found: dict[str, str] = {}
    for name, verb in verbs(kind, path, out, turn):
        if before is not None:
            before()
        try:
            verb()
            found[name] = "done"
        except DiagnosticError:
            found[name] = "told"
        except Exception as error:  # noqa: BLE001  the search is for unexpected exceptions
            ours = [each for each in traceback.extract_tb(error.__traceback__) if "graphport" in each.filename]
            place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
            found[name] = f"{type(error).__name__} at {place}: {str(error)[:100]}"
    return found


@dataclass
class Tally:
    """Results of the cases of one format: counts, findings, maximum time and memory."""

    cases: Counter[str] = field(default_factory=Counter[str])
    findings: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    slowest: float = 0.0
    largest: int = 0
    next: int | None = None

    def take(self, case: str, kind: str, what: str) -> bool:
        """Count a case. Return whether it is the first one with the finding `what`."""
        self.cases[kind] += 1
        if kind in ("done", "told"):
            return False
        known = self.findings.setdefault(what, [])
        known.append(case)
        return len(known) == 1


@dataclass
class SavedTallies:
    """Tallies of all kinds, saved to a file if `path` is set, so that an interrupted run can continue."""

    path: Path | None
    tallies: dict[str, Tally]

    @classmethod
    def of(cls, path: Path | None, names: Iterable[str]) -> SavedTallies:
        """Load the tallies of the kinds `names` from the file at `path`; a missing file has none."""
        tallies = {name: Tally() for name in names}
        if path is not None and path.exists():
            for name, kept in json.loads(path.read_text(encoding="utf-8")).items():
                kept["cases"] = Counter(kept["cases"])
                tallies[name] = Tally(**kept)
        return cls(path, tallies)

    def write(self) -> None:
        """Write the tallies to the file."""
        if self.path is not None:
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps({name: vars(tally) for name, tally in self.tallies.items()}), encoding="utf-8")
            new.replace(self.path)


def run(name: str, known: list[Seed], seconds: float, start: int, kept: SavedTallies, most: int = 1 << 40) -> int:
    """Run mutated seeds of one format in successive child processes. Return the number of the next case.

    The run ends after `seconds` or before case `start + most`, whichever is first; the second limit is reproducible.
    """
    began = time.monotonic()
    tally = kept.tallies[name]
    number = start if tally.next is None else tally.next
    if number < start + most:
        _warm(name, known)
    while time.monotonic() - began < seconds and number < start + most:
        number = tally.next = _batch(name, known, number, tally, (began + seconds, start + most))
        kept.write()
    return number


def _warm(name: str, known: list[Seed]) -> None:
    """Run some unmodified seeds through all verbs, so that child processes inherit the imported modules and tables."""
    if known[0].label or name in PEERS:
        return
    if name in KINDS:
        known_bases(KINDS[name][0])
        known = [case(known, number) for number in range(8)]
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn, seed in enumerate(known[:: max(1, len(known) // 8)]):
            place = Path(folder) / str(turn)
            (place / WORK).mkdir(parents=True)
            # Verbs of turn 4 run models; their threads would not survive the fork.
            outcome(name, seed.put(place / "given"), place / WORK, turn % 4)


def _batch(name: str, known: list[Seed], number: int, tally: Tally, ends: tuple[float, int]) -> int:
    """Run cases in one child process, which ends with the first case that exceeds a limit. Return the next number."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _child(name, known, number, os.fdopen(write, "w", buffering=1), ends)
    os.close(write)
    current = number
    with os.fdopen(read) as lines:
        for line in lines:
            record = json.loads(line)
            current = record["case"]
            if "outcome" in record:
                tally.slowest = max(tally.slowest, record["cpu"])
                tally.largest = max(tally.largest, record["memory"])
                _judge(name, known, record, tally)
                current += 1
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        what = f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
        if tally.take(f"{name}/{current}", "ended", what):
            _keep(name, known, current, what)
        current += 1
    return current


def _judge(name: str, known: list[Seed], record: dict[str, Any], tally: Tally) -> None:
    outcomes: dict[str, str] = record["outcome"]
    case = f"{name}/{record['case']}"
    wrong = {verb: text for verb, text in outcomes.items() if text not in ("done", "told")}
    if record["memory"] > MAX_MEMORY:
        wrong["memory"] = f"more than {MAX_MEMORY >> 20} MiB"
    for text in dict.fromkeys(wrong.values()) or [""]:
        kind = "raised" if text else ("told" if "told" in outcomes.values() else "done")
        if tally.take(case, kind, text):
            _keep(name, known, record["case"], text)


def _keep(name: str, known: list[Seed], number: int, what: str) -> None:
    folder = FINDINGS / name / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = case(known, number)
    found.put(folder)
    what = f"{found.label}: {what}" if found.label else what
    (folder / "what.txt").write_text(what + "\n", encoding="utf-8")


def case(known: list[Seed], number: int) -> Seed:
    """Return case `number` of a format; it depends on the seeds and the number alone."""
    first = known[number % len(known)]
    if first.name in KINDS:
        files = signature_case(first.name, number)
        name = KINDS[first.name][1]
        return Seed(name, {name: b""} if files is None else files)
    if first.label:
        return first
    chance = random.Random(number)  # noqa: S311  mutations must be reproducible
    seed = chance.choice(known)
    twin = Seed(seed.name, dict(seed.files))
    is_main = seed.name in seed.files and (len(seed.files) == 1 or chance.random() < 0.8)
    target = seed.name if is_main else chance.choice(sorted(seed.files))
    others = [other.files.get(other.name, b"") for other in chance.sample(known, min(5, len(known)))]
    twin.files[target] = damage_of(seed.files[target])(chance, seed.files[target], others)
    return twin


def _child(name: str, known: list[Seed], number: int, out: io.TextIOBase, ends: tuple[float, int]) -> None:
    """Run cases through all verbs and write the results to `out`; never returns."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("ignore")
        with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as folder:
            for each in range(number, min(number + 100, ends[1])):
                if time.monotonic() > ends[0]:
                    break
                out.write(json.dumps({"case": each}) + "\n")
                shutil.rmtree(folder)
                (Path(folder) / WORK).mkdir(parents=True)
                chosen = case(known, each)
                path = chosen.put(Path(folder) / "given")
                _bound_time()
                before, cpu = _memory(), time.process_time()
                # A structure (a seed with a label) runs all verbs, each with a time limit.
                is_made = bool(chosen.label)
                found = outcome(
                    name, path, Path(folder) / WORK, None if is_made else each, _bound_time if is_made else None
                )
                record = {
                    "case": each,
                    "outcome": found,
                    "cpu": time.process_time() - cpu,
                    "memory": _peak_memory() - before,
                }
                out.write(json.dumps(record) + "\n")
        out.flush()
    finally:
        os._exit(0)


def _bound_time() -> None:
    """Limit the next case to `MAX_CPU_SECONDS` of CPU time and `MAX_WALL_SECONDS` of elapsed time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + MAX_CPU_SECONDS + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    signal.alarm(MAX_WALL_SECONDS)


def _memory() -> int:
    """Return the resident bytes of this process, and reset its peak."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _peak_memory() -> int:
    """Return the peak of resident bytes since `_memory` was called."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(name: str) -> int:
    """Return the field `name` of /proc/self/status in bytes; 0 if it does not exist."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{name}:")), 0)


def path_to_open(folder: Path) -> Path:
    """Return the path to open for a saved finding: the model's file, or the folder of a folder format."""
    files = [each for each in sorted(folder.iterdir()) if each.name != "what.txt"]
    beside = {path.with_suffix(ending) for path in files for ending in COMPANIONS.get(path.suffix, ())}
    left = [each for each in files if each not in beside]
    is_folder = any(each.is_dir() or each.name in ("graph.nnef", "image.npy") for each in files)
    return folder if is_folder or not left else next((each for each in left if each.suffix == ".onnx"), left[0])


def replay(folder: Path) -> None:
    """Repeat a finding; unexpected exceptions propagate."""
    from graphport import DiagnosticError

    with tempfile.TemporaryDirectory() as out:
        for name, verb in verbs(folder.parent.name, path_to_open(folder), Path(out)):
            try:
                verb()
            except DiagnosticError as error:
                print(f"{name}: {str(error)[:300]}")


def run_in_parallel(jobs: int) -> int:
    """Run this command in `jobs` processes, each with a part of the kinds. Return 1 if a process has a finding."""
    parts = [[sys.executable, *sys.argv, "--jobs", "1", "--part", f"{number}/{jobs}"] for number in range(1, jobs + 1)]
    running = [subprocess.Popen(part) for part in parts]  # noqa: S603  the same command
    return max([process.wait() for process in running])


def main() -> int:
    """Fuzz with the options of the command line. Return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--cases", type=int, default=1 << 40, help="of each kind, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], metavar="KIND")
    parser.add_argument("--structures", action="store_true", help="generated structures, each once")
    parser.add_argument("--signatures", action="store_true", help="models generated from operator signatures")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every N-th kind or structure, from the K-th on")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each of which takes a part")
    parser.add_argument("--peers", action="store_true", help="the same files in other readers")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="file for the results so far, to continue from")
    parser.add_argument("--replay", type=Path)
    chosen = parser.parse_args()
    if chosen.jobs > 1:
        if chosen.resume:
            parser.error("--resume supports one process only")
        return run_in_parallel(chosen.jobs)
    # Internal errors must propagate, not be printed as diagnostics.
    os.environ["GRAPHPORT_DEBUG"] = "1"
    os.environ["GRAPHPORT_UNFLUSHED"] = "1"
    if chosen.replay:
        replay(chosen.replay)
        return 0
    if chosen.signatures:
        known = {kind: [Seed(kind, {})] for kind in KINDS}
    else:
        with tempfile.TemporaryDirectory(prefix="fuzz-seeds-") as folder:
            known = seeds(Path(folder))
    first, every = map(int, chosen.part.split("/"))
    if chosen.structures:
        known = {name: found[first - 1 :: every] for name, found in structures(known).items()}
    if chosen.peers:
        known = peers(known)
    # Objects that exist now are permanent: exclude them from the garbage collection of child processes.
    gc.freeze()
    known = {name: found for name, found in known.items() if not chosen.only or name in chosen.only}
    if not chosen.structures:
        known = dict(list(known.items())[first - 1 :: every])
    kept = SavedTallies.of(chosen.resume, known)
    for name, found in known.items():
        share = chosen.seconds / len(known)
        most = min(chosen.cases, len(found)) if chosen.structures else chosen.cases
        run(name, found, share, 0 if chosen.structures else chosen.seed * 10_000_000, kept, most)
        report(name, len(found), kept.tallies[name])
    print(f"{sum(tally.cases.total() for tally in kept.tallies.values())} cases")
    return int(any(tally.findings for tally in kept.tallies.values()))


def report(name: str, count: int, tally: Tally) -> None:
    """Print the tally of one kind, which has `count` seeds."""
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.cases.items()))
    bounds = f"slowest {tally.slowest:.1f} s, most {tally.largest >> 20} MB"
    print(f"{name:10} {count:4} seeds: {counts}; {bounds}", flush=True)
    for what, cases in tally.findings.items():
        print(f"    {len(cases)} × {what}   .fuzz/{cases[0]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
