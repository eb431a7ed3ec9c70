"""Preparing and simplifying models and files; verification by default happens here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from graphport import formats
from graphport.api.dialect_graphs import custom_domains, restore_custom_operators
from graphport.api.documents import origin
from graphport.api.load import as_model, normalize_shapes
from graphport.api.macs import compare_summaries
from graphport.api.model import Model
from graphport.api.proven_write import Checking, verdict_of, write_proven
from graphport.api.save import Export, export
from graphport.api.verify import expect, proven, reason_to_skip, side, tolerance
from graphport.conversion.legalize import legalize
from graphport.conversion.unused_constants import remove_unused_constants
from graphport.core import budget
from graphport.core.argument_types import check_arguments
from graphport.core.diagnostics import Diagnostic, Source, raise_errors
from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.core.short_repr import short_repr
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ops.bind import bind_inputs
from graphport.passes import driver
from graphport.passes.upgrade import find_upgraded_nodes
from graphport.quantization.dispatch import dispatch
from graphport.quantization.record import note_checks, note_documents

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.api.model import ModelSource, Shapes
    from graphport.conversion.inspection import Inspection
    from graphport.core.dims import Dim
    from graphport.formats.options import FileOptions
    from graphport.ir.graph import Graph, Node
    from graphport.passes.driver import Outcome, PassList
    from graphport.proof.document import Proof
    from graphport.proof.verdict import Verdict
    from graphport.quantization.dispatch import Decision


@short_repr
@dataclass(frozen=True)
class RewriteReport:
    """The result of `prepare` or `simplify`: changes and skipped cases of each pass, and whether the outputs agree.

    `proof` is `None` if no proof was made; `skipped` is why nothing was verified. `written` is the path of the written
    file, if any: the target, or `NAME.failed`.
    """

    passes: tuple[Outcome, ...]
    nodes_before: int
    nodes_after: int
    graph: Graph = field(repr=False)
    """The result."""
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    proof: Proof | None = None
    skipped: str | None = None
    written: str | None = None
    source: Graph | None = field(default=None, repr=False)
    """The model before the passes."""

    @cached_property
    def sizes(self) -> tuple[Inspection, Inspection] | None:
        """Summaries before and after; operations are counted at equal sizes, or with equal formulas."""
        if self.source is None:
            return None
        return compare_summaries(self.source, self.graph)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the proof; `not verified` if there is none."""
        return verdict_of(self.proof)

    @property
    def verification(self) -> Proof | None:
        """The proof, where something was proven or refuted."""
        return None if self.proof is None or self.skipped is not None else self.proof

    @cached_property
    def decisions(self) -> dict[Node, Decision]:
        """Return where each node of the result would be computed if it were quantized."""
        return dispatch(self.graph)

    @property
    def passed(self) -> bool:
        """Whether no verification failed."""
        return self.verification is None or self.verification.passed

    @property
    def changes(self) -> dict[str, int]:
        """Number of changes by pass name."""
        return {outcome.name: outcome.changes for outcome in self.passes}

    def verified(self, proof: Proof | None, skipped: str | None, written: str | None = None) -> RewriteReport:
        """Return the report with the result of its verification."""
        twin = replace(self, proof=proof, skipped=skipped, written=written)
        for name in vars(self).keys() & {"decisions", "sizes"}:
            vars(twin)[name] = vars(self)[name]
        return twin


@check_arguments
def prepare(
    model: ModelSource,
    *,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    shared: str = "auto",
    verify: bool | None = None,
    verify_limit: int | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> tuple[Model, RewriteReport]:
    """Prepare `model` for quantization; return the result and a report.

    Args:
        model: not changed; a raw model is legalized first. Operators of other ONNX domains (`com.microsoft`) in the
            file stay, as on the command line.
        only: names of the passes to run, all if empty; see `graphport.passes.prepare.PREPARE`.
        skip: names of passes to leave out.
        shared: whether parameters that several nodes read are copied for each: `split`, `keep`, or `auto`, which
            copies them unless that takes more than 64 MiB; the report's `split-parameters` lists those that
                stay shared.
        verify: run both and compare; `None` does so if possible, `True` fails if it is not possible.
        verify_limit: bytes of weights above which `None` skips verification; limited by memory if `None`.
        inputs: test inputs; random if `None`.

    Raises:
        DiagnosticError: `model` has errors, or verification was required and is not possible.
        ValueError: unknown pass, or unknown value of `shared`.
    """
    model = as_model(model)
    from graphport.passes.prepare import preparing

    passes = driver.select(preparing(shared), only, skip)
    return _checked(model, passes, inputs, verify=verify, verify_limit=verify_limit)


@check_arguments
def simplify(
    model: ModelSource,
    *,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    verify: bool | None = None,
    verify_limit: int | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> tuple[Model, RewriteReport]:
    """Return a smaller model that computes the same, and a report.

    Arguments and errors are those of `prepare` except `shared`; the passes are those of
    `graphport.passes.simplify.SIMPLIFY`.
    """
    model = as_model(model)
    from graphport.passes.simplify import SIMPLIFY

    passes = driver.select(SIMPLIFY, only, skip)
    return _checked(model, passes, inputs, verify=verify, verify_limit=verify_limit)


def rewrite_file(  # noqa: PLR0913  keywords, each documented
    source: str | Path,
    target: str | Path,
    passes: PassList,
    *,
    format: str | None = None,
    verify: bool | None = None,
    verify_limit: int | None = None,
    shapes: Shapes | None = None,
    edition: str | None = None,
    keep_failed: bool = False,
    effort: float | str = "default",
    require_coverage: bool = False,
    program: str | None = None,
    states: bool = False,
    **options: Unpack[FileOptions],
) -> RewriteReport:
    """Read `source`, run `passes` over it, write `target`, and prove that both files compute the same.

    Passes are those of `graphport.passes.driver.select`; the other arguments, and the errors, those of `convert`.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    origin = formats.recognize(source)
    if verify is not False:
        expect(origin, kind)
    reading = {"edition": edition, "program": program, "states": states}
    shapes = normalize_shapes(shapes)
    raw, findings = origin.read(source, shapes=shapes, tolerant=True, **reading)
    versions = origin.versions(raw)
    if shapes:
        bind_inputs(raw, shapes)
    model, result, report = _rewritten(
        Model(raw, origin.name, Path(source), findings, versions),
        driver.supported_passes(passes, kind.dialect) if kind.dialect else passes,
        is_bound=bool(shapes),
        opset=options.get("opset"),
    )
    stated = export(result, kind, options) if kind.dialect else Export(remove_unused_constants(result.graph), options)
    checking = Checking(verify, verify_limit, keep_failed, effort, require_coverage)
    became = write_proven(stated, target, kind, source=model, against=side("a", model), checking=checking)
    report.findings.extend(became.findings)
    return report.verified(became.proof, became.skipped, became.written)


def _checked(
    model: Model, passes: PassList, inputs: Mapping[str, Any] | None, *, verify: bool | None, verify_limit: int | None
) -> tuple[Model, RewriteReport]:
    source, result, report = _rewritten(restore_custom_operators(model), passes)
    reason, proof = reason_to_skip(source, verify_limit, verify=verify), None
    if reason is None:
        # The model in memory may differ from the file on disk.
        sides = side("a", source, is_file=False), side("b", result, is_file=False)
        proof = proven(*sides, inputs, tolerance(source), is_demanded=bool(verify))
        reason = proof.unproven
    note_checks(result.graph, proof, reason)
    return result, report.verified(proof, reason)


@budget.fresh()
def _rewritten(
    model: Model, passes: PassList, *, is_bound: bool = False, opset: int | None = None
) -> tuple[Model, Model, RewriteReport]:
    """Return the canonical `model`, a rewritten copy, and the report; the copy will be written at `opset`."""
    before, upgrade = driver.count_nodes(model.graph), find_upgraded_nodes(model.graph)
    legal, found = legalize(model.graph)
    findings = list(dict.fromkeys([*model.findings, *found]))
    raise_errors(findings)
    domains = custom_domains(model.graph)
    graph = legalize(model.graph, keep=domains)[0] if domains else legal
    graph = rewrite.copy(graph) if graph in (legal, model.graph) else graph
    if opset is not None:
        _write_at(graph, opset)
    outcomes = (upgrade, *driver.run(graph, passes))
    if not is_bound:
        _keep_symbols(model.graph, graph)
    if not passes.keeps_old_forms:
        _write_at_own_opset(graph)
    source = replace(model, graph=legal, findings=findings)
    report = RewriteReport(outcomes, before, driver.count_nodes(graph), graph, [*findings], source=legal)
    decisions = None if passes.keeps_old_forms else report.decisions
    note_documents(graph, origin(model), decisions=decisions, made_by=passes.name, passes=report.changes)
    return source, replace(source, graph=graph), report


def _write_at_own_opset(graph: Graph) -> None:
    """Write ONNX at an opset that contains all nodes of `graph` without conversion to another opset."""
    from graphport.formats.onnx.container import opset_conversion, opsets
    from graphport.formats.onnx.container.findings import Findings

    used = opsets.count_op_types(walk(graph))
    version = opset_conversion.unchanged(graph, used)
    _write_at(
        graph, opsets.choose_opset(graph, used, None, Findings(Source(graph.name))) if version is None else version
    )


def keep_opset(source: Graph, graph: Graph) -> None:
    """Write ONNX at the opset of `source`, if all nodes of `graph` exist in it."""
    from graphport.formats.onnx.container import opsets

    opset = opsets.source(source)
    if opset is not None:
        _write_at(graph, opset)


def _write_at(graph: Graph, opset: int) -> None:
    """Set `opset` as the opset of the file and of the passes."""
    from graphport.formats.onnx.container.notes import MODEL, ModelNotes, noted

    notes = noted(graph, ModelNotes, MODEL) or ModelNotes(ir_version=0)
    graph.notes[MODEL] = replace(notes, opset=opset)


def _keep_symbols(source: Graph, result: Graph) -> None:
    """Keep the symbolic dims of outputs that the source declares, also if their sizes turn out to be known."""
    # States of the source are outputs of the result after all others.
    for before, after in zip(source.outputs, result.outputs, strict=False):
        old, new = before.fact, after.fact
        if not isinstance(old, TensorFact) or not isinstance(new, TensorFact) or after.is_input or after.is_constant:
            continue
        if old.shape is None or new.shape is None or len(old.shape) != len(new.shape):
            continue
        after.fact = new.with_shape([_choose_dim(a, b) for a, b in zip(old.shape, new.shape, strict=True)])


def _choose_dim(old: Dim, new: Dim) -> Dim:
    """Return the symbolic one of two dims; of two symbolic dims the shorter text."""
    if isinstance(old, Symbolic) and isinstance(new, Symbolic):
        return min(new, old, key=lambda dim: len(str(dim)))
    return old if isinstance(old, Symbolic) else new
