"""Attention in OpenVINO."""

import numpy as np

from graphport.ops.definitions.attention import Attention, RotaryEmbedding, TensorScatter
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word

RANDOM = np.random.default_rng(8)


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


Q, K, V = numbers(2, 3, 4, 8), numbers(2, 3, 5, 8), numbers(2, 3, 5, 6)
WORD = "opset13.ScaledDotProductAttention"
SEEN = np.tril(np.ones((4, 5), bool), 1)
MASKS = [
    ("none", []),
    ("rows", [numbers(4, 5)]),
    ("one row", [numbers(2, 1, 1, 5)]),
    ("one column", [numbers(4, 1)]),
    ("truth", [SEEN]),
    ("number", [np.array(0, np.float32)]),
    ("scale", [numbers(4, 5), np.array(0.7, np.float32)]),
    ("negative scale", [numbers(4, 5), np.array(-0.7, np.float32)]),
]


@at_once("more", [case[1] for case in MASKS], ids=[case[0] for case in MASKS])
@at_once("symbolic", [False, True])
def test_attention(more, symbolic):
    operands = [Q, K, V, *more]
    constants = (4,) if len(more) > 1 else ()
    if symbolic:
        # The size of a head has to be known where no scale is given.
        operands, constants = [Q, K, V, *(more or [np.array(0, np.float32)]), np.array(0.5, np.float32)][:5], (4,)
    check_word(WORD, operands, constants=constants, symbolic=symbolic, tolerance=1e-5)


def test_attention_with_a_scale_that_is_computed():
    check_word(WORD, [Q, K, V, numbers(4, 5), np.array(0.7, np.float32)], tolerance=1e-5)


def test_causal_attention_leaves_the_mask_aside():
    check_word(WORD, [Q, K, V], causal=True, tolerance=1e-5)
    check_word(WORD, [Q, K, V, np.array(0, np.float32)], causal=True, tolerance=1e-5)


def test_attention_of_other_ranks():
    check_word(WORD, [Q[0], K[0], V[0], SEEN], tolerance=1e-5)
    check_word(WORD, [Q[0], K[0], V[0]], tolerance=1e-5, causal=True)


PAST = [numbers(2, 3, 2, 8), numbers(2, 3, 2, 6)]
STATED = [
    ("plain", [Q, K, V], 1, {}),
    ("causal", [Q, K, V], 1, {"is_causal": 1, "scale": 0.3}),
    ("mask", [Q, K, V, numbers(4, 5)], 1, {}),
    ("truth", [Q, K, V, SEEN], 1, {}),
    ("blind row", [Q, K, V, np.arange(4)[:, None] + np.zeros(5) > 0], 1, {}),
    ("short mask", [Q, K, V, SEEN[:, :3]], 1, {}),
    (
        "side by side",
        [numbers(2, 4, 24), numbers(2, 5, 24), numbers(2, 5, 18)],
        1,
        {"q_num_heads": 3, "kv_num_heads": 3},
    ),
    ("shared keys", [numbers(2, 6, 4, 8), K, V], 1, {}),
    ("cache", [Q, K, V, None, *PAST], 3, {"is_causal": 1}),
    ("window", [Q, K, V], 1, {"left_window_size": 1, "right_window_size": 1}),
    ("softcap", [Q, K, V], 1, {"softcap": 2.0}),
    ("padding", [Q, K, V, None, None, None, np.array([3, 5], np.int64)], 1, {"is_causal": 1}),
    *((f"scores {mode}", [Q, K, V, numbers(4, 5)], 4, {"qk_matmul_output_mode": mode}) for mode in range(4)),
]


@at_once(("inputs", "outputs", "attributes"), [case[1:] for case in STATED], ids=[case[0] for case in STATED])
def test_exporting_attention(inputs, outputs, attributes):
    assert check_operator(Attention, inputs, outputs=outputs, tolerance=1e-5, **attributes) is not None


@at_once("interleaved", [0, 1])
@at_once("part", [0, 4])
def test_exporting_rotary_embeddings(interleaved, part):
    half = (part or 8) // 2
    caches = [numbers(10, half), numbers(10, half)]
    positions = RANDOM.integers(0, 10, (2, 4))
    flags = {"interleaved": interleaved, "rotary_embedding_dim": part}
    assert check_operator(RotaryEmbedding, [Q, *caches, positions], tolerance=1e-5, **flags) is not None
    flat = numbers(2, 4, 24)
    assert check_operator(RotaryEmbedding, [flat, *caches, positions], tolerance=1e-5, num_heads=3, **flags) is not None
    whole = [numbers(2, 4, half), numbers(2, 4, half)]
    assert check_operator(RotaryEmbedding, [Q, *whole], tolerance=1e-5, **flags) is not None


@at_once("mode", ["linear", "circular"])
def test_exporting_a_cache_that_is_written_to(mode):
    cache, update = numbers(2, 3, 5, 4), numbers(2, 3, 2, 4)
    start = np.array([1, 4 if mode == "circular" else 2], np.int64)
    assert check_operator(TensorScatter, [cache, update, start], mode=mode) is not None
    assert check_operator(TensorScatter, [cache, update], mode=mode) is not None
