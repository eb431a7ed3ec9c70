"""Losses in OpenVINO."""

import numpy as np

from graphport.ops.definitions.loss import NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator

RANDOM = np.random.default_rng(14)
SCORES = RANDOM.normal(size=(3, 5, 2)).astype(np.float32)
ANSWERS = RANDOM.integers(0, 5, (3, 2))
WEIGHTS = RANDOM.uniform(0.5, 2, 5).astype(np.float32)


@at_once("reduction", ["none", "sum", "mean"])
@at_once("ignore", [None, 2, -1])
@at_once("weighted", [False, True])
def test_exporting_a_loss(reduction, ignore, weighted):
    answers = np.where(np.arange(6).reshape(3, 2) == 3, ANSWERS if ignore is None else ignore, ANSWERS)
    operands = [SCORES, answers, *([WEIGHTS] if weighted else [])]
    flags = {"reduction": reduction} | ({} if ignore is None else {"ignore_index": ignore})
    assert check_operator(NegativeLogLikelihoodLoss, operands, tolerance=1e-5, **flags) is not None
    assert check_operator(SoftmaxCrossEntropyLoss, operands, outputs=2, tolerance=1e-5, **flags) is not None
