"""Rules for single arguments of an operation: ranges, names, lengths and axes."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from graphport.core.dims import Dim, Symbolic
from graphport.formats.nnef.container.operation import tensors
from graphport.formats.nnef.container.validity.case import Case, Rule, Shape, rank_of, shape_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.core.diagnostics import Diagnostic


_METHODS = ("symmetric", "asymmetric", "aligned")

_MOST_BITS = 64


def positive_shape(case: Case) -> Iterator[Diagnostic]:
    """Check that the extents of a source are positive; 0 means unknown in the provisional edition."""
    least = 0 if case.operation.name == "external" and not case.is_final else 1
    for axis, extent in enumerate(case.integers_of("shape")):
        if isinstance(extent, int) and extent < least:
            message = f"invalid extent {extent} of axis {axis} of '{case.operation.name}'"
            remedy = "use positive extents" if least else "use positive extents, or 0 for an unknown extent"
            yield case.error("NNEF0601", message, "shape", remedy)


def value_count(case: Case) -> Iterator[Diagnostic]:
    """Check that a constant has one value per element, or a single value."""
    shape, count = case.integers_of("shape"), len(case.integers_of("value"))
    volume = math.prod(extent for extent in shape if isinstance(extent, int))
    if count not in (1, volume) and not any(isinstance(extent, Symbolic) or extent < 1 for extent in shape):
        message = f"{count} values for a constant of shape {shown(shape)}"
        yield case.error("NNEF0602", message, "value", f"pass {volume} values, or a single value")


def _check_choice(parameter: str, names: Sequence[str], code: str) -> Rule:
    def rule(case: Case) -> Iterator[Diagnostic]:
        value = case.attribute(parameter)
        if value not in names:
            message = f"unknown '{parameter}' of '{case.operation.name}': '{value}'"
            yield case.error(code, message, parameter, f"use one of {', '.join(names)}")

    return rule


def one_border(*names: str) -> Rule:
    """Return a rule: `border` is one of `names`."""
    return _check_choice("border", names, "NNEF0603")


def one_method(parameter: str = "method") -> Rule:
    """Return a rule: the interpolation method is supported."""
    return _check_choice(parameter, _METHODS, "NNEF0604")


def all_positive(*parameters: str) -> Rule:
    """Return a rule: the items of the arrays are positive."""

    def rule(case: Case) -> Iterator[Diagnostic]:
        for parameter in parameters:
            for number in case.integers_of(parameter):
                if isinstance(number, int) and number < 1:
                    message = f"'{parameter}' of '{case.operation.name}' contains {number}"
                    yield case.error("NNEF0605", message, parameter, "use positive items")

    return rule


def paddings_at_least_0(case: Case) -> Iterator[Diagnostic]:
    """Check that no padding is negative in the provisional edition."""
    if case.is_final:
        return
    for before, after in case.pairs("padding"):
        if any(isinstance(end, int) and end < 0 for end in (before, after)):
            message = f"'padding' of '{case.operation.name}' contains ({before},{after})"
            yield case.error("NNEF0605", message, "padding", "use items of 0 or more")


def bit_count(case: Case) -> Iterator[Diagnostic]:
    """Check that `bits` is a supported width."""
    bits = case.attribute("bits")
    if isinstance(bits, int) and not 1 <= bits <= _MOST_BITS:
        yield case.error("NNEF0605", f"bits is {bits}, expected 1 to {_MOST_BITS}", "bits")


def superseded(case: Case) -> Iterator[Diagnostic]:
    """Warn about a deprecated operation."""
    if case.is_final:
        message = "'linear_quantize' is deprecated since 1.0.3"
        remedy = "write min_max_linear_quantize(…, signed = false, symmetric = false)"
        yield case.warning("NNEF0631", message, None, remedy)


def copy_count(case: Case) -> Iterator[Diagnostic]:
    """Check that the number of copies is at least 1."""
    times = case.attribute("times")
    if isinstance(times, int) and times < 1:
        yield case.error("NNEF0605", f"'times' of 'copy_n' is {times}", "times", "use a positive value")


def lengths_fit(operand: str, *parameters: str, skipped: int = 0, may_be_empty: bool = True) -> Rule:
    """Return a rule: arrays have one item per axis of `operand` after the first `skipped`, or are empty."""

    def rule(case: Case) -> Iterator[Diagnostic]:
        rank = rank_of(case, operand)
        if rank is None:
            return
        for parameter in (each for each in parameters if each in case.operation.attributes):
            length, wanted = len(case.integers_of(parameter)), max(rank - skipped, 0)
            # In the provisional edition a short array is filled up.
            if length == wanted or (length < wanted and not case.is_final) or (not length and may_be_empty):
                continue
            axes = "spatial axis" if skipped else "axis"
            message = f"'{parameter}' of '{case.operation.name}' has {length} items, '{operand}' has rank {rank}"
            yield case.error("NNEF0606", message, parameter, f"write one item per {axes}: {wanted}")

    return rule


def valid_axes(operand: str, parameter: str = "axes") -> Rule:
    """Return a rule: `parameter` lists axes of `operand` without repetition."""

    def rule(case: Case) -> Iterator[Diagnostic]:
        axes = case.integers_of(parameter)
        yield from axes_repeated(case, parameter, axes)
        # The provisional edition takes axes beyond the rank as singular ones.
        yield from axes_outside(case, parameter, axes, rank_of(case, operand) if case.is_final else None)

    return rule


def axes_repeated(case: Case, parameter: str, axes: Shape) -> Iterator[Diagnostic]:
    """Report axes that occur more than once in an array."""
    for axis, count in Counter(axes).items():
        if count > 1:
            message = f"axis {axis} occurs {count} times in '{parameter}' of '{case.operation.name}'"
            yield case.error("NNEF0607", message, parameter, "remove duplicate axes")


def axes_outside(case: Case, parameter: str, axes: Sequence[Dim], rank: int | None) -> Iterator[Diagnostic]:
    """Report axes that are outside of a tensor of rank `rank`."""
    for axis in axes:
        if isinstance(axis, int) and (axis < 0 or (rank is not None and axis >= rank)):
            limit = "" if rank is None else f" of a tensor of rank {rank}"
            remedy = "use axes from 0" + ("" if not rank else f" to {rank - 1}")
            message = f"'{parameter}' of '{case.operation.name}' refers to axis {axis}{limit}"
            yield case.error("NNEF0608", message, parameter, remedy)


def valid_axis(operand: str, *, more: int = 0) -> Rule:
    """Return a rule: `axis` is an axis of `operand`, whose rank is increased by `more` (1 for a new axis)."""

    def rule(case: Case) -> Iterator[Diagnostic]:
        first = next(tensors(case.operation.operands[operand]), None)
        shape = None if first is None else shape_of(first)
        rank = None if shape is None else len(shape) + more
        axis = case.attribute("axis")
        if isinstance(axis, int):
            yield from axes_outside(case, "axis", (axis,), rank)

    return rule


def some_summed(case: Case) -> Iterator[Diagnostic]:
    """Check that `add_n` has at least one operand."""
    if next(case.operation.inputs(), None) is None:
        yield case.error("NNEF0616", "'add_n' has an empty array of values", "x", "pass at least one value")
