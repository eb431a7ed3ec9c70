"""The loss of sequences in OpenVINO."""

import itertools

import numpy as np

from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(7)
LOGITS = RANDOM.normal(size=(3, 5, 4)).astype(np.float32)
LENGTHS = np.array([5, 4, 3], np.int32)
LABELS = np.array([[0, 1, 1, 2, 0], [2, 2, 1, 0, 0], [1, 0, 0, 0, 0]], np.int32)
COUNTS = np.array([4, 2, 1], np.int32)


@at_once("flags", list(itertools.product([False, True], repeat=3)))
@at_once("symbolic", [False, True])
def test_likelihood_of_labels(flags, symbolic):
    names = ("preprocess_collapse_repeated", "ctc_merge_repeated", "unique")
    operands = [LOGITS, LENGTHS, LABELS, COUNTS]
    check_word("opset4.CTCLoss", operands, symbolic=symbolic, tolerance=1e-4, **dict(zip(names, flags, strict=True)))


def test_any_class_can_be_the_blank():
    labels = np.where(LABELS >= 1, LABELS + 1, LABELS).astype(np.int32)
    operands = [LOGITS, LENGTHS, labels, COUNTS, np.array(1, np.int32)]
    check_word("opset4.CTCLoss", operands, constants=(4,), tolerance=1e-4)
