"""Operators of ONNX in the words of ncnn: its own runtime computes from our file what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.every import every
from tests.formats.ncnn.test_layers import run_ncnn
from tests.models import model, node, typed, write_onnx

RANDOM = np.random.default_rng(7)
PICTURE, MATRIX, VOLUME = [1, 4, 6, 8], [1, 5, 6], [1, 2, 3, 4, 5]
MASK = np.triu(np.full((1, 1, 5, 5), -np.inf, np.float32), 1)


def numbers(*shape):
    return (RANDOM.normal(size=shape) * 0.5).astype(np.float32)


def ints(*items):
    return np.array(items, np.int64)


def one(op, shapes, constants=None, outputs=1, **attributes):
    """A model of one operator: operands by shape, then constants in their order."""
    constants = constants or {}
    names = [f"x{index}" for index in range(len(shapes))]
    results = [f"y{index}" for index in range(outputs)]
    nodes = [node(op, [*names, *constants], results, **attributes)]
    return nodes, dict(zip(names, shapes, strict=True)), {k: v for k, v in constants.items() if k.strip()}, results


def chain(shapes, constants, *steps, outputs=("y",)):
    nodes = [node(op, inputs.split(","), results.split(","), **more) for op, inputs, results, more in steps]
    return nodes, shapes, constants, list(outputs)


CASES = {
    "greater": one("Greater", [PICTURE, PICTURE]),
    "less": one("Less", [PICTURE], {"c": np.float32(0.1)}),
    "greater or equal": one("GreaterOrEqual", [PICTURE, [1, 4, 1, 1]]),
    "less or equal": one("LessOrEqual", [PICTURE], {"c": np.float32(0.0)}),
    "equal": chain({"x": PICTURE}, {}, ("Round", "x", "r", {}), ("Round", "x", "s", {}), ("Equal", "r,s", "y", {})),
    "where": chain({"x": PICTURE, "z": PICTURE}, {}, ("Greater", "x,z", "c", {}), ("Where", "c,x,z", "y", {})),
    "where minus infinity": chain(
        {"x": MATRIX},
        {"z": np.float32(0), "n": np.float32(-np.inf), "big": np.eye(5, 6, dtype=np.float32)},
        ("Greater", "x,z", "c", {}),
        ("Where", "c,x,n", "w", {}),
        ("Max", "w,big", "m", {}),
        ("Softmax", "m", "y", {"axis": -1}),
    ),
    "where a constant mask": chain(
        {"x": [1, 5, 5]},
        {"c": np.tril(np.ones((5, 5), bool)), "n": np.float32(-np.inf)},
        ("Where", "c,x,n", "w", {}),
        ("Softmax", "w", "y", {"axis": -1}),
    ),
    "logic": chain(
        {"x": PICTURE, "z": PICTURE},
        {"zero": np.float32(0)},
        ("Greater", "x,zero", "a", {}),
        ("Greater", "z,zero", "b", {}),
        ("And", "a,b", "c", {}),
        ("Or", "a,b", "d", {}),
        ("Xor", "a,b", "e", {}),
        ("Not", "e", "f", {}),
        ("Cast", "c", "g", {"to": 1}),
        ("Cast", "d", "h", {"to": 1}),
        ("Cast", "f", "i", {"to": 1}),
        ("Sum", "g,h,i", "y", {}),
    ),
    "gather one": one("Gather", [PICTURE], {"i": np.int64(2)}, axis=2),
    "gather some": one("Gather", [PICTURE], {"i": ints(3, 0, 1, -1)}, axis=1),
    "gather the batch": chain(
        {"x": MATRIX},
        {"i": np.int64(0), "a": ints(0)},
        ("Gather", "x,i", "g", {"axis": 0}),
        ("Unsqueeze", "g,a", "y", {}),
    ),
    "slice": one("Slice", [PICTURE], {"s": ints(1, -3), "e": ints(3, 100), "a": ints(1, 3)}),
    "softsign": one("Softsign", [PICTURE]),
    "thresholded": one("ThresholdedRelu", [PICTURE], alpha=0.2),
    "mean": one("Mean", [PICTURE, PICTURE, [1, 1, 6, 8]]),
    "running sum": one("CumSum", [PICTURE], {"a": np.int64(-1)}),
    "einsum": one("Einsum", [[1, 2, 5, 4], [1, 2, 3, 4]], equation="bhqd,bhkd->bhqk"),
    "einsum to a vector": one("Einsum", [[1, 5, 4], [1, 5, 4]], equation="bij,bij->bi"),
    "grid sample": one("GridSample", [PICTURE, [1, 3, 5, 2]], mode="linear", padding_mode="border", align_corners=1),
    "grid sample of zeros": one("GridSample", [PICTURE, [1, 3, 5, 2]], mode="nearest", padding_mode="zeros"),
    "space to depth": one("SpaceToDepth", [PICTURE], blocksize=2),
    "depth to space": one("DepthToSpace", [PICTURE], blocksize=2, mode="CRD"),
    "fold": one("Col2Im", [[1, 12, 12]], {"i": ints(5, 4), "k": ints(2, 2)}),
    "fold with steps": one(
        "Col2Im", [[1, 12, 9]], {"i": ints(6, 7), "k": ints(2, 3)}, strides=[2, 2], pads=[0, 0, 0, 0]
    ),
    "deformable": one("DeformConv", [PICTURE, [3, 4, 3, 3]], {}),
    "p-norm": one("LpNormalization", [PICTURE], axis=1, p=2),
    "mean and variance": one("MeanVarianceNormalization", [PICTURE]),
    "attention": one("Attention", [[1, 2, 5, 4], [1, 2, 7, 4], [1, 2, 7, 3]], scale=0.3),
    "attention with a mask": one("Attention", [[1, 2, 5, 4], [1, 2, 5, 4], [1, 2, 5, 4]], {"m": MASK}),
    "causal attention": one("Attention", [[1, 2, 5, 4], [1, 2, 5, 4], [1, 2, 5, 4]], is_causal=1),
    "layer norm": one("LayerNormalization", [MATRIX], {"s": numbers(6), "b": numbers(6)}),
    "rms norm": one("RMSNormalization", [MATRIX], {"s": numbers(6)}),
    "group norm": one("GroupNormalization", [PICTURE], {"s": numbers(4), "b": numbers(4)}, num_groups=2),
    "gemm": one("Gemm", [[1, 6]], {"w": numbers(4, 6), "b": numbers(4)}, transB=1, alpha=0.5, beta=2.0),
    "product of blobs": one("MatMul", [[1, 2, 3, 4], [1, 2, 4, 5]]),
    "product with a stack": one("MatMul", [[1, 2, 3, 4]], {"w": numbers(4, 5)}),
    "reduced": one("ReduceMean", [PICTURE], {"a": ints(2, 3)}, keepdims=0),
    "reduced and kept": one("ReduceL2", [PICTURE], {"a": ints(1)}, keepdims=1),
    "tiled": one("Tile", [PICTURE], {"r": ints(1, 2, 1, 3)}),
    "expanded": one("Expand", [[1, 4, 1, 1]], {"s": ints(1, 4, 3, 5)}),
    "expanded at the front": one("Expand", [[1, 1, 5]], {"s": ints(1, 4, 3, 5)}),
    "moved": one("Transpose", [PICTURE], perm=[0, 3, 1, 2]),
    "moved in four": one("Transpose", [VOLUME], perm=[0, 4, 2, 1, 3]),
    "resized": chain({"x": PICTURE}, {"s": ints(1, 4, 9, 12)}, ("Resize", "x,,,s", "y", {"mode": "linear"})),
    "resized cubic": chain({"x": PICTURE}, {"s": ints(1, 4, 9, 12)}, ("Resize", "x,,,s", "y", {"mode": "cubic"})),
    "padded": one("Pad", [PICTURE], {"p": ints(0, 0, 1, 2, 0, 0, 2, 1)}, mode="reflect"),
    "many channels in one": one("LRN", [PICTURE], size=3, alpha=0.01),
    "batch in the middle": chain(
        {"x": [1, 5, 12]},
        {"s": ints(1, 5, 3, 2, 2), "a": ints(0), "t": ints(1, 5, 4)},
        ("Reshape", "x,s", "r", {}),
        ("Transpose", "r", "t5", {"perm": [2, 0, 3, 1, 4]}),
        ("Split", "t5", "q0,k0,v0", {"axis": 0, "num_outputs": 3}),
        ("Squeeze", "q0,a", "q", {}),
        ("Squeeze", "k0,a", "k", {}),
        ("Squeeze", "v0,a", "v", {}),
        ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}),
        ("MatMul", "q,kt", "z", {}),
        ("Softmax", "z", "p", {"axis": -1}),
        ("MatMul", "p,v", "o", {}),
        ("Transpose", "o", "u", {"perm": [0, 2, 1, 3]}),
        ("Reshape", "u,t", "y", {}),
    ),
    "batch gone and back": chain(
        {"x": [1, 6, 4]},
        {"two": ints(6, 4), "w": numbers(4, 3), "b": numbers(3), "s": ints(1, 6, 3)},
        ("Reshape", "x,two", "r", {}),
        ("Gemm", "r,w,b", "g", {}),
        ("Relu", "g", "h", {}),
        ("Reshape", "h,s", "y", {}),
    ),
    "batch at the end": chain(
        {"x": [1, 6, 4]},
        {"c": numbers(6, 4, 1)},
        ("Transpose", "x", "t", {"perm": [1, 2, 0]}),
        ("Add", "t,c", "a", {}),
        ("Concat", "a,t", "j", {"axis": 1}),
        ("ReduceSum", "j,two", "r", {"keepdims": 1}),
        ("Transpose", "r", "y", {"perm": [2, 0, 1]}),
    ),
}
CASES["batch at the end"][2]["two"] = ints(0)
CASES["deformable"] = chain(
    {"x": PICTURE, "o": [1, 18, 4, 6], "m": [1, 9, 4, 6]},
    {"w": numbers(3, 4, 3, 3), "b": numbers(3)},
    ("DeformConv", "x,w,o,b,m", "y", {}),
)


def build(nodes, shapes, constants, results):
    constants = {name: value for name, value in constants.items() if value is not None}
    inputs = [typed(name, shape, 1) for name, shape in shapes.items()]
    outputs = [ValueInfoProto(name=name) for name in results]
    return gp.from_onnx(model(nodes, inputs, outputs, constants, opset=24))


@every("name", CASES)
def test_ncnn_computes_what_onnx_runtime_does(tmp_path, name):
    ours = build(*CASES[name])
    given = {key: numbers(*value.fact.shape) for key, value in ours.inputs.items()}
    expected = gp.run(ours, given, backend="reference")
    path = tmp_path / "net.ncnn.param"
    gp.save(ours, path)
    found = run_ncnn(path, {key: array[0] for key, array in given.items()}, list(expected))
    for key, array in expected.items():
        np.testing.assert_allclose(found[key].reshape(array.shape), array.astype(np.float32), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"])
def test_no_comparison_holds_of_what_is_no_number(tmp_path, op):
    ours = build(*one(op, [[1, 9], [1, 9]]))
    x = np.array([[0, 1, -1, np.nan, np.nan, np.inf, -np.inf, np.inf, 2]], np.float32)
    z = np.array([[0, 0, 0, np.nan, 1, np.inf, -np.inf, 0, np.nan]], np.float32)
    given = {"x0": x, "x1": z}
    (expected,) = gp.run(ours, given, backend="onnxruntime").values()
    gp.save(ours, tmp_path / "net.ncnn.param")
    (found,) = run_ncnn(tmp_path / "net.ncnn.param", {k: a[0] for k, a in given.items()}, ["y0"]).values()
    assert found.tolist() == expected[0].astype(float).tolist()


@every("name", CASES)
def test_what_is_written_reads_as_the_same(tmp_path, name):
    ours = build(*CASES[name])
    path = tmp_path / "net.ncnn.param"
    gp.save(ours, path)
    given = {key: numbers(*value.fact.shape) for key, value in ours.inputs.items()}
    again = gp.load(path)
    # Truth is 1 and 0 there.
    expected, found = (gp.run(each, given, backend="reference") for each in (ours, again))
    for one_, other in zip(expected.values(), found.values(), strict=True):
        assert one_.shape == other.shape
        np.testing.assert_allclose(other, one_.astype(np.float32), rtol=1e-4, atol=1e-5)


def test_what_is_computed_from_constants_alone_is_a_layer_where_a_layer_or_a_caller_asks(tmp_path):
    found = build(
        [node("Exp", ["k"], ["e"]), node("Mul", ["e", "e"], ["z"]), node("Relu", ["x"], ["y"])],
        {"x": (1, 3, 4)}, {"k": numbers(1, 3, 4)}, ["y", "z"],
    )  # fmt: skip
    gp.save(found, tmp_path / "net.param")
    x = {"x": numbers(1, 3, 4)}
    expected, given = gp.run(found, x), gp.run(gp.load(tmp_path / "net.param"), x, backend="ncnn")
    assert all(np.allclose(expected[name], given[name], rtol=1e-6) for name in ("y", "z"))


def test_constants_of_what_cannot_be_expressed_are_not_reported(tmp_path):
    found = build(
        [node("Exp", ["k"], ["e"]), node("Mul", ["e", "e"], ["m"]), node("Cast", ["m"], ["c"], to=6),
         node("Cast", ["x"], ["i"], to=6), node("BitwiseAnd", ["i", "c"], ["b"]), node("Cast", ["b"], ["y"], to=1)],
        {"x": (1, 3, 4)}, {"k": numbers(1, 3, 4)}, ["y"],
    )  # fmt: skip
    with pytest.raises(gp.DiagnosticError, match="ncnn: unsupported operator BitwiseAnd") as caught:
        gp.save(found, tmp_path / "net.param")
    assert "is a constant" not in str(caught.value)


def outputs_of(path, given):
    """What ncnn gives, in the order in which it lists the blobs that nobody reads."""
    import ncnn

    net = ncnn.Net()
    net.load_param(str(path))
    names = list(net.output_names())
    return list(run_ncnn(path, {name: array[0] for name, array in given.items()}, names).values())


def test_ncnn_reads_names_of_any_length(tmp_path):
    # Places in a program of layers within layers are called so; ncnn reads 255 bytes of a name and then something else.
    deep = "unet/" + "block;" * 60
    names = [f"{deep}{index}" for index in range(3)] + ["e" * 249, "é" * 130]
    chained = zip(["x", *names], names, strict=False)
    nodes = [node("Sigmoid", [before], [after], name=f"{after}/sigmoid") for before, after in chained]
    nodes.append(node("Neg", names[:1], ["y"]))
    proto = model(nodes, [typed("x", [1, 3])], [typed(names[-1], [1, 3]), typed("y", [1, 3])])
    loaded = gp.load(write_onnx(tmp_path / "m.onnx", proto))
    x = numbers(1, 3)
    expected = gp.run(loaded, {"x": x})
    gp.save(loaded, tmp_path / "m.ncnn.param")
    again = gp.load(tmp_path / "m.ncnn.param")
    for name, want in zip(again.outputs, expected.values(), strict=True):
        np.testing.assert_allclose(gp.run(again, {"x": x})[name], want, rtol=1e-6)
    found = run_ncnn(tmp_path / "m.ncnn.param", {"x": x[0]}, list(again.outputs))
    for got, want in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(got, want[0], rtol=1e-5)


def test_numbers_after_names_fit_into_what_ncnn_reads(tmp_path):
    # One of the two has to be called otherwise: blobs have no spaces. So has a layer that is called as another.
    spaced, joined = "e" * 250 + " blob", "e" * 250 + "_blob"
    nodes = [node("Sigmoid", ["x"], [spaced], name=joined), node("Sigmoid", [spaced], [joined], name=joined)]
    proto = model([*nodes, node("Neg", [joined], ["y"])], [typed("x", [1, 3])], [typed("y", [1, 3])])
    loaded = gp.load(write_onnx(tmp_path / "m.onnx", proto))
    x = numbers(1, 3)
    gp.save(loaded, tmp_path / "m.ncnn.param")
    found = run_ncnn(tmp_path / "m.ncnn.param", {"x": x[0]}, ["y"])
    np.testing.assert_allclose(found["y"], gp.run(loaded, {"x": x})["y"][0], rtol=1e-5)


def test_results_stand_in_their_own_order(tmp_path):
    steps = [
        ("Sigmoid", "x", "a", {}),
        ("Split", "x", "b,c", {"axis": 1, "num_outputs": 2}),
        ("Tanh", "a", "d", {}),
    ]
    for results in (["d", "a"], ["c", "a", "b"], ["a", "d", "c", "b"]):
        ours = build(*chain({"x": PICTURE}, {}, *steps, outputs=results))
        given = {"x": numbers(*PICTURE)}
        expected = gp.run(ours, given, backend="reference")
        gp.save(ours, tmp_path / "net.ncnn.param")
        for name, found in zip(results, outputs_of(tmp_path / "net.ncnn.param", given), strict=True):
            np.testing.assert_allclose(found, expected[name][0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [[1, 4, 5, 6], [1, 2, 3, 4, 5], [1, 5, 6]])
def test_normalizations_over_all_axes_are_computed_over_all(tmp_path, shape):
    for op, names in (("LayerNormalization", "sb"), ("RMSNormalization", "s")):
        ours = build(*one(op, [shape], {name: numbers(*shape[1:]) for name in names}, axis=1))
        given = {"x0": numbers(*shape)}
        (expected,) = gp.run(ours, given, backend="reference").values()
        gp.save(ours, tmp_path / "net.ncnn.param")
        (found,) = outputs_of(tmp_path / "net.ncnn.param", given)
        np.testing.assert_allclose(found, expected[0], rtol=1e-3, atol=1e-4)


def test_what_is_rounded_to_eight_bits_is_refused(tmp_path):
    ours = build(*chain({"x": PICTURE}, {}, ("Cast", "x", "h", {"to": 17}), ("Cast", "h", "y", {"to": 1})))
    with pytest.raises(gp.DiagnosticError, match="cast of x to float8_e4m3fn"):
        gp.save(ours, tmp_path / "net.ncnn.param")


def test_arrays_give_their_shapes_to_a_file_that_states_none(tmp_path):
    rows = ["Input x 0 1 x", "Pooling p 1 1 x y 0=1 7=1 8=2 18=3"]
    (tmp_path / "net.param").write_text("\n".join(["7767517", "2 2", *rows, ""]))
    (tmp_path / "net.bin").write_bytes(b"")
    model = gp.load(tmp_path / "net.param")
    for size in (6, 9):
        x = numbers(1, 2, size, size)
        expected = run_ncnn(tmp_path / "net.param", {"x": x[0]}, ["y"])["y"]
        for backend in ("auto", "reference"):
            np.testing.assert_allclose(gp.run(model, {"x": x}, backend=backend)["y"][0], expected, rtol=1e-5, atol=1e-6)


def test_an_output_that_is_a_constant_is_a_layer_that_has_it(tmp_path):
    constants = {"c": np.array(3.0, np.float32), "d": np.array([[1, 2], [3, 4]], np.int64)}
    outputs = [("y", [1, 4]), typed("c", []), typed("d", [2, 2], TensorProto.INT64)]
    proto = model([node("Relu", ["x"], ["y"])], [("x", [1, 4])], outputs, constants)
    report = gp.convert(write_onnx(tmp_path / "m.onnx", proto), tmp_path / "m.ncnn.param")
    assert report.passed
    back = gp.load(tmp_path / "m.ncnn.param")
    found = gp.run(back, {"x": np.zeros((1, 4), np.float32)}, backend="reference")
    assert [(array.shape, array.dtype, array.tolist()) for array in list(found.values())[1:]] == [
        ((), np.float32, 3.0),
        ((2, 2), np.int64, [[1, 2], [3, 4]]),
    ]


def test_a_bool_input_comes_as_integers(tmp_path):
    given = [("x", [1, 4]), typed("m", [1, 4], TensorProto.BOOL)]
    for op, operands in (("Where", ["m", "x", "x"]), ("Cast", ["m"])):
        more = {"to": TensorProto.FLOAT} if op == "Cast" else {}
        whole = model([node(op, operands, ["h"], **more), node("Mul", ["h", "x"], ["y"])], given, [("y", [1, 4])])
        report = gp.convert(write_onnx(tmp_path / "m.onnx", whole), tmp_path / "m.ncnn.param")
        assert report.passed
        assert gp.load(tmp_path / "m.ncnn.param").inputs["m"].fact.dtype.name == "BOOL"


@pytest.mark.parametrize("reduction", ["none", "add", "gathered"])
def test_places_that_are_vectors_are_computed(tmp_path, reduction):
    """Also negative ones; infinite numbers stay where they are."""
    draws = np.random.default_rng(11)
    dims = [1, 3, 4, 2]
    for depth in (2, 3, 4):
        rows = draws.permutation(3) - 3 * draws.integers(0, 2, 3)
        places = [np.zeros(3), rows, *(draws.integers(-n, n, 3) for n in dims[2:depth])]
        given = {"x": numbers(*dims), "i": np.stack(places, -1)[None]}
        given = {name: array.astype(np.float32) for name, array in given.items()}
        given["x"][0, 0, 0, 0] = np.inf
        updates = numbers(1, 3, *dims[depth:])
        updates.flat[-1] = -np.inf
        steps = [("Cast", "i", "c", {"to": TensorProto.INT64})]
        if reduction == "gathered":
            steps.append(("GatherND", "x,c", "y", {}))
        else:
            given["u"] = updates
            steps.append(("ScatterND", "x,c,u", "y", {"reduction": reduction}))
        ours = build(*chain({name: list(array.shape) for name, array in given.items()}, {}, *steps))
        (expected,) = gp.run(ours, given, backend="reference").values()
        gp.save(ours, tmp_path / "net.ncnn.param")
        (found,) = outputs_of(tmp_path / "net.ncnn.param", given)
        np.testing.assert_allclose(found, expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((1, 4), 2), ((1, 4, 5), 3), ((1, 2, 4, 5), 4), ((1, 4, 5), -4)])
def test_an_axis_that_ncnn_passes_over_is_refused(tmp_path, shape, axis):
    (tmp_path / "net.param").write_text(f"7767517\n2 2\nInput x 0 1 x\nExpandDims e 1 1 x y -23303=1,{axis}\n")
    (tmp_path / "net.bin").write_bytes(b"")
    loaded = gp.load(tmp_path / "net.param", shapes={"x": shape})
    with pytest.raises(DiagnosticError, match="out of range"):
        gp.run(loaded, {"x": np.ones(shape, np.float32)}, backend="reference")


def test_rows_of_no_batch_are_normalized(tmp_path):
    constants = {name: numbers(4) for name in ("s", "b", "m")} | {"v": np.abs(numbers(4)) + 0.5}
    for shape in ([6, 4], [6, 4, 3]):
        normal = node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])
        loaded = gp.from_onnx(model([normal], [("x", shape)], [("y", None)], constants))
        x = numbers(*shape)
        gp.save(loaded, tmp_path / "net.param")
        (found,) = run_ncnn(tmp_path / "net.param", {"x": x}, ["y"]).values()
        expected = gp.run(loaded, {"x": x}, backend="onnxruntime")["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
