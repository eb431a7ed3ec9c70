"""Bodies in OpenVINO: reading its files, and exporting ONNX's If and Loop, compared with its runtime."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp

DATA = Path(__file__).parents[3] / "formats" / "openvino" / "data"
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
BACKENDS = ["onnxruntime", "reference", "openvino"]


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def tensor(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes, "outer", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants.items()]
    )
    return gp.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))


def compared(model, inputs, folder):
    """Return ONNX Runtime's results after comparison with OpenVINO and with a written and re-read file."""
    expected = gp.run(model, inputs, backend="onnxruntime")
    for name, array in gp.run(model, inputs, backend="openvino").items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)
    gp.save(model, folder / "model.xml")
    for name, array in gp.run(gp.load(folder / "model.xml"), inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)
    return expected


# Files that OpenVINO wrote


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sign", [1, -1])
def test_if_takes_one_body_or_the_other(sign, backend):
    x = sign * np.abs(numbers(2, 3))
    (found,) = gp.run(gp.load(DATA / "if.xml"), {"x": x}, backend=backend).values()
    np.testing.assert_allclose(found, np.maximum(x, 0) + 3 if sign > 0 else -x * 3, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_loop_stops_by_its_condition(backend):
    x, state = np.array([1, 2], np.float32), np.array([0.5, 0.1], np.float32)
    found = gp.run(gp.load(DATA / "loop.xml"), {"x": x, "a0": state}, backend=backend)
    rows = []
    for number in range(5):
        state = state + x
        rows.append(state * state + number)
        if state.sum() >= 20:
            break
    np.testing.assert_allclose(found["a"], state, rtol=1e-6)
    np.testing.assert_allclose(found["ys"].reshape(-1, 2), rows, rtol=1e-6)


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_iterator_cuts_carries_and_joins(backend):
    x, state = numbers(2, 5, 3), numbers(2, 1, 3, seed=1)
    found = list(gp.run(gp.load(DATA / "tensor_iterator.xml"), {"X": x, "H0": state}, backend=backend).values())
    (factor,) = np.fromfile(DATA / "tensor_iterator.bin", np.float32)
    rows = []
    for step in range(5):
        state = np.tanh(x[:, step : step + 1] * factor + state)
        rows.append(state)
    np.testing.assert_allclose(found[0], state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], np.concatenate(rows, 1), rtol=1e-5, atol=1e-6)


def test_iterator_walks_backward(tmp_path):
    text = (DATA / "tensor_iterator.xml").read_text()
    backward = text.replace('start="0" end="-1" stride="1"', 'start="-1" end="0" stride="-1"')
    path = tmp_path / "model.xml"
    path.write_text(backward)
    path.with_suffix(".bin").write_bytes((DATA / "tensor_iterator.bin").read_bytes())
    x, state = numbers(2, 5, 3), numbers(2, 1, 3, seed=1)
    (factor,) = np.fromfile(DATA / "tensor_iterator.bin", np.float32)
    rows = []
    for step in reversed(range(5)):
        state = np.tanh(x[:, step : step + 1] * factor + state)
        rows.insert(0, state)
    found = list(gp.run(gp.load(path), {"X": x, "H0": numbers(2, 1, 3, seed=1)}).values())
    np.testing.assert_allclose(found[1], np.concatenate(rows, 1), rtol=1e-5, atol=1e-6)


def test_parts_with_gaps_stay_as_they_are(tmp_path):
    text = (DATA / "tensor_iterator.xml").read_text().replace('start="0" end="-1"', 'start="1" end="-1"')
    path = tmp_path / "model.xml"
    path.write_text(text)
    path.with_suffix(".bin").write_bytes((DATA / "tensor_iterator.bin").read_bytes())
    model = gp.load(path)
    assert [node.op for node in model.graph] == ["openvino.opset1.TensorIterator"]
    assert ["do not tile" in finding.message for finding in model.findings] == [True]


# Graphs of ONNX


def branch(nodes, outputs):
    return helper.make_graph(nodes, "branch", [], [tensor(name) for name in outputs])


@pytest.mark.parametrize("condition", [True, False])
def test_branches_are_given_what_they_read(condition, tmp_path):
    chosen = branch([helper.make_node("Add", ["x", "c"], ["t"]), helper.make_node("Relu", ["t"], ["t2"])], ["t2", "t"])
    other = branch([helper.make_node("Sub", ["c", "y"], ["e"]), helper.make_node("Neg", ["x"], ["e2"])], ["e", "e2"])
    model = model_of(
        [helper.make_node("If", ["p"], ["a", "b"], then_branch=chosen, else_branch=other)],
        [tensor("p", BOOL, []), tensor("x", FLOAT, [2, 3]), tensor("y", FLOAT, [2, 3])],
        [tensor("a"), tensor("b")],
        {"c": np.float32(2)},
    )
    inputs = {"p": np.array(condition), "x": numbers(2, 3), "y": numbers(2, 3, seed=1)}
    found = compared(model, inputs, tmp_path)
    np.testing.assert_allclose(found["a"], np.maximum(inputs["x"] + 2, 0) if condition else 2 - inputs["y"])


@pytest.mark.parametrize("condition", [(True, True), (True, False), (False, False)])
def test_branches_within_branches(condition, tmp_path):
    inner = helper.make_node(
        "If",
        ["q"],
        ["i"],
        then_branch=branch([helper.make_node("Mul", ["x", "c"], ["i1"])], ["i1"]),
        else_branch=branch([helper.make_node("Sub", ["m", "x"], ["i2"])], ["i2"]),
    )
    chosen = branch([helper.make_node("Add", ["x", "x"], ["m"]), inner, helper.make_node("Neg", ["i"], ["t"])], ["t"])
    other = branch([helper.make_node("Identity", ["x"], ["e"])], ["e"])
    model = model_of(
        [helper.make_node("If", ["p"], ["y"], then_branch=chosen, else_branch=other)],
        [tensor("p", BOOL, []), tensor("q", BOOL, []), tensor("x", FLOAT, [3])],
        [tensor("y")],
        {"c": np.array([1, 2, 3], np.float32)},
    )
    compared(model, {"p": np.array(condition[0]), "q": np.array(condition[1]), "x": numbers(3)}, tmp_path)


def loop_body(condition):
    nodes = [
        helper.make_node("Add", ["s", "x"], ["s_next"]),
        helper.make_node("Cast", ["i"], ["f"], to=FLOAT),
        helper.make_node("Mul", ["s_next", "f"], ["row"]),
    ]
    if condition:
        nodes += [
            helper.make_node("ReduceSum", ["s_next"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "limit"], ["on"]),
        ]
    else:
        nodes.append(helper.make_node("Identity", ["c"], ["on"]))
    inputs = [tensor("i", INT64, []), tensor("c", BOOL, []), tensor("s", FLOAT, [2])]
    return helper.make_graph(
        nodes, "body", inputs, [tensor("on", BOOL, []), tensor("s_next", FLOAT, [2]), tensor("row", FLOAT, [2])]
    )


@pytest.mark.parametrize("count", [4, None])
@pytest.mark.parametrize("starts", [True, None])
def test_loops_carry_and_stack(count, starts, tmp_path):
    given = ["n" if count else "", "go" if starts else "", "s0"]
    model = model_of(
        [helper.make_node("Loop", given, ["s_end", "rows"], body=loop_body(condition=count is None))],
        [tensor("x", FLOAT, [2]), tensor("s0", FLOAT, [2])],
        [tensor("s_end"), tensor("rows")],
        {"n": np.array(4), "go": np.array(True), "limit": np.float32(9)},
    )
    found = compared(model, {"x": np.array([1, 2], np.float32), "s0": np.zeros(2, np.float32)}, tmp_path)
    assert found["rows"].shape == ((4 if count else 3), 2)


def test_a_count_that_no_loop_reaches_is_unbounded(tmp_path):
    model = model_of(
        [helper.make_node("Loop", ["n", "", "s0"], ["s_end", "rows"], body=loop_body(condition=True))],
        [tensor("x", FLOAT, [2]), tensor("s0", FLOAT, [2])],
        [tensor("s_end"), tensor("rows")],
        {"n": np.array((1 << 63) - 1), "limit": np.float32(9)},
    )
    compared(model, {"x": np.array([1, 2], np.float32), "s0": np.zeros(2, np.float32)}, tmp_path)
    gp.save(model, tmp_path / "loop.xml")
    (loop,) = (node for node in gp.load(tmp_path / "loop.xml", raw=True).graph if node.op == "openvino.opset5.Loop")
    assert loop.operand(0).fact.elements == (-1,)


def test_count_of_the_run(tmp_path):
    model = model_of(
        [helper.make_node("Loop", ["n", "", "s0"], ["s_end", "rows"], body=loop_body(condition=False))],
        [tensor("n", INT64, []), tensor("x", FLOAT, [2]), tensor("s0", FLOAT, [2])],
        [tensor("s_end"), tensor("rows")],
        {},
    )
    inputs = {"n": np.array(3), "x": np.array([1, 2], np.float32), "s0": np.zeros(2, np.float32)}
    assert compared(model, inputs, tmp_path)["rows"].shape == (3, 2)


def scan_body():
    nodes = [
        helper.make_node("Add", ["s", "e"], ["t"]),
        helper.make_node("Mul", ["t", "c"], ["s_next"]),
        helper.make_node("Sub", ["t", "f"], ["row"]),
        helper.make_node("Identity", ["e"], ["same"]),
    ]
    inputs = [tensor(name, FLOAT, [2]) for name in ("s", "e", "f")]
    return helper.make_graph(nodes, "body", inputs, [tensor(name, FLOAT, [2]) for name in ("s_next", "row", "same")])


@pytest.mark.parametrize("axes", [(0, 0), (1, 0), (0, -1)])
@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (1, 1)])
def test_scans_walk_along_axes_either_way(axes, directions, tmp_path):
    steps = 3
    shapes = [[steps, 2] if axis == 0 else [2, steps] for axis in axes]
    node = helper.make_node(
        "Scan",
        ["s0", "x", "y"],
        ["s", "rows", "entries"],
        body=scan_body(),
        num_scan_inputs=2,
        scan_input_axes=axes,
        scan_input_directions=directions,
        scan_output_axes=axes,
        scan_output_directions=directions[::-1],
    )
    model = model_of(
        [node],
        [tensor("s0", FLOAT, [2]), *(tensor(name, FLOAT, shape) for name, shape in zip("xy", shapes, strict=True))],
        [tensor(name) for name in ("s", "rows", "entries")],
        {"c": np.array([0.5, 2], np.float32)},
    )
    inputs = {"s0": numbers(2), "x": numbers(*shapes[0], seed=1), "y": numbers(*shapes[1], seed=2)}
    found = compared(model, inputs, tmp_path)
    assert found["entries"].shape == ((steps, 2) if axes[1] == 0 else (2, steps))
