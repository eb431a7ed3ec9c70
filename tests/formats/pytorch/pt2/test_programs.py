"""Programs that PyTorch exported, held against what PyTorch computed with them; `programs/make.py` made both."""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from ai_edge_litert import interpreter as litert

import graphport as gp
from graphport.api.rewrite import rewrite_file
from graphport.formats.pytorch import pt2
from graphport.passes.simplify import SIMPLIFY
from tests.draws import spread
from tests.every import every

PROGRAMS = Path(__file__).parent / "programs"
NAMES = (
    *("writes", "seen", "layouts", "cache", "training", "loops", "sizes", "names", "network", "attending", "odd"),
    *("mapped", "scanned", "waves", "open", "computed", "special", "found", "blocks"),
    *("factors", "runs", "strides", "sampled", "instances", "mixed", "words", "quantized"),
)
FILES = [f"{name}{kind}" for name in NAMES for kind in (".pt2", ".core.pt2")] + [
    *("recurrent.pt2", "overwritten.pt2", "narrow.core.pt2", "images.pt2"),
]
OLDER = {
    "names.schema5.pt2": "5.1",
    "sizes.schema6.pt2": "6.1",
    "cache.schema7.pt2": "7.3",
    "open.schema7.pt2": "7.3",
    "narrow.schema7.pt2": "7.1",
}


def recorded(name, kind, tag=""):
    """Arrays by place, of one size and the first call."""
    with np.load(PROGRAMS / f"{name}.npz") as data:
        found = {int(key.removeprefix(kind).removesuffix(tag)): data[key] for key in data if fits(key, kind, tag)}
    return [found[place] for place in sorted(found)]


def fits(key, kind, tag):
    return key.startswith(kind) and key.removeprefix(kind).removesuffix(tag).isdecimal() and key.endswith(tag)


def in_pairs(arrays):
    """Complex numbers as pairs of real ones, in a last axis."""
    return [np.stack([a.real, a.imag], -1) if a.dtype.kind == "c" else a for a in arrays]


def sizes(name):
    return ("", "_b") if recorded(name, "in", "_b") else ("",)


def agree(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@every("file", spread([*FILES, *OLDER]))
def test_program_matches_pytorch_at_every_size(file, tmp_path):
    name = file.split(".")[0]
    model = gp.load(PROGRAMS / file)
    gp.save(model, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    for tag in sizes(name):
        arrays, expected = (in_pairs(recorded(name, kind, tag)) for kind in ("in", "out"))
        given = dict(zip([value.name for value in model.graph.inputs], arrays, strict=True))
        agree(list(gp.run(model, given, backend="reference").values()), expected)
        agree(session.run(None, given), expected)


@pytest.mark.parametrize("file", ["seen.pt2", "sizes.pt2", "open.pt2", "computed.pt2", "computed.core.pt2"])
def test_openvino_computes_a_program_at_every_size(file, tmp_path):
    gp.save(gp.load(PROGRAMS / file), tmp_path / "net.xml")
    compiled = openvino.Core().compile_model(tmp_path / "net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    name = file.split(".")[0]
    for tag in sizes(name):
        found = compiled(recorded(name, "in", tag))
        agree([found[port] for port in compiled.outputs], recorded(name, "out", tag))


def test_dynamic_dims_stay_open_and_are_called_after_their_inputs():
    model = gp.load(PROGRAMS / "sizes.pt2")
    assert [str(value.fact) for value in model.graph.inputs] == ["float32[2*s44, 3]", "float32[y.dim0, 3]"]


def test_results_are_called_after_the_keys_under_which_they_are_returned():
    model = gp.load(PROGRAMS / "names.pt2")
    assert [value.name for value in model.graph.inputs] == ["inputs_x", "scale"]
    assert [value.name for value in model.graph.outputs] == ["logits", "parts.0", "parts.3", "deep.again"]


def test_weights_have_full_names_and_stay_tied():
    model = gp.load(PROGRAMS / "names.pt2", raw=True)
    storages = {value.name: value.storage for value in model.graph.constants}
    assert set(storages) >= {"layer.weight", "tied.weight", "tied.bias", "table"}
    assert storages["layer.weight"].start == storages["tied.weight"].start
    np.testing.assert_array_equal(storages["table"].numpy(), np.arange(24.0).reshape(4, 6).T[1:3])


def test_writes_to_buffers_are_reported():
    codes = {finding.code: finding.message for finding in gp.load(PROGRAMS / "cache.pt2").findings}
    assert codes == {
        "LEG0005": "the program writes to count, keys: each run starts with the stored values, and the updates are discarded"
    }
    assert "LEG0005" in {finding.code for finding in gp.load(PROGRAMS / "cache.core.pt2").findings}


def test_node_origin_is_the_python_source_line():
    graph = gp.load(PROGRAMS / "network.pt2", raw=True).graph
    origin = next(node.origin for node in graph if node.op_type == "aten.conv2d.default")
    assert str(origin).endswith("self.norm(self.conv(x)), inplace=True), 2)`, in conv, node conv2d")
    assert "make.py:" in str(origin)


def test_older_schemas_are_read_from_flat_archives_of_pickled_weights():
    for file, schema in OLDER.items():
        assert gp.load(PROGRAMS / file).versions == {"schema": schema}
    assert [str(value.fact) for value in gp.load(PROGRAMS / "sizes.schema6.pt2").graph.inputs] == [
        "float32[2*s44, 3]",
        "float32[y.dim0, 3]",
    ]


def test_versions_are_those_of_schema_and_writer():
    assert gp.load(PROGRAMS / "names.pt2").versions == {"schema": "8.20", "torch": "2.13.0+cpu"}


def test_changed_buffers_become_states_that_a_session_keeps(tmp_path):
    for kind in ("cache.pt2", "cache.core.pt2"):
        model = gp.load(PROGRAMS / kind, states=True)
        assert not model.findings
        gp.save(model, tmp_path / "net.onnx")
        outside = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
        session, x = gp.session(model, "reference"), recorded("cache", "in")
        states = {v.name: v.storage.numpy() for v in model.graph.inputs if v.storage is not None}
        assert set(states) == {"keys_in", "count_in"}
        for call in ("", "_call1", "_call2"):
            given = dict(zip(["x", "place"], x, strict=True))
            found = session.run(given)
            agree([next(iter(found.values()))], recorded("cache", "out", call))
            y = dict(zip([v.name for v in outside.get_outputs()], outside.run(None, given | states), strict=True))
            agree([next(iter(y.values()))], recorded("cache", "out", call))
            states = {"keys_in": y["keys_out"], "count_in": y["count_out"]}


def test_running_statistics_are_states_that_a_batch_moves():
    for kind in ("training.pt2", "training.core.pt2"):
        assert "norm.running_mean, norm.running_var" in gp.load(PROGRAMS / kind).findings[0].message
        session = gp.session(gp.load(PROGRAMS / kind, states=True), "reference")
        for call in ("", "_call1", "_call2"):
            found = list(session.run({"x": recorded("training", "in")[0]}).values())
            agree(found[:3], recorded("training", "out", call))


def test_complex_values_are_reported_as_pairs():
    assert [(f.code, f.message) for f in gp.load(PROGRAMS / "waves.pt2").findings] == [
        (
            "LEG0007",
            "x, sqrt, tanh, einsum, pow_1, pow_2, log, sgn: complex tensors are represented as real tensors with a last axis of size 2",
        )
    ]


def test_op_types_without_complex_rule_are_refused_by_name():
    path = PROGRAMS / "waves.pt2"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data.replace(b"aten.tanh.default", b"aten.asinh.default"))
    with pytest.raises(gp.DiagnosticError, match=r"unsupported: pytorch\.aten\.asinh\.default of complex tensors"):
        gp.load(changed.getvalue())


def test_states_are_variables_of_openvino_and_resources_of_litert(tmp_path):
    given = recorded("cache", "in")
    for kind in ("cache.pt2", "cache.core.pt2"):
        model = gp.load(PROGRAMS / kind, states=True)
        for ending in (".xml", ".tflite"):
            gp.save(model, tmp_path / f"net{ending}")
        compiled = openvino.Core().compile_model(tmp_path / "net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        request = compiled.create_infer_request()
        interpreter = litert.Interpreter(str(tmp_path / "net.tflite"))
        interpreter.allocate_tensors()
        back = gp.session(gp.load(tmp_path / "net.tflite"), "reference")
        for call in ("", "_call1", "_call2"):
            expected = recorded("cache", "out", call)
            agree([request.infer(given)[0].copy()], expected)
            for port, array in zip(interpreter.get_input_details(), given, strict=True):
                interpreter.set_tensor(port["index"], array)
            interpreter.invoke()
            agree([interpreter.get_tensor(port["index"]) for port in interpreter.get_output_details()], expected)
            agree(list(back.run(dict(zip(["x", "place"], given, strict=True))).values())[:1], expected)


def test_a_program_is_read_from_memory_too():
    graph, findings = pt2.read_bytes((PROGRAMS / "names.pt2").read_bytes())
    assert not findings
    assert [value.name for value in graph.inputs] == ["inputs_x", "scale"]


def test_without_torch_no_module_is_exported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(gp.DiagnosticError) as raised:
        gp.from_torch(object())
    assert [finding.code for finding in raised.value.diagnostics] == ["PT0013"]


@pytest.mark.parametrize("file", ["attending.pt2", "attending.core.pt2"])
def test_a_simplified_program_has_its_operators_whole(file, tmp_path):
    report = rewrite_file(PROGRAMS / file, tmp_path / "small.onnx", SIMPLIFY, opset=23)
    assert report.passed
    found = [node.op for node in report.graph]
    whole = {"Attention": 2, "LayerNormalization": 1, "RMSNormalization": 1, "HardSwish": 2, "MatMul": 4}
    assert {op: found.count(op) for op in whole} == whole
    assert found.count("Reshape") == 4
    assert [str(value.fact) for value in report.graph.outputs] == ["float32[x.dim0, x.dim1, 8]"]


def scan_of(body, x, y):
    """A Scan without state along the first axis of `x`, which gives `y`."""
    return onnx.helper.make_node("Scan", [x], [y], body=body, num_scan_inputs=1)


def real(name, *shape):
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def test_openvino_computes_a_scan_within_a_scan(tmp_path):
    innermost = onnx.helper.make_graph(
        [onnx.helper.make_node("Exp", ["c"], ["d"])], "c", [real("c", 4)], [real("d", 4)]
    )
    inner = onnx.helper.make_graph([scan_of(innermost, "b", "e")], "b", [real("b", 3, 4)], [real("e", 3, 4)])
    outer = onnx.helper.make_graph([scan_of(inner, "x", "y")], "a", [real("x", 2, 3, 4)], [real("y", 2, 3, 4)])
    proto = onnx.helper.make_model(outer, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    agree([computed_in_openvino(proto, tmp_path, x)], [np.exp(x)])


@pytest.mark.parametrize(("op", "end"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_openvino_reduces_fully_masked_rows(op, end, tmp_path):
    nodes = [
        onnx.helper.make_node("Less", ["x", "zero"], ["mask"]),
        onnx.helper.make_node("Where", ["mask", "end", "x"], ["m"]),
        onnx.helper.make_node(op, ["m", "axes"], ["y"], keepdims=0),
    ]
    constants = {"zero": np.float32(0), "end": np.float32(end), "axes": np.array([1])}
    held = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = onnx.helper.make_graph(nodes, "masked", [real("x", 3, 4)], [real("y", 3)], held)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    x = np.array([[-1, -2, -3, -1], [-1, 2, 3, -3], [4, 1, 2, 3]], np.float32)
    masked = np.where(x < 0, np.float32(end), x)
    agree([computed_in_openvino(proto, tmp_path, x)], [masked.max(1) if op == "ReduceMax" else masked.min(1)])


def computed_in_openvino(proto, folder, x):
    gp.save(gp.from_onnx(proto), folder / "net.xml")
    return openvino.Core().compile_model(folder / "net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]


@pytest.mark.parametrize("kind", ["cache.pt2", "cache.core.pt2", "training.pt2", "instances.core.pt2"])
def test_states_stay_in_their_order_and_are_proven(tmp_path, kind):
    report = gp.convert(PROGRAMS / kind, tmp_path / "net.xml", states=True)
    assert report.passed, [finding.message for finding in report.findings]
    read = gp.load(tmp_path / "net.xml")
    variables = [each.removesuffix("_in") for each in gp.load(PROGRAMS / kind, states=True).inputs if "_in" in each]
    assert [each for each in read.inputs if each in variables] == variables
