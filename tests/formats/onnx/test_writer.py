from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx import AttributeProto, ModelProto, TensorProto, TypeProto, helper, numpy_helper

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import ArrayStorage, FileStorage, MappedFile, Storage, storage_of
from graphport.formats.onnx import from_proto, read, to_proto, write
from graphport.formats.onnx.container import writer
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ir.verify import verify
from graphport.ops.declare import OPSET
from tests.draws import times
from tests.every import every
from tests.formats.onnx.models import DATA, model, plain, tensor, weights
from tests.strategies import graphs

SQUEEZENET = DATA / "light_squeezenet.onnx"
VECTOR = TensorFact(DType.FLOAT32, (3,))


def canonical() -> Graph:
    """y = (x + w) with a weight and a symbolic batch."""
    graph = Graph("net", opsets={"": OPSET})
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N"), 3)))
    w = graph.add_constant("w", VECTOR, storage_of(np.array([1, 2, 3], np.float32)))
    graph.append(Node("Add", [x, w], [Value("y", TensorFact(DType.FLOAT32, (Symbol("N"), 3)))]))
    graph.add_output(next(iter(graph)).output)
    return graph


def run(path: Path | bytes, **inputs: Any) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    model_path = path if isinstance(path, bytes) else str(path)
    return list(onnxruntime.InferenceSession(model_path, options).run(None, inputs))


def round_trip(proto: ModelProto) -> ModelProto:
    onnx.checker.check_model(proto)
    graph = from_proto(proto)
    verify(graph)
    written = to_proto(graph)
    onnx.checker.check_model(written)
    assert to_proto(from_proto(written)).SerializeToString() == written.SerializeToString()
    return written


def refusal(graph: Graph, path: Path, **options: Any) -> str:
    with pytest.raises(DiagnosticError) as caught:
        write(graph, path, **options)
    return str(caught.value)


# Nothing is lost


def test_file_round_trips_byte_for_byte(tmp_path: Path) -> None:
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    write(read(SQUEEZENET), first)
    write(read(first), second)
    assert first.read_bytes() == second.read_bytes()
    assert plain(onnx.load(first)) == plain(onnx.load(SQUEEZENET))
    onnx.checker.check_model(first)


def rich() -> ModelProto:
    """A model with something in every field that a reader could forget."""
    large = np.arange(3000, dtype=np.float32)
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["r"])], "t", [], [tensor("r", None)])
    orelse = helper.make_graph([], "e", [], [tensor("k", [3000])], initializer=[weights("k", large)])
    nodes = [
        helper.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=orelse, doc_string="why"),
        helper.make_node("Constant", [], ["big"], value=weights("name of a tensor", large)),
        helper.make_node("Clip", ["big", "", "w"], ["z"]),
        helper.make_node("Op", ["x", "", ""], ["", "o"], domain="my", names=["a", "b"], rate=0.1, raw=b"\xff"),
    ]
    for name in ("floats", "ints", "strings", "graphs"):
        nodes[3].attribute.append(AttributeProto(name=name, type=name.upper(), doc_string=f"no {name}"))
    nodes[3].attribute.append(helper.make_attribute("type", helper.make_tensor_type_proto(1, [2], ["BATCH"])))
    nodes[3].overload = "second"
    nodes[0].metadata_props.add(key="trace", value="line 7")
    x = tensor("x", ["batch size", "?", -1, None])
    x.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    x.type.denotation, x.doc_string = "IMAGE", "pixels"
    mapping = helper.make_value_info(
        "o", TypeProto(map_type=TypeProto.Map(key_type=7, value_type=helper.make_tensor_type_proto(1, None)))
    )
    proto = model(
        nodes,
        [tensor("c", [], TensorProto.BOOL), x, tensor("w", [])],
        [tensor("y", None), tensor("z", [3000]), mapping],
        imports={"my": 3, "unused": 1},
        ir_version=10,
        initializer=[weights("w", np.array(5, np.float32))],
        value_info=[tensor("big", ["M"])],
    )
    proto.graph.doc_string = "a graph"
    proto.graph.metadata_props.add(key="k", value="v")
    proto.graph.initializer[0].doc_string = "a weight"
    annotation = proto.graph.quantization_annotation.add(tensor_name="big")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    proto.doc_string, proto.producer_name, proto.model_version, proto.domain = "all of it", "test", 4, "org.example"
    helper.set_model_props(proto, {"author": "somebody"})
    training = proto.training_info.add()
    training.algorithm.name = "step"
    training.update_binding.add(key="w", value="w_new")
    proto.configuration.add(name="pair", num_devices=2)
    nodes[0].device_configurations.add(configuration_id="pair", pipeline_stage=1)
    return proto


def test_model_metadata_round_trips() -> None:
    proto = rich()
    written = to_proto(from_proto(proto))
    assert plain(written) == plain(proto)
    assert to_proto(from_proto(written)).SerializeToString() == written.SerializeToString()


@every("dtype", list(DType), ids=str)
def test_weights_of_every_type_survive(dtype: DType) -> None:
    if dtype is DType.STRING:
        weight = TensorProto(name="w", data_type=TensorProto.STRING, dims=[2], string_data=["é".encode(), b"\xff"])
    else:
        numbers = np.array([1, 1, 0]).astype(dtype.numpy) if dtype is not DType.FLOAT8E8M0 else np.ones(3, dtype.numpy)
        weight = weights("w", numbers)
    proto = model([], [], [tensor("w", [len(weight.string_data) or 3], weight.data_type)], initializer=[weight])
    assert round_trip(proto).graph.initializer[0] == weight


def test_sparse_initializers_stay_sparse_and_are_dense_numbers() -> None:
    dense = np.zeros((4, 5), np.float32)
    dense[1, 2], dense[3, 0] = 7, -1
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor("x", [4, 5])], [tensor("y", [4, 5])])
    sparse = proto.graph.sparse_initializer.add(dims=[4, 5])
    sparse.values.CopyFrom(weights("w", dense[dense != 0]))
    sparse.indices.CopyFrom(weights("", np.flatnonzero(dense)))
    assert round_trip(proto) == proto
    (constant,) = from_proto(proto).constants
    assert constant.storage is not None
    np.testing.assert_array_equal(constant.storage.numpy(), dense)


def test_inputs_with_defaults_stay_inputs() -> None:
    proto = model(
        [helper.make_node("Add", ["w", "x"], ["y"])],
        [tensor("w", [3]), tensor("x", [3])],
        [tensor("y", [3])],
        ir_version=3,
        opset=8,
        initializer=[weights("w", np.ones(3, np.float32))],
    )
    assert round_trip(proto) == proto
    assert run(to_proto(from_proto(proto)).SerializeToString(), x=np.ones(3, np.float32))[0].tolist() == [2, 2, 2]


def test_added_constant_raises_the_ir_version() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], ir_version=3, opset=8)
    graph = from_proto(proto)
    graph.add_constant("more", VECTOR, storage_of(np.ones(3, np.float32)))
    written = to_proto(graph)
    assert written.ir_version == 4
    assert [value.name for value in written.graph.input] == ["x"]


@pytest.mark.parametrize("kind", ["nothing", "no element type", "optional of a map"])
def test_incomplete_types_round_trip(kind: str) -> None:
    proto = model([helper.make_node("Op", ["x"], ["y"], domain="my")], imports={"my": 1})
    for declared in (proto.graph.input[0], proto.graph.output[0]):
        declared.ClearField("type")
        if kind == "no element type":
            declared.type.tensor_type.shape.dim.add(dim_value=3)
        elif kind == "optional of a map":
            declared.type.optional_type.elem_type.map_type.key_type = TensorProto.INT64
    assert to_proto(from_proto(proto)) == proto


def test_changed_facts_are_written() -> None:
    proto = model(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        value_info=[tensor("h", ["?"])],
    )
    graph = from_proto(proto)
    for value in graph.values():
        value.fact = VECTOR
    written = to_proto(graph).graph
    for declared in (written.input[0], written.value_info[0], written.output[0]):
        assert [dim.dim_value for dim in declared.type.tensor_type.shape.dim] == [3]


# What runtimes take


def test_a_canonical_graph_is_a_model_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    write(canonical(), path)
    onnx.checker.check_model(path, full_check=True)
    found = onnx.load(path)
    assert (found.opset_import[0].version, found.ir_version) == (17, 8)
    np.testing.assert_array_equal(run(path, x=np.ones((2, 3), np.float32))[0], [[2, 3, 4]] * 2)


def test_the_opset_can_be_chosen(tmp_path: Path) -> None:
    write(canonical(), tmp_path / "net.onnx", opset=OPSET)
    assert onnx.load(tmp_path / "net.onnx").opset_import[0].version == OPSET
    assert run(tmp_path / "net.onnx", x=np.zeros((1, 3), np.float32))[0].tolist() == [[1, 2, 3]]
    assert "ONNX0602" in refusal(canonical(), tmp_path / "net.onnx", opset=5)


def test_a_body_that_returns_an_outer_value_gets_a_copy() -> None:
    branches = {name: Graph(name) for name in ("then_branch", "else_branch")}
    graph = Graph("net", opsets={"": OPSET})
    c = graph.add_input("c", TensorFact(DType.BOOL, ()))
    x = graph.add_input("x", VECTOR)
    negative = branches["else_branch"].append(Node("Neg", [x], [Value("n", VECTOR)]))
    branches["then_branch"].add_output(x)
    branches["else_branch"].add_output(negative.output)
    graph.append(Node("If", [c], [Value("y", VECTOR)], branches))
    graph.add_output(next(iter(graph)).output)
    written = to_proto(graph)
    onnx.checker.check_model(written)
    for condition, expected in ((True, [1, 1, 1]), (False, [-1, -1, -1])):
        result = run(written.SerializeToString(), c=np.array(condition), x=np.ones(3, np.float32))
        assert result[0].tolist() == expected


def test_nodes_are_written_in_topological_order() -> None:
    graph = Graph("net", opsets={"": OPSET})
    x = graph.add_input("x", VECTOR)
    first = Node("Neg", [x], [Value("h", VECTOR)])
    graph.append(Node("Abs", [first.output], [Value("y", VECTOR)]))
    graph.append(first)
    graph.add_output(next(iter(graph)).output)
    assert [node.op_type for node in to_proto(graph).graph.node] == ["Neg", "Abs"]
    assert [node.op_type for node in graph] == ["Abs", "Neg"]


def test_attributes_take_the_types_of_the_schema() -> None:
    graph = Graph("net", opsets={"": OPSET})
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (1, 1)))
    elu = graph.append(Node("Elu", [x], [Value("a", VECTOR)], {"alpha": 2}))
    cast = graph.append(Node("Cast", [elu.output], [Value("b", VECTOR)], {"to": DType.FLOAT16, "saturate": False}))
    mean = graph.append(Node("Transpose", [cast.output], [Value("c", VECTOR)], {"perm": ()}))
    graph.add_output(mean.output)
    written = to_proto(graph).graph.node
    assert [(a.name, helper.get_attribute_value(a)) for node in written for a in node.attribute] == [
        ("alpha", 2.0),
        ("to", TensorProto.FLOAT16),
        ("saturate", 0),
        ("perm", []),
    ]
    assert written[2].attribute[0].type == AttributeProto.INTS


# External data


def large_graph() -> Graph:
    """With four large weights, of which two share their numbers, and a small one."""
    graph = canonical()
    array = np.arange(3000, dtype=np.float32)
    shared = ArrayStorage(array)
    for name, storage in (
        ("a", shared),
        ("b", ArrayStorage(array.astype(np.float64))),
        ("c", ArrayStorage(array.astype(DType.INT4.numpy), DType.INT4)),
        ("a again", shared.reshaped((30, 100))),
    ):
        graph.add_constant(name, TensorFact.of(storage), storage)
    return graph


def numbers(path: Path) -> dict[str, bytes]:
    return {value.name: value.storage.numpy().tobytes() for value in read(path).constants if value.storage is not None}


@pytest.mark.parametrize(("option", "name"), [(True, "net.onnx.data"), ("weights.bin", "weights.bin")])
def test_weights_are_written_in_sidecar_files(tmp_path: Path, option: bool | str, name: str) -> None:
    path = tmp_path / "net.onnx"
    write(large_graph(), path, external_data=option)
    assert {entry.name for entry in tmp_path.iterdir()} == {"net.onnx", name}
    placed = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in onnx.load(path, load_external_data=False).graph.initializer
    }
    assert placed["w"] == {}
    assert placed["a"] == placed["a again"] == {"location": name, "offset": "0", "length": "12000"}
    assert [int(entry["offset"]) % 64 for entry in placed.values() if entry] == [0] * 4
    assert (tmp_path / name).stat().st_size == int(placed["c"]["offset"]) + 1500
    write(large_graph(), tmp_path / "inside.onnx")
    assert numbers(path) == numbers(tmp_path / "inside.onnx")
    onnx.checker.check_model(path)
    assert run(path, x=np.zeros((1, 3), np.float32))[0].tolist() == [[1, 2, 3]]


def test_a_model_with_external_weights_keeps_them_beside(tmp_path: Path) -> None:
    write(large_graph(), tmp_path / "a.onnx", external_data=True)
    write(read(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    assert (tmp_path / "b.onnx.data").exists()
    write(read(tmp_path / "a.onnx"), tmp_path / "c.onnx", external_data=False)
    assert not (tmp_path / "c.onnx.data").exists()
    assert numbers(tmp_path / "c.onnx") == numbers(tmp_path / "a.onnx")


def test_model_may_overwrite_its_source(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    write(large_graph(), path, external_data=True)
    expected = numbers(path)
    for option in (True, False, True):
        write(read(path), path, external_data=option)
        assert numbers(path) == expected


@pytest.mark.parametrize("option", [False, True])
def test_a_graph_stays_whole_when_its_file_is_replaced(tmp_path: Path, option: bool) -> None:
    path = tmp_path / "net.onnx"
    write(large_graph(), path, external_data=option)
    expected = numbers(path)
    graph = read(path)
    write(canonical(), path)
    (tmp_path / "other").write_bytes(bytes(100_000))
    (tmp_path / "other").replace(tmp_path / "net.onnx.data")
    for _ in range(2):
        write(graph, tmp_path / "copy.onnx")
        assert numbers(tmp_path / "copy.onnx") == expected
        path.unlink(missing_ok=True)


def test_overwritten_values_are_refused(tmp_path: Path) -> None:
    write(large_graph(), tmp_path / "net.onnx", external_data=True)
    graph = read(tmp_path / "net.onnx")
    with (tmp_path / "net.onnx.data").open("r+b") as file:
        file.write(bytes(100_000))
    assert "was changed" in refusal(graph, tmp_path / "copy.onnx")


def test_oversized_model_uses_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_BYTES", 20_000)
    write(large_graph(), tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx.data").exists()
    assert "ONNX0603" in refusal(large_graph(), tmp_path / "net.onnx", external_data=False)
    with pytest.raises(DiagnosticError, match="ONNX0603"):
        to_proto(large_graph())


def test_large_attributes_use_external_data_only_if_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph("net", opsets={"": OPSET})
    value = storage_of(np.arange(3000, dtype=np.float32))
    node = graph.append(Node("Constant", [], [Value("y", TensorFact.of(value))], {"value": value}))
    graph.add_output(node.output)
    write(graph, tmp_path / "net.onnx", external_data=True)
    assert not (tmp_path / "net.onnx.data").exists()
    monkeypatch.setattr(writer, "MOST_BYTES", 1000)
    write(graph, tmp_path / "net.onnx")
    found = next(iter(read(tmp_path / "net.onnx"))).attributes["value"]
    assert isinstance(found, Storage)
    assert found.numpy().tobytes() == value.numpy().tobytes()


@pytest.mark.skipif(not hasattr(os, "truncate") or sys.platform == "win32", reason="needs files with holes")
def test_gigabytes_are_written_and_read_in_little_memory(tmp_path: Path) -> None:
    import resource

    (tmp_path / "zeros").touch()
    os.truncate(tmp_path / "zeros", 1 << 28)
    graph = canonical()
    storage = FileStorage(MappedFile(tmp_path / "zeros"), 0, DType.FLOAT32, (1 << 26,))
    graph.add_constant("huge", TensorFact.of(storage), storage)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    write(graph, tmp_path / "net.onnx")
    write(read(tmp_path / "net.onnx"), tmp_path / "net.onnx", external_data=True)
    assert (tmp_path / "net.onnx.data").stat().st_size == 1 << 28
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


# Refusals and interruptions


@pytest.mark.parametrize("name", ["../w.bin", "a/b", "/w.bin", "", "..", "net.onnx", "a\\b"])
def test_external_data_must_be_next_to_the_model(tmp_path: Path, name: str) -> None:
    assert "ONNX0607" in refusal(large_graph(), tmp_path / "net.onnx", external_data=name)
    assert not list(tmp_path.iterdir())


def _foreign(graph: Graph) -> None:
    graph.append(Node("conv", graph.inputs, [Value("f")], dialect="nnef"))


def _unknown(graph: Graph) -> None:
    graph.append(Node("Op", graph.inputs, [Value("f")], {"a": ((1, 2), (3,))}, dialect="my"))


def _no_numbers(graph: Graph) -> None:
    graph.add_constant("k", VECTOR)


def _no_type(graph: Graph) -> None:
    graph.add_input("untyped", UNKNOWN)


def _wrong_value(graph: Graph) -> None:
    graph.append(Node("Elu", graph.inputs, [Value("f")], {"alpha": "much"}))


@pytest.mark.parametrize(
    ("flaw", "code"),
    [
        (_foreign, "ONNX0601"),
        (_no_numbers, "ONNX0604"),
        (_unknown, "ONNX0605"),
        (_wrong_value, "ONNX0605"),
        (_no_type, "ONNX0606"),
    ],
)
def test_inexpressible_graphs_are_refused_without_output_files(tmp_path: Path, flaw: Any, code: str) -> None:
    graph = canonical()
    flaw(graph)
    assert code in refusal(graph, tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


class Broken(ArrayStorage):
    """Numbers whose file fails halfway."""

    def chunks(self, limit: int = 1 << 20) -> Any:
        yield from list(super().chunks(limit))[:1]
        raise OSError("the disk is gone")


@pytest.mark.parametrize("option", [False, True])
def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, option: bool) -> None:
    path = tmp_path / "net.onnx"
    write(canonical(), path, external_data=option)
    before = {entry: entry.read_bytes() for entry in tmp_path.iterdir()}
    graph = canonical()
    graph.add_constant("broken", VECTOR, Broken(np.zeros(5000, np.float32)))
    assert "ONNX0608" in refusal(graph, path, external_data=option)
    assert {entry: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def test_a_storage_with_fewer_numbers_than_it_states_is_noticed(tmp_path: Path) -> None:
    class Short(ArrayStorage):
        def chunks(self, limit: int = 1 << 20) -> Any:
            return iter(list(super().chunks(limit))[:-1])

    graph = canonical()
    graph.add_constant("short", VECTOR, Short(np.zeros(5000, np.float32)))
    assert "ONNX0608" in refusal(graph, tmp_path / "net.onnx")


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    assert "ONNX0607" in refusal(canonical(), tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "ONNX0607" in refusal(canonical(), tmp_path / "pipe")


def test_a_folder_that_does_not_exist_is_a_finding(tmp_path: Path) -> None:
    assert "ONNX0608" in refusal(canonical(), tmp_path / "none" / "net.onnx")


def test_training_info_of_removed_values_is_dropped() -> None:
    proto = rich()
    graph = from_proto(proto)
    w = next(value for value in graph.constants)
    for use in list(w.uses):
        assert isinstance(use.user, Node)
        use.user.set_input(use.index, None)
    graph.remove_constant(w)
    findings: list[Diagnostic] = []
    assert not to_proto(graph, findings=findings).training_info
    assert [finding.code for finding in findings] == ["ONNX0609"]


def test_names_that_utf8_cannot_spell_are_bent() -> None:
    graph = canonical()
    graph.rename(graph.inputs[0], "x\ud800")
    graph.rename(next(iter(graph.constants)), "")
    written = to_proto(graph)
    onnx.checker.check_model(written)
    assert [written.graph.input[0].name, written.graph.initializer[0].name] == ["x_", "_"]
    assert graph.inputs[0].name == "x\ud800"


@settings(max_examples=times(30))
@given(graphs())
def test_any_graph_is_written_or_refused(graph: Graph) -> None:
    for body in walk(graph):
        for node in body:
            node.dialect = "my" if node.dialect == "nnef" else node.dialect
    try:
        written = to_proto(graph)
    except DiagnosticError:
        return
    assert len(written.graph.node) == len(graph)


def test_numbers_are_little_endian_and_packed() -> None:
    storage = ArrayStorage(np.array([1, -2, 3], DType.INT4.numpy), DType.INT4)
    graph = canonical()
    graph.add_constant("n", TensorFact.of(storage), storage)
    found = to_proto(graph).graph.initializer[1]
    assert found.raw_data == b"\xe1\x03"
    assert numpy_helper.to_array(found).tolist() == [1, -2, 3]


def test_duplicate_node_names_are_made_unique(tmp_path: Path) -> None:
    graph = canonical()
    add = next(iter(graph))
    add.name = "layer"
    value = add.output
    for name in ("layer", "layer_1", "layer"):
        node = Node("Neg", [value], [Value(graph.fresh("y"), value.fact)])
        node.name = name
        value = graph.append(node).output
    graph.set_outputs([value])
    write(graph, tmp_path / "net.onnx")
    names = [node.name for node in onnx.load(tmp_path / "net.onnx").graph.node]
    assert len(set(names)) == 4
    assert names[0] == "layer"
    assert names[2] == "layer_1"
    run(tmp_path / "net.onnx", x=np.ones((1, 3), np.float32))
