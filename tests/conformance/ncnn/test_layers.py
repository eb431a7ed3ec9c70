"""Layers drawn at random: ncnn's own runtime and the reference compute the same of them, or we refuse them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance.ncnn.judgement import KINDS, judged

pytest.importorskip("ncnn")


def check(seed, count, folder):
    verdicts = judged(seed, count, folder)
    wrong = [f"{verdict.case}: {verdict.detail}" for verdict in verdicts if verdict.state == "wrong"]
    assert not wrong, "\n".join(wrong)
    states = Counter(verdict.state for verdict in verdicts)
    assert states["right"] > 0.95 * count
    return verdicts


def test_sample_layers_match_ncnn(tmp_path):
    check(0, 400, tmp_path)


@pytest.mark.conformance
@pytest.mark.parametrize("seed", range(1, 11))
def test_layers_match_ncnn(tmp_path, seed):
    verdicts = check(seed, 500, tmp_path)
    assert len({verdict.case.kind for verdict in verdicts}) > 0.95 * len(KINDS)
