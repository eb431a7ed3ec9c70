"""ncnn: int8 layers are written, read back, and compute the results that quantized graphs define."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.formats.ncnn import read_table
from graphport.quantization.engine import session
from graphport.quantization.writer_support import rejected_layers
from tests.draws import spread
from tests.every import every
from tests.models import model, node
from tests.quantization import nets
from tests.quantization.targets.pieces import OPERATORS, between, check, operator, quantized, weight

INTEGER = ("Convolution", "ConvolutionDepthWise", "InnerProduct")
REAL = ("ConvTranspose", "Conv, depthwise", "Conv, grouped")


class Net:
    """A model in the runtime, with the options that it has by itself."""

    def __init__(self, found, place):
        import ncnn

        gp.save(found, place / "net.param")
        self._net = ncnn.Net()
        self._net.opt.num_threads = 1
        assert self._net.load_param(str(place / "net.param")) == 0
        assert self._net.load_model(str(place / "net.bin")) == 0

    def run(self, inputs):
        """Return the outputs by name; the items of a batch run one by one."""
        items = [
            self._item({name: x[i] for name, x in inputs.items()}) for i in range(len(next(iter(inputs.values()))))
        ]
        return {name: np.stack([item[name] for item in items]) for name in items[0]}

    def _item(self, inputs):
        import ncnn

        extractor = self._net.create_extractor()
        for name, x in inputs.items():
            extractor.input(name, ncnn.Mat(np.ascontiguousarray(x, np.float32)).clone())
        return {name: np.array(extractor.extract(name)[1]) for name in self._net.output_names()}


def _layers(path):
    """Type, and parameters by number, of the layers of a file."""
    for line in path.read_text().splitlines()[2:]:
        kind, _, inputs, outputs, *rest = line.split()
        words = rest[int(inputs) + int(outputs) :]
        yield kind, dict(op_type.split("=") for op_type in words)


def _integer_layers(path):
    return [parameters for kind, parameters in _layers(path) if kind in INTEGER]


@every("name", spread(list(OPERATORS)))
def test_operators_compute_the_specified_result(name, tmp_path):
    made = operator(name, "ncnn")
    check(made, lambda piece, inputs: Net(piece, tmp_path).run(inputs), batch=1, rounds_results=False)


@every("name", [name for name in OPERATORS if name not in REAL])
def test_layers_with_weights_are_int8_layers(name, tmp_path):
    gp.save(operator(name, "ncnn"), tmp_path / "net.param")
    layers = _integer_layers(tmp_path / "net.param")
    assert layers
    assert all(parameters["8"] in ("1", "2") for parameters in layers)


@pytest.mark.parametrize("name", ["residual", "depthwise", "products"])
@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_whole_models_compute_the_specified_result(name, preset, tmp_path):
    found = getattr(nets, name)()
    made = gp.quantize(found, nets.samples(found, 48), "ncnn", preset=preset)
    x = nets.samples(found, 12, seed=5)
    expected = gp.run(found, x)["y"]
    said, computed = session(made.graph, optimize=False).run(x)["y"], Net(made, tmp_path).run(x)["y"]
    assert nets.snr(said, computed) > nets.snr(expected, said) + 10


@pytest.mark.parametrize("name", ["Conv", "Conv, grouped", "Conv, depthwise", "Gemm", "products"])
def test_quantized_ncnn_files_round_trip(name, tmp_path):
    found = nets.products() if name == "products" else OPERATORS[name]()
    made = quantized(found, "ncnn")
    gp.save(made, tmp_path / "net.param")
    again = gp.load(tmp_path / "net.param")
    inputs = nets.samples(found, 1)
    expected, given = (next(iter(gp.run(found, inputs, backend="reference").values())) for found in (made, again))
    assert nets.snr(expected.reshape(-1), given.reshape(-1)) > 90
    gp.save(again, tmp_path / "again.param")
    # Scales are inverted in the file and may differ in the last digit; other layers may have other forms.
    assert _integer_layers(tmp_path / "again.param") == _integer_layers(tmp_path / "net.param")
    given = next(iter(gp.run(gp.load(tmp_path / "again.param"), inputs, backend="reference").values()))
    assert nets.snr(expected.reshape(-1), given.reshape(-1)) > 90


def test_quantized_ncnn_files_store_int8_weights(tmp_path):
    found = between(node("Conv", ["h", "a"], ["m"]), channels=32, a=weight(32, 32, 3, 3), w9=weight(6, 32, 1, 1))
    gp.save(found, tmp_path / "real.param", format="ncnn")
    gp.save(quantized(found, "ncnn"), tmp_path / "net.param")
    assert (tmp_path / "net.bin").stat().st_size < 0.3 * (tmp_path / "real.bin").stat().st_size


def test_the_calibration_table_has_the_scales_of_inputs_and_weights(tmp_path):
    found = nets.residual(batch=1)
    data = {"x": nets.samples(nets.residual(), 16)["x"]}
    made = gp.quantize(found, data, "ncnn", cheap_layers=False)
    gp.save(made, tmp_path / "net.param")
    lines = {line.key: line.scales for line in read_table(tmp_path / "net.table")}
    assert set(lines) == {"first", "first_param_0", "second", "second_param_0", "head", "head_param_0"}
    assert [len(lines[f"{name}_param_0"]) for name in ("first", "second", "head")] == [8, 8, 5]
    low, high = made.report.layers[0].input_range
    assert lines["first"][0] == pytest.approx(127 / max(-low, high), rel=1e-4)


def test_groups_share_their_scales(tmp_path):
    made = quantized(_grouped(2, 3), "ncnn")
    gp.save(made, tmp_path / "net.param")
    lines = read_table(tmp_path / "net.table")
    assert [len(line.scales) for line in lines if line.is_weights] == [8, 2, 6]
    check(made, lambda piece, inputs: Net(piece, tmp_path).run(inputs), batch=1, rounds_results=False)


def _grouped(groups, results):
    return between(
        node("Conv", ["h", "a"], ["m"], group=groups, name="grouped"),
        a=weight(groups * results, 8 // groups, 3, 3),
        w9=weight(6, groups * results, 1, 1),
    )


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("results", [1, 2, 3, 4, 5, 8, 12, 16])
def test_groups_that_the_runtime_computes_wrongly_stay_real(groups, results, tmp_path):
    """If the vector size of the results equals a group, it returns uninitialized memory."""
    made = quantized(_grouped(groups, results), "ncnn", quantize_nodes=("grouped",))
    assert [layer.name for layer in made.report.floating] == (["grouped"] if results % 4 == 0 else [])
    x = nets.samples(_grouped(groups, results), 2, seed=5)
    said, computed = session(made.graph, optimize=False).run(x)["y"], Net(made, tmp_path).run(x)["y"]
    assert nets.snr(said, computed) > 45


def test_values_below_the_lowest_code_saturate(tmp_path):
    """The runtime clips to -127, and QuantizeLinear would to -128."""
    found = gp.from_onnx(
        model([node("Conv", ["x", "w"], ["y"])], [("x", ["N", 2, 4, 4])], [("y", None)], {"w": weight(2, 2, 1, 1)})
    )
    made = quantized(found, "ncnn")
    x = np.linspace(-20, 20, 32, dtype=np.float32).reshape(1, 2, 4, 4)
    said, computed = session(made.graph, optimize=False).run({"x": x})["y"], Net(made, tmp_path).run({"x": x})["y"]
    assert np.allclose(said, computed, rtol=1e-5)


@pytest.mark.parametrize("channels", [16, 32, 64])
def test_sums_that_winograd_overflows_are_right(channels, tmp_path):
    """576 times a sum exceeds 32 bits: Winograd is disabled for such a layer."""
    w = np.ones((channels, channels, 3, 3), np.float32)
    nodes = [node("Conv", ["x", "w"], ["y"])]
    found = gp.from_onnx(model(nodes, [("x", ["N", channels, 14, 14])], [("y", None)], {"w": w}))
    x = np.ones((8, channels, 14, 14), np.float32)
    made = gp.quantize(found, {"x": x}, "ncnn", preset="fast")
    assert np.allclose(Net(made, tmp_path).run({"x": x[:1]})["y"], 9 * channels, rtol=1e-3)
    ((_, parameters),) = [layer for layer in _layers(tmp_path / "net.param") if layer[0] == "Convolution"]
    assert parameters.get("31") == (None if channels == 16 else "64")


def test_depthwise_convolutions_are_real_unless_they_are_requested(tmp_path):
    """Its int8 kernels take longer than float kernels, and have only four digits of precision."""
    found = nets.depthwise()
    made = gp.quantize(found, nets.samples(found), "ncnn", preset="fast")
    assert [layer.name for layer in made.report.floating] == ["depth"]
    assert "more accurately in float" in made.report.floating[0].reasons[0]
    forced = gp.quantize(found, nets.samples(found), "ncnn", preset="fast", quantize_nodes=("depth",))
    assert forced.report.floating == []
    gp.save(forced, tmp_path / "net.param")
    assert [parameters["8"] for parameters in _integer_layers(tmp_path / "net.param")] == ["2", "1", "2"]
    x = nets.samples(found, 4, seed=5)
    said, computed = session(forced.graph, optimize=False).run(x)["y"], Net(forced, tmp_path).run(x)["y"]
    assert nets.snr(said, computed) > nets.snr(gp.run(found, x)["y"], said) + 10
    again = gp.run(gp.load(tmp_path / "net.param"), {"x": x["x"][:1]}, backend="reference")
    assert nets.snr(said[:1], next(iter(again.values()))) > 90


def test_conv1d_stays_float_for_ncnn():
    nodes = [node("Conv", ["x", "w"], ["h"]), node("Conv", ["h", "v"], ["y"], name="line")]
    constants = {"w": weight(4, 2, 3), "v": weight(4, 4, 3)}
    found = gp.from_onnx(model(nodes, [("x", ["N", 2, 16])], [("y", None)], constants))
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0007.*over 2 axes, but the node has 1"):
        quantized(found, "ncnn")


def test_products_of_stacks_of_matrices_stay_real(tmp_path):
    found = between(node("MatMul", ["h", "a"], ["m"]), a=weight(10, 12))
    made = quantized(found, "ncnn")
    assert [layer.reasons for layer in made.report.floating] == [
        ("ncnn supports integer matrix products of rank 3 at most, not 4",)
    ]
    gp.save(made, tmp_path / "net.param")


@pytest.mark.parametrize("shape", [(12, 1, 16), (3, 1, 16), (3, 4, 16), (12, 16)], ids=str)
def test_products_of_rows_without_a_batch_are_integer_layers(shape, tmp_path):
    found = gp.from_onnx(
        model([node("MatMul", ["x", "w"], ["y"])], [("x", shape)], [("y", (*shape[:-1], 6))], {"w": weight(16, 6)})
    )
    items = [{"x": np.random.default_rng(i).normal(size=shape).astype(np.float32)} for i in range(8)]
    made = gp.quantize(found, items, "ncnn", preset="fast")
    gp.save(made, tmp_path / "net.param")
    assert [layer["8"] for layer in _integer_layers(tmp_path / "net.param")] == ["2"]
    said = gp.run(made, items[0], backend="reference")["y"]
    assert nets.snr(said, gp.run(gp.load(tmp_path / "net.param"), items[0], backend="ncnn")["y"]) > 90


def test_layers_with_unsigned_integers_are_rejected_by_the_writer():
    made = operator("Conv", "onnxruntime").graph
    layers = {node.output.name for node in made if node.op in ("Conv", "Gemm", "MatMul")}
    assert layers
    assert rejected_layers(made, "ncnn").keys() == layers
    assert not rejected_layers(operator("Conv", "ncnn").graph, "ncnn")


def test_the_backend_computes_on_the_same_integers(tmp_path):
    found = nets.residual()
    made = gp.quantize(found, nets.samples(found), "ncnn", preset="fast")
    x = nets.samples(found, 2, seed=5)
    assert np.array_equal(gp.run(made, x, backend="ncnn")["y"], Net(made, tmp_path).run(x)["y"])


def test_unsigned_integers_are_refused_with_the_reason(tmp_path):
    made = operator("Conv", "onnxruntime")
    with pytest.raises(gp.DiagnosticError, match=r"LEG0002.*with signed integers and a zero point of 0"):
        gp.save(made, tmp_path / "net.param")
    assert not (tmp_path / "net.param").exists()
