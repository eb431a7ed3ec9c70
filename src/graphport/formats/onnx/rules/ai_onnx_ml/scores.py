"""Post transforms of classifiers and regressors of `ai.onnx.ml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Sigmoid, Softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_NO_SCORE = 1e-7
"""Scores that `SOFTMAX_ZERO` treats as 0."""


def transformed(scores: Any, name: str) -> Any:
    """`scores` [n, classes] after `post_transform`.

    Raises:
        ValueError: there is none of this name, or no formula for it here.
    """
    match name:
        case "NONE":
            return scores
        case "LOGISTIC":
            return (1 / (1 + np.exp(-scores))).astype(scores.dtype)
        case "SOFTMAX" | "SOFTMAX_ZERO":
            top = scores.max(1, keepdims=True)
            powers = np.exp(scores - top)
            if name == "SOFTMAX_ZERO":
                powers = np.where(np.abs(scores) > _NO_SCORE, powers, scores * np.exp(-top))
            total = powers.sum(1, keepdims=True)
            return np.where(total == 0, np.float32(0.5), powers / np.where(total == 0, 1, total)).astype(scores.dtype)
        case _:
            message = f"unknown post_transform {name!r}"
            raise ValueError(message)


def emit_transformed(b: Builder, scores: Value, name: str) -> Value:
    """Emit `post_transform` of `scores` [n, classes].

    Raises:
        UnsupportedError: it has no canonical form.
    """
    match name:
        case "NONE":
            return scores
        case "LOGISTIC":
            return b(Sigmoid, scores)
        case "SOFTMAX":
            return b(Softmax, scores, axis=1)
        case _:
            message = f"the transformation {name}"
            raise UnsupportedError(message)


def labelled(indices: Any, labels: Sequence[Any]) -> Any:
    """Return the label of each index."""
    kind = object if labels and isinstance(labels[0], str) else np.int64
    return np.asarray(labels, kind)[indices]
