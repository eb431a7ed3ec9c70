"""Layers with weights, and products, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.ncnn.draw import DRAWS, Drawn, Random, chance, drawn, integer, picture, real, shape
from tests.conformance.ncnn.fields import keyed, maybe


def _activation(random: Random) -> dict[int, Any]:
    kind = integer(random, 0, 6)
    numbers = {2: [real(random, 0.1, 0.5)], 3: [-0.5, 0.75], 6: [0.2, 0.5]}.get(kind)
    return {9: kind, 10: numbers} if chance(random, 0.4) else {}


def _count(kind: str) -> int:
    return int(kind[-2]) if kind.endswith(("1D", "3D")) else 2


_DEPTHS = (1, 2, 3)


def _window(random: Random, count: int) -> tuple[dict[int, Any], int]:
    """Kernel, dilation, stride and padding of `count` axes, and the number of elements of the kernel."""
    keys: dict[int, Any] = {}
    area = 1
    for place in range(count):
        name = 10 * place
        width = integer(random, 1, 3)
        keys[1 + name] = width if place == 0 or chance(random) else None
        area *= width if keys[1 + name] is not None else int(keys[1])
        keys[2 + name] = integer(random, 1, 2) if chance(random, 0.3) else None
        keys[3 + name] = integer(random, 1, 3) if chance(random, 0.5) else None
    for key in ((4, 15), (4, 15, 14, 16), (4, 15, 14, 16, 24, 17))[count - 1]:
        keys[key] = integer(random, 0, 2) if chance(random, 0.5) else None
    return keys, area


def _slid(random: Random, count: int, channels: int) -> tuple[int, ...]:
    return (channels, *(integer(random, 6, 9) for _ in range(count)))


@drawn(*(f"Convolution{way}{ending}" for way in ("", "DepthWise") for ending in ("", "1D", "3D")))
def convolution(random: Random, kind: str) -> Drawn:
    count = _count(kind)
    groups = integer(random, 1, 4) if "DepthWise" in kind else 1
    inputs, outputs = groups * integer(random, 1, 3), groups * integer(random, 1, 4)
    keys, area = _window(random, count)
    if chance(random, 0.15):
        keys |= {4: -233 if chance(random) else -234, 15: None, 14: None, 16: None, 24: None, 17: None}
    elif chance(random, 0.15):
        keys[18] = real(random, -1, 1)
    keys |= {0: outputs, 5: integer(random, 0, 1), 6: outputs * inputs // groups * area, **_activation(random)}
    keys |= {7: groups} if "DepthWise" in kind else {}
    return Drawn(kind, keyed(keys), (_slid(random, count, inputs),))


@drawn(*(f"Deconvolution{way}{ending}" for way in ("", "DepthWise") for ending in ("", "1D", "3D")))
def deconvolution(random: Random, kind: str) -> Drawn:
    count = _count(kind)
    groups = integer(random, 1, 4) if "DepthWise" in kind else 1
    inputs, outputs = groups * integer(random, 1, 3), groups * integer(random, 1, 4)
    keys, area = _window(random, count)
    for key in (18, 19, 20)[:count]:
        keys[key] = integer(random, 0, 2) if chance(random, 0.2) else None
    if chance(random, 0.15):
        keys |= {4: -233 if chance(random) else -234, 15: None, 14: None, 16: None, 24: None, 17: None}
        if chance(random, 0.7):
            keys |= dict.fromkeys(((20,), (20, 21), (25, 26, 27))[count - 1], 6)
            keys |= {20: None} if count == 3 else {}
    keys |= {0: outputs, 5: integer(random, 0, 1), 6: outputs * inputs // groups * area, **_activation(random)}
    keys |= {7: groups} if "DepthWise" in kind else {}
    return Drawn(kind, keyed(keys), (_slid(random, count, inputs),))


@drawn("DeformableConv2D")
def deformable(random: Random, kind: str) -> Drawn:
    inputs, outputs, kernel, step = (integer(random, 1, 3) for _ in range(4))
    own = (inputs, integer(random, 5, 8), integer(random, 5, 8))
    rows, columns = ((n - kernel) // step + 1 for n in own[1:])
    keys = {0: outputs, 1: kernel, 3: step, 5: integer(random, 0, 1), 6: outputs * inputs * kernel**2}
    blobs = [own, (2 * kernel**2, rows, columns)]
    if chance(random):
        blobs.append((kernel**2, rows, columns))
    return Drawn(kind, keyed({**keys, **_activation(random)}), tuple(blobs))


@drawn("Pooling", "Pooling1D", "Pooling3D")
def pooling(random: Random, kind: str) -> Drawn:
    count = _count(kind)
    own = _slid(random, count, integer(random, 1, 5))
    keys: dict[int, Any] = {0: integer(random, 0, 1)}
    if chance(random, 0.15):
        return Drawn(kind, keyed({**keys, 4: 1}), (own,))
    if chance(random, 0.2):
        sizes = {8 + 10 * place: integer(random, 1, 9) if chance(random, 0.8) else -233 for place in range(count)}
        return Drawn(kind, keyed({**keys, 7: 1, **sizes}), (own,))
    for place in range(count):
        keys[1 + 10 * place] = integer(random, 2, 4) if place == 0 or chance(random) else None
        keys[2 + 10 * place] = integer(random, 1, 3) if chance(random, 0.6) else None
    for key in ((3, 14), (3, 14, 13, 15), (3, 14, 13, 15, 23, 16))[count - 1]:
        keys[key] = integer(random, 0, 1) if chance(random, 0.5) else None
    mode = integer(random, 0, 3)
    if mode > 1:
        keys |= dict.fromkeys((3, 14, 13, 15, 23, 16))
    return Drawn(kind, keyed({**keys, 5: mode, 6: maybe(random, integer(random, 0, 1))}), (own,))


@drawn("InnerProduct")
def inner_product(random: Random, kind: str) -> Drawn:
    own, outputs = shape(random, 1, 3, 1, 6), integer(random, 1, 9)
    inputs = own[-1] if len(own) == 2 else int(np.prod(own))
    if len(own) == 2 and own[0] == 1:
        inputs = own[1]
    keys = {0: outputs, 1: integer(random, 0, 1), 2: inputs * outputs, **_activation(random)}
    return Drawn(kind, keyed(keys), (own,))


@drawn("MatMul")
def matmul(random: Random, kind: str) -> Drawn:
    m, k, n = (integer(random, 1, 6) for _ in range(3))
    left, right, turns = shape(random, 0, 2, 1, 4), shape(random, 0, 2, 1, 4), integer(random, 0, 1)
    rank = max(len(left), len(right))
    longer = left if len(left) == rank else right
    # Stacks of matrices are of one height, or one of them is a single matrix.
    if chance(random):
        left = right = longer
    elif chance(random):
        left, right = longer, ()
    else:
        left, right = (), longer
    if chance(random, 0.3):
        matrices = (*longer, *((n, k) if turns else (k, n)))
        sides = {0: ((k,), matrices), 1: ((*longer, m, k), (k,)), 2: ((k,), (k,))}[integer(random, 0, 2)]
        return Drawn(kind, keyed({0: turns}), sides)
    return Drawn(kind, keyed({0: turns}), ((*left, m, k), (*right, *((n, k) if turns else (k, n)))))


@drawn("Gemm")
def gemm(random: Random, kind: str) -> Drawn:
    m, n, k = (integer(random, 2, 6) for _ in range(3))
    turns_a, turns_b, is_a, is_b, is_c = (integer(random, 0, 1) for _ in range(5))
    if is_a and is_b and is_c:
        is_a = 0
    keys: dict[int, Any] = {0: maybe(random, real(random, 0.5, 2)), 1: maybe(random, real(random, 0.5, 2))}
    keys |= {2: turns_a, 3: turns_b, 4: is_a, 5: is_b, 6: is_c, 7: m if is_a else 0, 8: n if is_b else 0}
    keys |= {9: k if is_a or is_b else 0, 10: 0}
    left, right = (k, m) if turns_a else (m, k), (n, k) if turns_b else (k, n)
    blobs: list[tuple[int, ...]] = [*([] if is_a else [left]), *([] if is_b else [right])]
    if is_c:
        keys |= {7: m, 8: n, 9: k, 10: integer(random, -1, 4)}
    elif chance(random):
        blobs.append(((1,), (m,), (m, 1), (m, n), (1, n))[integer(random, 0, 4)])
    keys[14] = maybe(random, integer(random, 0, 1))
    return Drawn(kind, keyed(keys), tuple(blobs))


@drawn("Embed")
def embed(random: Random, kind: str) -> Drawn:
    width, rows = integer(random, 1, 6), integer(random, 2, 9)
    keys = {0: width, 1: rows, 2: integer(random, 0, 1), 3: width * rows}
    return Drawn(kind, keyed(keys), ((integer(random, 1, 6),),), numbers=f"places {rows}")


@drawn("LSTM", "GRU", "RNN")
def recurrent(random: Random, kind: str) -> Drawn:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    time, size, hidden, way = (*(integer(random, 1, 5) for _ in range(3)), integer(random, 0, 2))
    ways = 2 if way == 2 else 1
    projected = hidden + integer(random, 1, 3) if kind == "LSTM" and chance(random, 0.3) else hidden
    keys = {0: hidden, 1: ways * gates * projected * size, 2: maybe(random, way) if way == 0 else way}
    keys |= {3: projected} if projected != hidden else {}
    states = [(ways, hidden), (ways, projected)][: 2 if kind == "LSTM" else 1]
    given, taken = chance(random, 0.3), chance(random, 0.5)
    blobs = ((time, size), *(states if given else []))
    return Drawn(kind, keyed(keys), blobs, 1 + len(states) if given or taken else 1)


@drawn("MultiHeadAttention")
def attention(random: Random, kind: str) -> Drawn:
    heads, each = integer(random, 1, 3), integer(random, 1, 4)
    embed_, rows, columns = heads * each, integer(random, 1, 5), integer(random, 1, 5)
    query, key, value = embed_, integer(random, 1, 5), integer(random, 1, 5)
    way = integer(random, 1, 3)
    if way == 1:
        key = value = query
        columns = rows
    if way == 2:
        value = key
    blobs: list[tuple[int, ...]] = [*((rows, query), (columns, key), (columns, value))[:way]]
    has_mask = chance(random, 0.4)
    if has_mask:
        blobs.append((heads, rows, columns) if chance(random) else (rows, columns))
    keys = {0: embed_, 1: heads, 2: embed_ * query, 3: key, 4: value, 5: int(has_mask)}
    return Drawn(kind, keyed({**keys, 6: maybe(random, real(random, 0.2, 1))}), tuple(blobs))


@drawn("SDPA")
def scaled_dot_product(random: Random, kind: str) -> Drawn:
    groups, each = integer(random, 1, 3), integer(random, 1, 2)
    rows, columns, size, width = (integer(random, 1, 5) for _ in range(4))
    blobs: list[tuple[int, ...]] = [(groups * each, rows, size), (groups, columns, size), (groups, columns, width)]
    has_mask = chance(random, 0.4)
    if has_mask:
        blobs.append((groups * each, rows, columns) if chance(random) else (rows, columns))
    return Drawn(kind, keyed({5: int(has_mask), 6: maybe(random, real(random, 0.2, 1))}), tuple(blobs))


@drawn("Einsum")
def einsum(random: Random, kind: str) -> Drawn:
    letters = "ijkl"[: integer(random, 2, 4)]
    sizes = {letter: integer(random, 1, 4) for letter in letters}
    terms = ["".join(letter for letter in letters if chance(random, 0.7)) or letters[0] for _ in range(2)]
    terms[1] += "".join(letter for letter in letters if letter not in "".join(terms))
    kept = "".join(letter for letter in letters if chance(random, 0.6)) or letters[0]
    codes = [ord(character) for character in f"{','.join(terms)}->{kept}"]
    return Drawn(kind, keyed({0: codes}), tuple(tuple(sizes[c] for c in term) for term in terms))


@drawn("RotaryEmbed")
def rotary(random: Random, kind: str) -> Drawn:
    heads, rows, half = integer(random, 1, 3), integer(random, 1, 5), integer(random, 1, 4)
    return Drawn(kind, keyed({0: integer(random, 0, 1)}), ((heads, rows, 2 * half), (rows, half), (rows, half)))


@drawn("StatisticsPooling")
def statistics(random: Random, kind: str) -> Drawn:
    return Drawn(kind, keyed({0: integer(random, 0, 1)}), (picture(random),))


WEIGHTED = tuple(DRAWS)
"""All types, when this module has registered its own."""
