"""Bags of rows, segments and decoders in OpenVINO."""

import numpy as np

from graphport.core.dtypes import DType
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(15)
TABLE = RANDOM.normal(size=(6, 3)).astype(np.float32)
INDICES = np.array([0, 2, 3, 4, 1], np.int32)
OFFSETS = np.array([0, 2, 2], np.int32)
WEIGHTS = RANDOM.uniform(size=5).astype(np.float32)


@at_once("more", [[], [np.array(1, np.int32)], [np.array(1, np.int32), WEIGHTS]], ids=["0", "1", "2"])
def test_bags_by_offsets(more):
    operands = [TABLE, INDICES, OFFSETS, *more]
    constants = (3,) if more else ()
    check_word("opset3.EmbeddingBagOffsetsSum", operands, constants=constants, tolerance=1e-5)
    check_word("opset15.EmbeddingBagOffsets", operands, constants=constants, tolerance=1e-5)
    if len(more) < 2:
        check_word("opset15.EmbeddingBagOffsets", operands, constants=constants, tolerance=1e-5, reduction="mean")


def test_packed_bags():
    indices = np.array([[0, 2], [3, 4], [1, 1]], np.int32)
    weights = RANDOM.uniform(size=(3, 2)).astype(np.float32)
    check_word("opset3.EmbeddingBagPackedSum", [TABLE, indices], tolerance=1e-5)
    check_word("opset3.EmbeddingBagPackedSum", [TABLE, indices, weights], tolerance=1e-5)
    check_word("opset15.EmbeddingBagPacked", [TABLE, indices], tolerance=1e-5, reduction="mean")


def test_segments():
    owners = np.array([0, 0, 2, 2, 2], np.int32)
    operands = [TABLE, INDICES, owners, np.array(4, np.int32)]
    check_word("opset3.EmbeddingSegmentsSum", operands, constants=(3,), tolerance=1e-5)
    operands += [np.array(5, np.int32), WEIGHTS]
    check_word("opset3.EmbeddingSegmentsSum", operands, constants=(3, 4), tolerance=1e-5)


@at_once("fill", ["zero", "lowest"])
def test_largest_of_segments(fill):
    data = RANDOM.normal(size=(5, 2)).astype(np.float32) - 3
    owners = np.array([0, 0, 2, 2, 2], np.int32)
    check_word("opset16.SegmentMax", [data, owners], fill_mode=fill)
    check_word("opset16.SegmentMax", [data, owners, np.array(4, np.int32)], constants=(2,), fill_mode=fill)


SCORES = RANDOM.normal(size=(7, 2, 3)).astype(np.float32) * 3


@at_once("merges", [False, True])
def test_greedy_decoder(merges):
    mask = np.ones((7, 2), np.float32)
    mask[5:, 1] = 0
    check_word("opset1.CTCGreedyDecoder", [SCORES, mask], ctc_merge_repeated=merges)


@at_once("merges", [False, True])
@at_once("blank", [[], [np.array(0, np.int32)]], ids=["last", "first"])
def test_greedy_decoder_of_lengths(merges, blank):
    operands = [np.ascontiguousarray(SCORES.transpose(1, 0, 2)), np.array([7, 4], np.int32), *blank]
    flags = {"merge_repeated": merges, "classes_index_type": DType.INT32}
    check_word("opset6.CTCGreedyDecoderSeqLen", operands, outputs=2, **flags)


def test_gather_tree():
    steps = RANDOM.integers(0, 9, (5, 2, 3)).astype(np.int32)
    parents = RANDOM.integers(0, 3, (5, 2, 3)).astype(np.int32)
    operands = [steps, parents, np.array([5, 3], np.int32), np.array(4, np.int32)]
    check_word("opset1.GatherTree", operands, constants=(3,))


@at_once("default", [-1, 2])
def test_a_default_row_at_run_time(default):
    table = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
    operands = [table, np.array([0, 3]), np.array([0, 0, 1]), np.array(default)]
    check_word("opset3.EmbeddingBagOffsetsSum", operands, tolerance=1e-5)
