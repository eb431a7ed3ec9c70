"""Poolings and box filters in NNEF, by their definitions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.pooling import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from tests.draws import times
from tests.ops.oracle import compare, lowered_nodes, merged, run_word, there_and_back

MODES: dict[str, Any] = {"constant": "constant", "replicate": "edge", "reflect": "reflect", "reflect-even": "symmetric"}


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def padding_of(x, window):
    if window["padding"]:
        return list(window["padding"])
    axes = zip(x.shape, window["size"], window["stride"], window["dilation"], strict=True)
    totals = [max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, k, s, d in axes]
    return [(total // 2, total - total // 2) for total in totals]


def places(x, window):
    """Each place with what the window covers there; NaN stands for an ignored border."""
    pads = padding_of(x, window)
    ignored = window["border"] == "ignore"
    grown = np.pad(x, pads, constant_values=np.nan) if ignored else np.pad(x, pads, MODES[window["border"]])
    axes = list(zip(grown.shape, window["size"], window["stride"], window["dilation"], strict=True))
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in axes]
    for place in np.ndindex(*out):
        cut = tuple(slice(p * s, p * s + (k - 1) * d + 1, d) for p, (_, k, s, d) in zip(place, axes, strict=True))
        yield place, grown[cut]


def pooled(x, window, function):
    found = {place: function(covered) for place, covered in places(x, window)}
    out = [max(place[axis] for place in found) + 1 for axis in range(x.ndim)]
    return np.array([found[place] for place in np.ndindex(*out)], np.float32).reshape(out)


@st.composite
def windows(draw, borders=(*MODES, "ignore"), ranks=(1, 2, 3, 4)):
    rank = draw(st.sampled_from(ranks))
    dims = tuple(draw(st.integers(4, 5)) for _ in range(rank))
    size = tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in range(rank))
    one = (draw(st.integers(0, 1)), draw(st.integers(0, 1)))
    window: dict[str, Any] = {
        "size": size,
        "border": draw(st.sampled_from(borders)),
        "padding": tuple(one if k > 1 else (0, 0) for k in size) if draw(st.booleans()) else (),
        "stride": tuple(draw(st.sampled_from([1, 1, 2])) for _ in range(rank)),
        "dilation": (1,) * rank,
    }
    if all(n > 2 * k for n, k in zip(dims, size, strict=True)):
        window["dilation"] = tuple(draw(st.sampled_from([1, 2])) for _ in range(rank))
    return dims, window


@settings(max_examples=times(40))
@given(windows())
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_pools_are_their_definitions(case):
    dims, window = case
    x = random(*dims)
    (y,) = run_word("nnef", "max_pool", [x], **window)
    compare(y, pooled(x, window, np.nanmax))
    (y,) = run_word("nnef", "avg_pool", [x], **window)
    compare(y, pooled(x, window, np.nanmean), tolerance=1e-5)
    (y,) = run_word("nnef", "rms_pool", [x], **window)
    compare(y, pooled(x, window, lambda covered: np.sqrt(np.nanmean(covered**2))), tolerance=1e-5)
    (y,) = run_word("nnef", "box", [x], **window, normalize=False)
    compare(y, pooled(x, window, np.nansum), tolerance=1e-5)


@settings(max_examples=times(40))
@given(windows(borders=("constant", "replicate", "reflect", "ignore"), ranks=(3, 4)))
def test_automatic_padding_of_unknown_extents_is_computed_while_running(case):
    dims, window = case
    window |= {"padding": (), "size": (1, 1, *window["size"][2:]), "stride": (1, 1, *window["stride"][2:])}
    x = random(*dims)
    (y,) = run_word("nnef", "max_pool", [x], symbolic=True, **window)
    compare(y, pooled(x, window, np.nanmax))


@settings(max_examples=times(40))
@given(windows(ranks=(2, 3, 4)))
def test_an_index_is_a_position_in_the_window(case):
    dims, window = case
    x = random(*dims)
    y, index = run_word("nnef", "max_pool_with_index", [x], outputs=2, **window)
    compare(y, pooled(x, window, np.nanmax))
    compare(index, pooled(x, window, np.nanargmax).astype(np.int64))
    (alone,) = run_word("nnef", "argmax_pool", [x], **window)
    compare(alone, index)


@settings(max_examples=times(40))
@given(windows(borders=("constant", "replicate"), ranks=(2, 3, 4)))
def test_sampling_by_the_indices_of_the_largest_gives_the_largest(case):
    dims, window = case
    x = random(*dims)
    y, index = run_word("nnef", "max_pool_with_index", [x], outputs=2, **window)
    (sampled,) = run_word("nnef", "sample", [x, index], **window)
    compare(sampled, y)


@settings(max_examples=times(40))
@given(windows(borders=("constant",), ranks=(2, 3)))
def test_desampling_is_the_transposed_map_of_sampling(case):
    dims, window = case
    if not window["padding"] and any(n % s for n, s in zip(dims, window["stride"], strict=True)):
        return
    x = random(*dims)
    _, index = run_word("nnef", "max_pool_with_index", [x], outputs=2, **window)
    y = random(*index.shape, seed=1)
    shape = dims if window["padding"] else ()
    (back,) = run_word("nnef", "desample", [y, index], **window, output_shape=shape)
    assert back.shape == dims
    (sampled,) = run_word("nnef", "sample", [x, index], **window)
    np.testing.assert_allclose(np.vdot(back, x), np.vdot(y, sampled), rtol=1e-4, atol=1e-4)


@settings(max_examples=times(40))
@given(windows(borders=("constant",), ranks=(2, 3, 4)), st.booleans())
def test_debox_is_the_transposed_map_of_box(case, normalize):
    dims, window = case
    if not window["padding"] and any(n % s for n, s in zip(dims, window["stride"], strict=True)):
        return
    x = random(*dims)
    (taken,) = run_word("nnef", "box", [x], **window, normalize=normalize)
    y = random(*taken.shape, seed=1)
    shape = dims if window["padding"] else ()
    (back,) = run_word("nnef", "debox", [y], **window, normalize=normalize, output_shape=shape)
    assert back.shape == dims
    np.testing.assert_allclose(np.vdot(back, x), np.vdot(y, taken), rtol=1e-3, atol=1e-3)


WINDOW: dict[str, Any] = {"size": (1, 1, 2), "border": "constant", "padding": (), "stride": (), "dilation": ()}


def operators(op_type, shapes, **attributes):
    return [operator for operator, _ in lowered_nodes("nnef", op_type, shapes, **attributes)]


def test_a_window_over_space_alone_is_one_pooling():
    assert operators("avg_pool", [(1, 2, 6)], **WINDOW) == ["AveragePool"]
    assert operators("max_pool", [(1, 2, 6)], **merged(WINDOW, {"border": "ignore"})) == ["MaxPool"]
    assert operators("max_pool", [(1, 2, 6)], **merged(WINDOW, {"stride": (1, 1, 2)})) == ["MaxPool"]


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        pytest.param("max_pool", {"size": (1, 2)}, "size", id="size's length"),
        pytest.param("max_pool", {"size": (1, 1, 0)}, "size", id="size 0"),
        pytest.param("max_pool", {"stride": (1,)}, "stride has 1", id="stride's length"),
        pytest.param("avg_pool", {"border": "mirror"}, "'mirror'", id="border"),
        pytest.param("debox", {"output_shape": (1,), "normalize": False}, "output_shape", id="output_shape"),
        pytest.param("argmax_pool", {"size": (1,)}, "size", id="index"),
    ],
)
def test_pools_refuse(op_type, attributes, message):
    with pytest.raises(ShapeError, match=message):
        lowered_nodes("nnef", op_type, [(1, 2, 6)], **merged(WINDOW, attributes))


def test_what_writes_knows_no_border_but_zeros():
    for op_type in ("debox", "desample"):
        operands = [(1, 2, 6)] if op_type == "debox" else [(1, 2, 6), (1, 2, 6)]
        extra: dict[str, Any] = {"normalize": False} if op_type == "debox" else {}
        with pytest.raises(UnsupportedError, match="replicate"):
            lowered_nodes(
                "nnef", op_type, operands, **merged(WINDOW, {"border": "replicate", "output_shape": ()}, extra)
            )


POOLS = [
    {"kernel_shape": (2, 3)},
    {"kernel_shape": (2, 3), "strides": (2, 2), "pads": (1, 0, 0, 2)},
    {"kernel_shape": (2, 3), "strides": (2, 2), "auto_pad": "SAME_UPPER"},
    {"kernel_shape": (2, 3), "strides": (2, 3), "auto_pad": "SAME_LOWER"},
    {"kernel_shape": (2, 2), "dilations": (2, 1), "auto_pad": "VALID"},
    {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1},
    {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "ceil_mode": 1},
]


@pytest.mark.parametrize("attributes", POOLS)
def test_exporting_a_pooling_preserves_its_semantics(attributes):
    x = random(2, 3, 6, 7)
    assert there_and_back(MaxPool, [x], **attributes) == ["max_pool"]
    assert there_and_back(AveragePool, [x], tolerance=1e-5, **attributes) == ["avg_pool"]


@pytest.mark.parametrize("attributes", POOLS)
def test_padding_that_counts_is_divided_by_what_windows_cover_where_they_hang_over(attributes):
    x = random(2, 3, 6, 7)
    words = there_and_back(AveragePool, [x], tolerance=1e-5, count_include_pad=1, **attributes)
    assert words == (["box", "div"] if attributes.get("ceil_mode") else ["avg_pool"])


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("attributes", POOLS)
def test_exporting_places_keeps_their_meaning(attributes, storage_order):
    x = random(2, 3, 6, 7)
    words = there_and_back(MaxPool, [x], outputs=2, storage_order=storage_order, **attributes)
    assert words is not None
    assert words[0] == "max_pool_with_index"


@pytest.mark.parametrize(
    ("dims", "attributes"),
    [
        ((1, 2, 9), {"kernel_shape": (3,), "strides": (2,), "pads": (1, 2), "dilations": (2,)}),
        ((2, 1, 5, 4, 6), {"kernel_shape": (2, 3, 2), "strides": (1, 1, 2), "pads": (0, 1, 1, 1, 1, 0)}),
        ((1, 1, 3, 5), {"kernel_shape": (1, 1)}),
    ],
)
def test_places_of_any_rank_are_written(dims, attributes):
    for x in (random(*dims), np.zeros(dims, np.float32)):
        words = there_and_back(MaxPool, [x], outputs=2, **attributes)
        assert words is not None
        assert words[0] == "max_pool_with_index"


def test_a_place_that_is_the_position_in_the_one_window_is_written_alone():
    x = random(1, 1, 3, 4)
    assert there_and_back(MaxPool, [x], outputs=2, kernel_shape=(3, 4)) == ["max_pool_with_index"]


def test_places_are_not_written_where_they_are_not_exact():
    huge = np.zeros((2, 1, (1 << 23) + 8), np.float32)
    assert there_and_back(MaxPool, [huge], outputs=2, kernel_shape=(1 << 22,), strides=(1 << 22,)) is None
    assert there_and_back(MaxPool, [random(1, 1, 4)], outputs=2, symbolic=True, kernel_shape=(2,)) is None


def test_global_pools_are_reductions():
    assert there_and_back(GlobalAveragePool, [random(2, 3, 4, 5)], tolerance=1e-5) == ["mean_reduce"]
    assert there_and_back(GlobalMaxPool, [random(2, 3, 4, 5)]) == ["max_reduce"]


def test_places_are_not_written_down_by_the_million():
    huge = 1 << 40
    with pytest.raises(UnsupportedError, match="windows"):
        lowered_nodes("nnef", "sample", [(1, 1, huge), (1, 1, huge)], **WINDOW)
    with pytest.raises(UnsupportedError, match="windows"):
        lowered_nodes("nnef", "argmax_pool", [(1, 1, huge)], **WINDOW)
    size = merged(WINDOW, {"size": (1, 1, huge), "output_shape": (), "normalize": False})
    with pytest.raises(UnsupportedError, match="elements"):
        lowered_nodes("nnef", "debox", [(1, 1, 4)], **size)
