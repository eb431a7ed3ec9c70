"""Products, transforms and weighted sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Case, Operand, constant, one
from tests.conformance.openvino.draw import Draw, Generator, register
from tests.conformance.openvino.drawn_moves import numbers

GENERATORS: dict[str, Generator] = {}
of = register(GENERATORS)

CLOSE = {"tolerance": 1e-3}


@of("opset1.MatMul")
def matmul(r: Draw, op_type: str) -> Case:
    m, k, n = r.numbers(1, 5, 3)
    dtype = r.one("float32", "float16", "int32", "float32")
    front = r.shape(0, 2, most=3)
    fronts = [tuple(1 if r.chance(0.3) else d for d in front) for _ in range(2)]
    left = (k,) if r.chance(0.15) else (*fronts[0], m, k)
    right = (k,) if r.chance(0.15) else (*fronts[1][r.number(0, len(front)) :], k, n)
    flags: dict[str, Any] = {}
    sides = []
    for name, shape in (("transpose_a", left), ("transpose_b", right)):
        turned = r.chance()
        flags |= {name: turned} if turned or r.chance() else {}
        sides.append((*shape[:-2], shape[-1], shape[-2]) if turned and len(shape) > 1 else shape)
    operands = [r.operand(r.tensor(shape, dtype), constant=c) for shape, c in zip(sides, (0.1, 0.5), strict=True)]
    return one(op_type, *operands, case=CLOSE, **flags)


@of("opset17.GroupedMatMul")
def grouped(r: Draw, op_type: str) -> Case:
    # No plugin supports the op type yet; its header is the specification.
    groups, rows, size, columns = r.numbers(1, 4, 4)
    weights = r.reals((groups, columns, size))
    if r.chance(0.3):
        x = r.reals((groups, rows, size))
        return one(op_type, r.operand(x), r.operand(weights), case={"expected": (x @ weights.transpose(0, 2, 1),)})
    x, ends = r.reals((rows, size)), np.sort(r.integers((groups,), 0, rows, "int32"))
    expected = np.zeros((rows, columns), np.float32)
    for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        expected[start:end] = x[start:end] @ weights[group].T
    return one(op_type, r.operand(x), r.operand(weights, dynamic=0), r.operand(ends), case={"expected": (expected,)})


@of("opset7.Einsum")
def einsum(r: Draw, op_type: str) -> Case:
    sizes = {letter: r.number(1, 4) for letter in "abcdeA"}
    equation = r.one(
        "ab,bc->ac", "abc,cd->abd", "ab->ba", "aab->b", "ab,ab->", "ab,cd->acbd", "ab,b", "abc->b", "aa->a"
    )
    equation = r.one(
        equation, "a...,...->a...", "ab...,bc...->ac...", "...ab,...cb->...ac", "Ab,bA,Ac->c", "ab,bc,cd->ad"
    )
    more = r.shape(0, 2, most=3)
    operands = []
    for part in equation.split("->")[0].split(","):
        shape: list[int] = []
        for letter in part.replace("...", "."):
            shape += [*more] if letter == "." else [sizes[letter]]
        operands.append(r.operand(r.reals(shape)))
    return one(op_type, *operands, case=CLOSE, equation=equation)


@of("opset14.Inverse")
def inverse(r: Draw, op_type: str) -> Case:
    n = r.number(1, 4)
    x = r.reals((*r.shape(0, 2, most=3), n, n)) + 3 * np.eye(n, dtype=np.float32)
    return one(
        op_type, r.operand(x, dynamic=0), case=CLOSE, **({"adjoint": r.one(True, False)} if r.chance(0.8) else {})
    )


def _along(r: Draw, rank: int) -> np.ndarray[Any, Any]:
    axes = r.random.permutation(rank)[: r.number(1, rank)]
    return np.where(r.random.random(axes.shape) < 0.4, axes - rank, axes)


@of("opset7.DFT", "opset7.IDFT")
def transform(r: Draw, op_type: str) -> Case:
    shape = (*r.shape(1, 3), 2)
    axes = _along(r, len(shape) - 1)
    sizes = [numbers(r, [r.one(-1, r.number(1, 6)) for _ in axes], constant=0.8)] if r.chance() else []
    # Negative axes leave out the last one, of two parts.
    return one(op_type, r.operand(r.reals(shape)), numbers(r, axes, constant=1), *sizes, case=CLOSE)


@of("opset9.IRDFT")
def inverse_real_transform(r: Draw, op_type: str) -> Case:
    shape = (*r.shape(1, 3, least=2), 2)
    axes = _along(r, len(shape) - 1)
    sizes = [numbers(r, [r.one(-1, shape[axis]) for axis in axes], constant=1)] if r.chance() else []
    return one(op_type, r.operand(r.reals(shape)), numbers(r, axes, constant=1), *sizes, case=CLOSE)


@of("opset16.ISTFT")
def short_inverse(r: Draw, op_type: str) -> Case:
    size = r.one(4, 6, 8)
    hop, frames = r.number(1, size // 2), r.number(2, 6)
    batch = r.one((), (2,), (1,))
    spectrum = r.reals((*batch, size // 2 + 1, frames, 2))
    wide = r.one(size, size, size - 2)
    window = np.abs(r.reals((wide,))) + 0.5
    kind = r.one("int64", "int32")
    sides = [constant(np.array(n, kind)) for n in (size, hop)]
    length = [r.operand(np.array(r.number(size, size + hop * frames), kind), constant=0.7)] if r.chance(0.4) else []
    flags = {"center": r.one(True, False), "normalized": r.one(True, False)}
    return one(
        op_type, r.operand(spectrum), r.operand(window, constant=0.5, dynamic=0), *sides, *length, case=CLOSE, **flags
    )


def _table(r: Draw, kind: str) -> tuple[Operand, int]:
    shape = (r.number(2, 6), *r.shape(0, 2, most=3))
    return r.operand(r.reals(shape, kind)), shape[0]


def _reduction(r: Draw, op_type: str) -> dict[str, str]:
    return {"reduction": r.one("sum", "mean")} if op_type.startswith("opset15") and r.chance(0.8) else {}


@of("opset3.EmbeddingBagOffsetsSum", "opset15.EmbeddingBagOffsets")
def bags_by_offsets(r: Draw, op_type: str) -> Case:
    (table, rows), kind, count = _table(r, "float32"), r.one("int64", "int32"), r.number(1, 7)
    places = r.integers((count,), 0, rows - 1, kind)
    # No trailing empty bags: an offset must be below the number of indices.
    offsets = np.sort(r.integers((r.number(1, 4),), 0, count - 1, kind))
    offsets[0] = 0
    more: list[Any] = [r.operand(places), r.operand(offsets)]
    flags, weighs = _reduction(r, op_type), r.chance(0.6)
    if weighs:
        more.append(np.array(r.number(-1, rows - 1), kind))
    if weighs and r.chance() and flags.get("reduction") != "mean":
        more.append(r.operand(r.reals((count,))))
    return one(op_type, table, *more, **flags)


@of("opset3.EmbeddingBagPackedSum", "opset15.EmbeddingBagPacked")
def bags_packed(r: Draw, op_type: str) -> Case:
    (table, rows), kind, shape = _table(r, "float32"), r.one("int64", "int32"), r.numbers(1, 4, 2)
    flags = _reduction(r, op_type)
    more = [r.operand(r.reals(shape))] if r.chance() and flags.get("reduction") != "mean" else []
    return one(op_type, table, r.operand(r.integers(shape, 0, rows - 1, kind)), *more, **flags)


@of("opset3.EmbeddingSegmentsSum")
def bags_by_segments(r: Draw, op_type: str) -> Case:
    (table, rows), kind, count = _table(r, "float32"), r.one("int64", "int32"), r.number(1, 7)
    segments = r.number(1, 5)
    ids = np.sort(r.integers((count,), 0, segments - 1, kind))
    more: list[Any] = [r.operand(r.integers((count,), 0, rows - 1, kind)), r.operand(ids)]
    more.append(r.operand(np.array(segments, kind), constant=0.7))
    if r.chance(0.7):
        more.append(np.array(r.number(-1, rows - 1), kind))
        if r.chance():
            more.append(r.operand(r.reals((count,))))
    return one(op_type, table, *more)


@of("opset1.CTCGreedyDecoder")
def greedy(r: Draw, op_type: str) -> Case:
    time, batch, classes = r.number(1, 6), r.number(1, 3), r.number(2, 4)
    mask = (np.arange(time)[:, None] < r.integers((1, batch), 1, time)).astype(np.float32)
    mask[0] = 1
    flags = {"ctc_merge_repeated": r.one(True, False)} if r.chance(0.8) else {}
    return one(op_type, r.operand(r.reals((time, batch, classes))), r.operand(mask), **flags)


@of("opset6.CTCGreedyDecoderSeqLen")
def greedy_by_lengths(r: Draw, op_type: str) -> Case:
    batch, time, classes, kind = r.number(1, 3), r.number(1, 6), r.number(2, 4), r.one("int64", "int32")
    blank = [constant(np.array(r.number(0, classes - 1), kind))] if r.chance() else []
    flags: dict[str, Any] = {"merge_repeated": r.one(True, False), "classes_index_type": r.one("i32", "i64")}
    flags |= {"sequence_length_type": r.one("i32", "i64")}
    kept = {name: each for name, each in flags.items() if r.chance(0.8)}
    lengths = r.integers((batch,), 1, time, kind)
    return one(op_type, r.operand(r.reals((batch, time, classes))), r.operand(lengths), *blank, results=2, **kept)


@of("opset4.CTCLoss")
def loss(r: Draw, op_type: str) -> Case:
    batch, time, classes, kind = r.number(1, 2), r.number(2, 5), r.number(2, 4), r.one("int64", "int32")
    blank = r.number(0, classes - 1)
    labels = r.integers((batch, time), 0, classes - 1, kind)
    labels = np.where(labels == blank, (blank + 1) % classes, labels).astype(kind)
    lengths = r.integers((batch,), 1, time, kind)
    wanted = np.minimum(r.integers((batch,), 1, time, kind), np.maximum(lengths // 2, 1)).astype(kind)
    flags = ("preprocess_collapse_repeated", "ctc_merge_repeated", "unique")
    kept = {name: r.one(True, False) for name in flags}
    logits = r.operand(r.reals((batch, time, classes)))
    more = [r.operand(lengths), r.operand(labels), r.operand(wanted)]
    last = [constant(np.array(blank, kind))] if blank != classes - 1 or r.chance() else []
    return one(op_type, logits, *more, *last, case=CLOSE, **kept)
