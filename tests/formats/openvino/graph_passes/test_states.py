"""Variables of OpenVINO's models as inputs and outputs, and as variables again, whatever was in between."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.legalizer import legalize_nodes
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import storage_of
from graphport.formats.openvino.graph_passes.states import expose_states, hide_states
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import KEPT, State, mark, state_of
from graphport.ir.verify import verify
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir

DATA = Path(__file__).parents[1] / "data"
X = np.array([[1, 2, 3, 4]], np.float32)
VARIABLE = {"variable_id": "v", "variable_type": "f32", "variable_shape": "1,4"}


def runs(model, count, **options):
    """Outputs of as many runs, each given the state that the last one left."""
    state, found = {}, []
    for _ in range(count):
        outputs = gp.run(model, {"x": X, **state}, **options)
        found.append(next(iter(outputs.values())))
        state = {name.removesuffix("_next"): array for name, array in outputs.items() if name.endswith("_next")}
    return found


@pytest.mark.parametrize("backend", ["onnxruntime", "reference", "openvino"])
def test_variables_are_inputs_and_outputs(backend):
    model = gp.load(DATA / "stateful.xml")
    assert list(model.inputs) == ["x", "var1"]
    np.testing.assert_array_equal(runs(model, 3, backend=backend), [X, 2 * X, 3 * X])


def test_variables_come_back_as_such(tmp_path):
    import openvino

    gp.save(gp.load(DATA / "stateful.xml"), tmp_path / "model.xml")
    request = openvino.Core().compile_model(str(tmp_path / "model.xml"), "CPU").create_infer_request()
    found = [np.array(next(iter(request.infer([X]).values()))) for _ in range(3)]
    np.testing.assert_array_equal(found, [X, 2 * X, 3 * X])
    again = gp.load(tmp_path / "model.xml", raw=True)
    assert {"opset6.ReadValue", "opset6.Assign"} <= {node.op_type for node in again.graph}


def test_variable_without_start_begins_with_zeros(tmp_path):
    said = {"variable_id": "v", "variable_type": "f32", "variable_shape": "1,4"}
    layers = [
        parameter("x", "1,4"),
        Layer("s", "opset6.ReadValue", said),
        Layer("y", "opset1.Add", {}, ["x", "s"]),
        Layer("a", "opset6.Assign", {"variable_id": "v"}, ["y"]),
    ]
    path = write_ir(tmp_path, layers, ["y"])
    text = path.read_text().replace(
        '<port id="0" precision="UNSPECIFIED" />', '<port id="0" precision="FP32"><dim>1</dim><dim>4</dim></port>', 2
    )
    path.write_text(text)
    np.testing.assert_array_equal(runs(gp.load(path), 2), [X, 2 * X])


def counting(folder, start):
    """y = x + v, and v is y in the next run; `start` are layers, of which the last one is what v begins with."""
    layers = [
        parameter("x", "1,4"),
        *start,
        Layer("s", "opset6.ReadValue", VARIABLE, [start[-1].name]),
        Layer("y", "opset1.Add", {}, ["x", "s"]),
        Layer("a", "opset6.Assign", {"variable_id": "v"}, ["y"]),
    ]
    return write_ir(folder, layers, ["y"])


@pytest.mark.parametrize(
    "start",
    [
        [constant("c", X, "float16"), Layer("h", "opset1.Convert", {"destination_type": "f32"}, ["c"])],
        [
            constant("c", [1, 2, 3, 4], "float32"),
            constant("shape", [1, 4], "int64"),
            Layer("b", "opset3.Broadcast", {"mode": "numpy"}, ["c", "shape"]),
            constant("one", 1, "float32"),
            Layer("m", "opset1.Multiply", {}, ["b", "one"]),
        ],
    ],
    ids=["widened", "made of several"],
)
def test_a_start_that_is_built_from_constants_is_computed(tmp_path, start):
    model = gp.load(counting(tmp_path, start))
    np.testing.assert_array_equal(model.inputs["v"].storage.numpy(), X)
    np.testing.assert_array_equal(runs(model, 2), [2 * X, 3 * X])


TANH = Layer("t", "opset1.Tanh", {}, ["x"])


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_a_start_that_depends_on_the_run_is_computed_by_the_first(tmp_path, backend):
    model = gp.load(counting(tmp_path, [TANH]))
    assert list(model.inputs) == ["x", "v", KEPT]
    np.testing.assert_allclose(runs(model, 3, backend=backend), [np.tanh(X) + k * X for k in (1, 2, 3)], rtol=1e-6)
    np.testing.assert_array_equal(gp.run(model, {"x": X, "v": 5 * X}, backend=backend)["y"], 6 * X)
    session = gp.session(model, backend)
    found = [session.run({"x": X})["y"] for _ in range(3)]
    np.testing.assert_allclose(found, [np.tanh(X) + k * X for k in (1, 2, 3)], rtol=1e-6)


def in_openvino(path, feeds, count):
    import openvino

    request = openvino.Core().compile_model(str(path), "CPU").create_infer_request()
    return [np.array(next(iter(request.infer(feeds).values()))) for _ in range(count)]


@pytest.mark.parametrize("between", [None, "model.onnx", "model.graphport"])
def test_such_a_variable_is_written_as_it_was(tmp_path, between):
    path = counting(tmp_path, [TANH])
    expected = in_openvino(path, [X], 3)
    model, _ = gp.simplify(gp.load(path))
    if between is not None:
        gp.save(model, tmp_path / between)
        model = gp.load(tmp_path / between)
    gp.save(model, tmp_path / "again.xml")
    np.testing.assert_array_equal(in_openvino(tmp_path / "again.xml", [X], 3), expected)
    again = gp.load(tmp_path / "again.xml", raw=True)
    assert "opset8.If" not in {node.op_type for node in again.graph}
    np.testing.assert_allclose(runs(gp.load(tmp_path / "again.xml"), 3), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_start_of_integers_that_depends_on_the_run(tmp_path, dtype):
    data = {"variable_id": "v", "variable_type": {"int32": "i32", "int64": "i64"}[dtype], "variable_shape": "1,4"}
    layers = [
        parameter("x", "1,4", data["variable_type"]),
        Layer("t", "opset1.Multiply", {}, ["x", "x"]),
        Layer("s", "opset6.ReadValue", data, ["t"]),
        Layer("y", "opset1.Add", {}, ["x", "s"]),
        Layer("a", "opset6.Assign", {"variable_id": "v"}, ["y"]),
    ]
    x = X.astype(dtype)
    model = gp.load(write_ir(tmp_path, layers, ["y"]))
    gp.save(model, tmp_path / "again.xml")
    np.testing.assert_array_equal(in_openvino(tmp_path / "again.xml", [x], 2), [x + x * x, 2 * x + x * x])
    state, found = {}, []
    for _ in range(2):
        outputs = gp.run(model, {"x": x, **state})
        found.append(outputs["y"])
        state = {name.removesuffix("_next"): array for name, array in outputs.items() if name.endswith("_next")}
    np.testing.assert_array_equal(found, [x + x * x, 2 * x + x * x])


def beams(folder):
    """A cache without start that is put in the order of the beams, and lengthened."""
    data = {"variable_id": "kv", "variable_type": "f32", "variable_shape": "?,2,?,4"}
    layers = [
        parameter("x", "?,2,?,4"),
        parameter("beams", "?", "i32"),
        Layer("s", "opset6.ReadValue", data),
        constant("axis", 0, "int64"),
        Layer("g", "opset8.Gather", {"batch_dims": 0}, ["s", "beams", "axis"]),
        Layer("y", "opset1.Concat", {"axis": 2}, ["g", "x"]),
        Layer("a", "opset6.Assign", {"variable_id": "kv"}, ["y"]),
    ]
    path = write_ir(folder, layers, ["y"])
    port = '<port id="0" precision="FP32"><dim>-1</dim><dim>2</dim><dim>-1</dim><dim>4</dim></port>'
    path.write_text(path.read_text().replace('<port id="0" precision="UNSPECIFIED" />', port))
    return path


@pytest.mark.parametrize("between", [None, "model.onnx"])
def test_beams_of_an_empty_cache_are_empty(tmp_path, between):
    path, x = beams(tmp_path), np.arange(16, dtype=np.float32).reshape(2, 2, 1, 4)
    feeds = {"x": x, "beams": np.array([1, 0], np.int32)}
    expected = in_openvino(path, list(feeds.values()), 3)
    model = gp.load(path)
    if between is not None:
        gp.save(model, tmp_path / between)
        model = gp.load(tmp_path / between)
    for backend in ("onnxruntime", "reference"):
        session = gp.session(model, backend)
        for wanted in expected:
            np.testing.assert_array_equal(session.run(feeds)["y"], wanted)
    gp.save(model, tmp_path / "again.xml")
    for found, wanted in zip(in_openvino(tmp_path / "again.xml", list(feeds.values()), 3), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("make", [lambda folder: counting(folder, [TANH]), beams], ids=["tanh", "beams"])
@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
def test_what_begins_with_the_first_run_is_proven(tmp_path, suffix, make):
    gp.convert(make(tmp_path), tmp_path / f"made{suffix}", verify=True)


def test_runs_that_go_on_are_a_part_of_the_proof(tmp_path):
    right = counting(tmp_path, [TANH])
    layers = [
        parameter("x", "1,4"),
        TANH,
        Layer("s", "opset6.ReadValue", VARIABLE, ["t"]),
        Layer("y", "opset1.Add", {}, ["x", "t"]),
        Layer("both", "opset1.Add", {}, ["y", "s"]),
        Layer("next", "opset1.Subtract", {}, ["both", "s"]),
        Layer("a", "opset6.Assign", {"variable_id": "v"}, ["next"]),
    ]
    (tmp_path / "wrong").mkdir()
    # Its first run is the same: y is x + tanh(x), and so is what it keeps.
    wrong = write_ir(tmp_path / "wrong", layers, ["y"])
    assert not gp.verify(right, wrong).passed
    assert gp.verify(right, right).passed


@pytest.mark.parametrize("between", ["model.onnx", "model.graphport"])
def test_another_file_keeps_what_a_variable_begins_with(tmp_path, between):
    model = gp.load(counting(tmp_path, [constant("c", X, "float32")]))
    gp.save(model, tmp_path / between)
    again = gp.load(tmp_path / between)
    assert state_of(again.inputs["v"]) == State("v_next", "v")
    np.testing.assert_array_equal(runs(again, 2), [2 * X, 3 * X])
    gp.save(again, tmp_path / "again.xml")
    words = [node.op_type for node in gp.load(tmp_path / "again.xml", raw=True).graph]
    assert {"opset6.ReadValue", "opset6.Assign"} <= set(words)
    np.testing.assert_array_equal(runs(gp.load(tmp_path / "again.xml"), 2), [2 * X, 3 * X])


def test_another_runtime_needs_not_be_given_the_variable(tmp_path):
    import onnx
    import onnxruntime

    gp.save(gp.load(counting(tmp_path, [constant("c", X, "float32")])), tmp_path / "model.onnx")
    onnx.checker.check_model(tmp_path / "model.onnx", full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], 2 * X)
    np.testing.assert_array_equal(session.run(["y"], {"x": X, "v": 5 * X})[0], 6 * X)


def test_the_raw_graph_of_such_a_file_is_written_as_it_was(tmp_path):
    gp.save(gp.load(counting(tmp_path, [constant("c", X, "float32")])), tmp_path / "model.onnx")
    gp.save(gp.load(tmp_path / "model.onnx", raw=True), tmp_path / "again.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == (tmp_path / "again.onnx").read_bytes()


def test_numbers_of_a_variable_must_have_its_shape(tmp_path):
    import onnx

    gp.save(gp.load(counting(tmp_path, [constant("c", X, "float32")])), tmp_path / "model.onnx")
    proto = onnx.load(tmp_path / "model.onnx")
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(X[:, :3], "v"))
    with pytest.raises(gp.DiagnosticError, match="ONNX0308"):
        gp.from_onnx(proto)


@pytest.mark.parametrize("rewritten", [gp.simplify, gp.prepare])
@pytest.mark.parametrize("name", ["made.xml", "made.onnx"])
def test_variables_stay_when_the_model_is_rewritten(tmp_path, rewritten, name):
    model, _ = rewritten(gp.load(DATA / "stateful.xml", raw=True))
    gp.save(model, tmp_path / name)
    made = gp.load(tmp_path / name)
    assert list(made.inputs) == ["x", "var1"]
    np.testing.assert_array_equal(runs(made, 3), [X, 2 * X, 3 * X])


# ── what is known of variables, node by node ──────────────────────────────────────────────────────────────────────────

F32, I64 = DType.FLOAT32, DType.INT64


class Net:
    """`y = x + v` of OpenVINO's words, and v is y in the next run."""

    def __init__(self, dtype: Any = F32, start: Any = None, *, claim: Any = None, **told: Any) -> None:
        self.graph: Any = Graph()
        self.x = self.graph.add_input("x", TensorFact(dtype, (1, 4)))
        told = {"variable_id": "v", **told}
        first = start(self) if callable(start) else None if start is None else self.constant(start)
        read = self.put("opset6.ReadValue", *([] if first is None else [first]), name="v_read", fact=claim, **told)
        self.y = self.put("opset1.Add", self.x, read, name="y", fact=self.x.fact)
        self.put("opset6.Assign", self.y, name="v_set", variable_id="v")
        self.graph.set_outputs([self.y])

    def constant(self, array: Any) -> Value:
        storage = storage_of(np.asarray(array))
        return self.graph.add_constant("start", TensorFact.of(storage), storage)

    def put(self, op_type: str, *operands: Value, name="h", fact: Any = None, dialect="openvino", **told: Any) -> Any:
        made = Value(self.graph.fresh(name), UNKNOWN if fact is None else fact)
        return self.graph.append(Node(op_type, list(operands), [made], told, dialect=dialect)).output

    def exposed(self) -> Any:
        expose_states(self.graph, legalize_nodes)
        verify(self.graph)
        return self.graph.inputs[1]


def test_what_a_variable_is_is_reported_alone_then_its_start_then_its_port():
    stored = np.zeros((1, 4), np.int32)
    declared = {"variable_type": I64, "variable_shape": "2,?"}
    for told, start, claim, dtype, shape in (
        (declared, stored, TensorFact(F32, (5,)), I64, "[2, v_1]"),
        ({"variable_type": I64}, stored, TensorFact(F32, (5,)), I64, "[1, 4]"),
        ({"variable_shape": "2,3"}, stored, TensorFact(F32, (5,)), DType.INT32, "[2, 3]"),
        ({"variable_shape": "a,b"}, stored, None, DType.INT32, "[1, 4]"),
        ({"variable_shape": ""}, stored, None, DType.INT32, "[1, 4]"),
        ({}, stored, TensorFact(F32, (5,)), DType.INT32, "[1, 4]"),
        ({}, None, TensorFact(F32, (5,)), F32, "[5]"),
        ({"variable_type": I64}, None, TensorFact(F32, (5,)), I64, "[5]"),
        ({"variable_shape": "7"}, None, TensorFact(F32, (5,)), F32, "[7]"),
        ({}, lambda net: net.put("opset1.Tanh", net.x), TensorFact(F32, (5,)), F32, "[5]"),
        (
            {},
            lambda net: net.put("opset1.Tanh", net.x, fact=TensorFact(None, (1, 4))),
            TensorFact(F32, (5,)),
            F32,
            "[1, 4]",
        ),
        (declared, None, None, I64, "[2, v_1]"),
    ):
        fact = Net(start=start, claim=claim, **told).exposed().fact
        assert fact.dtype is dtype, told
        dims = [dim if isinstance(dim, int) else dim.bounds[0] for dim in fact.shape]
        assert dims == ([2, 0] if "v_1" in shape else [int(n) for n in shape[1:-1].split(",")]), told
    assert Net().exposed().fact == TensorFact(None, None)


def test_a_variable_begins_with_what_is_known_before_a_run():
    def chain(count, op_type="opset1.Abs"):
        def made(net):
            value = net.constant(-X)
            for _ in range(count):
                value = net.put(op_type, value, fact=TensorFact(F32, (1, 4)))
            return value

        return made

    net = Net(start=X)
    state = net.exposed()
    np.testing.assert_array_equal(state.storage.numpy(), X)
    assert "If" not in [node.op_type for node in net.graph]
    assert state_of(state) == State("v_next", "v")

    def sums(count):
        """As many sums, in a tree that is not deep."""

        def made(net):
            values = [net.constant(X / (count + 1)) for _ in range(count + 1)]
            while len(values) > 1:
                one, other, *values = values
                values.append(net.put("opset1.Add", one, other, fact=TensorFact(F32, (1, 4))))
            return values[0]

        return made

    for count in (1, 5, 64):
        np.testing.assert_array_equal(Net(start=chain(min(count, 9))).exposed().storage.numpy(), X)
        np.testing.assert_allclose(Net(start=sums(count)).exposed().storage.numpy(), X, rtol=1e-5)
    for start in (sums(65), chain(1, "opset1.Unknown"), lambda net: net.put("opset1.Add", net.constant(X), net.x)):
        net = Net(start=start)
        state = net.exposed()
        assert state.storage is None or not state.storage.numpy().any()
        assert "If" in [node.op_type for node in net.graph]
    for shape, zeros in (("3,4", (3, 4)), ("?,4", (0, 4)), ("4096,4096", (4096, 4096)), ("4096,4097", None)):
        state = Net(variable_type=F32, variable_shape=shape).exposed()
        assert (None if state.storage is None else state.storage.shape) == zeros, shape
        assert (state_of(state) is not None) is True
    state = Net(variable_type=F32).exposed()
    assert state.storage is None


def test_names_of_a_variable_are_its_own_and_others_stay():
    net = Net(start=X)
    for node in net.graph:
        if node.op_type == "opset6.ReadValue":
            net.graph.rename(node.output, "v")
        elif node.op_type == "opset6.Assign":
            net.graph.rename(node.output, "v_next")
    assert net.exposed().name == "v"
    assert [value.name for value in net.graph.outputs] == ["y", "v_next"]
    net = Net(start=X)
    net.graph.rename(net.y, "v")
    assert net.exposed().name == "v_1"
    assert [value.name for value in net.graph.outputs] == ["v", "v_next"]
    assert [node.op_type for node in net.graph] == ["opset1.Add", "Identity"]


def test_a_variable_that_nobody_assigns_or_reads_stays():
    for gone in ("opset6.ReadValue", "opset6.Assign"):
        net = Net(start=X)
        node = next(each for each in net.graph if each.op_type == gone)
        node.set_attribute("variable_id", "other")
        words = [each.op_type for each in net.graph]
        expose_states(net.graph, legalize_nodes)
        assert ([each.op_type for each in net.graph], net.graph.inputs) == (words, [net.x])


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_variables_begin_with_their_numbers_in_every_type(dtype, tmp_path):
    x = X.astype(dtype)
    for is_returned in (False, True):
        graph: Any = Graph()
        fact = TensorFact(DType.of(dtype), (1, 4))
        given, state = graph.add_input("x", fact), graph.add_input("s", fact)
        state.storage = storage_of(3 * x)
        total = graph.append(Node("Add", [given, state], [Value("y", fact)])).output
        after = graph.append(Node("Add", [total, given], [Value("after", fact)])).output
        graph.set_outputs([total, after])
        mark(state, State("after", "v", is_returned=is_returned))
        path = tmp_path / f"{is_returned}.xml"
        gp.save(gp.Model(graph), path)
        raw = gp.load(path, raw=True).graph
        assert ([value.name for value in raw.inputs], len(raw.outputs)) == (["x"], 1 + is_returned)
        (read,) = (node for node in raw if node.op_type == "opset6.ReadValue")
        own = DType.INT32 if dtype == "int64" else DType.of(dtype)
        assert (read.attributes["variable_type"], read.attributes["variable_shape"]) == (own, "1,4")
        np.testing.assert_array_equal(read.operands[0].storage.numpy(), 3 * x)
        assert read.operands[0].storage.dtype is own
        assert [node.op_type for node in raw].count("opset1.Convert") == 2 * (dtype == "int64")
        np.testing.assert_array_equal(in_openvino(path, [x], 3), [(4 + 2 * k) * x for k in range(3)])


def test_what_is_assigned_is_read_past_its_copy_where_nobody_else_reads_it():
    fact = TensorFact(F32, (1, 4))
    for kind in ("identity", "convert", "read", "returned", "other type", "word", "none"):
        graph: Any = Graph()
        x, state = graph.add_input("x", fact), graph.add_input("s", fact)
        state.storage = storage_of(X)
        total = graph.append(Node("opset1.Add", [x, state], [Value("y", fact)], dialect="openvino")).output
        op_type = {"convert": "opset1.Convert", "word": "opset1.Abs"}.get(kind, "opset16.Identity")
        copy = total
        if kind != "none":
            other = TensorFact(DType.FLOAT16, (1, 4)) if kind == "other type" else fact
            copy = graph.append(Node(op_type, [total], [Value("after", other)], dialect="openvino")).output
        shown = [total] if kind != "none" else []
        if kind == "read":
            shown.append(graph.append(Node("opset1.Abs", [copy], [Value("z", fact)], dialect="openvino")).output)
        graph.set_outputs([*shown, copy])
        mark(state, State(copy.name, "v", is_returned=kind == "returned"))
        hide_states(graph)
        verify(graph)
        words = [node.op_type for node in graph]
        assert words[0] == "opset6.ReadValue"
        assert words[-1] == "opset6.Assign"
        assert (op_type in words[1:-1]) is (kind not in ("identity", "convert", "none")), kind
        assert graph.last.attributes == {"variable_id": "v"}
        assert graph.inputs == [x]


def test_an_empty_variable_begins_with_entries_only_where_they_are_gathered_along_an_open_axis():
    for kind in (
        *("", "axis behind", "old word"),
        *(
            "one open axis",
            "fixed axis",
            "axis of a run",
            "indices of the model",
            "another word",
            "as indices",
            "custom",
        ),
        "no type",
    ):
        net = Net.__new__(Net)
        net.graph = Graph()
        net.x = net.graph.add_input("beams", TensorFact(DType.INT32, (Symbol("b"),)))
        shape = {"one open axis": "?,2,3,4", "fixed axis": "2,?,?,4"}.get(kind, "?,2,?,4")
        told = {"variable_id": "v", "variable_shape": shape, "variable_type": F32}
        if kind == "no type":
            del told["variable_type"]
        read = net.put("opset6.ReadValue", **told)
        if kind == "axis of a run":
            axis = net.graph.add_input("axis", TensorFact(I64, ()))
        else:
            axis = net.constant(np.int64(-4 if kind == "axis behind" else 0))
        indices = net.constant(np.array([0])) if kind == "indices of the model" else net.x
        op_type = {"old word": "opset1.Gather", "another word": "opset1.GatherTree"}.get(kind, "opset8.Gather")
        operands = [net.x, read, axis] if kind == "as indices" else [read, indices, axis]
        y = net.put(op_type, *operands, dialect="custom" if kind == "custom" else "openvino")
        net.put("opset6.Assign", y, variable_id="v")
        net.graph.set_outputs([y])
        expose_states(net.graph, legalize_nodes)
        verify(net.graph)
        words = [node.op_type for node in net.graph]
        is_counted = kind in ("", "axis behind", "old word")
        assert ("If" in words) is is_counted, kind
        if is_counted:
            assert words[:5] == ["Size", "Reshape", "Concat", "Expand", "Identity"] or "Expand" in words
            front, count, back = next(node for node in net.graph if node.op_type == "Concat").operands
            assert (front.storage.numpy().tolist(), back.storage.numpy().tolist()) == ([], [2, 0, 4])
            assert count.producer.operands[0].producer.operands == [net.x]
