"""What a program calls: load, save, check, run, compare, convert; verification by default happens here."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport import formats
from graphport.backends import prepare as prepare_session
from graphport.backends.inputs import checked, made_up, made_up_otherwise
from graphport.comparison import Comparison, compare_outputs, difference
from graphport.comparison.precision import least_snr
from graphport.conversion.coverage import coverage, unsaid
from graphport.conversion.idle import without_idle
from graphport.conversion.inspection import Inspection
from graphport.conversion.inspection import inspect as inspect_graph
from graphport.conversion.legalize import legalize
from graphport.conversion.lift import lift
from graphport.core.collection import paused_collection
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, raise_errors
from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.passes import driver
from graphport.passes.fuse_expressions import without_expressions
from graphport.passes.upgrade import upgraded
from graphport.quantization.dispatch import Method, dispatch
from graphport.quantization.record import Origin, note_checks, note_documents, settled

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.formats.ncnn import Scales
    from graphport.ir.graph import Graph, Node, Value
    from graphport.passes.driver import Outcome, PassList
    from graphport.quantization.dispatch import Decision
    from graphport.quantization.report import QuantizationReport
    from graphport.quantization.samples import Progress
    from graphport.quantization.settings import Settings

    Shapes = Mapping[str, Sequence[int | str]]

VERIFY_LIMIT = 512 << 20
"""Bytes of weights above which `convert` does not verify unless it is told to."""

MOST_TRIED = 8
"""How many sizes of inputs a model is run with until it runs, when inputs are made up."""


@dataclass(frozen=True, eq=False)
class Model:
    """A graph with where it came from.

    `findings` are the warnings that reading it gave; `versions` what the file says of its edition or operator sets.
    """

    graph: Graph
    format: str = ""
    path: Path | None = None
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def inputs(self) -> dict[str, Value]:
        """Inputs by name, in order."""
        return {value.name: value for value in self.graph.inputs}

    @property
    def outputs(self) -> dict[str, Value]:
        """Outputs by name, in order."""
        return {value.name: value for value in self.graph.outputs}

    @property
    def is_raw(self) -> bool:
        """Whether it is still in its format's own words: some node is, and none is canonical."""
        dialects = {node.dialect for inner in walk(self.graph) for node in inner}
        return bool(dialects) and "" not in dialects

    def shapes(self) -> dict[str, Fact]:
        """Element type and shape of every value by name."""
        return {value.name: value.fact for value in self.graph.values()}

    def __repr__(self) -> str:
        return f"<Model {self.path or self.graph.name}: {len(self.graph)} nodes>"


@dataclass(frozen=True)
class ConversionReport:
    """What `convert` did: where from, where to, and how equal both are.

    `unsupported` counts the operators that the target cannot say; if there is any, nothing was written.
    `verification` is `None` where it was skipped, and `skipped` says why.
    """

    source: str
    target: str
    format: str
    unsupported: dict[str, int] = field(default_factory=dict[str, int])
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    verification: Comparison | None = None
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        """Whether it was written and no verification failed."""
        return not self.unsupported and (self.verification is None or self.verification.passed)


@dataclass(frozen=True)
class RewriteReport:
    """What `prepare` or `simplify` did: what each pass changed and what it left alone, and whether the outputs agree.

    `verification` is `None` where it was skipped, and `skipped` says why.
    """

    passes: tuple[Outcome, ...]
    nodes_before: int
    nodes_after: int
    decisions: dict[Node, Decision] = field(default_factory=dict["Node", "Decision"])
    """Where each node of the result would be computed, were it quantized now."""
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    verification: Comparison | None = None
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        """Whether no verification failed."""
        return self.verification is None or self.verification.passed

    @property
    def changes(self) -> dict[str, int]:
        """How many places each pass changed, by its name."""
        return {outcome.name: outcome.changes for outcome in self.passes}


def load(path: str | Path, *, raw: bool = False, shapes: Shapes | None = None, edition: str | None = None) -> Model:
    """Read a model.

    Args:
        path: a file or folder in any format; the format is recognized by content, then by name.
        raw: the dialect's own graph, nothing legalized.
        shapes: binds unspecified extents of inputs before anything is evaluated.
        edition: of NNEF, `"provisional"` or `"final"`; by content if `None`.

    Returns:
        A model that nobody else holds, in canonical words where possible; what has no canonical form stays opaque.
        What other tools are known to write against a format's rules is a warning here, and an error for `check`.

    Raises:
        DiagnosticError: all errors of the first stage that found any.
    """
    model, findings = _read(path, raw=raw, shapes=shapes, edition=edition, tolerant=True)
    raise_errors(findings)
    return model


def check(path: str | Path, *, edition: str | None = None, shapes: Shapes | None = None) -> list[Diagnostic]:
    """All findings on a model: grammar, names, types, shapes. Empty where there is nothing to say."""
    try:
        return _read(path, raw=False, shapes=shapes, edition=edition, tolerant=False)[1]
    except DiagnosticError as error:
        return error.diagnostics


def _read(
    path: str | Path, *, raw: bool, shapes: Shapes | None, edition: str | None, tolerant: bool
) -> tuple[Model, list[Diagnostic]]:
    kind = formats.recognize(path)
    graph, findings = kind.read(path, edition=edition, shapes=shapes, tolerant=tolerant)
    versions = kind.versions(graph)
    if shapes:
        bind_inputs(graph, shapes)
    if raw:
        inference = Inference()
        with paused_collection():
            inference.graph(graph, check_declared=True)
        found = inference.findings
    else:
        graph, found = legalize(graph, in_place=True)
    findings = list(dict.fromkeys([*findings, *found]))
    return Model(graph, kind.name, Path(path), findings, versions), findings


def save(model: Model, path: str | Path, *, format: str | None = None, **options: Any) -> None:
    """Write a model; the format is `format`, else what the name says. A raw model is written in its own format.

    Raises:
        DiagnosticError: LEG0002 for everything that the format cannot say; nothing is written then.
    """
    kind = formats.by_name(path, format)
    graph = model.graph
    if model.is_raw and model.format == kind.name:
        kind.write(graph, path, **options)
        return
    said = _said_in(model, kind, is_whole=not options.get("allow_fragments"), newest=options.get("ir_opset"))
    kind.write(said, path, **options)
    if isinstance(model, QuantizedModel) and model.scales is not None and kind.name == "ncnn":
        kind.module.write_table(Path(path).with_suffix(".table"), model.scales)


def _said_in(model: Model, kind: formats.Format, *, is_whole: bool = True, newest: int | None = None) -> Graph:
    """`model` in the words of a format; unless it is to be whole, with canonical operators where there are none."""
    graph, findings = legalize(model.graph)
    raise_errors(findings)
    graph = without_expressions(graph)
    if kind.dialect:
        said, findings = lift(graph, kind.dialect, newest=newest)
        if findings:
            said, findings = lift(_resolved(graph), kind.dialect, newest=newest)
        if is_whole:
            raise_errors(findings)
        graph = said
    return without_idle(graph)


def _resolved(graph: Graph) -> Graph:
    """A copy without the arithmetic on shapes whose results are known: few formats have words for it."""
    from graphport.passes.simplify import RESOLVE

    twin = rewrite.copy(graph)
    driver.run(twin, RESOLVE)
    return twin


def inspect(model: Model) -> Inspection:
    """What `model` holds: operators and their numbers, weights, work, and which formats can say it."""
    graph, _ = legalize(model.graph)
    found = inspect_graph(graph, model.format, model.versions)
    # As `convert` does it: shape arithmetic whose results are known needs no words.
    return replace(found, unsupported=coverage(_resolved(graph))) if any(found.unsupported.values()) else found


def convert(
    source: str | Path,
    target: str | Path,
    *,
    format: str | None = None,
    verify: bool | None = None,
    verify_limit: int = VERIFY_LIMIT,
    shapes: Shapes | None = None,
    inputs: Mapping[str, Any] | None = None,
    edition: str | None = None,
    **options: Any,
) -> ConversionReport:
    """Read `source` and write `target`, then run both and hold them against each other.

    Args:
        source: a model in any format.
        target: where to; an existing file is replaced when the new one is complete.
        format: the target's format, if its name does not say it.
        verify: `None` verifies where a backend and all weights are there and these are under `verify_limit` bytes.
        verify_limit: see `verify`.
        shapes: binds unspecified extents of inputs.
        inputs: what to verify with; made up if `None`.
        edition: of an NNEF source.
        **options: of the writer.

    Returns:
        The report. Where the target cannot say an operator nothing is written, and `unsupported` counts them all.

    Raises:
        DiagnosticError: `source` is at fault, or verification was demanded and cannot be done.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    model = load(source, shapes=shapes, edition=edition)
    report: dict[str, Any] = {"source": str(source), "target": str(target), "format": kind.name}
    said, skipped = None, _reason_to_skip(model, verify_limit, verify=verify)
    if kind.name == model.format and not shapes and options.keys() <= set(kind.faithful_choices):
        raw = load(source, raw=True, edition=edition)
        kind.write(raw.graph, target, **options)
    else:
        is_whole = not options.get("allow_fragments")
        missing = unsaid(model.graph, kind) if is_whole else {}
        if missing:
            resolved = _resolved(model.graph)
            missing = unsaid(resolved, kind)
            if missing:
                _, findings = lift(resolved, kind.dialect)
                return ConversionReport(**report, unsupported=missing, findings=[*model.findings, *findings])
        said = _said_in(model, kind, is_whole=is_whole, newest=options.get("ir_opset"))
        if kind.has_documents:
            note_documents(said, _origin(model), made_by="convert")
            note_checks(said, None, skipped)
        kind.write(said, target, **options)
    comparison, is_tried = None, skipped is None
    if is_tried:
        comparison, skipped = _verified(model, target, inputs, is_demanded=bool(verify))
    least = kind.least_snr(**options)
    if comparison is not None and least is not None:
        comparison = comparison.within(least)
    if said is not None and is_tried:
        _write_checks(said, kind, target, comparison, skipped, options)
    return ConversionReport(**report, findings=model.findings, verification=comparison, skipped=skipped)


def prepare(
    model: Model,
    *,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    shared: str = "auto",
    verify: bool | None = None,
    verify_limit: int = VERIFY_LIMIT,
    inputs: Mapping[str, Any] | None = None,
) -> tuple[Model, RewriteReport]:
    """`model` made ready for quantization, and what was done to it.

    Args:
        model: not changed; a raw one is legalized first.
        only: names of the passes to run, all if empty; see `graphport.passes.prepare.PREPARE`.
        skip: names of passes to leave out.
        shared: whether parameters that several nodes read are copied for each: `split`, `keep`, or `auto`, which
            copies them unless that takes more than 64 MiB; the report's `split-parameters` says which stay.
        verify: run both and compare; `None` does so where a backend and all weights are there and these are under
            `verify_limit` bytes.
        verify_limit: see `verify`.
        inputs: what to verify with; made up if `None`.

    Raises:
        DiagnosticError: `model` has errors, or verification was demanded and cannot be done.
        ValueError: there is no such pass, or no such treatment of shared parameters.
    """
    from graphport.passes.prepare import preparing

    passes = driver.select(preparing(shared), only, skip)
    return _checked(model, passes, inputs, verify=verify, verify_limit=verify_limit)


def simplify(
    model: Model,
    *,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    verify: bool | None = None,
    verify_limit: int = VERIFY_LIMIT,
    inputs: Mapping[str, Any] | None = None,
) -> tuple[Model, RewriteReport]:
    """A smaller model that computes the same, and what was done to it.

    Arguments and errors are those of `prepare`, which has `shared` besides, the passes those of
    `graphport.passes.simplify.SIMPLIFY`.
    """
    from graphport.passes.simplify import SIMPLIFY

    passes = driver.select(SIMPLIFY, only, skip)
    return _checked(model, passes, inputs, verify=verify, verify_limit=verify_limit)


def _checked(
    model: Model, passes: PassList, inputs: Mapping[str, Any] | None, *, verify: bool | None, verify_limit: int
) -> tuple[Model, RewriteReport]:
    source, result, report = _rewritten(model, passes)
    reason, comparison = _reason_to_skip(source, verify_limit, verify=verify), None
    if reason is None:
        comparison, reason = _verified_rewriting(source, result, inputs, is_demanded=bool(verify))
    note_checks(result.graph, comparison, reason)
    return result, replace(report, verification=comparison, skipped=reason)


@dataclass(frozen=True, eq=False)
class QuantizedModel(Model):
    """A quantized model, and the report on how it became one.

    `scales` are the lines of ncnn's calibration table, which is written beside a model for it.
    """

    report: QuantizationReport | None = None
    scales: tuple[Scales, ...] | None = None


def quantize(
    model: Model,
    calibration: object,
    target: str | None = None,
    *,
    settings: Settings | Mapping[str, Any] | str | None = None,
    told: Progress | None = None,
    statistics: str | Path | None = None,
    distributed: str | None = None,
    **changes: Any,
) -> QuantizedModel:
    """`model` on grids that its target computes with integers; `.report` says what was done and how good it is.

    Args:
        model: not changed; a raw one is legalized first.
        calibration: samples stacked along axis 0 by input name (a mapping, a `.npz`, a folder of `.npy`), or an
            iterable of such mappings, or a function that gives one.
        target: `onnxruntime`, `openvino`, `tensorrt`, `ncnn` or `nnef`; that of `settings` if `None`.
        settings: see `graphport.quantization.settings.Settings`; also as JSON.
        told: hears a stage, how much of it is done, and how much there is.
        statistics: a file where what was seen of the samples is kept, and read from if it is there.
        distributed: `ray` to observe samples on the machines of a Ray cluster, to the same last bit.
        **changes: settings by name.

    Raises:
        DiagnosticError: QUANT0001 to QUANT0003 the samples are at fault, QUANT0004 and QUANT0005 the settings,
            QUANT0006 the model is quantized already, QUANT0007 nothing of it can be quantized, QUANT0009 the statistics
            are of another model, QUANT0011 and QUANT0012 samples cannot be observed on other machines.
    """
    from graphport.quantization.quantize import quantize as quantize_graph
    from graphport.quantization.settings import Settings

    chosen = settings if isinstance(settings, Settings) else Settings.from_json(_plain(settings))
    chosen = chosen.updated(**changes, **({} if target is None else {"target": target}))
    graph = prepare(model, verify=False)[0].graph if chosen.prepare else _runnable(model)
    found, report, scales = quantize_graph(
        graph,
        calibration,
        chosen,
        told=told,
        statistics=None if statistics is None else Path(statistics),
        distributed=distributed,
    )
    result = QuantizedModel(found, model.format, model.path, model.findings, model.versions, report, scales)
    method = chosen.dispatch or Method.CONSERVATIVE
    candidates = dispatch(graph, method, floating=chosen.float_nodes, quantized=chosen.quantize_nodes)
    decisions = settled(candidates, found, report)
    note_documents(found, _origin(model), decisions=decisions, report=report, made_by="quantize")
    return result


def _plain(settings: Mapping[str, Any] | str | None) -> str | dict[str, Any]:
    return {} if settings is None else settings if isinstance(settings, str) else dict(settings)


def rewrite_file(
    source: str | Path,
    target: str | Path,
    passes: PassList,
    *,
    format: str | None = None,
    verify: bool | None = None,
    verify_limit: int = VERIFY_LIMIT,
    shapes: Shapes | None = None,
    edition: str | None = None,
    **options: Any,
) -> RewriteReport:
    """Read `source`, run `passes` over it, write `target`, then run both and hold them against each other.

    Passes are those of `graphport.passes.driver.select`; the other arguments, and the errors, those of `convert`.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    origin = formats.recognize(source)
    raw, findings = origin.read(source, edition=edition, shapes=shapes, tolerant=True)
    versions = origin.versions(raw)
    if shapes:
        bind_inputs(raw, shapes)
    model, result, report = _rewritten(
        Model(raw, origin.name, Path(source), findings, versions),
        driver.sayable(passes, kind.dialect) if kind.dialect else passes,
        is_bound=bool(shapes),
        opset=options.get("opset"),
    )
    reason = _reason_to_skip(model, verify_limit, verify=verify)
    newest = options.get("ir_opset")
    said = _said_in(result, kind, newest=newest) if kind.dialect else without_idle(result.graph)
    if kind.has_documents:
        note_checks(said, None, reason)
    kind.write(said, target, **options)
    comparison = None
    if reason is None:
        comparison, reason = _verified_rewriting(model, target, None, is_demanded=bool(verify))
        _write_checks(said, kind, target, comparison, reason, options)
    return replace(report, verification=comparison, skipped=reason)


def _rewritten(
    model: Model, passes: PassList, *, is_bound: bool = False, opset: int | None = None
) -> tuple[Model, Model, RewriteReport]:
    """`model` in canonical words, a rewritten copy, and what was done; the copy is going to be written at `opset`."""
    before, upgrade = driver.count_nodes(model.graph), upgraded(model.graph)
    legal, found = legalize(model.graph)
    findings = list(dict.fromkeys([*model.findings, *found]))
    raise_errors(findings)
    foreign = _foreign(model.graph)
    graph = legalize(model.graph, keep=foreign)[0] if foreign else legal
    graph = rewrite.copy(graph) if graph in (legal, model.graph) else graph
    if opset is not None:
        _write_at(graph, opset)
    outcomes = (upgrade, *driver.run(graph, passes))
    if not is_bound:
        _keep_symbols(model.graph, graph)
    if not passes.keeps_old_forms:
        _say_today(graph)
    source = replace(model, graph=legal, findings=findings)
    report = RewriteReport(outcomes, before, driver.count_nodes(graph), dispatch(graph), findings)
    decisions = None if passes.keeps_old_forms else report.decisions
    note_documents(graph, _origin(model), decisions=decisions, made_by=passes.name, passes=report.changes)
    return source, replace(source, graph=graph), report


def _origin(model: Model) -> Origin:
    return Origin("" if model.path is None else model.path.name, model.format, model.versions)


def _write_checks(
    graph: Graph,
    kind: formats.Format,
    target: str | Path,
    comparison: Comparison | None,
    skipped: str | None,
    options: Mapping[str, Any],
) -> None:
    """Write `graph` again, where there is room for how what was written first was held against its source."""
    if kind.has_documents:
        note_checks(graph, comparison, skipped)
        kind.write(graph, target, **options)


def _foreign(graph: Graph) -> set[str]:
    """Domains of ONNX besides the default one: who uses their operators knows why, so they stay as they are."""
    kind = formats.FORMATS["onnx"]
    spoken = {node.dialect for inner in walk(graph) for node in inner}
    return {dialect for dialect in spoken if dialect not in ("", kind.spoken) and kind.keeps(dialect)}


def _say_today(graph: Graph) -> None:
    """Let ONNX be written at an opset that has all nodes of `graph` as they are, not in forms of its source."""
    from graphport.formats.onnx import opsets
    from graphport.formats.onnx.findings import Findings

    _write_at(graph, opsets.choose(graph, opsets.words(walk(graph)), None, Findings(Source(graph.name))))


def _write_at(graph: Graph, opset: int) -> None:
    """Let `opset` be what ONNX is written at, and what passes take for granted."""
    from graphport.formats.onnx.notes import MODEL, ModelNotes, noted

    notes = noted(graph, ModelNotes, MODEL) or ModelNotes(ir_version=0)
    graph.notes[MODEL] = replace(notes, opset=opset)


def _keep_symbols(source: Graph, result: Graph) -> None:
    """Let outputs have the free axes that the source declares, also where the numbers turn out to be known."""
    for before, after in zip(source.outputs, result.outputs, strict=True):
        old, new = before.fact, after.fact
        if not isinstance(old, TensorFact) or not isinstance(new, TensorFact) or after.is_input or after.is_constant:
            continue
        if old.shape is None or new.shape is None or len(old.shape) != len(new.shape):
            continue
        after.fact = new.with_shape([_kept(a, b) for a, b in zip(old.shape, new.shape, strict=True)])


def _kept(old: Dim, new: Dim) -> Dim:
    """The free one of two extents; of two free ones the one that is said in fewer letters."""
    if isinstance(old, Symbolic) and isinstance(new, Symbolic):
        return min(new, old, key=lambda dim: len(str(dim)))
    return old if isinstance(old, Symbolic) else new


def _reason_to_skip(model: Model, limit: int, *, verify: bool | None) -> str | None:
    if verify is False:
        return "not asked for"
    graphs = list(walk(model.graph))
    constants = [value for inner in graphs for value in inner.constants if value.uses]
    missing = [value.name for value in constants if value.storage is None]
    opaque = sorted({node.op for inner in graphs for node in inner if node.dialect})
    weights = sum(value.storage.nbytes for value in constants if value.storage is not None)
    reason = None
    if missing:
        reason = f"the numbers of {len(missing)} weights are not there"
    elif opaque:
        reason = f"no backend runs {', '.join(opaque)}"
    elif verify is None and weights > limit:
        reason = f"{weights >> 20} MiB of weights are above the limit of {limit >> 20} MiB"
    if reason is not None and verify:
        remedy = "leave --verify out to convert without"
        raise DiagnosticError(Diagnostic("RUN0010", f"the conversion cannot be verified: {reason}", None, remedy))
    return reason


def _verified(
    model: Model, target: Model | str | Path, inputs: Mapping[str, Any] | None, *, is_demanded: bool
) -> tuple[Comparison | None, str | None]:
    """The comparison of `model` with what it became, or why there is none: nothing can be run to compare with."""
    try:
        given, expected = _first_run(model) if inputs is None else (dict(inputs), run(model, inputs))
    except DiagnosticError as error:
        if is_demanded or inputs is not None:
            raise
        return None, error.diagnostics[0].message
    other = target if isinstance(target, Model) else load(target)
    return _compared(model, expected, other, given, "auto"), None


def _verified_rewriting(
    model: Model, target: Model | str | Path, inputs: Mapping[str, Any] | None, *, is_demanded: bool
) -> tuple[Comparison | None, str | None]:
    """The same, where `target` is `model` rewritten: in half precision it rounds at other places."""
    comparison, reason = _verified(model, target, inputs, is_demanded=is_demanded)
    least = least_snr(model.graph)
    if comparison is None or least is None:
        return comparison, reason
    return comparison.within(least, "computed in half precision"), reason


def _first_run(
    model: Model, backend: str = "auto", *, every_value: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs that are made up and that a model runs with, and what it computes of them.

    Raises:
        DiagnosticError: no inputs can be made up, or it runs with none of those that were tried.
    """
    graph = _runnable(model)
    given, runner = made_up(graph), Runner(graph, backend)
    try:
        return given, runner.run(given, every_value=every_value)
    except DiagnosticError as error:
        for other in islice(made_up_otherwise(graph), MOST_TRIED):
            with suppress(DiagnosticError):
                return other, runner.run(other, every_value=every_value)
        raise error from None


def run(
    model: Model,
    inputs: Mapping[str, Any],
    *,
    backend: str = "auto",
    every_value: bool = False,
    threads: int = 0,
) -> dict[str, Any]:
    """One run: arrays by input name to arrays by output name.

    Args:
        model: raw ones are legalized first.
        inputs: converted to the declared element types where that loses nothing.
        backend: `auto` or one of `graphport.backends.BACKENDS`.
        every_value: all values that are computed, not the outputs alone.
        threads: to compute on, where the backend can be told; as many as it likes if 0.

    Raises:
        DiagnosticError: inputs do not fit, the backend is not there, or it cannot run the model.
    """
    return session(model, backend, threads=threads).run(inputs, every_value=every_value)


class Runner:
    """A model that is ready to be run many times."""

    def __init__(self, graph: Graph, backend: str, threads: int = 0) -> None:
        self._graph = graph
        self._session = prepare_session(graph, backend, threads=threads)

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        """One run, as `graphport.run` does it."""
        return self._session.run(checked(self._graph, inputs), every_value=every_value)


def session(model: Model, backend: str = "auto", *, threads: int = 0) -> Runner:
    """`model` loaded into a backend once, for many runs; see `run`."""
    return Runner(_runnable(model), backend, threads)


def _runnable(model: Model) -> Graph:
    graph, findings = legalize(model.graph)
    raise_errors(findings)
    return graph


def compare(
    a: Model,
    b: Model,
    inputs: Mapping[str, Any] | None = None,
    *,
    backend: str = "auto",
    every_value: bool = False,
) -> Comparison:
    """Run two models on the same inputs and hold `b` against `a`, output by output.

    Args:
        a: the model that is right.
        b: the other one; its inputs are paired with those of `a` by name, else by position.
        inputs: by the names of `a`; made up if `None`.
        backend: see `run`.
        every_value: compare all values that both compute under one name, in the order of `a`.
    """
    if inputs is None:
        given, first = _first_run(a, backend, every_value=every_value)
    else:
        given, first = dict(inputs), run(a, inputs, backend=backend, every_value=every_value)
    return _compared(a, first, b, given, backend, every_value=every_value)


def _compared(
    a: Model, first: Mapping[str, Any], b: Model, given: Mapping[str, Any], backend: str, *, every_value: bool = False
) -> Comparison:
    """`b`, run on `given`, held against `first`, which `a` computed from it."""
    second = run(b, _paired(given, a, b), backend=backend, every_value=every_value)
    outputs = compare_outputs({n: first[n] for n in a.outputs}, {n: second[n] for n in b.outputs}, _originals(b))
    if not every_value:
        return outputs
    values = tuple(difference(name, x, second[name]) for name, x in first.items() if name in second)
    return Comparison(outputs.outputs, values, outputs.notes)


def _originals(model: Model) -> dict[str, str]:
    return {
        v.name: str(v.notes["original_name"])
        for v in model.graph.values()
        if v.has_notes and "original_name" in v.notes
    }


def _paired(given: Mapping[str, Any], a: Model, b: Model) -> dict[str, Any]:
    originals = {original: name for name, original in _originals(b).items()}
    free = [name for name in b.inputs if name not in a.inputs and name not in originals.values()]
    found: dict[str, Any] = {}
    for name, array in given.items():
        other = name if name in b.inputs else originals.get(name)
        if other is None and free:
            other = free.pop(0)
        found[other or name] = array
    return found


def from_onnx(model: Any) -> Model:
    """The model of an `onnx.ModelProto` or `onnx_ir.Model`."""
    kind = formats.FORMATS["onnx"]
    findings: list[Diagnostic] = []
    make = kind.module.from_ir if type(model).__module__.startswith("onnx_ir") else kind.module.from_proto
    raw = make(model, findings=findings)
    graph, found = legalize(raw)
    raise_errors(found)
    return Model(graph, "onnx", None, [*findings, *found], kind.versions(raw))


def to_onnx(model: Model) -> Any:
    """`model` as an `onnx.ModelProto`.

    Raises:
        DiagnosticError: LEG0001 for nodes that have no canonical form and belong to no ONNX domain.
    """
    kind = formats.FORMATS["onnx"]
    return kind.module.to_proto(_said_in(model, kind))
