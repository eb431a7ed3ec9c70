"""Nodes of other domains and of newer opsets come back exactly as they were, also among nodes that were changed."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.formats.onnx.newest import NEEDS_NEWEST_OPSET
from tests.models import model, node, typed

ENCODER = {"keys_strings": ["a", "b"], "values_int64s": [5, 7], "default_int64": -1, "name": "encoder"}
TREE = {
    "aggregate_function": 1,
    "leaf_targetids": [0, 0],
    "leaf_weights": numpy_helper.from_array(np.array([2.5, -1], np.float32)),
    "membership_values": numpy_helper.from_array(np.array([1.5, np.nan], np.float32)),
    "n_targets": 1,
    "nodes_falseleafs": [1],
    "nodes_falsenodeids": [0],
    "nodes_featureids": [0],
    "nodes_modes": numpy_helper.from_array(np.array([6], np.uint8)),
    "nodes_splits": numpy_helper.from_array(np.array([0], np.float32)),
    "nodes_trueleafs": [1],
    "nodes_truenodeids": [1],
    "post_transform": 0,
    "tree_roots": [0],
}


def labelled() -> onnx.ModelProto:
    """Labels as numbers, behind and before operators that change on the way."""
    nodes = [
        node("Identity", ["x"], ["h"]),
        node("LabelEncoder", ["h"], ["k"], domain="ai.onnx.ml", doc_string="of two", **ENCODER),
        node("Cast", ["k"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["f", "zero"], ["g"]),
        node("TreeEnsemble", ["g"], ["y"], domain="ai.onnx.ml", **TREE),
    ]
    given = typed("x", ["N", 1], TensorProto.STRING)
    return model(nodes, [given], [("y", ["N", 1])], {"zero": np.float32(0)}, domains={"ai.onnx.ml": 5})


def opaque(proto: onnx.ModelProto) -> list[tuple[str, str, dict[str, object]]]:
    """Words and attributes of the nodes of other domains."""
    return [
        (each.domain, each.op_type, {a.name: helper.get_attribute_value(a) for a in each.attribute})
        for each in proto.graph.node
        if each.domain
    ]


def written(proto: onnx.ModelProto, tmp_path, verb: str) -> onnx.ModelProto:
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    onnx.save(proto, source)
    loaded = gp.load(source, raw=verb == "raw")
    gp.save(getattr(gp, verb)(loaded, verify=False)[0] if verb in ("simplify", "prepare") else loaded, target)
    return onnx.load(target)


@pytest.mark.parametrize("verb", ["raw", "load", "simplify", "prepare"])
def test_custom_domains_are_kept(tmp_path, verb):
    before = labelled()
    after = written(before, tmp_path, verb)
    versions = {each.domain: each.version for each in after.opset_import}
    assert versions["ai.onnx.ml"] == 5
    assert versions[""] == next(each.version for each in before.opset_import if not each.domain)
    assert str(opaque(after)) == str(opaque(before))
    assert [each.type for each in after.graph.output] == [each.type for each in before.graph.output]
    texts = {"x": np.array([["b"], ["c"], ["a"]], object)}
    runs = [onnxruntime.InferenceSession(each.SerializeToString()).run(None, texts)[0] for each in (before, after)]
    np.testing.assert_array_equal(*runs)


@NEEDS_NEWEST_OPSET
@pytest.mark.parametrize("verb", ["raw", "load", "simplify"])
def test_newer_operators_keep_their_opset(tmp_path, verb):
    nodes = [
        node("Range", ["a", "b", "c"], ["r"], stash_type=10),
        node("Identity", ["r"], ["h"]),
        node("Neg", ["h"], ["y"]),
    ]
    inputs = [typed(name, [], TensorProto.FLOAT16) for name in "abc"]
    before = model(nodes, inputs, [typed("y", ["n"], TensorProto.FLOAT16)], opset=27)
    after = written(before, tmp_path, verb)
    (found,) = [each for each in after.graph.node if each.op_type == "Range"]
    assert found == before.graph.node[0]
    assert after.opset_import[0].version == 27
