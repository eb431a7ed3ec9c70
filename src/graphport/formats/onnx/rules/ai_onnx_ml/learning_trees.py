"""Tree ensembles of `ai.onnx.ml`, evaluated for all rows at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.onnx.rules.ai_onnx_ml.scores import labelled, transformed
from graphport.ops.declare import meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

word = partial(meaning, "ai.onnx.ml")
_HALF = 0.5

_BRANCHES: Mapping[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


def _either(stated: Mapping[str, Any], name: str) -> Any:
    """An attribute that is a list of floats, or a tensor."""
    found = stated.get(f"{name}_as_tensor", stated.get(name))
    return None if found is None or len(found) == 0 else np.asarray(found, getattr(found, "dtype", np.float32))


def _leaves(x: Any, stated: Mapping[str, Any]) -> tuple[Any, list[tuple[int, int]]]:
    """Return the leaf of each row in each tree, and the node identifiers.  Shapes: x [n, c] → [n, trees].

    Raises:
        ValueError: a tree has a cycle, or an unknown comparison.
    """
    names = list(zip(stated["nodes_treeids"], stated["nodes_nodeids"], strict=True))
    modes = np.asarray(stated["nodes_modes"], object)
    unknown = sorted(set(modes.tolist()) - {*_BRANCHES, "LEAF"})
    if unknown:
        message = f"there is no rule for {unknown[0]}"
        raise ValueError(message)
    is_leaf, features = modes == "LEAF", np.asarray(stated["nodes_featureids"])
    bounds = _either(stated, "nodes_values")
    follow = stated.get("nodes_missing_value_tracks_true") or ()
    tracks = np.asarray(follow, bool) if len(follow) else np.zeros(len(names), bool)
    yes, no = (_targets(stated[f"nodes_{way}nodeids"], names, is_leaf) for way in ("true", "false"))
    roots: dict[int, int] = {}
    for place, (tree, _) in enumerate(names):
        roots.setdefault(tree, place)
    rows = np.arange(len(x))[:, None]
    at = np.broadcast_to(np.array([roots[tree] for tree in sorted(roots)]), (len(x), len(roots)))
    for _ in range(len(names)):
        if is_leaf[at].all():
            return at, names
        value, bound, mode = x[rows, np.where(is_leaf[at], 0, features[at])], bounds[at], modes[at]
        holds = np.isnan(value) & tracks[at]
        for name in set(modes.tolist()) - {"LEAF"}:
            holds |= (mode == name) & ~np.isnan(value) & _BRANCHES[name](value, bound)
        at = np.where(holds, yes[at], no[at])
    if is_leaf[at].all():
        return at, names
    message = "a tree has no end"
    raise ValueError(message)


def _targets(nodes: Sequence[int], names: Sequence[tuple[int, int]], is_leaf: Any) -> Any:
    """Return the target index of each node; a leaf points to itself."""
    number = {name: place for place, name in enumerate(names)}
    return np.array([at if is_leaf[at] else number[names[at][0], node] for at, node in enumerate(nodes)])


def _votes(x: Any, stated: Mapping[str, Any], kind: str, count: int, function: str) -> Any:
    """Aggregate the leaf weights by class or target.  Shapes: x [n, c] → [n, count]."""
    x = x if x.dtype == np.float64 else x.astype(np.float32)
    at, names = _leaves(x, stated)
    weights = _either(stated, f"{kind}_weights")
    number = {name: place for place, name in enumerate(names)}
    shape = (len(names), count)
    table, is_stated = np.zeros(shape, np.float64), np.zeros(shape, bool)
    entries = zip(stated[f"{kind}_treeids"], stated[f"{kind}_nodeids"], stated[f"{kind}_ids"], weights, strict=True)
    for tree, node, target, weight in entries:
        table[number[tree, node], target] += weight
        is_stated[number[tree, node], target] = True
    found = table[at]  # [n, trees, count]
    if function in ("SUM", "AVERAGE"):
        y = found.sum(1) / (at.shape[1] if function == "AVERAGE" else 1)
    elif function in ("MIN", "MAX"):
        none = np.inf if function == "MIN" else -np.inf
        y = (np.min if function == "MIN" else np.max)(np.where(is_stated[at], found, none), axis=1)
        y = np.where(np.isinf(y), 0, y)
    else:
        message = f"there is no rule to put trees together by {function}"
        raise ValueError(message)
    base = _either(stated, "base_values")
    return (y if base is None else y + base.reshape(1, -1)).astype(np.float32)


@word("TreeEnsembleRegressor")
def tree_ensemble_regressor(
    x: Any, *, n_targets: int = 1, aggregate_function: str = "SUM", post_transform: str = "NONE", **stated: Any
) -> Any:
    """Tree ensemble regressor: aggregated leaf weights.  Shapes: x [n, c] → [n, targets]."""
    return transformed(_votes(x, stated, "target", n_targets, aggregate_function), post_transform)


@word("TreeEnsembleClassifier")
def tree_ensemble_classifier(
    x: Any,
    *,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
    **stated: Any,
) -> Any:
    """Tree ensemble classifier: the best label, and the scores.  Shapes: x [n, c] → [n], [n, classes].

    If leaves vote for one of two classes, the other one has the complement or the negated score.
    """
    labels = classlabels_strings or classlabels_int64s
    is_binary = len(labels) == 2 and len(set(stated["class_ids"])) == 1
    base = _either(stated, "base_values")
    if is_binary and base is not None and base.size == 1:
        stated = {**stated, "base_values": (float(base[0]),) * 2, "base_values_as_tensor": ()}
        stated.pop("base_values_as_tensor")
    scores = _votes(x, stated, "class", len(labels), "SUM")
    if not is_binary:
        y = transformed(scores, post_transform)
        return labelled(y.argmax(1), labels), y
    one = scores[:, stated["class_ids"][0]]
    # ONNX Runtime treats weights without a negative one as probabilities.
    is_share = min(_either(stated, "class_weights")) >= 0
    other = 1 - one if is_share and post_transform == "NONE" else -one
    y = transformed(np.stack([other, one], axis=1), post_transform)
    return labelled((one > (_HALF if is_share else 0)).astype(np.int64), labels), y
