"""Angles of positions and sums of many squares stay in single precision; the oracle is ONNX Runtime on the source."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphport as gp
from tests.models import model, node
from tests.quantization.conditioned_nets import NETS

RANDOM = np.random.default_rng(4)
W = RANDOM.normal(size=(16, 4)).astype(np.float32)
FREQUENCIES = (10000.0 ** -(np.arange(8) / 8)).astype(np.float32)


def snr_of_the_cast(proto, arrays):
    """The noise of the float16 model beside the source, and the report of the cast."""
    made = gp.cast(gp.from_onnx(proto), "float16")
    found = []
    for each in (proto, gp.to_onnx(made)):
        session = onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        kinds = {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(int64)": np.int64}
        given = {x.name: arrays[x.name].astype(kinds[x.type]) for x in session.get_inputs()}
        found.append(session.run(None, given)[0].astype(np.float64))
    noise = ((found[0] - found[1]) ** 2).mean()
    return 10 * np.log10((found[0] ** 2).mean() / noise), made.report


def embedding(form):
    """Sin and Cos of positions times frequencies, and a layer behind them."""
    code = TensorProto.FLOAT if form == "timestep" else TensorProto.INT64
    constants = {"f": FREQUENCIES, "w": W, "one": np.array([1]), "rows": FREQUENCIES.reshape(1, 8)}
    nodes = [] if form == "timestep" else [node("Cast", ["t"], ["r"], to=TensorProto.FLOAT)]
    nodes.append(node("Unsqueeze", ["t" if form == "timestep" else "r", "one"], ["u"]))
    angle = {
        "outer": node("MatMul", ["u", "rows"], ["a"]),
        "einsum": node("Einsum", ["r", "f"], ["a"], equation="i,j->ij"),
    }
    nodes.append(angle.get(form, node("Mul", ["u", "f"], ["a"])))
    nodes += [node("Sin", ["a"], ["s"]), node("Cos", ["a"], ["c"]), node("Concat", ["s", "c"], ["e"], axis=-1)]
    nodes.append(node("MatMul", ["e", "w"], ["y"]))
    return model(nodes, [helper.make_tensor_value_info("t", code, [12])], [("y", [12, 4])], constants)


@pytest.mark.parametrize("form", ["product", "outer", "einsum", "timestep"])
def test_angles_of_large_positions_stay_in_single_precision(form):
    positions = np.arange(12) * 731 + 17
    snr, report = snr_of_the_cast(embedding(form), {"t": positions})
    assert snr > 55
    assert {x.operator for x in report.kept} >= {"Sin", "Cos"}
    assert "MatMul" not in {x.operator for x in report.kept} or form == "outer"


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_conditioned_networks_keep_their_snr_in_float16(net):
    """Also what is reported without samples: random positions and timesteps are as large as those of users."""
    proto, arrays = net()
    snr, report = snr_of_the_cast(proto, arrays)
    assert snr > 55
    assert report.snr_db > (20 if net.__name__ == "soft_positions" else 55)


def test_sines_between_layers_are_cast():
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Sin", ["h"], ["s"]), node("MatMul", ["s", "v"], ["y"])]
    proto = model(nodes, [("x", [3, 16])], [("y", [3, 5])], {"w": W, "v": np.ones((4, 5), np.float32)})
    _, report = snr_of_the_cast(proto, {"x": RANDOM.normal(size=(3, 16))})
    assert not report.kept


def normalized(form):
    constants = {"two": np.float32(2), "eps": np.float32(1e-5), "axes": np.array([2, 3]), "k": W.reshape(4, 4, 2, 2)}
    square = {
        "power": [node("Pow", ["h", "two"], ["q"]), node("ReduceMean", ["q", "axes"], ["m"])],
        "product": [node("Mul", ["h", "h"], ["q"]), node("ReduceSum", ["q", "axes"], ["m"])],
        "norm": [node("ReduceL2", ["h", "axes"], ["m"])],
    }[form]
    nodes = [node("Conv", ["x", "k"], ["h"], pads=[0, 0, 1, 1]), *square, node("Add", ["m", "eps"], ["p"])]
    nodes += [node("Sqrt", ["p"], ["d"]), node("Div", ["h", "d"], ["y"])]
    return model(nodes, [("x", [1, 4, 32, 32])], [("y", [1, 4, 32, 32])], constants, opset=18)


@pytest.mark.parametrize("form", ["power", "product", "norm"])
def test_sums_of_squares_of_pixels_stay_in_single_precision(form):
    arrays = {"x": RANDOM.normal(size=(1, 4, 32, 32)) * 40}
    snr, report = snr_of_the_cast(normalized(form), arrays)
    assert snr > 55
    kept = {x.operator for x in report.kept}
    assert {"Add", "Sqrt"} <= kept
    assert "Conv" not in kept
