"""Cast a graph to half precision or back, and report the effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.core.dtypes import DType
from graphport.core.names import find_similar
from graphport.core.short_repr import short_repr
from graphport.core.spill import spilling
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.passes import driver
from graphport.passes.driver import Pass
from graphport.passes.lift_constants import lift_constants
from graphport.quantization.engine import Judge, Noise, session
from graphport.quantization.half.decide import decide
from graphport.quantization.half.insert_casts import NARROW, insert_casts, widened
from graphport.quantization.half.ranges import ranges
from graphport.quantization.output_parts import find_output_parts
from graphport.quantization.random_inputs import random_samples
from graphport.quantization.result_diagnostics import UNUSABLE_SNR_DB
from graphport.quantization.samples import evenly_spaced_indices, gather

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphport.ir.graph import Graph, Node
    from graphport.quantization.half.decide import Decisions
    from graphport.quantization.samples import Run

To = Literal["float16", "bfloat16", "float32"]
_DTYPES = {"float16": DType.FLOAT16, "bfloat16": DType.BFLOAT16, "float32": DType.FLOAT32}
_MAX_SAMPLES = 32
_NUM_RANDOM_INPUTS = 3
"""Number of random inputs."""


@short_repr
@dataclass(frozen=True, slots=True)
class WideNode:
    """A node that remains in single precision, with the reason."""

    name: str
    operator: str
    reason: str


@short_repr
@dataclass(frozen=True, slots=True)
class CastReport:
    """Result of a cast: `nodes` compute floats, `cast` of them in the new type; `snr_db` is of the outputs.

    `samples` is 0 if ranges and noise are of random inputs. `snr_db` is `None` if the model cannot be run.
    """

    to: To
    nodes: int
    cast: int
    kept: tuple[WideNode, ...]
    samples: int
    snr_db: float | None
    snr_range: tuple[float, float] | None
    bytes_before: int
    bytes_after: int
    goal: float | None = None
    findings: tuple[Diagnostic, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether the goal is met; without one, whether the outputs are more than noise."""
        if self.snr_db is None:
            return self.goal is None
        return self.snr_db >= (UNUSABLE_SNR_DB if self.goal is None else self.goal)

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        ends = self.snr_range
        return {
            "to": self.to,
            "nodes": self.nodes,
            "cast": self.cast,
            "kept": [{"name": x.name, "operator": x.operator, "reason": x.reason} for x in self.kept],
            "samples": self.samples,
            "snr_db": None if self.snr_db is None else round(self.snr_db, 3),
            "snr_range_db": None if ends is None else [round(x, 3) for x in ends],
            "goal_met": None if self.goal is None else self.passed,
            "weight_bytes": {"source": self.bytes_before, "target": self.bytes_after},
        }


@spilling()
def cast(
    graph: Graph,
    to: To,
    *,
    data: object = None,
    keep: Collection[str] = (),
    min_snr: float | None = None,
    keep_io: bool = False,
    threads: int = 0,
) -> tuple[Graph, CastReport]:
    """Return a copy of `graph` in the type `to`, and a report; see `graphport.cast`."""
    _refuse_type(graph, to)
    # Fold constant nodes first, so that their consumers see the weights.
    graph = rewrite.copy(graph)
    driver.run(graph, [Pass("lift-constants", lift_constants, "exact")])
    if to == "float32":
        return _back(graph, data, keep_io=keep_io, threads=threads)
    _refuse_names(graph, keep)
    runs, samples, findings = _runs(graph, data)
    seen = ranges(graph, [given for given, _ in runs], threads=threads)
    dtype = _DTYPES[to]

    def decided(goal: Collection[Node] = ()) -> Decisions:
        return decide(graph, dtype, seen, is_measured=bool(samples), keep=keep, goal=goal)

    judge = _judge(graph, runs, threads)
    decisions = decided()
    made = insert_casts(graph, decisions.halves, dtype, keep_io=keep_io, wide=decisions.wide)
    noise = _noise(judge, made, findings)
    if min_snr is not None and judge is not None and noise is not None and noise.snr < min_snr:
        for goal in _orders(decisions):
            fewer = decided(goal)
            other = insert_casts(graph, fewer.halves, dtype, keep_io=keep_io, wide=fewer.wide)
            found = _noise(judge, other, findings)
            if found is not None and found.snr > noise.snr:
                made, decisions, noise = other, fewer, found
            if noise.snr >= min_snr:
                break
    if min_snr is not None and noise is not None and noise.snr < min_snr:
        message = f"the goal of {min_snr:g} dB is not met: the best SNR is {noise.snr:.2f} dB"
        findings.append(
            Diagnostic("CAST0003", message, None, "choose a larger error limit, or --to float32", Severity.WARNING)
        )
    if decisions.wide and not keep_io:
        names = ", ".join(value.name for value in decisions.wide[:3])
        message = f"{len(decisions.wide)} outputs remain float32, because they exceed the range of {to}: {names}"
        findings.append(Diagnostic("CAST0008", message, None, "scale the values in the model", Severity.WARNING))
    return made, _report(graph, made, to, decisions, noise, samples, min_snr, findings)


def joined(reports: Sequence[CastReport], graph: Graph, made: Graph) -> CastReport:
    """Return the report on all branches of `graph`, with the lowest accuracy."""
    worst = min(reports, key=lambda report: float("inf") if report.snr_db is None else report.snr_db)
    return replace(
        worst,
        nodes=sum(report.nodes for report in reports),
        cast=sum(report.cast for report in reports),
        kept=tuple(kept for report in reports for kept in report.kept),
        bytes_before=_weights(graph),
        bytes_after=_weights(made),
        findings=tuple(dict.fromkeys(finding for report in reports for finding in report.findings)),
    )


def _orders(decisions: Decisions) -> list[list[Node]]:
    """Return growing sets of nodes to try in single precision for the accuracy goal.

    One to seven eighths of the nodes, from the end or from the start, whose errors reach all later nodes.
    """
    nodes = list(decisions.halves)
    counts = sorted({max(len(nodes) * part // 8, 1) for part in range(1, 8)})
    return [order[:count] for count in counts for order in (nodes[::-1], nodes) if count < len(nodes)]


def _back(graph: Graph, data: object, *, keep_io: bool, threads: int) -> tuple[Graph, CastReport]:
    runs, samples, findings = _runs(graph, data)
    made = widened(graph, keep_io=keep_io)
    noise = _noise(_judge(graph, runs, threads), made, findings)
    nodes = [node for inner in walk(graph) for node in inner if _computes(node)]
    narrow = [node for node in nodes if any(_dtype(value) in NARROW for value in [*node.operands, *node.results])]
    report = CastReport(
        "float32",
        len(nodes),
        len(narrow),
        (),
        samples,
        None if noise is None else noise.snr,
        None if noise is None else noise.snr_range,
        _weights(graph),
        _weights(made),
        findings=tuple(findings),
    )
    return made, report


def _report(
    graph: Graph,
    made: Graph,
    to: To,
    decisions: Decisions,
    noise: Noise | None,
    samples: int,
    goal: float | None,
    findings: list[Diagnostic],
) -> CastReport:
    if not decisions.halves:
        message = f"no node is cast to {to}: all keep their precision"
        findings.append(Diagnostic("CAST0002", message, None, None, Severity.WARNING))
    kept = tuple(
        WideNode(node.name or node.output.name if node.results else node.name, node.op_type, reason.value)
        for node, reason in decisions.kept.items()
    )
    snr = None if noise is None else noise.snr
    if snr is not None and snr < UNUSABLE_SNR_DB and goal is None:
        message = f"very low SNR of the outputs: {snr:.2f} dB"
        remedy = "pass samples (--calibration), a goal (--min-snr) or nodes to keep in float32 (--keep)"
        findings.append(Diagnostic("CAST0004", message, None, remedy, Severity.WARNING))
    return CastReport(
        to,
        len(decisions.halves) + len(decisions.kept),
        len(decisions.halves),
        kept,
        samples,
        snr,
        None if noise is None else noise.snr_range,
        _weights(graph),
        _weights(made),
        goal,
        tuple(findings),
    )


def _runs(graph: Graph, data: object) -> tuple[list[Run], int, list[Diagnostic]]:
    """Return runs, the number of samples (0 for random inputs), and findings; no runs if no inputs work."""
    if data is not None:
        samples = gather(graph, data)
        taken = samples.select_samples(evenly_spaced_indices(samples.count, min(samples.count, _MAX_SAMPLES)))
        return list(taken.runs(1)), taken.count, []
    problem = "cannot generate inputs for it"
    try:
        made = session(graph)  # rejects a model that is too large before its inputs are created
        drawn, _ = random_samples(graph, _NUM_RANDOM_INPUTS)
        made.run(drawn[0])
    except DiagnosticError as error:
        problem = error.diagnostics[0].message
    else:
        return [(given, 1) for given in drawn[:_NUM_RANDOM_INPUTS]], 0, []
    remedy = "pass samples (--calibration); without them all values are assumed to be in range"
    return [], 0, [Diagnostic("CAST0005", f"ranges are unknown: {problem}", None, remedy, Severity.WARNING)]


def _judge(graph: Graph, runs: list[Run], threads: int) -> Judge | None:
    if not runs:
        return None
    real = session(graph, threads=threads)
    expected = [_single(real.run(inputs)) for inputs, _ in runs]
    return Judge(
        runs, expected, threads, parts=find_output_parts({value.name: value for value in graph.outputs}, expected)
    )


def _noise(judge: Judge | None, graph: Graph, findings: list[Diagnostic]) -> Noise | None:
    """Return the noise of `graph`, whose inputs may be narrow."""
    if judge is None:
        return None
    try:
        made = session(graph, threads=judge.threads)
        noise = Noise(judge.parts)
        for (inputs, count), expected in zip(judge.runs, judge.expected, strict=True):
            given = {
                value.name: inputs[value.name].astype(dtype.numpy)
                if (dtype := _dtype(value)) is not None and dtype.is_floating
                else inputs[value.name]
                for value in graph.inputs
            }
            noise.add(expected, _single(made.run(given)), count)
    except DiagnosticError as error:
        message = f"the result cannot be run on this machine: {error.diagnostics[0].message}"
        findings.append(
            Diagnostic(
                "CAST0006", message, None, "run it on a machine with a suitable runtime to verify it", Severity.WARNING
            )
        )
        return None
    return noise


def _single(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Convert narrow outputs to single precision."""
    return {
        name: array.astype("float32")
        if hasattr(array, "dtype") and array.dtype.itemsize == 2 and array.dtype.kind in "fV"
        else array
        for name, array in outputs.items()
    }


def _refuse_type(graph: Graph, to: str) -> None:
    if to not in _DTYPES:
        message = f"unsupported target type {to!r}"
        raise DiagnosticError(Diagnostic("CAST0001", message, None, f"types: {', '.join(_DTYPES)}"))
    dtypes = {_dtype(value) for inner in walk(graph) for value in inner.values()}
    wanted = NARROW if to == "float32" else {DType.FLOAT32}
    if not dtypes & wanted:
        names = " or ".join(sorted(map(str, wanted)))
        raise DiagnosticError(
            Diagnostic("CAST0001", f"the model has no values of type {names} to cast to {to}", None, None)
        )


def _similar_names(pattern: str, names: Collection[str]) -> str:
    found = find_similar(pattern, names)
    return f"did you mean {' or '.join(map(repr, found))}?" if found else "list the names with graphport inspect"


def _refuse_names(graph: Graph, keep: Sequence[str] | Collection[str]) -> None:
    from fnmatch import fnmatchcase

    names = {name for node in graph for name in (node.name, node.op_type, *(value.name for value in node.results[:1]))}
    missing = [pattern for pattern in keep if not any(fnmatchcase(name, pattern) for name in names)]
    if missing:
        raise DiagnosticError(
            *(
                Diagnostic("CAST0007", f"no node or operator matches {pattern!r}", None, _similar_names(pattern, names))
                for pattern in missing
            )
        )


def _computes(node: Node) -> bool:
    return any((dtype := _dtype(value)) is not None and dtype.is_floating for value in node.results)


def _dtype(value: Any) -> DType | None:
    return value.dtype


def _weights(graph: Graph) -> int:
    return sum(v.storage.nbytes for inner in walk(graph) for v in inner.constants if v.storage is not None and v.uses)
