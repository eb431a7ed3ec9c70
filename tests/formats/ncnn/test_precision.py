"""What layers are computed in, one by one: ncnn itself with its options for 16 bits, and the bytes of their weights."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.draws import spread
from tests.models import model, node, write_onnx

ncnn = pytest.importorskip("ncnn")

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(1, 3, 8, 8)).astype(np.float32)


def weights(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def net():
    """Two branches from one convolution, joined; a product behind them."""
    constants = {"a": weights(8, 3, 3, 3), "b": weights(8, 8, 1, 1), "c": weights(8, 8, 1, 1), "w": weights(288, 5)}
    nodes = [
        node("Conv", ["x", "a"], ["first"], name="first"),
        node("Relu", ["first"], ["r"], name="relu"),
        node("Conv", ["r", "b"], ["left"], name="left"),
        node("Conv", ["r", "c"], ["right"], name="right"),
        node("Add", ["left", "right"], ["sum"], name="sum"),
        node("Flatten", ["sum"], ["flat"], name="flat"),
        node("MatMul", ["flat", "w"], ["y"], name="last"),
    ]
    return model(nodes, [("x", [1, 3, 8, 8])], [("y", [1, 5])], constants)


@pytest.fixture
def source(tmp_path):
    return write_onnx(tmp_path / "net.onnx", net())


def computed(path, *options):
    """What ncnn computes with some of its options, and no others of narrow types."""
    with ncnn.Net() as runtime:
        for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
            setattr(runtime.opt, name, name in options)
        runtime.opt.use_winograd_convolution = False
        assert not runtime.load_param(str(path))
        assert not runtime.load_model(str(path.with_suffix(".bin")))
        with runtime.create_extractor() as extractor:
            extractor.input("x", ncnn.Mat(X[0]).clone())
            return np.array(extractor.extract("y")[1]).astype(np.float32)


def written(source, **options):
    report = gp.convert(source, source.with_suffix(".param"), **options)
    assert report.passed
    return source.with_suffix(".param")


def test_single_layers_are_computed_in_single_precision_whatever_the_runtime_is_reported(source):
    exact = computed(written(source))
    narrow = computed(written(source), "use_bf16_storage")
    assert np.abs(narrow - exact).max() > 1e-3
    whole = written(source, precision=["*=f32"])
    assert np.array_equal(computed(whole, "use_bf16_storage"), computed(whole))


@pytest.mark.parametrize("single", spread(["left", "right", "last", "first", "relu", "sum", "l*", "r*", "[lr]*t"]))
def test_layers_of_two_precisions_meet(source, single):
    exact = computed(written(source))
    found = computed(written(source, precision=[f"{single}=f32"]), "use_bf16_storage")
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
    assert np.array_equal(computed(written(source, precision=[f"{single}=f32"])), exact)


def test_the_last_layer_alone_rounds_what_it_is_given_to_nothing(source):
    path = written(source, precision=["*=f32", "last=bf16"])
    found, exact = computed(path, "use_bf16_storage"), computed(path)
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()
    # What is computed in bfloat16 is not computed in float16.
    assert np.array_equal(computed(path, "use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"), exact)


def test_float16_values_are_stored_layer_by_layer(source):
    whole = written(source).with_suffix(".bin").stat().st_size
    path = written(source, precision=["last=f16"])
    assert whole - path.with_suffix(".bin").stat().st_size == 288 * 5 * 2
    path = written(source, weights="f16", precision=["last=f32"])
    assert whole - path.with_suffix(".bin").stat().st_size == (8 * 27 + 64 + 64) * 2


def test_a_file_of_ncnn_is_reported_what_its_layers_are(source, tmp_path):
    path = written(source)
    gp.convert(path, tmp_path / "told.param", precision=["left=f32"])
    lines = (tmp_path / "told.param").read_text().splitlines()
    assert [line.split()[1] for line in lines if "31=7" in line] == ["left"]
    assert sum(line.startswith("DeepCopy") for line in lines) == 1
    back = gp.load(tmp_path / "told.param")
    np.testing.assert_allclose(gp.run(back, {"x": X})["y"], gp.run(gp.load(path), {"x": X})["y"], rtol=1e-5)


@pytest.mark.parametrize(
    ("told", "said"),
    [(["lefft=f32"], "did you mean left"), (["left=f8"], "NCNN0307"), (["left=int8"], "quantize --target ncnn")],
)
def test_unknown_layers_and_dtypes_are_reported(source, told, said):
    with pytest.raises(DiagnosticError, match=said):
        gp.save(gp.load(source), source.with_suffix(".param"), precision=told)
