"""Convolutions in space-to-batch form become dilated convolutions, with equal results and correct facts."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from graphport.backends import reference
from graphport.conversion.legalize import legalize
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes.dilations import dilate
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify

RNG = np.random.default_rng(7)
F32 = DType.FLOAT32


def net(extents: tuple[int, int], blocks: tuple[int, int], pads: Any, crops: Any, **told: Any) -> Any:
    """Return SpaceToBatch of images with two channels, a 3x2 convolution, and BatchToSpace."""
    graph: Any = Graph()
    x = graph.add_input("x", TensorFact(F32, (2, *extents, 2)))

    def put(op_type: str, shape: Any, *operands: Any, **stated: Any) -> Value:
        read = [each if isinstance(each, Value) else constant(each) for each in operands]
        return graph.append(
            Node(op_type, read, [Value(op_type, TensorFact(F32, shape))], stated, dialect="tflite")
        ).output

    def constant(array: Any) -> Value:
        storage = storage_of(np.asarray(array))
        return graph.add_constant("c", TensorFact.of(storage), storage)

    count = 2 * blocks[0] * blocks[1]
    apart = [(n + sum(pair)) // block for n, pair, block in zip(extents, pads, blocks, strict=True)]
    slid = [apart[0] - 2, apart[1] - 1]
    whole = [n * block - sum(pair) for n, block, pair in zip(slid, blocks, crops, strict=True)]
    table = np.array(blocks, np.int32)
    pieces = put("SPACE_TO_BATCH_ND", (count, *apart, 2), x, table, np.array(pads, np.int32))
    options = {"padding": 1, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1} | told
    w = RNG.normal(size=(3, 3, 2, 2)).astype(np.float32)
    y = put("CONV_2D", (count, *slid, 3), pieces, w, np.zeros(3, np.float32), **options)
    graph.add_output(put("BATCH_TO_SPACE_ND", (2, *whole, 3), y, table, np.array(crops, np.int32)))
    return graph


def run(graph: Any, x: Any) -> Any:
    said, findings = legalize(rewrite.copy(graph))
    assert not findings
    return next(iter(reference.prepare(said).run({"x": x}).values()))


@pytest.mark.parametrize("first", [0, 1, 3])
def test_padding_less_crops_stays_and_every_tensor_has_the_shape_that_is_stated(first):
    for blocks, last, crop in product([(2, 2), (2, 1), (3, 2)], (0, 2), (0, 1)):
        pads = [(first, last), (first, 0)]
        extents = [block * 6 - sum(pair) for block, pair in zip(blocks, pads, strict=True)]
        crops = [(min(crop, begin), min(crop, end)) for begin, end in pads]
        graph = net((extents[0], extents[1]), blocks, pads, crops)
        x = RNG.normal(size=(2, *extents, 2)).astype(np.float32)
        expected = run(graph, x)
        dilate(graph)
        verify(graph)
        left = [begin - least + end - most for (begin, end), (least, most) in zip(pads, crops, strict=True)]
        assert [node.op_type for node in graph] == ["PAD"] * any(left) + ["CONV_2D"]
        *_, convolution = graph
        assert [convolution.attributes[f"dilation_{axis}_factor"] for axis in "hw"] == list(blocks)
        if any(left):
            stated = convolution.operands[0].fact
            assert stated.shape == (2, extents[0] + left[0], extents[1] + left[1], 2)
        assert convolution.output.fact.shape == expected.shape
        np.testing.assert_allclose(run(graph, x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("pads", "crops", "told"),
    [
        ([(0, 0), (0, 0)], [(1, 0), (0, 0)], {}),
        ([(0, 0), (0, 0)], [(0, 0), (0, 0)], {"stride_h": 2}),
        ([(0, 0), (0, 0)], [(0, 0), (0, 0)], {"padding": 0}),
        ([(0, 0), (0, 0)], [(0, 0), (0, 0)], {"dilation_w_factor": 2}),
    ],
    ids=["crops beyond the padding", "strides", "borders of its own", "gaps of its own"],
)
def test_others_stay(pads, crops, told):
    graph = net((12, 12), (2, 2), pads, crops, **told)
    dilate(graph)
    assert [node.op_type for node in graph] == ["SPACE_TO_BATCH_ND", "CONV_2D", "BATCH_TO_SPACE_ND"]
