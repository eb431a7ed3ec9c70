"""Changing models: each change computes what it says, and what cannot be so is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.core.diagnostics import DiagnosticError
from tests.models import model, node, perceptron, typed, write_onnx

RANDOM = np.random.default_rng(0)


def classifier(batch: int | str = 1) -> onnx.ModelProto:
    """A convolution and a dense layer behind reshapes that have the batch, and the length of it, in their targets."""
    constants = {
        "w": RANDOM.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "flat": np.array([1, 100]),
        "v": RANDOM.normal(size=(100, 6)).astype(np.float32),
        "parts": np.array([1, -1, 3]),
        "rows": np.array([2, 3]),
        "back": np.array([1, 6]),
    }
    nodes = [
        node("Conv", ["x", "w"], ["h"], name="conv", pads=[0, 0, 0, 0]),
        node("Relu", ["h"], ["r"], name="relu"),
        node("Reshape", ["r", "flat"], ["f"], name="flatten"),
        node("MatMul", ["f", "v"], ["d"], name="dense"),
        node("Reshape", ["d", "parts"], ["p"], name="part"),
        node("Reshape", ["p", "rows"], ["q"], name="join"),
        node("Reshape", ["q", "back"], ["y"], name="back"),
    ]
    return model(nodes, [("x", [batch, 3, 7, 7])], [("y", [batch, 6])], constants)


def pictures(count: int = 1) -> np.ndarray:
    return RANDOM.normal(size=(count, 3, 7, 7)).astype(np.float32)


def edit(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(cli, ["edit", *map(str, arguments), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def codes(document: Any) -> list[str]:
    return [finding["code"] for finding in document["diagnostics"]]


@pytest.fixture
def net(tmp_path):
    return write_onnx(tmp_path / "net.onnx", classifier())


def computed(path, **inputs) -> list[Any]:
    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@pytest.mark.parametrize("batch", ["N", "4"])
def test_batch_edit_keeps_the_result_of_each_sample(net, tmp_path, batch):
    document = edit(net, tmp_path / "b.onnx", "--batch", batch)
    assert document["inputs"]["x"]["shape"][0] == (batch if batch == "N" else 4)
    assert document["verify"]["passed"]
    x = pictures(4)
    (found,) = computed(tmp_path / "b.onnx", x=x)
    alone = np.concatenate([computed(net, x=x[i : i + 1])[0] for i in range(4)])
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-5)


def test_batch_edit_is_verified_with_other_changes(net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("w.npy", np.ones((4, 3, 3, 3), np.float32))
    more = ("--replace-weight", "w=w.npy", "--rename", "x=image", "--rename", "y=z", "--preprocess", "nhwc")
    document = edit(net, "b.onnx", "--batch", "4", *more)
    assert codes(document) == []  # nothing is left unproven, and nothing is refuted for another weight
    x = pictures(4)
    (found,) = computed("b.onnx", image=np.moveaxis(x, 1, 3))
    weighed = gp.edit(gp.load(net), weights={"w": np.ones((4, 3, 3, 3), np.float32)})
    alone = [np.asarray(gp.run(weighed, {"x": x[i : i + 1]})["y"]) for i in range(4)]
    np.testing.assert_allclose(found, np.concatenate(alone), rtol=1e-4, atol=1e-4)


def test_samples_that_take_too_much_memory_are_not_computed(net, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHPORT_LIMITS", "proof.memory=1")
    wide = classifier()
    wide.graph.node.add(op_type="Expand", input=["y", "wide"], output=["z"])
    wide.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1 << 12, 1, 1, 6]), "wide"))
    wide.graph.output.add(name="z")
    document = edit(write_onnx(tmp_path / "w.onnx", wide), tmp_path / "b.onnx", "--batch", str(1 << 8))
    assert codes(document) == ["EDIT0012"]
    assert "proof.memory=N" in document["diagnostics"][0]["message"]


def test_a_batch_that_mixes_samples_is_refused(tmp_path):
    nodes = [node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1), node("Sub", ["x", "m"], ["y"])]
    net = write_onnx(tmp_path / "net.onnx", model(nodes, [("x", [1, 3])], [("y", [1, 3])]))
    assert "EDIT0010" in codes(edit(net, tmp_path / "b.onnx", "--batch", "2", code=1))
    assert not (tmp_path / "b.onnx").exists()


def test_nodes_that_fix_the_batch_size_are_named(tmp_path):
    constants = {"c": np.arange(6, dtype=np.float32).reshape(2, 3)}  # something else for each item
    proto = model([node("Add", ["x", "c"], ["y"], name="offset")], [("x", [2, 3])], [("y", [2, 3])], constants)
    net = write_onnx(tmp_path / "net.onnx", proto)
    document = edit(net, tmp_path / "b.onnx", "--batch", "5", code=1)
    assert any("offset" in str(finding["message"]) or finding["file"] for finding in document["diagnostics"])


def test_an_axis_is_opened(tmp_path):
    proto = model([node("Relu", ["x"], ["y"])], [("x", [1, 3, 8, 8])], [("y", [1, 3, 8, 8])])
    net = write_onnx(tmp_path / "net.onnx", proto)
    document = edit(net, tmp_path / "o.onnx", "--open", "x=1,3,H,W")
    assert document["outputs"]["y"]["shape"] == [1, 3, "H", "W"]
    assert document["verify"]["passed"]
    assert edit(net, tmp_path / "s.onnx", "--set-shape", "x=1x3x4x6")["outputs"]["y"]["shape"] == [1, 3, 4, 6]


def test_names_change_and_the_rest_stays(net, tmp_path):
    document = edit(net, tmp_path / "r.onnx", "--rename", "x=image", "--rename", "y=scores", "--rename", "conv=first")
    assert (list(document["inputs"]), list(document["outputs"])) == (["image"], ["scores"])
    assert document["verify"]["passed"]
    assert document["verify"]["is_independent"]
    assert onnx.load(tmp_path / "r.onnx").graph.node[0].name == "first"


def test_edit_can_swap_two_names():
    proto = model([node("Sub", ["a", "b"], ["y"])], [("a", [2]), ("b", [2])], [("y", [2])])
    found = gp.edit(gp.from_onnx(proto), rename={"a": "b", "b": "a"})
    y = gp.run(found, {"b": np.array([5, 5], np.float32), "a": np.array([1, 2], np.float32)})["y"]
    np.testing.assert_array_equal(y, np.array([4, 3], np.float32))


def test_rename_to_an_existing_name_is_rejected(net, tmp_path):
    assert codes(edit(net, tmp_path / "r.onnx", "--rename", "x=h", code=1)) == ["EDIT0008"]


def test_outputs_are_added_and_removed(net, tmp_path):
    document = edit(net, tmp_path / "o.onnx", "--add-output", "relu", "--remove-output", "y")
    assert list(document["outputs"]) == ["r"]
    assert [each.op for each in gp.load(tmp_path / "o.onnx").graph] == ["Conv", "Relu"]
    assert codes(edit(net, tmp_path / "o.onnx", "--remove-output", "y", code=1)) == ["EDIT0011"]
    assert codes(edit(net, tmp_path / "o.onnx", "--remove-output", "z", code=1)) == ["EDIT0001"]


def test_an_attribute_is_set(net, tmp_path):
    document = edit(net, tmp_path / "a.onnx", "--set-attribute", "conv.pads=1,1,1,1", "--add-output", "h", code=1)
    assert document["diagnostics"]  # the rest of the network does not fit the larger picture
    document = edit(
        *(net, tmp_path / "a.onnx", "--set-attribute", "conv.pads=[1, 1, 1, 1]", "--add-output", "h"),
        *("--remove-output", "y"),
    )
    assert document["outputs"]["h"]["shape"] == [1, 4, 7, 7]


def test_an_attribute_of_another_kind_is_refused(net, tmp_path):
    assert codes(edit(net, tmp_path / "a.onnx", "--set-attribute", "conv.pads=all", code=1)) == ["EDIT0009"]


def test_a_weight_is_replaced(net, tmp_path):
    weight = RANDOM.normal(size=(100, 6))
    np.save(tmp_path / "v.npy", weight)
    edit(net, tmp_path / "w.onnx", "--replace-weight", f"v={tmp_path / 'v.npy'}")
    x = pictures()
    (hidden,) = gp.run(gp.edit(gp.load(net), add_outputs=["f"], remove_outputs=["y"]), {"x": x}).ordered
    np.testing.assert_allclose(computed(tmp_path / "w.onnx", x=x)[0], hidden @ weight, rtol=1e-4, atol=1e-4)
    np.save(tmp_path / "v.npy", weight[1:])
    document = edit(net, tmp_path / "w.onnx", "--replace-weight", f"v={tmp_path / 'v.npy'}", code=1)
    assert codes(document) == ["EDIT0009"]


def test_pictures_are_prepared_within_the_model(net, tmp_path):
    steps = "u8 nhwc bgr scale=0.5 mean=10,20,30 std=2,4,8"
    document = edit(net, tmp_path / "p.onnx", "--preprocess", steps)
    assert document["inputs"]["x"] == {"dtype": "uint8", "shape": [1, 7, 7, 3]}
    picture = RANDOM.integers(0, 256, (1, 7, 7, 3)).astype(np.uint8)
    numbers = picture.astype(np.float32).transpose(0, 3, 1, 2)[:, ::-1] * np.float32(0.5)
    mean, std = (np.array(each, np.float32).reshape(1, 3, 1, 1) for each in ([10, 20, 30], [2, 4, 8]))
    expected = computed(net, x=((numbers - mean) / std).astype(np.float32))[0]
    np.testing.assert_allclose(computed(tmp_path / "p.onnx", x=picture)[0], expected, rtol=1e-4, atol=1e-4)


def test_pictures_of_any_size_are_resized(net, tmp_path):
    document = edit(net, tmp_path / "p.onnx", "--preprocess", "nhwc resize=HxW input=x")
    assert document["inputs"]["x"]["shape"] == [1, "H", "W", 3]
    picture = np.full((1, 14, 21, 3), 0.25, np.float32)
    expected = computed(net, x=np.full((1, 3, 7, 7), 0.25, np.float32))[0]
    np.testing.assert_allclose(computed(tmp_path / "p.onnx", x=picture)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", ["mean=1,2", "resize=1x1 depth=3", "mean=x"])
def test_steps_that_do_not_fit_are_refused(net, tmp_path, steps):
    result = CliRunner().invoke(cli, ["edit", str(net), str(tmp_path / "p.onnx"), "--preprocess", steps])
    assert result.exit_code in (1, 2), result.output
    assert not (tmp_path / "p.onnx").exists()


def test_a_layout_is_that_of_inputs_and_outputs(tmp_path):
    proto = model(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], [("x", ["N", 3, 4, 4])], [("y", ["N", 3, 3, 3])]
    )
    net = write_onnx(tmp_path / "net.onnx", proto)
    assert edit(net, tmp_path / "l.onnx", "--layout", "nhwc")["outputs"]["y"]["shape"] == ["N", 3, 3, 3]
    x = RANDOM.normal(size=(2, 3, 4, 4)).astype(np.float32)
    (found,) = computed(tmp_path / "l.onnx", x=x.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), computed(net, x=x)[0])
    assert edit(net, tmp_path / "l.onnx", "--layout", "x=nhwc")["inputs"]["x"]["shape"] == ["N", 4, 4, 3]


def test_an_opset_is_requested(net, tmp_path):
    edit(net, tmp_path / "o.onnx", "--opset", "11")
    assert {each.version for each in onnx.load(tmp_path / "o.onnx").opset_import} == {11}


def test_edit_does_not_modify_its_operand():
    whole = gp.from_onnx(perceptron())
    gp.edit(whole, rename={"x": "z"}, batch=3, remove_outputs=["y"], add_outputs=["hidden"])
    assert (list(whole.inputs), list(whole.outputs)) == (["x"], ["y"])


def test_all_missing_names_are_reported():
    with pytest.raises(DiagnosticError) as caught:
        gp.edit(gp.from_onnx(perceptron()), attributes={("gemm", "alpha"): 2.0}, weights={"u": np.zeros(3)})
    assert [finding.code for finding in caught.value.diagnostics] == ["EDIT0001", "EDIT0001"]


def test_large_batch_with_dynamic_dims_is_not_sampled(monkeypatch):
    """No length is less than 1, so that 65,536 samples of 1,165 numbers are known to be too much."""
    wide = model([node("Relu", ["x"], ["y"])], [typed("x", [65536, "d", 5, 233])], [typed("y", [65536, "d", 5, 233])])
    monkeypatch.setattr("graphport.api.edit.random_inputs", lambda *_: pytest.fail("it draws"))
    found = gp.edit(gp.from_onnx(wide), batch="n").findings
    assert "EDIT0012" in {finding.code for finding in found}


def test_batch_with_a_data_dependent_loop_is_not_run(monkeypatch):
    body = onnx.parser.parse_graph("body (int64 i, bool c, float[1, 2] a) => (bool again, float[1, 2] b) "
                                   "{ again = Identity(c) b = Add(a, a) }")  # fmt: skip
    loop = onnx.helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)
    for rounds, is_run in ((2**40, False), (3, True)):
        proto = model([loop], [("x", [1, 2])], [("y", [1, 2])], {"m": np.array(rounds)})
        if not is_run:
            with monkeypatch.context() as patched:
                patched.setattr("graphport.api.edit.random_inputs", lambda *_: pytest.fail("it draws"))
                found = gp.edit(gp.from_onnx(proto), batch="n").findings
            assert "65536 iterations" in next(each.message for each in found if each.code == "EDIT0012")
        else:
            assert "EDIT0012" not in {each.code for each in gp.edit(gp.from_onnx(proto), batch="n").findings}


def test_a_batch_of_a_model_that_returns_a_sequence_is_possible():
    declared = onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None)
    found = gp.from_onnx(model([node("SequenceConstruct", ["x", "x"], ["s"])], [typed("x", [1, 4])], [declared]))
    changed = gp.edit(found, batch=3)
    assert str(changed.inputs["x"].fact) == "float32[3, 4]"


def lookup() -> onnx.ModelProto:
    """An embedding of int64 indices."""
    table = RANDOM.normal(size=(7, 5)).astype(np.float32)
    proto = model([node("Gather", ["table", "ids"], ["y"], name="look")], [], [("y", ["N", 5])], {"table": table})
    proto.graph.input.append(onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["N"]))
    return proto


def test_element_types_of_inputs_and_outputs_are_changed(tmp_path):
    write_onnx(tmp_path / "net.onnx", lookup())
    edit(tmp_path / "net.onnx", tmp_path / "typed.onnx", "--set-type", "ids=int32", "--set-type", "y=float16")
    session, source = (onnxruntime.InferenceSession(tmp_path / name) for name in ("typed.onnx", "net.onnx"))
    assert [each.type for each in (*session.get_inputs(), *session.get_outputs())] == [
        "tensor(int32)",
        "tensor(float16)",
    ]
    assert [each.name for each in (*session.get_inputs(), *session.get_outputs())] == ["ids", "y"]
    ids = np.array([3, 0, 6])
    (expected,) = source.run(None, {"ids": ids})
    (found,) = session.run(None, {"ids": ids.astype(np.int32)})
    np.testing.assert_array_equal(found, expected.astype(np.float16))


SCORES = RANDOM.normal(size=(3, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("softmax", np.exp(SCORES) / np.exp(SCORES).sum(-1, keepdims=True)),
        ("y=sigmoid", 1 / (1 + np.exp(-SCORES))),
        ("argmax", SCORES.argmax(-1)),
        ("topk=2", np.argsort(-SCORES, axis=-1)[:, :2]),
        ("y=topk", np.argsort(-SCORES, axis=-1)[:, :1]),
    ],
)
def test_steps_are_appended_to_an_output(step, expected, tmp_path):
    write_onnx(tmp_path / "net.onnx", model([node("Identity", ["x"], ["y"])], [("x", [3, 6])], [("y", [3, 6])]))
    edit(tmp_path / "net.onnx", tmp_path / "after.onnx", "--postprocess", step)
    (found,) = onnxruntime.InferenceSession(tmp_path / "after.onnx").run(["y"], {"x": SCORES})
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"types": {"nosuch": "int32"}}, "EDIT0001"),
        ({"types": {"x": "colour"}}, "EDIT0009"),
        ({"postprocess": {"nosuch": "argmax"}}, "EDIT0001"),
        ({"postprocess": {"": "argmin"}}, "EDIT0009"),
        ({"postprocess": {"": "topk=0"}}, "EDIT0009"),
    ],
)
def test_unknown_types_and_steps_are_refused(keywords, code):
    net = gp.from_onnx(model([node("Neg", ["x"], ["y"])], [("x", [3, 6])], [("y", [3, 6])]))
    with pytest.raises(DiagnosticError) as error:
        gp.edit(net, **keywords)
    assert [finding.code for finding in error.value.diagnostics] == [code]


def test_metadata_is_set_and_other_keys_remain(tmp_path):
    proto = classifier()
    onnx.helper.set_model_props(proto, {"author": "a", "license": "MIT"})
    path = write_onnx(tmp_path / "net.onnx", proto)
    edit(path, tmp_path / "named.onnx", "--metadata", "author=b", "--metadata", "labels=cat,dog=2")
    session: Any = onnxruntime.InferenceSession(str(tmp_path / "named.onnx"), providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map == {"author": "b", "license": "MIT", "labels": "cat,dog=2"}


def test_metadata_of_tflite_is_a_buffer_by_name(tmp_path):
    schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")
    gp.save(perceptron(), tmp_path / "net.tflite")
    edit(tmp_path / "net.tflite", tmp_path / "named.tflite", "--metadata", "author=b")
    found = schema.Model.GetRootAsModel((tmp_path / "named.tflite").read_bytes(), 0)
    entries = (found.Metadata(index) for index in range(found.MetadataLength()))
    texts = {each.Name(): found.Buffers(each.Buffer()).DataAsNumpy().tobytes() for each in entries}
    assert texts[b"author"] == b"b"


def test_a_format_without_metadata_is_refused(net, tmp_path):
    assert codes(edit(net, tmp_path / "net.nnef", "--metadata", "author=b", code=1)) == ["EDIT0015"]
    assert not (tmp_path / "net.nnef").exists()


def test_training_mode_ends(tmp_path):
    """BatchNormalization uses the stored statistics, which its further outputs then return; Dropout is off."""
    random = np.random.default_rng(0)
    statistics = {name: random.uniform(0.5, 2, 3).astype(np.float32) for name in ("scale", "bias", "mean", "var")}
    constants = {**statistics, "ratio": np.array(0.5, np.float32), "yes": np.array(True)}
    nodes = [
        node("BatchNormalization", ["x", *statistics], ["h", "m", "v"], training_mode=1),
        node("Dropout", ["h", "ratio", "yes"], ["y"]),
    ]
    proto = model(nodes, [("x", [2, 3, 4])], [("y", [2, 3, 4]), ("m", [3]), ("v", [3])], constants)
    gp.save(gp.edit(gp.from_onnx(proto), inference=True), tmp_path / "net.onnx")
    session: Any = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    x = random.normal(size=(2, 3, 4)).astype(np.float32)
    y, m, v = session.run(["y", "m", "v"], {"x": x})
    scale, bias, mean, var = (each[:, None] for each in statistics.values())
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(var + 1e-5) * scale + bias, rtol=1e-5)
    np.testing.assert_array_equal(m, statistics["mean"])
    np.testing.assert_array_equal(v, statistics["var"])
