"""The SNR of a quantized model is that of the worst part of its outputs, and of what varies in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.quantization.engine import Noise
from graphport.quantization.output_parts import find_decisions, find_output_parts, find_regions
from tests.models import model, node, typed

ANCHORS, WIDTH = 12, 16


def detector(box: float = 320.0, *, tail: tuple = (), result: str = "y") -> gp.Model:
    """[box coordinates up to `box` | class scores up to 1] of ANCHORS positions, concatenated."""
    r = np.random.default_rng(4)
    constants = {
        "w": r.normal(size=(WIDTH, 3, 3, 3)) / 5,
        "wb": r.normal(size=(4, WIDTH, 1, 1)) / 4,
        "wc": r.normal(size=(6, WIDTH, 1, 1)),
        "size": np.array([box]),
    }
    constants = {name: x.astype(np.float32) for name, x in constants.items()}
    shape = {"shape": np.array([0, 0, -1], np.int64)}
    nodes = [
        node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]),
        node("Relu", ["h"], ["a"]),
        node("Conv", ["a", "wb"], ["b"]),
        node("Conv", ["a", "wc"], ["c"]),
        node("Sigmoid", ["b"], ["b1"]),
        node("Mul", ["b1", "size"], ["boxes"]),
        node("Sigmoid", ["c"], ["scores"]),
        node("Reshape", ["boxes", "shape"], ["flat_boxes"]),
        node("Reshape", ["scores", "shape"], ["flat_scores"]),
        node("Concat", ["flat_boxes", "flat_scores"], ["y"], axis=1),
        *tail,
    ]
    sizes = {"y": ["N", 10, ANCHORS], "t": ["N", ANCHORS, 10], "k": ["N", ANCHORS]}[result]
    output = typed(result, sizes, 7 if result == "k" else 1)
    return gp.from_onnx(model(nodes, [("x", ["N", 3, 3, 4])], [output], constants | shape))


def samples(count: int = 48) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(6).normal(size=(count, 3, 3, 4)).astype(np.float32)}


def snr(expected: np.ndarray, found: np.ndarray) -> float:
    mean = expected.mean(axis=(0, 2), keepdims=True)
    return float(10 * np.log10(np.sum((expected - mean) ** 2) / np.sum((expected - found) ** 2)))


def test_the_scores_of_a_detector_are_reported_and_not_its_boxes() -> None:
    source = detector()
    found = gp.quantize(source, samples(), preset="fast")
    real, made = gp.run(source, samples())["y"], gp.run(found, samples())["y"]
    parts = snr(real[:, :4], made[:, :4]), snr(real[:, 4:], made[:, 4:])
    assert found.report.snr_db == pytest.approx(min(parts), abs=3)
    assert found.report.worst_part in ("flat_boxes = y[:, :4]", "flat_scores = y[:, 4:10]")


def test_regions_are_found_after_transposes_and_element_wise_operators() -> None:
    tail = (node("Transpose", ["y"], ["t0"], perm=[0, 2, 1]), node("Neg", ["t0"], ["t"]))
    (output,) = detector(tail=tail, result="t").graph.outputs
    assert [(each.name, each.ranges) for each in find_regions(output)] == [
        ("flat_boxes", ((2, 0, 4),)),
        ("flat_scores", ((2, 4, 10),)),
    ]


def test_accuracy_of_argmax_is_measured_at_its_operand() -> None:
    tail = (node("ArgMax", ["flat_scores"], ["k"], axis=1, keepdims=0),)
    source = detector(tail=tail, result="k")
    assert set(find_decisions(source.graph).operands.values()) == {"flat_scores"}
    found = gp.quantize(source, samples(), preset="fast")
    assert 15 < found.report.snr_db < 100
    real, made = gp.run(source, samples())["k"], gp.run(found, samples())["k"]
    assert found.report.agreement == pytest.approx(np.mean(real == made), abs=0.05)


def test_a_constant_offset_is_no_signal() -> None:
    r = np.random.default_rng(1)
    x = r.normal(size=(64, 8))
    y = x + 0.1 * r.normal(size=x.shape)
    offset = 1000 * np.arange(8)
    (output,) = gp.from_onnx(
        model([node("MatMul", ["x", "w"], ["y"])], [("x", ["N", 8])], [("y", ["N", 8])], {"w": np.eye(8, dtype="f4")})
    ).graph.outputs
    noise = Noise(find_output_parts({"y": output}, [{"y": x + offset}]))
    noise.add({"y": x + offset}, {"y": y + offset}, 64)
    assert noise.snr == pytest.approx(20, abs=1.5)


def test_channels_of_different_scale_are_measured_separately() -> None:
    r = np.random.default_rng(3)
    scales = np.array([300.0, 300, 1, 1, 1])
    x = r.normal(size=(64, 5)) * scales
    error = r.normal(size=x.shape)
    weights = {"w": np.eye(5, dtype=np.float32)}
    for op_type, parts in (("Identity", ["y[:, 0:2]", "y[:, 2:5]"]), ("Softmax", ["y"])):
        nodes = [node("MatMul", ["x", "w"], ["h"]), node(op_type, ["h"], ["y"])]
        graph = gp.from_onnx(model(nodes, [("x", ["N", 5])], [("y", ["N", 5])], weights)).graph
        noise = Noise(find_output_parts({"y": graph.outputs[0]}, [{"y": x}]))
        noise.add({"y": x}, {"y": x + 0.1 * error}, 64)
        assert sorted(noise.signal) == parts
    assert noise.snr == pytest.approx(67, abs=3)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_worst_part_equals_the_formula(data: st.DataObject) -> None:
    """Random concatenations of values of any scale, with any noise, in any order of axes."""
    rank = data.draw(st.integers(2, 4))
    axis = data.draw(st.integers(1, rank - 1))
    perm = [0, *data.draw(st.permutations(range(1, rank)))]
    widths = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    shape = [6, *data.draw(st.lists(st.integers(2, 5), min_size=rank - 1, max_size=rank - 1))]
    shapes = [[*shape[:axis], width, *shape[axis + 1 :]] for width in widths]
    names = [f"p{i}" for i in range(len(widths))]
    nodes = [node("Relu", [f"x{i}"], [name]) for i, name in enumerate(names)]
    nodes += [node("Concat", names, ["c"], axis=axis), node("Transpose", ["c"], ["y"], perm=perm)]
    whole = [*shape[:axis], sum(widths), *shape[axis + 1 :]]
    inputs = [(f"x{i}", each) for i, each in enumerate(shapes)]
    graph = gp.from_onnx(model(nodes, inputs, [("y", [whole[i] for i in perm])])).graph
    r = np.random.default_rng(data.draw(st.integers(0, 999)))
    scales = [10.0 ** data.draw(st.integers(-4, 4)) for _ in widths]
    errors = [data.draw(st.floats(1e-4, 0.3)) for _ in widths]
    pieces = [scale * r.normal(5, 1, size=each) for scale, each in zip(scales, shapes, strict=True)]
    noisy = [x + error * scale * r.normal(size=x.shape) for x, error, scale in zip(pieces, errors, scales, strict=True)]
    real, made = (np.concatenate(each, axis).transpose(perm) for each in (pieces, noisy))
    noise = Noise(find_output_parts({"y": graph.outputs[0]}, [{"y": real}]))
    noise.add({"y": real}, {"y": made}, 6)

    def ratio(x: np.ndarray, y: np.ndarray) -> float:
        others = tuple(i for i in range(rank) if i != axis)
        count = x.size // x.shape[axis]
        return float(np.sum((x - y) ** 2) / (np.sum((x - x.mean(others, keepdims=True)) ** 2) * count / (count - 1)))

    ratios = [ratio(x, y) for x, y in zip(pieces, noisy, strict=True)]
    assert len(noise.signal) == len(widths)
    assert noise.ratio == pytest.approx(max(ratios), rel=1e-6)
    assert noise.worst is not None
    assert noise.worst.startswith(f"p{int(np.argmax(ratios))} ")
