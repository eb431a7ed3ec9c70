"""Attention in NNEF: saying it keeps its meaning, masks, caches, windows and queries that see nothing included."""

import numpy as np
import pytest

from graphport.ops.definitions.attention import Attention
from tests.ops.oracle import there_and_back

RANDOM = np.random.default_rng(0)
LOWEST = np.finfo(np.float32).min


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def heads(queries=4, keys=4, *, length=5, keys_length=6):
    return [numbers(2, queries, length, 8), numbers(2, keys, keys_length, 8), numbers(2, keys, keys_length, 3)]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="plain"),
        pytest.param({"scale": 0.3, "softcap": 2.0}, id="capped"),
        pytest.param({"is_causal": 1}, id="causal"),
        pytest.param({"left_window_size": 1, "right_window_size": 2}, id="window"),
        pytest.param({"left_window_size": 0, "right_window_size": 0}, id="itself only"),
    ],
)
def test_exporting_attention_preserves_its_semantics(settings):
    assert there_and_back(Attention, heads(), tolerance=1e-5, **settings)
    grouped = heads(4, 2, length=7, keys_length=3)
    assert there_and_back(Attention, grouped, tolerance=1e-5, **settings)


def test_heads_side_by_side():
    operands = [numbers(2, 5, 32), numbers(2, 6, 16), numbers(2, 6, 8)]
    assert there_and_back(Attention, operands, tolerance=1e-5, q_num_heads=4, kv_num_heads=2)


@pytest.mark.parametrize(
    "mask",
    [
        pytest.param(numbers(5, 6), id="numbers"),
        pytest.param(numbers(2, 1, 1, 4), id="behind its end nothing is seen"),
        pytest.param(RANDOM.integers(0, 2, (2, 4, 5, 6)).astype(bool), id="truths"),
        pytest.param(np.arange(30).reshape(5, 6) >= 12, id="queries that see nothing"),
        pytest.param(np.where(np.arange(30).reshape(5, 6) >= 12, 0, -np.inf).astype(np.float32), id="infinite"),
        pytest.param(np.where(np.arange(30).reshape(5, 6) >= 12, 0, LOWEST).astype(np.float32), id="lowest"),
    ],
)
@pytest.mark.parametrize("constants", [(), (3,)])
def test_masks(mask, constants):
    assert there_and_back(Attention, [*heads(), mask], constants=constants, tolerance=1e-5)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_caches_and_scores_are_results(mode):
    cache = [numbers(2, 4, 3, 8), numbers(2, 4, 3, 3)]
    operands = [*heads(), None, *cache]
    assert there_and_back(
        Attention, operands, outputs=4, tolerance=1e-5, is_causal=1, softcap=1.5, qk_matmul_output_mode=mode
    )


def test_lengths_computed_at_run_time_cannot_be_expressed():
    assert there_and_back(Attention, [*heads(), None, None, None, np.array([3, 6])]) is None
