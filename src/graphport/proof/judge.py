"""Run two files on common test inputs and compare their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.comparison.precision import quantized_snr
from graphport.core.diagnostics import DiagnosticError
from graphport.core.faults import FOUND, stumbled
from graphport.proof.case import Case, Effort, Tolerance, tolerance_between
from graphport.proof.comparing import (
    compare,
    default_differences,
    depends_on_earlier_sizes,
    differences,
    is_undefined,
    keep_results,
)
from graphport.proof.compute import compute_outputs
from graphport.proof.coverage.record import Coverage
from graphport.proof.declared_outputs import mismatch
from graphport.proof.faults import habits
from graphport.proof.further_inputs import explore
from graphport.proof.interface import interface_differences, pairings
from graphport.proof.loading import load, load_carriers, size_checker, strict_pair, strict_pairs
from graphport.proof.narrow_floats import narrowed_nodes
from graphport.proof.process import UnansweredError
from graphport.proof.reference_readings import compare_readings
from graphport.proof.runners import BackendRunner
from graphport.proof.segments.recording import record_segments
from graphport.proof.side import order_outputs, repeat_returned_states, settle_kept_states
from graphport.proof.sizes import choices_of_inputs, why_not_computable
from graphport.proof.summary import summarize
from graphport.proof.test_inputs import MODEST, make_test_input
from graphport.runtimes import run_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from graphport.comparison.metrics import Difference
    from graphport.proof.document import Proof
    from graphport.proof.interface import Aspect
    from graphport.proof.runners import Runner
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import TestInput

MAX_SIDE_BY_SIDE = 1 << 29
"""Maximum bytes of both files for which their runtimes hold them at the same time."""
_HABIT_SNR = 20.0
"""SNR in dB that a default configuration keeps if it rounds nodes of the file as in `faults.HABITS`."""


def prove(
    a: Side,
    b: Side,
    *,
    given: Mapping[str, Any] | None = None,
    tolerance: Tolerance | None = None,
    effort: Effort | None = None,
    allowed: Collection[Aspect] = (),
) -> Proof:
    """Run both sides in their runtimes, and compare the second with the first.

    Args:
        a: the source.
        b: the side that should compute equal outputs.
        given: inputs by the names of `a`; generated if `None`.
        tolerance: the largest difference that counts as equal.
        effort: limits of the proof's time.
        allowed: aspects of the interface that may differ, as requested by the user.

    Raises:
        DiagnosticError: `given` does not fit `a`.
    """
    a, b = settle_kept_states(a, b), order_outputs(settle_kept_states(b, a), a)
    a, b = repeat_returned_states(a, b), repeat_returned_states(b, a)
    case = Case(a, b, tolerance_between(a, b, tolerance or Tolerance()), effort or Effort())
    case.interface += interface_differences(a, b, allowed)
    renamed = () if "names" in allowed else pairings(a, b)
    case.notes += [f"paired by order, not compared: {phrase}" for phrase in renamed]
    case.coverage = case.coverage.merged(Coverage(never=(*renamed, *narrowed_nodes(a, b))))
    sizes = [side.size for side in (a, b) if side.size is not None]
    case.one_at_a_time = sum(sizes) > MAX_SIDE_BY_SIDE
    try:
        with run_limits.limited(sum(sizes) if sizes else None, is_total=True):
            obstacle = None if case.interface else _run(case, given)
        return summarize(case, obstacle)
    finally:
        for runner in case.runners:
            runner.close()


def _run(case: Case, given: Mapping[str, Any] | None) -> str | None:
    """Run both sides. Return why no test input was compared, if so."""
    obstacle = why_not_computable(case) or load_carriers(case)
    if obstacle is not None or case.is_refuted:
        return obstacle
    if case.b.runtime is not None and case.b.path is not None:
        habit = [f"{case.b.runtime.title} by default {what}" for what in habits(case.b.runtime.name, case.b.graph)]
        case.notes += habit
    try:
        refused = _compare_all(case, given)
        if not case.test_inputs and _use_strict_source(case):
            refused = _compare_all(case, given)
    except DiagnosticError as error:
        if given is not None:
            raise
        refused = error.diagnostics[0].message
    if given is None and case.test_inputs and case.limit is None and not case.is_refuted:
        _extend(case, "the search for test inputs", lambda: explore(case, lambda each: compare_input(case, each)))
    if not case.test_inputs:
        return refused or next(iter((*case.notes, *case.coverage.never)), "cannot generate inputs")
    if refused is not None:
        never = f"other sizes ({refused})" if case.limit is None else f"the other test inputs ({refused})"
        case.coverage = case.coverage.merged(Coverage(never=(never,)))
    if given is None and case.limit is None and not case.is_refuted:
        _extend(case, "the comparison of segments", lambda: record_segments(case))
    return None


def _extend(case: Case, title: str, extend: Callable[[], None]) -> None:
    """Call `extend`, which adds runs; report an error as the uncovered part `title`, not as a refutation."""
    try:
        extend()
    except UnansweredError as error:
        reason = str(error)
    except DiagnosticError as error:
        reason = error.diagnostics[0].message
    except FOUND as error:
        reason = stumbled(title, error).message
    else:
        return
    case.coverage = case.coverage.merged(Coverage(never=(f"{title} ({reason})",)))


def _use_strict_source(case: Case) -> bool:
    """Let the strict configuration represent a source that computed no test input as users start its runtime."""
    carrier = case.carriers["a"]
    if case.limit is not None or case.is_refuted:
        return False
    strict, _ = strict_pair(case)
    case.carriers["a"] = strict
    return strict is not carrier


def _compare_all(case: Case, given: Mapping[str, Any] | None) -> str | None:
    """Compare test inputs of all choices of sizes. Return why some sizes were not computed, if so."""
    refused: str | None = None
    for choices in choices_of_inputs(case, given):
        reason = "no other sizes were found that run" if case.test_inputs else None
        for test_inputs in choices:
            reason = _compare_sizes(case, test_inputs)
            if reason is None or case.is_refuted or case.limit is not None:
                break
        refused = refused or reason
        if case.limit is not None or case.is_refuted:
            break
    return case.limit or refused


def _compare_sizes(case: Case, test_inputs: list[TestInput]) -> str | None:
    """Compare test inputs of one choice of sizes. Return why side `a` does not compute the first, if so."""
    case.batch = test_inputs
    for index, test_input in enumerate(test_inputs):
        reason = compare_input(case, test_input, is_first=index == 0)
        if case.limit is not None:
            return case.limit
        if reason is not None and index == 0:
            return reason
        if reason is not None:
            case.notes.append(f"{test_input.label} is not a test input: {reason}")
        if case.is_refuted:
            return None
    return None


def compare_input(case: Case, test_input: TestInput, *, is_first: bool = False) -> str | None:
    """Compute one test input from both sides and compare the outputs; runs go to the matrix.

    Args:
        case: the proof; its carriers are loaded.
        test_input: the inputs of the run.
        is_first: whether it is the first of its sizes, which side `a` may not support.

    Returns:
        Why it is not a test input: side `a` does not compute it.
    """
    if is_first and test_input.sizes and test_input.kind != "given":
        reason = _unsuitable_sizes(case, test_input)
        if reason is not None:
            return reason
    a, b = case.carriers["a"], case.carriers["b"]
    found = compute_outputs(case, (a, b), test_input)
    if case.limit is not None:
        return case.limit
    if a not in found:
        return f"{a.sentence} does not compute it: {a.reason}"
    if is_first and test_input.sizes and test_input.kind != "given" and (outside := _outside(a, found[a])):
        return outside
    if b not in found and any(getattr(output, "size", 1) == 0 for output in found[a]):
        # A result without elements proves nothing; some runtimes do not compute one.
        never = f"an empty result ({b.title} rejects it: {b.reason})"
        case.coverage = case.coverage.merged(Coverage(never=(never,)))
        return None
    if b not in found and is_undefined(case, (a, b), test_input):
        return None
    case.test_inputs.append(test_input)
    if b not in found:
        _record_refusal(case, test_input)
        return None
    if not _compare_carriers(case, test_input, (found[a], found[b])) and test_input.kind == "edges":
        case.test_inputs.remove(test_input)
        _compare_modest(case, test_input)
    return None


def _unsuitable_sizes(case: Case, test_input: TestInput) -> str | None:
    """Return why `size_checker`, if it is not side `a`'s carrier, rejects the sizes of a test input."""
    checker = size_checker(case)
    if checker is case.carriers["a"]:
        return None
    outputs = compute_outputs(case, [checker], test_input).get(checker)
    return (
        f"{checker.sentence} does not compute it: {checker.reason}" if outputs is None else _outside(checker, outputs)
    )


def _outside(runner: Runner, outputs: list[Any]) -> str | None:
    declared = mismatch(runner, outputs) if runner.is_native else None
    return None if declared is None else f"the model is not made for these sizes: {declared}"


def _record_refusal(case: Case, test_input: TestInput) -> None:
    """Record that side `b` does not compute a test input of side `a`."""
    case.record(case.carriers["a"], test_input.label)
    case.record(case.carriers["b"], test_input.label)


def _compare_modest(case: Case, test_input: TestInput) -> None:
    """Compare a variant of the test input with smaller values, because its values overflow on one side only."""
    modest = make_test_input(case.a.graph, test_input.kind, test_input.sizes, test_input.seed, MODEST)
    a, b = case.carriers["a"], case.carriers["b"]
    found = compute_outputs(case, (a, b), modest)
    if a not in found:
        return
    case.test_inputs.append(modest)
    what = "values overflow, are equal or are rounded differently on one side only"
    case.notes.append(f"{test_input.label}: {what}: smaller values are compared")
    if b not in found:
        _record_refusal(case, modest)
    else:
        _compare_carriers(case, modest, (found[a], found[b]), is_last=True)


def _compare_carriers(
    case: Case, test_input: TestInput, outputs: tuple[list[Any], list[Any]], *, is_last: bool = False
) -> bool:
    """Compare both sides: as users start the runtimes if that agrees tightly, else in the strict configuration.

    Returns:
        Whether the comparison proves anything.
    """
    pair = case.carriers["a"], case.carriers["b"]
    computed = dict(zip(pair, outputs, strict=True))
    strict, own = pair, outputs
    others = strict_pairs(case)
    while not all(each.passed for each in differences(case, strict, test_input, own)):
        more = next(others, None)
        if case.limit is not None:
            return True
        if more is None:
            break
        computed |= compute_outputs(case, [runner for runner in more if runner not in computed], test_input)
        if case.limit is not None:
            return True
        if any(runner not in computed for runner in more):
            strict = pair
            break
        strict, own = more, (computed[more[0]], computed[more[1]])
    if strict == pair:
        return _compare_pair(case, pair, test_input, outputs, is_last=is_last)
    if not _compare_pair(case, strict, test_input, own, is_last=is_last):
        return False
    _check_defaults(case, (pair, strict), test_input, (outputs, own))
    return True


def _compare_pair(
    case: Case,
    pair: tuple[Runner, Runner],
    test_input: TestInput,
    outputs: tuple[list[Any], list[Any]],
    *,
    is_last: bool,
) -> bool:
    found = compare(case, pair, test_input, outputs, is_last=is_last)
    if found is None:
        if test_input.kind != "edges" and test_input in case.test_inputs:
            case.test_inputs.remove(test_input)
        return False
    keep_results(case, test_input, outputs[0], found)
    a, b = pair
    case.record(a, test_input.label)
    declared = mismatch(a, outputs[0])
    if declared is not None and declared not in case.notes:
        case.notes.append(declared)
    case.record(b, test_input.label, found, fault=mismatch(b, outputs[1]) if b.is_native else None)
    compare_readings(case, test_input, found)
    if case.effort.asks_reference:
        for runner, own in zip(pair, outputs, strict=True):
            _compare_reference(case, runner, test_input, own)
    return True


def _check_defaults(
    case: Case,
    pairs: tuple[tuple[Runner, Runner], tuple[Runner, Runner]],
    test_input: TestInput,
    outputs: tuple[tuple[list[Any], list[Any]], tuple[list[Any], list[Any]]],
) -> None:
    """Record the default configurations of a test input on which only the strict ones agree tightly.

    Their documented precision has to hold between both sides. If it does not, the side is at fault whose default
    configuration differs from its own strict one.
    """
    pair, strict = pairs
    least = min(_documented_snr(case, runner) for runner in pair)
    is_ordinary = test_input.kind != "edges"
    found = differences(case, pair, test_input, outputs[0], by_slice=False)
    between = default_differences(found, least, is_ordinary=is_ordinary)
    if between is None or all(each.passed for each in between):
        if pair[0] is not strict[0]:
            case.record(pair[0], test_input.label)
        if pair[1] is not strict[1]:
            case.record(pair[1], test_input.label, between)
        return
    if depends_on_earlier_sizes(case, pair, test_input, outputs[0], least):
        return
    wrong: list[bool] = []
    own: list[list[Difference] | None] = []
    for runner, other, default, exact in zip(pair, strict, *outputs, strict=True):
        each = (
            None
            if runner is other
            else differences(case, (other, runner), test_input, (exact, default), by_slice=False)
        )
        each = None if each is None else default_differences(each, _documented_snr(case, runner), is_ordinary=True)
        own.append(each)
        wrong.append(each is not None and not all(one.passed for one in each))
    is_shared = all(wrong) and pair[0].runtime == pair[1].runtime
    for index, runner in enumerate(pair):
        if own[index] is None:
            continue
        is_unjudged = is_shared and index == 1
        is_excused = wrong[index] and _merges_quantized(runner)
        case.record(runner, test_input.label, None if is_unjudged else own[index], is_excused=is_excused)
    if is_shared:
        case.notes.append(f"{pair[1].title} computes other values with default settings, from both files")


def _merges_quantized(runner: Runner) -> bool:
    """Whether the runtime's default configuration rounds a quantized model at other nodes than the file's."""
    runtime = runner.side.runtime
    return runtime is not None and runtime.merges_quantized and quantized_snr(runner.side.graph) is not None


def _documented_snr(case: Case, runner: Runner) -> float:
    """Return the documented minimum SNR in dB of a runtime's default configuration."""
    runtime = runner.side.runtime
    if runtime is None or runtime.default_snr is None or not runner.is_native:
        return float("inf")
    known = [runtime.default_snr, quantized_snr(runner.side.graph), case.tolerance.least_snr]
    if habits(runtime.name, runner.side.graph):
        known.append(_HABIT_SNR)
    return min(each for each in known if each is not None)


def _compare_reference(case: Case, main: Runner, test_input: TestInput, outputs: list[Any]) -> None:
    """Compute a side with the reference interpreter as well; a difference is a note."""
    if main.runtime == "reference":
        return
    known = [each for each in case.runners if each.side is main.side and each.runtime == "reference"]
    runner = known[0] if known else BackendRunner(main.side, "reference")
    if not known:
        case.runners.append(runner)
        load(case, runner)
    if not runner.is_loaded:
        return
    values = compute_outputs(case, [runner], test_input).get(runner)
    if values is None:
        case.record(runner, test_input.label)
        return
    found = differences(case, (main, runner), test_input, (outputs, values), by_slice=False)
    case.record(runner, test_input.label, found)
    for position, each in enumerate(found):
        if not each.passed and (runner, position) not in case.noted:
            case.noted.add((runner, position))
            what = f"{each.name} {each.reason or f'differs by {each.max_abs:.3g}'} ({test_input.label})"
            case.notes.append(f"{main.sentence} and {runner.sentence} disagree: {what}")
