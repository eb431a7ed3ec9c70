"""What fuzzing found stays mended, and the tool itself finds what it is to find."""

from __future__ import annotations

import importlib
import io
import os
import random
import shutil
import tarfile
import tokenize
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.draws import spread

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and processes as POSIX has them")

ROOT = Path(__file__).parent.parent.parent
FUZZED = Path(__file__).parent / "fuzzed"


@pytest.fixture(scope="module")
def fuzz():
    with pytest.MonkeyPatch.context() as patch:
        # As for whoever calls the script: its folder is where it finds its own modules.
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("fuzz")


@pytest.mark.parametrize(
    "folder", spread(sorted(FUZZED.glob("*/*"))), ids=lambda folder: f"{folder.parent.name}-{folder.name}"
)
@pytest.mark.filterwarnings("ignore")
def test_fuzzer_findings_stay_fixed(fuzz, folder, tmp_path):
    given = tmp_path / "given"
    shutil.copytree(folder, given)
    (tmp_path / "out").mkdir()
    found = fuzz.outcome(folder.parent.name, fuzz.path_to_open(given), tmp_path / "out")
    assert set(found.values()) <= {"done", "told"}


def test_damages_are_the_same_every_time_and_of_every_kind(fuzz):
    known = [fuzz.Seed("m.nnef", {"m.nnef": b"version 1.0;\ngraph g(x) -> (y)\n{ y = relu(x); }\n"})]
    made = [fuzz.case(known, number).files["m.nnef"] for number in range(200)]
    assert made == [fuzz.case(known, number).files["m.nnef"] for number in range(200)]
    assert len(set(made)) > 100


def test_damaged_protobuf_message_has_consistent_lengths(fuzz):
    damages = importlib.import_module("fuzzing.damages")
    inner = damages.varint(8) + damages.varint(7)
    message = damages.varint(10) + damages.varint(len(inner)) + inner
    assert damages.fields(message) == [(10, inner)]
    made = [damages.damaged_message(random.Random(number), message, []) for number in range(300)]
    assert sum(damages.fields(each) is not None for each in made) > 200


def test_archives_and_arrays_are_damaged_inside(fuzz):
    damages = importlib.import_module("fuzzing.damages")
    packed, array = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo("graph.nnef")
        info.size = 13
        archive.addfile(info, io.BytesIO(b"version 1.0;\n"))
    np.save(array, np.arange(6, dtype=np.float32).reshape(2, 3))
    opened = shapes = 0
    for number in range(100):
        whole = damages.damage_of(packed.getvalue())(random.Random(number), packed.getvalue(), [])
        with (
            suppress(tarfile.TarError, OSError, EOFError, zlib.error, KeyError),
            tarfile.open(fileobj=io.BytesIO(whole)) as archive,
        ):
            opened += archive.getnames() != ["graph.nnef"] or archive.extractfile("graph.nnef") is not None
        damaged = damages.damage_of(array.getvalue())(random.Random(number), array.getvalue(), [])
        with suppress(ValueError, OSError, EOFError, SyntaxError, tokenize.TokenError, MemoryError):
            shapes += np.load(io.BytesIO(damaged), allow_pickle=False).shape == (2, 3)
    assert opened > 50
    assert shapes > 20


@pytest.mark.filterwarnings("ignore")
def test_seeds_of_every_kind_run_all_commands(fuzz, tmp_path):
    subjects = importlib.import_module("fuzzing.subjects")
    out = tmp_path / "out"
    out.mkdir()
    made = {"statistics": subjects._statistics(tmp_path)[:1], "samples": subjects._samples()[:4]}
    made["expression"] = [subjects.Seed("e.txt", {"e.txt": b"add(@0,mul(@1,2))"})]
    made["editor"] = [subjects.Seed("m.nnef", {"m.nnef": b"version 1.0;\ngraph g(x) -> (y)\n{ y = relu(x); }\n"})]
    made["options"] = [subjects.Seed("o.txt", {"o.txt": value}) for value in subjects.values()[:3]]
    made["nnef"] = [subjects.Seed("m.nnef", {"m.nnef": b"version 1.0;\ngraph g(x) -> (y)\n"
                                             b"{ x = external(shape = [2]); y = relu(x); }\n"})]  # fmt: skip
    for kind, known in made.items():
        for number, seed in enumerate(known):
            found = fuzz.outcome(kind, seed.put(tmp_path / kind / str(number)), out)
            told = {verb for verb, what in found.items() if what != "done"}
            # Nothing in this network has a weight, ncnn's vectors have no batches, nothing is behind its only node, and
            # the second operand is missing. onnxruntime-genai runs decoders alone.
            assert told <= {"quantize", "save ncnn", "save genai", "cut behind", "one operand"}, found
            assert found


def test_exceptions_hangs_and_crashes_are_recorded(fuzz, tmp_path, monkeypatch):
    known = [fuzz.Seed("m.nnef", {"m.nnef": b"version 1.0;\n"})]
    monkeypatch.setattr(fuzz, "FINDINGS", tmp_path)
    monkeypatch.setattr(fuzz, "MAX_MEMORY", 1 << 26)

    def planted(kind, path, out, *_):
        number = len(path.read_bytes()) % 4
        if number == 1:
            return {"check": "KeyError at reader.py:1: x"}
        if number == 2:
            os.kill(os.getpid(), 9)
        if number == 3:
            np.ones(fuzz.MAX_MEMORY // 8 + (1 << 20))  # not kept, but held for a while
        return {"check": "done"}

    monkeypatch.setattr(fuzz, "outcome", planted)
    monkeypatch.setattr(fuzz, "_warm", lambda *_: None)  # it would be taken in this process
    kept = fuzz.SavedTallies.of(None, ["nnef"])
    fuzz.run("nnef", known, 60.0, 0, kept, 60)
    tally = kept.tallies["nnef"]
    assert set(tally.findings) == {"KeyError at reader.py:1: x", "ended by SIGKILL", "more than 64 MiB"}
    assert {each.parent.name for each in tmp_path.glob("nnef/*/what.txt")}
    assert tally.cases["done"] > 0


def test_interrupted_fuzz_run_resumes(fuzz, tmp_path):
    known = [fuzz.Seed("m.nnef", {"m.nnef": b"version 1.0;\ngraph g(x) -> (y)\n{ y = relu(x); }\n"})]
    whole = fuzz.SavedTallies.of(None, ["nnef"])
    fuzz.run("nnef", known, 60.0, 0, whole, 30)
    for most in (10, 30):
        parts = fuzz.SavedTallies.of(tmp_path / "kept.json", ["nnef"])
        fuzz.run("nnef", known, 60.0, 0, parts, most)
    read = fuzz.SavedTallies.of(tmp_path / "kept.json", ["nnef"]).tallies["nnef"]
    assert (read.cases, read.findings, read.next) == (whole.tallies["nnef"].cases, {}, 30)


def test_parallel_parts_cover_every_kind_and_report_findings(fuzz, monkeypatch):
    taken: list[str] = []

    class Part:
        def __init__(self, command: list[str]) -> None:
            self.command = command

        def wait(self) -> int:
            monkeypatch.setattr("sys.argv", self.command[1:])
            return fuzz.main()

    def run(name, known, seconds, start, kept, most) -> None:
        taken.append(name)
        kept.tallies[name].take(f"{name}/0", "raised" if name == "b" else "done", "a mistake")

    kinds = {name: [fuzz.Seed("m", {"m": b""})] for name in "abcd"}
    monkeypatch.setattr(fuzz, "seeds", lambda _: kinds)
    monkeypatch.setattr(fuzz, "run", run)
    monkeypatch.setattr("subprocess.Popen", Part)
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr("sys.argv", ["fuzz.py", "--cases", "1", "--jobs", "2"])
    assert fuzz.main() == 1
    assert sorted(taken) == ["a", "b", "c", "d"]
    monkeypatch.setattr("sys.argv", ["fuzz.py", "--jobs", "3", "--only", "d", "--only", "c"])
    taken.clear()
    assert fuzz.main() == 0
    assert sorted(taken) == ["c", "d"]


def test_peers_read_equal_files_and_rejections_are_no_findings(fuzz, tmp_path):
    known = {"onnx": [fuzz.Seed("m.onnx", {"m.onnx": bytes(range(90))})]}
    subjects = importlib.import_module("fuzzing.peers").peers(known)
    assert set(subjects) == {"peer onnx", "peer onnxruntime"}
    for name, seeds in subjects.items():
        kept = fuzz.SavedTallies.of(None, [name])
        fuzz.run(name, seeds, 60.0, 0, kept, 5)
        assert kept.tallies[name].cases == {"told": 5}
