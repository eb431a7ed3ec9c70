"""Quantized folders: the codes and scales of each method are the matrix that the method's formula gives."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import Source
from graphport.core.storage import ArrayStorage
from graphport.formats.checkpoint.container.config import Config
from graphport.formats.checkpoint.container.quantized import dequantized_tensors, read_method
from graphport.formats.checkpoint.container.tensors import leading

WIDTH, COUNT, GROUP = 32, 16, 8
GROUPS = WIDTH // GROUP
INTEGERS = {"num_bits": 4, "group_size": GROUP, "symmetric": False, "strategy": "group", "type": "int"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}
PACKED = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": INTEGERS}}}


def read(config, tensors):
    stored = {name: ArrayStorage(np.ascontiguousarray(array)) for name, array in tensors.items()}
    section = read_method(Config({"quantization_config": config}, Source("config.json")))
    return dequantized_tensors(stored, section)


def pack(codes, axis, bits=4, order=None):
    """Pack codes into words along an axis, element `order[i]` of each word at bit `i * bits`."""
    codes = np.moveaxis(codes, axis, -1)
    each = 32 // bits
    order = range(each) if order is None else order
    words = np.zeros((*codes.shape[:-1], codes.shape[-1] // each), np.uint32)
    for index in np.ndindex(words.shape):
        for place, element in enumerate(order):
            code = codes[(*index[:-1], index[-1] * each + element)]
            words[index] |= np.uint32(int(code) << (place * bits))
    return np.moveaxis(words, -1, axis).view(np.int32)


@pytest.fixture
def parts():
    rng = np.random.default_rng(5)
    codes, zeros = rng.integers(0, 16, (WIDTH, COUNT)), rng.integers(0, 16, (GROUPS, COUNT))
    scales = rng.uniform(0.1, 1, (GROUPS, COUNT)).astype(np.float16)
    return codes, zeros, scales


def values(codes, zeros, scales, index):
    """Return (code - zero) * scale.  Shapes: codes [K, N], zeros and scales [G, N], index [K] → [N, K]."""
    return np.array(
        [
            [(int(codes[k, n]) - int(zeros[index[k], n])) * np.float32(scales[index[k], n]) for k in range(len(codes))]
            for n in range(codes.shape[1])
        ],
        np.float32,
    )


@pytest.mark.parametrize("checkpoint_format", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_gptq(parts, checkpoint_format, is_sorted):
    codes, zeros, scales = parts
    index = np.arange(WIDTH) // GROUP
    index = index if is_sorted else np.random.default_rng(2).permutation(index)
    stored = zeros if checkpoint_format == "gptq_v2" else (zeros - 1) % 16
    tensors = {"a.qweight": pack(codes, 0), "a.qzeros": pack(stored, 1), "a.scales": scales}
    tensors["a.g_idx"] = index.astype(np.int32)
    found = read({**GPTQ, "checkpoint_format": checkpoint_format}, tensors)
    assert list(found) == ["a.weight"]
    np.testing.assert_array_equal(found["a.weight"].numpy(), values(codes, zeros, scales, index))


def test_gptq_of_8_bits_without_groups():
    rng = np.random.default_rng(3)
    codes, zeros = rng.integers(0, 256, (8, 4)), rng.integers(1, 256, (1, 4))
    scales = rng.uniform(0.1, 1, (1, 4)).astype(np.float16)
    tensors = {"a.qweight": pack(codes, 0, 8), "a.qzeros": pack(zeros - 1, 1, 8), "a.scales": scales}
    found = read({"quant_method": "gptq", "bits": 8, "group_size": -1}, tensors)["a.weight"].numpy()
    np.testing.assert_array_equal(found, values(codes, zeros, scales, np.zeros(8, int)))


def test_awq(parts):
    codes, zeros, scales = parts
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    tensors = {"a.qweight": pack(codes, 1, order=order), "a.qzeros": pack(zeros, 1, order=order), "a.scales": scales}
    found = read(AWQ, tensors)["a.weight"].numpy()
    np.testing.assert_array_equal(found, values(codes, zeros, scales, np.arange(WIDTH) // GROUP))


@pytest.mark.parametrize("is_symmetric", [True, False])
def test_compressed_tensors(parts, is_symmetric):
    codes, zeros, scales = parts
    zeros = np.full_like(zeros, 8) if is_symmetric else zeros
    scheme = {**INTEGERS, "symmetric": is_symmetric}
    tensors = {
        "a.weight_packed": pack(codes.T, 1),
        "a.weight_scale": scales.T.astype(ml_dtypes.bfloat16),
        "a.weight_shape": np.array([COUNT, WIDTH]),
    }
    if not is_symmetric:
        tensors["a.weight_zero_point"] = pack(zeros.T, 0)
    found = read({**PACKED, "config_groups": {"group_0": {"weights": scheme}}}, tensors)
    scales = scales.astype(ml_dtypes.bfloat16).astype(np.float32)
    expected = values(codes, zeros, scales, np.arange(WIDTH) // GROUP)
    assert list(found) == ["a.weight"]
    np.testing.assert_array_equal(found["a.weight"].numpy(), expected)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_fp8_by_blocks_that_do_not_divide_the_matrix(dtype):
    rng = np.random.default_rng(4)
    codes = rng.normal(0, 1, (5, 7)).astype(dtype)
    scales = rng.uniform(0.1, 1, (3, 2)).astype(np.float32)
    config = {"quant_method": "fp8", "weight_block_size": [2, 4]}
    norm = np.ones(5, np.float32)
    found = read(config, {"a.weight": codes, "a.weight_scale_inv": scales, "n.weight": norm})
    expected = [[float(codes[n, k]) * scales[n // 2, k // 4] for k in range(7)] for n in range(5)]
    np.testing.assert_array_equal(found["a.weight"].numpy(), np.array(expected, np.float32))
    np.testing.assert_array_equal(found["n.weight"].numpy(), norm)
    assert set(found) == {"a.weight", "n.weight"}


@pytest.mark.parametrize("shape", [(4, 1), (1,), ()])
def test_8_bits_of_compressed_tensors_by_row_or_tensor(shape):
    codes = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
    scales = np.linspace(0.5, 2, int(np.prod(shape, dtype=int)), dtype=np.float32).reshape(shape)
    config = {"quant_method": "compressed-tensors", "format": "int-quantized"}
    found = read(config, {"a.weight": codes, "a.weight_scale": scales})["a.weight"].numpy()
    np.testing.assert_array_equal(found, codes.astype(np.float32) * scales.reshape(-1, 1))


def test_mxfp4_experts():
    table = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
    rng = np.random.default_rng(6)
    blocks = rng.integers(0, 256, (2, 3, 2, 16), dtype=np.uint8)
    scales = rng.integers(100, 140, (2, 3, 2), dtype=np.uint8)
    found = read({"quant_method": "mxfp4"}, {"x.up_blocks": blocks, "x.up_scales": scales})
    expected = np.zeros((2, 64, 3), np.float32)
    for expert, row, block, byte in np.ndindex(blocks.shape):
        power = 2.0 ** (int(scales[expert, row, block]) - 127)
        for half in range(2):
            code = blocks[expert, row, block, byte] >> (4 * half) & 15
            expected[expert, block * 32 + 2 * byte + half, row] = table[code] * power
    assert list(found) == ["x.up"]
    np.testing.assert_array_equal(found["x.up"].numpy(), expected)
    np.testing.assert_array_equal(leading(found["x.up"], 1).numpy(), expected[1])


@pytest.mark.parametrize(
    ("config", "code"),
    [
        pytest.param({"quant_method": "bitsandbytes", "load_in_4bit": True}, "CKPT0005", id="bitsandbytes"),
        pytest.param({**GPTQ, "bits": 3}, "CKPT0005", id="3 bits"),
        pytest.param({**GPTQ, "bits": "4"}, "CKPT0006", id="bits as a string"),
        pytest.param({**GPTQ, "group_size": 7}, "CKPT0007", id="groups that do not divide"),
        pytest.param({**GPTQ, "group_size": 16}, "CKPT0007", id="groups of another size"),
        pytest.param({**AWQ, "version": "gemv"}, "CKPT0005", id="another layout of AWQ"),
        pytest.param({**PACKED, "config_groups": {}}, "CKPT0005", id="no scheme"),
        pytest.param({**PACKED, "format": "marlin-24"}, "CKPT0005", id="another format"),
        pytest.param({"quant_method": "fp8", "weight_block_size": [0, 4]}, "CKPT0006", id="blocks of no rows"),
    ],
)
def test_another_variant_is_refused(parts, config, code):
    codes, zeros, scales = parts
    tensors = {"a.qweight": pack(codes, 0), "a.qzeros": pack(zeros, 1), "a.scales": scales}
    tensors |= {"b.weight": np.ones((4, 4), ml_dtypes.float8_e4m3fn), "b.weight_scale_inv": np.ones((1, 1), np.float32)}
    with pytest.raises(gp.DiagnosticError) as refused:
        read(config, tensors)
    assert refused.value.diagnostics[0].code == code


@pytest.mark.parametrize("index", [-1, GROUPS])
def test_a_column_of_a_group_that_does_not_exist_is_refused(parts, index):
    codes, zeros, scales = parts
    tensors = {"a.qweight": pack(codes, 0), "a.qzeros": pack(zeros, 1), "a.scales": scales}
    tensors["a.g_idx"] = np.full(WIDTH, index, np.int32)
    with pytest.raises(gp.DiagnosticError) as refused:
        read(GPTQ, tensors)
    assert refused.value.diagnostics[0].code == "CKPT0007"


def write_folder(folder, config, tensors):
    header, data = {}, b""
    names = {"float32": "F32", "float16": "F16", "int32": "I32"}
    for name, array in tensors.items():
        stored = np.ascontiguousarray(array).tobytes()
        span = [len(data), len(data) + len(stored)]
        header[name] = {"dtype": names[str(array.dtype)], "shape": array.shape, "data_offsets": span}
        data += stored
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


def test_a_folder_computes_what_its_dequantized_weights_compute(tmp_path):
    config = {"model_type": "llama", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "vocab_size": 8}
    rng = np.random.default_rng(1)
    layer = "model.layers.0."
    norms = ("model.norm", f"{layer}input_layernorm", f"{layer}post_attention_layernorm")
    plain = {f"{name}.weight": np.ones(16, np.float32) for name in norms}
    plain |= {f"{name}.weight": rng.normal(0, 1, (8, 16)).astype("f") for name in ("model.embed_tokens", "lm_head")}
    quantized = dict(plain)
    matrices = [f"self_attn.{each}_proj" for each in "qkvo"] + [f"mlp.{each}_proj" for each in ("gate", "up", "down")]
    for name in matrices:
        codes, zeros = rng.integers(0, 16, (16, 16)), rng.integers(0, 16, (2, 16))
        scales = rng.uniform(0.02, 0.1, (2, 16)).astype(np.float16)
        plain[f"{layer}{name}.weight"] = values(codes, zeros, scales, np.arange(16) // 8)
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        stem = f"{layer}{name}"
        quantized |= {f"{stem}.qweight": pack(codes, 1, order=order), f"{stem}.qzeros": pack(zeros, 1, order=order)}
        quantized[f"{stem}.scales"] = scales
    folders = [
        write_folder(tmp_path / "plain", config, plain),
        write_folder(tmp_path / "awq", {**config, "quantization_config": AWQ}, quantized),
    ]
    ids = np.array([[1, 5, 2]])
    given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(3)[None]}
    given |= {f"past_key_values.0.{kind}": np.zeros((1, 2, 0, 8), np.float32) for kind in ("key", "value")}
    logits = [gp.run(gp.load(folder), given)["logits"] for folder in folders]
    np.testing.assert_array_equal(logits[1], logits[0])
    assert np.ptp(logits[0]) > 0.1
