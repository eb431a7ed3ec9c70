"""Sidecar files of tract documents: called models and safetensors files."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from tests.formats.nnef.tract.test_writing import computed

HEAD = "version 1.0;\nextension tract_registry tract_core;\n"
W = np.arange(6, dtype=np.float32).reshape(2, 3)
INNER = f"{HEAD}graph s( a ) -> ( b )\n{{\n    a = external(shape = [2, 3]);\n    b = relu(a) + 1.0;\n}}\n"


def calling(folder: Path, call: str) -> Path:
    folder.mkdir(parents=True)
    body = f"    x = external(shape = [2, 3]);\n    {call}\n"
    (folder / "graph.nnef").write_text(f"{HEAD}graph g( x ) -> ( y )\n{{\n{body}}}\n")
    return folder


def test_a_model_beside_the_text_is_called_by_its_name(tmp_path):
    place = calling(tmp_path / "all" / "one" / "model", "y = neg(tract_core_submodel([x], label = 'sub'));")
    (place / "sub").mkdir()
    (place / "sub" / "graph.nnef").write_text(INNER)
    x = W - 2.5
    np.savez(place.parent / "given.npz", x=x)
    computed(tmp_path / "all")
    (by_tract,) = np.load(place.parent / "found.npz").values()
    found = gp.run(gp.load(place), {"x": x})["y"]
    np.testing.assert_allclose(found, by_tract, rtol=1e-6)


@pytest.mark.parametrize("label", ["other", "../sub", ""])
def test_a_model_that_does_not_exist_is_reported(tmp_path, label):
    place = calling(tmp_path / "m", f"y = tract_core_submodel([x], label = '{label}');")
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(place)
    assert [each.code for each in caught.value.diagnostics] == ["NNEF0907"]


def test_a_model_has_none_beside_it_in_turn(tmp_path):
    place = calling(tmp_path / "m", "y = tract_core_submodel([x], label = 'sub');")
    (place / "sub" / "sub").mkdir(parents=True)
    (place / "sub" / "sub" / "graph.nnef").write_text(INNER)
    (place / "sub" / "graph.nnef").write_text(INNER.replace("relu(a) + 1.0", "tract_core_submodel([a], label = 'sub')"))
    with pytest.raises(gp.DiagnosticError, match="is missing"):
        gp.load(place)


def safetensors(header: dict[str, object], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_variables_without_a_file_are_looked_for_in_safetensors(tmp_path, dtype):
    place = calling(tmp_path / "m", "w = variable(label = 'layer/w', shape = [2, 3]); y = x + w;")
    entry = {
        "dtype": "F16" if dtype is np.float16 else "F32",
        "shape": [2, 3],
        "data_offsets": [0, W.astype(dtype).nbytes],
    }
    content = safetensors({"__metadata__": {"format": "pt"}, "layer/w": entry}, W.astype(dtype).tobytes())
    (place / "weights.safetensors").write_bytes(content)
    found = gp.run(gp.load(place), {"x": np.ones_like(W)})["y"]
    np.testing.assert_array_equal(found, W + 1)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\1", id="too short"),
        pytest.param(struct.pack("<Q", 1 << 40) + b"{}", id="a header longer than the file"),
        pytest.param(struct.pack("<Q", 2) + b"[]", id="no object"),
        pytest.param(struct.pack("<Q", 2) + b"{x", id="no JSON"),
        pytest.param(safetensors({"w": {"dtype": "F32", "shape": [2, 3]}}, b""), id="no place"),
        pytest.param(
            safetensors({"w": {"dtype": "F32", "shape": [2, -3], "data_offsets": [0, 24]}}, b"a" * 24), id="no count"
        ),
        pytest.param(
            safetensors({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]}}, b"a" * 24), id="outside"
        ),
        pytest.param(
            safetensors({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 20]}}, b"a" * 24), id="too few"
        ),
    ],
)
def test_damaged_safetensors_are_reported(tmp_path, content):
    place = calling(tmp_path / "m", "w = variable(label = 'w', shape = [2, 3]); y = x + w;")
    (place / "weights.safetensors").write_bytes(content)
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(place)
    assert [each.code for each in caught.value.diagnostics] == ["NNEF0906"]
