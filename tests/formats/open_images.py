"""Graphs with open height and width, as exporters write them, and the sizes that they run at.

`graphs()` has one graph for each way in which networks use the size of an image: resizing, windows, padding to a multiple,
position grids, heads of detectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper, parser

if TYPE_CHECKING:
    from collections.abc import Iterator

CHANNELS = 4
_FARTHEST = 1 << 62
_SIZES = ((2, 3), (3, 2), (5, 4))


class Case(NamedTuple):
    """A model with the input `x` [1, 4, H, W], and the heights and widths that it runs at."""

    name: str
    model: onnx.ModelProto
    sizes: tuple[tuple[int, int], ...]


def _weights(name: str, *shape: int) -> np.ndarray:
    seed = sum(map(ord, name))
    return (np.random.default_rng(seed).standard_normal(shape) * 0.4).astype(np.float32)


_CONSTANTS: dict[str, np.ndarray] = {
    **{f"n{i}": np.array([i]) for i in range(9)},
    **{f"m{i}": np.array([-i]) for i in range(1, 5)},
    **{f"i{i}": np.array(i) for i in range(9)},
    "far": np.array([_FARTHEST]),
    "n23": np.array([2, 3]),
    "n32": np.array([32]),
    "n16": np.array([16]),
    "n00": np.array([0, 0]),
    "n12": np.array([1, 2]),
    "f1": np.array([1.0], np.float32),
    "fh": np.array([0.5], np.float32),
    "f2": np.array([2.0], np.float32),
    "k4": _weights("k4", 4, 4, 3, 3),
    "k1": _weights("k1", 4, 4, 1, 1),
    "k8": _weights("k8", 8, 4, 3, 3),
    "k48": _weights("k48", 4, 8, 3, 3),
    "k84": _weights("k84", 8, 8, 3, 3),
    "k16": _weights("k16", 16, 4, 3, 3),
    "kd": _weights("kd", 4, 1, 3, 3),
    "d2": _weights("d2", 4, 3, 2, 2),
    "d84": _weights("d84", 8, 4, 2, 2),
    "d3": _weights("d3", 4, 3, 3, 3),
    "d4": _weights("d4", 4, 3, 4, 4),
    "dg": _weights("dg", 4, 2, 2, 2),
    "b4": _weights("b4", 4),
    "g4": np.abs(_weights("g4", 4)) + np.float32(0.5),
    "w44": _weights("w44", 4, 4),
    "w45": _weights("w45", 4, 5),
    "s2": np.array([1, 1, 2, 2], np.float32),
    "sh": np.array([1, 1, 0.5, 0.5], np.float32),
    "s15": np.array([1, 1, 1.5, 1.5], np.float32),
    "two": np.array([2.0, 2.0], np.float32),
    "ones2": np.array([1.0, 1.0], np.float32),
    "fixed": np.array([1, 4, 7, 9]),
    "p1": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "ax23": np.array([2, 3]),
    "rev2": np.array([-1, -1]),
    "m11": np.array([-1, -1]),
    "mfar": np.array([-_FARTHEST, -_FARTHEST]),
    "flat3": np.array([0, 0, -1]),
    "norm2": np.array([0, 2, -1]),
    "g2": np.array([1.0, 1.0], np.float32),
    "z2": np.array([0.0, 0.0], np.float32),
    "tok": np.array([1, 4, -1]),
    "head": np.array([1, 2, 2, -1]),
    "split13": np.array([1, 3]),
    "rep": np.array([1, 1, 2, 2]),
    "eps": np.array(1e-5, np.float32),
}

_CASES: tuple[tuple[str, int, str], ...] = (
    ("conv_stride", 3, "y = Conv <pads=[1,1,1,1], strides=[2,2]> (x, k4, b4)"),
    ("conv_same", 3, 'y = Conv <auto_pad="SAME_UPPER", strides=[2,2]> (x, k4)'),
    ("conv_same_lower", 3, 'y = Conv <auto_pad="SAME_LOWER", strides=[2,2]> (x, k4)'),
    ("depthwise", 3, "a = Conv <group=4, pads=[1,1,1,1]> (x, kd) b = Conv (a, k1) y = Clip (b)"),
    ("dilated", 5, "y = Conv <dilations=[2,2], pads=[2,2,2,2]> (x, k4)"),
    ("maxpool", 3, "y = MaxPool <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x)"),
    ("maxpool_ceil", 3, "y = MaxPool <kernel_shape=[3,3], strides=[2,2], ceil_mode=1> (x)"),
    ("avgpool_pad", 3, "y = AveragePool <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x)"),
    ("avgpool_ceil", 3, "y = AveragePool <kernel_shape=[3,3], strides=[2,2], ceil_mode=1> (x)"),
    ("avgpool_include", 3, "y = AveragePool <kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1> (x)"),
    ("squeeze_excite", 3, "g = GlobalAveragePool (x) a = Conv (g, k1, b4) s = Sigmoid (a) y = Mul (x, s)"),
    ("instance_norm", 3, "y = InstanceNormalization (x, g4, b4)"),
    ("group_norm", 3, "s = Shape (x) a = Reshape (x, norm2) b = InstanceNormalization (a, g2, z2) y = Reshape (b, s)"),
    (
        "layer_norm_channels",
        3,
        "a = Transpose <perm=[0,2,3,1]> (x) b = LayerNormalization (a, g4, b4) y = Transpose <perm=[0,3,1,2]> (b)",
    ),
    ("l2_channels", 3, "a = ReduceL2 <keepdims=1> (x, n1) y = Div (x, a)"),
    (
        "resize_nearest",
        3,
        'y = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (x, "", s2)',
    ),
    ("resize_l", 3, 'y = Resize <mode="linear"> (x, "", s2)'),
    ("resize_corners", 3, 'y = Resize <mode="linear", coordinate_transformation_mode="align_corners"> (x, "", s2)'),
    ("resize_torch", 3, 'y = Resize <mode="linear", coordinate_transformation_mode="pytorch_half_pixel"> (x, "", s2)'),
    ("resize_asymmetric", 3, 'y = Resize <mode="linear", coordinate_transformation_mode="asymmetric"> (x, "", s2)'),
    ("resize_half", 3, 'y = Resize <mode="linear"> (x, "", sh)'),
    (
        "resize_half_nearest",
        3,
        'y = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (x, "", sh)',
    ),
    ("resize_three_halves", 3, 'y = Resize <mode="linear"> (x, "", s15)'),
    ("resize_cubic", 4, 'y = Resize <mode="cubic", cubic_coeff_a=-0.75> (x, "", s2)'),
    ("resize_fixed", 3, 'y = Resize <mode="linear"> (x, "", "", fixed)'),
    (
        "resize_like",
        4,
        (
            "a = Conv <strides=[2,2], pads=[1,1,1,1]> (x, k4) s = Shape (x) "
            'b = Resize <mode="linear", coordinate_transformation_mode="pytorch_half_pixel"> (a, "", "", s) y = Add (b, x)'
        ),
    ),
    (
        "resize_like_nearest",
        4,
        (
            "a = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x) s = Shape (x) "
            "h = Slice (s, n2, n4, n0) f = Shape <start=0, end=2> (a) t = Concat <axis=0> (f, h) "
            'b = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (a, "", "", t) '
            "y = Concat <axis=1> (b, x)"
        ),
    ),
    (
        "resize_scales_computed",
        3,
        (
            "s = Shape (x) hw = Slice (s, n2, n4, n0) f = Cast <to=1> (hw) a = Mul (f, two) "
            "b = Floor (a) c = Div (b, f) t = Concat <axis=0> (ones2, c) "
            'y = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (x, "", t)'
        ),
    ),
    (
        "resize_floor_sizes",
        3,
        (
            "s = Shape (x) h = Slice (s, n2, n4, n0) f = Cast <to=1> (h) a = Mul (f, two) b = Floor (a) "
            "c = Cast <to=7> (b) t0 = Slice (s, n0, n2, n0) t = Concat <axis=0> (t0, c) "
            'y = Resize <mode="linear", coordinate_transformation_mode="align_corners"> (x, "", "", t)'
        ),
    ),
    ("deconv2", 3, "y = ConvTranspose <strides=[2,2]> (x, d2)"),
    ("deconv3", 3, "y = ConvTranspose <strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]> (x, d3)"),
    ("deconv4", 3, "y = ConvTranspose <strides=[2,2], pads=[1,1,1,1]> (x, d4)"),
    ("deconv_groups", 3, "y = ConvTranspose <strides=[2,2], group=2> (x, dg)"),
    (
        "unet",
        4,
        (
            "a = Conv <pads=[1,1,1,1]> (x, k4) p = MaxPool <kernel_shape=[2,2], strides=[2,2]> (a) "
            "c = Conv <pads=[1,1,1,1]> (p, k8) q = MaxPool <kernel_shape=[2,2], strides=[2,2]> (c) "
            "e = Conv <pads=[1,1,1,1]> (q, k84) u = ConvTranspose <strides=[2,2]> (e, d84) "
            'v = Concat <axis=1> (u, c1) w = Resize <mode="linear"> (v, "", s2) z = Conv <pads=[1,1,1,1]> (w, k48) '
            "y = Add (z, x) "
        ),
    ),
    (
        "fpn",
        4,
        (
            "a = Conv <pads=[1,1,1,1], strides=[2,2]> (x, k4) b = Conv <pads=[1,1,1,1], strides=[2,2]> (a, k4) "
            "l = Conv (b, k1) m = Conv (a, k1) s = Shape (m) "
            'u = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (l, "", "", s) '
            "n = Add (u, m) y = Conv <pads=[1,1,1,1]> (n, k4)"
        ),
    ),
    (
        "pyramid_pooling",
        4,
        (
            "g = GlobalAveragePool (x) c = Conv (g, k1) s = Shape (x) "
            'u = Resize <mode="linear", coordinate_transformation_mode="align_corners"> (c, "", "", s) '
            "y = Concat <axis=1> (x, u)"
        ),
    ),
    ("yolo_head", 4, "a = Conv (x, k1) b = Reshape (a, head) c = Transpose <perm=[0,1,3,2]> (b) y = Sigmoid (c)"),
    (
        "yolo_two_scales",
        4,
        (
            "a = Conv <pads=[1,1,1,1], strides=[2,2]> (x, k4) p = Reshape (a, tok) q = Reshape (x, tok) "
            "c = Concat <axis=2> (p, q) y = Transpose <perm=[0,2,1]> (c)"
        ),
    ),
    (
        "yolo_grid",
        3,
        (
            "s = Shape (x) h = Gather (s, i2) w = Gather (s, i3) r = Range (i0, h, i1) c = Range (i0, w, i1) "
            "rf = Cast <to=1> (r) cf = Cast <to=1> (c) ru = Unsqueeze (rf, n1) a = Sigmoid (x) b = Add (a, ru) y = Add (b, cf)"
        ),
    ),
    ("super_resolution", 3, 'a = Conv <pads=[1,1,1,1]> (x, k16) y = DepthToSpace <blocksize=2, mode="CRD"> (a)'),
    ("depth_to_space", 3, "y = DepthToSpace <blocksize=2> (x)"),
    ("space_to_depth", 2, "y = SpaceToDepth <blocksize=2> (x)"),
    (
        "pixel_unshuffle",
        4,
        (
            "s = Shape (x) n = Slice (s, n0, n2, n0) hw = Slice (s, n2, n4, n0) hh = Div (hw, n2) "
            "h = Slice (hh, n0, n1, n0) w = Slice (hh, n1, n2, n0) t = Concat <axis=0> (n, h, n2, w, n2) r = Reshape (x, t) "
            "p = Transpose <perm=[0,1,3,5,2,4]> (r) u = Concat <axis=0> (n1, n16, h, w) y = Reshape (p, u)"
        ),
    ),
    (
        "focus",
        4,
        (
            "a = Slice (x, n00, ffar, ax23, n22) b = Slice (x, n10, ffar, ax23, n22) "
            "c = Slice (x, n01, ffar, ax23, n22) d = Slice (x, n11, ffar, ax23, n22) y = Concat <axis=1> (a, b, c, d)"
        ),
    ),
    ("focus_rows", 4, "a = Slice (x, n0, far, n2, n2) b = Slice (x, n1, far, n2, n2) y = Concat <axis=1> (a, b)"),
    (
        "windows",
        4,
        (
            "s = Shape (x) h = Slice (s, n2, n3, n0) w = Slice (s, n3, n4, n0) hh = Div (h, n4) ww = Div (w, n4) "
            "t = Concat <axis=0> (n1, n4, hh, n4, ww, n4) r = Reshape (x, t) p = Transpose <perm=[0,2,4,3,5,1]> (r) "
            "v = Concat <axis=0> (m1, n16, n4) o = Reshape (p, v) z = MatMul (o, w44) "
            "b = Concat <axis=0> (n1, hh, ww, n4, n4, n4) e = Reshape (z, b) f = Transpose <perm=[0,5,1,3,2,4]> (e) "
            "y = Reshape (f, s)"
        ),
    ),
    (
        "window_attention",
        4,
        (
            "s = Shape (x) h = Slice (s, n2, n3, n0) w = Slice (s, n3, n4, n0) hh = Div (h, n2) "
            "ww = Div (w, n2) t = Concat <axis=0> (n1, n4, hh, n2, ww, n2) r = Reshape (x, t) "
            "p = Transpose <perm=[0,2,4,3,5,1]> (r) v = Concat <axis=0> (m1, n4, n4) o = Reshape (p, v) q = MatMul (o, w44) "
            "k = Transpose <perm=[0,2,1]> (o) l = MatMul (q, k) a = Softmax <axis=-1> (l) z = MatMul (a, o) "
            "b = Concat <axis=0> (n1, hh, ww, n2, n2, n4) e = Reshape (z, b) f = Transpose <perm=[0,5,1,3,2,4]> (e) "
            "y = Reshape (f, s)"
        ),
    ),
    (
        "roll",
        3,
        (
            "a = Slice (x, n2, far, n2) b = Slice (x, n0, n2, n2) c = Concat <axis=2> (a, b) "
            "d = Slice (c, m2, far, n3) e = Slice (c, n0, m2, n3) y = Concat <axis=3> (d, e)"
        ),
    ),
    ("pad_reflect", 3, 'a = Pad <mode="reflect"> (x, p1) y = Conv (a, k4)'),
    ("pad_edge", 3, 'a = Pad <mode="edge"> (x, p1) y = Conv (a, k4)'),
    ("pad_constant", 3, "a = Pad (x, p1) y = MaxPool <kernel_shape=[3,3], strides=[2,2]> (a)"),
    (
        "pad_to_multiple",
        3,
        (
            "s = Shape (x) h = Slice (s, n2, n4, n0) r = Mod (h, n4) d = Sub (n4, r) e = Mod (d, n4) "
            "z = Concat <axis=0> (n0, n0, n0, n0, n0, n0, e) y = Pad (x, z)"
        ),
    ),
    (
        "pad_reflect_to_multiple",
        5,
        (
            "s = Shape (x) h = Slice (s, n2, n4, n0) r = Mod (h, n4) d = Sub (n4, r) "
            'e = Mod (d, n4) z = Concat <axis=0> (n0, n0, n0, n0, n0, n0, e) a = Pad <mode="reflect"> (x, z) '
            "y = MaxPool <kernel_shape=[4,4], strides=[4,4]> (a)"
        ),
    ),
    (
        "crop_half",
        4,
        (
            "s = Shape (x) h = Slice (s, n2, n3, n0) w = Slice (s, n3, n4, n0) a = Div (h, n2) b = Div (w, n2) "
            "c = Slice (x, n0, a, n2) y = Slice (c, b, far, n3)"
        ),
    ),
    (
        "crop_like",
        4,
        (
            "a = Conv <pads=[2,2,2,2]> (x, k4) s = Shape (x) h = Slice (s, n2, n4, n0) "
            "c = Slice (a, n11, h11, ax23) y = Add (c, x) "
        ),
    ),
    ("slice_neg", 4, "y = Slice (x, m3, m1, n2)"),
    ("slice_steps", 4, "a = Slice (x, n1, m1, n2, n2) y = Slice (a, n0, far, n3, n3)"),
    ("flip", 3, "y = Slice (x, m1, mfar1, n3, m1)"),
    (
        "tokens",
        3,
        (
            "s = Shape (x) a = Reshape (x, flat3) b = Transpose <perm=[0,2,1]> (a) c = MatMul (b, w44) "
            "d = Transpose <perm=[0,2,1]> (c) y = Reshape (d, s)"
        ),
    ),
    (
        "self_attention",
        3,
        (
            "a = Reshape (x, flat3) b = Transpose <perm=[0,2,1]> (a) q = MatMul (b, w44) l = MatMul (q, a) "
            "p = Softmax <axis=-1> (l) y = MatMul (p, b)"
        ),
    ),
    ("expand_g", 3, "g = GlobalAveragePool (x) s = Shape (x) y = Expand (g, s)"),
    (
        "position_grid",
        3,
        (
            "s = Shape (x) h = Slice (s, n2, n3, n0) w = Slice (s, n3, n4, n0) "
            "o = ConstantOfShape <value = float[1] {1.0}> (s1) c = CumSum (o, i2) y = Mul (x, c) "
        ),
    ),
    (
        "coordinates",
        3,
        (
            "s = Shape (x) hv = Slice (s, n2, n3, n0) wv = Slice (s, n3, n4, n0) h = Squeeze (hv, n0) "
            "w = Squeeze (wv, n0) r = Range (i0, w, i1) f = Cast <to=1> (r) wf = Cast <to=1> (w) g = Div (f, wf) "
            "t = Concat <axis=0> (n1, n1, hv, wv) e = Expand (g, t) y = Concat <axis=1> (x, e)"
        ),
    ),
    ("argmax_k", 3, "a = ArgMax <axis=1, keepdims=1> (x) y = Cast <to=1> (a)"),
    ("argmax", 3, "a = ArgMax <axis=1, keepdims=0> (x) y = Cast <to=1> (a)"),
    ("topk_channels", 3, "y, i = TopK <axis=1> (x, n2)"),
    (
        "channel_shuffle",
        3,
        (
            "s = Shape (x) h = Slice (s, n2, n4, n0) t = Concat <axis=0> (n1, n2, n2, h) r = Reshape (x, t) "
            "p = Transpose <perm=[0,2,1,3,4]> (r) y = Reshape (p, s)"
        ),
    ),
    (
        "flatten_positions",
        3,
        (
            "a = Transpose <perm=[0,2,3,1]> (x) s = Shape (a) h = Slice (s, n1, n3, n0) "
            "m = ReduceProd <keepdims=1> (h) t = Concat <axis=0> (n1, m, n4) r = Reshape (a, t) y = MatMul (r, w45)"
        ),
    ),
)
_LOCAL = {
    "focus": {
        "n22": np.array([2, 2]), "n10": np.array([1, 0]), "n01": np.array([0, 1]), "n11": np.array([1, 1]),
        "ffar": np.array([_FARTHEST, _FARTHEST]),
    },
    "flip": {"mfar1": np.array([-_FARTHEST])},
}  # fmt: skip
_TEXTS = {
    "unet": ("v = Concat <axis=1> (u, c1)", "cs = Conv (p, k1) v = Concat <axis=1> (u, cs)"),
    "crop_like": ("c = Slice (a, n11, h11, ax23)", "e = Add (h, n1) c = Slice (a, n11, e, ax23)"),
    "position_grid": ("(s1)", "(s)"),
}


def graphs() -> Iterator[Case]:
    """Return all cases."""
    for name, multiple, body in _CASES:
        old, new = _TEXTS.get(name, ("", ""))
        text = body.replace(old, new) if old else body
        yield Case(name, _model(text, _CONSTANTS | {"n11": np.array([1, 1])} | _LOCAL.get(name, {})), _sizes(multiple))


def runs(case: Case) -> Iterator[tuple[Any, Any]]:
    """Return an input of each size, and the first output that ONNX Runtime computes."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    plain = onnxruntime.SessionOptions()
    plain.intra_op_num_threads = 1
    # Its optimizer fuses a Pad with zeros into MaxPool, which pads with the least number.
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), plain, providers=["CPUExecutionProvider"])
    for height, width in case.sizes:
        x = np.random.default_rng(height).standard_normal((1, CHANNELS, height, width), np.float32)
        yield x, np.asarray(session.run(None, {"x": x})[0])


def _sizes(multiple: int) -> tuple[tuple[int, int], ...]:
    return tuple((h * multiple, w * multiple) for h, w in _SIZES)


def _model(body: str, constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[1,{CHANNELS},H,W] x) => (float y) {{ {body} }}'
    model = parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    used = {name for node in model.graph.node for name in node.input}
    for name in sorted(used & constants.keys()):
        model.graph.initializer.append(numpy_helper.from_array(constants[name], name))
    return model
