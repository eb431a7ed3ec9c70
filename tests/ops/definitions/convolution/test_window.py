"""Arithmetic of sliding windows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol, ceil_div, evaluate
from graphport.ops.definitions.convolution.window import clip_kernel, integer_dims, padded, window, window_view


def test_same_padding_output_is_length_over_stride_rounded_up():
    n = Symbol("N")
    assert window([n], [3], auto_pad="SAME_UPPER", strides=[2]).lengths == (ceil_div(n, 2),)


@given(
    st.integers(1, 30), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)
)
def test_symbolic_lengths_are_those_of_numbers(n, kernel, stride, dilation, begin, end):
    reach = (kernel - 1) * dilation + 1
    for ceil_mode in (0, 1):
        arguments: dict[str, Any] = {
            "dilations": [dilation],
            "pads": [begin, end],
            "strides": [stride],
            "ceil_mode": ceil_mode,
        }
        symbolic = window([Symbol("N")], [kernel], **arguments).lengths[0]
        if n + begin + end >= reach:
            assert window([n], [kernel], **arguments).lengths == (evaluate(symbolic, {"N": n}),)


@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3), st.integers(0, 3))
def test_a_last_window_hangs_over_but_starts_inside(n, kernel, stride, begin, end):
    begin, end = min(begin, kernel - 1), min(end, kernel - 1)
    if n + begin + end < kernel:
        return
    (count,) = integer_dims(window([n], [kernel], pads=[begin, end], strides=[stride], ceil_mode=1).lengths)
    starts = [place * stride - begin for place in range(count)]
    assert all(start < n for start in starts)
    # One more would start behind the last entry, or has nothing new to cover.
    following = count * stride - begin
    assert following >= n or starts[-1] + kernel >= n + end


@pytest.mark.parametrize("padding", [(0, 0), (2, 1), (-1, 2), (2, -1), (-2, -1), (-3, 4), (5, -5)])
def test_padding_adds_or_cuts(padding):
    x = np.arange(5.0).reshape(1, 1, 5)
    begin, end = padding
    expected = np.pad(x[0, 0], (max(begin, 0), max(end, 0)))[max(-begin, 0) : 5 + max(begin, 0) + end]
    np.testing.assert_array_equal(padded(x, [padding], 0)[0, 0], expected)


def test_window_view_shares_memory():
    x = np.arange(24.0).reshape(1, 1, 4, 6)
    slid = window((4, 6), (2, 2), strides=(2, 2))
    view = window_view(x, slid, 0)
    assert np.shares_memory(view, x)
    assert view.shape == (1, 1, 2, 3, 2, 2)
    np.testing.assert_array_equal(view[0, 0, 1, 2], x[0, 0, 2:4, 4:6])


def test_dims_of_arrays_are_plain_numbers():
    with pytest.raises(TypeError):
        integer_dims([Symbol("N")])


def test_kernel_elements_outside_the_input_add_zero():
    """Sums and maxima are those of the whole kernel, which may have a thousand million rows."""
    draw = np.random.default_rng(3)
    smaller = 0
    for _ in range(300):
        n, k, d, s = (tuple(map(int, draw.integers(1, most, 2))) for most in (5, 9, 4, 4))
        pads = tuple(map(int, draw.integers(0, 12, 4)))
        if any(n[a] + pads[a] + pads[a + 2] <= (k[a] - 1) * d[a] for a in (0, 1)):
            continue
        slid = window(n, k, dilations=d, strides=s, pads=pads)
        x = draw.integers(1, 9, (1, 1, *n)).astype(np.float64)
        less = clip_kernel(n, slid)
        smaller += less.kernel != slid.kernel
        for fill, merge in ((0, np.sum), (-1, np.max)):
            whole, found = (merge(window_view(x, each, fill), axis=(-2, -1)) for each in (slid, less))
            np.testing.assert_array_equal(found, whole)
    assert smaller > 50
    huge = window((3,), (10**9,), pads=(5 * 10**8, 5 * 10**8))
    assert window_view(np.ones((1, 1, 3)), clip_kernel((3,), huge), 0).sum(axis=-1).tolist() == [[[3.0] * 4]]
