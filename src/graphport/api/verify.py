"""Whether a model still computes what it computed before it was converted or rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.api.compare import compared
from graphport.api.load import load
from graphport.api.model import Model
from graphport.api.run import first_run, run
from graphport.backends import is_spoken
from graphport.comparison.precision import least_snr
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.comparison import Comparison


VERIFY_LIMIT = 512 << 20
"""Bytes of weights above which `convert` does not verify unless it is told to."""


def reason_to_skip(model: Model, limit: int, *, verify: bool | None) -> str | None:
    """Why what `model` becomes is not held against it, or `None`; `verify` and `limit` are those of `convert`.

    Raises:
        DiagnosticError: RUN0010, it was demanded and cannot be done.
    """
    if verify is False:
        return "not asked for"
    graphs = list(walk(model.graph))
    constants = [value for inner in graphs for value in inner.constants if value.uses]
    missing = [value.name for value in constants if value.storage is None]
    opaque = sorted({node.op for inner in graphs for node in inner if node.dialect and not is_spoken(node.dialect)})
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


def verified(
    model: Model, target: Model | str | Path, inputs: Mapping[str, Any] | None, *, is_demanded: bool
) -> tuple[Comparison | None, str | None]:
    """The comparison of `model` with what it became, or why there is none: nothing can be run to compare with."""
    try:
        given, expected = first_run(model) if inputs is None else (dict(inputs), run(model, inputs))
    except DiagnosticError as error:
        if is_demanded or inputs is not None:
            raise
        return None, error.diagnostics[0].message
    # Of words that nobody but their own runtime knows, some draw numbers by chance.
    is_known = not any(node.dialect for inner in walk(model.graph) for node in inner)
    if not is_known and not compared(model, expected, model, given, "auto").passed:
        return None, "two runs of the model differ"
    other = target if isinstance(target, Model) else load(target)
    return compared(model, expected, other, given, "auto"), None


def verified_rewriting(
    model: Model, target: Model | str | Path, inputs: Mapping[str, Any] | None, *, is_demanded: bool
) -> tuple[Comparison | None, str | None]:
    """The same, where `target` is `model` rewritten: in half precision it rounds at other places."""
    comparison, reason = verified(model, target, inputs, is_demanded=is_demanded)
    least = least_snr(model.graph)
    if comparison is None or least is None:
        return comparison, reason
    return comparison.within(least, "computed in half precision"), reason
