"""Processor time of reading NNEF, compared with the Khronos parser; both run alternately."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks.files import TINY_NNEF, nnef_text

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import Source
from graphport.core.storage import storage_of
from graphport.formats.nnef import read
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.packaging import write_container
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.tensors import Payload, tensor_file
from graphport.ops.infer import Inference

MANY, FEW = 50_000, 300
WEIGHTS, BYTES = 25, 4 << 20


@pytest.fixture(scope="module")
def nnef():
    module = pytest.importorskip("nnef", reason="the parser to compare with is not installed")
    module.parse_string(TINY_NNEF)
    return module


def flat(text: str):
    """Return the common result of both parsers: checked operations with all their arguments."""
    expansion = expand(check(parse(Source("generated.nnef", text)).document))
    assert not expansion.diagnostics
    return expansion


def least(work: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the minimum processor time of each function; both run alternately, so that other load affects both."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for times, each in zip(found, (work, other), strict=True):
            begin = time.process_time()
            each()
            times.append(time.process_time() - begin)
    return min(found[0]), min(found[1])


def told(figure, benchmark, name: str, ours: float, theirs: float, goal: str, most: float) -> None:
    benchmark.extra_info["ratio"] = ours / theirs
    figure(f"{name}: {ours * 1e3:.4g} ms against {theirs * 1e3:.4g} ms", ours / theirs, goal)
    assert ours / theirs < most


@pytest.mark.parametrize(
    ("name", "count", "rounds", "goal", "most"),
    [
        pytest.param("a text of 50,000 operations", MANY, 3, "at most 1", 2, id="many"),
        pytest.param("a text of 300 operations", FEW, 21, "at most 1", 3, id="few"),
        pytest.param("a text of 2 operations", 2, 51, "at most 1", 3, id="tiny"),
    ],
)
def test_parsing_and_checking(benchmark, figure, nnef, name, count, rounds, goal, most):
    text = nnef_text(count) if count > 2 else TINY_NNEF
    ours, theirs = least(lambda: flat(text), lambda: nnef.parse_string(text), rounds)
    assert len(flat(text).operations) == len(nnef.parse_string(text).operations) == count
    told(figure, benchmark, f"parse and check {name}", ours, theirs, goal, most)
    benchmark.pedantic(flat, [text], rounds=1)


def test_shapes(benchmark, figure, nnef, tmp_path):
    text = nnef_text(MANY)
    (tmp_path / "many.nnef").write_text(text)
    graph, _ = read(tmp_path / "many.nnef")
    other = nnef.parse_string(text)
    ours, theirs = least(lambda: Inference().graph(graph), lambda: nnef.infer_shapes(other), 3)
    shapes = {
        value.name: list(getattr(value.fact, "shape", None) or ()) for value in graph.values() if not value.is_literal
    }
    assert shapes == {name: tensor.shape for name, tensor in other.tensors.items() if name in shapes}
    told(figure, benchmark, "shapes of 50,000 operations", ours, theirs, "at most 3", 6)
    benchmark.pedantic(lambda: Inference().graph(graph), rounds=1)


@pytest.mark.parametrize(
    ("count", "rounds", "goal", "most"),
    [pytest.param(MANY, 3, "at most 1", 4, id="many"), pytest.param(FEW, 21, "at most 1.5", 6, id="few")],
)
def test_reading_with_shapes(benchmark, figure, nnef, tmp_path, count, rounds, goal, most):
    text, path = nnef_text(count), tmp_path / "model.nnef"
    path.write_text(text)
    assert gp.load(path).shapes()
    ours, theirs = least(lambda: gp.load(path), lambda: nnef.infer_shapes(nnef.parse_string(text)), rounds)
    told(figure, benchmark, f"read {count:,} operations with shapes", ours, theirs, goal, most)
    benchmark.pedantic(gp.load, [path], rounds=1)


def test_legalizing_is_told(benchmark, figure, tmp_path):
    (tmp_path / "many.nnef").write_text(nnef_text(MANY))
    begin = time.process_time()
    graph, _ = read(tmp_path / "many.nnef")
    middle = time.process_time()
    legalize(graph)
    end = time.process_time()
    figure("read 50,000 operations into a graph, in seconds", middle - begin, "told")
    figure("legalize 50,000 operations, in seconds", end - middle, "told")
    benchmark.pedantic(lambda: None, rounds=1)


_PEAK = """
import re, sys
text = open(sys.argv[1]).read()
{work}
print(re.search(r"VmHWM:\\s*([0-9]+) kB", open("/proc/self/status").read())[1])
"""
_OURS = """
from graphport.core.diagnostics import Source
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.parser import parse
kept = expand(check(parse(Source("generated.nnef", text)).document))
"""
_THEIRS = "import nnef\nkept = nnef.parse_string(text)"


def peak(work: str, path: Path) -> float:
    """Return the peak memory of a process in MiB, including its imports."""
    command = [sys.executable, "-c", _PEAK.format(work=work), str(path)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(found.stdout) / 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells the peak of a process")
def test_memory(benchmark, figure, nnef, tmp_path):
    path = tmp_path / "many.nnef"
    path.write_text(nnef_text(MANY))
    ours, theirs = peak(_OURS, path), peak(_THEIRS, path)
    benchmark.extra_info["ratio"] = ours / theirs
    figure(f"memory for 50,000 operations: {ours:.0f} MiB against {theirs:.0f} MiB", ours / theirs, "at most 1")
    benchmark.pedantic(lambda: None, rounds=1)
    assert ours / theirs < 2


def model(folder: Path) -> Path:
    """Write a model with 25 variables of 4 MiB each."""
    side = BYTES // 4 // 1024
    lines = ["x = external(shape = [1, 1024])"]
    lines += [f"w{i} = variable(shape = [{side}, 1024], label = 'w{i}')" for i in range(WEIGHTS)]
    lines += [f"h{i} = linear({'x' if i == 0 else f'h{i - 1}'}, w{i})" for i in range(WEIGHTS)]
    lines += [f"y = relu(h{WEIGHTS - 1})"]
    body = "".join(f"    {line};\n" for line in lines)
    text = f"version 1.0;\n\ngraph weighty( x ) -> ( y )\n{{\n{body}}}\n".encode()
    numbers = storage_of(np.ones((side, 1024), np.float32))
    files = {f"w{i}.dat": tensor_file(numbers, f"w{i}") for i in range(WEIGHTS)}
    write_container(folder / "model", {"graph.nnef": Payload(len(text), lambda: iter([text])), **files})
    return folder / "model"


def test_opening_weights(benchmark, figure, nnef, tmp_path):
    path = model(tmp_path)
    ours, theirs = least(lambda: read(path), lambda: nnef.load_graph(str(path)), 9)
    figure(f"open 25 files of 4 MiB, in ms (against {theirs * 1e3:.1f} ms)", ours * 1e3, "under 5")
    benchmark.pedantic(read, [path], rounds=5)
    assert ours < theirs
