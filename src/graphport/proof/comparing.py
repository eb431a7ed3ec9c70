"""Outputs of two runners compared: what differs, and what differs only by rounding, ties or chance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.comparison.metrics import Comparison, Difference, Reason, difference
from graphport.comparison.precision import quantized_snr
from graphport.proof import quantization_ties, rounding, ties
from graphport.proof.alignment import Evidence, Manner, aligned
from graphport.proof.compute import compute_outputs
from graphport.proof.coverage.record import Coverage
from graphport.proof.coverage.undefined import is_unbounded, undefined_result
from graphport.proof.document import OutputProof
from graphport.proof.process import UnansweredError
from graphport.proof.slices import concat_parts, worst_slice
from graphport.proof.test_inputs import KINDS, make_test_input

if TYPE_CHECKING:
    from graphport.proof.case import Case, Tolerance
    from graphport.proof.runners import Runner
    from graphport.proof.test_inputs import TestInput

_QUANTIZED_DTYPES = frozenset(map(np.dtype, ("int8", "uint8", "int16")))
_MORE_INPUTS, _SEED = 4, 1000
"""Further test inputs on which two sides may agree tightly, and the seed of the first."""


def differences(
    case: Case,
    pair: tuple[Runner, Runner],
    test_input: TestInput,
    outputs: tuple[list[Any], list[Any]],
    *,
    by_slice: bool = True,
) -> list[Difference]:
    """Return the differences of two runners' outputs; with `by_slice` also relative to each slice's magnitude."""
    first, second = pair
    manner = Manner.common(first, second, is_edge=test_input.kind == "edges")
    names = [value.name for value in case.a.graph.outputs]
    others = [value.name for value in second.side.graph.outputs]
    if len(outputs[0]) != len(outputs[1]):
        reason = f"is {len(outputs[1])} for {second.sentence}, and {len(outputs[0])} for {first.sentence}"
        return [Difference("the number of outputs", "", passed=False, reason=reason)]
    found: list[Difference] = []
    for position, (x, y) in enumerate(zip(*outputs, strict=True)):
        name = names[position] if position < len(names) else str(position)
        other = others[position] if position < len(others) else str(position)
        one, two = aligned(x, y, manner)
        if case.tolerance.of_steps and all(getattr(array, "dtype", None) in _QUANTIZED_DTYPES for array in (one, two)):
            one, two = one.astype(np.float32), two.astype(np.float32)
        each = difference(name, one, two, other=other, relative=case.tolerance.relative)
        if each.passed and test_input.kind != "edges":
            case.close.add((first, second, position))
        each = _within(each, case.tolerance)
        if by_slice and each.passed and test_input.kind != "edges":
            each = _within_slices(case, position, each, (one, two))
        found.append(each)
    return found


def _within_slices(case: Case, position: int, each: Difference, outputs: tuple[Any, Any]) -> Difference:
    """Compare an output that agrees as a tensor again, relative to the magnitude of each slice."""
    one, two = outputs
    if case.tolerance.of_steps or not all(isinstance(array, np.ndarray) for array in outputs):
        return each
    wrong = worst_slice(one, two, concat_parts(case.a.graph, position, np.shape(one)), case.tolerance.least_snr)
    if wrong is None:
        return each
    reason = f"differs by {wrong.max_abs:.3g} in {wrong.phrase}, whose largest magnitude is {wrong.magnitude:.3g}"
    return replace(each, passed=False, reason=reason, max_abs=wrong.max_abs)


def _within(each: Difference, tolerance: Tolerance) -> Difference:
    if tolerance.least_snr is None:
        return each
    return Comparison((each,)).within(tolerance.least_snr).outputs[0]


def compare(
    case: Case,
    pair: tuple[Runner, Runner],
    test_input: TestInput,
    outputs: tuple[list[Any], list[Any]],
    *,
    is_last: bool = False,
) -> list[Difference] | None:
    """Compare the outputs of the second side with those of the first.

    `None` if the comparison proves nothing: values of large magnitude overflow on one side (unless `is_last`), the
    model is
    random, or its result is undefined. Differences that ties or rounding explain have passed.
    """
    found = differences(case, pair, test_input, outputs)
    if len(found) != len(outputs[0]):
        return found
    found = ties.without(found, ties.of_integers(test_input, found), test_input, case.notes)
    if test_input.kind == "edges" and not _all_passed(found):
        tied = ties.fed_by_indices(case.a.graph)
        positions = [position for position, each in enumerate(found) if not each.passed]
        blurred = frozenset[int]() if is_last else _blurred(case, pair[0], test_input, outputs[0], found)
        if not is_last and all(found[at].reason is Reason.UNLIKE or at in tied or at in blurred for at in positions):
            return None
        found = ties.without(found, tied, test_input, case.notes)
    if not _all_passed(found):
        _look_for_agreement(case, pair, test_input, quantization_ties.open_ties(found))
        found = quantization_ties.without(found, case.a, test_input, case.notes, _close(case, pair))
    if not _all_passed(found) and _is_random(case, pair[0], test_input, outputs[0]):
        return None
    if not _all_passed(found) and is_undefined(case, pair, test_input, outputs):
        return None
    if not _all_passed(found) and depends_on_earlier_sizes(case, pair, test_input, outputs):
        return None
    return found


def keep_results(case: Case, test_input: TestInput, outputs: list[Any], found: list[Difference]) -> None:
    """Record the worst difference of each output, and the properties of side `a`'s outputs."""
    for position, output in enumerate(outputs):
        case.evidence.setdefault(position, Evidence()).see(output)
    for position, each in enumerate(found):
        before = case.worst.get(position)
        if before is None or _badness(each) > _badness(before.worst):
            case.worst[position] = OutputProof(position, each, test_input.label)


def _badness(each: Difference) -> tuple[bool, bool, float, float]:
    ratio = each.snr_db
    return (not each.passed, each.max_abs is None, each.max_abs or 0.0, 0.0 if ratio is None else -ratio)


def _all_passed(found: list[Difference]) -> bool:
    return all(each.passed for each in found)


def _close(case: Case, pair: tuple[Runner, Runner]) -> frozenset[int]:
    return frozenset(position for *both, position in case.close if tuple(both) == pair)


def _look_for_agreement(
    case: Case, pair: tuple[Runner, Runner], test_input: TestInput, open_ties: frozenset[int]
) -> None:
    """Compare up to `_MORE_INPUTS` small inputs, until each output in `open_ties` has agreed once."""
    if test_input.kind == "given" or quantized_snr(case.a.graph) is None:
        return
    sizes = case.test_inputs[0].sizes if case.test_inputs else test_input.sizes
    for seed in range(_MORE_INPUTS):
        if open_ties <= _close(case, pair):
            return
        more = make_test_input(case.a.graph, KINDS[0], sizes, _SEED + seed)
        outputs = compute_outputs(case, pair, more)
        if len(outputs) == len(pair):
            differences(case, pair, more, (outputs[pair[0]], outputs[pair[1]]))


def _blurred(
    case: Case, runner: Runner, test_input: TestInput, outputs: list[Any], found: list[Difference]
) -> frozenset[int]:
    """Return the outputs whose difference is at most the change of side `a` when its inputs change by one ulp."""
    moved = rounding.nudged(test_input)
    again = None if moved is None else compute_outputs(case, [runner], moved).get(runner)
    return rounding.explained(found, outputs, again) if again and len(again) == len(outputs) else frozenset()


def _is_random(case: Case, runner: Runner, test_input: TestInput, outputs: list[Any]) -> bool:
    """Whether two runs of side `a` on one input differ (random operators); differences are then no evidence."""
    again = compute_outputs(case, [runner], test_input).get(runner)
    if again is None or len(again) != len(outputs):
        return False
    if all(difference("", x, y).passed for x, y in zip(outputs, again, strict=True)):
        return False
    note = f"two runs of {runner.sentence} differ: it computes random numbers"
    if note not in case.notes:
        case.notes.append(note)
    return True


def depends_on_earlier_sizes(
    case: Case,
    pair: tuple[Runner, Runner],
    test_input: TestInput,
    outputs: tuple[list[Any], list[Any]],
    least_snr: float | None = None,
) -> bool:
    """Whether both sides agree once one is reloaded: its results depended on earlier inputs of other sizes.

    The coverage then reports this. `least_snr` is the documented precision of default configurations, in decibels.
    """
    known = dict(zip(pair, outputs, strict=True))
    for runner in reversed(pair):
        if not test_input.sizes or not runner.has_process or runner.count < 2 or case.one_at_a_time:
            continue
        runner.close()
        try:
            runner.load()
        except UnansweredError:
            return False
        known |= compute_outputs(case, [runner], test_input)
        found = differences(case, pair, test_input, (known[pair[0]], known[pair[1]]), by_slice=least_snr is None)
        if least_snr is not None:
            found = default_differences(found, least_snr, is_ordinary=True) or []
        if _all_passed(found):
            never = f"{runner.title} after inputs of other sizes (it computes other values then)"
            case.coverage = case.coverage.merged(Coverage(never=(never,)))
            return True
    return False


def is_undefined(
    case: Case,
    pair: tuple[Runner, Runner],
    test_input: TestInput,
    outputs: tuple[list[Any], list[Any]] | None = None,
) -> bool:
    """Whether side `a`'s result is undefined for a generated test input; differences are then no evidence.

    Where single elements are undefined (NaN), outputs that differ in other elements do prove something.
    """
    if test_input.kind == "given":
        return False
    undefined = undefined_result(case.a.graph, test_input.arrays)
    if undefined is None:
        return False
    if undefined.is_nan and outputs is not None:
        defined = [_without_nan(*each) for each in zip(*outputs, strict=True)]
        sides = ([first for first, _ in defined], [second for _, second in defined])
        if not _all_passed(differences(case, pair, test_input, sides, by_slice=False)):
            return False
    if undefined.is_rounded and (outputs is None or any(map(is_unbounded, (*outputs[0], *outputs[1])))):
        return False
    note = f"{test_input.label} is not a test input: {undefined.reason}"
    if note not in case.notes:
        case.notes.append(note)
    return True


def _without_nan(first: Any, second: Any) -> tuple[Any, Any]:
    """Replace the elements of both outputs where the first is NaN by 0."""
    is_float = getattr(getattr(first, "dtype", None), "kind", "") in "fc"
    if not is_float or np.shape(first) != np.shape(second):
        return first, second
    is_nan = np.isnan(first)
    return np.where(is_nan, 0, first).astype(first.dtype), np.where(is_nan, 0, second).astype(second.dtype)


def default_differences(found: list[Difference], least_snr: float, *, is_ordinary: bool) -> list[Difference] | None:
    """Return the differences of a default configuration beyond its documented precision of `least_snr` dB.

    `None` for values of large magnitude, which its element types may not hold. Integers are not compared, because
    rounding before a cast changes them.
    """
    if not is_ordinary:
        return None
    kept = [each for each in found if each.reason is not Reason.INTEGERS]
    return list(Comparison(tuple(kept)).within(least_snr).outputs)
