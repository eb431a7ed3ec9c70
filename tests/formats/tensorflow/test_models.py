"""Models of TensorFlow against the results that TensorFlow stored, by the reference interpreter and ONNX Runtime."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphport as gp

MODELS = Path(__file__).parent / "models"
RESULTS = np.load(MODELS / "results.npz")
FILES = sorted(path.name for path in MODELS.glob("*.pb"))


def codes(error: gp.DiagnosticError) -> list[str]:
    return [each.code for each in error.diagnostics]


@pytest.mark.parametrize("file", FILES)
def test_a_frozen_graph_computes_what_tensorflow_computes(file: str, tmp_path: Path) -> None:
    x, expected = (RESULTS[f"{file.removesuffix('.pb')}.{name}"] for name in "xy")
    model = gp.load(MODELS / file)
    (found,) = gp.run(model, {"x": x}).values()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    gp.save(model, tmp_path / "m.onnx")
    (written,) = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(written, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["jax_dense", "jax_scanned"])
def test_a_module_of_jax_computes_what_tensorflow_computes(name: str, tmp_path: Path) -> None:
    stored = dict(np.load(MODELS / f"{name}.npz"))
    feeds = {"x": stored.pop("x")}
    model = gp.load(MODELS / name)
    found = gp.run(model, feeds)
    gp.save(model, tmp_path / "m.onnx")
    written = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(list(stored), feeds)
    for (key, expected), y in zip(stored.items(), written, strict=True):
        np.testing.assert_allclose(found[key], expected, atol=1e-6)
        np.testing.assert_allclose(y, expected, atol=1e-6)


def test_an_open_dim_of_a_module_of_jax_stays_open() -> None:
    model = gp.load(MODELS / "jax_dense")
    assert not isinstance(model.inputs["x"].shape[0], int)
    x = np.ones((2, 3), np.float32)
    assert gp.run(model, {"x": x})["y"].shape == (2, 4)


def test_a_damaged_module_of_jax_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(MODELS / "jax_dense", folder)
    path = folder / "saved_model.pb"
    path.write_bytes(path.read_bytes().replace(b"tanh_v", b"tonh_v"))
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(folder)
    assert codes(caught.value) == ["TF0206"]
    assert "XlaCallModule" in caught.value.diagnostics[0].message


def test_variables_of_one_name_are_reported_apart_by_the_operators_that_restore_them() -> None:
    model = gp.load(MODELS / "shared", program="served")
    found = gp.run(model, {"x": RESULTS["shared.x"]})
    np.testing.assert_allclose(found["result"], RESULTS["shared.y"], atol=1e-6)


def test_signatures_without_a_default_are_listed() -> None:
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(MODELS / "shared")
    assert codes(caught.value) == ["TF0203"]
    assert "counted, served" in caught.value.diagnostics[0].message


def test_a_written_variable_becomes_a_state_on_request() -> None:
    model = gp.load(MODELS / "shared", program="counted")
    assert list(model.inputs) == ["x"]
    kept = gp.load(MODELS / "shared", program="counted", states=True)
    assert len(kept.inputs) == len(kept.outputs) == 2


def test_one_model_is_read_as_one_loop_and_one_branch() -> None:
    model = gp.load(MODELS / "loop_lowered.pb")
    assert [node.op_type for node in model.graph if node.has_bodies] == ["Loop"]


def _damage_index(folder: Path) -> None:
    path = folder / "variables" / "variables.index"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)


def _damage_data(folder: Path) -> None:
    path = folder / "variables" / "variables.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)


def _link_outside(folder: Path) -> None:
    path = folder / "variables" / "variables.data-00000-of-00001"
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(folder.parent / "elsewhere")


def _link_folder_outside(folder: Path) -> None:
    (folder / "variables").rename(folder.parent / "elsewhere")
    (folder / "variables").symlink_to(folder.parent / "elsewhere")


def _link_to_itself(folder: Path) -> None:
    path = folder / "variables" / "variables.data-00000-of-00001"
    path.unlink()
    path.symlink_to(path.name)


def _remove_variables(folder: Path) -> None:
    shutil.rmtree(folder / "variables")


def _truncate(folder: Path) -> None:
    path = folder / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:2000])


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        pytest.param(_damage_index, "TF0103", id="checksum of the index"),
        pytest.param(_damage_data, "TF0103", id="checksum of a variable"),
        pytest.param(_link_outside, "TF0104", id="link to a file outside"),
        pytest.param(_link_folder_outside, "TF0104", id="link to a folder outside"),
        pytest.param(_link_to_itself, "TF0103", id="link to itself"),
        pytest.param(_remove_variables, "TF0103", id="no variables"),
        pytest.param(_truncate, "TF0101", id="truncated graph"),
    ],
)
def test_a_damaged_folder_is_refused(damage: object, code: str, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    shutil.copytree(MODELS / "shared", folder)
    damage(folder)  # pyright: ignore[reportCallIssue]
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(folder, program="served")
    assert code in codes(caught.value)
