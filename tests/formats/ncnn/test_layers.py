"""Every layer that has a rule: what ncnn's own runtime computes, and what its canonical form does."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.legalize import is_canonical
from graphport.core.diagnostics import Source
from graphport.formats.ncnn.container.param import Findings, parse_text
from graphport.formats.ncnn.container.weight_order import weights_of
from tests.every import every

ncnn = pytest.importorskip("ncnn")

PICTURE, MATRIX, VECTOR, VOLUME = (4, 6, 7), (5, 6), (6,), (4, 3, 5, 6)

LAYERS = [
    ("AbsVal", "", [PICTURE]),
    ("BNLL", "", [PICTURE]),
    ("BatchNorm", "0=4 1=1.0e-5", [PICTURE]),
    ("BatchNorm", "0=6 1=1.0e-5", [VECTOR]),
    ("Bias", "0=4", [PICTURE]),
    *((("BinaryOp", f"0={number}", [PICTURE, PICTURE])) for number in (0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 14)),
    ("BinaryOp", "0=17", [PICTURE, PICTURE]),
    ("BinaryOp", "0=1 1=1 2=2.5", [PICTURE]),
    ("BinaryOp", "0=7 1=1 2=2.5", [PICTURE]),
    ("BinaryOp", "0=0", [PICTURE, (4, 1, 1)]),
    ("BinaryOp", "0=2", [PICTURE, (1, 6, 1)]),
    ("BinaryOp", "0=2", [PICTURE, (4,)]),
    ("BinaryOp", "0=1", [(4,), PICTURE]),
    ("CELU", "0=0.7", [PICTURE]),
    ("Clip", "0=-0.5 1=0.75", [PICTURE]),
    ("Concat", "0=0", [PICTURE, (2, 6, 7)]),
    ("Concat", "0=-1", [PICTURE, (4, 6, 2)]),
    ("Convolution", "0=8 1=3 11=2 2=1 12=2 3=2 13=1 4=1 15=0 14=2 16=1 5=1 6=192", [PICTURE]),
    ("Convolution", "0=3 1=3 4=-233 3=2 5=0 6=108", [PICTURE]),
    *(
        (("Convolution", f"0=3 1=1 5=1 6=12 9={kind} -23310={numbers}", [PICTURE]))
        for kind, numbers in ((1, "0"), (2, "1,0.25"), (3, "2,-0.5,0.5"), (4, "0"), (5, "0"), (6, "2,0.16666667,0.5"))
    ),
    ("Convolution1D", "0=3 1=3 2=1 3=2 4=1 5=1 6=45", [MATRIX]),
    ("ConvolutionDepthWise", "0=8 1=3 4=1 5=1 6=72 7=4", [PICTURE]),
    ("ConvolutionDepthWise", "0=6 1=3 4=1 5=1 6=108 7=2", [PICTURE]),
    ("ConvolutionDepthWise", "0=4 1=3 5=1 6=36 7=4 9=3 -23310=2,-0.5,0.5", [PICTURE]),
    ("ConvolutionDepthWise1D", "0=5 1=3 4=1 5=1 6=15 7=5", [MATRIX]),
    ("Convolution3D", "0=3 1=3 11=3 21=2 4=1 5=1 6=216", [VOLUME]),
    ("ConvolutionDepthWise3D", "0=4 1=3 4=1 5=1 6=108 7=4", [VOLUME]),
    ("Crop", "-23309=2,1,2 -23310=2,3,-233 -23311=2,0,2", [PICTURE]),
    ("Crop", "0=1 1=2 2=1 3=4 4=3 5=2", [PICTURE]),
    ("Crop", "-23309=2,0,1 -23310=2,4,5 -23311=2,1,3", [PICTURE]),
    ("CumulativeSum", "0=1", [PICTURE]),
    ("Deconvolution", "0=3 1=3 3=2 4=1 5=1 6=108", [PICTURE]),
    ("Deconvolution", "0=3 1=3 3=2 4=1 5=1 6=108 18=1 19=1", [PICTURE]),
    ("Deconvolution", "0=5 1=3 11=2 3=2 13=1 4=1 5=0 28=1", [PICTURE, (4, 5, 2, 3)]),
    ("Deconvolution", "0=5 1=3 3=2 5=1 28=1", [PICTURE, (4, 5, 3, 3), (5,)]),
    ("Deconvolution1D", "0=3 1=4 3=2 5=1 6=60", [MATRIX]),
    ("DeconvolutionDepthWise", "0=4 1=3 3=2 5=1 6=36 7=4", [PICTURE]),
    ("DeconvolutionDepthWise", "0=6 1=3 3=2 5=1 6=108 7=2", [PICTURE]),
    ("Deconvolution3D", "0=2 1=2 3=2 5=1 6=64", [VOLUME]),
    ("Dropout", "0=0.5", [PICTURE]),
    ("ELU", "0=0.7", [PICTURE]),
    ("Eltwise", "0=0", [PICTURE, PICTURE]),
    ("Eltwise", "0=1 -23301=2,0.5,2.0", [PICTURE, PICTURE]),
    ("Eltwise", "0=2", [PICTURE, PICTURE]),
    ("Erf", "", [PICTURE]),
    ("Exp", "0=2.0 1=0.5 2=0.25", [PICTURE]),
    ("ExpandDims", "-23303=1,0", [MATRIX]),
    ("Flatten", "", [PICTURE]),
    ("Flip", "-23300=1,2", [PICTURE]),
    ("GELU", "0=0", [PICTURE]),
    ("GELU", "0=1", [PICTURE]),
    ("GLU", "0=0", [PICTURE]),
    ("GRU", "0=4 1=72", [MATRIX]),
    ("GRU", "0=4 1=144 2=2", [MATRIX]),
    ("Gemm", "4=0 5=1 6=1 7=0 8=3 9=6 10=4 3=1", [MATRIX]),
    ("GroupNorm", "0=2 1=4 2=1.0e-5", [PICTURE]),
    ("HardSigmoid", "0=0.3 1=0.4", [PICTURE]),
    ("HardSwish", "0=0.16666667 1=0.5", [PICTURE]),
    ("InnerProduct", "0=3 1=1 2=18", [VECTOR]),
    ("InnerProduct", "0=3 1=1 2=18", [MATRIX]),
    ("InnerProduct", "0=3 1=0 2=504 9=1", [PICTURE]),
    ("InstanceNorm", "0=4 1=1.0e-5", [PICTURE]),
    ("Interp", "0=1 3=13 4=9", [PICTURE]),
    ("Interp", "0=2 3=13 4=9", [PICTURE]),
    ("Interp", "0=2 1=2.0 2=1.5 6=0", [PICTURE]),
    ("Interp", "0=2 3=13 4=9 6=1", [PICTURE]),
    ("Interp", "0=3 3=13 4=9", [PICTURE]),
    ("LRN", "0=0 1=3 2=0.1 3=0.75 4=2.0", [PICTURE]),
    ("LSTM", "0=4 1=96", [MATRIX]),
    ("LSTM", "0=4 1=192 2=2", [MATRIX]),
    ("LSTM", "0=4 1=96 2=1", [MATRIX]),
    ("LayerNorm", "0=7 1=1.0e-5", [PICTURE]),
    ("LayerNorm", "0=42 1=1.0e-5", [PICTURE]),
    ("LayerNorm", "0=6 1=1.0e-5 2=0", [MATRIX]),
    ("MVN", "0=1 1=0", [PICTURE]),
    ("MVN", "0=1 1=1", [PICTURE]),
    ("MatMul", "", [(5, 6), (6, 4)]),
    ("MatMul", "0=1", [(2, 5, 6), (2, 4, 6)]),
    ("Mish", "", [PICTURE]),
    ("MultiHeadAttention", "0=6 1=2 2=36 3=6 4=6", [MATRIX]),
    ("Noop", "", [PICTURE]),
    ("Normalize", "0=0 1=1 2=1.0e-5 3=1 4=1", [PICTURE]),
    ("Normalize", "0=1 1=0 2=1.0e-5 3=4 4=1", [PICTURE]),
    ("PReLU", "0=4", [PICTURE]),
    ("PReLU", "0=1", [PICTURE]),
    ("Padding", "0=1 1=2 2=0 3=3 4=0 5=1.5", [PICTURE]),
    ("Padding", "0=1 1=2 2=1 3=3 4=1", [PICTURE]),
    ("Padding", "0=1 1=2 2=1 3=3 4=2", [PICTURE]),
    ("Padding", "2=1 3=2 5=0.5", [VECTOR]),
    *((("Permute", f"0={number}", [PICTURE])) for number in range(6)),
    ("Permute", "0=1", [MATRIX]),
    *((("Permute", f"0={number}", [VOLUME])) for number in range(24)),
    ("PixelShuffle", "0=2 1=0", [PICTURE]),
    ("PixelShuffle", "0=2 1=1", [PICTURE]),
    ("Pooling", "0=0 7=1 8=1 18=-233", [PICTURE]),
    ("Pooling", "0=0 1=3 2=2 3=1 5=1", [PICTURE]),
    ("Pooling", "0=0 1=3 2=2 3=1 5=0", [PICTURE]),
    ("Pooling", "0=1 1=3 11=2 2=2 12=1 3=1 5=1", [PICTURE]),
    ("Pooling", "0=1 1=3 2=2 3=1 5=1 6=1", [PICTURE]),
    ("Pooling", "0=1 4=1", [PICTURE]),
    ("Pooling", "0=0 4=1", [PICTURE]),
    ("Pooling", "0=1 7=1 8=3 18=4", [PICTURE]),
    ("Pooling", "0=0 7=1 8=3 18=4", [PICTURE]),
    ("Pooling1D", "0=0 1=3 2=2 3=1 5=1", [MATRIX]),
    ("Pooling3D", "0=1 1=2 2=1 5=1", [VOLUME]),
    ("Power", "0=2.0 1=0.5 2=3.0", [PICTURE]),
    ("RMSNorm", "0=7 1=1.0e-5", [PICTURE]),
    ("RNN", "0=4 1=24", [MATRIX]),
    ("ReLU", "", [PICTURE]),
    ("ReLU", "0=0.2", [PICTURE]),
    *(
        (("Reduction", f"0={number} 1=0 -23303=2,0,2 4={number % 2} 5=1", [PICTURE]))
        for number in (0, 1, 2, 3, 4, 5, 7, 8, 10)
    ),
    ("Reduction", "0=3 1=1", [PICTURE]),
    ("Reorg", "0=2", [(4, 6, 8)]),
    ("Reshape", "0=12 1=14", [PICTURE]),
    ("Reshape", "0=-1", [PICTURE]),
    ("Reshape", "0=0 1=-1", [PICTURE]),
    ("Reshape", "0=7 1=3 2=8", [PICTURE]),
    ("SDPA", "", [(2, 3, 4), (2, 5, 4), (2, 5, 6)]),
    ("SDPA", "5=1 6=0.3", [(4, 3, 4), (2, 5, 4), (2, 5, 6), (3, 5)]),
    ("SELU", "", [PICTURE]),
    ("Scale", "0=4 1=1", [PICTURE]),
    ("Shrink", "0=0.25 1=0.5", [PICTURE]),
    ("ShuffleChannel", "0=2", [PICTURE]),
    ("ShuffleChannel", "0=2 1=1", [PICTURE]),
    ("Sigmoid", "", [PICTURE]),
    ("Slice", "-23300=2,1,-233 1=0", [PICTURE]),
    ("Slice", "-23302=1,2 1=1", [PICTURE]),
    ("Softmax", "0=0 1=1", [PICTURE]),
    ("Softmax", "0=-1 1=1", [PICTURE]),
    ("Softplus", "", [PICTURE]),
    ("Squeeze", "-23303=1,1", [(4, 1, 7)]),
    ("Swish", "", [PICTURE]),
    ("TanH", "", [PICTURE]),
    ("Threshold", "0=0.25", [PICTURE]),
    ("Tile", "-23302=3,2,1,3", [PICTURE]),
    *((("UnaryOp", f"0={number}", [PICTURE])) for number in range(25) if number not in (17, 23)),
    ("UnaryOp", "0=17", [PICTURE]),
    ("Deconvolution", "0=3 1=3 3=2 4=1 15=0 5=1 6=108 18=1 19=0", [PICTURE]),
    ("Interp", "0=1 1=2.0 2=3.0", [PICTURE]),
    ("Unfold", "1=3 11=2 3=1 4=0", [PICTURE]),
]


def arrays(shapes, kind):
    random = np.random.default_rng(5)
    found = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    # Logarithms, roots and arcs have an own domain; rounding has halves that runtimes round their own way.
    return [np.abs(array) * 0.3 + 0.1 for array in found] if kind in ("UnaryOp", "BinaryOp", "Power") else found


def write(folder, kind, parameters, shapes):
    names = [f"in{index}" for index in range(len(shapes))]
    outputs = ["out0", "out1"] if kind == "Slice" else ["out0"]
    rows = [f"Input {name} 0 1 {name}" for name in names]
    row = f"{kind} layer {len(names)} {len(outputs)} {' '.join([*names, *outputs])} {parameters}"
    text = f"7767517\n{len(rows) + 1} {len(names) + len(outputs)}\n" + "\n".join([*rows, row]) + "\n"
    path = folder / "net.param"
    path.write_text(text)
    layer = parse_text(text, Findings(Source("net.param")))[-1]
    random = np.random.default_rng(1)
    data = b""
    for index, weight in enumerate(weights_of(kind, layer.parameters)):
        numbers = random.normal(size=weight.length).astype(np.float32) * 0.5
        if kind == "BatchNorm" and index == 2:
            numbers = np.abs(numbers) + 0.5
        data += (struct.pack("<I", 0) if weight.is_tagged else b"") + numbers.tobytes()
    (folder / "net.bin").write_bytes(data)
    return path, names, outputs


def run_ncnn(path, given, outputs):
    net = ncnn.Net()
    net.opt.num_threads = 1
    net.opt.lightmode = False
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
        setattr(net.opt, option, False)
    assert net.load_param(str(path)) == 0
    assert net.load_model(str(path.with_suffix(".bin"))) == 0
    extractor = net.create_extractor()
    kept = [ncnn.Mat(array).clone() for array in given.values()]
    for name, blob in zip(given, kept, strict=True):
        extractor.input(name, blob)
    found = {}
    for name in outputs:
        code, blob = extractor.extract(name)
        assert code == 0
        found[name] = np.array(blob)
        del blob
    # An extractor must not outlive its net.
    del extractor, kept
    return found


def label(case):
    return f"{case[0]} {case[1]} {'x'.join(map(str, case[2][0]))}"


@every(("kind", "parameters", "shapes"), LAYERS, ids=map(label, LAYERS))
def test_canonical_form_computes_what_ncnn_does(tmp_path, kind, parameters, shapes):
    path, names, outputs = write(tmp_path, kind, parameters, shapes)
    given = dict(zip(names, arrays(shapes, kind), strict=True))
    expected = run_ncnn(path, given, outputs)
    model = gp.load(path, shapes={name: (1, *array.shape) for name, array in given.items()})
    assert is_canonical(model.graph)
    found = gp.run(model, {name: array[None] for name, array in given.items()}, backend="reference")
    for name in outputs:
        assert found[name].shape == (1, *expected[name].shape)
        np.testing.assert_allclose(found[name][0], expected[name], rtol=2e-3, atol=2e-4)


def test_at_least_sixty_types_are_held_against_ncnn():
    assert len({kind for kind, _, _ in LAYERS}) >= 60


@pytest.mark.parametrize(("kind", "keys"), [("Pooling", "0=0 7=1 8=3 18=4"), ("ShuffleChannel", "0=2")])
def test_a_layer_of_dynamic_shape_computes_what_one_of_known_ones_does(tmp_path, kind, keys):
    (tmp_path / "net.bin").write_bytes(b"")
    found = []
    for shape in ("", " 0=7 1=6 2=4"):
        (tmp_path / "net.param").write_text(f"7767517\n2 2\nInput in 0 1 x{shape}\n{kind} a 1 1 x y {keys}\n")
        model = gp.load(tmp_path / "net.param")
        x = np.random.default_rng(3).normal(size=PICTURE).astype(np.float32)
        found.append(
            gp.run(model, {"x": x.reshape((1, *PICTURE)) if len(model.inputs["x"].fact.shape) == 4 else x})["y"]
        )
    np.testing.assert_array_equal(found[0], found[1])


def test_the_scale_of_an_int8_gemm_is_kept(tmp_path):
    param = "7767517\n2 2\nInput in0 0 1 in0\nGemm g 1 1 in0 out0 4=0 5=1 6=1 8=5 9=6 10=-1 18=2\n"
    weights = struct.pack("<I30b2xf", 0x000D4B38, *range(30), 0.5)
    (tmp_path / "a.ncnn.param").write_text(param)
    (tmp_path / "a.ncnn.bin").write_bytes(weights)
    gp.convert(tmp_path / "a.ncnn.param", tmp_path / "b.ncnn.param", verify=False)
    assert (tmp_path / "b.ncnn.bin").read_bytes() == weights
