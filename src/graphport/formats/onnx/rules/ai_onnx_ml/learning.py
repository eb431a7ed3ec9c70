"""Import rules of `ai.onnx.ml`: linear models, encoders, scalers.  Source: ONNX ai.onnx.ml 1 to 3."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.onnx.rules.ai_onnx_ml.scores import labelled, transformed
from graphport.ops.declare import meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

definition_of = partial(meaning, "ai.onnx.ml")


def _as_array(given: Sequence[float]) -> Any:
    return np.asarray(given, np.float32)


def _as_float32(x: Any) -> Any:
    return x if x.dtype == np.float64 else x.astype(np.float32)


@definition_of("Scaler")
def scaler(x: Any, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)) -> Any:
    """`(x - offset) * scale`, for all columns or each.  Shapes: x [*s, c] → [*s, c]."""
    return ((x.astype(np.float32) - _as_array(offset)) * _as_array(scale)).astype(np.float32)


@definition_of("Normalizer")
def normalizer(x: Any, *, norm: str = "MAX") -> Any:
    """Rows divided by their norm.  Shapes: x [n, c] → [n, c]."""
    real = x.astype(np.float32)
    by = {
        "MAX": lambda: real.max(-1, keepdims=True),
        "L1": lambda: np.abs(real).sum(-1, keepdims=True),
        "L2": lambda: np.sqrt(np.square(real).sum(-1, keepdims=True)),
    }
    if norm not in by:
        message = f"unknown norm {norm!r}"
        raise ValueError(message)
    divisor = by[norm]()
    return real / np.where(divisor == 0, np.float32(1), divisor)


@definition_of("Binarizer")
def binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    """1 where `x` is above the threshold, 0 elsewhere."""
    return (x > threshold).astype(x.dtype)


@definition_of("Imputer")
def imputer(
    x: Any,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Any:
    """Imputer: replace missing values, with one number or one per column."""
    is_real = x.dtype.kind == "f"
    stand_in = np.asarray(imputed_value_floats if is_real else imputed_value_int64s, x.dtype)
    missing = replaced_value_float if is_real else replaced_value_int64
    is_missing = np.isnan(x) if is_real and np.isnan(missing) else x == missing
    return np.where(is_missing, stand_in, x)


@definition_of("ArrayFeatureExtractor")
def array_feature_extractor(x: Any, y: Any) -> Any:
    """Select the entries `y` of the last axis.  Shapes: x [*s, c], y [*t] → [*s, prod t], for a vector [1, t]."""
    found = x[..., y.reshape(-1)]
    return found.reshape(1, -1) if x.ndim == 1 else found


@definition_of("FeatureVectorizer")
def feature_vectorizer(*x: Any, inputdimensions: Sequence[int] = ()) -> Any:
    """Concatenate the columns of the operands, each cut or zero-padded to its dimension."""
    parts = [each.reshape(len(each), -1).astype(np.float32)[:, :n] for each, n in zip(x, inputdimensions, strict=True)]
    padded = [np.pad(part, ((0, 0), (0, n - part.shape[1]))) for part, n in zip(parts, inputdimensions, strict=True)]
    return np.concatenate(padded, axis=1)


@definition_of("OneHotEncoder")
def one_hot_encoder(
    x: Any, *, cats_int64s: Sequence[int] = (), cats_strings: Sequence[str] = (), zeros: int = 1
) -> Any:
    """One-hot encode by category.  Shapes: x [*s] → [*s, categories].

    Raises:
        ValueError: an entry is no category, and `zeros` is 0.
    """
    found = [x == each for each in cats_strings] if cats_strings else [x.astype(np.int64) == n for n in cats_int64s]
    hot = np.stack(found, axis=-1).astype(np.float32)
    if not zeros and not hot.any(-1).all():
        message = "an element is not one of the categories"
        raise ValueError(message)
    return hot


@definition_of("LabelEncoder")
def label_encoder(x: Any, *, classes_strings: Sequence[str] = (), **stated: Any) -> Any:
    """Look up each element among the keys and return its value, or the default."""
    if classes_strings:  # version 1: strings to indices, and back
        indices = range(len(classes_strings))
        is_place = x.dtype.kind in "iu"
        keys, values = (indices, classes_strings) if is_place else (classes_strings, indices)
        name = "strings" if is_place else "int64s"
    else:
        keys = next(stated[f"keys_{kind}"] for kind in _VALUES if f"keys_{kind}" in stated)
        name = next(kind for kind in _VALUES if f"values_{kind}" in stated)
        values = stated[f"values_{name}"]
    kind, of_default, default = _VALUES[name]
    kind = np.asarray(values).dtype if name == "tensor" else kind
    default = np.asarray(stated.get(of_default, default), kind).reshape(-1)[0]
    table = dict(zip(np.asarray(keys).tolist(), np.asarray(values, kind).tolist(), strict=True))
    if "keys_floats" in stated:  # they are single precision on both sides
        table = {float(np.float32(key)): value for key, value in table.items()}
    return np.asarray([table.get(each, default) for each in x.reshape(-1).tolist()], kind).reshape(x.shape)


_VALUES: dict[str, tuple[Any, str, Any]] = {
    "strings": (object, "default_string", "_Unused"),
    "int64s": (np.int64, "default_int64", -1),
    "floats": (np.float32, "default_float", -0.0),
    "tensor": (None, "default_tensor", 0),
}
"""For each kind of list: element type, default attribute, and its default."""


@definition_of("LinearRegressor")
def linear_regressor(
    x: Any,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    targets: int = 1,
    post_transform: str = "NONE",
) -> Any:
    """Linear regressor: x @ coefficients.T + intercepts.  Shapes: x [n, c] → [n, targets]."""
    weights = _as_array(coefficients).reshape(targets, -1)
    y = _as_float32(x) @ weights.T + (_as_array(intercepts) if intercepts else np.float32(0))
    return transformed(y.astype(np.float32), post_transform)


@definition_of("LinearClassifier")
def linear_classifier(
    x: Any,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> Any:
    """Linear classifier: the label with the largest score, and the transformed scores.

    Shapes: x [n, c] → [n], [n, classes].
    """
    del multi_class
    labels = classlabels_strings or classlabels_ints
    scores = _as_float32(np.atleast_2d(x)) @ _as_array(coefficients).reshape(-1, x.shape[-1]).T
    if intercepts:
        scores = scores + _as_array(intercepts)
    if scores.shape[1] == 1 and len(labels) == 2:
        scores = np.concatenate([-scores, scores], axis=1)
    y = transformed(scores.astype(np.float32), post_transform)
    if y.shape[1] > 1:
        return labelled(y.argmax(1), labels), y
    is_one = y[:, 0] >= (0 if post_transform == "NONE" else 0.5)
    other: Any = "" if classlabels_strings else 0
    return np.asarray([labels[0] if each else other for each in is_one], object if classlabels_strings else np.int64), y


@definition_of("ZipMap")
def zip_map(x: Any, *, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()) -> Any:
    """Return a map from labels to scores for each row.  Shapes: x [n, labels] → n maps."""
    labels = classlabels_strings or classlabels_int64s
    return [dict(zip(labels, row.tolist(), strict=True)) for row in np.atleast_2d(x)]


@definition_of("SVMRegressor")
def svm_regressor(
    x: Any,
    *,
    coefficients: Sequence[float],
    rho: Sequence[float],
    support_vectors: Sequence[float] = (),
    n_supports: int = 0,
    kernel_type: str = "LINEAR",
    kernel_params: Sequence[float] = (0.0, 0.0, 3.0),
    one_class: int = 0,
    post_transform: str = "NONE",
) -> Any:
    """SVM regressor: weighted sum of kernels with the support vectors.  Shapes: x [n, c] → [n, 1]."""
    real, weights = x.astype(np.float32), _as_array(coefficients)
    if n_supports:
        real = _kernel(real, _as_array(support_vectors).reshape(n_supports, -1), kernel_type, kernel_params)
    y = (real @ weights + np.float32(rho[0])).reshape(-1, 1)
    if one_class:
        return np.where(y > 0, np.float32(1), np.float32(-1))
    return transformed(y, post_transform)


def _kernel(x: Any, vectors: Any, kind: str, params: Sequence[float]) -> Any:
    """Return the kernel of each row and vector.  Shapes: x [n, c], vectors [m, c] → [n, m]."""
    gamma, shift, degree = (np.float32(each) for each in params)
    match kind:
        case "LINEAR":
            return x @ vectors.T
        case "POLY":
            return (x @ vectors.T * gamma + shift) ** degree
        case "SIGMOID":
            return np.tanh(x @ vectors.T * gamma + shift)
        case "RBF":
            return np.exp(-gamma * np.square(x[:, None] - vectors).sum(-1))
        case _:
            message = f"unknown kernel {kind!r}"
            raise ValueError(message)
