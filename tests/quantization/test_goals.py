"""Which point of a front is taken, and which points are on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError
from graphport.quantization import result_diagnostics as verdict
from graphport.quantization.goals import FrontPoint, Goals, front, knee, latency_goal, numbered_as, timed_until_sure
from tests.quantization.fronts import FRONTS


def _point(number, snr, latency, size=100, margin=0.0, metric=None):
    return FrontPoint(number, snr, None, margin, None, latency, latency * 4, size, {}, metric)


POINTS = [_point(1, 20, 0.4, 90), _point(2, 30, 0.45, 100), _point(3, 32, 0.7, 150), _point(4, 40, 1.1, 200)]


@pytest.mark.parametrize(("goals", "expected"), [
    (Goals(snr=31), 3),
    (Goals(latency=0.5), 2),
    (Goals(latency=2.9, is_absolute=True), 3),
    (Goals(snr=25, latency=0.8), 3),
    (Goals(bytes=100), 2),
    (Goals(bytes=200), 3),
    (Goals(bytes=200, latency=1.2), 4),
    (Goals(bytes=200, is_small=True), 4),
    (Goals(snr=35, bytes=200), 4),
    (Goals(), 2),
    (Goals(snr=39, latency=0.69), 3),
])  # fmt: skip
def test_best_point_within_the_goals_is_selected(goals, expected):
    assert goals.select_point(POINTS).point == expected


def test_snr_goal_uses_the_lower_confidence_bound():
    points = [_point(1, 30.2, 0.4, margin=0.5), _point(2, 30.6, 0.5, margin=0.5), _point(3, 30.8, 0.6, margin=2)]
    assert Goals(snr=30).select_point(points).point == 2
    assert Goals(snr=30).missed(points[1]) == 0
    assert Goals(snr=30.5).select_point(points).point == 2
    assert Goals(snr=30.5).missed(points[1]) > 0


@pytest.mark.parametrize(("goals", "expected"), [
    (Goals(snr=60, latency=0.9), 3),
    (Goals(snr=60, latency=4.5, is_absolute=True), 3),
    (Goals(snr=39, latency=1.2), 4),
    (Goals(snr=60), 4),
    (Goals(bytes=80, latency=1.0), 1),
])  # fmt: skip
def test_missed_latency_goal_selects_no_point_slower_than_the_source(goals, expected):
    """However near it is; what meets the goals may be slower, as may what was asked for without a time."""
    assert goals.select_point(POINTS).point == expected


@pytest.mark.parametrize("goals", [Goals(latency=0.5), Goals(snr=60, latency=0.5), Goals(latency=1e-3, is_absolute=True), Goals()])  # fmt: skip
def test_fastest_point_is_selected_if_all_are_slower(goals):
    slow = [_point(1, 20, 1.3), _point(2, 30, 1.2), _point(3, 70, 1.25)]
    assert goals.select_point(slow).point == 2


def test_the_knee_is_not_slower_than_the_source():
    points = [_point(1, 20, 0.99), _point(2, 60, 1.01), _point(3, 61, 1.4)]
    assert knee(points).point == 1
    assert Goals().select_point(points).point == 1


def test_requested_point_is_on_the_front():
    many = [_point(n, 20 + n * n / 10, 0.4 + n / 50) for n in range(30)]
    for wanted in many:
        kept = front(many, wanted=wanted)
        assert len(kept) == 9
        assert wanted in kept


def test_user_metric_selects_the_point():
    points = [_point(1, 20, 0.4, metric=0.7), _point(2, 30, 0.5, metric=0.8)]
    assert Goals(metric=0.75).select_point(points).point == 2
    assert Goals(metric=0.9).missed(points[1]) > 0


def test_points_that_another_is_over_are_not_on_the_front():
    worse = _point(9, 29, 0.5, 120)
    assert front([*POINTS, worse]) == POINTS
    many = [_point(n, 20 + n * n / 10, 0.4 + n / 50) for n in range(30)]
    kept = front(many)
    assert len(kept) == 9
    assert kept[0] is many[0]
    assert kept[-1] is many[-1]


def test_a_number_is_that_of_the_same_point_though_times_differ():
    points = [_point(1, 30, 0.4), _point(2, 40, 0.6), _point(3, 50, 0.61, 200)]
    other = [*points[:2], replace(points[2], latency=0.59)]
    assert [each.point for each in front(points)] == [each.point for each in front(other)] == [1, 2, 3]


def test_without_times_the_knee_is_that_of_noise_and_bytes():
    points = [_point(1, 40, 0.4, 100), _point(2, 58, 0.4, 110), _point(3, 60, 0.4, 200)]
    untimed = [replace(each, latency=None, latency_ms=None) for each in points]
    assert knee(untimed).point == Goals().select_point(untimed).point == 2
    assert knee([untimed[0], untimed[2]]).point == 1


def test_faster_point_is_suggested_only_if_it_exists():
    points = [_point(1, 30, 1.2), _point(2, 40, 1.3)]
    (slow,), (slower,) = (verdict.slower(point, points, "onnxruntime") for point in points)
    assert "--point" not in (slow.help or "")
    assert "--point" in (slower.help or "")
    assert not verdict.slower(_point(3, 50, 1.01), points, "onnxruntime")


def test_size_gain_of_1_percent_does_not_keep_a_worse_point():
    points = [_point(1, 40, 0.5, 1000), _point(2, 39, 0.6, 990), _point(3, 38, 0.7, 900)]
    assert [each.point for each in front(points)] == [3, 1]


def test_equal_points_are_merged():
    point = replace(_point(1, 40, 0.4), latency=None, latency_ms=None)
    twin = replace(point, point=2)
    assert front([point, twin]) == [point]
    assert front([point, twin], wanted=twin)[0] is twin
    timed = [replace(point, latency=0.5), replace(point, latency=0.49)]
    assert front(timed, wanted=timed[0]) == timed[:1]


def test_the_fastest_point_is_on_the_front():
    many = [_point(n, 20 + n * n / 10, 0.4 + abs(n - 3) / 50, 1000 + 40 * n) for n in range(30)]
    many[3] = replace(many[3], bytes=5000)
    assert many[3] in front(many)


def test_knee_is_at_diminishing_returns():
    assert knee(POINTS).point == 2
    assert knee([_point(1, 20, 0.4)]).point == 1


def test_the_knee_is_not_hardly_quantized_and_has_no_edge():
    """However near a point is that saves little; where less than a third is saved costs rise, but do not jump."""
    points = [_point(1, 15, 0.6), _point(2, 21, 0.61), _point(3, 28, 0.8), _point(4, 60, 0.97)]
    assert knee(points).point == 3
    assert knee([*points[:2], points[3]]).point == 2
    for time in (0.79, 0.81, 0.86, 0.87, 0.88):
        assert knee([*points[:2], _point(3, 28, time), points[3]]).point == 3


@pytest.mark.parametrize(("points", "expected"), [
    ([(30, 0.5), (34, 0.55), (38, 0.6), (40, 0.68)], 38),
    ([(30, 0.5), (34, 0.62)], 30),
    ([(33.6, 0.41), (33.9, 0.43)], 33.6),
    ([(33.6, 0.41), (33.9, 0.41)], 33.9),
])  # fmt: skip
def test_knee_prefers_accuracy_at_similar_cost(points, expected):
    """The first costs are 0.690, 0.670, 0.676 and 0.740; a difference of less than a dB is none."""
    assert knee([_point(n, *each) for n, each in enumerate(points)]).snr_db == expected


@given(st.integers(0, 1 << 32))
def test_the_knee_is_moved_by_no_other_points_and_little_by_time(seed):
    """Leaving others away than the cheapest and the nearest as cheap keeps it; so much dearer it gets by times a little off."""
    random = np.random.default_rng(seed)
    near, fast = np.sort(random.uniform(10, 60, 8)), np.sort(random.uniform(0.3, 0.64, 8))
    points = [_point(n, snr, time) for n, (snr, time) in enumerate(zip(near, fast, strict=True))]

    def cost(of):
        return of.latency + 6 * 10 ** (-of.snr_db / 20)

    found, cheapest = knee(points), min(points, key=cost)
    nearest = max((each for each in points if cost(each) <= 1.06 * cost(cheapest)), key=lambda x: x.snr_db)
    assert knee([x for x in points if x in (found, cheapest, nearest) or random.random() < 0.5]) is found
    noisy = [replace(each, latency=each.latency * random.uniform(0.98, 1.02)) for each in points]
    assert cost(points[knee(noisy).point]) <= 1.06 * 1.04 * cost(cheapest)


@given(st.integers(0, 1 << 32))
def test_knee_is_pareto_optimal(seed):
    random = np.random.default_rng(seed)
    points = [_point(n, *each) for n, each in enumerate(random.uniform((5, 0.2), (70, 1.3), (9, 2)))]
    points += [replace(each, snr_db=each.snr_db + 0.3, latency=each.latency - 0.01) for each in points[:4]]
    found = knee(points)
    assert not any(
        each.snr_db >= found.snr_db and each.latency <= found.latency for each in points if each is not found
    )
    assert found in front(points, most=len(points))


@pytest.mark.parametrize("name", list(FRONTS))
def test_knee_is_robust_to_timing_noise(name):
    """95 of 100 times about the same point is taken, though each time that is measured is off by up to 5 %."""
    random = np.random.default_rng(7)
    known = FRONTS[name]

    def timed(place):
        return known[place][1] * random.uniform(0.95, 1.05)

    def drawn():
        points = [_point(n, near, timed(n)) for n, (near, _) in enumerate(known)]
        again = timed_until_sure(points, timed)
        return knee([replace(each, latency=again.get(n, each.latency)) for n, each in enumerate(points)]).point

    taken = Counter(drawn() for _ in range(100))
    near, fast = known[taken.most_common(1)[0][0]]
    alike = [n for n in taken if abs(known[n][0] - near) <= 1 and abs(known[n][1] / fast - 1) <= 0.1]
    assert sum(taken[n] for n in alike) >= 95


def test_points_that_cannot_be_the_knee_are_not_timed_again():
    points = [_point(1, 30, 0.4), _point(2, 31, 0.7), _point(3, 50, 0.95)]
    assert not timed_until_sure(points, lambda place: 1 / 0)
    close = [_point(1, 30, 0.4), _point(2, 33, 0.485)]
    assert {*timed_until_sure(close, lambda place: close[place].latency)} == {0, 1}


def test_there_is_no_other_point():
    with pytest.raises(DiagnosticError, match=r"QUANT0025.*unknown point 7"):
        numbered_as(POINTS, 7)


@pytest.mark.parametrize(("said", "expected"), [
    (0.5, (0.5, False)), ("0.5x", (0.5, False)), ("3ms", (3.0, True)), (" 2.5 ms", (2.5, True)), (None, (None, False)),
])  # fmt: skip
def test_latencies_are_parts_or_milliseconds(said, expected):
    assert latency_goal(said) == expected


@pytest.mark.parametrize("said", ["fast", "-1x", 0, -2.0, "3s", True])
def test_invalid_latency_goal_is_rejected(said):
    with pytest.raises(DiagnosticError, match=r"QUANT0004.*max_latency"):
        latency_goal(said)
