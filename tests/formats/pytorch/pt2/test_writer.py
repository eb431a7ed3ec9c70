"""Programs that are written: read again and computed by the reference, and their archive."""

import json
import sys
import zipfile
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

import graphport as gp
from graphport.formats.pytorch.pt2.names import Identifiers, QualifiedNames
from graphport.formats.pytorch.pt2.sizes import Sizes

RANDOM = np.random.default_rng(5)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def model(nodes, inputs, outputs, weights=(), opset=21):
    def values(stated):
        return [h.make_tensor_value_info(name, kind, shape) for name, kind, shape in stated]

    graph = h.make_graph(nodes, "net", values(inputs), values(outputs), [nh.from_array(w, n) for n, w in weights])
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)])
    made.ir_version = 10
    return made


def network():
    nodes = [
        h.make_node("Conv", ["x", "features.0.weight", "features.0.bias"], ["c"], pads=[1, 1, 1, 1]),
        h.make_node("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["n"]),
        h.make_node("Relu", ["n"], ["r"]),
        h.make_node("GlobalAveragePool", ["r"], ["p"]),
        h.make_node("Flatten", ["p"], ["f"]),
        h.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], transB=1),
    ]
    weights = {
        "features.0.weight": floats(8, 3, 3, 3),
        "features.0.bias": floats(8),
        "bn.weight": floats(8),
        "bn.bias": floats(8),
        "bn.mean": floats(8),
        "bn.var": floats(8) ** 2 + 1,
        "fc.weight": floats(10, 8),
        "fc.bias": floats(10),
    }
    return model(nodes, [("x", T.FLOAT, ["batch", 3, 16, "width"])], [("y", T.FLOAT, ["batch", 10])], weights.items())


def written(made, folder, name="net"):
    onnx.save(made, folder / "source.onnx")
    source = gp.load(folder / "source.onnx")
    gp.save(source, folder / f"{name}.pt2")
    return source, gp.load(folder / f"{name}.pt2")


def document(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(f"{path.stem}/models/model.json"))


def agree(one, other, inputs):
    for name, expected in gp.run(one, inputs).items():
        np.testing.assert_allclose(gp.run(other, inputs)[name], expected, rtol=1e-4, atol=1e-5)


def test_a_network_is_the_same_at_other_sizes(tmp_path):
    source, back = written(network(), tmp_path)
    agree(source, back, {"x": floats(2, 3, 16, 16)})
    agree(source, back, {"x": floats(5, 3, 16, 9)})


def test_weights_are_parameters_and_statistics_are_buffers(tmp_path):
    written(network(), tmp_path)
    specs = document(tmp_path / "net.pt2")["graph_module"]["signature"]["input_specs"]
    assert [spec["parameter"]["parameter_name"] for spec in specs if "parameter" in spec] == [
        *("features.0.weight", "features.0.bias", "bn.weight", "bn.bias", "fc.weight", "fc.bias")
    ]
    assert [spec["buffer"]["buffer_name"] for spec in specs if "buffer" in spec] == ["bn.mean", "bn.var"]


def test_a_transposed_weight_is_a_parameter_and_relu6_keeps_its_gradient(tmp_path):
    nodes = [
        h.make_node("Transpose", ["fc.weight"], ["t"], perm=[1, 0]),
        h.make_node("MatMul", ["x", "t"], ["m"]),
        h.make_node("CastLike", ["six", "m"], ["high"]),
        h.make_node("Clip", ["m", "zero", "high"], ["y"]),
    ]
    weights = [("fc.weight", floats(4, 3)), ("zero", np.float32(0)), ("six", np.float32(6))]
    written(model(nodes, [("x", T.FLOAT, ["n", 3])], [("y", T.FLOAT, ["n", 4])], weights), tmp_path)
    module = document(tmp_path / "net.pt2")["graph_module"]
    names = [spec["parameter"]["parameter_name"] for spec in module["signature"]["input_specs"] if "parameter" in spec]
    assert names == ["fc.weight"]
    assert "torch.ops.aten.hardtanh.default" in [node["target"] for node in module["graph"]["nodes"]]


def test_open_dims_are_symbols_with_ranges(tmp_path):
    written(network(), tmp_path)
    program = document(tmp_path / "net.pt2")
    sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    assert sizes[0]["as_expr"]["expr_str"] == "Symbol('s0', positive=True, integer=True)"
    assert sizes[1] == {"as_int": 3}
    assert program["range_constraints"]["s0"] == {"min_val": 1, "max_val": None}


def test_members_are_stored_and_their_data_is_aligned(tmp_path):
    written(network(), tmp_path)
    with zipfile.ZipFile(tmp_path / "net.pt2") as archive, (tmp_path / "net.pt2").open("rb") as file:
        for info in archive.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
            file.seek(info.header_offset + 26)
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            assert (info.header_offset + 30 + name + extra) % 64 == 0
        assert archive.testzip() is None
        assert archive.read("net/archive_format") == b"pt2"


def branch(name, nodes):
    return h.make_graph(nodes, name, [], [h.make_tensor_value_info(f"{name}_y", T.FLOAT, [2, 3])])


@pytest.mark.parametrize("chosen", [True, False])
def test_branches(tmp_path, chosen):
    then = branch("then", [h.make_node("Mul", ["x", "w"], ["then_y"])])
    other = branch("else", [h.make_node("Sub", ["x", "w"], ["else_y"])])
    nodes = [h.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    inputs = [("c", T.BOOL, []), ("x", T.FLOAT, [2, 3])]
    source, back = written(model(nodes, inputs, [("y", T.FLOAT, [2, 3])], [("w", floats(3))]), tmp_path)
    agree(source, back, {"c": np.array(chosen), "x": floats(2, 3)})
    targets = [node["target"] for node in document(tmp_path / "net.pt2")["graph_module"]["graph"]["nodes"]]
    assert "torch.ops.higher_order.cond" in targets


@pytest.mark.parametrize("count", [0, 1, 4])
def test_loops_carry_and_stack(tmp_path, count):
    body = h.make_graph(
        [
            h.make_node("Identity", ["going"], ["again"]),
            h.make_node("Mul", ["state", "w"], ["next"]),
            h.make_node("Add", ["next", "x"], ["row"]),
        ],
        "body",
        [
            h.make_tensor_value_info("i", T.INT64, []),
            h.make_tensor_value_info("going", T.BOOL, []),
            h.make_tensor_value_info("state", T.FLOAT, [3]),
        ],
        [
            h.make_tensor_value_info("again", T.BOOL, []),
            h.make_tensor_value_info("next", T.FLOAT, [3]),
            h.make_tensor_value_info("row", T.FLOAT, [3]),
        ],
    )
    nodes = [h.make_node("Loop", ["m", "", "x"], ["last", "rows"], body=body)]
    inputs = [("m", T.INT64, []), ("x", T.FLOAT, [3])]
    outputs = [("last", T.FLOAT, [3]), ("rows", T.FLOAT, ["n", 3])]
    source, back = written(model(nodes, inputs, outputs, [("w", floats(3))]), tmp_path)
    agree(source, back, {"m": np.array(count), "x": floats(3)})


@pytest.mark.parametrize("kind", [T.INT2, T.INT4, T.UINT2, T.UINT4, T.FLOAT4E2M1])
def test_a_wider_type_holds_elements_below_a_byte(tmp_path, kind):
    zero = h.make_tensor("zero", kind, [], [0])
    nodes = [
        h.make_node("Cast", ["x"], ["cast"], to=kind),
        h.make_node("QuantizeLinear", ["x", "scale", "zero"], ["quantized"]),
        h.make_node("DequantizeLinear", ["quantized", "scale"], ["y"]),
    ]
    outputs = [("cast", kind, [40]), ("quantized", kind, [40]), ("y", T.FLOAT, [40])]
    made = model(nodes, [("x", T.FLOAT, [40])], outputs, [("scale", np.float32(0.5))], opset=25)
    made.graph.initializer.append(zero)
    source, back = written(made, tmp_path)
    assert {finding.code for finding in gp.save(source, tmp_path / "net.pt2")} == {"PT0106"}
    x = np.concatenate([np.linspace(-20, 20, 37), [0.25, 2.5, -3.5]]).astype(np.float32)
    found = gp.run(back, {"x": x}, backend="reference")
    for name, expected in gp.run(source, {"x": x}, backend="reference").items():
        assert np.array_equal(found[name], expected.astype(found[name].dtype))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_floats_are_rounded_to_powers_of_two(tmp_path, mode, saturate):
    nodes = [h.make_node("Cast", ["x"], ["y"], to=T.FLOAT8E8M0, round_mode=mode, saturate=saturate)]
    made = model(nodes, [("x", T.FLOAT, [9])], [("y", T.FLOAT8E8M0, [9])], opset=25)
    source, back = written(made, tmp_path)
    x = np.array([0, 1, 1.25, 1.5, -1.75, 1e-40, 3e38, np.inf, np.nan], np.float32)
    found, expected = (gp.run(each, {"x": x}, backend="reference")["y"].view(np.uint8) for each in (back, source))
    assert np.array_equal(found, expected)


def test_strings_are_refused(tmp_path):
    nodes = [h.make_node("Cast", ["x"], ["y"], to=T.STRING)]
    onnx.save(model(nodes, [("x", T.FLOAT, [3])], [("y", T.STRING, [3])]), tmp_path / "source.onnx")
    with pytest.raises(gp.DiagnosticError, match="PyTorch does not support tensors of string"):
        gp.save(gp.load(tmp_path / "source.onnx"), tmp_path / "net.pt2")
    assert not (tmp_path / "net.pt2").exists()


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
def test_attention_to_the_valid_keys_of_each_sample(tmp_path, kind):
    dtype = h.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [h.make_node("Attention", ["q", "k", "k", "mask", "", "", "n"], ["y"], is_causal=1, softmax_precision=1)]
    inputs = [("q", dtype, [2, 2, 4, 8]), ("k", dtype, [2, 2, 6, 8]), ("mask", dtype, [4, 4]), ("n", T.INT64, [2])]
    source, back = written(model(nodes, inputs, [("y", dtype, [2, 2, 4, 8])], opset=24), tmp_path)
    q, k, mask = (floats(*shape).astype(kind) for shape in ((2, 2, 4, 8), (2, 2, 6, 8), (4, 4)))
    given = {"q": q, "k": k, "mask": mask, "n": np.array([3, 4])}  # with 3 keys, the first query attends to none
    found, expected = (gp.run(each, given, backend="reference")["y"].astype(np.float32) for each in (back, source))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if kind == np.float32 else 5e-2)


def test_rows_of_open_shape_keep_their_constant_dims_without_iterations(tmp_path):
    body = h.make_graph(
        [h.make_node("Identity", ["going"], ["again"]), h.make_node("Add", ["x", "x"], ["row"])],
        "body",
        [h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("going", T.BOOL, [])],
        [h.make_tensor_value_info("again", T.BOOL, []), h.make_tensor_value_info("row", T.FLOAT, ["k", 4])],
    )
    nodes = [h.make_node("Loop", ["m", ""], ["rows"], body=body)]
    inputs = [("m", T.INT64, []), ("x", T.FLOAT, ["k", 4])]
    _, back = written(model(nodes, inputs, [("rows", T.FLOAT, ["n", "k", 4])]), tmp_path)
    assert gp.run(back, {"m": np.array(2), "x": floats(3, 4)})["rows"].shape == (2, 3, 4)
    # Torch computes the shape of no rows from the initial state.
    storages = [value.storage for value in gp.load(tmp_path / "net.pt2", raw=True).graph.constants]
    assert [0, 4] in [storage.numpy().tolist() for storage in storages]


def agree_in_reference(made, folder, inputs):
    source, back = written(made, folder)
    found = gp.run(back, inputs, backend="reference")
    for name, expected in gp.run(source, inputs, backend="reference").items():
        assert found[name].dtype == expected.dtype
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5)


def quantized_network():
    nodes = [
        h.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        h.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        h.make_node("DequantizeLinear", ["w", "scales"], ["k"], axis=0),
        h.make_node("Conv", ["d", "k"], ["y"]),
    ]
    weights = {
        "scale": np.float32(0.05),
        "zero": np.uint8(120),
        "w": RANDOM.integers(-127, 127, (4, 3, 1, 1)).astype(np.int8),
        "scales": np.array([0.01, 0.02, 0.03, 0.04], np.float32),
    }
    return model(nodes, [("x", T.FLOAT, ["n", 3, 5, 5])], [("y", T.FLOAT, ["n", 4, 5, 5])], weights.items())


def test_quantization_is_written_as_pytorch_operators(tmp_path):
    onnx.save(quantized_network(), tmp_path / "source.onnx")
    source = gp.load(tmp_path / "source.onnx")
    gp.save(source, tmp_path / "net.pt2", qdq=True)
    graph = document(tmp_path / "net.pt2")["graph_module"]["graph"]
    nodes = {node["target"].split(".", 2)[2]: node for node in graph["nodes"]}
    quantize = nodes["quantized_decomposed.quantize_per_tensor.default"]
    assert [argument["name"] for argument in quantize["inputs"]] == [
        *("input", "scale", "zero_point", "quant_min", "quant_max", "dtype")
    ]
    literals = [{"as_int": 120}, {"as_int": 0}, {"as_int": 255}, {"as_scalar_type": 1}]
    assert [each["arg"] for each in quantize["inputs"][2:]] == literals
    assert "quantized_decomposed.dequantize_per_channel.default" in nodes
    agree(source, gp.load(tmp_path / "net.pt2"), {"x": floats(2, 3, 5, 5)})


@pytest.mark.parametrize("centre", [0, 1])
def test_suppression_keeps_the_best_boxes_of_each_class(tmp_path, centre):
    limits = [("most", np.int64(3)), ("overlap", np.float32(0.4)), ("least", np.float32(0.2))]
    nodes = [h.make_node("NonMaxSuppression", ["b", "s", "most", "overlap", "least"], ["y"], center_point_box=centre)]
    inputs = [("b", T.FLOAT, [2, "n", 4]), ("s", T.FLOAT, [2, 3, "n"])]
    scores = np.linspace(0, 1, 60, dtype=np.float32)[RANDOM.permutation(60)].reshape(2, 3, 10)
    boxes = RANDOM.uniform(0.5, 2, (2, 10, 4)).astype(np.float32)
    agree_in_reference(model(nodes, inputs, [("y", T.INT64, ["k", 3])], limits), tmp_path, {"b": boxes, "s": scores})


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
def test_regions_are_sampled_in_and_beyond_the_image(tmp_path, mode, place):
    sizes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5}
    nodes = [
        h.make_node("RoiAlign", ["x", "r", "i"], ["y"], mode=mode, coordinate_transformation_mode=place, **sizes),
    ]
    inputs = [("x", T.FLOAT, [2, 3, 6, 7]), ("r", T.FLOAT, ["n", 4]), ("i", T.INT64, ["n"])]
    regions = np.array([[0, 0, 9, 8], [-6, 2, 5, 20], [3, 3, 3, 3]], np.float32)
    given = {"x": floats(2, 3, 6, 7), "r": regions, "i": np.array([1, 0, 1])}
    agree_in_reference(model(nodes, inputs, [("y", T.FLOAT, ["n", 3, 2, 3])]), tmp_path, given)


def test_a_deformed_convolution_with_groups_and_mask(tmp_path):
    sizes = {"pads": [1, 0, 1, 2], "strides": [2, 1], "dilations": [1, 2], "group": 2, "offset_group": 2}
    nodes = [h.make_node("DeformConv", ["x", "w", "o", "b", "m"], ["y"], **sizes)]
    inputs = [("x", T.FLOAT, ["n", 4, 7, 8]), ("o", T.FLOAT, ["n", 24, 4, 8]), ("m", T.FLOAT, ["n", 12, 4, 8])]
    weights = [("w", floats(6, 2, 3, 2)), ("b", floats(6))]
    given = {"x": floats(3, 4, 7, 8), "o": 2 * floats(3, 24, 4, 8), "m": floats(3, 12, 4, 8)}
    agree_in_reference(model(nodes, inputs, [("y", T.FLOAT, ["n", 6, 4, 8])], weights), tmp_path, given)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_ngrams_of_tokens_are_counted(tmp_path, mode):
    pool = {"ngram_counts": [0, 2], "ngram_indexes": [0, 3, 1, 2], "pool_int64s": [2, 3, 5, 4, 2, 2]}
    lengths = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1}
    nodes = [h.make_node("TfIdfVectorizer", ["x"], ["y"], mode=mode, weights=[0.5, 1.0, 2.0, 3.0], **pool, **lengths)]
    made = model(nodes, [("x", T.INT64, ["n", 6])], [("y", T.FLOAT, ["n", 4])])
    agree_in_reference(made, tmp_path, {"x": np.array([[2, 2, 5, 4, 3, 2], [2, 5, 2, 4, 2, 2]])})


def network_of_a_domain(**attributes):
    nodes = [
        h.make_node("Fancy", ["x", "", "w"], ["f"], domain="my.ops", **attributes),
        h.make_node("Relu", ["f"], ["y"]),
    ]
    made = model(nodes, [("x", T.FLOAT, [2, 3])], [("y", T.FLOAT, [2, 3])], [("w", floats(3))])
    made.graph.value_info.append(h.make_tensor_value_info("f", T.FLOAT, [2, 3]))
    made.opset_import.append(h.make_opsetid("my.ops", 1))
    return made


def test_custom_operators_are_refused_unless_they_are_allowed(tmp_path):
    onnx.save(network_of_a_domain(alpha=0.5, axes=[0, 1], mode='");import os#'), tmp_path / "source.onnx")
    source = gp.load(tmp_path / "source.onnx")
    with pytest.raises(gp.DiagnosticError, match=r"my\.ops\.Fancy"):
        gp.save(source, tmp_path / "net.pt2")
    gp.save(source, tmp_path / "net.pt2", allow_custom=True)
    node = document(tmp_path / "net.pt2")["graph_module"]["graph"]["nodes"][0]
    assert node["target"] == "torch.ops.graphport.my_ops_Fancy.default"
    assert [argument["arg"] for argument in node["inputs"][1:5]] == [
        *({"as_none": True}, {"as_tensor": {"name": "b_w"}}, {"as_float": 0.5}, {"as_ints": [0, 1]})
    ]
    code = (tmp_path / "net_custom.py").read_text()
    signature = "(Tensor? x0, Tensor? x1, Tensor? x2, *, float alpha, int[] axes, str mode) -> Tensor"
    assert f"library.define('my_ops_Fancy{signature}')" in code
    assert "import os" not in code


def test_a_custom_operator_has_no_tensor_attributes(tmp_path):
    onnx.save(network_of_a_domain(value=nh.from_array(floats(2))), tmp_path / "source.onnx")
    with pytest.raises(gp.DiagnosticError, match="the attribute value is not a number"):
        gp.save(gp.load(tmp_path / "source.onnx"), tmp_path / "net.pt2", allow_custom=True)


class FakeExport:
    """`torch.export` that records the program that it is given."""

    @staticmethod
    def load(path):
        names = zipfile.ZipFile(path).namelist()
        return SimpleNamespace(module=lambda: names)


def test_a_module_is_that_of_the_written_program(tmp_path, monkeypatch):
    source, _ = written(network(), tmp_path)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(export=FakeExport))
    assert "model/models/model.json" in gp.to_torch(source)


def test_a_module_requires_torch(tmp_path, monkeypatch):
    source, _ = written(network(), tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(gp.DiagnosticError, match="PT0013"):
        gp.to_torch(source)


def test_identifiers_are_python_names_that_occur_once():
    names = Identifiers()
    found = [names.make(wanted) for wanted in ("x", "x", "/a/b:0", "1", "class", "torch", "_hidden", "")]
    assert len(set(found)) == len(found)
    assert all(name.isidentifier() for name in found)
    assert found[0] == "x"
    assert not {"class", "torch"} & set(found)


def test_no_qualified_name_is_a_prefix_of_another():
    names = QualifiedNames()
    found = [
        names.make(wanted) for wanted in ("a.b", "a", "a.b.c", "a/b", "layers.0.forward", "::", "train.x", "while.y")
    ]
    assert len(set(found)) == len(found)
    assert not any(other.startswith(f"{name}.") for name in found for other in found)
    assert not {"forward", "train", "while"} & {part for name in found for part in name.split(".")}


def test_a_size_that_no_input_determines_is_an_unbacked_symbol():
    from graphport.core.dims import Extents, Symbol

    sizes = Sizes(Extents())
    n = Symbol("n", 1, None)
    sizes.declare([(n, 3)])
    assert sizes.size(2 * n + 1)["as_expr"]["hint"] == {"as_int": 9}
    assert "Symbol('u0', integer=True)" in sizes.size(Symbol("found", 0, None))["as_expr"]["expr_str"]
    assert sizes.range_constraints["u0"] == {"min_val": 0, "max_val": None}
