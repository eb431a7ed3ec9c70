"""Tree ensembles in tract's NNEF, in the arrays of tract's ONNX reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.tract.binding import import_rule
from graphport.ir.graph import Node, Value
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError

if TYPE_CHECKING:
    from graphport.ops.builder import Builder

_DOMAIN = "ai.onnx.ml"
_MODES = {1: "BRANCH_EQ", 2: "BRANCH_NEQ", 3: "BRANCH_LT", 4: "BRANCH_GT", 5: "BRANCH_LEQ", 6: "BRANCH_GTE"}
_LEAF = 0
_TO_TRUE = 256
"""Node flag: NaN follows the true branch."""
_COLUMNS = {"nodes": 5, "leaves": 2}


@import_rule("tract_onnx_ml_tree_ensemble_classifier")
def trees(
    b: Builder,
    input: Value,
    trees: Value,
    nodes: Value,
    leaves: Value,
    *,
    max_used_feature: int,
    n_classes: int,
    aggregate_fn: str = "SUM",
) -> Value:
    """Sum the leaf weights per class for each row, as ONNX's TreeEnsemble.

    A row of `nodes` has a feature, the two children, the bits of the threshold and the comparison; for a leaf, its rows
    in `leaves`: a class, and the bits of a weight. `trees` has the root of each tree.
    """
    del max_used_feature
    roots = _constant_array(trees, "trees").reshape(-1)
    rows, ends = _constant_array(nodes, "nodes"), _constant_array(leaves, "leaves")
    batch = b.dims(input, at_least=1)[0]
    fact = TensorFact(DType.FLOAT32, (batch, n_classes))
    if b.graph is None or b.before is None:
        return Value(b.stem, fact)
    result = Value(b.graph.fresh(b.stem), fact)
    given = _attributes(roots, rows, ends)
    given |= {"n_targets": n_classes, "aggregate_function": aggregate_fn, "post_transform": "NONE"}
    made = Node("TreeEnsembleRegressor", [input], [result], given, dialect=_DOMAIN, origin=b.origin)
    b.graph.insert_before(b.before, made)
    return result


def _constant_array(value: Value, name: str) -> Any:
    storage = folded(value)
    if storage is None:
        message = f"{name} known only at run time"
        raise UnsupportedError(message)
    if not storage.dtype.is_integer:
        message = f"{name} is {storage.dtype}"
        raise ShapeError(message, "use integers")
    array = storage.numpy().astype(np.uint32)
    columns = _COLUMNS.get(name)
    if columns is not None and (array.ndim != 2 or array.shape[1] != columns):
        message = f"{name} has the shape {list(array.shape)}"
        raise ShapeError(message, f"use rows of {columns}")
    return array


def _attributes(roots: Any, rows: Any, ends: Any) -> dict[str, Any]:
    """Return ONNX's attributes of the trees; nodes are identified by tree and index.

    Raises:
        ShapeError: a child is outside its tree, or a comparison is unknown.
    """
    tree = np.searchsorted(roots, np.arange(len(rows)), side="right") - 1
    codes = rows[:, 4] & (_TO_TRUE - 1)
    is_leaf = codes == _LEAF
    first, last = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)
    is_lost = ~is_leaf & ((rows[:, 1:3] >= len(rows)).any(1))
    if (is_lost | (is_leaf & ((last > len(ends)) | (first > last)))).any() or not set(codes.tolist()) <= {
        _LEAF,
        *_MODES,
    }:
        message = "a tree node has no valid child"
        raise ShapeError(message)
    targets: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for at in np.flatnonzero(is_leaf):
        for end in range(first[at], last[at]):
            stated = (int(tree[at]), int(at), int(ends[end, 0]), float(ends[end, 1:].view(np.float32)[0]))
            for name, number in zip(targets, stated, strict=True):
                targets[name].append(number)
    follows = (rows[:, 4] & _TO_TRUE) != 0
    return {
        "nodes_treeids": tuple(tree.tolist()),
        "nodes_nodeids": tuple(range(len(rows))),
        "nodes_featureids": tuple(np.where(is_leaf, 0, rows[:, 0]).tolist()),
        "nodes_values": tuple(np.where(is_leaf, 0, rows[:, 3].copy().view(np.float32)).astype(np.float32).tolist()),
        "nodes_modes": tuple("LEAF" if code == _LEAF else _MODES[code] for code in codes.tolist()),
        "nodes_truenodeids": tuple(np.where(is_leaf, 0, rows[:, 1]).tolist()),
        "nodes_falsenodeids": tuple(np.where(is_leaf, 0, rows[:, 2]).tolist()),
        "nodes_missing_value_tracks_true": tuple(follows.astype(int).tolist()),
        **{f"target_{name}": tuple(numbers) for name, numbers in targets.items()},
    }
