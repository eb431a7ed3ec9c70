"""Operators of `ai.onnx.ml` that are plain arithmetic, as canonical operators.  Source: ONNX ai.onnx.ml 1 to 5."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.onnx.rules.ai_onnx_ml.scores import emit_transformed
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.activation import Tanh
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Exp, Mul, Neg, Pow, Sub
from graphport.ops.definitions.comparison import Equal, Greater, GreaterOrEqual, IsNaN, Where
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ArgMax, ReduceL2, ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Reshape, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

definition_of = partial(lower, "ai.onnx.ml")

_HALF = 0.5


def _require(is_valid: bool, message: str) -> None:
    """Check attributes.

    Raises:
        ShapeError: they are not valid.
    """
    if not is_valid:
        raise ShapeError(message)


def _single(b: Builder, x: Value) -> Value:
    return cast(b, x, DType.FLOAT32)


def _floats(b: Builder, numbers: Sequence[float]) -> Value:
    return b.constant(np.asarray(numbers, np.float32))


@definition_of("Scaler")
def scaler(b: Builder, x: Value, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)) -> Value:
    return b(Mul, b(Sub, _single(b, x), _floats(b, offset)), _floats(b, scale))


@definition_of("Normalizer")
def normalizer(b: Builder, x: Value, *, norm: str = "MAX") -> Value:
    real = _single(b, x)
    match norm:
        case "MAX":
            size = b(ReduceMax, real, [-1])
        case "L1":
            size = b(ReduceSum, b(Abs, real), [-1])
        case "L2":
            size = b(ReduceL2, real, [-1])
        case _:
            message = f"unknown norm {norm!r}"
            raise ShapeError(message, "MAX, L1 or L2")
    # A row of zeros remains zero.
    return b(Div, real, b(Where, b(Equal, size, 0), 1, size))


@definition_of("Binarizer")
def binarizer(b: Builder, x: Value, *, threshold: float = 0.0) -> Value:
    return cast(b, b(Greater, x, threshold), dtype_of(x))


@definition_of("Imputer")
def imputer(
    b: Builder,
    x: Value,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Value:
    is_float = dtype_of(x).is_floating
    replaced = replaced_value_float if is_float else replaced_value_int64
    is_missing = b(IsNaN, x) if is_float and isnan(replaced) else b(Equal, x, b.like(x, replaced))
    imputed = list(imputed_value_floats if is_float else imputed_value_int64s)
    _require(bool(imputed), f"missing imputed values of type {dtype_of(x)}")
    return b(Where, is_missing, b.like(x, imputed), x)


@definition_of("ArrayFeatureExtractor")
def array_feature_extractor(b: Builder, x: Value, y: Value) -> Value:
    found = b(Gather, x, b(Reshape, y, [-1]), axis=-1)
    return b(Unsqueeze, found, [0]) if len(b.dims(x)) == 1 else found


@definition_of("FeatureVectorizer")
def feature_vectorizer(b: Builder, *x: Value, inputdimensions: Sequence[int] = ()) -> Value:
    parts: list[Value] = []
    _require(len(x) == len(inputdimensions) > 0, f"{len(inputdimensions)} inputdimensions for {len(x)} operands")
    for each, columns in zip(x, inputdimensions, strict=True):
        dims = b.dims(each)
        if len(dims) != 2 or dims[1] != columns:
            message = "operands whose column count differs from inputdimensions"
            raise UnsupportedError(message)
        parts.append(_single(b, each))
    return b(Concat, *parts, axis=1)


@definition_of("OneHotEncoder")
def one_hot_encoder(
    b: Builder, x: Value, *, cats_int64s: Sequence[int] = (), cats_strings: Sequence[str] = (), zeros: int = 1
) -> Value:
    if cats_strings or not zeros:
        message = "string categories" if cats_strings else "zeros = 0: an error for elements outside of the categories"
        raise UnsupportedError(message)
    entries = b(Unsqueeze, cast(b, x, DType.INT64), [-1])
    return cast(b, b(Equal, entries, b.constant(np.array(cats_int64s, np.int64))), DType.FLOAT32)


@definition_of("LabelEncoder")
def label_encoder(
    b: Builder,
    x: Value,
    *,
    keys_int64s: Sequence[int] = (),
    values_int64s: Sequence[int] = (),
    values_floats: Sequence[float] = (),
    default_int64: int = -1,
    default_float: float = -0.0,
    **others: object,
) -> Value:
    """Look up integers; keys and values of other types remain in the domain."""
    if others.keys() - {"default_string"} or not keys_int64s or not (values_int64s or values_floats):
        message = "non-numeric keys or values"
        raise UnsupportedError(message)
    count = len(values_floats or values_int64s)
    _require(len(keys_int64s) == count, f"{len(keys_int64s)} keys for {count} values")
    table = _floats(b, values_floats) if values_floats else b.constant(np.array(values_int64s, np.int64))
    hits = b(Equal, b(Unsqueeze, x, [-1]), b.constant(np.array(keys_int64s, np.int64)))
    marks = cast(b, hits, DType.INT32)
    # The last one of equal keys counts.
    found = b(Gather, table, b(ArgMax, marks, axis=-1, keepdims=0, select_last_index=1))
    is_known = cast(b, b(ReduceMax, marks, [-1], keepdims=0), DType.BOOL)
    return b(Where, is_known, found, b.like(table, default_float if values_floats else default_int64))


def _linear(b: Builder, x: Value, coefficients: Sequence[float], intercepts: Sequence[float], rows: int) -> Value:
    """`x @ coefficients.T + intercepts` with `rows` rows of coefficients."""
    is_matrix = rows > 0 and len(coefficients) % rows == 0
    _require(is_matrix, f"{len(coefficients)} coefficients for {rows} targets")
    _require(len(intercepts) in (0, rows), f"{len(intercepts)} intercepts for {rows} targets")
    weights = np.ascontiguousarray(np.asarray(coefficients, np.float32).reshape(rows, -1).T)
    wide = DType.FLOAT64 if dtype_of(x) is DType.FLOAT64 else DType.FLOAT32
    y = b(MatMul, cast(b, x, wide), b.constant(weights.astype(wide.numpy)))
    if intercepts:
        y = b(Add, y, b.constant(np.asarray(intercepts, np.float32).astype(wide.numpy)))
    return _single(b, y)


@definition_of("LinearRegressor")
def linear_regressor(
    b: Builder,
    x: Value,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    targets: int = 1,
    post_transform: str = "NONE",
) -> Value:
    return emit_transformed(b, _linear(b, x, coefficients, intercepts, targets), post_transform)


@definition_of("LinearClassifier")
def linear_classifier(
    b: Builder,
    x: Value,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Value, Value]:
    del multi_class
    dims = b.dims(x)
    if len(dims) != 2 or not isinstance(dims[1], int):
        message = "samples other than rows of known length"
        raise UnsupportedError(message)
    labels = _labels(b, classlabels_strings, classlabels_ints)
    count, rows = len(classlabels_strings or classlabels_ints), len(coefficients) // max(dims[1], 1)
    _require(count >= rows, f"{count} labels for {rows} rows of coefficients")
    scores = _linear(b, x, coefficients, intercepts, rows)
    if rows == 1 and count == 2:
        scores = b(Concat, b(Neg, scores), scores, axis=1)
        rows = 2
    y = emit_transformed(b, scores, post_transform)
    if rows > 1:
        return b(Gather, labels, b(ArgMax, y, axis=1, keepdims=0)), y
    bound = b.like(y, 0 if post_transform == "NONE" else _HALF)
    is_first = b(Squeeze, b(GreaterOrEqual, y, bound), [1])
    first = b(Squeeze, b(Slice, labels, [0], [1]), [0])
    other = b.constant(np.array("", object), DType.STRING) if classlabels_strings else b.constant(np.int64(0))
    return b(Where, is_first, first, other), y


def _labels(b: Builder, strings: Sequence[str], integers: Sequence[int]) -> Value:
    return b.constant(np.array(strings, object), DType.STRING) if strings else b.constant(np.array(integers, np.int64))


@definition_of("SVMRegressor")
def svm_regressor(
    b: Builder,
    x: Value,
    *,
    coefficients: Sequence[float],
    rho: Sequence[float],
    support_vectors: Sequence[float] = (),
    n_supports: int = 0,
    kernel_type: str = "LINEAR",
    kernel_params: Sequence[float] = (0.0, 0.0, 3.0),
    one_class: int = 0,
    post_transform: str = "NONE",
) -> Value:
    """A weighted sum of kernels between rows and support vectors."""
    real = _single(b, x)
    _require(len(rho) > 0 and len(kernel_params) == 3, f"{len(rho)} values of rho, {len(kernel_params)} kernel_params")
    if n_supports:
        is_matrix = 0 < n_supports == len(coefficients) and len(support_vectors) % n_supports == 0
        counts = f"{len(support_vectors)} elements and {len(coefficients)} coefficients"
        _require(is_matrix, f"{counts} of {n_supports} support vectors")
        vectors = np.asarray(support_vectors, np.float32).reshape(n_supports, -1)
        real = _kernel(b, real, vectors, kernel_type, kernel_params)
    weights = np.asarray(coefficients, np.float32).reshape(-1, 1)
    y = b(Add, b(MatMul, real, b.constant(weights)), _floats(b, rho[:1]))
    if one_class:
        return b(Where, b(Greater, y, 0), b.like(y, 1), b.like(y, -1))
    return emit_transformed(b, y, post_transform)


@definition_of("SVMClassifier")
def svm_classifier(
    b: Builder,
    x: Value,
    *,
    coefficients: Sequence[float],
    rho: Sequence[float],
    support_vectors: Sequence[float] = (),
    vectors_per_class: Sequence[int] = (),
    kernel_type: str = "LINEAR",
    kernel_params: Sequence[float] = (0.0, 0.0, 3.0),
    prob_a: Sequence[float] = (),
    prob_b: Sequence[float] = (),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
) -> tuple[Value, Value]:
    """One score for each pair of classes; the label is the class that wins most pairs.  Source: ONNX Runtime."""
    count, vectors = len(vectors_per_class), sum(vectors_per_class)
    for fault, is_found in (
        ("no support vectors", not vectors_per_class),
        ("class probabilities, which ONNX Runtime computes by iteration", bool(prob_a) or bool(prob_b)),
        (f"the transformation {post_transform}", post_transform != "NONE"),
    ):
        if is_found:
            raise UnsupportedError(fault)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    is_matrix = min(vectors_per_class) >= 0 < vectors and len(support_vectors) % vectors == 0
    counts = f"{len(support_vectors)} elements, {len(coefficients)} coefficients and {len(rho)} values of rho"
    is_complete = is_matrix and len(coefficients) == (count - 1) * vectors and len(rho) == len(pairs) > 0
    _require(is_complete, f"{counts} of {vectors} support vectors of {count} classes")
    labels = classlabels_strings or classlabels_ints
    _require(len(labels) == count, f"{len(labels)} labels for {count} classes")
    _require(len(kernel_params) == 3, f"{len(kernel_params)} kernel_params")
    given = np.asarray(coefficients, np.float32).reshape(count - 1, vectors)
    limits = [0, *np.cumsum(vectors_per_class)]
    weights = np.zeros((vectors, len(pairs)), np.float32)
    wins, losses = np.zeros((len(pairs), count), np.float32), np.zeros((len(pairs), count), np.float32)
    for place, (i, j) in enumerate(pairs):
        for own, other in ((i, j - 1), (j, i)):
            weights[limits[own] : limits[own + 1], place] = given[other, limits[own] : limits[own + 1]]
        wins[place, i] = losses[place, j] = 1
    kernels = _kernel(
        b, _single(b, x), np.asarray(support_vectors, np.float32).reshape(vectors, -1), kernel_type, kernel_params
    )
    scores = b(Add, b(MatMul, kernels, b.constant(weights)), _floats(b, rho))
    is_won = cast(b, b(Greater, scores, 0), DType.FLOAT32)
    votes = b(Add, b(MatMul, is_won, b.constant(wins - losses)), b.constant(losses.sum(0)))
    table = _labels(b, classlabels_strings, classlabels_ints)
    label = b(Gather, table, b(ArgMax, votes, axis=1, keepdims=0))
    return label, b(Concat, b(Neg, scores), scores, axis=1) if count == 2 else scores


def _kernel(b: Builder, x: Value, vectors: np.ndarray, kind: str, params: Sequence[float]) -> Value:
    """Kernel of rows and vectors.  Shapes: x [n, c], vectors [m, c] → [n, m]."""
    gamma, shift, degree = params
    if kind == "RBF":
        # The differences themselves: |x|² - 2xv + |v|² loses digits.
        gaps = b(Sub, b(Unsqueeze, x, [1]), b.constant(vectors[None]))
        return b(Exp, b(Mul, b(ReduceSum, b(Mul, gaps, gaps), [-1], keepdims=0), b.like(x, -gamma)))
    products = b(MatMul, x, b.constant(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return products
    scaled = b(Add, b(Mul, products, b.like(products, gamma)), b.like(products, shift))
    match kind:
        case "POLY":
            return b(Pow, scaled, b.like(scaled, degree))
        case "SIGMOID":
            return b(Tanh, scaled)
        case _:
            message = f"unknown kernel {kind!r}"
            raise ShapeError(message, "LINEAR, POLY, RBF or SIGMOID")
