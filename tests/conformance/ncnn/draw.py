"""Layers of ncnn drawn at random: parameters over all that the runtime takes, on blobs of one to four axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tests.conformance.ncnn.fields import keyed, maybe

Random: TypeAlias = np.random.Generator
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A layer, the shapes of its blobs, and the distribution of their elements."""

    kind: str
    parameters: str
    shapes: tuple[Shape, ...]
    results: int = 1
    numbers: str = "normal"

    def __str__(self) -> str:
        return f"{self.kind} {self.parameters} on {' '.join(map(str, self.shapes))}"


DRAWS: dict[str, Callable[[Random], Drawn]] = {}


def drawn(*kinds: str) -> Callable[[Callable[[Random, str], Drawn]], Callable[[Random, str], Drawn]]:
    """Register a generator of layers of some types."""

    def register(function: Callable[[Random, str], Drawn]) -> Callable[[Random, str], Drawn]:
        for kind in kinds:
            DRAWS[kind] = lambda random, kind=kind: function(random, kind)
        return function

    return register


def integer(random: Random, low: int, high: int) -> int:
    """An integer, both ends included."""
    return int(random.integers(low, high + 1))


def real(random: Random, low: float, high: float) -> float:
    """A number of few digits."""
    return round(float(random.uniform(low, high)), 4)


def chance(random: Random, share: float = 0.5) -> bool:
    return bool(random.random() < share)


def shape(random: Random, least: int = 1, most: int = 4, low: int = 1, high: int = 7) -> Shape:
    return tuple(integer(random, low, high) for _ in range(integer(random, least, most)))


def picture(random: Random, low: int = 3, high: int = 9) -> Shape:
    return (integer(random, 1, 9), integer(random, low, high), integer(random, low, high))


def simple(*kinds: str, numbers: str = "normal", **ranges: tuple[float, float]) -> None:
    """Register types whose parameters are optional floats."""

    @drawn(*kinds)
    def function(random: Random, kind: str) -> Drawn:
        keys = {int(key[1:]): real(random, *bounds) for key, bounds in ranges.items() if chance(random, 0.7)}
        return Drawn(kind, keyed(keys), (shape(random),), numbers=numbers)


simple("AbsVal", "BNLL", "Erf", "Mish", "Sigmoid", "Softplus", "Swish", "TanH", "Noop", "DeepCopy", "Flatten")
simple("ReLU", p0=(0, 0.5))
simple("CELU", p0=(0.1, 2))
simple("ELU", p0=(0.1, 2))
simple("SELU", p0=(0.5, 2), p1=(0.5, 2))
simple("Threshold", p0=(-1, 1))
simple("Clip", p0=(-1, 0), p1=(0, 1))
simple("HardSigmoid", "HardSwish", p0=(0.1, 0.5), p1=(0.2, 0.8))
simple("Dropout", p0=(0.2, 1))
simple("Exp", p0=(0.5, 3), p1=(0.2, 2), p2=(-1, 1))
simple("Log", p0=(1.5, 3), p1=(0.2, 2), p2=(0.5, 1), numbers="positive")
simple("Power", p0=(0, 3), p1=(0.2, 2), p2=(0.1, 1), numbers="positive")
simple("Shrink", p0=(0, 0.5), p1=(0.2, 0.8))


@drawn("GELU")
def gelu(random: Random, kind: str) -> Drawn:
    return Drawn(kind, keyed({0: maybe(random, integer(random, 0, 1))}), (shape(random),))


@drawn("UnaryOp")
def unary(random: Random, kind: str) -> Drawn:
    number = integer(random, 0, 27)
    numbers = {5: "positive", 6: "positive", 8: "positive", 17: "positive", 27: "positive", 15: "away", 12: "unit"}
    numbers |= {13: "unit", 26: "unit", 25: "above", 11: "unit"}
    return Drawn(kind, f"0={number}", (shape(random),), numbers=numbers.get(number, "normal"))


_POWERS = (6, 9)


@drawn("BinaryOp")
def binary(random: Random, kind: str) -> Drawn:
    """Draw blobs of equal rank that broadcast; of two ranks, the smaller with the outer axes; or a scalar."""
    number = integer(random, 0, 18)
    numbers = "positive" if number in _POWERS else "away"
    first = shape(random)
    if chance(random, 0.3):
        scalar = real(random, 0.3, 3) * (-1 if number not in _POWERS and chance(random) else 1)
        return Drawn(kind, keyed({0: number, 1: 1, 2: scalar}), (first,), numbers=numbers)
    if chance(random, 0.6):
        sides = [tuple(1 if chance(random, 0.25) else n for n in first) for _ in range(2)]
    else:
        sides = [first, _beside(random, first)]
    return Drawn(kind, f"0={number}", tuple(sides[:: 1 if chance(random) else -1]), numbers=numbers)


def _beside(random: Random, whole: Shape) -> Shape:
    """Return the shape of a lower-rank blob that broadcasts to `whole`: its outer axes, or its innermost one."""
    if len(whole) > 1 and chance(random, 0.3):
        return whole[-1:]
    return whole[: integer(random, 1, len(whole))]


@drawn("Eltwise")
def eltwise(random: Random, kind: str) -> Drawn:
    count, way, own = integer(random, 2, 4), integer(random, 0, 2), shape(random)
    factors = [real(random, -2, 2) for _ in range(count)] if way == 1 and chance(random) else None
    return Drawn(kind, keyed({0: way, 1: factors}), (own,) * count)


@drawn("Scale")
def scale(random: Random, kind: str) -> Drawn:
    own = shape(random)
    if chance(random, 0.3):
        return Drawn(kind, "0=-233", (own, (own[0],)))
    return Drawn(kind, keyed({0: own[0], 1: maybe(random, integer(random, 0, 1))}), (own,))


@drawn("Bias", "PReLU")
def by_channel(random: Random, kind: str) -> Drawn:
    own = shape(random)
    count = 1 if kind == "PReLU" and chance(random, 0.3) else own[0]
    return Drawn(kind, f"0={count}", (own,))


@drawn("BatchNorm")
def batch_norm(random: Random, kind: str) -> Drawn:
    own = shape(random)
    return Drawn(kind, keyed({0: own[0], 1: maybe(random, 1e-5)}), (own,))


@drawn("GroupNorm")
def group_norm(random: Random, kind: str) -> Drawn:
    groups, each = integer(random, 1, 3), integer(random, 1, 4)
    own = (groups * each, *shape(random, 0, 3))
    keys = {0: groups, 1: own[0], 2: real(random, 1e-3, 1e-1), 3: maybe(random, integer(random, 0, 1))}
    return Drawn(kind, keyed(keys), (own,))


@drawn("InstanceNorm")
def instance_norm(random: Random, kind: str) -> Drawn:
    own = shape(random, 3, 4, 2)
    return Drawn(kind, keyed({0: own[0], 1: real(random, 1e-3, 1e-1), 2: maybe(random, integer(random, 0, 1))}), (own,))


@drawn("LayerNorm", "RMSNorm")
def layer_norm(random: Random, kind: str) -> Drawn:
    own = shape(random, 1, 4)
    size = int(np.prod(own[-integer(random, 1, min(len(own), 2)) :]))
    return Drawn(kind, keyed({0: size, 1: real(random, 1e-3, 1e-1), 2: maybe(random, integer(random, 0, 1))}), (own,))


@drawn("LRN")
def lrn(random: Random, kind: str) -> Drawn:
    keys = {0: integer(random, 0, 1), 1: integer(random, 1, 5), 2: real(random, 0.1, 1), 3: real(random, 0.5, 1)}
    return Drawn(kind, keyed({**keys, 4: real(random, 1, 2)}), (picture(random),))


@drawn("MVN")
def mvn(random: Random, kind: str) -> Drawn:
    keys = {0: integer(random, 0, 1), 1: integer(random, 0, 1), 2: maybe(random, real(random, 1e-3, 1e-1))}
    return Drawn(kind, keyed(keys), (picture(random),))


@drawn("Normalize")
def normalize(random: Random, kind: str) -> Drawn:
    own, is_shared = picture(random), integer(random, 0, 1)
    keys = {0: integer(random, 0, 1), 4: integer(random, 0, 1), 1: is_shared, 2: real(random, 1e-3, 1e-1)}
    return Drawn(kind, keyed({**keys, 9: integer(random, 0, 2), 3: 1 if is_shared else own[0]}), (own,))


# ── moves ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def axis(random: Random, rank: int) -> int:
    """An axis, from either end."""
    return integer(random, -rank, rank - 1)


@drawn("Concat")
def concat(random: Random, kind: str) -> Drawn:
    own = list(shape(random))
    place = axis(random, len(own))
    sides: list[Shape] = []
    for _ in range(integer(random, 2, 4)):
        own[place] = integer(random, 1, 5)
        sides.append(tuple(own))
    return Drawn(kind, keyed({0: place}), tuple(sides))


@drawn("Slice")
def slice_(random: Random, kind: str) -> Drawn:
    own = shape(random, low=4, high=9)
    place, count = axis(random, len(own)), integer(random, 2, 4)
    cuts = sorted(random.choice(np.arange(1, own[place]), count - 1, replace=False).tolist())
    if chance(random):
        places = [cut - own[place] if chance(random, 0.3) else cut for cut in cuts]
        return Drawn(kind, keyed({2: places, 1: place}), (own,), count)
    parts: list[int] = np.diff([0, *cuts, own[place]]).tolist()
    if chance(random):
        parts = [-233] * count
    elif chance(random):
        parts[-1] = -233
    return Drawn(kind, keyed({0: parts, 1: place}), (own,), count)


@drawn("Crop")
def crop(random: Random, kind: str) -> Drawn:
    own = shape(random, high=8)
    rank = len(own)
    if chance(random, 0.3):
        return _cropped(random, kind, own)
    count = integer(random, 1, rank)
    places = random.choice(rank, count, replace=False).tolist()
    starts, ends = zip(*(_between(random, own[place]) for place in places), strict=True)
    axes: list[int] | None = [place - rank if chance(random, 0.3) else place for place in places]
    if places == list(range(rank)) and chance(random):
        axes = None
    return Drawn(kind, keyed({9: starts, 10: ends, 11: axes}), (own,))


def _between(random: Random, length: int) -> tuple[int, int]:
    """Return a begin and an end in a random equivalent form."""
    start = integer(random, 0, length - 1)
    end = integer(random, start + 1, length)
    starts = [start, start - length, *([-233] if start == 0 else [])]
    ends = [end, end - length, *([-233, length + 3, 2147483647] if end == length else [])]
    return int(random.choice(starts)), int(random.choice(ends))


_OFFSETS, _LENGTHS, _RESTS = (2, 13, 1, 0), (5, 14, 4, 3), (8, 15, 7, 6)


def _cropped(random: Random, kind: str, own: Shape) -> Drawn:
    keep = {1: (3,), 2: (2, 3), 3: (0, 2, 3), 4: (0, 1, 2, 3)}[len(own)]
    keys: dict[int, Any] = {}
    for place, length in zip(keep, own, strict=True):
        start = integer(random, 0, length - 1)
        size = integer(random, 1, length - start)
        keys[_OFFSETS[place]] = start
        if chance(random):
            keys[_LENGTHS[place]] = -233
            keys[_RESTS[place]] = length - start - size
        else:
            keys[_LENGTHS[place]] = size
    return Drawn(kind, keyed(keys), (own,))


@drawn("Reshape")
def reshape(random: Random, kind: str) -> Drawn:
    own = shape(random)
    total, rank = int(np.prod(own)), integer(random, 1, 4)
    target: list[int] = []
    for _ in range(rank - 1):
        sizes = [n for n in range(1, total + 1) if total % n == 0]
        target.append(int(random.choice(sizes)))
        total //= target[-1]
    target.append(total)
    open_ = integer(random, 0, rank - 1)
    if chance(random):
        target[open_] = -1
    keys = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}[rank]
    if chance(random, 0.6):
        return _reshaped_by_text(random, own, target)
    return Drawn(kind, keyed(dict(zip(keys, target, strict=True))), (own,))


def _reshaped_by_text(random: Random, own: Shape, target: list[int]) -> Drawn:
    """Draw a Reshape whose sizes are text expressions of constants and dims, with or without the batch."""
    names = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}[len(own)]
    words = [_expressed(random, n, own, names) for n in target]
    keys: dict[int, Any] = {}
    if chance(random, 0.4):
        place = integer(random, 0, len(words))
        words.insert(place, "0n" if chance(random) else "1")
        keys = {12: integer(random, 0, len(own)), 13: place}
    text = ",".join(reversed(words))
    return Drawn("Reshape", f'{keyed(keys)} 6="{text}"'.strip(), (own,))


def _expressed(random: Random, number: int, own: Shape, names: str) -> str:
    if number == -1 or chance(random, 0.3):
        return str(number)
    place = integer(random, 0, len(own) - 1)
    name, length = names[place], own[place]
    choices = [f"+(0{name},{number - length})", f"-({number + length},0{name})", f"max({number},-(0{name},99))"]
    if number % length == 0:
        choices.append(f"*(0{name},{number // length})")
    if length % number == 0:
        choices += [f"//(0{name},{length // number})", f"ceil(/(0{name},{length // number}))"]
    return str(random.choice(choices))


@drawn("Permute")
def permute(random: Random, kind: str) -> Drawn:
    own = shape(random)
    return Drawn(kind, keyed({0: integer(random, 0, {1: 0, 2: 1, 3: 5, 4: 23}[len(own)])}), (own,))


@drawn("Squeeze")
def squeeze(random: Random, kind: str) -> Drawn:
    own = tuple(1 if chance(random) else n for n in shape(random, low=2))
    if chance(random, 0.4):
        return Drawn(kind, keyed({key: maybe(random, 1) for key in (0, 1, 2, 11)}), (own,))
    axes = random.choice(len(own), integer(random, 1, len(own)), replace=False).tolist()
    axes = [n - len(own) if chance(random, 0.3) else n for n in axes if own[n] == 1]
    return Drawn(kind, keyed({3: axes or [0]}), (own,))


@drawn("ExpandDims")
def expand_dims(random: Random, kind: str) -> Drawn:
    own = shape(random, 1, 3)
    rank = len(own) + integer(random, 1, 4 - len(own))
    axes = sorted(random.choice(rank, rank - len(own), replace=False).tolist())
    return Drawn(kind, keyed({3: [n - rank if chance(random, 0.3) else n for n in axes]}), (own,))


@drawn("Tile")
def tile(random: Random, kind: str) -> Drawn:
    own = shape(random, high=5)
    if chance(random):
        return Drawn(kind, keyed({0: integer(random, 0, len(own) - 1), 1: integer(random, 1, 3)}), (own,))
    return Drawn(kind, keyed({2: [integer(random, 1, 3) for _ in range(integer(random, 1, 4))]}), (own,))


@drawn("Flip")
def flip(random: Random, kind: str) -> Drawn:
    own = shape(random)
    axes = sorted(random.choice(len(own), integer(random, 1, len(own)), replace=False).tolist())
    return Drawn(kind, keyed({0: [n - len(own) if chance(random, 0.3) else n for n in axes]}), (own,))


@drawn("PixelShuffle")
def pixel_shuffle(random: Random, kind: str) -> Drawn:
    factor = integer(random, 1, 3)
    own = (integer(random, 1, 3) * factor**2, *shape(random, 2, 2))
    return Drawn(kind, keyed({0: factor, 1: maybe(random, integer(random, 0, 1))}), (own,))


@drawn("Reorg")
def reorg(random: Random, kind: str) -> Drawn:
    factor = integer(random, 1, 3)
    own = (integer(random, 1, 4), factor * integer(random, 1, 3), factor * integer(random, 1, 3))
    return Drawn(kind, keyed({0: factor, 1: maybe(random, integer(random, 0, 1))}), (own,))


@drawn("ShuffleChannel")
def shuffle_channel(random: Random, kind: str) -> Drawn:
    group, each = integer(random, 1, 3), integer(random, 1, 3)
    own = (group * each, *shape(random, 2, 2))
    return Drawn(kind, keyed({0: group, 1: maybe(random, integer(random, 0, 1))}), (own,))


@drawn("CumulativeSum", "Softmax", "GLU")
def along(random: Random, kind: str) -> Drawn:
    own = list(shape(random))
    place = axis(random, len(own))
    own[place] *= 2 if kind == "GLU" else 1
    return Drawn(kind, keyed({0: place, 1: 1 if kind == "Softmax" else None}), (tuple(own),))


@drawn("Diag")
def diag(random: Random, kind: str) -> Drawn:
    own = shape(random, 1, 2, 2)
    return Drawn(kind, keyed({0: maybe(random, integer(random, -1, 1))}), (own,))


@drawn("Reduction")
def reduction(random: Random, kind: str) -> Drawn:
    own, number = shape(random, high=5), integer(random, 0, 10)
    keys: dict[int, Any] = {0: number, 2: real(random, 0.5, 2) if chance(random, 0.3) else None}
    keys |= {4: maybe(random, integer(random, 0, 1)), 5: 1, 1: 1}
    if chance(random, 0.8):
        axes = random.choice(len(own), integer(random, 1, len(own)), replace=False).tolist()
        keys |= {1: 0, 3: [n - len(own) if chance(random, 0.3) else n for n in axes]}
    numbers = "positive" if number in (6, 9) else "normal"
    return Drawn(kind, keyed(keys), (own,), numbers=numbers)


@drawn("Padding")
def padding(random: Random, kind: str) -> Drawn:
    own, way = shape(random, low=4, high=7), integer(random, 0, 2)
    keys = {2: integer(random, 0, 3), 3: integer(random, 0, 3), 4: way}
    if len(own) > 1:
        keys |= {0: integer(random, 0, 3), 1: integer(random, 0, 3)}
    if len(own) > 2 and chance(random):
        keys |= {7: integer(random, 0, 3), 8: integer(random, 0, 3)}
    return Drawn(kind, keyed({**keys, 5: real(random, -1, 1) if chance(random) else None}), (own,))


@drawn("Interp")
def interp(random: Random, kind: str) -> Drawn:
    own, way = shape(random, 1, 3, 2, 9), integer(random, 1, 3)
    keys: dict[int, Any] = {0: way, 6: maybe(random, integer(random, 0, 1))}
    rows, columns = (0 if len(own) < 3 else integer(random, 2, 13)), integer(random, 2, 13)
    if chance(random):
        keys |= {3: rows or 1, 4: columns}
    else:
        keys |= {1: real(random, 0.6, 3) if rows else 1.0, 2: real(random, 0.6, 3)}
    return Drawn(kind, keyed(keys), (own,))


@drawn("GridSample")
def grid_sample(random: Random, kind: str) -> Drawn:
    own, is_turned = picture(random), integer(random, 0, 1)
    places = shape(random, 2, 2)
    grid = (2, *places) if is_turned else (*places, 2)
    keys = {0: integer(random, 1, 3), 1: integer(random, 1, 3), 2: integer(random, 0, 1), 3: is_turned}
    # The runtime reflects once: positions further out than the width give other results.
    numbers = "close" if keys[0] == 3 else "near"
    return Drawn(kind, keyed(keys), (own, grid), numbers=numbers)


@drawn("Unfold")
def unfold(random: Random, kind: str) -> Drawn:
    keys = {1: integer(random, 1, 3), 11: maybe(random, integer(random, 1, 3)), 2: maybe(random, 2)}
    keys |= {3: maybe(random, integer(random, 1, 2)), 4: maybe(random, integer(random, 0, 2))}
    return Drawn(kind, keyed({**keys, 14: maybe(random, integer(random, 0, 2))}), (picture(random, 6),))


@drawn("Fold")
def fold(random: Random, kind: str) -> Drawn:
    kernel, step, pad = (integer(random, 1, 3) for _ in range(3))
    pad = min(pad, kernel - 1)
    width, height = integer(random, 5, 9), integer(random, 5, 9)
    rows, columns = ((n + 2 * pad - kernel) // step + 1 for n in (height, width))
    keys = {1: kernel, 3: step, 4: pad, 20: width, 21: height}
    return Drawn(kind, keyed(keys), ((integer(random, 1, 3) * kernel**2, rows * columns),))


def draws(random: Random, kinds: Sequence[str]) -> Drawn:
    """One layer of a type that is drawn, too."""
    return DRAWS[kinds[integer(random, 0, len(kinds) - 1)]](random)
