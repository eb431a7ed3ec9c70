"""Converting files from one format to another; every one is proven by default."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Unpack

from graphport import formats
from graphport.api.documents import origin
from graphport.api.load import load
from graphport.api.proven_write import Checking, verdict_of, write_proven
from graphport.api.save import Export, apply_options, export, fold_constants
from graphport.api.temporary_source import SOURCE_NAME, path_of, write_temporary
from graphport.api.verify import expect, reason_to_skip, side
from graphport.conversion.coverage import missing_operators
from graphport.conversion.operator_mapping import OperatorMapping, map_operators
from graphport.core.argument_types import check_arguments
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.core.facts import TensorFact
from graphport.core.log import log_findings
from graphport.core.short_repr import short_repr
from graphport.quantization.record import note_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from graphport.api.model import Model, ModelSource, Shapes
    from graphport.formats.options import FileOptions
    from graphport.ir.graph import Graph
    from graphport.proof.document import Proof
    from graphport.proof.side import Side
    from graphport.proof.verdict import Verdict

P = ParamSpec("P")


@short_repr
@dataclass(frozen=True)
class ConversionReport:
    """The result of `convert`.

    `unsupported` counts the operators that the target cannot express; if there are any, nothing is written. `proof` is
    `None` if no proof was made; `skipped` is why nothing was verified. `written` is the file that was written: the
    target, or `NAME.failed`.
    """

    source: str
    target: str
    format: str
    unsupported: dict[str, int] = field(default_factory=dict[str, int])
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    proof: Proof | None = None
    skipped: str | None = None
    written: str | None = None
    graphs: tuple[Graph, Graph] | None = field(default=None, repr=False, compare=False)
    """The canonical graph and the target's dialect graph; `None` where the model stays in its dialect."""

    @property
    def operator_mapping(self) -> list[OperatorMapping]:
        """The operators of the target that each operator was converted to."""
        return [] if self.graphs is None else map_operators(*self.graphs)

    words = operator_mapping  # the earlier name

    @property
    def verdict(self) -> Verdict:
        """The verdict of the proof; `not verified` if there is none."""
        return verdict_of(self.proof)

    @property
    def verification(self) -> Proof | None:
        """The proof, where something was proven or refuted."""
        return None if self.proof is None or self.skipped is not None else self.proof

    @property
    def passed(self) -> bool:
        """Whether it was written and no verification failed."""
        return not self.unsupported and (self.verification is None or self.verification.passed)


def _read_from_file(
    function: Callable[Concatenate[str | Path, P], ConversionReport],
) -> Callable[Concatenate[ModelSource, P], ConversionReport]:
    """Extend `function`, which takes a path, to models in memory, which are written to a temporary file."""

    @wraps(function)
    def read(source: ModelSource, *args: P.args, **keywords: P.kwargs) -> ConversionReport:
        path = path_of(source)
        if path is not None:
            return function(path, *args, **keywords)
        with write_temporary(source) as file:
            return replace(function(file, *args, **keywords), source=SOURCE_NAME)

    return read


@_read_from_file
@check_arguments
def convert(  # noqa: PLR0913  keywords, each documented
    source: str | Path,
    target: str | Path,
    *,
    format: str | None = None,
    verify: bool | None = None,
    verify_limit: int | None = None,
    shapes: Shapes | None = None,
    inputs: Mapping[str, Any] | None = None,
    edition: str | None = None,
    keep_failed: bool = False,
    effort: float | str = "default",
    require_coverage: bool = False,
    program: str | None = None,
    states: bool = False,
    **options: Unpack[FileOptions],
) -> ConversionReport:
    """Read `source`, write `target`, and prove that both files compute the same, each in its native runtime.

    Args:
        source: a model in any format: a path, or what `load` accepts.
        target: the file to write; an existing file is replaced when the new file is complete and its proof has not
            failed.
        format: the target's format, if it does not follow from the file name.
        verify: `None` proves if possible; `True` refuses a verdict weaker than `verified where covered`.
        verify_limit: bytes of weights above which `None` skips the proof; limited by memory if `None`.
        shapes: binds open dims of inputs.
        inputs: test inputs for the proof; random if `None`.
        edition: of an NNEF source.
        keep_failed: keep a file whose proof failed, as `NAME.failed`.
        effort: seconds for the search for further test inputs (5 by `default`); `full` also runs the reference
            interpreter.
        require_coverage: refuse a verdict that is weaker than `verified`.
        program: of a PyTorch package, see `load`.
        states: of a PyTorch program, see `load`.
        **options: of the writer.

    Returns:
        The report. If the target does not support an operator, nothing is written, and `unsupported` counts all of
            them.

    Raises:
        DiagnosticError: `source` has errors, or verification was required and is not possible.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    if verify is not False:
        expect(formats.recognize(source), kind)
    model = load(source, shapes=shapes, edition=edition, program=program, states=states)
    report: dict[str, Any] = {"source": str(source), "target": str(target), "format": kind.name}
    reason_to_skip(model, verify_limit, verify=verify)  # refuses before any work
    is_faithful = (
        kind.name == model.format and not shapes and program is None and options.keys() <= set(kind.faithful_choices)
    )
    raw = load(source, raw=True, edition=edition) if is_faithful else None
    if raw is not None and kind.can_stay(raw.graph, **options):
        stated = Export(raw.graph, options)
    else:
        raw = None
        try:
            stated = export(model, kind, options)
        except DiagnosticError as error:
            graph = apply_options(model.graph, options)
            missing = missing_operators(fold_constants(graph) or graph, kind, **options)
            if not missing:
                raise
            return ConversionReport(**report, unsupported=missing, findings=[*model.findings, *error.diagnostics])
        if not kind.dialect and (missing := missing_operators(stated.graph, kind)):
            return ConversionReport(**report, unsupported=missing, findings=model.findings)
        if kind.has_documents:
            note_documents(stated.graph, origin(model), made_by="convert")

    def with_ncnn(written: Path) -> list[Diagnostic]:
        return _write_ncnn(source, written, shapes=shapes, edition=edition, verify=verify)

    done = write_proven(
        stated,
        target,
        kind,
        source=model,
        against=_source(model, options, program),
        checking=Checking(verify, verify_limit, keep_failed, effort, require_coverage),
        inputs=inputs,
        least_snr=kind.least_snr(**options),
        has_checks=raw is None,
        before_accepting=with_ncnn if options.get("code") and kind.name == "pnnx" else None,
    )
    log_findings(done.findings)
    findings = [*model.findings, *done.findings]
    return ConversionReport(
        **report,
        findings=findings,
        proof=done.proof,
        skipped=done.skipped,
        written=done.written,
        graphs=(model.graph, stated.graph) if raw is None else None,
    )


def _write_ncnn(source: str | Path, pnnx: Path, **reading: Any) -> list[Diagnostic]:
    """Write `NAME.ncnn.param` next to `NAME.pnnx.param`, and `NAME_ncnn.py` that runs it; a warning on failure."""
    from graphport.core.atomic_write import replacing
    from graphport.formats.ncnn.container.python_code import code_of

    base = pnnx.name.removesuffix(".param").removesuffix(".pnnx")
    place = pnnx.with_name(f"{base}.ncnn.param")
    report = convert(source, place, **reading)
    if not report.passed:
        reasons = [each.message for each in report.findings if each.is_error] or [str(report.proof)]
        message = f"{base}_ncnn.py is not written: {'; '.join(reasons)}"
        remedy = f"run graphport convert to {place.name} for the reasons"
        return [Diagnostic("PNNX0306", message, None, remedy, Severity.WARNING)]
    graph = load(place).graph
    with replacing(place.with_name(f"{base}_ncnn.py")) as file:
        file.write(code_of(f"{base}.ncnn", graph).encode("utf-8", "backslashreplace"))
    return []


def _source(model: Model, options: Mapping[str, Any], program: str | None) -> Side:
    """Return the side to compare the file with: the source file, or the model read from it if the batch changes."""
    batch = options.get("batch")
    facts = [value.fact for value in model.graph.inputs]
    lengths = {fact.shape[0] for fact in facts if isinstance(fact, TensorFact) and fact.shape}
    if batch is None or not any(isinstance(length, int) and length != batch for length in lengths):
        # Its runtime runs the first program of a file.
        return side("a", model, is_file=program is None)
    twin = replace(model, graph=apply_options(model.graph, {"batch": batch}))
    name = "the model" if model.path is None else model.path.name
    return side("a", twin, is_file=False, label=f"{name} with a batch of {batch}")
