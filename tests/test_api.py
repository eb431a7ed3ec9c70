"""What a program calls, from the outside."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph
from graphport.ir.text import to_text
from graphport.ir.verify import verify
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from tests.memory import large_model
from tests.models import NNEF, model, node, perceptron, typed, write_nnef, write_onnx

X = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)


def codes(call, *arguments, **options):
    with pytest.raises(gp.DiagnosticError) as caught:
        call(*arguments, **options)
    return [finding.code for finding in caught.value.diagnostics]


@pytest.fixture
def net(tmp_path):
    return write_onnx(tmp_path / "net.onnx", perceptron())


@pytest.fixture
def small(tmp_path):
    return write_nnef(tmp_path / "small")


# The package


def test_every_public_name_exists():
    for name in gp.__all__:
        assert getattr(gp, name) is not None
    assert set(gp.__all__) < set(dir(gp))


def test_a_name_that_is_missing_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        gp.nosuch  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_asking_for_a_function_does_not_load_runtimes():
    program = (
        "import sys, graphport as gp\ngp.load, gp.run, gp.inspect\n"
        "print(sorted({'onnx', 'onnxruntime', 'ml_dtypes', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# load and check


def test_load_returns_a_canonical_model(net):
    loaded = gp.load(net)
    verify(loaded.graph)
    assert [said.op for said in loaded.graph] == ["Gemm", "Relu", "MatMul", "Softmax"]
    assert list(loaded.inputs) == ["x"]
    assert list(loaded.outputs) == ["y"]
    assert (loaded.format, loaded.path, loaded.is_raw) == ("onnx", net, False)
    assert loaded.versions == {"ai.onnx": "17"}
    assert repr(loaded) == f"<Model {net}: 4 nodes>"


def test_load_raw_keeps_the_op_types_of_the_format(small, net):
    raw = gp.load(small, raw=True)
    assert [said.op for said in raw.graph] == ["nnef.conv", "nnef.relu"]
    assert raw.is_raw
    assert str(raw.shapes()["y"]) == "float32[1, 3, 4, 4]"
    assert all(said.origin is not None for said in raw.graph)
    assert gp.load(net, raw=True).is_raw


def test_a_model_with_opaque_operators_is_not_raw(tmp_path):
    nodes = [node("Foo", ["x"], ["h"], domain="com.x"), node("Relu", ["h"], ["y"])]
    path = write_onnx(tmp_path / "net.onnx", model(nodes, [("x", [2])], [("y", [2])], domains={"com.x": 1}))
    assert not gp.load(path).is_raw
    assert gp.load(path, raw=True).is_raw


def test_load_binds_shapes(net):
    assert gp.load(net, shapes={"x": (7, 4)}).shapes()["y"] == TensorFact(DType.FLOAT32, (7, 3))
    assert codes(gp.load, net, shapes={"x": (7, 5)}) == ["SHAPE0003"]


def test_two_loads_share_no_mutable_state(net):
    one, other = gp.load(net), gp.load(net)
    before = to_text(other.graph)
    one.graph.set_outputs([])
    assert to_text(other.graph) == before


def test_load_raises_all_errors_together(tmp_path):
    path = tmp_path / "wrong.nnef"
    path.write_text(NNEF.replace("relu(h)", "rellu(h)").replace("conv(x, w, b,", "conv(x, w, b, striide = [],"))
    found = codes(gp.load, path)
    assert len(found) == 2
    assert [finding.code for finding in gp.check(path)] == found


def test_check_reports_errors_of_load_and_warnings(net, tmp_path):
    assert gp.check(net) == []
    assert [finding.code for finding in gp.check(tmp_path / "missing")] == ["IO0001"]
    nodes = [node("Foo", ["x"], ["y"], domain="com.x")]
    path = write_onnx(tmp_path / "strange.onnx", model(nodes, [("x", [2])], [("y", [2])], domains={"com.x": 1}))
    assert [finding.code for finding in gp.check(path)] == ["LEG0001"]
    assert [finding.code for finding in gp.load(path).findings] == ["LEG0001"]


def test_check_reports_shape_errors(tmp_path):
    nodes = [node("Reshape", ["x", "s"], ["y"])]
    proto = model(nodes, [("x", [2, 3])], [("y", None)], {"s": np.array([4, 2])})
    path = write_onnx(tmp_path / "net.onnx", proto)
    assert [finding.code for finding in gp.check(path)] == ["SHAPE0001"]
    assert codes(gp.load, path) == ["SHAPE0001"]


# save and convert


@pytest.mark.parametrize("name", ["copy.onnx", "copy.nnef.tgz", "copy.tar", "copy"])
def test_save_derives_the_format_from_the_file_name(net, tmp_path, name):
    loaded = gp.load(net, shapes={"x": (2, 4)})
    gp.save(loaded, tmp_path / name)
    again = gp.load(tmp_path / name)
    assert gp.compare(loaded, again, {"x": X}).passed


def test_save_in_a_format_by_name(net, tmp_path):
    gp.save(gp.load(net, shapes={"x": (2, 4)}), tmp_path / "folder.x", format="nnef")
    assert (tmp_path / "folder.x" / "graph.nnef").is_file()


def test_save_writes_no_constants_without_consumer(small, tmp_path):
    gp.save(gp.load(small), tmp_path / "small.onnx")
    assert len(onnx.load(tmp_path / "small.onnx").graph.initializer) == 2


def test_onnx_is_stable_from_the_second_write_on(small, tmp_path):
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    gp.save(gp.load(small), first)
    gp.save(gp.load(first), second)
    gp.save(gp.load(second), tmp_path / "third.onnx")
    assert (tmp_path / "third.onnx").read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["small", "net"])
def test_raw_model_is_written_unchanged(name, request, tmp_path):
    source = request.getfixturevalue(name)
    raw = gp.load(source, raw=True)
    target = tmp_path / ("copy.onnx" if name == "net" else "copy")
    gp.save(raw, target)
    if name == "net":
        assert onnx.load(target).graph == onnx.load(source).graph
    else:
        assert (target / "graph.nnef").read_text() == (source / "graph.nnef").read_text()
        assert (target / "conv" / "w.dat").read_bytes() == (source / "conv" / "w.dat").read_bytes()


def test_a_raw_model_is_written_in_another_format(small, tmp_path):
    raw = gp.load(small, raw=True)
    gp.save(raw, tmp_path / "small.onnx")
    assert gp.compare(gp.load(small), gp.load(tmp_path / "small.onnx")).passed


def test_save_with_unsupported_operators_writes_no_file(tmp_path):
    nodes = [node("Foo", ["x"], ["h"], domain="com.x"), node("Hardmax", ["h"], ["y"])]
    path = write_onnx(tmp_path / "net.onnx", model(nodes, [("x", [2])], [("y", [2])], domains={"com.x": 1}))
    assert "LEG0002" in codes(gp.save, gp.load(path), tmp_path / "net.nnef.tgz")
    assert not (tmp_path / "net.nnef.tgz").exists()


def test_static_shape_arithmetic_is_folded_on_export(tmp_path):
    nodes = [
        node("Constant", [], ["one"], value_int=1),
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["n"], axis=0),
        node("Gather", ["x", "n"], ["g"], axis=2),
        node("Relu", ["g"], ["y"]),
    ]
    path = write_onnx(tmp_path / "net.onnx", model(nodes, [("x", ["N", 2, 4])], [("y", ["N", 2])]))
    report = gp.convert(path, tmp_path / "net.nnef.tgz", shapes={"x": (3, 2, 4)})
    assert not report.unsupported
    assert report.passed
    gp.save(gp.load(path, shapes={"x": (3, 2, 4)}), tmp_path / "saved.nnef.tgz")
    assert not gp.inspect(gp.load(path, shapes={"x": (3, 2, 4)})).unsupported["nnef"]


def test_loop_without_condition_has_an_absent_operand(tmp_path):
    types = onnx.TensorProto
    body = onnx.helper.make_graph(
        [node("Identity", ["c"], ["again"]), node("Add", ["x", "x"], ["row"])],
        "body",
        [typed("i", [], types.INT64), typed("c", [], types.BOOL)],
        [typed("again", [], types.BOOL), typed("row", [2])],
    )
    proto = model([node("Loop", ["count", ""], ["y"], body=body)], [("x", [2])], [("y", None)])
    proto.graph.input.append(typed("count", [], types.INT64))
    path = tmp_path / "net.onnx"
    gp.save(gp.from_onnx(proto), path)
    onnx.checker.check_model(path)
    assert list(onnx.load(path).graph.node[0].input) == ["count", ""]
    outputs = gp.run(gp.load(path), {"x": np.ones(2, np.float32), "count": np.array(3)})
    assert outputs["y"].shape == (3, 2)


def test_opaque_op_type_is_written_back_to_its_format(tmp_path):
    nodes = [node("Foo", ["x"], ["h"], domain="com.x", alpha=0.5), node("Relu", ["h"], ["y"])]
    path = write_onnx(tmp_path / "net.onnx", model(nodes, [("x", [2])], [("y", [2])], domains={"com.x": 3}))
    gp.save(gp.load(path), tmp_path / "copy.onnx")
    copy = onnx.load(tmp_path / "copy.onnx")
    assert copy.graph.node[0].domain == "com.x"
    assert copy.graph.node[0].attribute[0].f == 0.5
    assert {entry.domain: entry.version for entry in copy.opset_import}["com.x"] == 3


def test_convert_reports_and_verifies(small, tmp_path):
    report = gp.convert(small, tmp_path / "small.onnx")
    assert report.passed
    assert report.verification is not None
    assert report.verification.max_abs is not None
    assert report.verification.max_abs <= 1e-4
    assert (report.source, report.target, report.format) == (str(small), str(tmp_path / "small.onnx"), "onnx")
    onnx.checker.check_model(str(tmp_path / "small.onnx"), full_check=True)


def test_convert_verifies_with_given_inputs(net, tmp_path):
    assert gp.convert(net, tmp_path / "copy.onnx", inputs={"x": X}).passed
    assert codes(gp.convert, net, tmp_path / "copy.onnx", inputs={"z": X}) == ["RUN0006", "RUN0006"]


def test_convert_passes_options_to_the_writer(tmp_path):
    gp.convert(large_model(tmp_path / "large", 64, 64), tmp_path / "large.onnx", external_data=True)
    assert (tmp_path / "large.onnx.data").stat().st_size == 64 * 64 * 4


def test_convert_to_the_same_format_keeps_the_file(net, tmp_path):
    report = gp.convert(net, tmp_path / "copy.onnx")
    assert report.passed
    assert onnx.load(tmp_path / "copy.onnx").opset_import[0].version == 17


def test_convert_may_overwrite_its_source(net):
    before = onnx.load(net)
    assert gp.convert(net, net).passed
    assert onnx.load(net).graph == before.graph


@pytest.mark.parametrize(
    ("prepare", "options", "reason"),
    [
        pytest.param(
            lambda path: write_onnx(path, perceptron()), {"verify": False}, "not requested", id="not requested"
        ),
        pytest.param(
            lambda path: write_onnx(path, perceptron()), {"verify_limit": 100}, "exceed the limit of 0 MiB", id="large"
        ),
        pytest.param(
            lambda path: write_onnx(
                path,
                model([node("SequenceAt", ["s", "i"], ["y"])], [sequence()], [("y", None)], {"i": np.array(0)}),
            ),
            {},
            "cannot generate an input for 's'",
            id="nothing to run it on",
        ),
        pytest.param(
            lambda path: write_onnx(
                path,
                model(
                    [node("Gather", ["t", "i"], ["y"])],
                    [typed("i", [20], onnx.TensorProto.INT64)],
                    [("y", None)],
                    {"t": np.ones((1, 2), np.float32)},
                ),
            ),
            {},
            "no output proves anything: y was the same for all test inputs",
            id="a constant",
        ),
    ],
)
def test_convert_states_why_it_does_not_verify(prepare, options, reason, tmp_path):
    source = prepare(tmp_path / "net.onnx")
    report = gp.convert(source, tmp_path / "copy.onnx", **options)
    assert report.verification is None
    assert report.skipped is not None
    assert reason in report.skipped
    assert report.passed
    assert (tmp_path / "copy.onnx").is_file()


def sequence():
    return onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None)


def test_convert_without_weights_reports_it(tmp_path):
    path = tmp_path / "text.nnef"
    path.write_text(NNEF)
    report = gp.convert(path, tmp_path / "copy.nnef")
    assert report.skipped == "the elements of 2 weights are missing"


def test_convert_with_verify_fails_if_verification_is_impossible(tmp_path):
    source = write_onnx(
        tmp_path / "net.onnx",
        model([node("SequenceAt", ["s", "i"], ["y"])], [sequence()], [("y", None)], {"i": np.array(0)}),
    )
    assert codes(gp.convert, source, tmp_path / "copy.onnx", verify=True) == ["RUN0010"]
    assert not (tmp_path / "copy.onnx").exists()


# run and compare


@pytest.mark.parametrize("backend", ["auto", "onnxruntime", "reference"])
def test_run_returns_outputs_by_name(net, backend):
    found = gp.run(gp.load(net), {"x": X}, backend=backend)
    assert list(found) == ["y"]
    np.testing.assert_allclose(found["y"].sum(axis=1), [1, 1], rtol=1e-6)


def test_run_returns_every_value_on_request(net):
    assert list(gp.run(gp.load(net), {"x": X}, every_value=True)) == ["hidden", "active", "scores", "y"]


def test_run_of_a_raw_model(small):
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 4)).astype(np.float32)
    expected = gp.run(gp.load(small), {"x": x})["y"]
    np.testing.assert_array_equal(gp.run(gp.load(small, raw=True), {"x": x})["y"], expected)


def test_run_holds_inputs_against_the_model(net):
    assert codes(gp.run, gp.load(net), {}) == ["RUN0006"]
    assert codes(gp.run, gp.load(net), {"x": X}, backend="abacus") == ["RUN0001"]


def test_a_session_runs_many_times(net):
    session = gp.session(gp.load(net))
    for batch in (1, 3):
        assert session.run({"x": np.ones((batch, 4), np.float32)})["y"].shape == (batch, 3)


def test_an_output_that_is_returned_twice(tmp_path):
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", perceptron()))
    loaded.graph.add_output(loaded.graph.outputs[0])
    for backend in ("reference", "onnxruntime"):
        assert list(gp.run(loaded, {"x": X}, backend=backend)) == ["y", "y:2"]


def test_compare_of_equal_models_passes(net, small):
    found = gp.compare(gp.load(net), gp.load(net), {"x": X}, every_value=True)
    assert found.passed
    assert found.max_abs == 0
    assert found.first is None
    assert [value.name for value in found.values] == ["hidden", "active", "scores", "y"]
    assert gp.compare(gp.load(small), gp.load(small)).passed


def test_compare_names_the_first_value_that_differs(tmp_path):
    a, b = gp.load(write_nnef(tmp_path / "a")), gp.load(write_nnef(tmp_path / "b", scale=2))
    found = gp.compare(a, b, every_value=True)
    assert not found.passed
    assert found.first is not None
    assert found.first.name == "h"


def test_compare_pairs_by_name_then_by_index(tmp_path):
    def twin(first, second):
        nodes = [node("Sub", [first, second], [f"out_{first}"])]
        return model(nodes, [(first, [2]), (second, [2])], [(f"out_{first}", [2])])

    a = gp.from_onnx(twin("a", "b"))
    other = gp.from_onnx(twin("p", "q"))
    given = {"a": np.array([5, 7], np.float32), "b": np.array([1, 2], np.float32)}
    found = gp.compare(a, other, given)
    assert found.passed
    assert found.notes == ("out_a is paired with out_p by position",)


def test_compare_pairs_by_original_names(tmp_path):
    path = write_onnx(
        tmp_path / "odd.onnx",
        model([node("Sub", ["in/b", "in/a"], ["out:0"])], [("in/a", [2]), ("in/b", [2])], [("out:0", [2])]),
    )
    gp.convert(path, tmp_path / "odd.nnef.tgz")
    a, b = gp.load(path), gp.load(tmp_path / "odd.nnef.tgz")
    assert list(b.inputs) != list(a.inputs)
    found = gp.compare(a, b, {"in/a": np.zeros(2, np.float32), "in/b": np.ones(2, np.float32)})
    assert found.passed
    assert found.notes == ()


# inspect


def test_inspect_counts_raw_and_canonical_models_equally(small):
    for raw in (False, True):
        found = gp.inspect(gp.load(small, raw=raw))
        assert found.operators == {"Conv": 1, "Relu": 1}
        assert found.macs == 3 * 4 * 4 * 2 * 9
        assert found.parameters == 3 * 2 * 9 + 3
        assert (found.format, found.versions) == ("nnef", {"edition": "final"})


# The rest of the ecosystem


def test_onnx_protos_round_trip():
    loaded = gp.from_onnx(perceptron(opset=9))
    assert loaded.versions == {"ai.onnx": "9"}
    written = gp.to_onnx(loaded)
    onnx.checker.check_model(written, full_check=True)
    assert gp.compare(loaded, gp.from_onnx(written), {"x": X}).passed


def test_onnx_ir_models_are_accepted():
    import onnx_ir

    loaded = gp.from_onnx(onnx_ir.serde.deserialize_model(perceptron()))
    assert gp.compare(gp.from_onnx(perceptron()), loaded, {"x": X}).passed


def test_a_broken_message_is_reported():
    assert codes(gp.from_onnx, model([node("Relu", ["nothing"], ["y"])], [("x", [1])], [("y", [1])]))


def test_to_onnx_rejects_nnef_op_types(tmp_path):
    loaded = gp.load(write_nnef(tmp_path / "small"))
    for said in loaded.graph:
        if said.op == "Relu":
            said.dialect, said.op_type = "nnef", "stranger"
    assert codes(gp.to_onnx, loaded) == ["ONNX0601"]


def test_expressions_are_written_as_operators(tmp_path):
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    page = registry.op_defs()["graphport.Expression"]
    graph.add_output(Builder(Inference(), graph)(page, x, expression="maximum(add(@0,1),0)"))
    fused = gp.Model(graph)
    for name in ("m.onnx", "m.nnef"):
        gp.save(fused, tmp_path / name)
        assert gp.compare(fused, gp.load(tmp_path / name)).passed
    assert [each.op_type for each in gp.to_onnx(fused).graph.node] == ["Add", "Max"]


def test_unknown_writer_option_is_rejected(tmp_path):
    fused = gp.from_onnx(perceptron())
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.save(fused, tmp_path / "m.onnx", colour="blue")
    assert [finding.code for finding in caught.value.diagnostics] == ["IO0008"]
    assert list(tmp_path.iterdir()) == []
