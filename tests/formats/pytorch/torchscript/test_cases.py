"""TorchScript files, held against what PyTorch computes with them; `make_cases.py` made both."""

import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphport as gp
from graphport.api.cut import cut_file
from graphport.api.edit import edit_file
from graphport.api.merge import merge_files
from graphport.formats.pytorch.torchscript import reader

CASES = Path(__file__).parent / "cases"
TRACED = (
    "views_traced",
    "sizes_traced",
    "promotion_frozen",
    "promotion",
    "network",
    "attention",
    "encoder_traced",
    "paddings",
    "regions",
    "complex_quotient",
    "statistics",
    "packed_traced",
)
SCRIPTED = (
    *("branches", "steps", "writes_in_loop", "breaks", "containers", "list_of_inputs", "views", "sizes"),
    *("network_frozen", "network_lite", "quantized_static", "quantized_dynamic"),
    *("paddings_scripted", "hooks", "hooked_root", "network_lite_frozen", "packed", "packed_relu"),
    "detections",
    "encoder",
    *("enumeration", "numbers", "sizes_of_values", "writes_after_branches", "quantized_frozen"),
)
TOLERANCES = {"quantized_static": 2e-2, "quantized_frozen": 2e-2, "quantized_dynamic": 1e-2}


def recorded(name, suffix=""):
    """Inputs and outputs of PyTorch; those of the second set with the suffix `_b`."""
    with np.load(CASES / f"{name}.npz") as arrays:
        chosen = {key: arrays[key] for key in arrays if key.endswith("_b") == bool(suffix)}
    inputs = {key[3:].removesuffix("_b"): x for key, x in chosen.items() if key.startswith("in_")}
    count = sum(key.startswith("out_") for key in chosen)
    return inputs, [chosen[f"out_{i}{suffix}"] for i in range(count)]


def shapes_of(inputs):
    """Element types and shapes as `load` takes them."""
    return {
        name: [f"{x.dtype}:{x.shape[0]}", *x.shape[1:]] if x.shape else [f"{x.dtype}:"] for name, x in inputs.items()
    }


def load(name, suffix=""):
    inputs, _ = recorded(name, suffix)
    return gp.load(CASES / f"{name}.pt", shapes=shapes_of(inputs))


def assert_same(found, expected, name):
    assert len(found) == len(expected)
    for y, want in zip(found, expected, strict=True):
        assert np.asarray(y).dtype == want.dtype
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=TOLERANCES.get(name, 1e-5))


@pytest.mark.parametrize("name", (*TRACED, *SCRIPTED))
def test_runs_like_torch(name, tmp_path):
    for suffix in ("", "_b"):
        inputs, expected = recorded(name, suffix)
        if not expected:
            continue
        model = load(name, suffix)
        assert_same(list(gp.run(model, inputs).values()), expected, name)
        gp.save(model, tmp_path / "m.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        assert_same(session.run(None, inputs), expected, name)


@pytest.mark.parametrize("name", [name for name in TRACED if not name.endswith("frozen")])
def test_trace_has_the_shapes_of_its_inputs(name):
    inputs, expected = recorded(name)
    model = gp.load(CASES / f"{name}.pt")
    assert_same(list(gp.run(model, inputs).values()), expected, name)


def test_open_dims_stay_open():
    model = gp.load(CASES / "sizes_traced.pt", shapes={"x": ["N", 2, "H", "W"]})
    for suffix in ("", "_b"):
        inputs, expected = recorded("sizes_traced", suffix)
        assert_same(list(gp.run(model, inputs).values()), expected, "sizes_traced")


def test_shapes_are_requested():
    with pytest.raises(gp.DiagnosticError, match=r"TS0007.*missing shapes for the input x.*--input x="):
        gp.load(CASES / "sizes.pt")


def test_a_part_of_a_scripted_module_is_cut(tmp_path):
    inputs, _ = recorded("encoder")
    whole = load("encoder")
    *_, last = (node for node in whole.graph if node.op == "LayerNormalization")
    report = cut_file(
        CASES / "encoder.pt", tmp_path / "part.onnx", outputs=[last.results[0].name], shapes=shapes_of(inputs)
    )
    assert list(report.inputs) == list(inputs)
    with pytest.raises(gp.DiagnosticError, match="TS0007"):
        cut_file(CASES / "encoder.pt", tmp_path / "part.onnx", outputs=[last.results[0].name])


def test_shapes_are_bound_where_models_are_edited_and_merged(tmp_path):
    source, target = CASES / "hooks.pt", tmp_path / "m.onnx"
    edited = edit_file(source, target, gp.Edit(rename={"output": "y"}), shapes={"x": ["float32:2", 4]})
    assert list(edited.model.outputs) == ["y"]
    merged = merge_files(source, source, target, shapes={"x": ["float32:2", 4], "b.x": ["float32:6", 4]})
    assert str(merged.model.outputs["output"].fact) == "float32[18, 4]"
    for given, name in (({}, "x"), ({"a.x": ["float32:2", 4]}, "b.x")):
        with pytest.raises(gp.DiagnosticError, match=f"TS0007.*--input {name}="):
            merge_files(source, source, target, shapes=given)


def test_number_without_default_is_given_or_an_input():
    path, x = CASES / "scaled.pt", ["float32:2", 4]
    inputs, expected = recorded("scaled")
    with pytest.raises(gp.DiagnosticError, match=r"TS0007.*n is a number"):
        gp.load(path, shapes={"x": x})
    fixed = gp.load(path, shapes={"x": x, "n": [3]})
    assert_same(list(gp.run(fixed, inputs).values()), expected, "scaled")
    assert [finding.code for finding in fixed.findings] == ["TS0012"]
    for number, scale in ((3, 2.0), ("3", [2.0])):
        fixed = gp.load(path, shapes={"x": x, "n": number, "scale": scale})
        assert_same(list(gp.run(fixed, inputs).values()), expected, "scaled")
    with pytest.raises(gp.DiagnosticError, match=r"SHAPE0003.*'x' cannot have the shape \[2.5, 4\]"):
        gp.load(path, shapes={"x": [2.5, 4], "n": 3})
    is_open = gp.load(path, shapes={"x": x, "n": ["int64:"]})
    assert_same(list(gp.run(is_open, inputs | {"n": np.int64(3)}).values()), expected, "scaled")


def test_attribute_that_the_module_sets_is_a_state():
    inputs, expected = recorded("counter")
    plain = gp.load(CASES / "counter.pt", shapes=shapes_of(inputs))
    assert_same(list(gp.run(plain, inputs).values()), expected, "counter")
    assert [finding.code for finding in plain.findings] == ["LEG0005"]
    kept = gp.load(CASES / "counter.pt", shapes=shapes_of(inputs), states=True)
    first = gp.run(kept, inputs)
    second = gp.run(kept, inputs | {"count_in": first["count_out"]})
    np.testing.assert_allclose(second["output"], expected[0] + 1)


def test_an_assumption_about_empty_tensors_is_reported():
    assert [finding.code for finding in load("detections").findings] == ["TS0013"]


def test_a_state_that_changes_its_shape_is_refused():
    inputs, expected = recorded("lazy_state")
    model = gp.load(CASES / "lazy_state.pt", shapes=shapes_of(inputs))
    assert_same(list(gp.run(model, inputs).values()), expected, "lazy_state")
    with pytest.raises(gp.DiagnosticError, match=r"TS0009.*state has different shapes.*\[0\] and \[2, 3\]"):
        gp.load(CASES / "lazy_state.pt", shapes=shapes_of(inputs), states=True)


def test_names_follow_the_modules():
    graph, _ = reader.read(CASES / "network.pt")
    assert {"conv.weight", "conv.bias", "norm.running_var", "head.weight"} <= {value.name for value in graph.constants}
    assert "norm.batch_norm" in {node.name for node in graph}


def test_weights_are_views_of_the_file():
    graph, _ = reader.read(CASES / "network.pt")
    weight = next(value for value in graph.constants if value.name == "head.weight")
    assert type(weight.storage).__name__ == "FileStorage"


def test_version_selects_integer_division(tmp_path):
    inputs, _ = recorded("promotion")
    for version, expected in ((b"3", np.int64), (b"4", np.float32)):
        path = tmp_path / f"v{version.decode()}.pt"
        with zipfile.ZipFile(CASES / "promotion.pt") as old, zipfile.ZipFile(path, "w") as new:
            for item in old.infolist():
                data = version if item.filename.endswith("/version") else old.read(item)
                new.writestr(item.filename, data)
        first = next(iter(gp.run(gp.load(path), inputs).values()))
        assert first.dtype == expected
