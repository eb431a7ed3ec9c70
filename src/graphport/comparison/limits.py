"""Tolerances of a comparison: for all values, and for single values by name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from graphport.comparison.metrics import ABSOLUTE, RELATIVE, Difference, difference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Limits:
    """The largest permitted differences of two values.

    `relative` is a fraction of the largest magnitude, `absolute` has the value's unit; both are added, and default to
    1e-4 and 1e-6 if no limit is set. `least_snr` is in dB, `least_metric` in the unit of `metric`, a function of both
    arrays. All limits that are set must hold. `of` has limits of values by name.
    """

    relative: float | None = None
    absolute: float | None = None
    least_snr: float | None = None
    least_metric: float | None = None
    metric: Callable[[Any, Any], float] | None = None
    of: Mapping[str, Limits] = field(default_factory=dict[str, "Limits"])

    def difference(self, name: str, a: Any, b: Any, *, other: str | None = None) -> Difference:
        """Compute the difference of `b` from `a`, and check it against the limits.

        Raises:
            ValueError: there is a `least_metric` and no `metric`.
        """
        known = self.of.get(name)
        if known is not None:
            return replace(known, metric=known.metric or self.metric, of={}).difference(name, a, b, other=other)
        if self.least_metric is not None and self.metric is None:
            message = f"a minimum of {self.least_metric:g} is set for the metric, but no metric is defined"
            raise ValueError(message)
        has_tolerance = self.relative is not None or self.absolute is not None
        relative = self.relative if self.relative is not None else 0.0 if has_tolerance else RELATIVE
        absolute = self.absolute if self.absolute is not None else 0.0 if has_tolerance else ABSOLUTE
        found = difference(name, a, b, other=other, relative=relative, absolute=absolute)
        if found.snr_db is None or (found.reason is not None and not found.is_of_integers):
            return found
        number = None if self.metric is None else float(self.metric(a, b))
        if has_tolerance or (self.least_snr is None and self.least_metric is None):
            passed = found.passed
        else:
            passed = not found.is_of_integers
        if self.least_snr is not None:
            passed = passed and found.snr_db >= self.least_snr
        if self.least_metric is not None and number is not None:
            passed = passed and number >= self.least_metric
        return replace(found, passed=passed, metric=number, first=None if passed else found.first)
