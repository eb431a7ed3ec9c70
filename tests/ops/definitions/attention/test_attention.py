"""Attention, rotary positions and caches against ONNX Runtime and the standard."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.ops.definitions.attention import Attention, RotaryEmbedding, TensorScatter
from tests.draws import times
from tests.every import every
from tests.ops.facts import f32, facts_of, i64, refuse
from tests.ops.oracle import check_operator
from tests.ops.standard import check_by_standard

B, L, S = (Symbol(name, 1) for name in "BLS")


def random(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def shapes(op_def, *facts, **attributes):
    return [fact.shape for fact in facts_of(op_def, list(facts), attributes, len(op_def.outputs))]


@st.composite
def attentions(draw):
    """Operands and attributes of an attention."""
    batch, keys, per = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    length, span, size, width = (draw(st.integers(1, 4)) for _ in range(4))
    past = draw(st.sampled_from([0, 0, 2]))
    total = past + span
    q, k = random(batch, keys * per, length, size), random(batch, keys, span, size, seed=1)
    v = random(batch, keys, span, width, seed=2)
    cache = [random(batch, keys, past, n, seed=3) if past else None for n in (size, width)]
    kind = draw(st.sampled_from(["none", "float", "bool"]))
    mask_shape = draw(st.sampled_from([(length, total), (batch, 1, length, total), (batch, keys * per, length, total)]))
    mask: Any = None if kind == "none" else random(*mask_shape, seed=4)
    if kind == "bool":
        mask = mask > -0.5
        mask[..., 0] = True  # ONNX Runtime gives rows that see nothing other numbers
    attributes = {"scale": draw(st.sampled_from([None, 0.3])), "softcap": draw(st.sampled_from([0.0, 1.5]))}
    if draw(st.booleans()):
        q, k, v = (np.swapaxes(x, 1, 2).reshape(batch, x.shape[2], -1) for x in (q, k, v))
        attributes |= {"q_num_heads": keys * per, "kv_num_heads": keys}
    return [q, k, v, mask, *cache], attributes


@settings(max_examples=times(80))
@given(attentions(), st.integers(0, 3))
def test_attention_is_that_of_onnx_runtime(case, mode):
    operands, attributes = case
    # ONNX Runtime wants the whole cache where there was one.
    outputs = 1 if operands[-1] is None else 3
    check_operator(Attention, operands, outputs=outputs, tolerance=2e-5, opset=23, **attributes)
    if mode in (0, 3) and not attributes["softcap"]:
        check_operator(
            Attention, operands, outputs=4, tolerance=2e-5, opset=23, qk_matmul_output_mode=mode, **attributes
        )


@settings(max_examples=times(80))
@given(attentions(), st.data())
def test_attention_is_that_of_the_standard(case, data):
    operands, attributes = case
    attributes |= {
        "is_causal": data.draw(st.integers(0, 1)),
        "left_window_size": data.draw(st.integers(-1, 2)),
        "right_window_size": data.draw(st.integers(-1, 2)),
        "qk_matmul_output_mode": data.draw(st.sampled_from([1, 2, 3])),
        "softmax_precision": data.draw(st.sampled_from([None, 1, 11])),
    }
    check_by_standard(Attention, operands, outputs=4, tolerance=2e-5, **attributes)


# Not a mask of one row for causal attention: the standard's implementation takes the length of the queries from it.
@pytest.mark.parametrize(("is_causal", "mask"), [*product([0, 1], [None, (3, 5), (3, 4), (2, 4, 3, 5)]), (0, (1, 5))])
def test_attention_to_keys_without_padding(is_causal, mask):
    q, k, v = random(2, 4, 3, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 6, seed=2)
    given_mask = None if mask is None else random(*mask, seed=3)
    operands = [q, k, v, given_mask, None, None, np.array([5, 2])]
    check_by_standard(Attention, operands, outputs=4, tolerance=2e-5, is_causal=is_causal)


def test_fully_masked_query_yields_zeros():
    q, k, v = random(1, 1, 2, 4), random(1, 1, 3, 4, seed=1), random(1, 1, 3, 4, seed=2)
    mask = np.array([[False, False, False], [True, False, True]])
    y, _, _, shares = Attention(q, k, v, mask, qk_matmul_output_mode=3)
    assert not y[0, 0, 0].any()
    assert not shares[0, 0, 0].any()
    assert y[0, 0, 1].any()
    y, _, _, _ = Attention(q, k, v, nonpad_kv_seqlen=np.array([1]), is_causal=1)
    assert not y[0, 0, 0].any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_attention_supports_every_dtype(dtype):
    operands = [random(2, 2, 3, 8, seed=seed, dtype=dtype) for seed in range(3)]
    found = Attention(*operands)
    expected = Attention(*(x.astype(np.float32) for x in operands))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        limit = {"float16": 5e-3, "bfloat16": 4e-2, "float64": 1e-5}[np.dtype(dtype).name]
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=limit, atol=limit)


def test_attention_infers_shapes():
    y, key, value, scores = shapes(Attention, f32(B, 8, L, 64), f32(B, 2, S, 64), f32(B, 2, S, 32))
    assert y == (B, 8, L, 32)
    assert key == (B, 2, S, 64)
    assert value == (B, 2, S, 32)
    assert scores == (B, 8, L, S)
    past = f32(B, 2, 7, 64), f32(B, 2, 7, 32)
    found = shapes(Attention, f32(B, L, 512), f32(B, S, 128), f32(B, S, 64), None, *past, q_num_heads=8, kv_num_heads=2)
    assert found == [(B, L, 256), (B, 2, S + 7, 64), (B, 2, S + 7, 32), (B, 8, L, S + 7)]


Q, K, V = f32(2, 4, 3, 8), f32(2, 2, 5, 8), f32(2, 2, 5, 6)


@every(
    ("facts", "attributes", "match"),
    [
        ([Q, K, V], {"left_window_size": -2}, "left_window_size is -2"),
        ([Q, K, V], {"qk_matmul_output_mode": 4}, "qk_matmul_output_mode is 4"),
        ([Q, K, V], {"softmax_precision": 7}, "softmax_precision is 7"),
        ([Q, K, V, None, f32(2, 2, 1, 8)], {}, "invalid combination of past_key"),
        ([Q, K, V, None, f32(2, 2, 1, 8), f32(2, 2, 1, 6), i64(2)], {}, "invalid combination of past_key"),
        ([Q, f32(3, 2, 5, 8), V], {}, "batch of Q and K: 2 and 3 differ"),
        ([Q, f32(2, 2, 5, 9), V], {}, "head size of Q and K: 8 and 9 differ"),
        ([Q, f32(2, 3, 5, 8), f32(2, 3, 5, 6)], {}, "4 heads of Q are not a multiple of 3"),
        ([Q, K, f32(2, 1, 5, 6)], {}, "heads of K and V: 2 and 1 differ"),
        ([Q, K, f32(2, 2, 4, 6)], {}, "length of K and V: 5 and 4 differ"),
        ([Q, K, V], {"q_num_heads": 3}, "heads of Q: 3 and 4 differ"),
        ([f32(2, 3, 32), f32(2, 5, 16), f32(2, 5, 12)], {}, "q_num_heads is None"),
        (
            [f32(2, 3, 32), f32(2, 5, 16), f32(2, 5, 12)],
            {"q_num_heads": 5, "kv_num_heads": 2},
            "Q has 32 columns, expected a multiple of 5",
        ),
        ([f32(2, 3), K, V], {}, "q has rank 2"),
        ([Q, K, V, f32(4, 5)], {}, "4 and 3 do not broadcast"),
        ([f32(2, 4, 1, 8), K, V, f32(3, 5)], {}, "attn_mask does not broadcast to the scores"),
        ([Q, K, V, f32(3, 6)], {}, "attn_mask has 6 columns for 5 keys"),
        ([Q, K, V, f32(1, 1, 1, 1, 5)], {}, "attn_mask has rank 5"),
        ([Q, K, V, None, f32(2, 2, 1, 7), f32(2, 2, 1, 6)], {}, "head size of past_key"),
        ([Q, K, V, None, f32(2, 2, 1, 8), f32(2, 2, 2, 6)], {}, "length of past_value"),
        ([Q, K, V, None, f32(2, 2, 8), f32(2, 2, 2, 6)], {}, "past_key has rank 3"),
    ],
)
def test_attention_rejects_mismatched_operands(facts, attributes, match):
    refuse(Attention, facts, match, **attributes)


# Rotary positions


@settings(max_examples=times(60))
@given(st.data())
def test_rotary_positions_are_those_of_onnx_runtime(data):
    batch, heads, length = (data.draw(st.integers(1, 3)) for _ in range(3))
    size = 2 * data.draw(st.integers(1, 4))
    partly = data.draw(st.sampled_from([0, 0, 2]))
    pairs = (partly or size) // 2
    x = random(batch, heads, length, size)
    attributes = {"interleaved": data.draw(st.integers(0, 1)), "rotary_embedding_dim": partly}
    if data.draw(st.booleans()) or partly:
        x = np.swapaxes(x, 1, 2).reshape(batch, length, -1)
        attributes["num_heads"] = heads
    if data.draw(st.booleans()):
        angles = random(7, pairs, seed=1)
        positions = np.random.default_rng(0).integers(0, 7, (batch, length))
    else:
        angles, positions = random(batch, length, pairs, seed=1), None
    check = check_operator if not partly else check_by_standard
    check(RotaryEmbedding, [x, np.cos(angles), np.sin(angles), positions], tolerance=1e-5, **attributes)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_rotary_positions_know_every_type(dtype):
    x, angles = random(2, 3, 4, 8), random(2, 4, 4, seed=1)
    wide = RotaryEmbedding(
        x.astype(dtype).astype(np.float32), *(f(angles).astype(dtype).astype(np.float32) for f in (np.cos, np.sin))
    )
    found = RotaryEmbedding(x.astype(dtype), np.cos(angles).astype(dtype), np.sin(angles).astype(dtype))
    np.testing.assert_array_equal(found.astype(np.float32), wide.astype(dtype).astype(np.float32))


@pytest.mark.parametrize(
    ("facts", "attributes", "match"),
    [
        ([f32(2, 3, 4, 7), f32(2, 4, 3), f32(2, 4, 3)], {}, "7 rotated columns per head, expected an even number"),
        ([f32(2, 3, 4, 8), f32(4, 4), f32(4, 4)], {}, "cos_cache has rank 2"),
        ([f32(2, 3, 4, 8), f32(2, 4, 4), f32(2, 4, 3)], {}, "pairs in sin_cache: 3 and 4 differ"),
        ([f32(2, 4, 24), f32(2, 4, 4), f32(2, 4, 4)], {}, "cannot be split into None heads"),
        ([f32(2, 4, 24), f32(2, 4, 4), f32(2, 4, 4)], {"num_heads": 5}, "cannot be split into 5 heads"),
        ([f32(2, 4), f32(2, 4, 4), f32(2, 4, 4)], {}, "x has rank 2"),
    ],
)
def test_rotaryembedding_rejects_mismatched_operands(facts, attributes, match):
    refuse(RotaryEmbedding, facts, match, **attributes)


# Caches


@every("mode", ["linear", "circular"])
@every("axis", [1, -2, 2])
@every("dtype", [np.float32, np.int64, np.float16, ml_dtypes.bfloat16])
def test_cache_is_that_of_the_standard(mode, axis, dtype):
    cache = random(2, 4, 4, 3, dtype=np.float32).astype(dtype)
    new = random(*(2 if place == axis % 4 else n for place, n in enumerate(cache.shape)), seed=1).astype(dtype)
    for places in (None, np.array([0, 2]), np.array([3, 5]) if mode == "circular" else np.array([1, 1])):
        check_by_standard(TensorScatter, [cache, new, places], mode=mode, axis=axis)


def test_tensorscatter_does_not_modify_its_operand():
    cache = random(1, 3, 2)
    before = cache.copy()
    TensorScatter(cache, random(1, 1, 2, seed=1))
    np.testing.assert_array_equal(cache, before)


def test_tensorscatter_rejects_mismatched_operands():
    refuse(TensorScatter, [f32(2, 4, 3), f32(2, 5, 3)], "5 new entries do not fit into a cache of 4")
    refuse(TensorScatter, [f32(2, 4, 3), f32(2, 1, 4)], "axis 2 of past_cache and update: 3 and 4 differ")
    refuse(TensorScatter, [f32(2, 4, 3), f32(2, 1)], "update has rank 2, past_cache 3")
    refuse(TensorScatter, [f32(2, 4, 3), f32(2, 1, 3)], "axis is 0, the batch axis", axis=0)
    refuse(TensorScatter, [f32(2, 4, 3), f32(2, 1, 3)], "unknown mode 'ring'", mode="ring")
    for first in (3, -1):
        with pytest.raises(IndexError, match="are not all in a cache of 4"):
            TensorScatter(random(1, 4, 2), random(1, 2, 2), np.array([first]))
