"""Arithmetic in NNEF: what its words mean, and that saying a page in it keeps the meaning."""

import numpy as np
import pytest

from graphport.conversion.export import export_graph
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Cast, CastLike, Mean, Mul, Pow, Round, Sum
from graphport.ops.definitions.indexing import Gather
from graphport.ops.infer import Inference
from tests.every import every
from tests.ops.facts import single
from tests.ops.oracle import compare, run_word, there_and_back

OP_DEFS = registry.op_defs()


def numbers(*shape, seed=0):
    return np.asarray(np.random.default_rng([seed, *shape]).normal(size=shape), np.float32) * single(3)


X = numbers(2, 3, 4)
SMALL = (X / 20).astype(np.float32)
LARGE = np.abs(X) + single(1.5)
UNARY = [
    ("abs", X, np.abs(X)),
    ("neg", X, -X),
    ("rcp", LARGE, 1 / LARGE),
    ("exp", X, np.exp(X)),
    ("log", LARGE, np.log(LARGE)),
    ("sin", X, np.sin(X)),
    ("cos", X, np.cos(X)),
    ("tan", SMALL, np.tan(SMALL)),
    ("sinh", SMALL, np.sinh(SMALL)),
    ("cosh", SMALL, np.cosh(SMALL)),
    ("tanh", X, np.tanh(X)),
    ("asin", SMALL, np.arcsin(SMALL)),
    ("acos", SMALL, np.arccos(SMALL)),
    ("atan", X, np.arctan(X)),
    ("asinh", X, np.arcsinh(X)),
    ("acosh", LARGE, np.arccosh(LARGE)),
    ("atanh", SMALL, np.arctanh(SMALL)),
    ("sign", X, np.sign(X)),
    ("floor", X, np.floor(X)),
    ("ceil", X, np.ceil(X)),
    ("sqr", X, X * X),
    ("sqrt", LARGE, np.sqrt(LARGE)),
    ("rsqr", LARGE, 1 / (LARGE * LARGE)),
    ("rsqrt", LARGE, 1 / np.sqrt(LARGE)),
    ("log2", LARGE, np.log2(LARGE)),
    ("copy", X, X),
]


@every(("op_type", "x", "expected"), UNARY, ids=[case[0] for case in UNARY])
@every("symbolic", [False, True])
def test_unary_op_type_is_its_function(op_type, x, expected, symbolic):
    compare(run_word("nnef", op_type, [x], symbolic=symbolic)[0], expected, tolerance=1e-6)


def test_round_takes_float16_values_upwards_and_is_exact():
    below_half = np.nextafter(single(0.5), single(0))
    x = single([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, below_half, -below_half, 8388609, -8388609, 1e30, 2.4, -2.4])
    expected = np.floor(x.astype(np.float64) + 0.5).astype(np.float32)
    compare(run_word("nnef", "round", [x])[0], expected, tolerance=0)


BINARY = [
    ("add", np.add),
    ("sub", np.subtract),
    ("mul", np.multiply),
    ("div", np.divide),
    ("min", np.minimum),
    ("max", np.maximum),
]


@every(("op_type", "function"), [*BINARY, ("pow", np.power)], ids=lambda case: case if isinstance(case, str) else "")
@every("shape", [(), (2,), (1,), (2, 3), (1, 3), (2, 1, 4), (2, 3, 4), (2, 3, 4, 5)])
@every("symbolic", [False, True])
def test_binary_op_type_aligns_at_the_first_axis(op_type, function, shape, symbolic):
    x, y = np.abs(X) + 1, np.abs(numbers(*shape, seed=1)) + single(0.5)
    wide = x.reshape(x.shape + (1,) * (len(shape) - 3)), y.reshape(shape + (1,) * (3 - len(shape)) if shape else ())
    compare(run_word("nnef", op_type, [x, y], symbolic=symbolic)[0], function(*wide), tolerance=1e-5)
    compare(run_word("nnef", op_type, [y, x], symbolic=symbolic)[0], function(*wide[::-1]), tolerance=1e-5)


def test_constants_are_reshaped_rather_than_computed():
    from graphport.ir.graph import Graph
    from graphport.ops.builder import Builder
    from graphport.ops.infer import Inference

    graph = Graph("one")
    storage = TensorFact(DType.FLOAT32, (3,))
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (3, 4)))
    from graphport.core.storage import storage_of

    c = graph.add_constant("c", storage, storage_of(numbers(3)))
    rule = registry.lowering("nnef", "add")
    assert rule is not None
    rule(Builder(Inference(), graph), x, c)
    assert [node.op for node in graph] == ["Add"]


def test_add_n_sums_and_copy_n_repeats():
    y = numbers(2, seed=1)
    compare(run_word("nnef", "add_n", [X, y, X])[0], X + y[:, None, None] + X, tolerance=1e-6)
    with pytest.raises(UnsupportedError, match="add_n without tensors"):
        run_word("nnef", "add_n", [])
    found = run_word("nnef", "copy_n", [X], outputs=3, times=3)
    assert len(found) == 3
    assert all((each == X).all() for each in found)
    with pytest.raises(ShapeError, match="times is 0"):
        run_word("nnef", "copy_n", [X], times=0)


def test_casts_are_those_of_the_specification():
    x = single([0, 0.6, 2.9, -2.9])
    assert run_word("nnef", "cast", [x], dtype=DType.INT64)[0].tolist() == [0, 0, 2, -3]
    assert run_word("nnef", "cast", [x], dtype=DType.BOOL)[0].tolist() == [False, True, True, True]
    assert run_word("nnef", "cast", [np.array([True, False])], dtype=DType.FLOAT32)[0].tolist() == [1, 0]


# Export rules

NAMES = {
    "Abs": X, "Neg": X, "Reciprocal": LARGE, "Sqrt": LARGE, "Exp": X, "Log": LARGE, "Sin": X, "Cos": X, "Tan": SMALL,
    "Asin": SMALL, "Acos": SMALL, "Atan": X, "Sinh": SMALL, "Cosh": SMALL, "Asinh": X, "Acosh": LARGE, "Atanh": SMALL,
    "Sign": X, "Floor": X, "Ceil": X, "Identity": X,
}  # fmt: skip


@every("name", NAMES)
def test_exporting_a_function_preserves_its_semantics(name):
    words = there_and_back(OP_DEFS[name], [NAMES[name]], symbolic=True, tolerance=1e-6)
    assert words is not None
    assert len(words) == 1


@every("name", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"])
@every("shapes", [((2, 3, 4), (4,)), ((3, 1), (2, 3, 4)), ((2, 3), ()), ((), (2, 3)), ((5,), (1,)), ((3,), (3,))])
@every("constants", [(), (1,), (0,)])
@every("symbolic", [False, True])
def test_exporting_a_binary_operator_preserves_its_semantics(name, shapes, constants, symbolic):
    a, b = (np.abs(numbers(*shape, seed=seed)) + single(0.5) for seed, shape in enumerate(shapes))
    assert there_and_back(
        OP_DEFS[name], [np.asarray(a), np.asarray(b)], constants=constants, symbolic=symbolic, tolerance=1e-6
    )


def test_a_number_is_written_as_a_literal():
    from graphport.conversion.export import export_graph
    from graphport.core.storage import storage_of
    from graphport.ir.graph import Graph
    from graphport.ops.builder import Builder
    from graphport.ops.infer import Inference

    graph = Graph("one")
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    c = graph.add_constant("c", TensorFact(DType.FLOAT32, (1, 1)), storage_of(single([[2]])))
    graph.add_output(Builder(Inference(), graph)(Mul, x, c))
    said, findings = export_graph(graph, "nnef")
    assert not findings
    (node,) = list(said)
    storage = node.operands[1].storage
    assert storage is not None
    assert storage.shape == ()


@pytest.mark.parametrize("name", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_exporting_variadic_arithmetic_preserves_its_semantics(name, count):
    xs = [numbers(2, 3, 4), numbers(4, seed=1), numbers(3, 1, seed=2)][:count]
    words = there_and_back(OP_DEFS[name], xs, tolerance=1e-6)
    assert words is not None
    assert words.count("add") in (0, count - 1)


def test_exporting_a_square_is_one_op_type():
    assert there_and_back(Pow, [X, single(2)], constants=(1,), tolerance=1e-6) == ["sqr"]
    assert there_and_back(Pow, [X, np.array([2])], constants=(1,), tolerance=1e-6) == ["sqr"]
    assert there_and_back(Pow, [X, np.array(3)], constants=(1,), tolerance=1e-5) == ["pow"]
    assert there_and_back(Pow, [LARGE, np.array([1, 2, 3, 4])], tolerance=1e-5) is not None
    assert there_and_back(Pow, [np.array([2, 3]), np.array([2, 2])]) is None


def test_exporting_round_takes_float16_values_to_the_even_neighbour():
    x = single([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609, -8388609, 1e30, 2.4, -2.6, 0])
    assert there_and_back(Round, [x], tolerance=0) is not None


def test_exporting_the_error_function_is_right_to_single_precision():
    assert there_and_back(OP_DEFS["Erf"], [np.linspace(-5, 5, 501, dtype=np.float32)], tolerance=3e-7) is not None


CASTS = [
    (np.float32, DType.INT64, "cast"),
    (np.float32, DType.INT32, "cast"),
    (np.int64, DType.FLOAT32, "cast"),
    (np.float32, DType.BOOL, "cast"),
    (np.bool_, DType.FLOAT32, "cast"),
    (np.bool_, DType.INT64, "cast"),
    (np.int64, DType.BOOL, "cast"),
    (np.float32, DType.FLOAT32, "copy"),
    (np.int32, DType.INT64, "copy"),
    (np.uint8, DType.INT64, "copy"),
    (np.int64, DType.INT32, None),
    (np.float32, DType.FLOAT16, None),
    (np.float32, DType.INT8, "cast"),
    (np.float32, DType.UINT16, "cast"),
    (np.float32, DType.FLOAT64, "copy"),
]


@pytest.mark.parametrize(("of", "to", "op_type"), CASTS)
def test_exporting_a_cast(of, to, op_type):
    for op_def in (Cast, CastLike):
        graph = Graph("one")
        x = graph.add_input("x", TensorFact(DType.of(np.dtype(of)), (2, 3)))
        like = graph.add_input("like", TensorFact(to, (1,)))
        b = Builder(Inference(), graph)
        graph.add_output(b(op_def, x, to=to) if op_def is Cast else b(op_def, x, like))
        said, findings = export_graph(graph, "nnef")
        assert [node.op_type for node in said if node.dialect][-1:] == ([] if op_type is None else [op_type])
        assert bool(findings) == (op_type is None)


def test_the_fraction_is_dropped_before_a_cast_that_takes_the_smaller_integer():
    x = single([-2.9, -0.4, 0.6, 2.9])
    there_and_back(Cast, [x], to=DType.INT64)
    assert run_word("nnef", "cast", [x], dtype=DType.INT64)[0].tolist() == [-3, -1, 0, 2]


def test_a_narrower_integer_is_written_where_it_is_a_place_alone():
    table, places = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([2, 0, 3])
    graph = Graph("one")
    x = graph.add_input("x", TensorFact(DType.FLOAT32, table.shape))
    at = graph.add_input("at", TensorFact(DType.INT64, places.shape))
    b = Builder(Inference(), graph)
    narrow = b(Cast, at, to=DType.INT32)
    graph.add_output(b(Gather, x, narrow))
    said, findings = export_graph(graph, "nnef")
    assert not findings
    assert [node.op_type for node in said] == ["copy", "gather"]
    graph.add_output(b(Abs, narrow))
    assert [finding.code for finding in export_graph(graph, "nnef")[1]] == ["LEG0002"]


def test_remainders_are_right_where_a_quotient_is_rounded():
    # By a quotient that is rounded down, 3 modulo 0.3 would be 0: single precision has 10 for 3 / 0.3.
    for x, y in ((3, 0.3), (-3, 0.3), (3, -0.3), (2.1, 0.7), (5.5, 2), (-5.5, 2), (1, 3)):
        assert there_and_back(OP_DEFS["Mod"], [single(x), single(y)], tolerance=1e-6, fmod=1) is not None


def test_mean_of_one_is_itself():
    assert there_and_back(Mean, [X]) == ["copy", "div"]
    assert there_and_back(Sum, [X]) == ["copy"]
