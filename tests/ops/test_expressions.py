"""Expressions in canonical operators follow the language's semantics; operators as expressions their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.backends import prepare
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.expression.expression import Expression
from graphport.expression.functions import SIGNATURES
from graphport.expression.kernels import KERNELS
from graphport.ir.graph import Graph
from graphport.ir.verify import verify
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.expressions import expanded, expression, literal, phrase_of
from graphport.ops.infer import Inference
from tests.every import every
from tests.expression.random_expressions import trees

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-6, -1e-6, 87.0, -90.0, np.inf, -np.inf, np.nan]
X, Y = (
    np.array(part, np.float32).reshape(-1) for part in zip(*[(a, b) for a in SPECIAL for b in SPECIAL], strict=True)
)
WHOLE_X, WHOLE_Y = (
    np.array(part) for part in zip(*[(a, b) for a in range(-7, 8) for b in (-3, -2, 2, 5)], strict=True)
)
FLOATS = sorted(name for name, s in SIGNATURES.items() if "f" in s.accepts and name not in ("size", "int"))
INTEGERS = sorted(name for name, s in SIGNATURES.items() if "i" in s.accepts and name not in ("size", "int"))
LOGICAL = sorted(name for name, s in SIGNATURES.items() if "b" in s.accepts and name not in ("size", "int"))


def canonical(text, operands, backend="reference"):
    """The expression through canonical nodes."""
    graph = Graph()
    values = [graph.add_input(f"x{i}", TensorFact(DType.of(x.dtype), x.shape)) for i, x in enumerate(operands)]
    graph.add_output(expanded(Builder(Inference(), graph), text, values))
    verify(graph)
    assert all(node.op != "graphport.Expression" for node in graph)
    outputs = prepare(graph, backend).run({f"x{i}": x for i, x in enumerate(operands)})
    return next(iter(outputs.values()))


def call(name):
    return f"{name}({','.join(f'@{i}' for i in range(max(SIGNATURES[name].arities)))})"


def agree(text, operands, backend="reference", tolerance=2e-6):
    expected = Expression(text, tier="numpy")(*operands)
    found = canonical(text, operands, backend)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@every("name", FLOATS)
def test_functions_of_floats_are_canonical_in_every_special_case(name):
    agree(call(name), (X, Y)[: max(SIGNATURES[name].arities)])


@every("name", [name for name in FLOATS if name not in ("remainder", "fmod", "floor_divide", "torch.long")])
def test_onnx_runtime_computes_equal_results(name):
    # ONNX does not define remainders by 0 and infinities cast to integers.
    finite = np.isfinite(X) & np.isfinite(Y) & (Y != 0)
    agree(call(name), [x[finite] for x in (X, Y)][: max(SIGNATURES[name].arities)], "onnxruntime", 5e-6)


@every("dtype", [np.int32, np.int64])
@every("name", INTEGERS)
def test_functions_of_integers_are_canonical(name, dtype):
    x, y = WHOLE_X.astype(dtype), WHOLE_Y.astype(dtype)
    if name in ("lshift", "rshift", "pow"):
        y = np.abs(y)
    agree(call(name), (x, y)[: max(SIGNATURES[name].arities)])


@every("name", LOGICAL)
def test_functions_of_boolean_values_are_canonical(name):
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    agree(call(name), (x, y)[: max(SIGNATURES[name].arities)])


@pytest.mark.parametrize(
    ("text", "dtypes", "expected"),
    [
        ("add(@0,@1)", ("int64", "float16"), "float16"),
        ("add(@0,@1)", ("float16", "float32"), "float32"),
        ("mul(@0,2.5)", ("int32",), "float32"),
        ("mul(@0,2)", ("float16",), "float16"),
        ("div(@0,@1)", ("int64", "int64"), "float32"),
        ("torch.long(@0)", ("float32",), "int64"),
    ],
)
def test_expression_dtypes_follow_pytorch_promotion(text, dtypes, expected):
    operands = [np.array([1, 2, 3], dtype) for dtype in dtypes]
    assert canonical(text, operands).dtype == expected


@given(trees(max_leaves=8), st.integers(0, 2**32 - 1))
def test_random_expressions_are_canonical(tree, seed):
    random = np.random.default_rng(seed)
    operands = [random.uniform(0.5, 4, 5).astype(np.float64) for _ in range(3)]
    text = str(tree)
    used = Expression(text, tier="numpy").operand_count
    try:
        expected = Expression(text, tier="numpy")(*operands[:used])
    except DiagnosticError as error:
        with pytest.raises(DiagnosticError, match=error.diagnostics[0].code):
            canonical(text, operands[:used])
        return
    if not isinstance(expected, np.ndarray):
        with pytest.raises(UnsupportedError):
            canonical(text, operands[:used])
        return
    found = canonical(text, operands[:used])
    settled = np.isfinite(expected) & (np.abs(expected) < 1e6)
    assert found.dtype == expected.dtype
    # Rounding and remainders are discontinuous: an operand with an error of one ulp gives another result.
    if not any(op_type in text for op_type in ("floor", "round", "fmod", "remainder", "sign")):
        np.testing.assert_allclose(found[settled], expected[settled], rtol=1e-6, atol=1e-6)


def test_static_size_in_an_expression_is_a_number():
    operands = [np.ones((2, 3), np.float32)]
    np.testing.assert_array_equal(canonical("mul(@0,size(@0,1))", operands), np.full((2, 3), 3, np.float32))


def test_dynamic_size_in_an_expression_is_rejected():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N"), 3)))
    with pytest.raises(UnsupportedError, match="is dynamic"):
        expanded(Builder(Inference(), graph), "mul(@0,size(@0,0))", [x])


PATTERNED = sorted(set(registry.patterns("expression")) & set(KERNELS))


@every("name", PATTERNED)
def test_definitions_and_kernels_are_equivalent(name):
    (op_def, _), *others = registry.patterns("expression")[name]
    assert not others
    finite = np.isfinite(X) & np.isfinite(Y) & (Y != 0)
    operands = [x[finite] for x in (X, Y)][: max(SIGNATURES[name].arities)]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(op_def(*operands), KERNELS[name](*operands), rtol=1e-6, atol=1e-7, equal_nan=True)


STATED = sorted(name for name, op_def in registry.op_defs().items() if registry.export_rules("expression", op_def))


@every("name", STATED)
def test_operators_and_their_expressions_are_equivalent(name):
    op_def = registry.op_defs()[name]
    graph = Graph()
    count = max(len(op_def.signature.operands), 2 if op_def.signature.variadic else 1)
    shapes = [(5,), (), ()] if name == "Clip" else [(5,)] * count
    x = [graph.add_input(f"x{i}", TensorFact(DType.FLOAT32, shape)) for i, shape in enumerate(shapes)]
    attributes = {"fmod": 1} if name == "Mod" else {}
    node = Builder(Inference(), graph)(op_def, *x, **attributes).producer
    phrase = phrase_of(node)
    random = np.random.default_rng(7)
    arrays = [np.sort(random.uniform(0.1, 0.9, 5)).astype(np.float32) for _ in x]
    if name == "Acosh":
        arrays = [array + 1 for array in arrays]
    if name == "Clip":
        arrays[1:] = [array[:1].reshape(()) for array in arrays[1:]]
    text = phrase.text.format(*(f"@{x.index(value)}" for value in phrase.operands))
    with np.errstate(all="ignore"):
        expected = op_def(*arrays, **attributes)
    np.testing.assert_allclose(Expression(text, tier="numpy")(*arrays), expected, rtol=2e-6, atol=1e-7)


def test_a_literal_is_a_single_number_without_axes():
    graph = Graph()
    builder = Builder(Inference(), graph)
    assert literal(builder.constant(np.float32(0.1))) == repr(float(np.float32(0.1)))
    assert literal(builder.constant(np.float32(np.inf))) == "inf"
    assert literal(builder.constant(np.ones(1, np.float32))) is None
    assert literal(graph.add_input("x")) is None


def test_an_expression_is_read_once():
    assert expression("add(@0,1)") is expression("add(@0,1)")
