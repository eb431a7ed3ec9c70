"""Operations on each element type compute what NumPy computes, and ONNX Runtime has a kernel for what is written."""

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import graphport

TYPES = {
    "i1": np.bool_,
    "i4": ml_dtypes.int4,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
INTEGERS = [name for name in TYPES if name.startswith(("i", "ui")) and name != "i1"]
FULL = [name for name in INTEGERS if name != "i4"]

MOVES = {
    "broadcast": ("stablehlo.broadcast_in_dim %x, dims = [2, 1]", "3x4xT", "2x4x3xT"),
    "reshape": ("stablehlo.reshape %x", "3x4xT", "12xT"),
    "transpose": ("stablehlo.transpose %x, dims = [1, 0]", "3x4xT", "4x3xT"),
    "slice": ("stablehlo.slice %x [1:3, 0:4:2]", "3x4xT", "2x2xT"),
    "reverse": ("stablehlo.reverse %x, dims = [0]", "3x4xT", "3x4xT"),
}
MOVED = {
    "broadcast": lambda x: np.broadcast_to(x.T, (2, 4, 3)),
    "reshape": lambda x: x.reshape(12),
    "transpose": lambda x: x.T,
    "slice": lambda x: x[1:3, ::2],
    "reverse": lambda x: x[::-1],
    "concatenate": lambda x: np.concatenate([x, x]),
    "select": lambda x: np.where(x == x[0, 0], x, x[::-1]),
    "pad": lambda x: np.pad(x[:, 1:], ((1, 0), (0, 1))),
}
BODIES = {
    "concatenate": "%y = stablehlo.concatenate %x, %x, dim = 0 : (tensor<3x4xT>, tensor<3x4xT>) -> tensor<6x4xT>",
    "select": """%i = stablehlo.slice %x [0:1, 0:1] : (tensor<3x4xT>) -> tensor<1x1xT>
%s = stablehlo.reshape %i : (tensor<1x1xT>) -> tensor<T>
%b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<T>) -> tensor<3x4xT>
%c = stablehlo.compare EQ, %x, %b : (tensor<3x4xT>, tensor<3x4xT>) -> tensor<3x4xi1>
%r = stablehlo.reverse %x, dims = [0] : tensor<3x4xT>
%y = stablehlo.select %c, %x, %r : tensor<3x4xi1>, tensor<3x4xT>""",
    "pad": """%j = stablehlo.constant dense<0> : tensor<i8>
%z = stablehlo.convert %j : (tensor<i8>) -> tensor<T>
%y = stablehlo.pad %x, %z, low = [1, -1], high = [0, 1], interior = [0, 0] : (tensor<3x4xT>, tensor<T>) -> tensor<4x4xT>""",
}
RESULTS = {"concatenate": "6x4xT", "select": "3x4xT", "pad": "4x4xT"}


def both(body, kind, arrays, result, tmp_path):
    """The result in the reference interpreter, and in ONNX Runtime, of a function of `arrays`."""
    names = ["%x", "%w"][: len(arrays)]
    given = ", ".join(
        f"{name}: tensor<{'x'.join(map(str, x.shape))}x{kind}>" for name, x in zip(names, arrays, strict=True)
    )
    path = tmp_path / "model.mlir"
    text = body.replace("xT>", f"x{kind}>").replace("<T>", f"<{kind}>")
    path.write_text(f"func.func @main({given}) -> {result} {{\n{text}\nreturn %y : {result}\n}}\n")
    model = graphport.load(path)
    feeds = dict(zip(model.inputs, arrays, strict=True))
    (own,) = graphport.run(model, feeds, backend="reference").values()
    (other,) = graphport.run(model, feeds).values()
    graphport.save(model, tmp_path / "model.onnx")
    onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    return own, other


def sample(kind, seed=0):
    values = np.random.default_rng(seed).integers(0, 2 if kind == "i1" else 8, (3, 4))
    return values.astype(TYPES[kind])


@pytest.mark.parametrize("name", MOVED)
def test_elements_of_every_type_are_moved(name, tmp_path):
    for kind in TYPES:
        x = sample(kind)
        if name in MOVES:
            call, source, target = MOVES[name]
            body, result = f"%y = {call} : (tensor<{source}>) -> tensor<{target}>", target
        else:
            body, result = BODIES[name], RESULTS[name]
        body = body.replace(
            f"%x, dims = [0] : (tensor<{result}>) -> tensor<{result}>", f"%x, dims = [0] : tensor<{result}>"
        )
        for found in both(body, kind, [x], f"tensor<{result.replace('T', kind)}>", tmp_path):
            assert found.dtype == x.dtype, kind
            np.testing.assert_array_equal(found.astype(np.float64), MOVED[name](x).astype(np.float64), err_msg=kind)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", np.add),
        ("multiply", np.multiply),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
        ("shift_left", np.left_shift),
        ("shift_right_arithmetic", np.right_shift),
        ("power", np.power),
    ],
)
def test_integers_of_every_type_are_computed(name, function, tmp_path):
    for kind in FULL:
        x, w = sample(kind), sample(kind, 1) % 4
        body = f"%y = stablehlo.{name} %x, %w : tensor<3x4xT>"
        for found in both(body, kind, [x, w], f"tensor<3x4x{kind}>", tmp_path):
            np.testing.assert_array_equal(found, function(x, w), err_msg=kind)


@pytest.mark.parametrize(
    ("name", "start", "function"),
    [("add", 0, np.add), ("multiply", 1, np.multiply), ("maximum", 0, np.maximum), ("minimum", 0, np.minimum)],
)
def test_integers_of_every_type_are_reduced(name, start, function, tmp_path):
    for kind in FULL:
        x = sample(kind)
        if kind == "ui64" and name in ("maximum", "minimum"):
            x = x + np.uint64(2**63)
        body = f"""%s = stablehlo.constant dense<{start}> : tensor<T>
%y = stablehlo.reduce(%x init: %s) applies stablehlo.{name} across dimensions = [1] : (tensor<3x4xT>, tensor<T>) -> tensor<3xT>"""
        wanted = function.reduce(x, axis=1, initial=start, dtype=x.dtype)
        for found in both(body, kind, [x], f"tensor<3x{kind}>", tmp_path):
            np.testing.assert_array_equal(found, wanted, err_msg=kind)
