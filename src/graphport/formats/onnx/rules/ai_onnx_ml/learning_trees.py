"""Tree ensembles of `ai.onnx.ml`: evaluated for all rows at once, and as tables that are walked level by level."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import Storage
from graphport.formats.onnx.rules.ai_onnx_ml.scores import emit_transformed, labelled, transformed
from graphport.ops.declare import ShapeError, UnsupportedError, expansion, meaning
from graphport.ops.definitions.arithmetic import Add, Div, Neg, Sub
from graphport.ops.definitions.comparison import (
    And,
    Equal,
    Greater,
    IsNaN,
    Less,
    LessOrEqual,
    Or,
    Where,
)
from graphport.ops.definitions.indexing import Gather, GatherElements
from graphport.ops.definitions.reduction import ArgMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Shape, Squeeze
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

definition_of = partial(meaning, "ai.onnx.ml")
replaced = partial(expansion, "ai.onnx.ml")
_MAX_DEPTH = 64
"""Levels of a tree that are written out."""
_MAX_WEIGHTS = 1 << 26
"""Elements of the table of leaf weights by node and class."""
_HALF = 0.5
_NODE_LISTS = [
    f"nodes_{name}" for name in ("treeids", "nodeids", "modes", "featureids", "truenodeids", "falsenodeids", "values")
]

_BRANCHES: Mapping[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


def _either(stated: Mapping[str, Any], name: str) -> Any:
    """Return an attribute that is a list of floats (`NAME`) or a tensor (`NAME_as_tensor`); `None` if empty."""
    found = stated.get(f"{name}_as_tensor", stated.get(name))
    return None if found is None or len(found) == 0 else np.asarray(found, getattr(found, "dtype", np.float32))


def _check(stated: Mapping[str, Any], kind: str, count: int) -> None:
    """Check the lists of an ensemble: equal lengths, and identifiers of nodes and classes that exist.

    Raises:
        ShapeError: they do not fit together.
        UnsupportedError: the table of leaf weights has more than `_MAX_WEIGHTS` elements.
    """
    for names in (_NODE_LISTS, [f"{kind}_{name}" for name in ("treeids", "nodeids", "ids", "weights")]):
        lengths = {name: len(_list(stated, name)) for name in names}
        if len({*lengths.values()}) > 1 or not min(lengths.values()):
            message = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ShapeError(f"the attributes differ in length or are empty: {message}")
    nodes = list(zip(stated["nodes_treeids"], stated["nodes_nodeids"], strict=True))
    known = set(nodes)
    inner = [place for place, mode in enumerate(stated["nodes_modes"]) if mode != "LEAF"]
    ways = (stated["nodes_truenodeids"], stated["nodes_falsenodeids"])
    targets = {(nodes[place][0], way[place]) for way in ways for place in inner}
    leaves = set(zip(stated[f"{kind}_treeids"], stated[f"{kind}_nodeids"], strict=True))
    if len(known) < len(nodes) or not targets | leaves <= known:
        missing = sorted((targets | leaves) - known)[:1]
        raise ShapeError(f"undefined tree node {missing[0]}" if missing else "duplicate tree node id")
    if any(stated["nodes_featureids"][place] < 0 for place in inner):
        raise ShapeError("a feature index is negative")
    if not all(0 <= index < count for index in stated[f"{kind}_ids"]):
        raise ShapeError(f"{kind}_ids are not below {count}")
    follow, base = _list(stated, "nodes_missing_value_tracks_true"), _list(stated, "base_values")
    if len(follow) not in (0, len(nodes)) or len(base) not in (0, 1, count):
        raise ShapeError(f"{len(follow)} flags of missing values for {len(nodes)} nodes, {len(base)} base values")
    if len(nodes) * count > _MAX_WEIGHTS:
        raise UnsupportedError(f"{count} weights for each of {len(nodes)} nodes")


def _list(stated: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = stated.get(f"{name}_as_tensor", stated.get(name))
    return () if found is None else found


def _leaves(x: Any, stated: Mapping[str, Any]) -> tuple[Any, list[tuple[int, int]]]:
    """Return the leaf of each row in each tree, and the node identifiers.  Shapes: x [n, c] → [n, trees].

    Raises:
        ValueError: a tree has a cycle, or an unknown comparison.
    """
    names = list(zip(stated["nodes_treeids"], stated["nodes_nodeids"], strict=True))
    modes = np.asarray(stated["nodes_modes"], object)
    unknown = sorted(set(modes.tolist()) - {*_BRANCHES, "LEAF"})
    if unknown:
        message = f"unknown node mode {unknown[0]}"
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
    message = "a tree contains a cycle"
    raise ValueError(message)


def _targets(nodes: Sequence[int], names: Sequence[tuple[int, int]], is_leaf: Any) -> Any:
    """Return the target index of each node; a leaf points to itself."""
    number = {name: place for place, name in enumerate(names)}
    return np.array([at if is_leaf[at] else number[names[at][0], node] for at, node in enumerate(nodes)])


def _votes(x: Any, stated: Mapping[str, Any], kind: str, count: int, function: str) -> Any:
    """Aggregate the leaf weights by class or target.  Shapes: x [n, c] → [n, count]."""
    x = x if x.dtype == np.float64 else x.astype(np.float32)
    _check(stated, kind, count)
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
        message = f"unknown aggregate_function {function}"
        raise ValueError(message)
    base = _either(stated, "base_values")
    return (y if base is None else y + base.reshape(1, -1)).astype(np.float32)


@definition_of("TreeEnsembleRegressor")
def tree_ensemble_regressor(
    x: Any, *, n_targets: int = 1, aggregate_function: str = "SUM", post_transform: str = "NONE", **stated: Any
) -> Any:
    """Tree ensemble regressor: aggregated leaf weights.  Shapes: x [n, c] → [n, targets]."""
    return transformed(_votes(x, stated, "target", n_targets, aggregate_function), post_transform)


@definition_of("TreeEnsembleClassifier")
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
    is_binary = len(labels) == 2 and len(set(_list(stated, "class_ids"))) == 1
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


# ── as tables ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_COMPARISONS: Mapping[str, tuple[OpDef, bool]] = {
    "BRANCH_LEQ": (LessOrEqual, False),
    "BRANCH_LT": (Less, False),
    "BRANCH_GTE": (LessOrEqual, True),
    "BRANCH_GT": (Less, True),
    "BRANCH_EQ": (Equal, False),
}
"""The operator, and whether its operands are swapped: OpenVINO's Greater and GreaterEqual hold for NaN."""


def _depth(roots: Any, yes: Any, no: Any, is_leaf: Any) -> int:
    """Number of levels below the roots.

    Raises:
        UnsupportedError: there are too many.
    """
    level = np.unique(roots)
    for depth in range(_MAX_DEPTH + 1):
        if is_leaf[level].all():
            return depth
        level = np.unique(np.concatenate([yes[level], no[level]]))
    message = f"trees of more than {_MAX_DEPTH} levels"
    raise UnsupportedError(message)


def _walked(b: Builder, x: Value, stated: Mapping[str, Any]) -> tuple[Value, list[tuple[int, int]]]:
    """Emit the walk from the roots to the leaves; return the leaf of each row in each tree, and the node identifiers.

    Level by level:  at = Where(x[:, feature[at]] <= bound[at], yes[at], no[at])
    """
    names = list(zip(stated["nodes_treeids"], stated["nodes_nodeids"], strict=True))
    modes = np.asarray(stated["nodes_modes"], object)
    used = sorted(set(modes.tolist()) - {"LEAF"})
    if unknown := sorted(set(used) - set(_COMPARISONS)):
        message = f"trees with {unknown[0]}"
        raise UnsupportedError(message)
    is_leaf = modes == "LEAF"
    follow = np.asarray(stated.get("nodes_missing_value_tracks_true") or [0] * len(names), bool)
    yes, no = (_targets(stated[f"nodes_{way}nodeids"], names, is_leaf) for way in ("true", "false"))
    first: dict[int, int] = {}
    for place, (tree, _) in enumerate(names):
        first.setdefault(tree, place)
    roots = np.array([first[tree] for tree in sorted(first)], np.int64)
    features = b.constant(np.where(is_leaf, 0, np.asarray(stated["nodes_featureids"])).astype(np.int64))
    bounds = b.constant(np.asarray(_either(stated, "nodes_values")).astype(dtype_of(x).numpy))
    targets = [b.constant(each.astype(np.int64)) for each in (yes, no)]
    masks = {mode: b.constant(modes == mode) for mode in used} if len(used) > 1 else {}
    tracks = b.constant(follow & ~is_leaf) if (follow & ~is_leaf).any() else None
    rows = b(Concat, b(Shape, x, start=0, end=1), [len(roots)], axis=0)
    at = b(Expand, b.constant(roots[None]), rows)
    for _ in range(_depth(roots, yes, no, is_leaf)):
        value, bound = b(GatherElements, x, b(Gather, features, at), axis=1), b(Gather, bounds, at)
        holds: Value | None = None
        for mode in used:
            op_def, is_swapped = _COMPARISONS[mode]
            own = b(op_def, bound, value) if is_swapped else b(op_def, value, bound)
            own = b(And, b(Gather, masks[mode], at), own) if masks else own
            holds = own if holds is None else b(Or, holds, own)
        if holds is None:
            break
        if tracks is not None:
            holds = b(Or, holds, b(And, b(IsNaN, value), b(Gather, tracks, at)))
        at = b(Where, holds, *(b(Gather, each, at) for each in targets))
    return at, names


def _scores(b: Builder, x: Value, stated: Mapping[str, Any], kind: str, count: int, function: str) -> Value:
    """Emit the sums of the leaf weights by class or target.  Shapes: x [n, c] → [n, count]."""
    if function not in ("SUM", "AVERAGE"):
        message = f"the aggregation {function} of trees"
        raise UnsupportedError(message)
    wide = DType.FLOAT64 if dtype_of(x) is DType.FLOAT64 else DType.FLOAT32
    _check(stated, kind, count)
    at, names = _walked(b, cast(b, x, wide), stated)
    number = {name: place for place, name in enumerate(names)}
    table = np.zeros((len(names), count), np.float64)
    weights = _either(stated, f"{kind}_weights")
    entries = zip(stated[f"{kind}_treeids"], stated[f"{kind}_nodeids"], stated[f"{kind}_ids"], weights, strict=True)
    for tree, node, target, weight in entries:
        table[number[tree, node], target] += weight
    y = b(ReduceSum, b(Gather, b.constant(table.astype(np.float32)), at), [1], keepdims=0)
    if function == "AVERAGE":
        y = b(Div, y, len({tree for tree, _ in names}))
    base = _either(stated, "base_values")
    return y if base is None else b(Add, y, b.constant(base.astype(np.float32)))


@replaced("TreeEnsembleRegressor")
def expand_regressor(
    b: Builder,
    x: Value,
    *,
    n_targets: int = 1,
    aggregate_function: str = "SUM",
    post_transform: str = "NONE",
    **stated: Any,
) -> Value:
    return emit_transformed(b, _scores(b, x, stated, "target", n_targets, aggregate_function), post_transform)


@replaced("TreeEnsembleClassifier")
def expand_classifier(
    b: Builder,
    x: Value,
    *,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
    **stated: Any,
) -> tuple[Value, Value]:
    if classlabels_strings:
        message = "string labels"
        raise UnsupportedError(message)
    labels = b.constant(np.array(classlabels_int64s, np.int64))
    is_binary = len(classlabels_int64s) == 2 and len(set(_list(stated, "class_ids"))) == 1
    base = _either(stated, "base_values")
    if is_binary and base is not None and base.size == 1:
        stated = {**stated, "base_values": (float(base[0]),) * 2}
        stated.pop("base_values_as_tensor", None)
    scores = _scores(b, x, stated, "class", len(classlabels_int64s), "SUM")
    if not is_binary:
        y = emit_transformed(b, scores, post_transform)
        return b(Gather, labels, b(ArgMax, y, axis=1, keepdims=0)), y
    one = b(Gather, scores, [stated["class_ids"][0]], axis=1)
    is_share = min(_either(stated, "class_weights")) >= 0
    other = b(Sub, 1, one) if is_share and post_transform == "NONE" else b(Neg, one)
    is_second = b(Squeeze, b(Greater, one, b.like(one, _HALF if is_share else 0)), [1])
    label = b(Where, is_second, *(b.constant(np.int64(classlabels_int64s[place])) for place in (1, 0)))
    return label, emit_transformed(b, b(Concat, other, one, axis=1), post_transform)


# ── TreeEnsemble of ai.onnx.ml 5 ──────────────────────────────────────────────────────────────────────────────────────

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_AGGREGATIONS = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _flat(given: Any) -> Any:
    """Return an attribute, a list or a tensor, as a vector."""
    return np.asarray(given.numpy() if isinstance(given, Storage) else given).reshape(-1)


def _as_regressor(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the TreeEnsembleRegressor that equals a TreeEnsemble.

    Raises:
        ShapeError: an index or a number is out of range, lists have different lengths, or a node has two parents.
        UnsupportedError: nodes that test the membership in a set.
    """
    names = [f"nodes_{name}" for name in ("modes", "splits", "featureids", "truenodeids", "falsenodeids")]
    columns = [_flat(stated[name]).tolist() for name in names]
    ends = [_flat(stated[f"nodes_{way}leafs"]).tolist() for way in ("true", "false")]
    weights, targets = (_flat(stated[f"leaf_{name}"]) for name in ("weights", "targetids"))
    count = len(columns[0])
    if {len(each) for each in (*columns, *ends)} != {count} or len(weights) != len(targets) or not count:
        raise ShapeError("the attributes of nodes or leaves differ in length or are empty")
    if any(mode not in range(len(_MODES)) for mode in columns[0]):
        raise UnsupportedError("trees with BRANCH_MEMBER")
    follow = stated.get("nodes_missing_value_tracks_true") or ()
    rows: list[tuple[Any, ...]] = []
    leaves: list[tuple[int, int]] = []
    for tree, root in enumerate(_flat(stated["tree_roots"]).tolist()):
        pending, seen = [(int(root), False)], set[int]()
        while pending:
            index, is_leaf = pending.pop()
            if not 0 <= index < (len(weights) if is_leaf else count):
                raise ShapeError(f"index {index} of a {'leaf' if is_leaf else 'node'} is out of range")
            if is_leaf:
                if count + index not in seen:
                    rows.append((tree, count + index, "LEAF", 0.0, 0, 0, 0, 0))
                    leaves.append((tree, index))
            elif index in seen:
                raise ShapeError(f"node {index} has two parents")
            else:
                mode, split, feature, *ways = (each[index] for each in columns)
                nexts = [(int(way), bool(end[index])) for way, end in zip(ways, ends, strict=True)]
                to = [way + count if is_end else way for way, is_end in nexts]
                rows.append((tree, index, _MODES[mode], split, feature, *to, int(follow[index]) if len(follow) else 0))
                pending += nexts
            seen.add(count + index if is_leaf else index)
    trees, nodes, modes, splits, features, yes, no, tracks = zip(*rows, strict=True)
    regressor: dict[str, Any] = {
        "nodes_treeids": trees,
        "nodes_nodeids": nodes,
        "nodes_modes": modes,
        "nodes_featureids": features,
        "nodes_values_as_tensor": np.array(splits, _flat(stated["nodes_splits"]).dtype),
        "nodes_truenodeids": yes,
        "nodes_falsenodeids": no,
        "nodes_missing_value_tracks_true": tracks,
        "target_treeids": [tree for tree, _ in leaves],
        "target_nodeids": [count + leaf for _, leaf in leaves],
        "target_ids": [int(targets[leaf]) for _, leaf in leaves],
        "target_weights_as_tensor": weights[[leaf for _, leaf in leaves]],
        "n_targets": stated.get("n_targets", 1),
    }
    for name, known, default in (("aggregate_function", _AGGREGATIONS, 1), ("post_transform", _TRANSFORMS, 0)):
        number = int(stated.get(name, default))
        if number not in range(len(known)):
            raise ShapeError(f"{name} is {number}, expected a number below {len(known)}")
        regressor[name] = known[number]
    return regressor


@definition_of("TreeEnsemble")
def tree_ensemble(x: Any, **stated: Any) -> Any:
    """Tree ensemble: aggregated leaf weights.  Shapes: x [n, c] → [n, targets]."""
    return tree_ensemble_regressor(x, **_as_regressor(stated)).astype(x.dtype)


@replaced("TreeEnsemble")
def expand_ensemble(b: Builder, x: Value, **stated: Any) -> Value:
    return cast(b, expand_regressor(b, x, **_as_regressor(stated)), dtype_of(x))
