"""Metrics between tensors and the pairing of outputs."""

import json
import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphport.comparison import compare_outputs, difference, metrics
from graphport.comparison.metrics import Comparison, pair

A = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)


def test_equal_tensors_have_zero_difference():
    found = difference("y", A, A.copy())
    assert found.passed
    assert (found.max_abs, found.mean_abs, found.snr_db, found.first) == (0.0, 0.0, math.inf, None)
    assert found.cosine == pytest.approx(1.0)


def test_metrics_are_the_formulas():
    b = A + np.array([[0.0, 0.5], [0.0, 0.0]], np.float32)
    found = difference("y", A, b)
    assert not found.passed
    assert found.max_abs == 0.5
    assert found.mean_abs == 0.125
    assert found.snr_db == pytest.approx(10 * math.log10(30 / 0.25))
    assert found.cosine == pytest.approx(float((A * b).sum() / np.linalg.norm(A) / np.linalg.norm(b)))
    assert found.first == (0, 1)


@pytest.mark.parametrize(
    ("gap", "passed"),
    [pytest.param(4.0e-4, True, id="within 1e-4 of the largest"), pytest.param(4.1e-4, False, id="beyond")],
)
def test_tolerance_is_relative_to_the_largest(gap, passed):
    a = np.array([4.0, 0.0])
    assert difference("y", a, a + np.array([0, gap])).passed is passed


@given(
    st.lists(st.tuples(st.floats(-100, 100), st.floats(-100, 100)), min_size=1, max_size=5),
    st.sampled_from([1e-4, 0.1, 0.5, 1.0]),
)
@example([(1.0, 1.9)], 0.5)
@example([(1.9, 1.0)], 0.5)
def test_tolerance_is_relative_to_the_largest_element_of_the_first(pairs, relative):
    """Of the first, not of the second and not of both: the first is what is right."""
    a, b = np.array(pairs).T
    bound = relative * max(abs(x) for x, _ in pairs) + 1e-6
    wrong = [index for index, (x, y) in enumerate(pairs) if abs(x - y) > bound]
    found = difference("y", a, b, relative=relative)
    assert found.passed is (not wrong)
    assert found.first == ((wrong[0],) if wrong else None)
    assert found.max_abs == max(abs(x - y) for x, y in pairs)


@pytest.mark.parametrize(
    ("b", "words"),
    [
        pytest.param(A.astype(np.float64), "float64", id="type"),
        pytest.param(A[0], "shape", id="shape"),
        pytest.param(np.where(A > 3, np.nan, A).astype(np.float32), "NaN", id="NaN where a number is"),
        pytest.param(None, "only one", id="absent"),
    ],
)
def test_reasons(b, words):
    found = difference("y", A, b)
    assert not found.passed
    assert words in found.reason


def test_nan_and_infinity_at_equal_indices_are_equal():
    a = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert difference("y", a, a.copy()).passed
    assert not difference("y", a, np.array([np.nan, -np.inf, -np.inf, 1.0])).passed


def test_integers_and_text_must_be_equal():
    assert not difference("y", np.array([10**9]), np.array([10**9 + 1])).passed
    words = np.array(["a", "b"], object)
    assert difference("y", words, words.copy()).passed
    assert difference("y", words, np.array(["a", "c"], object)).first == (1,)


def test_narrow_dtypes_are_compared_by_value():
    a = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert difference("y", a, a.copy()).passed
    assert difference("y", a, np.array([1.0, 3.0], ml_dtypes.bfloat16)).max_abs == 1.0


def test_sequences_are_compared_element_by_element():
    assert difference("s", [A, A], [A, A.copy()]).passed
    assert "s.1" in difference("s", [A, A], [A, A + 1]).reason
    assert not difference("s", [A], [A, A]).passed


def test_empty_tensors_are_equal():
    found = difference("y", np.zeros((0, 3)), np.zeros((0, 3)))
    assert found.passed
    assert (found.max_abs, found.mean_abs, found.snr_db, found.first) == (0.0, 0.0, math.inf, None)
    assert compare_outputs({}, {}).max_abs == 0.0
    assert compare_outputs({}, {}).snr_db == math.inf


KINDS = {
    "type": (A, A.astype(np.float64)),
    "shape": (A, A[0]),
    "absent": (A, None),
    "both absent": (None, None),
    "numbers": (A, A + 1),
    "equal numbers": (A, A.copy()),
    "text": (np.array(["a"], object), np.array(["b"], object)),
    "equal text": (np.array(["a"], object), np.array(["a"], object)),
    "sequences": ([A], [A + 1]),
    "equal sequences": ([A], [A.copy()]),
    "sequences of two lengths": ([A], [A, A]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_difference_reports_both_names_and_passes_symmetrically(kind):
    a, b = KINDS[kind]
    found = difference("y", a, b, other="z")
    assert (found.name, found.other) == ("y", "z")
    assert found.passed is ("equal" in kind or kind == "both absent")
    assert difference("y", b, a).passed is found.passed
    assert (found.first is not None) == (kind in ("numbers", "text"))


def test_difference_json_contains_the_metrics():
    found = difference("y", A, A + 0.5)
    told = found.as_json()
    assert told["snr_db"] == found.snr_db
    assert (told["max_abs"], told["mean_abs"], told["first"], told["passed"]) == (0.5, 0.5, [0, 0], False)
    assert difference("y", A, A.copy()).as_json()["first"] is None


def test_sequences_report_their_largest_difference():
    assert difference("s", [A, A], [A + 1e-5, A]).max_abs == pytest.approx(1e-5, rel=0.1)
    assert difference("s", [], []).max_abs == 0.0
    assert difference("s", [A, A], [A + 1, A + 2]).max_abs == 1.0


def test_cosine_distinguishes_opposite_directions():
    assert difference("y", A, -A).cosine == pytest.approx(-1.0)
    assert difference("y", A * 1j, A * -1j).cosine == pytest.approx(-1.0)
    assert difference("y", np.zeros(3), np.ones(3)).cosine == 1.0
    assert difference("y", np.array([1.0, 0.0]), np.array([0.0, 1.0])).cosine == pytest.approx(0.0)


def test_a_silent_signal_has_no_ratio():
    found = difference("y", np.zeros(3), np.ones(3))
    assert found.snr_db == -math.inf
    assert found.as_json()["snr_db"] is None


@pytest.mark.parametrize("size", [1e300, 1.0, 1e-250])
def test_the_ratio_does_not_depend_on_how_large_numbers_are(size):
    x = np.array([3.0, 4.0])
    assert difference("y", x * size, x * 1.01 * size).snr_db == pytest.approx(40.0)


def test_outputs_are_paired_by_name_then_origin_then_index():
    pairs, notes = pair(["a", "b", "c"], ["x", "b", "_a"], {"_a": "a"})
    assert pairs == [("a", "_a"), ("b", "b"), ("c", "x")]
    assert notes == ["c is paired with x by position"]


def test_an_output_without_partner_fails():
    found = compare_outputs({"a": A, "b": A}, {"a": A})
    assert not found.passed
    assert [item.passed for item in found.outputs] == [True, False]
    assert found.max_abs is None


@given(hnp.arrays(np.float64, hnp.array_shapes(), elements=st.floats(-1e6, 1e6)), st.floats(1e-9, 1e3))
@example(np.array([5e-79]), 2.0**-9)
def test_a_copy_scaled_by_a_positive_number_points_the_same_way(a, scale):
    found = difference("y", a, a * scale)
    if np.linalg.norm(a) > 1e-100 and np.linalg.norm(a * scale) > 1e-100:
        assert found.cosine == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("noise", "least", "passed"),
    [
        pytest.param(1e-2, 30.0, True, id="less noise than is allowed"),
        pytest.param(1e-1, 30.0, False, id="more noise"),
        pytest.param(0.0, 30.0, True, id="none"),
    ],
)
def test_outputs_of_rounded_weights_pass_from_some_decibels_on(noise, least, passed):
    a = np.ones(4, np.float32)
    found = compare_outputs({"y": a}, {"y": a + np.float32(noise)}).within(least)
    assert found.passed is passed
    assert found.notes == ("tolerance for quantized weights: SNR >= 30 dB",)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(np.array([1000, 1001]), id="integers"),
        pytest.param(np.array([1000.0, np.nan]), id="NaN"),
        pytest.param(np.array([[1000.0, 1000.0]]), id="a shape"),
    ],
)
def test_dtype_and_integer_differences_never_pass(other):
    a = np.array([1000, 1000], other.dtype)
    assert not compare_outputs({"y": a}, {"y": other}).within(0).passed


def test_equal_strings_have_zero_difference():
    found = difference("y", np.array(["a", "bc"], object), np.array(["a", "bc"], object))
    assert found.passed
    assert (found.max_abs, found.mean_abs, found.snr_db, found.cosine) == (0.0, 0.0, math.inf, 1.0)


def test_an_output_without_numbers_leaves_the_whole_without_them():
    numbers, texts = difference("y", A, A + 1), difference("t", np.array(["a"], object), np.array(["b"], object))
    both, alone = Comparison((numbers, texts), ()), Comparison((numbers, difference("z", A, A)), ())
    assert (both.max_abs, both.snr_db) == (None, None)
    assert (alone.max_abs, alone.snr_db) == (1.0, numbers.snr_db)


def test_the_verdict_names_the_first_value_that_differs():
    same, other = difference("h", A, A), difference("k", A, A + 1)
    assert Comparison((same,), ()).caption == "equal within tolerance"
    assert Comparison((other,), (same, other)).caption == "the outputs differ; the first value that differs is k"


def test_integers_that_differ_are_distinguished_from_noise_and_from_other_faults():
    assert difference("y", np.array([1, 2]), np.array([1, 3])).is_of_integers
    assert difference("y", np.array([True]), np.array([False])).is_of_integers
    for a, b in ((A, A + 1), (A, np.full_like(A, np.nan)), (A, A[0]), (np.array([1]), np.array([1]))):
        assert not difference("y", a, b).is_of_integers


def test_rows_are_values_if_compared_and_outputs_otherwise():
    output, value = difference("y", A, A + 1, other="z"), difference("h", A, A[0])
    (row,) = Comparison((output,)).to_rows()
    assert row == {
        "value": "y",
        "other": "z",
        "equal": False,
        "max_abs": 1.0,
        "mean_abs": 1.0,
        "snr_db": output.snr_db,
        "cosine": output.cosine,
        "reason": None,
    }
    (row,) = Comparison((output,), (value,)).to_rows()
    assert (row["value"], row["other"], row["max_abs"], row["reason"]) == ("h", "h", None, value.reason)


def test_difference_json_omits_infinities_and_missing_metric():
    assert "metric" not in difference("y", A, A).as_json()
    for metric, told in ((0.0, 0.0), (-2.5, -2.5), (math.inf, None), (math.nan, None)):
        assert replace(difference("y", A, A), metric=metric).as_json()["metric"] == told
    told = difference("y", A, A).as_json()
    assert (told["name"], told["other"], told["snr_db"], told["reason"]) == ("y", "y", None, None)
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_an_output_without_partner_is_reported_by_its_name():
    lost = compare_outputs({"a": A, "b": A}, {"a": A}).outputs[1]
    assert (lost.name, lost.other, lost.passed) == ("b", "", False)
    assert "does not have this output" in (lost.reason or "")


def test_outputs_are_measured_in_the_order_of_both_models():
    seen = []

    def measured(name, a, b, *, other):
        seen.append((name, other, float(a), float(b)))
        return difference(name, a, b, other=other)

    found = compare_outputs({"p": 1.0, "q": 2.0}, {"r": 4.0, "q": 3.0}, {"r": "p"}, measured)
    assert seen == [("p", "r", 1.0, 4.0), ("q", "q", 2.0, 3.0)]
    assert found.notes == ()
    assert compare_outputs({"p": 1.0}, {"r": 4.0}).notes == ("p is paired with r by position",)


def test_original_names_pair_only_outputs():
    assert pair(["a"], ["x"], {"gone": "a"}) == ([("a", "x")], ["a is paired with x by position"])
    assert pair(["a", "b"], ["b"], {"b": "a"})[0] == [("a", "b"), ("b", "b")]
    assert pair(["a", "b", "c"], ["z", "y"], {}) == (
        [("a", "z"), ("b", "y"), ("c", None)],
        ["a is paired with z by position", "b is paired with y by position"],
    )


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_blockwise_comparison_equals_whole_comparison(block, monkeypatch):
    random = np.random.default_rng(2)
    cases = [(random.normal(size=(3, 2)), random.normal(size=(3, 2))) for _ in range(4)]
    cases += [(random.integers(3, size=5), random.integers(3, size=5)) for _ in range(4)]
    cases += [(np.array([1.0, np.nan, 3.0, np.inf]), np.array([1.0, np.nan, 4.0, last])) for last in (np.inf, 1.0)]
    whole = [difference("y", a, b) for a, b in cases]
    monkeypatch.setattr(metrics, "_BLOCK", block)
    for (a, b), expected in zip(cases, whole, strict=True):
        found = difference("y", a, b)
        assert (found.passed, found.reason, found.first) == (expected.passed, expected.reason, expected.first)
        assert found.max_abs == expected.max_abs
        for name in ("mean_abs", "snr_db", "cosine"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name))


def test_first_differing_element_is_reported_by_index():
    a = np.arange(24).reshape(2, 3, 4)
    for place in np.ndindex(a.shape):
        for kind in (np.int64, np.float32, object):
            changed = np.where(np.arange(24).reshape(a.shape) >= a[place], -1, a)
            assert difference("y", a.astype(kind), changed.astype(kind)).first == place


def test_different_infinities_and_nan_positions_differ():
    def unlike(a, b):
        return difference("y", np.array(a), np.array(b)).reason == "NaN or infinity at different indices"

    inf, nan = math.inf, math.nan
    for a, b in (([inf], [-inf]), ([inf], [nan]), ([nan, 1.0], [1.0, nan]), ([1.0], [inf]), ([nan], [0.0])):
        assert unlike(a, b)
        assert unlike(b, a)
    for a in ([inf, -inf], [nan, 1.0], [complex(nan, 1)]):
        assert not unlike(a, a)
    found = difference("y", np.array([inf, 3.0, 1.0]), np.array([inf, 3.0, 2.0]))
    assert (found.max_abs, found.mean_abs, found.reason, found.first) == (1.0, pytest.approx(1 / 3), None, (2,))


def test_a_sequence_is_reported_by_its_first_wrong_element_and_compared_within_the_same_tolerance():
    near = [A, A + np.float32(0.3)]
    assert not difference("s", [A, A], near).passed
    assert difference("s", [A, A], near, relative=0.1).passed
    assert difference("s", [A, A], near, absolute=0.5).passed
    found = difference("s", [A, A, A], [A, A + 1, A + 2])
    assert (found.reason, found.max_abs, found.passed) == ("s.1 differs", 1.0, False)
    assert difference("s", [A], [A[0]]).reason == "s.0 shapes differ: [2, 2] and [2]"
    assert difference("s", [A], A).reason == difference("s", A, [A]).reason == "sequences of different lengths"


def test_within_accepts_only_noise_above_an_snr():
    a = np.ones(4)
    noisy, lost = difference("y", a, a + 0.1), difference("z", a, a[:2])
    found = Comparison((noisy, lost), (noisy,), ("first",)).within(noisy.snr_db or 0, "why")
    assert [each.passed for each in found.outputs] == [True, False]
    assert (found.values, found.notes) == ((noisy,), ("first", f"tolerance for why: SNR >= {noisy.snr_db:g} dB"))
    assert not Comparison((noisy,)).within((noisy.snr_db or 0) + 1e-6).passed


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_directions_do_not_depend_on_how_large_either_is(size):
    x, y = np.array([3.0, 4.0, 0.0]), np.array([4.0, 3.0, 0.0])
    for a, b in ((x * size, y), (x, y * size)):
        assert difference("y", a, b).cosine == pytest.approx(24 / 25)
        assert difference("y", a, -b).cosine == pytest.approx(-24 / 25)


def test_cosine_is_between_minus_1_and_1():
    """Also where rounding would have it so."""
    random = np.random.default_rng(9)
    for _ in range(200):
        a = random.normal(size=int(random.integers(1, 9)))
        scale = random.uniform(0.1, 10)
        assert 1 - 1e-12 < difference("y", a, a * scale).cosine <= 1.0
        assert -1.0 <= difference("y", a, a * -scale).cosine < -1 + 1e-12
