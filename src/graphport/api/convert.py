"""Converting files from one format to another; verification by default happens here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport import formats
from graphport.api.documents import origin, write_checks
from graphport.api.load import load
from graphport.api.save import resolved, said_in
from graphport.api.verify import VERIFY_LIMIT, reason_to_skip, verified
from graphport.conversion.coverage import unsaid
from graphport.conversion.lift import lift
from graphport.core.diagnostics import Diagnostic
from graphport.quantization.record import note_checks, note_documents

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.api.model import Shapes
    from graphport.comparison import Comparison


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
    said, skipped = None, reason_to_skip(model, verify_limit, verify=verify)
    is_faithful = kind.name == model.format and not shapes and options.keys() <= set(kind.faithful_choices)
    raw = load(source, raw=True, edition=edition) if is_faithful else None
    if raw is not None and kind.can_stay(raw.graph, **options):
        kind.write(raw.graph, target, **options)
    else:
        is_whole = not options.get("allow_fragments")
        missing = unsaid(model.graph, kind) if is_whole else {}
        if missing:
            known = resolved(model.graph)
            missing = unsaid(known, kind)
            if missing:
                _, findings = lift(known, kind.dialect)
                return ConversionReport(**report, unsupported=missing, findings=[*model.findings, *findings])
        said = said_in(model, kind, is_whole=is_whole, newest=options.get("ir_opset"))
        if kind.has_documents:
            note_documents(said, origin(model), made_by="convert")
            note_checks(said, None, skipped)
        kind.write(said, target, **options)
    comparison, is_tried = None, skipped is None
    if is_tried:
        comparison, skipped = verified(model, target, inputs, is_demanded=bool(verify))
    least = kind.least_snr(**options)
    if comparison is not None and least is not None:
        comparison = comparison.within(least)
    if said is not None and is_tried:
        write_checks(said, kind, target, comparison, skipped, options)
    return ConversionReport(**report, findings=model.findings, verification=comparison, skipped=skipped)
