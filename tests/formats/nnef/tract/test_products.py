"""MatMul forms at which tract 0.23.9 crashes or fails, unless they are written differently."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.formats.nnef.tract.test_writing import computed

RNG = np.random.default_rng(3)


def written(place, nodes, given, constants, expected):
    """Write the network in both flavours to `place`, with its inputs and expected outputs."""
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(name, kinds[a.dtype.kind], a.shape) for name, a in given.items()]
    output = helper.make_tensor_value_info("y", kinds[expected.dtype.kind], expected.shape)
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "products", inputs, [output], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    place.mkdir(parents=True)
    onnx.save(model, place.with_suffix(".onnx"))
    np.savez(place / "given.npz", **given)
    gp.save(gp.load(place.with_suffix(".onnx")), place / "model", format="nnef", flavour="tract")
    place.with_suffix(".onnx").unlink()


PAIRS = [
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4, 5)),
    ((5, 1, 3, 4), (2, 4, 3)),
]


def found_in(folder):
    """The result of each network below a folder, all of which one process runs."""
    computed(folder)
    return {int(place.name): next(iter(np.load(place / "found.npz").values())) for place in folder.iterdir()}


def test_whole_numbers_are_multiplied(tmp_path):
    expected = []
    for number, shapes in enumerate(PAIRS):
        given = {name: RNG.integers(-(2**14), 2**14, shape) for name, shape in zip("ab", shapes, strict=True)}
        expected.append(np.asarray(given["a"] @ given["b"]))
        nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
        written(tmp_path / "all" / str(number), nodes, given, {}, expected[-1])
    for number, found in found_in(tmp_path / "all").items():
        np.testing.assert_array_equal(found, expected[number], err_msg=str(PAIRS[number]))


@pytest.mark.parametrize("turned", [{}, {"transA": 1, "transB": 1}, {"transB": 1}])
def test_whole_numbers_are_multiplied_and_added(tmp_path, turned):
    given = {name: RNG.integers(-9, 9, (3, 3)) for name in "abc"}
    sides = (given[name].T if f"trans{name.upper()}" in turned else given[name] for name in "ab")
    expected = np.matmul(*sides) + given["c"]
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], **turned)
    written(tmp_path / "all" / "one", [node], given, {}, expected)
    computed(tmp_path / "all")
    (found,) = np.load(tmp_path / "all" / "one" / "found.npz").values()
    np.testing.assert_array_equal(found, expected)


JOINED = [
    ((2, 2, 8, 6), (4, 8, 6)),
    ((2, 2, 2, 8, 6), (8, 8, 6)),
    ((2, 2, 3, 8, 6), (4, 3, 8, 6)),
    ((2, 3, 4, 6), (2, 12, 6)),
    ((2, 3, 4, 6), (24, 6)),
    ((4, 8, 6), (2, 2, 8, 6)),
]


def test_a_weight_after_joined_axes(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "joined"], ["j"]),
        helper.make_node("MatMul", ["j", "weight"], ["y"]),
    ]
    expected = []
    for number, (shape, joined) in enumerate(JOINED):
        x, weight = (RNG.normal(size=size).astype(np.float32) for size in (shape, (6, 5)))
        constants = {"joined": np.array(joined), "weight": weight}
        expected.append(np.maximum(x, 0).reshape(joined) @ weight)
        written(tmp_path / "all" / str(number), nodes, {"x": x}, constants, expected[-1])
    for number, found in found_in(tmp_path / "all").items():
        np.testing.assert_allclose(found, expected[number], rtol=1e-5, atol=1e-5, err_msg=str(JOINED[number]))


INTEGERS = ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64"]


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_multiplied_by_themselves(tmp_path, name):
    # tract replaces it by a square, supported for few types, and computes these types in floats.
    dtype = getattr(TensorProto, name)
    value = helper.make_tensor_value_info("x", dtype, [40])
    nodes = [helper.make_node("Mul", ["x", "x"], ["square"]), helper.make_node("Mul", ["square", "square"], ["y"])]
    outputs = [helper.make_tensor_value_info(each, dtype, [40]) for each in ("square", "y")]
    graph = helper.make_graph(nodes, "squares", [value], outputs)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx"
    )
    info = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    x = RNG.integers(info.min, info.max, 40, info.dtype, endpoint=True)
    x[:4] = info.min, info.max, 0, 1
    gp.save(gp.load(tmp_path / "net.onnx"), tmp_path / "net.nnef", flavour="tract")
    proof = gp.verify(tmp_path / "net.onnx", tmp_path / "net.nnef", {"x": x})
    assert proof.passed, proof
    assert any(witness.runtime == "tract" and witness.ran for witness in proof.witnesses)


TWINS = [
    pytest.param([("Identity", ["x"], ["a"], {}), ("Cast", ["x"], ["b"], {})], {}, id="other names"),
    pytest.param(
        [("Transpose", ["x"], ["t"], {"perm": [0]}), ("Identity", ["t"], ["a"], {}), ("Add", ["x", "zero"], ["b"], {})],
        {"zero": 0},
        id="what moves and adds nothing",
    ),
    pytest.param([("Neg", ["x"], ["a"], {}), ("Add", ["x", "x"], ["b"], {})], {}, id="others of one value"),
    pytest.param([("Split", ["x"], ["a", "b"], {"num_outputs": 2})], {}, id="two results of a node"),
    pytest.param(
        [("BitwiseXor", ["x", "c"], ["a"], {}), ("BitwiseXor", ["x", "d"], ["b"], {})],
        {"c": 5, "d": 5},
        id="equal constants",
    ),
    pytest.param(
        [("BitwiseXor", ["x", "c"], ["a"], {}), ("BitwiseXor", ["x", "d"], ["b"], {})],
        {"c": 5, "d": 6},
        id="other constants",
    ),
    pytest.param(
        [
            (op, [f"{side}{step}" if step else "x", *more], [side if step == 6 else f"{side}{step + 1}"], {})
            for side in "ab"
            for step in range(7)
            for op, more in ([("BitwiseNot", [])] if step % 2 else [("Add", ["x"])])
        ],
        {},
        id="long ways",
    ),
]


@pytest.mark.parametrize("name", ["INT8", "INT64"])
@pytest.mark.parametrize(("nodes", "known"), TWINS)
def test_possibly_equal_sizes_are_multiplied(tmp_path, nodes, known, name):
    dtype = getattr(TensorProto, name)
    own = helper.tensor_dtype_to_np_dtype(dtype)
    typed = [(op, inputs, results, {"to": dtype} if op == "Cast" else given) for op, inputs, results, given in nodes]
    made = [helper.make_node(op, inputs, results, **given) for op, inputs, results, given in typed]
    made.append(helper.make_node("Mul", ["a", "b"], ["y"]))
    graph = helper.make_graph(
        made,
        "twins",
        [helper.make_tensor_value_info("x", dtype, [8])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array(number, own), each) for each, number in known.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "net.onnx"
    )
    gp.save(gp.load(tmp_path / "net.onnx"), tmp_path / "net.nnef", flavour="tract")
    x = np.array([-128, 127, 0, 1, -1, 7, 100, -53], own)
    proof = gp.verify(tmp_path / "net.onnx", tmp_path / "net.nnef", {"x": x})
    assert proof.passed, proof
    assert any(witness.runtime == "tract" and witness.ran for witness in proof.witnesses)


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([("MatMul", ["x", "x"], "p", {})], id="itself"),
        pytest.param([("Transpose", ["x"], "t", {}), ("MatMul", ["t", "x"], "p", {})], id="turned"),
        pytest.param([("Gemm", ["x", "x"], "p", {"transB": 1})], id="gemm"),
        pytest.param([("Einsum", ["x", "x", "x"], "p", {"equation": "ij,kj,kl->il"})], id="three factors"),
        pytest.param([("Identity", ["x"], "i", {}), ("MatMul", ["x", "i"], "p", {})], id="another name"),
        pytest.param([("Relu", ["x"], "r", {}), ("MatMul", ["r", "r"], "p", {})], id="what is computed of it"),
        pytest.param(
            [
                ("Softmax", ["x"], "r", {}),
                ("Sigmoid", ["r"], "q", {}),
                ("Transpose", ["q"], "t", {}),
                ("MatMul", ["q", "t"], "p", {}),
            ],
            id="what is computed of it, turned",
        ),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_loop_multiplies_what_it_goes_over_alone(tmp_path, nodes, axis):
    made = [helper.make_node(op, inputs, [result], **given) for op, inputs, result, given in nodes]
    made.append(helper.make_node("Add", ["s", "p"], ["t1"]))
    made.append(helper.make_node("Identity", ["p"], ["o"]))
    square = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3]) for name in ("s", "x", "t1", "o", "s0", "s1")
    ]
    s, x, t1, o, s0, s1 = square
    body = helper.make_graph(made, "body", [s, x], [t1, o])
    shape = [5, 3, 3] if axis == 0 else [3, 5, 3]
    scan = helper.make_node(
        "Scan",
        ["s0", "xs"],
        ["s1", "os"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[1],
    )
    inputs = [s0, helper.make_tensor_value_info("xs", TensorProto.FLOAT, shape)]
    outputs = [s1, helper.make_tensor_value_info("os", TensorProto.FLOAT, [5, 3, 3])]
    graph = helper.make_graph([scan], "loop", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    proof = gp.convert(tmp_path / "net.onnx", tmp_path / "net.nnef", flavour="tract").proof
    assert proof is not None
    assert proof.passed, proof
    assert proof.is_independent, proof.notes
