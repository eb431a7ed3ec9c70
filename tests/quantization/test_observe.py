"""Statistics of streams and of shards equal those of all samples at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphport.quantization.extremes import NUM_KEPT, Extremes
from graphport.quantization.observe import BINS, Histogram, Statistics

arrays = st.lists(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20).map(lambda x: np.asarray(x, np.float32)),
    min_size=1, max_size=6,
)  # fmt: skip


def _state(batches, axis=None):
    state = Statistics(axis)
    for batch in batches:
        state.add(batch, samples=len(batch))
    return state


def _batches(seed=0, counts=(3, 1, 5, 2)):
    r = np.random.default_rng(seed)
    return [(r.normal(size=(n, 4, 3)) * 10 ** r.uniform(-2, 2)).astype(np.float32) for n in counts]


@given(arrays)
def test_a_histogram_counts_every_number(found):
    histogram = Histogram()
    for x in found:
        histogram.add(x)
    assert histogram.counts.sum() == sum(x.size for x in found)


@example([np.zeros(1, np.float32), np.float32([8192]), np.float32([-1e-30])], 2)  # the bin width, and values close to 0
@given(arrays, st.integers(0, 6))
def test_merged_histograms_equal_the_total_histogram(found, cut):
    first, second, both = Histogram(), Histogram(), Histogram()
    for index, x in enumerate(found):
        (first if index < cut else second).add(x)
        both.add(x)
    merged = first.merge(second)
    assert merged.exponent == both.exponent
    assert np.array_equal(merged.counts, both.counts)
    assert np.array_equal(second.merge(first).counts, both.counts)


@given(arrays)
def test_histogram_bins_match_numpy(found):
    x = np.concatenate(found)
    histogram = Histogram()
    histogram.add(x)
    # Close to an edge, float32 may select the neighbouring bin.
    expected, _ = np.histogram(x.astype(np.float64), bins=np.arange(-BINS, BINS + 1) * histogram.width)
    assert np.abs(np.cumsum(expected) - np.cumsum(histogram.counts)).max() <= np.sum(
        np.abs(x / histogram.width - np.rint(x / histogram.width)) < 2e-3
    )


def test_statistics_know_ends_of_channels_and_squares():
    batches = _batches()
    whole = np.concatenate(batches)
    state = _state(batches, axis=1)
    assert np.array_equal(state.lows, whole.min(axis=(0, 2)))
    assert np.array_equal(state.highs, whole.max(axis=(0, 2)))
    assert (state.minimum, state.maximum) == (whole.min(), whole.max())
    assert state.squares == pytest.approx(np.sum(whole.astype(np.float64) ** 2), rel=1e-5)
    assert (state.samples, state.elements) == (11, whole.size)


@pytest.mark.parametrize("count", [1, NUM_KEPT - 1, NUM_KEPT, 2 * NUM_KEPT + 7, 200_000])
@pytest.mark.parametrize("pieces", [1, 3])
def test_extremes_are_the_sorted_ends_of_the_data(count, pieces):
    x = np.round(np.random.default_rng(count).normal(size=count), 3).astype(np.float32)
    extremes = Extremes()
    for part in np.array_split(x, pieces):
        one = Extremes()
        one.add(part)
        extremes = extremes.merge(one)
    assert np.array_equal(extremes.least, np.sort(x)[:NUM_KEPT])
    assert np.array_equal(extremes.largest, np.sort(x)[-NUM_KEPT:])


def test_quantile_outside_the_kept_extremes_is_none():
    extremes = Extremes()
    extremes.add(np.arange(4 * NUM_KEPT, dtype=np.float32))
    assert extremes.at(2.0 * NUM_KEPT, 4 * NUM_KEPT) is None
    assert extremes.at(1.25, 4 * NUM_KEPT) == 1.25
    assert extremes.at(4 * NUM_KEPT - 2.5, 4 * NUM_KEPT) == 4 * NUM_KEPT - 2.5


@pytest.mark.parametrize(
    "count", [1, 2, NUM_KEPT, NUM_KEPT + 1, 2 * NUM_KEPT - 1, 2 * NUM_KEPT, 2 * NUM_KEPT + 1, 3 * NUM_KEPT]
)
def test_quantiles_are_exact_within_the_kept_extremes(count):
    """The element n is at index n, so that indices equal values; interpolation needs both neighbours."""
    extremes = Extremes()
    extremes.add(np.arange(count, dtype=np.float32))
    last, first = min(NUM_KEPT, count) - 1, max(count - NUM_KEPT, 0)
    for end in (0, last, first, count - 1):
        for place in (end - 1, end - 0.5, end, end + 0.5, end + 1):
            if 0 <= place <= count - 1:
                is_kept = np.ceil(place) <= last or np.floor(place) >= first
                assert extremes.at(place, count) == (place if is_kept else None), place


def test_moving_averages_do_not_depend_on_batches():
    whole = np.concatenate(_batches())
    one = _state([whole])
    many = _state([whole[i : i + 1] for i in range(len(whole))])
    assert one.moving == pytest.approx(many.moving)


def test_a_moving_average_of_one_sample_is_that_sample():
    assert _state([np.asarray([[-2.0, 3.0]], np.float32)]).moving == pytest.approx((-2.0, 3.0))


@pytest.mark.parametrize("cut", range(5))
def test_merged_statistics_equal_total_statistics(cut):
    batches = _batches()
    merged = _state(batches[:cut], 1).merge(_state(batches[cut:], 1))
    whole = _state(batches, 1)
    assert np.array_equal(merged.lows, whole.lows)
    assert np.array_equal(merged.highs, whole.highs)
    assert np.array_equal(merged.histogram.counts, whole.histogram.counts)
    assert np.array_equal(merged.extremes.least, whole.extremes.least)
    assert np.array_equal(merged.extremes.largest, whole.extremes.largest)
    assert merged.moving == pytest.approx(whole.moving)
    assert merged.squares == pytest.approx(whole.squares)
    assert (merged.samples, merged.elements) == (whole.samples, whole.elements)


def test_memory_does_not_grow_with_samples():
    state = Statistics(1)
    sizes = []
    for batch in _batches(counts=(2,) * 50):
        state.add(batch, samples=2)
        sizes.append(state.histogram.counts.nbytes + state.lows.nbytes + state.highs.nbytes)
    assert len(set(sizes)) == 1
    assert state.extremes.least.size <= NUM_KEPT


def test_empty_batch_keeps_the_statistics():
    state = Statistics()
    state.add(np.zeros((0, 3), np.float32), samples=0)
    assert (state.samples, state.minimum, state.maximum) == (0, 0.0, 0.0)
