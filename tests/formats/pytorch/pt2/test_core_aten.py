"""Every operator of PyTorch's Core ATen set, held against what PyTorch computes; `core_aten/make.py` made the programs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphport as gp

PROGRAMS = Path(__file__).parent / "core_aten"
FILES = sorted(path.stem for path in PROGRAMS.glob("*.pt2"))
ROOT = Path(__file__).parents[4]


def recorded(path, kind):
    """Arrays by place; complex numbers as pairs of real ones."""
    with np.load(path) as data:
        arrays = [data[f"{kind}{place}"] for place in range(sum(key.startswith(kind) for key in data))]
    return [np.stack([a.real, a.imag], -1) if a.dtype.kind == "c" else a for a in arrays]


def agree(found, expected):
    assert len(found) == len(expected)
    for place, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), place
        size = np.abs(b[np.isfinite(b)]).max(initial=1) if b.dtype.kind == "f" else 1
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * size, err_msg=str(place))


def compute_alike(program, results, folder):
    """The reference and ONNX Runtime compute what is recorded."""
    model = gp.load(program)
    given = dict(zip([value.name for value in model.graph.inputs], recorded(results, "in"), strict=True))
    expected = recorded(results, "out")
    agree(list(gp.run(model, given, backend="reference").values()), expected)
    gp.save(model, folder / "net.onnx")
    session = onnxruntime.InferenceSession(folder / "net.onnx", providers=["CPUExecutionProvider"])
    agree(session.run(None, given), expected)


@pytest.mark.parametrize("name", FILES)
def test_core_aten_operators_match_pytorch(name, tmp_path):
    compute_alike(PROGRAMS / f"{name}.pt2", PROGRAMS / f"{name}.npz", tmp_path)


def test_documented_core_aten_table_matches_the_rules():
    # In a process of its own, for it watches all rules.
    command = [sys.executable, "-m", "tools.core_aten", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
