"""Drawing cases at random: operands, types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from tests.conformance.openvino.cases import Array, Case, Operand

T = TypeVar("T")


class Draw:
    """A random generator with common distributions."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def one(self, *choices: T) -> T:
        """Return one of the choices with equal probability."""
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, part: float = 0.5) -> bool:
        return bool(self.random.random() < part)

    def number(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return int(self.random.integers(low, high + 1))

    def numbers(self, low: int, high: int, count: int) -> tuple[int, ...]:
        return tuple(self.number(low, high) for _ in range(count))

    def shape(self, low: int = 0, high: int = 4, *, least: int = 1, most: int = 4) -> tuple[int, ...]:
        """A shape of `low` to `high` axes, each of `least` to `most` entries."""
        return self.numbers(least, most, self.number(low, high))

    def reals(
        self, shape: Sequence[int], dtype: Any = np.float32, *, spread: float = 1.0, special: bool = False
    ) -> Array:
        """Draw normal floats, with infinities, NaN and both zeros if `special`."""
        found = np.asarray(self.random.normal(size=tuple(shape)) * spread)
        if special:
            odd = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, 1e-30])
            where = self.random.random(found.shape) < 0.3
            found = np.where(where, self.random.choice(odd, found.shape), found)
        with np.errstate(over="ignore"):
            return np.asarray(found).astype(dtype)

    def integers(self, shape: Sequence[int], low: int, high: int, dtype: Any = np.int64) -> Array:
        """Integers, both ends included."""
        return np.asarray(self.random.integers(low, high, tuple(shape), endpoint=True)).astype(dtype)

    def tensor(self, shape: Sequence[int], dtype: Any, *, special: bool = False) -> Array:
        """Numbers of any type: small integers, and the ends of the type if `special`."""
        kind = np.dtype(dtype)
        if kind == np.bool_:
            return self.integers(shape, 0, 1, np.bool_)
        if kind.kind not in "iu":
            return self.reals(shape, dtype, spread=3.0, special=special)
        # OpenVINO's plugin computes int64 in int32.
        info = np.iinfo(kind if kind.itemsize < 8 else np.int32 if kind.kind == "i" else np.uint32)
        found = self.integers(shape, max(info.min, -9), min(info.max, 9), kind)
        if special:
            where = self.random.random(found.shape) < 0.2
            found = np.where(where, self.random.choice(np.array([info.min, info.max, 0], kind), found.shape), found)
        return np.asarray(found, kind)

    def operand(self, array: Any, *, constant: float = 0.0, dynamic: float = 0.3) -> Operand:
        """Return an operand: with some probability a Const, or a Parameter with open or bounded axes."""
        array = np.asarray(array)
        if self.chance(constant):
            return Operand(array, is_constant=True)
        if not self.chance(dynamic):
            return Operand(array)
        dims = [self.one(str(n), "?", "?", f"{max(n - 1, 0)}..{n + 2}", f"..{n + 1}", f"{n}..") for n in array.shape]
        return Operand(array, declared=",".join(dims))


Generator = Callable[[Draw], Case]
OfWord = Callable[[Draw, str], Case]


def register(into: dict[str, Generator]) -> Callable[..., Callable[[OfWord], OfWord]]:
    """Return a decorator that registers a generator of cases for op types."""

    def of(*words: str) -> Callable[[OfWord], OfWord]:
        def entered(function: OfWord) -> OfWord:
            into.update({op_type: partial(function, op_type=op_type) for op_type in words})
            return function

        return entered

    return of
