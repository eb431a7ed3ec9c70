"""Proofs of the equivalence of two models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport import formats
from graphport.api.load import load
from graphport.api.temporary_source import path_of
from graphport.comparison.precision import least_snr
from graphport.conversion.legalize import legalize
from graphport.core.argument_types import check_arguments
from graphport.core.diagnostics import Diagnostic, DiagnosticError, raise_errors
from graphport.ir.graph import walk
from graphport.proof.case import Effort, Tolerance
from graphport.proof.document import write_document
from graphport.proof.interface import ASPECTS
from graphport.proof.judge import prove
from graphport.proof.process import pool
from graphport.proof.runners import process_key
from graphport.proof.runtimes import RUNTIMES
from graphport.proof.side import Side
from graphport.runtimes.inputs import named_inputs
from graphport.runtimes.memory import size_of, weights

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphport.api.model import Inputs, Model, ModelSource, Shapes
    from graphport.proof.document import Proof
    from graphport.proof.interface import Aspect

_FULL_EFFORT = Effort(60.0, asks_reference=True)


@check_arguments
def verify(  # noqa: PLR0913  keywords, each documented
    a: ModelSource,
    b: ModelSource,
    inputs: Inputs | None = None,
    *,
    shapes: Shapes | None = None,
    edition: str | None = None,
    proof: str | Path | None = None,
    effort: float | str = "default",
    any_interface: bool = False,
    program: str | None = None,
    states: bool = False,
) -> Proof:
    """Run two files in their native runtimes on the same test inputs, and compare the outputs.

    Args:
        a: the source; a model in memory is computed by graphport, so that the verdict is at most `consistent`.
        b: the model that should compute equal outputs.
        inputs: by the names of `a`, or as for `run`; random if `None`.
        shapes: binds open dims of inputs of both.
        edition: of NNEF.
        proof: a file to write the proof to, with all data to repeat it.
        effort: seconds for the search for further test inputs (5 by `default`); `full` also runs the reference
            interpreter.
        any_interface: accept other names, element types and open dims of inputs and outputs.
        program: of PyTorch packages, see `load`.
        states: of PyTorch programs, see `load`.

    Raises:
        DiagnosticError: a file has errors, or `inputs` do not fit.
        ValueError: unknown effort.
    """
    paths = [path_of(each) for each in (a, b)]
    kinds = [formats.recognize(path) for path in paths if path is not None]
    if len(kinds) == 2:
        expect(*kinds)
    asked: dict[str, Any] = {"shapes": shapes, "edition": edition, "program": program, "states": states}
    first, second = load(a, **asked), load(b, **asked)
    found = _judged(
        side("a", first, is_file=paths[0] is not None),
        side("b", second, is_file=paths[1] is not None),
        None if inputs is None else named_inputs(first.graph, inputs),
        tolerance(first),
        effort,
        ASPECTS if any_interface else (),
    )
    if proof is not None:
        files = dict(zip("ab", paths, strict=True))
        write_document(Path(proof), found, files, {**asked, "effort": effort})
    return found


def effort_of(effort: float | str) -> Effort:
    """Parse the effort of a proof: seconds, `default`, or `full`, for which the reference interpreter runs both sides.

    Raises:
        ValueError: unknown effort.
    """
    if effort == "default":
        return Effort()
    if effort == "full":
        return _FULL_EFFORT
    try:
        seconds = float(effort)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        message = f"unknown effort {effort!r}: expected a number of seconds, 'default' or 'full'"
        raise ValueError(message)
    return Effort(seconds)


def expect(a: formats.Format, b: formats.Format) -> None:
    """Start the processes of two formats' runtimes, which load while graphport reads the models."""
    for letter, kind in (("a", a), ("b", b)):
        runtime = RUNTIMES.get(kind.name)
        if runtime is not None and runtime.is_installed:
            pool().prestart(runtime, process_key(letter))


def side(
    letter: str, model: Model, *, is_file: bool = True, label: str | None = None, made_of: Sequence[Model] = ()
) -> Side:
    """Return a side of a proof: `model` as read, and its file, unless the model differs from the file.

    A model in memory can be `made_of` other models that have files.

    Raises:
        DiagnosticError: errors of `legalize`.
    """
    graph, findings = legalize(model.graph)
    raise_errors(findings)
    path = model.path if is_file else None
    name = label or (
        model.path.name if model.path is not None else "the first model" if letter == "a" else "the second"
    )
    runtime = RUNTIMES.get(model.format) if path is not None else None
    is_known = runtime is not None and runtime.is_decisive_reader(model.versions)
    format = model.format if path is not None else ""
    return Side(letter, name, graph, path, runtime, size_of_files(model, *made_of), format, is_known)


def size_of_files(*models: Model) -> int | None:
    """Bytes of the files that models were read from, if any was."""
    sizes = [size for each in models if (size := size_of(each.graph, each.path)) is not None]
    return sum(sizes) if sizes else None


def tolerance(model: Model, least: float | None = None) -> Tolerance:
    """Return the tolerance for two runs of `model`; `least` is the SNR in dB that converted weights guarantee."""
    narrow = least_snr(model.graph)
    if least is not None and (narrow is None or least < narrow):
        return Tolerance(least_snr=least, reason="quantized weights")
    return Tolerance(least_snr=narrow, reason="half-precision computation")


def reason_to_skip(model: Model, limit: int | None, *, verify: bool | None) -> str | None:
    """Return why the proof of `model` is skipped, or `None`; `verify` and `limit` are those of `convert`.

    Raises:
        DiagnosticError: RUN0010, the proof was required and is not possible.
    """
    if verify is False:
        return "not requested"
    constants = [value for inner in walk(model.graph) for value in inner.constants if value.uses]
    missing = [value.name for value in constants if value.storage is None]
    found = weights(model.graph)
    if missing:
        return refused_if(f"the elements of {len(missing)} weights are missing", is_demanded=bool(verify))
    if limit is not None and verify is None and found > limit:
        return f"{found >> 20} MiB of weights exceed the limit of {limit >> 20} MiB"
    return None


def refused_if(reason: str, *, is_demanded: bool) -> str:
    """Return `reason`, why there is no proof; if a proof was demanded, raise it as an error.

    Raises:
        DiagnosticError: RUN0010, a proof was demanded.
    """
    if is_demanded:
        remedy = "remove --verify and --strict to write the file with a weaker verdict"
        raise DiagnosticError(Diagnostic("RUN0010", f"the conversion cannot be verified: {reason}", None, remedy))
    return reason


def proven(
    a: Side,
    b: Side,
    inputs: Mapping[str, Any] | None,
    tolerated: Tolerance,
    *,
    is_demanded: bool,
    is_strict: bool = False,
    effort: float | str = "default",
    allowed: Collection[Aspect] = (),
) -> Proof:
    """Prove that `b` computes the outputs of `a`.

    Raises:
        DiagnosticError: RUN0010, the verdict is weaker than required; `inputs` do not fit.
    """
    found = _judged(a, b, inputs, tolerated, effort, allowed)
    if not found.failed and found.exit_code(is_demanded=is_demanded, is_strict=is_strict):
        refused_if(found.unproven or found.sentence, is_demanded=True)
    return found


def _judged(
    a: Side,
    b: Side,
    inputs: Mapping[str, Any] | None,
    tolerated: Tolerance,
    effort: float | str,
    allowed: Collection[Aspect],
) -> Proof:
    """A proof, with the first node that differs if it fails."""
    found = prove(a, b, given=inputs, tolerance=tolerated, effort=effort_of(effort), allowed=allowed)
    if not found.failed:
        return found
    from graphport.api.first_difference import add_first_wrong

    return add_first_wrong(found, a, b, tolerated)


def written_side(path: Path, label: str) -> Side:
    """Return the second side of a proof: a written file, read again.

    Raises:
        DiagnosticError: the file cannot be read.
    """
    return side("b", load(path), label=label)
