"""Proposals from boxes of given shapes in OpenVINO, held against its plugin."""

import numpy as np
import pytest

from graphport.backends import reference
from graphport.conversion.legalize import legalize
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word, completed

N, H, W = 2, 3, 4
HW = (Symbol("h"), Symbol("w"))
STATED = {"base_size": 16, "nms_thresh": 0.6, "feat_stride": 8, "min_size": 4, "ratio": (0.5, 1.0, 2.0)}
STATED |= {"scale": (0.7, 1.3), "pre_nms_topn": 30, "post_nms_topn": 9}


def operands(picture, *, seed=5, spread=0.3):
    random = np.random.default_rng(seed)
    scores = (random.permutation(N * 12 * H * W) + 1).reshape(N, 12, H, W) / (N * 12 * H * W)
    deltas = random.normal(0, spread, (N, 24, H, W))
    return [scores.astype(np.float32), deltas.astype(np.float32), np.array(picture, np.float32)]


@at_once("framework", ["", "tensorflow"])
@at_once("said", [{}, {"clip_before_nms": False}, {"clip_before_nms": False, "clip_after_nms": True}])
@at_once("more", [{}, {"normalize": True, "box_size_scale": 2.0, "box_coordinate_scale": 3.0}])
def test_regions_with_scores(framework, said, more):
    given = operands([30, 25, 1.5])
    check_word("opset4.Proposal", given, outputs=2, tolerance=1e-4, framework=framework, **(STATED | said | more))


@at_once("framework", ["", "tensorflow"])
def test_each_side_has_its_own_scale(framework):
    said = STATED | {"min_size": 10, "post_nms_topn": 3}
    given = operands([30, 25, 1.0, 1.7], seed=6)
    check_word("opset4.Proposal", given, outputs=2, tolerance=1e-4, framework=framework, **said)


@at_once("before", [20, 1000])
def test_rows_that_are_missing_start_with_an_end_mark(before):
    said = STATED | {"pre_nms_topn": before, "nms_thresh": 0.4, "post_nms_topn": 40, "min_size": 1}
    (rows,) = check_word("opset1.Proposal", operands([30, 25, 1]), tolerance=1e-4, **said)
    assert (rows[:, 0] == -1).sum() == N


@at_once(
    ("wrong", "reason"),
    [
        ({"ratio": (1.0,)}, "12 scores per position for 2 boxes"),
        ({"ratio": (1.0, 2.0, 0.0)}, "ratio is"),
        ({"framework": "caffe"}, "of the framework 'caffe'"),
        ({"post_nms_topn": 0}, "post_nms_topn 0"),
    ],
)
def test_invalid_boxes_are_refused(wrong, reason):
    with pytest.raises(AssertionError, match=reason):
        check_word("opset1.Proposal", operands([30, 25, 1]), expected=[], **(STATED | wrong))


def test_sizes_that_only_a_run_can_tell():
    given = operands([30, 25, 1])
    graph = Graph("one")
    values = [
        graph.add_input(f"i{number}", TensorFact(DType.FLOAT32, shape))
        for number, shape in enumerate([(Symbol("n"), 12, Symbol("h"), Symbol("w")), (Symbol("n"), 24, *HW), (3,)])
    ]
    results = [Value("rows"), Value("scores")]
    graph.append(Node("opset4.Proposal", values, results, completed("opset4.Proposal", STATED), dialect="openvino"))
    for result in results:
        graph.add_output(result)
    said, findings = legalize(graph)
    assert not findings
    found = reference.prepare(said).run({f"i{number}": x for number, x in enumerate(given)})
    expected = check_word("opset4.Proposal", given, outputs=2, tolerance=1e-4, **STATED)
    for result, array in zip(said.outputs, expected, strict=True):
        np.testing.assert_array_equal(found[result.name], array)
