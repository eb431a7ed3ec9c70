"""Damages files of every format and holds each verb to what is promised: an answer or a diagnostic, within bounds.

python tools/fuzz.py --seconds 300            all formats in turns, the same damages every time
python tools/fuzz.py --cases 1500             as CI does it: so many of each format, whatever the machine
python tools/fuzz.py --seconds 3600 --seed 7  others
python tools/fuzz.py --format onnx            one format
python tools/fuzz.py --replay FOLDER          a finding again, with its traceback

Seeds are the files that the tests have, and what is written of them in every other format. What is found is kept below
`.fuzz/`, a folder a finding; a copy of it in `tests/tools/fuzzed` is a regression test.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOUND = ROOT / ".fuzz"
MOST_SEED = 60_000
"""Bytes of the largest file that is damaged."""
MOST_CPU = 10
MOST_MEMORY = 1 << 30
"""Seconds and bytes that a file of less than 100 KB may take, beyond what the program takes itself."""
ADDRESSES = 6 << 30

NUMBERS = (
    b"0",
    b"1",
    b"-1",
    b"2147483647",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"1" + b"0" * 40,
    b"nan",
    b"1e400",
)
SIGNS = (b"(", b"[" * 3000, b"-", b"\0", b"\xff", b'"', b"/" * 5000, "é".encode(), b"\x1b[31m")
WORDS = re.compile(rb"[A-Za-z_][A-Za-z0-9_.:]*|-?[0-9]+(?:\.[0-9]+)?|[^\sA-Za-z0-9_]")
EXTENTS = (0, 1, 2, 127, 128, 255, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)
COMPANIONS = {".xml": ".bin", ".param": ".bin", ".prototxt": ".caffemodel"}

Damage = Callable[[random.Random, bytes, list[bytes]], bytes]


@dataclass
class Seed:
    """The files of one model; the first is the one that is opened."""

    name: str
    files: dict[str, bytes]


# ── damages ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def damaged_bytes(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Bits turned, pieces cut, doubled, moved or taken from another file."""
    twin = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(twin) + 1) if twin else 0
        length = chance.choice((1, 2, 4, 8, 64, 512))
        match chance.randrange(6):
            case 0 if at < len(twin):
                twin[at] ^= 1 << chance.randrange(8)
            case 1:
                del twin[at : at + length]
            case 2:
                twin[at:at] = twin[at : at + length]
            case 3:
                twin[at : at + length] = bytes([chance.choice((0, 1, 127, 128, 255))]) * length
            case 4 if others:
                other = chance.choice(others)
                start = chance.randrange(len(other) + 1)
                twin[at : at + length] = other[start : start + length]
            case _:
                del twin[at:]
    return bytes(twin)


def damaged_text(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Words replaced, swapped, doubled or taken from another text."""
    if chance.random() < 0.1:
        return damaged_bytes(chance, data, others)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(WORDS.finditer(data))
        if not places:
            return data
        place = chance.choice(places)
        match chance.randrange(6):
            case 0:
                new = b""
            case 1:
                new = place[0] + b" " + place[0]
            case 2:
                new = chance.choice(NUMBERS)
            case 3:
                new = chance.choice(places)[0]
            case 4:
                taken = WORDS.findall(chance.choice(others or [data]))
                new = chance.choice(taken) if taken else b"x"
            case _:
                new = chance.choice(
                    (b"(", b"[" * 3000, b"-", b"\0", b"\xff", b'"', b"/" * 5000, "é".encode(), b"\x1b[31m")
                )
        data = data[: place.start()] + new + data[place.end() :]
    return data


def varint(number: int) -> bytes:
    """`number` as protobuf spells it."""
    out = bytearray()
    while True:
        out.append(number & 127 | (128 if number > 127 else 0))
        number >>= 7
        if not number:
            return bytes(out)


def fields(data: bytes) -> list[tuple[int, bytes | int]] | None:
    """The fields of a protobuf message: tags and contents; `None` where it is none."""
    found: list[tuple[int, bytes | int]] = []
    at = 0

    def number() -> int:
        nonlocal at
        result = shift = 0
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    try:
        while at < len(data):
            tag = number()
            match tag & 7:
                case 0:
                    found.append((tag, number()))
                case 2:
                    length = number()
                    if at + length > len(data):
                        return None
                    found.append((tag, data[at : at + length]))
                    at += length
                case 1 | 5 as wire:
                    length = 8 if wire == 1 else 4
                    found.append((tag, data[at : at + length]))
                    at += length
                case _:
                    return None
    except IndexError:
        return None
    return found if all(tag >> 3 for tag, _ in found) else None


def damaged_message(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Fields of a protobuf message, at any depth, changed, doubled, dropped or moved; lengths fit again."""
    found = fields(data)
    if not found or chance.random() < 0.1:
        return damaged_bytes(chance, data, others)
    at = chance.randrange(len(found))
    tag, content = found[at]
    match chance.randrange(5):
        case 0:
            del found[at]
        case 1:
            found.insert(at, found[chance.randrange(len(found))])
        case 2:
            found[at] = (chance.choice((tag, tag ^ 8, (chance.randrange(1, 30) << 3) | (tag & 7))), content)
        case _ if isinstance(content, int):
            found[at] = (tag, chance.choice(EXTENTS))
        case _:
            inner = damaged_message if fields(content) else damaged_text
            found[at] = (tag, inner(chance, content, others))
    return b"".join(_spelled(tag, content) for tag, content in found)


def _spelled(tag: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(tag & ~7) + varint(content) if tag & 7 == 0 else varint(tag)
    return varint(tag) + (varint(len(content)) if tag & 7 == 2 else b"") + content


def damaged_zip(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Members of a zip archive damaged, and packed with checksums that fit."""
    if chance.random() < 0.2:
        return damaged_bytes(chance, data, others)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError):
        return damaged_bytes(chance, data, others)
    at = chance.randrange(len(members))
    name, content = members[at]
    is_text = not content[:2000].strip(bytes(range(32, 127)) + b"\n\t")
    match chance.randrange(8):
        case 0:
            del members[at]
        case 1:
            members.append(members[chance.randrange(len(members))])
        case 2:
            members[at] = (chance.choice(("../" + name, "/" + name, name + "\0", "", name * 50)), content)
        case _:
            members[at] = (name, (damaged_text if is_text else damaged_bytes)(chance, content, []))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for each, content in members:
            archive.writestr(zipfile.ZipInfo(each), content)
    return packed.getvalue()


def damage_of(data: bytes) -> Damage:
    """How to damage a file, by what it holds."""
    if data[:4] == b"PK\3\4":
        return damaged_zip
    if not data[:2000].strip(bytes(range(32, 127)) + b"\n\r\t"):
        return damaged_text
    return damaged_message if fields(data) else damaged_bytes


# ── seeds ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def seeds(folder: Path) -> dict[str, list[Seed]]:
    """Models by format: those of the tests, and what is written of them in the others."""
    import graphport as gp
    from graphport import formats

    found: dict[str, list[Seed]] = {name: [] for name in formats.FORMATS}
    endings = {ending for each in formats.FORMATS.values() for ending in each.endings}
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.is_file() and path.stat().st_size <= MOST_SEED and any(path.name.endswith(end) for end in endings):
            try:
                name = formats.recognize(path).name
            except gp.DiagnosticError:
                continue
            found[name].append(_seed(path))
    for seed in found["onnx"][:40]:
        place = folder / "source"
        place.mkdir(exist_ok=True)
        _put(seed, place)
        for name, kind in formats.FORMATS.items():
            if len(found[name]) < 60 and kind.writes:
                for ending in kind.endings[:3]:
                    made = folder / "made"
                    shutil.rmtree(made, ignore_errors=True)
                    made.mkdir()
                    try:
                        gp.save(gp.load(place / seed.name), made / f"m{ending}")
                    except (gp.DiagnosticError, OSError):
                        continue
                    if (made / f"m{ending}").is_file() and (made / f"m{ending}").stat().st_size <= MOST_SEED:
                        found[name].append(_seed(made / f"m{ending}"))
    return {name: kept for name, kept in found.items() if kept}


def _seed(path: Path) -> Seed:
    files = {path.name: path.read_bytes()}
    beside = path.with_suffix(COMPANIONS.get(path.suffix, ".none"))
    if beside.is_file() and beside.stat().st_size <= MOST_SEED:
        files[beside.name] = beside.read_bytes()
    return Seed(path.name, files)


def _put(seed: Seed, folder: Path) -> Path:
    for name, data in seed.files.items():
        (folder / name).write_bytes(data)
    return folder / seed.name


# ── one case ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def verbs(path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """What a file is taken through; the functions give what the next ones need."""
    import graphport as gp
    from graphport import formats

    model: list[gp.Model] = []
    yield "check", lambda: gp.check(path)
    yield "load", lambda: model.append(gp.load(path))
    if model:
        yield "inspect", lambda: gp.inspect(model[0])
        for name, kind in formats.FORMATS.items():
            if kind.writes:
                yield f"save {name}", lambda kind=kind: gp.save(model[0], path.parent / f"out{kind.endings[0]}")
        yield "simplify", lambda: gp.simplify(model[0], verify=False)
    raw: list[gp.Model] = []
    yield "raw", lambda: raw.append(gp.load(path, raw=True))


def outcome(path: Path) -> dict[str, str]:
    """What each verb came to: `done`, `told`, or the exception that nobody expected and where."""
    from graphport import DiagnosticError

    found: dict[str, str] = {}
    for name, verb in verbs(path):
        try:
            verb()
            found[name] = "done"
        except DiagnosticError:
            found[name] = "told"
        except Exception as error:  # noqa: BLE001  it is what we look for
            ours = [each for each in traceback.extract_tb(error.__traceback__) if "graphport" in each.filename]
            place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
            found[name] = f"{type(error).__name__} at {place}: {str(error)[:100]}"
    return found


@dataclass
class Tally:
    """What came of the cases of one format."""

    cases: Counter[str] = field(default_factory=Counter[str])
    findings: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    slowest: float = 0.0
    largest: int = 0

    def take(self, case: str, kind: str, what: str) -> bool:
        """Count a case; whether it is the first finding of its kind."""
        self.cases[kind] += 1
        if kind in ("done", "told"):
            return False
        known = self.findings.setdefault(what, [])
        known.append(case)
        return len(known) == 1


def run(name: str, known: list[Seed], seconds: float, start: int, tally: Tally, most: int = 1 << 40) -> int:
    """Damage seeds of one format for some seconds, a child process after the other; the number of the next case.

    It ends with case number `start + most`, if time suffices for so many: then the same cases are tried every time.
    """
    began = time.monotonic()
    number = start
    while time.monotonic() - began < seconds and number < start + most:
        number = _batch(name, known, number, tally, (began + seconds, start + most))
    return number


def _batch(name: str, known: list[Seed], number: int, tally: Tally, ends: tuple[float, int]) -> int:
    """Cases in one child, which ends with the first that does not end by itself."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _child(name, known, number, os.fdopen(write, "w", buffering=1), ends)
    os.close(write)
    current = number
    with os.fdopen(read) as lines:
        for line in lines:
            said = json.loads(line)
            current = said["case"]
            if "outcome" in said:
                tally.slowest = max(tally.slowest, said["cpu"])
                tally.largest = max(tally.largest, said["memory"])
                _judge(name, known, said, tally)
                current += 1
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        what = f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
        if tally.take(f"{name}/{current}", "ended", what):
            _keep(name, known, current, what)
        current += 1
    return current


def _judge(name: str, known: list[Seed], said: dict[str, Any], tally: Tally) -> None:
    outcomes: dict[str, str] = said["outcome"]
    case = f"{name}/{said['case']}"
    wrong = {verb: text for verb, text in outcomes.items() if text not in ("done", "told")}
    if said["memory"] > MOST_MEMORY:
        wrong["memory"] = "more than 1 GiB"
    for text in wrong.values() or [""]:
        kind = "raised" if text else ("told" if "told" in outcomes.values() else "done")
        if tally.take(case, kind, text):
            _keep(name, known, said["case"], text)


def _keep(name: str, known: list[Seed], number: int, what: str) -> None:
    folder = FOUND / name / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    _put(case(known, number), folder)
    (folder / "what.txt").write_text(what + "\n", encoding="utf-8")


def case(known: list[Seed], number: int) -> Seed:
    """Case `number` of a format: always the same for the same seeds."""
    chance = random.Random(number)  # noqa: S311  damages are to be the same every time
    seed = chance.choice(known)
    twin = Seed(seed.name, dict(seed.files))
    target = seed.name if len(seed.files) == 1 or chance.random() < 0.8 else chance.choice(sorted(seed.files))
    others = [other.files[other.name] for other in chance.sample(known, min(5, len(known)))]
    twin.files[target] = damage_of(seed.files[target])(chance, seed.files[target], others)
    return twin


def _child(name: str, known: list[Seed], number: int, out: io.TextIOBase, ends: tuple[float, int]) -> None:
    """Take cases through all verbs and say what came of them; never returns."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("ignore")
        with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as folder:
            for each in range(number, min(number + 100, ends[1])):
                if time.monotonic() > ends[0]:
                    break
                out.write(json.dumps({"case": each}) + "\n")
                _bound_cpu()
                before, cpu = _memory(), time.process_time()
                found = outcome(_put(case(known, each), Path(folder)))
                said = {"case": each, "outcome": found, "cpu": time.process_time() - cpu, "memory": _memory() - before}
                out.write(json.dumps(said) + "\n")
                for left in Path(folder).iterdir():
                    shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        out.flush()
    finally:
        os._exit(0)


def _bound_cpu() -> None:
    """Let the next case take some seconds and no more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + MOST_CPU + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _memory() -> int:
    """The largest number of bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def model_in(folder: Path) -> Path:
    """The file of a kept finding that is opened."""
    files = [each for each in sorted(folder.iterdir()) if each.name != "what.txt"]
    weights = {path.with_suffix(COMPANIONS.get(path.suffix, ".none")) for path in files}
    return next(each for each in files if each not in weights)


def replay(folder: Path) -> None:
    """A finding again; what is raised goes through."""
    path = model_in(folder)
    for name, verb in verbs(path):
        from graphport import DiagnosticError

        try:
            verb()
        except DiagnosticError as error:
            print(f"{name}: {str(error)[:300]}")


def main() -> int:
    """Fuzz as the arguments say; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--cases", type=int, default=1 << 40, help="of each format, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", action="append", default=[])
    parser.add_argument("--replay", type=Path)
    chosen = parser.parse_args()
    # Our own mistakes are what we look for: they are not to end as findings.
    os.environ["GRAPHPORT_DEBUG"] = "1"
    os.environ["GRAPHPORT_UNFLUSHED"] = "1"
    if chosen.replay:
        replay(chosen.replay)
        return 0
    with tempfile.TemporaryDirectory(prefix="fuzz-seeds-") as folder:
        known = seeds(Path(folder))
    known = {name: found for name, found in known.items() if not chosen.format or name in chosen.format}
    tallies = {name: Tally() for name in known}
    for name, found in known.items():
        share = chosen.seconds / len(known)
        run(name, found, share, chosen.seed * 10_000_000, tallies[name], chosen.cases)
    return report(known, tallies)


def report(known: dict[str, list[Seed]], tallies: dict[str, Tally]) -> int:
    """Print what came of it; 1 if anything was found."""
    for name, tally in tallies.items():
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.cases.items()))
        bounds = f"slowest {tally.slowest:.1f} s, most {tally.largest >> 20} MB"
        print(f"{name:10} {len(known[name]):4} seeds: {counts}; {bounds}")
        for what, cases in tally.findings.items():
            print(f"    {len(cases)} × {what}   .fuzz/{cases[0]}")
    print(f"{sum(tally.cases.total() for tally in tallies.values())} cases")
    return int(any(tally.findings for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
