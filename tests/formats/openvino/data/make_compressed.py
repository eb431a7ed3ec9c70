"""Makes the files that are called nncf_*: python make_compressed.py, with openvino and nncf installed."""

from pathlib import Path

import nncf
import numpy as np
import openvino as ov
from openvino import Model, Type
from openvino import opset13 as op

HERE = Path(__file__).parent
RANDOM = np.random.default_rng(0)


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def products():
    """A table of words, and two products behind it."""
    words = op.parameter([1, -1], Type.i32, name="words")
    x = op.gather(op.constant(numbers(16, 32)), words, op.constant(np.int64(0)))
    for _ in range(2):
        x = op.relu(op.matmul(x, op.constant(numbers(32, 32)), False, True))
    return Model([op.result(x, name="y")], [words], "products")


def windows():
    """Two convolutions."""
    x = op.parameter([1, 3, 8, 8], Type.f32, name="x")
    h = x
    for channels in (3, 4):
        h = op.convolution(h, op.constant(numbers(4, channels, 3, 3)), [1, 1], [1, 1], [1, 1], [1, 1])
        h = op.relu(op.add(h, op.constant(numbers(1, 4, 1, 1))))
    return Model([op.result(h, name="y")], [x], "windows")


MODES = nncf.CompressWeightsMode
for mode in (MODES.INT8_ASYM, MODES.INT8_SYM, MODES.INT4_ASYM, MODES.INT4_SYM, MODES.NF4, MODES.MXFP4, MODES.FP8_E4M3):
    grouped = {} if mode.name.startswith("INT8") else {"group_size": 16, "all_layers": True}
    if mode is MODES.MXFP4:
        grouped["group_size"] = 32
    made = nncf.compress_weights(products(), mode=mode, **grouped)
    ov.serialize(made, HERE / f"nncf_{mode.name.lower()}.xml")
samples = nncf.Dataset([numbers(1, 3, 8, 8) for _ in range(4)])
ov.serialize(nncf.quantize(windows(), samples, subset_size=4), HERE / "nncf_quantized.xml")
ov.save_model(windows(), HERE / "compressed_half.xml", compress_to_fp16=True)
