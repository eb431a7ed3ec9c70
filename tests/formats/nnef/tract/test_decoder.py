"""A Llama-style decoder with its cache, symbolic batch and lengths: token by token as in PyTorch, in both directions.

`files/generators/decoder.py` made it; each step reads only the previous token and the previous cache.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import graphport as gp
from tests.formats.nnef.tract.test_files import FILES

KINDS = ("f32", "f16", "q40")
WORDS = dict(np.load(FILES / "decoder.npz"))
CONTINUE = """
import pathlib, sys, numpy, tract
framework = tract.nnef().with_onnx().with_tract_extra().with_tract_transformers()
for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    stored = numpy.load(folder / "given.npz")
    model = framework.load(str(folder / "model")).into_runnable()
    given, past, found = stored["start"], [stored["empty"]] * 2, []
    for _ in range(int(stored["steps"])):
        scores, *past = [tensor.to_numpy() for tensor in model.run([given, *past])]
        given = scores[:, -1:].argmax(-1)
        found.append(given)
    numpy.save(folder / "found.npy", numpy.concatenate(found, 1))
"""


def empty(kind):
    return np.zeros((2, 2, 0, 8), np.float16 if kind == "f16" else np.float32)


def continued(model, kind, backend):
    names, given, past, found = list(model.inputs), WORDS["start"], [empty(kind)] * 2, []
    for _ in range(WORDS[kind].shape[1]):
        scores, *past = gp.run(model, dict(zip(names, [given, *past], strict=True)), backend=backend).ordered
        given = scores[:, -1:].argmax(-1)
        found.append(given)
    return np.concatenate(found, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_read(tmp_path, kind):
    model = gp.load(FILES / f"decoder_{kind}.tract.nnef.tgz")
    assert [str(dim) for dim in model.inputs["x1"].fact.shape] == ["B", "2", "P", "8"]
    assert continued(model, kind, "reference").tolist() == WORDS[kind].tolist()
    gp.save(model, tmp_path / "m.onnx")
    assert continued(gp.load(tmp_path / "m.onnx"), kind, "onnxruntime").tolist() == WORDS[kind].tolist()


def test_it_is_written_so_that_tract_has_equal_content(tmp_path):
    for kind in KINDS:
        model = gp.load(FILES / f"decoder_{kind}.tract.nnef.tgz")
        gp.save(model, tmp_path / "m.onnx")
        for way, source in (("read", model), ("by way of ONNX", gp.load(tmp_path / "m.onnx"))):
            place = tmp_path / "all" / f"{kind} {way}"
            place.mkdir(parents=True)
            gp.save(source, place / "model", format="nnef", flavour="tract")
            text = (place / "model" / "graph.nnef").read_text()
            assert {"extension tract_symbol B;", "extension tract_symbol S;", "extension tract_symbol P;"} <= set(
                text.splitlines()
            )
            np.savez(place / "given.npz", start=WORDS["start"], empty=empty(kind), steps=WORDS[kind].shape[1])
    done = subprocess.run(
        [sys.executable, "-c", CONTINUE, tmp_path / "all"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr.split("Stack backtrace", maxsplit=1)[0][-600:]
    for place in (tmp_path / "all").iterdir():
        assert np.load(place / "found.npy").tolist() == WORDS[place.name.split()[0]].tolist(), place.name


def test_blocks_of_four_bits_stay_blocks(tmp_path):
    model = gp.load(FILES / "decoder_q40.tract.nnef.tgz")
    gp.save(model, tmp_path / "q40", format="nnef", flavour="tract")
    read = gp.load(FILES / "decoder_f32.tract.nnef.tgz")
    gp.save(read, tmp_path / "f32", format="nnef", flavour="tract")
    sizes = {name: sum(path.stat().st_size for path in (tmp_path / name).rglob("*.dat")) for name in ("q40", "f32")}
    assert sizes["q40"] < sizes["f32"] / 3
