"""Arrays of two witnesses brought to where they can be compared, and what an output proves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.proof.witnesses import Witness


class Manner(NamedTuple):
    """What two witnesses keep of a model: element types and the first axis, or less."""

    has_exact_types: bool
    has_batches: bool
    is_edge: bool
    """Whether numbers are such that a result may overflow: what is not finite is not compared then."""

    @classmethod
    def between(cls, first: Witness, second: Witness, *, is_edge: bool) -> Manner:
        """What both keep."""
        runtimes = [w.side.runtime for w in (first, second) if w.side.runtime is not None]
        return cls(all(r.has_exact_types for r in runtimes), all(r.has_batches for r in runtimes), is_edge)


def aligned(x: Any, y: Any, manner: Manner) -> tuple[Any, Any]:
    """Both, with what one of them cannot keep taken from it, and with zeros where overflow is not compared."""
    if is_sequence(x) and is_sequence(y) and len(x) == len(y):
        pairs = [aligned(a, b, manner) for a, b in zip(x, y, strict=True)]
        return [a for a, _ in pairs], [b for _, b in pairs]
    if x is None or y is None or is_sequence(x) or is_sequence(y):
        return x, y
    x, y = np.asarray(x), np.asarray(y)
    if not manner.has_batches and x.shape != y.shape and x.size == y.size:
        y = y.reshape(x.shape)
    if not manner.has_exact_types and x.dtype != y.dtype and "O" not in (x.dtype.kind, y.dtype.kind):
        x, y = _of_one_type(x, y, is_loose=not manner.has_batches)
    if manner.is_edge and x.shape == y.shape and x.dtype == y.dtype and x.dtype.kind not in "biuOSU":
        with np.errstate(all="ignore"):
            kept = np.isfinite(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
        x, y = np.where(kept, x, np.zeros((), x.dtype)), np.where(kept, y, np.zeros((), y.dtype))
    return x, y


def _of_one_type(x: Any, y: Any, *, is_loose: bool) -> tuple[Any, Any]:
    """Both in the type of `x`, where they are of one kind; in double precision where there is but one kind."""
    if is_loose:
        return x.astype(np.float64), y.astype(np.float64)
    real, other = (_is_real(each) for each in (x, y))
    if real != other:
        return x, y
    with np.errstate(all="ignore"):
        return x, y.astype(x.dtype)


def _is_real(array: Any) -> bool:
    return array.dtype.kind not in "biuc"


def is_evidence(answers: Sequence[Any], *, has_inputs: bool) -> str | None:
    """Why what one output was over all draws proves nothing; `None` where it does."""
    known = [answer for answer in answers if answer is not None]
    if not known:
        return "was never there"
    if all(_is_empty(answer) for answer in known):
        return "was empty in every draw"
    if all(_is_nothing(answer) for answer in known):
        return "was no number in any draw"
    if has_inputs and len(known) > 1 and all(_is_same(known[0], other) for other in known[1:]):
        return "was the same in every draw"
    return None


def _is_empty(answer: Any) -> bool:
    return all(map(_is_empty, answer)) if is_sequence(answer) else np.size(answer) == 0


def _is_nothing(answer: Any) -> bool:
    if is_sequence(answer):
        return all(map(_is_nothing, answer))
    array = np.asarray(answer)
    if array.dtype.kind in "biuOSU":
        return array.size == 0
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return bool(np.isnan(wide).all())


def _is_same(x: Any, y: Any) -> bool:
    if is_sequence(x) or is_sequence(y):
        same_kind = is_sequence(x) and is_sequence(y) and len(x) == len(y)
        return same_kind and all(_is_same(a, b) for a, b in zip(x, y, strict=True))
    x, y = np.asarray(x), np.asarray(y)
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
