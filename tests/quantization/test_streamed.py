"""Large models are rounded one layer at a time: the same codes, and no whole model is run or held."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.storage import Storage
from graphport.quantization import channel_blocks as parts
from graphport.quantization import layer
from graphport.quantization import round as rounding
from graphport.quantization.engine import Judge
from graphport.quantization.insert_qdq import Weight
from graphport.quantization.layer import layer_of
from graphport.quantization.parameters import symmetric
from graphport.quantization.streamed import SpilledWeights
from tests.quantization.test_decoder import FOUR
from tests.quantization.test_weights_alone import _snr, _tokens, decoder


@pytest.fixture
def is_large(monkeypatch):
    """Every model is large, every layer is rounded in parts, and none may be run as a whole."""

    def refused(*_, **__):
        message = "a large model was run as a whole"
        raise AssertionError(message)

    def make():
        monkeypatch.setattr(layer, "LARGE", 1)
        monkeypatch.setattr(parts, "MAX_PART_ELEMENTS", 300)
        monkeypatch.setattr(Judge, "of", refused)
        monkeypatch.setattr(Judge, "noise", refused)

    return make


def _codes(found):
    nodes = [item for item in found.graph if item.op == "DequantizeLinear"]
    return {item.operands[0].name: [x.storage.numpy().astype(np.float32) for x in item.operands] for item in nodes}


@pytest.mark.parametrize("data", [None, _tokens(24)], ids=["without samples", "with samples"])
def test_streamed_quantization_matches_in_memory_quantization(is_large, data):
    found = decoder()
    whole = gp.quantize(found, data, preset="fast", equalize=False, **FOUR)
    is_large()
    made = gp.quantize(found, data, preset="fast", equalize=False, **FOUR)
    assert [step.name for step in made.report.steps] == ["round layer by layer"]
    expected, codes = _codes(whole), _codes(made)
    assert codes.keys() == expected.keys()
    # Sums over a block in another order may choose another one of two ranges that are equally good.
    same = [np.mean(x == y) for name, each in expected.items() for x, y in zip(each, codes[name], strict=True)]
    assert min(same) > 0.97
    assert made.report.snr_db == pytest.approx(whole.report.snr_db, abs=0.5)
    assert _snr(found, made) == pytest.approx(_snr(found, whole), abs=0.2)


class Decoded(Storage):
    """A weight that is decoded as a whole at every access, as bfloat16 of a checkpoint is."""

    def __init__(self, of: Storage, decoded: list[str], name: str) -> None:
        super().__init__(of.dtype, of.shape)
        self._of, self._decoded, self._name = of, decoded, name

    def numpy(self):
        self._decoded.append(self._name)
        return self._of.numpy()

    def chunks(self, limit=1 << 20):
        return self._of.chunks(limit)


def test_weights_are_decoded_equally_often_for_any_number_of_parts(is_large, monkeypatch):
    is_large()
    counts = []
    for elements in (300, 1 << 20):
        monkeypatch.setattr(parts, "MAX_PART_ELEMENTS", elements)
        found, decoded = decoder(), []
        for value in found.graph.constants:
            if len(value.shape) == 2:
                value.storage = Decoded(value.storage, decoded, value.name)
        gp.quantize(found, preset="fast", equalize=False, **FOUR)
        counts.append(Counter(decoded))
    assert counts[0] == counts[1]
    assert counts[0]


def test_samples_that_were_held_back_report_the_noise(is_large):
    found, data = decoder(), _tokens(48)
    is_large()
    nearest, made = (gp.quantize(found, data, preset=preset, **FOUR) for preset in ("fast", "balanced"))
    assert _snr(found, made) > _snr(found, nearest) + 1
    assert made.report.held_back == 12
    assert made.report.snr_db == pytest.approx(_snr(found, made), abs=1)
    assert all(one.own_db is not None for one in made.report.layers if one.is_quantized)


def test_outstanding_channels_are_brought_back_without_a_trial(is_large):
    plain, outstanding = decoder(), decoder(outliers=64.0)
    is_large()
    first, second = (gp.quantize(found, preset="fast", **FOUR) for found in (plain, outstanding))
    assert second.report.snr_db == pytest.approx(first.report.snr_db, abs=1)


def test_moments_of_wide_layers_are_computed_in_blocks(monkeypatch):
    r = np.random.default_rng(0)
    rows = r.normal(size=(1, 200, 24)).astype(np.float32) @ r.normal(size=(24, 24)).astype(np.float32)
    monkeypatch.setattr(rounding, "WIDEST", 8)
    found = rounding.seconds_of(rows)
    assert isinstance(found, rounding.WideMoments)
    order, squares, feedback = found.factored(8, 16)
    part = rows[0, :, 8:16].astype(np.float64)
    expected = part.T @ part / 200
    # H = U D U' in that order, but for what is added to the diagonal.
    upper = feedback[0].T.astype(np.float64)
    made = upper @ np.diag(squares[0]) @ upper.T
    diagonal = np.diag(expected).mean()
    assert np.allclose(made, expected[np.ix_(order, order)], atol=2 * rounding.DAMPING * diagonal)
    assert found.factored(8, 16) is found.factored(8, 16)


def test_spilled_codes_round_trip():
    graph = decoder().graph
    nodes = tuple(node for node in graph if layer_of(node) is not None)
    asked = []

    def rounded(node):
        asked.append(node)
        weight = layer_of(node).float_weight()
        qparams = symmetric(np.abs(weight).max(axis=0), DType.INT8, axis=1)
        return Weight(qparams, qparams.codes(weight), None)

    weights = SpilledWeights(nodes, rounded)
    assert not asked
    assert list(weights) == list(nodes)
    for node in nodes:
        expected = rounded(node)
        for x, y in ((weights[node].codes, expected.codes), (weights[node].qparams.scale, expected.qparams.scale)):
            assert x.dtype == y.dtype
            assert np.array_equal(x, y)
            assert not x.flags.owndata
    other = Weight(weights[nodes[0]].qparams, weights[nodes[0]].codes * 0, None)
    weights[nodes[0]] = other
    assert not weights[nodes[0]].codes.any()
    assert asked == [node for node in nodes for _ in range(2)]
    assert weights.get(graph.first_node if graph.first_node not in nodes else None) is None
