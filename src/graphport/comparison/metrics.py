"""Metrics between tensors, and what passes as equal."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.sequences import is_sequence
from graphport.core.short_repr import short_repr
from graphport.core.table import Tabular

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RELATIVE = 1e-4
"""Tolerance as a part of the largest magnitude of the first tensor."""
ABSOLUTE = 1e-6

_BLOCK = 1 << 18
"""Elements that are compared at a time."""


class Reason(StrEnum):
    """Why the signal-to-noise ratio of two tensors is undefined."""

    INTEGERS = "integers differ"
    UNLIKE = "NaN or infinity at different indices"


@short_repr
@dataclass(frozen=True, slots=True)
class Difference:
    """How `other` differs from `name`.

    `max_abs` and `mean_abs` are in the tensor's unit, `snr_db` is 10 log10(sum a² / sum (a - b)²) and infinite where
    nothing differs, `cosine` is 1 where directions agree and -1 where they are opposite. All are `None` where types or
    shapes differ.
    """

    name: str
    other: str
    passed: bool
    reason: str | None = None
    max_abs: float | None = None
    mean_abs: float | None = None
    snr_db: float | None = None
    cosine: float | None = None
    first: tuple[int, ...] | None = None
    metric: float | None = None
    """Result of the user's metric."""

    @property
    def is_of_integers(self) -> bool:
        """Whether the elements are integers or booleans, which are compared for equality."""
        return self.reason is Reason.INTEGERS

    def as_json(self) -> dict[str, Any]:
        """Plain data; an infinite ratio is `null`, since JSON has no infinity."""
        finite = self.snr_db if self.snr_db is not None and np.isfinite(self.snr_db) else None
        return {
            "name": self.name,
            "other": self.other,
            "passed": self.passed,
            "reason": self.reason,
            "max_abs": self.max_abs,
            "mean_abs": self.mean_abs,
            "snr_db": finite,
            "cosine": self.cosine,
            "first": None if self.first is None else list(self.first),
            **({} if self.metric is None else {"metric": self.metric if np.isfinite(self.metric) else None}),
        }


@short_repr
@dataclass(frozen=True, slots=True)
class Comparison(Tabular):
    """The comparison of two models by outputs and, on request, by values."""

    outputs: tuple[Difference, ...]
    values: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each value that was compared, else for each output."""
        return [
            {
                "value": each.name,
                "other": each.other,
                "equal": each.passed,
                "max_abs": each.max_abs,
                "mean_abs": each.mean_abs,
                "snr_db": each.snr_db,
                "cosine": each.cosine,
                "reason": each.reason,
            }
            for each in self.values or self.outputs
        ]

    @property
    def caption(self) -> str:
        """The verdict, and the first value that differs where values were compared."""
        first = (
            f"; the first value that differs is {self.first_difference.name}"
            if self.first_difference is not None
            else ""
        )
        return f"{'equal within tolerance' if self.passed else 'the outputs differ'}{first}"

    @property
    def passed(self) -> bool:
        """Whether every output is equal within tolerance."""
        return all(difference.passed for difference in self.outputs)

    @property
    def max_abs(self) -> float | None:
        """The largest absolute difference of any output; `None` where one has no number for it."""
        found = [difference.max_abs for difference in self.outputs]
        return None if any(value is None for value in found) else max((v for v in found if v is not None), default=0.0)

    @property
    def snr_db(self) -> float | None:
        """The least signal-to-noise ratio of any output."""
        found = [difference.snr_db for difference in self.outputs]
        return (
            None if any(value is None for value in found) else min((v for v in found if v is not None), default=np.inf)
        )

    def within(self, least_snr: float, reason: str = "quantized weights") -> Comparison:
        """Return a copy in which float outputs pass from a minimum SNR in dB on; `reason` is reported."""
        outputs = tuple(_within(difference, least_snr) for difference in self.outputs)
        note = f"tolerance for {reason}: SNR >= {least_snr:g} dB"
        return Comparison(outputs, self.values, (*self.notes, note))

    @property
    def first_difference(self) -> Difference | None:
        """The first value, in the order of computation, that differs beyond tolerance."""
        return next((difference for difference in self.values if not difference.passed), None)

    first = first_difference
    """Deprecated alias of `first_difference`."""


def _within(difference: Difference, least_snr: float) -> Difference:
    is_measured = difference.reason is None and difference.snr_db is not None
    return replace(difference, passed=True) if is_measured and (difference.snr_db or 0) >= least_snr else difference


def difference(
    name: str,
    a: Any,
    b: Any,
    *,
    other: str | None = None,
    relative: float = RELATIVE,
    absolute: float = ABSOLUTE,
) -> Difference:
    """Compute the difference between `b` and `a`: tensors, sequences, or absent values.

    Two values are equal within tolerance if dtype, shape and the positions of NaN and infinity are equal and
    `|a - b| <= relative * max|a| + absolute` for the other elements; strings and integers must be equal.
    """
    other = name if other is None else other
    if is_sequence(a) or is_sequence(b) or a is None or b is None:
        return _sequence(name, other, a, b, (relative, absolute))
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype:
        return Difference(name, other, passed=False, reason=f"{a.dtype} against {b.dtype}")
    if a.shape != b.shape:
        return Difference(name, other, passed=False, reason=f"shapes differ: {list(a.shape)} and {list(b.shape)}")
    if a.dtype == object or a.dtype.kind in "SU":
        return _text(name, other, a, b)
    return _compare_arrays(name, other, a, b, (relative, absolute))


def compare_outputs(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    originals: Mapping[str, str] | None = None,
    measured: Callable[..., Difference] = difference,
) -> Comparison:
    """Compare outputs paired by name, else by the original name that `b` remembers, else by position."""
    pairs, notes = pair(list(a), list(b), originals or {})
    found = [
        Difference(name, "", passed=False, reason="the second model does not have this output")
        if other is None
        else measured(name, a[name], b[other], other=other)
        for name, other in pairs
    ]
    return Comparison(tuple(found), notes=tuple(notes))


def pair(
    names: Sequence[str], others: Sequence[str], originals: Mapping[str, str]
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return for each of `names` its partner in `others`; notes list pairs matched by position only."""
    by_original = {original: name for name, original in originals.items() if name in others}
    found: dict[str, str | None] = {name: name if name in others else by_original.get(name) for name in names}
    free = [name for name in others if name not in found.values()]
    notes: list[str] = []
    for name in names:
        if found[name] is None and free:
            found[name] = free.pop(0)
            notes.append(f"{name} is paired with {found[name]} by position")
    return list(found.items()), notes


def _sequence(name: str, other: str, a: Any, b: Any, within: tuple[float, float]) -> Difference:
    if a is None or b is None:
        same = a is None and b is None
        return Difference(name, other, passed=same, reason=None if same else "only one value is present")
    if not is_sequence(a) or not is_sequence(b) or len(a) != len(b):
        return Difference(name, other, passed=False, reason="sequences of different lengths")
    items = [
        difference(f"{name}.{i}", x, y, relative=within[0], absolute=within[1])
        for i, (x, y) in enumerate(zip(a, b, strict=True))
    ]
    wrong = next((item for item in items if not item.passed), None)
    if wrong is not None:
        return Difference(
            name,
            other,
            passed=False,
            reason=f"{wrong.name} {wrong.reason or 'differs'}",
            max_abs=wrong.max_abs,
        )
    worst = max((item.max_abs or 0.0 for item in items), default=0.0)
    return Difference(name, other, passed=True, max_abs=worst)


def _text(name: str, other: str, a: Any, b: Any) -> Difference:
    differs = a.astype(str) != b.astype(str)
    if not differs.any():
        return Difference(name, other, passed=True, max_abs=0.0, mean_abs=0.0, snr_db=np.inf, cosine=1.0)
    return Difference(name, other, passed=False, reason="strings differ", first=_first_index(differs))


def _compare_arrays(name: str, other: str, a: Any, b: Any, within: tuple[float, float]) -> Difference:
    """Compare arrays of one type and shape in blocks, which needs little additional memory."""
    is_exact = a.dtype.kind in "biu"
    x, y = np.ravel(a), np.ravel(b)
    blocks = [slice(start, start + _BLOCK) for start in range(0, x.size, _BLOCK)]
    sizes = _Sizes()
    for block in blocks:
        sizes.see(*_finite(x[block], y[block]))
    bound = 0.0 if is_exact else within[0] * sizes.x + within[1]
    sums = _ScaledSums(_scale(max(sizes.x, sizes.gap)), _scale(sizes.x), _scale(sizes.y))
    is_unlike, first = False, None
    for block in blocks:
        p, q, unlike = _finite(x[block], y[block])
        gap = np.abs(p - q)
        sums.add(p, q, gap)
        wrong = unlike | (x[block] != y[block] if is_exact else gap > bound)
        is_unlike = is_unlike or bool(unlike.any())
        if first is None and wrong.any():
            first = block.start + int(np.argmax(wrong))
    reason = Reason.UNLIKE if is_unlike else None
    if is_exact and first is not None:
        reason = Reason.INTEGERS
    signal, noise = sums.signal, sums.noise
    return Difference(
        name,
        other,
        passed=first is None,
        reason=reason,
        max_abs=sizes.gap,
        mean_abs=sums.gap / x.size if x.size else 0.0,
        snr_db=float(np.inf) if noise == 0 else float(10 * np.log10(signal / noise)) if signal else float(-np.inf),
        cosine=sums.cosine,
        first=None if first is None else tuple(int(i) for i in np.unravel_index(first, a.shape)),
    )


def _finite(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Convert both arrays to float64, with 0 for non-finite elements, and return the positions where these differ."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(x) & np.isfinite(y)
    if finite.all():
        return x, y, ~finite
    unlike = ~finite & ~((x == y) | (np.isnan(x) & np.isnan(y)))
    return np.where(finite, x, 0), np.where(finite, y, 0), unlike


@dataclass(slots=True)
class _Sizes:
    """The largest magnitudes of two arrays and of their difference."""

    x: float = 0.0
    y: float = 0.0
    gap: float = 0.0

    def see(self, x: Any, y: Any, _: Any) -> None:
        self.x = float(np.max(np.abs(x), initial=self.x))
        self.y = float(np.max(np.abs(y), initial=self.y))
        self.gap = float(np.max(np.abs(x - y), initial=self.gap))


@dataclass(slots=True)
class _ScaledSums:
    """Sums over two arrays: scaled, so that squares neither vanish nor overflow."""

    scale: float
    scale_x: float
    scale_y: float
    gap: float = 0.0
    signal: float = 0.0
    noise: float = 0.0
    square_x: float = 0.0
    square_y: float = 0.0
    product: complex = 0.0

    def add(self, x: Any, y: Any, gap: Any) -> None:
        self.gap += float(gap.sum())
        self.signal += float(np.sum((np.abs(x) * self.scale) ** 2))
        self.noise += float(np.sum((gap * self.scale) ** 2))
        near_x, near_y = x * self.scale_x, y * self.scale_y
        self.square_x += float(np.sum(np.abs(near_x) ** 2))
        self.square_y += float(np.sum(np.abs(near_y) ** 2))
        self.product += complex((near_x.conj() * near_y).sum())

    @property
    def cosine(self) -> float:
        """Compute the cosine similarity of two arrays; 1 if one of them is all zeros."""
        norms = math.sqrt(self.square_x * self.square_y)
        return max(-1.0, min(self.product.real / norms, 1.0)) if norms else 1.0


def _scale(largest: float) -> float:
    """Return the power of two that scales `largest` to about 1, so that squares neither underflow nor overflow."""
    _, exponent = math.frexp(largest)
    return 2.0 ** -max(exponent, -1000)


def _first_index(wrong: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
