"""Convolutions in NNEF: what its words mean, and that saying a page in it keeps the meaning."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.convolution import Conv, ConvTranspose
from tests.ops.oracle import compare, lowered_nodes, merged, run_word, there_and_back

MODES: dict[str, Any] = {"constant": "constant", "replicate": "edge", "reflect": "reflect", "reflect-even": "symmetric"}
CONV: dict[str, Any] = {"border": "constant", "padding": (), "stride": (), "dilation": (), "groups": 1}
DECONV: dict[str, Any] = CONV | {"output_shape": ()}


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def automatic(n, kernel, stride, dilation):
    total = max((-(-n // stride) - 1) * stride + (kernel - 1) * dilation + 1 - n, 0)
    return total // 2, total - total // 2


def correlated(x, w, *, border="constant", padding=(), stride=(), dilation=(), groups=1):
    """The definition, place by place."""
    rank = x.ndim - 2
    stride, dilation = stride or (1,) * rank, dilation or (1,) * rank
    axes = zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    pads = list(padding) or [automatic(*axis) for axis in axes]
    for axis, (begin, end) in enumerate(pads, 2):
        keep = range(max(-begin, 0), x.shape[axis] - max(-end, 0))
        x = np.take(x, keep, axis)
    grown = [(0, 0), (0, 0), *[(max(p, 0), max(q, 0)) for p, q in pads]]
    x = np.pad(x, grown, MODES[border])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    out = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    groups = groups or x.shape[1]
    y = np.zeros((x.shape[0], w.shape[0], *out), np.float64)
    each, depth = w.shape[0] // groups, w.shape[1]
    for place in np.ndindex(*out):
        cut = tuple(slice(p * s, p * s + r, d) for p, s, r, d in zip(place, stride, reach, dilation, strict=True))
        for m in range(w.shape[0]):
            first = m // each * depth
            covered = x[(slice(None), slice(first, first + depth), *cut)]
            y[(slice(None), m, *place)] = (covered * w[m]).sum(axis=tuple(range(1, x.ndim)))
    return y.astype(np.float32)


@st.composite
def windows(draw):
    rank = draw(st.integers(1, 2))
    dims = tuple(draw(st.integers(4, 6)) for _ in range(rank))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    attributes: dict[str, Any] = {
        "border": draw(st.sampled_from(sorted(MODES))),
        "padding": draw(
            st.sampled_from([(), tuple((draw(st.integers(-1, 2)), draw(st.integers(-1, 2))) for _ in kernel)])
        ),
        "stride": draw(st.sampled_from([(), tuple(draw(st.integers(1, 3)) for _ in kernel)])),
        "dilation": draw(st.sampled_from([(), tuple(draw(st.integers(1, 2)) for _ in kernel)])),
    }
    return dims, kernel, attributes


@given(windows(), st.sampled_from([0, 1, 2]), st.booleans())
def test_conv_is_its_definition(window, groups, symbolic):
    dims, kernel, attributes = window
    depth = {0: 1, 1: 4, 2: 2}[groups]
    x, w = random(2, 4, *dims), random(4, depth, *kernel, seed=1)
    try:
        expected = correlated(x, w, groups=groups, **attributes)
    except ValueError:
        return
    if min(expected.shape) < 1:
        return
    mirrors = attributes["border"] == "reflect-even"
    unknown = symbolic and groups and not mirrors
    (found,) = run_word(
        "nnef", "conv", [x, w], symbolic=bool(unknown), constants=(1,), **merged(CONV, attributes, {"groups": groups})
    )
    compare(found, expected, tolerance=1e-4)


def biased(shape, value=None):
    bias = random(*shape, seed=5) if value is None else np.full(shape, value, np.float32)
    x, w = random(1, 2, 5), random(3, 2, 2, seed=1)
    places = {"constants": (2,)} if value is None else {"literals": (2,)}
    (found,) = run_word("nnef", "conv", [x, w, bias], **places, **CONV)
    return found - correlated(x, w), bias


@pytest.mark.parametrize("shape", [(1, 3), (3,), (1, 1), (1, 3, 1)])
def test_bias_belongs_to_channels(shape):
    added, bias = biased(shape)
    expected = bias.reshape(1, -1, 1) if bias.size == 3 else bias.reshape(1, 1, 1)
    compare(added, np.broadcast_to(expected, added.shape).copy(), tolerance=1e-5)


def test_bias_of_a_number_is_added_everywhere():
    added, _ = biased((), 2.5)
    compare(added, np.full_like(added, 2.5), tolerance=1e-5)


def test_conv_with_a_bias_row_is_one_convolution_after_dropping_the_row():
    nodes = lowered_nodes("nnef", "conv", [(1, 2, 5, 5), (3, 2, 3, 3), (1, 3)], **CONV)
    assert nodes == [("Squeeze", {}), ("Conv", {"auto_pad": "SAME_UPPER"})]


def test_an_automatic_dilated_window_is_padded_explicitly_where_extents_are_known():
    nodes = lowered_nodes("nnef", "conv", [(1, 2, 5), (3, 2, 3)], **merged(CONV, {"dilation": (2,)}))
    assert nodes == [("Conv", {"dilations": (2,), "pads": (2, 2)})]


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        pytest.param([(1, 2, 5), (3, 2)], {}, "rank 2", id="filter's rank"),
        pytest.param([(1, 2), (3, 2)], {}, "rank 2", id="no spatial axis"),
        pytest.param([(1, 3, 5), (3, 2, 3)], {}, "channels", id="channels"),
        pytest.param([(1, 2, 5), (3, 2, 3), (1, 2)], {}, "bias", id="bias channels"),
        pytest.param([(1, 2, 5), (3, 2, 3), (2, 3)], {}, "bias", id="bias batch"),
        pytest.param([(1, 2, 5), (3, 2, 3), (2, 3, 1)], {}, "bias", id="bias of rank 3"),
        pytest.param([(1, 2, 5), (3, 2, 3)], {"groups": -1}, "groups", id="groups"),
        pytest.param([(1, 2, 5), (3, 2, 3)], {"border": "ignore"}, "border", id="ignored border"),
        pytest.param([(1, 2, 5), (3, 2, 3)], {"stride": (1, 1)}, "stride has 2", id="stride's length"),
        pytest.param([(1, 2, 5), (3, 2, 3)], {"stride": (0,)}, "positive", id="stride 0"),
        pytest.param([(1, 2, 5), (3, 2, 7)], {"padding": ((0, 0),)}, "reaches over", id="too large"),
    ],
)
def test_conv_refuses(shapes, attributes, message):
    with pytest.raises(ShapeError, match=message):
        lowered_nodes("nnef", "conv", shapes, **merged(CONV, attributes))


@st.composite
def painted(draw):
    rank = draw(st.integers(1, 2))
    dims = tuple(draw(st.integers(2, 4)) for _ in range(rank))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    stride = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    dilation = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    return dims, kernel, stride, dilation, draw(st.booleans())


@given(painted(), st.sampled_from([0, 1, 2]), st.booleans())
def test_deconv_undoes_the_geometry_of_conv(window, groups, explicit):
    dims, kernel, stride, dilation, extra = window
    depth = {0: 1, 1: 3, 2: 3}[groups]
    x, w = random(1, 4, *dims), random(4, depth, *kernel, seed=1)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = tuple((min(1, r - 1), 0) for r in reach) if explicit else ()
    if explicit:
        natural = [(n - 1) * s + r - p - q for n, s, r, (p, q) in zip(dims, stride, reach, padding, strict=True)]
        out = [n + (s - 1 if extra else 0) for n, s in zip(natural, stride, strict=True)]
    else:
        out = [n * s for n, s in zip(dims, stride, strict=True)]
    channels = depth * (groups or 4)
    attributes: dict[str, Any] = DECONV | {"padding": padding, "stride": stride, "dilation": dilation, "groups": groups}
    if explicit and extra:
        attributes["output_shape"] = (1, channels, *out)
    (found,) = run_word("nnef", "deconv", [x, w], **attributes)
    # <conv(y, w), x> = <y, deconv(x, w)>: the transposed map, by its definition.
    y = random(1, channels, *out, seed=3)
    taken = correlated(y, w, padding=padding, stride=stride, dilation=dilation, groups=groups or 4)
    np.testing.assert_allclose(np.vdot(taken, x), np.vdot(y, found), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        pytest.param({"output_shape": (1, 3)}, "output_shape", id="rank"),
        pytest.param({"output_shape": (1, 2, 8)}, "batch and channels", id="channels"),
        pytest.param({"output_shape": (1, 3, 20)}, "positions", id="too long"),
    ],
)
def test_deconv_refuses(attributes, message):
    with pytest.raises(ShapeError, match=message):
        lowered_nodes("nnef", "deconv", [(1, 2, 4), (2, 3, 3)], **merged(DECONV, {"stride": (2,)}, attributes))


def test_deconv_knows_no_border_but_zeros():
    with pytest.raises(UnsupportedError, match="replicate"):
        lowered_nodes("nnef", "deconv", [(1, 2, 4), (2, 3, 3)], **merged(DECONV, {"border": "replicate"}))


def test_separable_conv_is_two_convolutions():
    x, planes, points = random(1, 3, 5, 6), random(6, 1, 3, 3, seed=1), random(4, 6, 1, 1, seed=2)
    bias = random(1, 4, seed=3)
    (found,) = run_word("nnef", "separable_conv", [x, planes, points, bias], **merged(CONV, {"stride": (2, 1)}))
    first = correlated(x, planes, stride=(2, 1), groups=0)
    expected = correlated(first, points, padding=((0, 0), (0, 0))) + bias.reshape(1, -1, 1, 1)
    compare(found, expected, tolerance=1e-4)


def test_separable_deconv_mixes_channels_first():
    x, planes, points = random(1, 3, 4, 4), random(5, 1, 3, 3, seed=1), random(3, 5, 1, 1, seed=2)
    (found,) = run_word("nnef", "separable_deconv", [x, planes, points], **merged(DECONV, {"stride": (2, 2)}))
    (mixed,) = run_word("nnef", "deconv", [x, points], **merged(DECONV, {"padding": ((0, 0), (0, 0))}))
    (expected,) = run_word("nnef", "deconv", [mixed, planes], **merged(DECONV, {"stride": (2, 2), "groups": 0}))
    compare(found, expected, tolerance=1e-5)


def test_separable_filters_must_be_separable():
    with pytest.raises(ShapeError, match="plane_filter has 2 channels"):
        lowered_nodes("nnef", "separable_conv", [(1, 2, 5), (2, 2, 3), (4, 2, 1)], **CONV)
    with pytest.raises(ShapeError, match="point_filter has the spatial extents"):
        lowered_nodes("nnef", "separable_conv", [(1, 2, 5), (2, 1, 3), (4, 2, 3)], **CONV)


@given(
    st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]),
    st.sampled_from([None, (1, 1), (2, 3)]),
    st.sampled_from([None, (1, 2)]),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_exporting_a_convolution_preserves_its_semantics(auto_pad, strides, dilations, group, biased):
    x, w = random(1, 4, 6, 7), random(4, 4 // group, 3, 2, seed=1)
    bias = random(4, seed=2) if biased else None
    pads = (0, 1, 2, 1) if auto_pad == "NOTSET" else None
    attributes: dict[str, Any] = {
        "auto_pad": auto_pad,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "group": group,
    }
    said: dict[str, Any] = {name: value for name, value in attributes.items() if value is not None}
    words = there_and_back(Conv, [x, w, bias], constants=(1, 2), tolerance=1e-4, **said)
    assert words == ["conv"]


def test_a_computed_bias_gets_its_row():
    words = there_and_back(Conv, [random(1, 2, 5), random(3, 2, 3), random(3)], tolerance=1e-5)
    assert words == ["unsqueeze", "conv"]


@given(
    st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER"]),
    st.sampled_from([None, (2, 3)]),
    st.sampled_from([None, (1, 1)]),
    st.sampled_from([1, 2]),
)
def test_exporting_a_transposed_convolution_preserves_its_semantics(auto_pad, strides, output_padding, group):
    if output_padding is not None and strides is None:
        return
    x, w = random(1, 4, 3, 4), random(4, 3, 3, 3, seed=1)
    pads = (1, 0, 1, 1) if auto_pad == "NOTSET" else None
    attributes: dict[str, Any] = {"auto_pad": auto_pad, "strides": strides, "pads": pads, "group": group}
    attributes["output_padding"] = output_padding
    said: dict[str, Any] = {name: value for name, value in attributes.items() if value is not None}
    assert there_and_back(ConvTranspose, [x, w, random(3 * group)], constants=(1, 2), tolerance=1e-4, **said) == [
        "deconv"
    ]


def test_values_that_depend_on_unknown_dims_are_not_written():
    operands = [random(1, 4, 5), random(4, 4, 3, seed=1)]
    assert there_and_back(Conv, operands, constants=(1,), symbolic=True, auto_pad="SAME_LOWER", strides=(3,)) is None
    padded = there_and_back(Conv, operands, constants=(1,), symbolic=True, auto_pad="SAME_LOWER", strides=(2,))
    assert padded == ["conv"]
    assert there_and_back(Conv, operands, constants=(1,), symbolic=True, pads=(1, 1), tolerance=1e-5) == ["conv"]
