"""Two sides held against each other: who is asked, what counts as evidence, and what it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.backends import is_installed, memory, preferred, run_limits
from graphport.backends.inputs import is_accepted, no_array, open_axes
from graphport.backends.relations import completed, search
from graphport.comparison.metrics import Comparison, Difference, Reason, difference
from graphport.comparison.precision import quantized_snr
from graphport.core.diagnostics import DiagnosticError
from graphport.core.progress import stage
from graphport.proof import rounding, steps, ties
from graphport.proof.alignment import Evidence, Manner, aligned
from graphport.proof.case import Case, Tolerance, of_steps
from graphport.proof.declared import contradiction
from graphport.proof.document import OutputProof, Proof
from graphport.proof.faults import habits, known_fault
from graphport.proof.process import LackingError, UnansweredError, UnfinishedError
from graphport.proof.runners import BackendRunner, DisagreementError, NativeRunner, Runner
from graphport.proof.settling import settled
from graphport.proof.side import paired
from graphport.proof.test_inputs import KINDS, MODEST, TestInput, accepted, bound_by, choices_of_sizes, make_test_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from graphport.backends.relations import Relations
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import Sizes

_STEPS = frozenset(map(np.dtype, ("int8", "uint8", "int16")))
"""Types of integers that stand for real numbers."""
_LEAST_SECONDS = 2.0
"""What the reference may take in any case."""
_TIMES = 10.0
"""Runs of the quickest runtime that the reference may take beyond that, unless everybody is asked."""
_MORE, _SEED = 4, 1000
"""Draws beyond those of every proof in which two sides may agree to the last places, and the seed of the first."""


def prove(
    a: Side,
    b: Side,
    *,
    given: Mapping[str, Any] | None = None,
    tolerance: Tolerance | None = None,
    is_full: bool = False,
) -> Proof:
    """Ask all witnesses of two sides, and hold the second side against the first.

    Args:
        a: what is right.
        b: what should compute the same.
        given: inputs by the names of `a`; drawn if `None`.
        tolerance: what passes as equal.
        is_full: ask everybody however long it takes.

    Raises:
        DiagnosticError: `given` does not fit `a`.
    """
    case = Case(a, b, of_steps(a, b, tolerance or Tolerance()), is_full)
    sizes = [side.size for side in (a, b) if side.size is not None]
    try:
        with run_limits.limited(sum(sizes) if sizes else None, is_total=True):
            reason = _asked(case, given)
        return settled(case, reason)
    finally:
        for witness in case.witnesses:
            witness.close()


def _asked(case: Case, given: Mapping[str, Any] | None) -> str | None:
    """Ask everybody; why nothing can be proven, if so."""
    too_large = _too_large(case)
    if too_large:
        return too_large
    own = _open_own(case)
    if case.b.runtime is not None and case.b.path is not None:
        case.notes += [f"{case.b.runtime.title} by itself {what}" for what in habits(case.b.runtime.name, case.b.graph)]
    mains = {side.letter: own.get(side.letter) or _stand_in(case, side) for side in (case.a, case.b)}
    if case.faults:
        return None
    main_a, main_b = mains["a"], mains["b"]
    if case.unfinished is not None:
        return case.unfinished
    if main_a is None or main_b is None:
        side = case.a if main_a is None else case.b
        reasons = "; ".join(f"{w.title} {w.reason}" for w in case.witnesses if w.side is side and w.reason)
        return f"nobody computes {side.label}" + (f" ({reasons})" if reasons else "")
    try:
        refused = _computed(case, main_a, main_b, given)
    except DiagnosticError as error:
        if given is not None:
            raise
        return error.diagnostics[0].message
    if not case.draws and not case.faults:
        return refused or next(iter(case.notes), "no inputs can be made up")
    if refused is not None:
        case.notes.append(f"other sizes are not proven: {refused}")
    return None


def _computed(case: Case, a: Runner, b: Runner, given: Mapping[str, Any] | None) -> str | None:
    """Ask both for all draws; why some sizes could not be computed, if so."""
    refused: str | None = None
    for slot in _slots(case, a, given):
        reason = "no others were found that suit" if case.draws else None
        for draws in slot:
            reason = _first_refusal(case, a, b, draws)
            if reason is None or case.faults or case.unfinished:
                break
        refused = refused or reason
        if case.unfinished:
            return case.unfinished
    return refused


def _open_own(case: Case) -> dict[str, Runner]:
    """The runtimes of both files, which load them at the same time."""
    begun: list[NativeRunner] = []
    for side in (case.a, case.b):
        if side.runtime is None or side.path is None:
            continue
        witness = NativeRunner(side, side.runtime)
        case.witnesses.append(witness)
        if not side.runtime.is_installed:
            witness.reason = f"the package {side.runtime.package} is not installed"
            continue
        fault = known_fault(side.runtime.name, side.graph)
        if fault is not None:
            witness.reason = f"is known to compute otherwise: {fault.what}"
            continue
        witness.begin(0)
        begun.append(witness)
    return {witness.side.letter: witness for witness in begun if _opens(case, witness)}


def _opens(case: Case, witness: Runner) -> bool:
    try:
        with stage(f"{witness.title} loads {witness.side.label}"):
            witness.open()
    except DisagreementError as error:
        witness.reason = str(error)
        case.faults.append(f"{witness.sentence} {error}")
    except UnfinishedError as error:
        witness.reason = str(error)
        case.unfinished = f"{witness.title} {error}"
    except UnansweredError as error:
        witness.reason = str(error)
        if _is_rejection(case, witness, error):
            case.faults.append(f"{witness.sentence} {error}")
    else:
        return True
    return False


def _is_rejection(case: Case, witness: Runner, error: UnansweredError) -> bool:
    """Whether a runtime refuses a file of ours that it should take: not where it refuses the source alike."""
    runtime = witness.side.runtime
    if not witness.is_own or witness.side is not case.b or runtime is None or not runtime.takes_all:
        return False
    if isinstance(error, LackingError):
        return False
    return not any(w.runtime == runtime.name and w.side is case.a and w.reason for w in case.witnesses)


def _stand_in(case: Case, side: Side) -> Runner | None:
    """Who computes our reading of a side that nobody computes as it is."""
    names = ["reference", *(name for name in preferred(side.graph) if name != "reference")]
    if side.path is None:
        names = [*names[1:], "reference"]
    for name in names:
        witness = BackendRunner(side, name)
        case.witnesses.append(witness)
        if _opens(case, witness):
            return witness
    return None


def _too_large(case: Case) -> str | None:
    """Why there are no arrays, or not the memory, for a proof, if so."""
    for value in case.a.graph.inputs:
        dims = value.shape
        reason = None if dims is None else no_array([dim if isinstance(dim, int) else 1 for dim in dims])
        if reason is not None:
            return f"no input can be made up for {value.name!r}: {reason}"
    sizes = dict.fromkeys((str(s) for s in _symbols(case.a)), 1)
    lacking = memory.shortage(max(memory.needed(side.graph, sizes) for side in (case.a, case.b)))
    return lacking or _excess(case, sizes)


def _excess(case: Case, sizes: Mapping[str, int]) -> str | None:
    """Why a run at some sizes is more than the source may make us hold, if so."""
    return next(filter(None, (memory.excess(side.graph, sizes, case.a.size) for side in (case.a, case.b))), None)


def _symbols(side: Side) -> list[str]:
    ones, other = open_axes(side.graph)
    return [*ones, *other]


def _slots(case: Case, a: Runner, given: Mapping[str, Any] | None) -> Iterator[Iterator[list[TestInput]]]:
    """For each choice of sizes, alternatives of draws: who cannot compute the first may compute the next."""
    if given is not None:
        yield iter([[TestInput("given", 0, {}, dict(given))]])
        return
    graph = case.a.graph
    names = {value.name: value for value in case.b.graph.inputs}
    twins = paired({value.name: value for value in graph.inputs}, graph, case.b.graph)
    partners = {value.name: names[other] for other, value in twins.items() if other in names}
    fixed = bound_by(graph, partners)
    seed = 0
    every = choices_of_sizes(graph, fixed)
    for choices in every:
        sizes = _sizes(case, choices, lambda other: _related(case, a, every[-1][0], other, fixed))
        yield (_drawn(case, each, seed) for each in sizes if _is_new(case, each) and _is_modest(case, each))
        seed += len(KINDS)


def _sizes(case: Case, choices: list[Sizes], related: Callable[[list[Sizes]], Relations]) -> Iterator[Sizes]:
    """The sizes of a draw to try, the best first; relations between them are looked for where these do not run."""

    def completed_choices() -> Iterator[Sizes]:
        relations = case.relations = related(choices)
        yield from (completed(relations, sizes) for sizes in (choices if relations else []))

    if case.relations:
        choices = [completed(case.relations, sizes) for sizes in choices]
    return accepted(case.a.graph, choices, completed_choices() if case.relations is None else ())


def _related(case: Case, a: Runner, sizes: Sizes, other: list[Sizes], fixed: Sizes) -> Relations:
    """Relations between open extents with which the first side runs, if there are any."""
    _, lengths = open_axes(case.a.graph)
    free = {name: symbol for name, symbol in lengths.items() if name not in fixed}

    def runs(tried: Sizes) -> bool:
        if not is_accepted(case.a.graph, tried) or not _is_modest(case, tried):
            return False
        if case.unfinished:
            return False
        values = _answers(case, [a], make_test_input(case.a.graph, KINDS[0], tried, 0)).get(a)
        a.reason = None
        shows = values is not None and all(getattr(value, "size", 1) for value in values)
        return shows and not (a.is_own and contradiction(a, values or []))

    with stage(f"looks for sizes with which {a.sentence} runs"):
        return search(case.a.graph, free, sizes, other, runs)


def _is_new(case: Case, sizes: Sizes) -> bool:
    return not any(sizes == draw.sizes for draw in case.draws)


def _is_modest(case: Case, sizes: Sizes) -> bool:
    reason = _excess(case, sizes)
    if reason is not None and reason not in case.notes:
        case.notes.append(reason)
    return reason is None


def _drawn(case: Case, sizes: Sizes, seed: int) -> list[TestInput]:
    kinds = KINDS if any(value.storage is None for value in case.a.graph.inputs) else KINDS[:1]
    return [make_test_input(case.a.graph, kind, sizes, seed + index) for index, kind in enumerate(kinds)]


def _first_refusal(case: Case, a: Runner, b: Runner, draws: list[TestInput]) -> str | None:
    """Compute draws of one size; why the first side does not compute the first of them, if so."""
    thirds = _thirds(case, a, b) if not case.draws else [w for w in case.witnesses if w not in (a, b) and w.ran]
    for index, draw in enumerate(draws):
        answers = _answers(case, [a, b], draw)
        if case.unfinished:
            return case.unfinished
        if a not in answers:
            if index == 0:
                reason, a.reason = a.reason, None
                return f"{a.sentence} does not compute it: {reason}"
            case.notes.append(f"{draw.label} is not proven: {a.sentence} does not compute it: {a.reason}")
            a.reason = None
            continue
        outside = contradiction(a, answers[a]) if a.is_own and index == 0 and draw.sizes else None
        if outside is not None and draw.kind != "given":
            return f"these lengths are not what it is made for: {outside}"
        case.draws.append(draw)
        if b not in answers:
            case.faults.append(f"{b.sentence} does not compute what {a.sentence} computes: {b.reason}")
            return None
        if not _hold(case, (a, b), thirds, draw, answers) and draw.kind == "edges":
            case.draws.remove(draw)
            _again_modestly(case, (a, b), thirds, draw)
    return None


def _again_modestly(case: Case, mains: tuple[Runner, Runner], thirds: list[Runner], draw: TestInput) -> None:
    """Ask with smaller numbers where something overflowed for one side and not for the other."""
    modest = make_test_input(case.a.graph, draw.kind, draw.sizes, draw.seed, MODEST)
    answers = _answers(case, list(mains), modest)
    if not all(main in answers for main in mains):
        return
    case.draws.append(modest)
    what = "something overflows, is equal, or is rounded otherwise for one side only"
    case.notes.append(f"{draw.label}: {what}: smaller numbers are compared")
    _hold(case, mains, thirds, modest, answers, is_last=True)


def _thirds(case: Case, a: Runner, b: Runner) -> list[Runner]:
    """The reference on both sides, where it is not asked already."""
    found: list[Runner] = []
    for side, main in ((case.a, a), (case.b, b)):
        if main.runtime == "reference" or not is_installed("reference"):
            continue
        witness = BackendRunner(side, "reference", seconds=None if case.is_full else _LEAST_SECONDS)
        case.witnesses.append(witness)
        if _opens(case, witness):
            found.append(witness)
    return found


def _answers(case: Case, asked: list[Runner], draw: TestInput) -> dict[Runner, list[Any]]:
    """What each witness computes of a draw; who does not has a reason."""
    found: dict[Runner, list[Any]] = {}
    begun: list[Runner] = []
    for witness in asked:
        try:
            witness.ask(draw, case.a)
        except DiagnosticError as error:
            if draw.kind == "given" and witness.side is case.a:
                raise
            witness.reason = error.diagnostics[0].message
        except UnansweredError as error:
            witness.reason = str(error)
        else:
            begun.append(witness)
    # Those that compute in this process come last: the others compute meanwhile.
    for witness in begun:
        if isinstance(witness, BackendRunner) and witness.budget is not None:
            quickest = min((w.seconds for w in case.witnesses if w.ran and w is not witness), default=0.0)
            witness.budget = max(witness.budget, _TIMES * quickest)
        try:
            with stage(f"{witness.title} computes {witness.side.label} ({draw.kind})"):
                found[witness] = witness.answer()
        except UnfinishedError as error:
            witness.reason = str(error)
            case.unfinished = f"{witness.title} {error}"
        except UnansweredError as error:
            witness.reason = str(error)
    return found


def _hold(
    case: Case,
    mains: tuple[Runner, Runner],
    thirds: list[Runner],
    draw: TestInput,
    answers: dict[Runner, list[Any]],
    *,
    is_last: bool = False,
) -> bool:
    """Hold what the second side computed against the first, and each witness against the others of its side.

    Whether that says something: not where large numbers overflow, unless this `is_last`. What was computed is let go
    of as soon as it was held, out of `answers` too.
    """
    a, b = mains
    outputs = answers[a]
    count = len(answers[b])
    if count != len(outputs):
        case.faults.append(f"{b.sentence} has {count} outputs, {a.sentence} has {len(outputs)}")
        return True
    found = _differences(case, (a, b), draw, (outputs, answers[b]))
    found = ties.without(found, ties.of_integers(draw, found), draw, case.notes)
    wrong = [each for each in found if not each.passed]
    if wrong and draw.kind == "edges":
        tied = ties.fed_by_indices(case.a.graph)
        positions = [position for position, each in enumerate(found) if not each.passed]
        blurred = frozenset[int]() if is_last else _blurred(case, a, draw, outputs, found)
        if not is_last and all(found[at].reason is Reason.UNLIKE or at in tied or at in blurred for at in positions):
            return False
        found = ties.without(found, tied, draw, case.notes)
        wrong = [each for each in found if not each.passed]
    if wrong:
        _look_for_agreement(case, (a, b), draw, steps.open_ties(found))
        found = steps.without(found, case.a, draw, case.notes, _close(case, (a, b)))
        wrong = [each for each in found if not each.passed]
    for position, output in enumerate(outputs):
        case.evidence.setdefault(position, Evidence()).see(output)
    if wrong and _is_random(case, a, draw, outputs):
        return True
    for position, each in enumerate(found):
        _keep_worst(case, position, each, draw)
    for main in mains:
        _tell_contradiction(case, main, answers[main], is_fault=main is b)
    del outputs
    for main in mains:
        for third in thirds:
            if third.side is main.side and third.reason is None:
                _hold_third(case, (main, third), draw, answers[main])
        del answers[main]
    return True


def _close(case: Case, pair: tuple[Runner, Runner]) -> frozenset[int]:
    return frozenset(position for *both, position in case.close if tuple(both) == pair)


def _look_for_agreement(case: Case, pair: tuple[Runner, Runner], draw: TestInput, open_: frozenset[int]) -> None:
    """TestInput more of the least sizes, where outputs differ as ties may make them and agree nowhere so far."""
    if draw.kind == "given" or quantized_snr(case.a.graph) is None:
        return
    for seed in range(_MORE):
        if open_ <= _close(case, pair):
            return
        more = make_test_input(case.a.graph, KINDS[0], case.draws[0].sizes, _SEED + seed)
        answers = _answers(case, list(pair), more)
        if len(answers) == len(pair):
            _differences(case, pair, more, (answers[pair[0]], answers[pair[1]]))
        for witness in pair:
            witness.reason = None


def _tell_contradiction(case: Case, witness: Runner, values: list[Any], *, is_fault: bool) -> None:
    reason = contradiction(witness, values)
    if reason and reason not in case.notes:
        (case.faults if is_fault and witness.is_own else case.notes).append(reason)


def _differences(
    case: Case, pair: tuple[Runner, Runner], draw: TestInput, answers: tuple[list[Any], list[Any]]
) -> list[Difference]:
    first, second = pair
    manner = Manner.common(first, second, is_edge=draw.kind == "edges")
    names = [value.name for value in case.a.graph.outputs]
    others = [value.name for value in second.side.graph.outputs]
    found: list[Difference] = []
    for position, (x, y) in enumerate(zip(*answers, strict=True)):
        name = names[position] if position < len(names) else str(position)
        other = others[position] if position < len(others) else str(position)
        one, two = aligned(x, y, manner)
        if case.tolerance.of_steps and all(getattr(array, "dtype", None) in _STEPS for array in (one, two)):
            one, two = one.astype(np.float32), two.astype(np.float32)
        each = difference(name, one, two, other=other, relative=case.tolerance.relative)
        if each.passed and draw.kind != "edges":
            case.close.add((first, second, position))
        found.append(_within(each, case.tolerance))
    return found


def _within(each: Difference, tolerance: Tolerance) -> Difference:
    if tolerance.least_snr is None:
        return each
    return Comparison((each,)).within(tolerance.least_snr).outputs[0]


def _blurred(case: Case, a: Runner, draw: TestInput, outputs: list[Any], found: list[Difference]) -> frozenset[int]:
    """The outputs that differ by no more than what the first side makes of the last places of its inputs."""
    moved = rounding.nudged(draw)
    again = None if moved is None else _answers(case, [a], moved).get(a)
    return rounding.explained(found, outputs, again) if again and len(again) == len(outputs) else frozenset()


def _is_random(case: Case, a: Runner, draw: TestInput, outputs: list[Any]) -> bool:
    """Whether the first side computes something else each time; then a difference says nothing."""
    again = _answers(case, [a], draw).get(a)
    if again is None or len(again) != len(outputs):
        return False
    same = [difference("", x, y).passed for x, y in zip(outputs, again, strict=True)]
    if all(same):
        return False
    note = f"two runs of {a.sentence} differ: it draws numbers by chance"
    if note not in case.notes:
        case.notes.append(note)
    case.draws.remove(draw)
    return True


def _keep_worst(case: Case, position: int, each: Difference, draw: TestInput) -> None:
    before = case.worst.get(position)
    if before is None or _badness(each) > _badness(before.worst):
        case.worst[position] = OutputProof(position, each, draw.label)


def _badness(each: Difference) -> tuple[bool, bool, float, float]:
    ratio = each.snr_db
    return (not each.passed, each.max_abs is None, each.max_abs or 0.0, 0.0 if ratio is None else -ratio)


def _hold_third(case: Case, pair: tuple[Runner, Runner], draw: TestInput, outputs: list[Any]) -> None:
    """Ask one more witness of a side, and tell where it disagrees, each output once."""
    main, third = pair
    values = _answers(case, [third], draw).get(third)
    if values is None:
        return
    _tell_contradiction(case, third, values, is_fault=False)
    if len(values) != len(outputs):
        return
    found = _differences(case, (main, third), draw, (outputs, values))
    for position, each in enumerate(steps.without(found, case.a, draw, case.notes, _close(case, (main, third)))):
        if each.passed:
            continue
        case.disagreeing.add(third)
        if (third, position) in case.reported:
            continue
        case.reported.add((third, position))
        what = each.reason or f"differs by {each.max_abs:.3g}"
        where = f", first at {list(each.first)}" if each.first is not None else ""
        case.notes.append(f"{main.sentence} and {third.sentence} disagree: {each.name} {what}{where} ({draw.label})")
