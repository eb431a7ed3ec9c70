"""What fuzzing found stays mended, and the tool itself finds what it is to find."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and processes as POSIX has them")

ROOT = Path(__file__).parent.parent.parent
FUZZED = Path(__file__).parent / "fuzzed"


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "tools" / "fuzz.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("folder", sorted(FUZZED.glob("*/*")), ids=lambda folder: f"{folder.parent.name}-{folder.name}")
@pytest.mark.filterwarnings("ignore")
def test_what_was_found_once_is_told_or_done(fuzz, folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert set(fuzz.outcome(fuzz.model_in(tmp_path)).values()) <= {"done", "told"}


def test_damages_are_the_same_every_time_and_of_every_kind(fuzz, tmp_path):
    known = [fuzz.Seed("m.nnef", {"m.nnef": b"version 1.0;\ngraph g(x) -> (y)\n{ y = relu(x); }\n"})]
    made = [fuzz.case(known, number).files["m.nnef"] for number in range(200)]
    assert made == [fuzz.case(known, number).files["m.nnef"] for number in range(200)]
    assert len(set(made)) > 150


def test_a_message_is_damaged_so_that_its_lengths_still_fit(fuzz):
    import random

    inner = fuzz.varint(8) + fuzz.varint(7)
    message = fuzz.varint(10) + fuzz.varint(len(inner)) + inner
    assert fuzz.fields(message) == [(10, inner)]
    made = [fuzz.damaged_message(random.Random(number), message, []) for number in range(300)]
    assert sum(fuzz.fields(each) is not None for each in made) > 200


def test_what_raises_hangs_or_dies_is_found_and_kept(fuzz, tmp_path, monkeypatch):
    known = [fuzz.Seed("m.nnef", {"m.nnef": b"version 1.0;\n"})]
    monkeypatch.setattr(fuzz, "FOUND", tmp_path)

    def planted(path):
        number = len(path.read_bytes()) % 3
        if number == 1:
            return {"check": "KeyError at reader.py:1: x"}
        if number == 2:
            os.kill(os.getpid(), 9)
        return {"check": "done"}

    monkeypatch.setattr(fuzz, "outcome", planted)
    tally = fuzz.Tally()
    fuzz.run("nnef", known, 1.0, 0, tally)
    assert set(tally.findings) == {"KeyError at reader.py:1: x", "ended by SIGKILL"}
    assert {each.parent.name for each in tmp_path.glob("nnef/*/what.txt")}
    assert tally.cases["done"] > 0
