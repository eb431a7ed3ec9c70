"""Products of matrices in OpenVINO."""

import numpy as np
import pytest

import graphport as gp
from graphport.ops.definitions.matmul import Det, Gemm, MatMul, MatMulInteger, QLinearMatMul
from tests.at_once import at_once
from tests.models import model as onnx_model
from tests.models import node
from tests.ops.openvino_oracle import check_operator, check_word

RANDOM = np.random.default_rng(11)


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


@at_once("turned", [(False, False), (True, False), (False, True), (True, True)])
@at_once("batch", [(), (2,), (3, 1)])
@at_once("symbolic", [False, True])
def test_matmul_turns_its_operands(turned, batch, symbolic):
    shapes = [(5, 3) if turned[0] else (3, 5), (4, 5) if turned[1] else (5, 4)]
    operands = [numbers(*batch, *shapes[0]), numbers(*shapes[1])]
    flags = {"transpose_a": turned[0], "transpose_b": turned[1]}
    check_word("opset1.MatMul", operands, tolerance=1e-5, symbolic=symbolic, **flags)


@at_once(("x", "y"), [((5,), (5, 4)), ((3, 5), (5,)), ((5,), (5,)), ((2, 3, 5), (5,))])
def test_matmul_of_vectors(x, y):
    check_word("opset1.MatMul", [numbers(*x), numbers(*y)], tolerance=1e-5)


def test_a_vector_is_not_turned():
    check_word("opset1.MatMul", [numbers(5), numbers(4, 5)], tolerance=1e-5, transpose_a=True, transpose_b=True)


def test_exporting_products():
    assert check_operator(MatMul, [numbers(2, 3, 5), numbers(5, 4)], tolerance=1e-5) == ["opset1.MatMul"]
    operands = [numbers(5, 3), numbers(4, 5), numbers(4)]
    said = check_operator(Gemm, operands, tolerance=1e-5, alpha=0.5, beta=2.0, transA=1, transB=1)
    assert said is not None
    assert check_operator(Gemm, [numbers(3, 5), numbers(5, 4)], tolerance=1e-5) is not None


def test_exporting_products_of_bytes():
    a, b = RANDOM.integers(0, 255, (3, 8)).astype(np.uint8), RANDOM.integers(-128, 127, (8, 4)).astype(np.int8)
    assert check_operator(MatMulInteger, [a, b]) is not None
    rows = np.array([3, 1, 2], np.uint8)
    assert check_operator(MatMulInteger, [a, b, rows, np.array(2, np.int8)]) is not None
    scale = np.array(0.1, np.float32)
    operands = [a, scale, np.array(100, np.uint8), b, scale, np.array(3, np.int8), np.array(2.3, np.float32)]
    assert check_operator(QLinearMatMul, [*operands, np.array(90, np.uint8)]) is not None


@at_once("n", [1, 2, 3, 4])
def test_exporting_a_determinant(n):
    assert check_operator(Det, [numbers(2, n, n)], tolerance=1e-4) is not None
    assert check_operator(Det, [numbers(n, n)], tolerance=1e-4) is not None


def test_a_determinant_of_more_rows_is_refused():
    assert check_operator(Det, [numbers(5, 5)]) is None


@at_once("n", [1, 2, 3, 4])
def test_inverse(n):
    x = numbers(2, n, n) + 3 * np.eye(n, dtype=np.float32)
    check_word("opset14.Inverse", [x], tolerance=1e-4)
    check_word("opset14.Inverse", [x], tolerance=1e-3, adjoint=True)


def test_matmul_of_narrow_integers():
    x, y = RANDOM.integers(-3, 4, (2, 3)).astype(np.int8), RANDOM.integers(-3, 4, (3, 2)).astype(np.int8)
    check_word("opset1.MatMul", [x, y], expected=[x @ y])


@at_once("offsets", [[2, 5], [0, 5], [3, 3], [1, 4]])
@at_once("symbolic", [False, True])
def test_each_group_has_its_own_matrix(offsets, symbolic):
    # No plugin supports the op type yet; its header is the specification.
    random = np.random.default_rng(8)
    x, weights = random.normal(size=(5, 3)).astype(np.float32), random.normal(size=(2, 4, 3)).astype(np.float32)
    expected = np.zeros((5, 4), np.float32)
    for group, (start, end) in enumerate(zip([0, *offsets], offsets, strict=False)):
        expected[start:end] = x[start:end] @ weights[group].T
    operands = [x, weights, np.array(offsets, np.int32)]
    constants = (1,) if symbolic else ()
    check_word("opset17.GroupedMatMul", operands, expected=[expected], constants=constants, symbolic=symbolic)


def test_groups_of_one_size_are_a_batch():
    random = np.random.default_rng(9)
    x, weights = random.normal(size=(2, 5, 3)).astype(np.float32), random.normal(size=(2, 4, 3)).astype(np.float32)
    check_word("opset17.GroupedMatMul", [x, weights], expected=[x @ weights.transpose(0, 2, 1)])


TIED = {
    "transpose after": [("MatMul", "x", "w", {}), ("T", "w"), ("MatMul", "h0", "t", {})],
    "transpose before": [("T", "w"), ("MatMul", "x", "t", {}), ("MatMul", "h0", "w", {})],
    "gemm": [("Gemm", "x", "w", {}), ("Gemm", "h0", "w", {"transB": 1})],
    "gemm and product": [("Gemm", "x", "w", {"transB": 1}), ("Relu", "h0"), ("MatMul", "h1", "w", {})],
    "three": [("MatMul", "x", "w", {}), ("T", "w"), ("MatMul", "h0", "t", {}), ("MatMul", "h1", "w", {})],
}


@pytest.mark.parametrize("steps", TIED.values(), ids=TIED)
def test_a_square_matrix_in_both_orientations_is_stored_in_both(tmp_path, steps):
    w = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    nodes, made = [], 0
    for op_type, *operands in steps:
        if op_type == "T":
            nodes.append(node("Transpose", operands, ["t"], perm=[1, 0]))
            continue
        attributes = operands.pop() if isinstance(operands[-1], dict) else {}
        nodes.append(node(op_type, operands, [f"h{made}"], **attributes))
        made += 1
    model = gp.from_onnx(onnx_model(nodes, [("x", [2, 8])], [(f"h{made - 1}", [2, 8])], {"w": w}))
    x = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
    (expected,) = gp.run(model, {"x": x}, backend="reference").values()
    (found,) = gp.run(model, {"x": x}, backend="openvino").values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_a_matrix_that_steps_share_is_stored_once(tmp_path):
    w = np.eye(16, dtype=np.float32)
    nodes = [node("Gemm", [f"h{step}", "w"], [f"h{step + 1}"], transB=1) for step in range(4)]
    model = gp.from_onnx(onnx_model(nodes, [("h0", [2, 16])], [("h4", [2, 16])], {"w": w}))
    gp.save(model, tmp_path / "net.xml")
    assert (tmp_path / "net.bin").stat().st_size < 2 * w.nbytes
