"""Write `operators/`: operators of TensorFlow in frozen graphs, with the results that TensorFlow computes.

Run with the Python of an environment that has TensorFlow: `python tests/formats/tensorflow/make_cases.py [CASE ...]`.
The models are of this project, under its licence.
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0", CUDA_VISIBLE_DEVICES="-1")
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2 as freeze

FOLDER = Path(__file__).parent / "operators"
FOLDER.mkdir(exist_ok=True)
SELECTED = sys.argv[1:]
"""The names of the cases to write; all if empty."""
ROWS = json.loads((FOLDER / "cases.json").read_text()) if SELECTED else {}
N = None


def rnd(shape, dtype="float32", seed=0, lo=-1.0, hi=1.0):
    """Random numbers of a fixed seed."""
    generator = np.random.default_rng(seed + sum(shape))
    return np.asarray(generator.uniform(lo, hi, shape)).astype(dtype)


def each(functions):
    """A function that returns the results of several."""
    return lambda x: tuple(function(x) for function in functions)


def case(name, function, specs, feeds=None, lo=-1.0, hi=1.0, lower=False):
    """Record a function: specs has the shape, or shape and element type, of each input."""
    if SELECTED and name not in SELECTED:
        return
    typed = {k: v if len(v) == 2 and isinstance(v[1], str) else (v, "float32") for k, v in specs.items()}
    signature = [tf.TensorSpec(shape, dtype, name=k) for k, (shape, dtype) in typed.items()]
    concrete = tf.function(function, input_signature=signature).get_concrete_function()
    frozen = freeze(concrete, lower_control_flow=lower)
    (FOLDER / f"{name}.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString(deterministic=True))
    if feeds is None:
        feeds = [
            {
                k: rnd([n if d is None else d for d in s], t, 1 + i, lo, hi)
                for i, (k, (s, t)) in enumerate(typed.items())
            }
            for n in ((4, 7) if any(None in s for s, _ in typed.values()) else (4,))
        ]
    arrays = {}
    for suffix, feed in zip(("", "_b"), feeds, strict=False):
        found = tf.nest.flatten(tf.function(function)(*map(tf.constant, feed.values())))
        arrays |= {f"in{i}{suffix}": np.asarray(value) for i, value in enumerate(feed.values())}
        arrays |= {f"out{i}{suffix}": np.asarray(value) for i, value in enumerate(found)}
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    outputs = [
        {"name": o.name, "dtype": o.dtype.name, "tolerance": 2e-3 if o.dtype.size < 4 else 2e-4} for o in frozen.outputs
    ]
    inputs = [{"name": k, "dtype": dtype} for k, (_, dtype) in typed.items()]
    files = {f"{name}.pb": {"inputs": list(typed), "outputs": [o.name for o in frozen.outputs]}}
    ROWS[name] = {"name": name, "files": files, "inputs": inputs, "outputs": outputs}


nanv = np.array([[np.nan, -1.5, 0.0, 2.5], [np.inf, -np.inf, -0.5, 0.5]], np.float32)

case(
    "u_acts",
    each(
        [
            tf.nn.relu,
            tf.nn.relu6,
            tf.nn.elu,
            tf.nn.selu,
            tf.nn.softplus,
            tf.nn.softsign,
            tf.nn.leaky_relu,
            tf.nn.gelu,
            lambda x: tf.nn.gelu(x, True),
            tf.nn.swish,
            tf.nn.log_softmax,
            tf.nn.softmax,
        ]
    ),
    {"x": (N, 5)},
    lo=-4,
    hi=4,
)
case(
    "u_nan",
    each(
        [
            tf.nn.relu,
            tf.nn.relu6,
            lambda x: tf.maximum(x, 0.0),
            lambda x: tf.minimum(x, 1.0),
            tf.sign,
            lambda x: tf.reduce_max(x, 1),
            lambda x: tf.reduce_min(x, 1),
            lambda x: tf.clip_by_value(x, -1.0, 1.0),
            lambda x: tf.argmax(x, 1),
            tf.math.is_nan,
            tf.math.is_inf,
            tf.math.is_finite,
            lambda x: tf.cast(x, tf.bool),
        ]
    ),
    {"x": (N, 4)},
    feeds=[{"x": nanv}],
)
case(
    "u_math",
    each(
        [
            tf.exp,
            tf.math.expm1,
            tf.sin,
            tf.cos,
            tf.tan,
            tf.asin,
            tf.acos,
            tf.atan,
            tf.sinh,
            tf.cosh,
            tf.asinh,
            tf.atanh,
            tf.math.erf,
            tf.math.erfc,
            tf.floor,
            tf.math.ceil,
            tf.round,
            tf.math.rint,
            tf.math.reciprocal,
            tf.square,
            tf.math.erfinv,
            tf.abs,
            tf.negative,
        ]
    ),
    {"x": (N, 5)},
    lo=-0.95,
    hi=0.95,
)
case(
    "u_math2",
    each(
        [
            tf.math.log,
            tf.math.log1p,
            tf.sqrt,
            tf.math.rsqrt,
            tf.acosh,
            tf.math.lgamma,
            tf.math.digamma,
            lambda x: tf.pow(x, 2.5),
            tf.nn.l2_loss,
        ]
    ),
    {"x": (N, 5)},
    lo=1.1,
    hi=4,
)
case(
    "u_bin",
    lambda a, b: (
        tf.atan2(a, b),
        tf.math.divide_no_nan(a, b),
        tf.math.multiply_no_nan(a, b),
        tf.math.xdivy(a, b),
        tf.math.xlogy(a, b + 5.0),
        tf.math.xlog1py(a, b),
        tf.math.squared_difference(a, b),
        a // b,
        a % b,
        tf.raw_ops.TruncateMod(x=a, y=b),
        tf.raw_ops.ApproximateEqual(x=a, y=b),
        tf.add_n([a, b, a]),
    ),
    {"a": (N, 4), "b": (N, 4)},
)
case(
    "u_int_ops",
    lambda a, b: (
        tf.bitwise.bitwise_and(a, b),
        tf.bitwise.bitwise_or(a, b),
        tf.bitwise.bitwise_xor(a, b),
        tf.bitwise.invert(a),
        tf.bitwise.left_shift(a, tf.abs(b) % 5),
        tf.bitwise.right_shift(a, tf.abs(b) % 5),
        tf.raw_ops.PopulationCount(x=a),
        tf.abs(a),
        tf.sign(a),
        a * b,
        tf.pow(a, 3),
        tf.maximum(a, b),
        tf.reduce_prod(a, 1),
    ),
    {"a": ((N, 4), "int32"), "b": ((N, 4), "int32")},
    lo=-9,
    hi=9,
)
case(
    "u_red",
    each(
        [
            lambda x: tf.reduce_sum(x, [0, 2]),
            lambda x: tf.reduce_mean(x, 1, keepdims=True),
            tf.reduce_max,
            lambda x: tf.reduce_min(x, [1]),
            lambda x: tf.reduce_prod(x, -1),
            lambda x: tf.reduce_all(x > 0, 1),
            lambda x: tf.reduce_any(x > 0, 1),
            lambda x: tf.math.reduce_std(x, 1),
            lambda x: tf.math.reduce_variance(x, 1),
            lambda x: tf.reduce_logsumexp(x, 1),
            lambda x: tf.norm(x, axis=1),
            lambda x: tf.math.reduce_euclidean_norm(x, 1),
            lambda x: tf.math.count_nonzero(x, 1),
            lambda x: tf.argmax(x, 2),
            lambda x: tf.argmin(x, 1, output_type=tf.int32),
            lambda x: tf.nn.moments(x, [1, 2])[0],
            lambda x: tf.nn.moments(x, [0])[1],
            lambda x: tf.cumsum(x, 1, reverse=True),
            lambda x: tf.reduce_sum(x, []),
        ]
    ),
    {"x": (N, 3, 5)},
)
case(
    "u_softmax_axis",
    each(
        [
            lambda x: tf.nn.softmax(x, 1),
            lambda x: tf.nn.softmax(x, axis=0),
            lambda x: tf.nn.log_softmax(x, 1),
            lambda x: tf.nn.l2_normalize(x, 1),
            lambda x: tf.math.l2_normalize(x, [1, 2]),
        ]
    ),
    {"x": (N, 3, 5)},
)
case(
    "u_shape",
    each(
        [
            tf.shape,
            tf.size,
            tf.rank,
            lambda x: tf.reshape(x, [tf.shape(x)[0], -1]),
            lambda x: tf.reshape(x, [-1, 5, 3]),
            lambda x: tf.transpose(x, [2, 0, 1]),
            lambda x: tf.expand_dims(x, 1),
            lambda x: tf.squeeze(tf.expand_dims(x, -1), -1),
            lambda x: tf.stack([x, x], 2),
            lambda x: tf.unstack(x, axis=1)[1],
            lambda x: tf.split(x, [1, -1, 2], 2)[1],
            lambda x: tf.split(x, 3, 1)[2],
            lambda x: tf.slice(x, [0, 1, 1], [-1, 2, -1]),
            lambda x: x[:, ::-1],
            lambda x: x[..., tf.newaxis, 1:3],
            lambda x: tf.broadcast_to(x[:, :1], tf.shape(x)),
            tf.zeros_like,
            tf.ones_like,
            lambda x: tf.fill(tf.shape(x)[:2], 3.0),
            lambda x: tf.roll(x, [1, -2], [1, 2]),
            lambda x: tf.tile(x, [1, 2, 1]),
            lambda x: tf.repeat(x, 2, axis=1),
            lambda x: tf.meshgrid(x[0, :, 0], x[0, 0])[1],
            lambda x: tf.eye(3) + x[0, :, :3],
            lambda x: tf.reverse(x, [0, 2]),
        ]
    ),
    {"x": (N, 3, 5)},
)
case(
    "u_range",
    each(
        [
            tf.range,
            lambda n: tf.range(1, n, 2),
            lambda n: tf.cast(tf.range(n), tf.float32) * 0.5,
            lambda n: tf.linspace(0.0, 1.0, n),
            lambda n: tf.sequence_mask([1, 3], n),
            lambda n: tf.one_hot([0, 2], n),
            lambda n: tf.zeros([n, 2]),
        ]
    ),
    {"n": ((), "int32")},
    feeds=[{"n": np.int32(5)}],
)
case(
    "u_matmul",
    lambda a, b: (
        tf.matmul(a, b),
        tf.matmul(a, b, transpose_a=True),
        tf.matmul(a, b, transpose_b=True),
        tf.linalg.matvec(a, b[:, 0]),
        tf.tensordot(a, b, [[1], [2]]),
        tf.einsum("bij,bjk->bik", a, b),
        tf.linalg.band_part(a, 1, 0),
        tf.linalg.diag_part(a),
        tf.linalg.diag(b[:, 0]),
        tf.linalg.set_diag(a, b[:, 0]),
        tf.linalg.trace(a),
        tf.linalg.adjoint(a),
        tf.linalg.det(a),
    ),
    {"a": (N, 4, 4), "b": (N, 4, 4)},
)
case(
    "u_conv",
    lambda x, w, d: (
        tf.nn.conv2d(x, w, 1, "SAME"),
        tf.nn.conv2d(x, w, 2, "VALID"),
        tf.nn.conv2d(x, w, 1, [[0, 0], [1, 2], [0, 1], [0, 0]]),
        tf.nn.conv2d(x, w, 1, "SAME", dilations=2),
        tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "SAME"),
        tf.nn.separable_conv2d(x, d, tf.ones([1, 1, 8, 2]), [1, 2, 2, 1], "SAME"),
        tf.nn.conv2d(x, w[:, :, :2], 1, "SAME"),
    ),
    {"x": (N, 8, 9, 4), "w": (3, 3, 4, 6), "d": (3, 3, 4, 2)},
)
case(
    "u_conv13",
    lambda x, y: (
        tf.nn.conv1d(x, tf.constant(rnd((3, 4, 5))), 2, "SAME"),
        tf.nn.conv3d(y, tf.constant(rnd((2, 3, 3, 2, 3))), [1, 1, 2, 2, 1], "SAME"),
        tf.nn.conv1d_transpose(x, tf.constant(rnd((3, 5, 4))), [tf.shape(x)[0], 18, 5], 2, "SAME"),
        tf.nn.conv3d_transpose(
            y, tf.constant(rnd((3, 3, 3, 3, 2))), [tf.shape(y)[0], 8, 10, 12, 3], [1, 2, 2, 2, 1], "SAME"
        ),
        tf.nn.max_pool1d(x, 2, 2, "SAME"),
        tf.nn.avg_pool1d(x, 3, 2, "SAME"),
        tf.nn.max_pool3d(y, 2, 2, "SAME"),
        tf.nn.avg_pool3d(y, 3, 2, "SAME"),
        tf.nn.avg_pool2d(y[:, 0], 3, 1, "SAME"),
        tf.nn.max_pool2d(y[:, 0], 3, 2, "VALID"),
    ),
    {"x": (N, 9, 4), "y": (N, 4, 5, 6, 2)},
)
case(
    "u_convt",
    lambda x: (
        tf.nn.conv2d_transpose(x, tf.constant(rnd((3, 3, 5, 4))), [2, 10, 12, 5], 2, "SAME"),
        tf.nn.conv2d_transpose(x, tf.constant(rnd((3, 3, 5, 4))), [2, 11, 13, 5], 2, "VALID"),
        tf.nn.conv2d_transpose(x, tf.constant(rnd((2, 2, 5, 4))), [2, 9, 11, 5], 2, "SAME"),
        tf.nn.conv2d_transpose(x, tf.constant(rnd((3, 3, 5, 4))), [2, 5, 6, 5], 1, "SAME"),
        tf.nn.conv2d_transpose(x, tf.constant(rnd((3, 3, 5, 4))), [2, 12, 14, 5], 2, "VALID"),
    ),
    {"x": (2, 5, 6, 4)},
)
case("u_lrn", lambda x: (tf.nn.local_response_normalization(x, 2, 1.0, 1e-1, 0.75), tf.nn.lrn(x)), {"x": (N, 4, 4, 7)})
case(
    "u_resize",
    lambda x: (
        tf.image.resize(x, [7, 9]),
        tf.image.resize(x, [3, 5], "nearest"),
        tf.image.resize(x, [8, 8], "bicubic"),
        tf.compat.v1.image.resize_bilinear(x, [7, 9]),
        tf.compat.v1.image.resize_bilinear(x, [7, 9], align_corners=True),
        tf.compat.v1.image.resize_nearest_neighbor(x, [7, 9]),
        tf.compat.v1.image.resize_nearest_neighbor(x, [7, 9], align_corners=True),
        tf.compat.v1.image.resize_bicubic(x, [7, 9]),
        tf.compat.v1.image.resize_bicubic(x, [7, 9], align_corners=True),
    ),
    {"x": (N, 5, 6, 2)},
)
case(
    "u_resize_area",
    lambda x: (tf.image.resize(x, [3, 4], "area"), tf.image.resize(x, [10, 12], "area")),
    {"x": (N, 5, 6, 2)},
)
case(
    "u_crop_resize",
    lambda x, bx: (
        tf.image.crop_and_resize(x, bx, [0, 1, 0], [3, 4]),
        tf.image.crop_and_resize(x, bx, [0, 1, 0], [3, 4], "nearest"),
        tf.image.crop_and_resize(x, bx, [1, 1, 0], [1, 1], extrapolation_value=2.0),
    ),
    {"x": (2, 6, 7, 3), "bx": (3, 4)},
    feeds=[
        {
            "x": rnd((2, 6, 7, 3)),
            "bx": np.array([[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.9], [-0.2, 0.5, 1.3, 0.1]], np.float32),
        }
    ],
)
case(
    "u_seg",
    lambda x, s: (
        tf.math.segment_sum(x, s),
        tf.math.segment_mean(x, s),
        tf.math.segment_max(x, s),
        tf.math.segment_min(x, s),
        tf.math.segment_prod(x, s),
        tf.math.unsorted_segment_mean(x, s, 6),
        tf.math.unsorted_segment_sqrt_n(x, s, 6),
        tf.math.unsorted_segment_max(x, s, 6),
        tf.sparse.segment_sum(x, tf.constant([0, 2, 1]), tf.constant([0, 0, 2])),
        tf.sparse.segment_mean(x, tf.constant([0, 2, 1]), tf.constant([0, 0, 2])),
        tf.sparse.segment_sqrt_n(x, tf.constant([0, 2, 1]), tf.constant([0, 0, 2])),
    ),
    {"x": (5, 3), "s": ((5,), "int32")},
    feeds=[{"x": rnd((5, 3)), "s": np.array([0, 0, 2, 2, 4], np.int32)}],
)
case(
    "u_index",
    lambda x, i: (
        tf.gather(x, i),
        tf.gather(x, i, axis=1),
        tf.gather_nd(x, tf.stack([i, i], 1)),
        tf.gather(x[:2], tf.stack([i[:2], i[:2]]), axis=1, batch_dims=1),
        tf.boolean_mask(x, x[:, 0] > 0),
        tf.where(x > 0),
        tf.one_hot(i, 7, 2.0, -1.0, axis=0),
        tf.math.bincount(i, minlength=8, maxlength=8),
        tf.unique(i)[0],
        tf.unique(i)[1],
        tf.dynamic_partition(x, i % 2, 2)[1],
        tf.dynamic_stitch([[0, 2], [1, 3]], [x[:2], x[2:4]]),
        tf.searchsorted(tf.sort(x, axis=1), x),
        tf.searchsorted(tf.sort(x, axis=1), x, "right"),
        tf.sort(x, 1),
        tf.argsort(x, 1),
        tf.sort(x, 1, "DESCENDING"),
        tf.math.top_k(x, 2)[1],
        tf.math.in_top_k(i[:5], x, 2),
        tf.reverse_sequence(x, [1, 2, 3, 4, 5], 1, 0),
        tf.math.invert_permutation([2, 0, 1]),
        tf.raw_ops.Bucketize(input=x, boundaries=[-0.5, 0.0, 0.5]),
        tf.unique_with_counts(i)[2],
        tf.math.confusion_matrix(i, i, 7),
    ),
    {"x": (5, 5), "i": ((5,), "int32")},
    feeds=[{"x": rnd((5, 5)), "i": np.array([3, 1, 0, 3, 2], np.int32)}],
)
case(
    "u_pad",
    lambda x: (
        tf.pad(x, [[0, 0], [1, 2], [0, 1]]),
        tf.pad(x, [[0, 0], [1, 2], [0, 1]], constant_values=3.0),
        tf.pad(x, [[0, 0], [1, 2], [0, 1]], "REFLECT"),
        tf.pad(x, [[0, 0], [1, 2], [2, 1]], "SYMMETRIC"),
        tf.pad(x, [[0, 0], [tf.shape(x)[1], 0], [0, 0]]),
    ),
    {"x": (N, N, 4)},
)
case(
    "u_nms",
    lambda b, s: (
        tf.image.non_max_suppression(b, s, 4, 0.4),
        tf.image.non_max_suppression(b, s, 4, 0.4, 0.3),
        tf.image.non_max_suppression_padded(b, s, 6, 0.5, pad_to_max_output_size=True)[0],
        tf.image.non_max_suppression_with_scores(b, s, 5, 0.5)[1],
    ),
    {"b": (12, 4), "s": (12,)},
    lo=0,
    hi=1,
)
case(
    "u_nms_soft",
    lambda b, s: tf.image.non_max_suppression_with_scores(b, s, 5, 0.5, soft_nms_sigma=0.5),
    {"b": (12, 4), "s": (12,)},
    lo=0,
    hi=1,
)
case(
    "u_xent",
    lambda x, z: (
        tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(z), x),
        tf.nn.sparse_softmax_cross_entropy_with_logits(tf.argmax(z, 1), x),
        tf.nn.sigmoid_cross_entropy_with_logits(z, x),
    ),
    {"x": (N, 5), "z": (N, 5)},
)
case(
    "u_bitcast",
    lambda x: (
        tf.bitcast(x, tf.int32),
        tf.bitcast(x, tf.uint8),
        tf.cast(x * 300, tf.uint8),
        tf.cast(x * 3e10, tf.int32),
        tf.cast(x, tf.float16),
        tf.cast(x, tf.float64),
        tf.saturate_cast(x * 1000, tf.int8),
    ),
    {"x": (N, 4)},
)


def wl(x):
    i = tf.constant(0)
    return tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 1.1 + tf.cast(i, tf.float32)), (i, x))[1]


case("c_while", wl, {"x": (N, 3)})
case("c_while_low", wl, {"x": (N, 3)}, lower=True)


def dyn(x):
    return tf.while_loop(lambda a, n: tf.reduce_sum(a) < 50.0, lambda a, n: (a * 2.0, n + 1), (tf.abs(x) + 0.1, 0))


case("c_while_dyn", dyn, {"x": (N, 3)})
case("c_while_dyn_low", dyn, {"x": (N, 3)}, lower=True)


def nested(x):
    def body(i, a):
        b = tf.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b + 1.0), (0, a))[1]
        return i + 1, tf.cond(tf.reduce_sum(b) > 3.0, lambda: b * 0.5, lambda: b + 1.0)

    return tf.while_loop(lambda i, a: i < 4, body, (0, x))[1]


case("c_nested", nested, {"x": (N, 3)})
case("c_nested_low", nested, {"x": (N, 3)}, lower=True)


def cond2(x):
    y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: (x * 2.0, tf.shape(x)[0]), lambda: (x - 1.0, tf.constant(7)))
    return y[0], y[1], tf.cond(y[1] > 5, lambda: 1.0, lambda: tf.reduce_max(x))


case("c_cond2", cond2, {"x": (N, 3)})
case("c_cond2_low", cond2, {"x": (N, 3)}, lower=True)
case(
    "c_cond_nest",
    lambda x: tf.cond(
        tf.reduce_sum(x) > 0.0,
        lambda: tf.cond(x[0, 0] > 0.5, lambda: x * 3.0, lambda: x * 5.0),
        lambda: tf.cond(x[0, 0] > -0.5, lambda: -x, lambda: x * 7.0),
    ),
    {"x": (N, 3)},
)
case(
    "c_cond_nest_low",
    lambda x: tf.cond(
        tf.reduce_sum(x) > 0.0,
        lambda: tf.cond(x[0, 0] > 0.5, lambda: x * 3.0, lambda: x * 5.0),
        lambda: tf.cond(x[0, 0] > -0.5, lambda: -x, lambda: x * 7.0),
    ),
    {"x": (N, 3)},
    lower=True,
)
case(
    "c_switch_case",
    lambda x, i: tf.switch_case(i, [lambda: x, lambda: x * 2.0, lambda: x * 3.0]),
    {"x": (N, 3), "i": ((), "int32")},
    feeds=[{"x": rnd((2, 3)), "i": np.int32(k)} for k in (1, 7)],
)
case(
    "c_case",
    lambda x: tf.case([(x[0, 0] > 0.5, lambda: x + 1.0), (x[0, 0] > 0.0, lambda: x + 2.0)], default=lambda: x + 3.0),
    {"x": (N, 3)},
)
case("c_scan", lambda x: tf.scan(lambda a, e: a * 0.5 + e, x), {"x": (N, 3)})
case("c_scan_rev", lambda x: tf.scan(lambda a, e: a * 0.5 + e, x, reverse=True), {"x": (N, 3)})
case("c_foldl", lambda x: (tf.foldl(lambda a, e: a * 0.5 + e, x), tf.foldr(lambda a, e: a - e, x)), {"x": (N, 3)})
case("c_map_low", lambda x: tf.map_fn(lambda e: e * 2.0 + 1.0, x), {"x": (N, 3)}, lower=True)


def ta2(x):
    a = tf.TensorArray(tf.float32, 5, element_shape=[3])

    def body(i, a):
        return i + 1, a.write(4 - i, x[i])

    return tf.while_loop(lambda i, a: i < 5, body, (0, a))[1].stack()


case("c_ta_reverse", ta2, {"x": (5, 3)})


def ta3(x):
    a = tf.TensorArray(tf.float32, 5, element_shape=[3])

    def body(i, a):
        return i + 1, a.write(i, x[i] + 0.0)

    r = tf.while_loop(lambda i, a: i < 3, body, (0, a))[1]
    return r.stack()


case("c_ta_partial", ta3, {"x": (5, 3)})


def ta4(x):
    a = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack(x)
    b = tf.TensorArray(tf.float32, 4, element_shape=[3], clear_after_read=False).write(0, x[0])
    b = tf.while_loop(
        lambda i, b: i < 4, lambda i, b: (i + 1, b.write(i, b.read(i - 1) * 0.5 + a.read(i - 1))), (1, b)
    )[1]
    return b.stack(), b.gather([1, 3]), a.read(2), b.size()


case("c_ta_feedback", ta4, {"x": (3, 3)})


def fib(x):
    @tf.function
    def g(a):
        return tf.nn.relu(a) * 2.0

    @tf.function
    def f(a):
        return g(a) + g(a - 1.0)

    return f(f(x)), g(x)


case("c_calls", fib, {"x": (N, 3)})


@tf.custom_gradient
def cg(x):
    return x * 2.0, lambda d: d


case("c_custom_grad", lambda x: cg(x) + 1.0, {"x": (N, 3)})
case(
    "c_assert",
    lambda x: (tf.debugging.assert_equal(tf.shape(x)[1], 3), tf.debugging.check_numerics(x, "m") * 2.0)[1],
    {"x": (N, 3)},
)
case("s_many_outputs", lambda x: {f"o{i}": x + float(i) for i in range(12)}, {"x": (N, 3)})
case("s_input_is_output", lambda x, y: (x, x, y + 1.0), {"x": (N, 3), "y": (N, 3)})
case("s_const", lambda x: (tf.constant([1.0, 2.0]), x), {"x": (N, 3)})
case("s_scalar", lambda x: x * 2.0, {"x": ()})
case("s_bool", lambda x, b: tf.where(b, x, -x), {"x": (N, 3), "b": ((N, 3), "bool")})
case(
    "compared",
    lambda a, b: (
        a < b,
        a <= b,
        a > b,
        a >= b,
        tf.equal(a, b),
        tf.not_equal(a, b),
        tf.logical_and(a < b, b > 0.0),
        tf.logical_or(a < b, b > 0.0),
        tf.math.logical_xor(a < b, b > 0.0),
        tf.logical_not(a < b),
    ),
    {"a": (N, 4), "b": (1, 4)},
)
case(
    "blocks",
    lambda x: (
        tf.nn.depth_to_space(x, 2),
        tf.nn.space_to_depth(x, 2),
        tf.space_to_batch(x, [2, 2], [[0, 0], [1, 1]]),
        tf.raw_ops.BatchToSpaceND(input=tf.concat([x] * 4, 0), block_shape=[2, 2], crops=[[1, 0], [0, 1]]),
        tf.nn.atrous_conv2d(x, rnd((3, 3, 8, 2)), 2, "SAME"),
    ),
    {"x": (N, 4, 6, 8)},
)
case(
    "normalized",
    lambda x: tf.compat.v1.nn.fused_batch_norm(x, tf.constant([1.0, 2.0, 3.0]), tf.constant([0.5, 0.5, 0.5])),
    {"x": (N, 4, 4, 3)},
)
case(
    "diagonals",
    lambda x, v: (
        tf.linalg.diag(v, k=1),
        tf.linalg.diag(v, k=-1, padding_value=2.0),
        tf.linalg.diag_part(x, k=1),
        tf.linalg.diag_part(x, k=-1),
        tf.linalg.set_diag(x, v[:, :3], k=1),
    ),
    {"x": (N, 4, 4), "v": (N, 4)},
)
case(
    "simulated_quantization",
    lambda x: (
        tf.quantization.fake_quant_with_min_max_args(x, -1, 1, 4),
        tf.quantization.fake_quant_with_min_max_vars(x, -0.3, 0.8, 16),
        tf.quantization.fake_quant_with_min_max_vars_per_channel(x, [-1.0] * 5, [1.0] * 5),
    ),
    {"x": (N, 5)},
)
case(
    "scattered",
    lambda x: (
        tf.tensor_scatter_nd_update(x, [[1], [4]], x[:2]),
        tf.tensor_scatter_nd_add(x, [[1], [1]], x[:2]),
        tf.tensor_scatter_nd_sub(x, [[1], [4]], x[:2]),
        tf.tensor_scatter_nd_max(x, [[1], [4]], x[:2]),
        tf.tensor_scatter_nd_min(x, [[1], [4]], x[:2]),
        tf.scatter_nd([[1], [1]], x[:2], [6, 3]),
    ),
    {"x": (6, 3)},
)

raw = tf.raw_ops
case(
    "raw_shapes",
    lambda x: (
        raw.Concat(concat_dim=1, values=[x, x[:, :2]]),
        *raw.ConcatOffset(concat_dim=1, shape=[tf.shape(x), tf.shape(x[:, 1:]), tf.shape(x)]),
        raw.Rank(input=x),
        *raw.ShapeN(input=[x, x[0]]),
        *raw.ShapeN(input=[x, x[0]], out_type=tf.int64),
        raw.DataFormatVecPermute(x=tf.shape(x)[:4]),
        raw.DataFormatVecPermute(x=tf.shape(x)[1:3]),
        raw.DataFormatVecPermute(x=tf.reshape(tf.shape(x), [2, 2]), src_format="NCHW", dst_format="NHWC"),
        raw.DataFormatVecPermute(x=tf.stack([tf.shape(x), tf.shape(x) + 1], 1)),
    ),
    {"x": (N, 3, 2, 5)},
)
case("raw_parallel_concat", lambda x: raw.ParallelConcat(values=[x, x + 1.0], shape=[2, 3]), {"x": (1, 3)})
case(
    "raw_blocks",
    lambda x: (
        raw.SpaceToBatch(input=x, paddings=[[0, 0], [1, 1]], block_size=2),
        raw.BatchToSpace(input=tf.concat([x] * 4, 0), crops=[[1, 0], [0, 1]], block_size=2),
        raw.MaxPoolV2(input=x, ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1], padding="SAME"),
        raw.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 1, 2, 1], padding="VALID"),
    ),
    {"x": (N, 4, 6, 2)},
)
case(
    "raw_arithmetic",
    lambda x, y: (
        raw.BiasAddV1(value=x, bias=y[0]),
        raw.Cross(a=x[:, 0], b=x[:, 1]),
        raw.Diag(diagonal=y[0]),
        raw.Ndtri(x=tf.abs(x) * 0.9 + 0.05),
        raw.LinSpace(start=y[0, 0], stop=y[0, 1], num=5),
        raw.LinSpace(start=0.5, stop=2.0, num=1),
    ),
    {"x": (N, 2, 3), "y": (4, 3)},
)


def batch_norm_with_global_normalization():
    """Record an operator that only graphs with a version below 9 may have: `case` cannot build one."""
    name = "raw_batch_norm_with_global_normalization"
    if SELECTED and name not in SELECTED:
        return
    graph = tf.compat.v1.GraphDef()
    graph.versions.producer = 8
    for operand in "xmvbs":
        node = graph.node.add(name=operand, op="Placeholder")
        node.attr["dtype"].type = tf.float32.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(tf.TensorShape([None, 4, 5, 3] if operand == "x" else [3]).as_proto())
    for i in range(2):
        node = graph.node.add(name=f"y{i}", op="BatchNormWithGlobalNormalization", input=list("xmvbs"))
        node.attr["T"].type = tf.float32.as_datatype_enum
        node.attr["variance_epsilon"].f = 0.01
        node.attr["scale_after_normalization"].b = bool(i)
    (FOLDER / f"{name}.pb").write_bytes(graph.SerializeToString(deterministic=True))
    arrays = {f"in{i}": rnd((2, 4, 5, 3) if i == 0 else (3,), seed=i, lo=0.1) for i in range(5)}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(graph, name="")
        found = session.run(["y0:0", "y1:0"], {f"{k}:0": v for k, v in zip("xmvbs", arrays.values(), strict=True)})
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays, **{f"out{i}": y for i, y in enumerate(found)})
    outputs = [{"name": f"y{i}:0", "dtype": "float32", "tolerance": 2e-4} for i in range(2)]
    files = {f"{name}.pb": {"inputs": list("xmvbs"), "outputs": ["y0:0", "y1:0"]}}
    inputs = [{"name": k, "dtype": "float32"} for k in "xmvbs"]
    ROWS[name] = {"name": name, "files": files, "inputs": inputs, "outputs": outputs}


batch_norm_with_global_normalization()
case(
    "raw_running",
    each(
        [
            lambda x, e=exclusive, r=reverse, a=axis, op=op: op(x=x, axis=a, exclusive=e, reverse=r)
            for op in (raw.Cumprod, raw.CumulativeLogsumexp)
            for exclusive in (False, True)
            for reverse in (False, True)
            for axis in (1, -1)
        ]
    ),
    {"x": (N, 3, 5)},
)
case(
    "raw_boxes",
    lambda b, s: (
        raw.NonMaxSuppression(boxes=b, scores=s, max_output_size=4, iou_threshold=0.4),
        raw.NonMaxSuppression(boxes=b, scores=s, max_output_size=20),
        *raw.NonMaxSuppressionV4(
            boxes=b, scores=s, max_output_size=10, iou_threshold=0.4, score_threshold=0.3, pad_to_max_output_size=True
        ),
        *raw.NonMaxSuppressionV4(boxes=b, scores=s, max_output_size=3, iou_threshold=0.4, score_threshold=0.3),
    ),
    {"b": (12, 4), "s": (12,)},
    lo=0,
    hi=1,
)
case(
    "raw_sparse",
    lambda x, i: (
        raw.SparseToDense(sparse_indices=i, output_shape=[6], sparse_values=x, default_value=0.5),
        raw.SparseToDense(sparse_indices=i, output_shape=[6], sparse_values=2.0, default_value=0.0),
        raw.SparseToDense(sparse_indices=tf.stack([i, i], 1), output_shape=[6, 7], sparse_values=x, default_value=-1.0),
        raw.SparseToDense(sparse_indices=3, output_shape=[6], sparse_values=x[0], default_value=0.0),
    ),
    {"x": (3,), "i": ((3,), "int32")},
    feeds=[{"x": rnd((3,)), "i": np.array([0, 2, 5], np.int32)}],
)


def lists(x):
    empty = raw.EmptyTensorList(element_shape=[3], max_num_elements=-1, element_dtype=tf.float32)
    pushed = raw.TensorListPushBack(input_handle=empty, tensor=x[0])
    pushed = raw.TensorListPushBack(input_handle=pushed, tensor=x[1] * 2.0)
    full = raw.TensorListFromTensor(tensor=x, element_shape=[3])
    rest, last = raw.TensorListPopBack(input_handle=full, element_shape=[3], element_dtype=tf.float32)
    pieces = raw.TensorListFromTensor(tensor=tf.stack([x, x + 1.0]), element_shape=[-1, 3])
    concat = raw.TensorListConcatV2(
        input_handle=pieces, element_shape=[-1, 3], leading_dims=np.zeros([0], np.int64), element_dtype=tf.float32
    )
    some = raw.TensorListScatter(tensor=x[:2], indices=[2, 0], element_shape=[3])
    more = raw.TensorListScatterV2(tensor=x[:2], indices=[1, 0], element_shape=[3], num_elements=4)

    def stack(handle):
        return raw.TensorListStack(input_handle=handle, element_shape=[3], element_dtype=tf.float32)

    return (
        *(stack(handle) for handle in (pushed, rest, some, more)),
        last,
        *concat,
        raw.TensorListLength(input_handle=full),
        raw.TensorListLength(input_handle=rest),
        raw.TensorListLength(input_handle=pushed),
        raw.TensorListLength(input_handle=more),
    )


case("raw_lists", lists, {"x": (N, 3)})


def scattered_variable(x, i):
    found = []
    for name in ("Update", "Add", "Sub", "Max", "Min", "Mul"):
        for updates in (x[:3] * 2.0, tf.constant(0.5)):
            handle = raw.VarHandleOp(dtype=tf.float32, shape=[6, 3], shared_name=f"{name}{len(found)}")
            raw.AssignVariableOp(resource=handle, value=x)
            scatter = getattr(raw, f"ResourceScatter{name}")
            scatter(resource=handle, indices=i, updates=updates)
            found.append(raw.ReadVariableOp(resource=handle, dtype=tf.float32))
    rows = raw.ResourceGather(resource=handle, indices=i, dtype=tf.float32)
    return (*found, rows)


case(
    "raw_variables",
    scattered_variable,
    {"x": (6, 3), "i": ((3,), "int32")},
    feeds=[{"x": rnd((6, 3)), "i": np.array([4, 0, 2], np.int32)}],
)

# Complex tensors
case(
    "c_spectra",
    lambda x, y: (
        tf.math.real(tf.signal.rfft(x)),
        tf.math.imag(tf.signal.rfft(x)),
        tf.abs(tf.signal.rfft(x, [12])),
        tf.abs(tf.signal.rfft(x, [6])),
        tf.signal.irfft(tf.complex(x, y)),
        tf.signal.irfft(tf.complex(x, y), [9]),
        tf.signal.irfft(tf.complex(x, y), [20]),
        tf.math.real(tf.signal.fft(tf.complex(x, y))),
        tf.math.imag(tf.signal.ifft(tf.complex(x, y))),
    ),
    {"x": (N, 8), "y": (N, 8)},
)
case(
    "c_spectra_of_images",
    lambda x: (
        tf.abs(tf.signal.rfft2d(x)),
        tf.abs(tf.signal.rfft2d(x, [5, 8])),
        tf.signal.irfft2d(tf.signal.rfft2d(x) * 2.0),
        tf.math.real(tf.signal.fft2d(tf.cast(x, tf.complex64))),
        tf.math.imag(tf.signal.fft3d(tf.cast(x, tf.complex64))),
        tf.math.real(tf.signal.ifft3d(tf.cast(x, tf.complex64))),
        tf.math.real(tf.signal.ifft2d(tf.cast(x, tf.complex64))),
        tf.signal.irfft3d(tf.signal.rfft3d(x) * 0.5),
    ),
    {"x": (2, 4, 6)},
)


def complex_arithmetic(x, y):
    c, d = tf.complex(x, y), tf.constant([1 - 2j, 0.5j, 3.0, 1 + 1j], tf.complex64)
    return [
        *(
            f(z)
            for z in (c * d, c / d, c + d, c - d, -c, tf.exp(c), tf.square(c))
            for f in (tf.math.real, tf.math.imag)
        ),
        *(tf.math.angle(c), tf.abs(c), tf.math.real(tf.math.log(c)), tf.math.imag(tf.math.conj(c)), tf.equal(c, c * 1)),
        *(tf.math.imag(tf.math.reciprocal(c)), tf.shape(c), tf.math.real(tf.matmul(c, c, transpose_a=True))),
        tf.math.imag(tf.transpose(tf.concat([c, tf.reverse(c, [1])], 1), conjugate=True)[1:3]),
        *(
            tf.math.real(tf.reduce_sum(c, 1)),
            tf.math.imag(tf.where(x > 0, c, tf.zeros_like(c))),
            tf.cast(c, tf.float32),
        ),
        tf.math.imag(tf.einsum("ij,j->i", c, d)),
        tf.math.real(tf.stack(tf.split(c, 2, 1))),
    ]


case("c_arithmetic", complex_arithmetic, {"x": (N, 4), "y": (N, 4)}, lo=0.1, hi=1)
case(
    "c_audio",
    lambda x: (
        tf.abs(tf.signal.stft(x, 16, 8)),
        tf.signal.inverse_stft(tf.signal.stft(x, 16, 8), 16, 8),
        tf.signal.dct(x),
        tf.signal.mdct(x, 8),
    ),
    {"x": (2, 40)},
)

# Images
case(
    "i_colors",
    lambda x: (
        tf.image.rgb_to_hsv(x),
        tf.image.hsv_to_rgb(x),
        tf.image.adjust_hue(x, 0.2),
        tf.image.adjust_hue(x, -0.4),
        tf.image.adjust_saturation(x, 1.7),
        tf.image.adjust_contrast(x, 1.5),
        tf.image.rgb_to_hsv(x[..., :1] * [1.0, 1.0, 1.0]),
        tf.image.rgb_to_hsv(x * 0.0),
    ),
    {"x": (N, 5, 4, 3)},
    lo=0,
    hi=1,
)
case(
    "i_windows",
    lambda x: (
        tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 1, 1], "SAME"),
        tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 2, 2, 1], "VALID"),
        tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 2, 1, 1], "SAME"),
        tf.nn.dilation2d(x, tf.constant(rnd((3, 2, 3))), [1, 2, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]),
        tf.nn.erosion2d(x, tf.constant(rnd((2, 2, 3))), [1, 1, 1, 1], "VALID", "NHWC", [1, 1, 1, 1]),
        *tf.nn.max_pool_with_argmax(x, 2, 2, "SAME"),
        *tf.nn.max_pool_with_argmax(x, 3, 1, "VALID", include_batch_in_index=True),
        *tf.nn.max_pool_with_argmax(x, [3, 2], [2, 1], "SAME", output_dtype=tf.int32),
    ),
    {"x": (N, N, N, 3)},
    feeds=[{"x": rnd((2, 6, 7, 3))}, {"x": rnd((1, 8, 5, 3))}],
)
case(
    "i_filters",
    lambda x: [
        *(tf.image.resize(x, [4, 9], kind) for kind in ("lanczos3", "lanczos5", "gaussian", "mitchellcubic")),
        *(tf.image.resize(x, [3, 4], kind, antialias=True) for kind in ("bilinear", "bicubic", "lanczos3")),
        tf.raw_ops.ScaleAndTranslate(
            images=x, size=[6, 8], scale=[1.3, 0.8], translation=[-1.5, 2.0], kernel_type="box", antialias=True
        ),
    ],
    {"x": (N, 6, 7, 2)},
)


def combined(boxes, scores, **options):
    return tf.image.combined_non_max_suppression(boxes, scores, 3, 6, 0.5, 0.1, **options)


corners = rnd((2, 14, 2), lo=0, hi=0.6)
case(
    "i_combined_nms",
    lambda b, s: [
        *combined(b[:, :, None], s),
        *combined(b[:, :, None] * 3.0, s, clip_boxes=False),
        *combined(tf.tile(b[:, :, None], [1, 1, 3, 1]) * tf.constant([1.0, 0.9, 0.8])[:, None], s, pad_per_class=True),
        *tf.image.combined_non_max_suppression(b[:, :, None], s, 9, 60, 0.4, 0.6),
    ],
    {"b": (N, 14, 4), "s": (N, 14, 3)},
    feeds=[
        {
            "b": np.concatenate([corners, corners + rnd((2, 14, 2), seed=9, lo=0.05, hi=0.4)], -1),
            "s": rnd((2, 14, 3), lo=0, hi=1),
        }
    ],
)

# Matrices
case(
    "m_factors",
    each(
        [
            tf.linalg.cholesky,
            tf.linalg.inv,
            lambda x: tf.linalg.inv(x, adjoint=True),
            tf.linalg.det,
            *(lambda x, i=i: tf.linalg.slogdet(x)[i] for i in range(2)),
            lambda x: tf.linalg.solve(x, x[..., :2]),
            lambda x: tf.linalg.solve(x, x[..., :2], adjoint=True),
            lambda x: tf.linalg.triangular_solve(x, x[..., :2]),
            lambda x: tf.linalg.triangular_solve(x, x[..., :2], lower=False),
            lambda x: tf.linalg.triangular_solve(x, x[..., :2], adjoint=True),
        ]
    ),
    {"x": (2, 4, 4)},
    feeds=[{"x": np.einsum("bij,bkj->bik", rnd((2, 4, 6)), rnd((2, 4, 6))) + 3 * np.eye(4, dtype=np.float32)}],
)
case(
    "m_diagonals",
    lambda x: [
        *(tf.linalg.diag_part(x, k=k, padding_value=9.0) for k in ((-1, 1), (0, 2), (-2, -1))),
        *(tf.linalg.diag_part(x, k=(-1, 2), align=a) for a in ("LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")),
        tf.linalg.diag(x[:, :3], k=(-1, 1)),
        tf.linalg.diag(x[:, :2], k=(1, 2), padding_value=7.0, align="LEFT_LEFT"),
        tf.linalg.diag(x[:, :2, :3], k=(0, 1), num_rows=3, num_cols=5),
        tf.linalg.set_diag(x, tf.linalg.diag_part(x, k=(-1, 1)) * 2.0, k=(-1, 1)),
    ],
    {"x": (2, 3, 4)},
)

# Sparse and ragged tensors, counts
case(
    "s_sparse",
    lambda x: [
        tf.sparse.to_dense(tf.sparse.from_dense(x)),
        tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(x), x, adjoint_b=True),
        tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(x), x, adjoint_a=True),
        tf.sparse.reduce_sum(tf.sparse.from_dense(x), 1),
        tf.RaggedTensor.from_row_splits(x[:, 0], [0, 2, 2, 4]).to_tensor(-1.0),
        tf.RaggedTensor.from_value_rowids(x, [0, 0, 2, 3], 6).to_tensor(-1.0),
        tf.RaggedTensor.from_row_lengths(x[:, 0], [3, 0, 1]).to_tensor(0.0, shape=[4, 2]),
        tf.reduce_sum(tf.RaggedTensor.from_row_splits(x, [0, 2, 2, 4]), 1),
        tf.raw_ops.InplaceUpdate(x=x + 0.0, i=[0, 2], v=x[1:3]),
        tf.raw_ops.InplaceSub(x=x * 3.0, i=[0, 2], v=x[1:3]),
        tf.raw_ops.InplaceAdd(x=x * 2.0, i=[0, 2], v=x[1:3]),
    ],
    {"x": (4, 3)},
)
case(
    "s_counts",
    lambda x, i: [
        tf.histogram_fixed_width(x, [-1.0, 1.0], 5),
        tf.histogram_fixed_width(x, [-0.5, 0.5], 7, tf.int64),
        tf.raw_ops.NthElement(input=x, n=2),
        tf.raw_ops.NthElement(input=x, n=1, reverse=True),
        tf.math.bincount(i, minlength=6, maxlength=6, axis=-1),
        tf.math.bincount(i, minlength=6, maxlength=6, axis=-1, binary_output=True),
        tf.math.bincount(i, weights=x, minlength=6, maxlength=6, axis=-1),
        *tf.raw_ops.ListDiff(x=i[0], y=[1, 3]),
        tf.quantization.quantize_and_dequantize_v2(x, -1.0, 0.7, range_given=True),
        tf.quantization.quantize_and_dequantize_v2(x, 0.0, 0.7, signed_input=False, range_given=True, num_bits=4),
        tf.quantization.quantize_and_dequantize_v2(x, -0.5, 0.7, range_given=True, narrow_range=True),
        tf.raw_ops.QuantizeAndDequantizeV2(input=x, input_min=-1.0, input_max=0.5, range_given=True, num_bits=5),
        tf.raw_ops.QuantizeAndDequantizeV3(input=x, input_min=-1.0, input_max=0.5, num_bits=6, range_given=True),
        *(f(x) for f in (tf.math.bessel_i0, tf.math.bessel_i0e, tf.math.bessel_i1, tf.math.bessel_i1e)),
    ],
    {"x": (4, 5), "i": ((4, 5), "int32")},
    feeds=[{"x": rnd((4, 5)), "i": rnd((4, 5), "int32", lo=0, hi=5.99)}],
)

# Fused recurrent cells, projections, quantization and decoding
_UNITS = 5
_PEEPHOLES = {"wci": rnd((_UNITS,), seed=3), "wcf": rnd((_UNITS,), seed=6), "wco": rnd((_UNITS,), seed=7)}
_NO_PEEPHOLES = dict.fromkeys(("wci", "wcf", "wco"), np.zeros(_UNITS, np.float32))
_LSTM = {
    "cs_prev": rnd((2, _UNITS), seed=3),
    "h_prev": rnd((2, _UNITS), seed=5),
    "w": rnd((8, 4 * _UNITS), seed=3),
    "b": rnd((4 * _UNITS,), seed=3),
}


def block_lstms(x):
    plain = raw.BlockLSTMV2(seq_len_max=tf.constant(4, tf.int64), x=x, **_LSTM, **_NO_PEEPHOLES, cell_clip=0.0)
    clipped = raw.BlockLSTM(
        seq_len_max=tf.constant(3, tf.int64), x=x, **_LSTM, **_PEEPHOLES, cell_clip=0.3, use_peephole=True
    )
    return (*plain, clipped.cs, clipped.h)


case("block_lstms", block_lstms, {"x": (4, 2, 3)})
case(
    "block_cells",
    lambda x: (
        *raw.LSTMBlockCell(x=x, **_LSTM, **_PEEPHOLES, cell_clip=0.2, use_peephole=True),
        *raw.LSTMBlockCell(x=x, **_LSTM, **_NO_PEEPHOLES, forget_bias=0.0),
        *raw.GRUBlockCell(
            x=x,
            h_prev=_LSTM["h_prev"],
            w_ru=rnd((8, 2 * _UNITS), seed=3),
            w_c=rnd((8, _UNITS), seed=3),
            b_ru=rnd((2 * _UNITS,), seed=3),
            b_c=rnd((_UNITS,), seed=3),
        ),
    ),
    {"x": (2, 3)},
)


def projections(x):
    transforms = tf.constant([[1, 0.2, -1, 0.1, 0.9, 0.5, 0, 0], [0.8, 0, 1, 0, 1.1, -1, 0.01, 0.02]], tf.float32)
    options = {"images": x, "output_shape": [6, 5]}
    return (
        *(
            raw.ImageProjectiveTransformV3(
                **options, transforms=transforms, fill_value=0.5, interpolation=interpolation, fill_mode=mode
            )
            for interpolation in ("NEAREST", "BILINEAR")
            for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
        ),
        raw.ImageProjectiveTransformV2(**options, transforms=transforms[:1], interpolation="BILINEAR"),
    )


case("projections", projections, {"x": (2, 5, 7, 3)})


def quantized(mode, dtype, round_mode="HALF_AWAY_FROM_ZERO"):
    ends = {"min_range": -1.0, "max_range": 2.0, "mode": mode}

    def function(x):
        integers, low, high = raw.QuantizeV2(input=x, T=dtype, round_mode=round_mode, **ends)
        return raw.Dequantize(input=integers, **ends), low, high

    return function


case(
    "quantized_ranges",
    lambda x: (
        *quantized("MIN_COMBINED", tf.qint8)(x),
        *quantized("MIN_COMBINED", tf.quint8)(x),
        *quantized("MIN_FIRST", tf.quint8)(x),
        *quantized("SCALED", tf.qint8, "HALF_TO_EVEN")(x),
        tf.quantization.fake_quant_with_min_max_vars(x, tf.reduce_min(x), tf.reduce_max(x)),
        tf.quantization.fake_quant_with_min_max_vars_per_channel(
            x, tf.reduce_min(x, 0) - 0.1, tf.reduce_max(x, 0), num_bits=5, narrow_range=True
        ),
    ),
    {"x": (4, 6)},
    lo=-2.0,
    hi=3.0,
)


def dequantized(x):
    found = []
    for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        for dtype in (tf.quint8, tf.qint8, tf.qint16, tf.qint32):
            y = tf.quantization.quantize(x, -0.3, 0.9, dtype, mode=mode)
            found.append(tf.quantization.dequantize(*y, mode=mode))
    y = tf.quantization.quantize(x, -1.0, 1.0, tf.quint8, mode="MIN_FIRST")
    found.append(tf.quantization.dequantize(y.output, -1.0, 1.0, mode="MIN_FIRST"))
    simulate = tf.quantization.quantize_and_dequantize_v2
    found.append(simulate(x, 0.0, 0.0, num_bits=6, narrow_range=True))
    # The kernel of QuantizeAndDequantizeV4 takes the range of an axis from the elements only.
    ends = {"input_min": [-1.0] * 6, "input_max": [1.0, 0.9, 0.5, 0.2, 0.8, 0.7]}
    found.append(raw.QuantizeAndDequantizeV3(input=x, num_bits=8, axis=1, range_given=True, **ends))
    found.append(simulate(x, [0.0] * 4, [0.0] * 4, axis=0, round_mode="HALF_UP"))
    found.append(simulate(tf.abs(x), 0.0, 0.0, signed_input=False))
    return (*found, simulate(x, -0.5, 1.0, range_given=True))


case("dequantized", dequantized, {"x": (4, 6)})


def greedy_decodings(x):
    merged, score = tf.nn.ctc_greedy_decoder(x, [5, 3])
    whole, _ = tf.nn.ctc_greedy_decoder(x, [5, 3], merge_repeated=False, blank_index=0)
    return merged[0].indices, merged[0].values, merged[0].dense_shape, score, tf.sparse.to_dense(whole[0], -1)


case("greedy_decodings", greedy_decodings, {"x": (5, 2, 4)})
case(
    "raw_reversed",
    lambda x: (
        raw.Reverse(tensor=x, dims=[True, False, True]),
        raw.Reverse(tensor=x, dims=[False, False, False]),
        raw.UnravelIndex(indices=tf.cast(tf.abs(x[0, 0]) * 50, tf.int32), dims=[3, 4, 5]),
        raw.Conv(input=x[..., None], filter=rnd((3, 3, 1, 4)), strides=[1, 1, 1, 1], padding="SAME"),
    ),
    {"x": (2, 5, 4)},
)
case(
    "volume_patches",
    lambda x: (
        raw.ExtractVolumePatches(input=x, ksizes=[1, 2, 2, 2, 1], strides=[1, 1, 2, 1, 1], padding="SAME"),
        raw.ExtractVolumePatches(input=x, ksizes=[1, 1, 3, 2, 1], strides=[1, 1, 1, 2, 1], padding="VALID"),
    ),
    {"x": (1, 4, 5, 4, 2)},
)


def growing(x):
    """A list that grows where it is written, in a loop that ends early."""
    sums = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[3])

    def step(i, total, sums):
        total = tf.cond(tf.reduce_sum(x[i]) > 0.0, lambda: total + x[i], lambda: total - x[i] * 0.5)
        return i + 1, total, sums.write(2 * i, total)

    def goes_on(i, total, _):
        return (i < tf.shape(x)[0]) & (tf.reduce_max(total) < 2.0)

    _, total, sums = tf.while_loop(goes_on, step, (0, tf.zeros([3]), sums))
    return sums.stack(), total


def assigned_slices(x):
    handle = raw.VarHandleOp(dtype=tf.float32, shape=[6, 3], shared_name="sliced")
    raw.AssignVariableOp(resource=handle, value=x)
    begin, end, strides = tf.constant([4, 0]), tf.constant([0, 2]), tf.constant([-2, 1])
    raw.ResourceStridedSliceAssign(ref=handle, begin=begin, end=end, strides=strides, value=x[:2, 1:] * 3.0)
    raw.ResourceScatterNdMax(ref=handle, indices=[[0, 1], [3, 2]], updates=tf.constant([0.5, 2.0]))
    sliced = raw.TensorStridedSliceUpdate(
        input=x,
        begin=[0, 1],
        end=[0, 2],
        strides=[1, 1],
        value=tf.constant(7.0),
        begin_mask=1,
        end_mask=1,
        shrink_axis_mask=2,
    )
    return raw.ReadVariableOp(resource=handle, dtype=tf.float32), sliced


case("assigned_slices", assigned_slices, {"x": (6, 3)})
case("growing_list", growing, {"x": (N, 3)})
case("growing_list_low", growing, {"x": (N, 3)}, lower=True)
case(
    "scattered_list",
    lambda x: (
        tf.TensorArray(tf.float32, 4).scatter([3, 1, 0, 2], x).stack(),
        tf.TensorArray(tf.float32, 4).scatter([3, 1, 0, 2], x).read(1),
    ),
    {"x": (4, 3)},
)

(FOLDER / "cases.json").write_text(json.dumps(ROWS, indent=1))
