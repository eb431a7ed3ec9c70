"""Operations that move, repeat and look up entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Case, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}
of = register(GENERATORS)

TYPES = ("float32", "float16", "int32", "int64", "uint8", "bool")


def numbers(r: Draw, given: Any, *, constant: float = 0.6) -> Any:
    """Integers in one of the types that places are given in."""
    return r.operand(np.array(given, r.one("int64", "int32")), constant=constant, dynamic=0)


@of("opset2.BatchToSpace")
def batch_to_space(r: Draw, op_type: str) -> Case:
    rank = r.number(2, 5)
    blocks = (1, *r.numbers(1, 3, rank - 1))
    shape = (int(np.prod(blocks)) * r.number(1, 2), *r.numbers(2, 4, rank - 1))
    begin = (0, *(r.number(0, b - 1) for b in blocks[1:]))
    end = (0, *(r.number(0, b - 1) for b in blocks[1:]))
    kind = r.one("int64", "int32")
    places = [r.operand(np.array(each, kind), constant=1) for each in (blocks, begin, end)]
    return one(op_type, r.operand(r.tensor(shape, r.one(*TYPES))), *places)


@of("opset1.Broadcast", "opset3.Broadcast")
def broadcast(r: Draw, op_type: str) -> Case:
    mode = r.one("numpy", "explicit", *(["bidirectional"] if op_type == "opset3.Broadcast" else []))
    target, dtype = r.shape(1, 4), r.one(*TYPES)
    if mode == "explicit":
        axes = tuple(sorted(r.random.permutation(len(target))[: r.number(1, len(target))].tolist()))
        x = r.tensor([r.one(1, target[k]) if r.chance(0.3) else target[k] for k in axes], dtype)
        return one(op_type, r.operand(x), numbers(r, target), numbers(r, axes, constant=1), mode=mode)
    cut = r.number(0, len(target))
    shape = [1 if r.chance(0.4) else n for n in target][cut:]
    if mode == "bidirectional":
        shape = [n if n > 1 or r.chance() else r.number(1, 3) for n in shape]
        target = tuple(
            1 if k >= cut and shape[k - cut] != n and shape[k - cut] > 1 else n for k, n in enumerate(target)
        )
    flags = {} if mode == "numpy" and r.chance() else {"mode": mode}
    return one(op_type, r.operand(r.tensor(shape, dtype)), numbers(r, target), **flags)


@of("opset1.Concat")
def concat(r: Draw, op_type: str) -> Case:
    shape, dtype = list(r.shape(1, 4)), r.one(*TYPES)
    axis = r.number(0, len(shape) - 1)
    parts = [[*shape[:axis], r.number(0, 3), *shape[axis + 1 :]] for _ in range(r.number(1, 4))]
    operands = [r.operand(r.tensor(part, dtype), constant=0.2) for part in parts]
    return one(op_type, *operands, axis=axis - len(shape) * r.number(0, 1))


@of("opset1.DepthToSpace")
def depth_to_space(r: Draw, op_type: str) -> Case:
    rank, size = r.number(1, 3), r.number(1, 3)
    shape = (r.number(1, 2), size**rank * r.number(1, 3), *r.numbers(1, 4, rank))
    return one(
        op_type,
        r.operand(r.reals(shape)),
        block_size=size,
        mode=r.one("blocks_first", "depth_first"),
        case={"judges": ("plugin",)},
    )


@of("opset1.Gather", "opset7.Gather", "opset8.Gather")
def gather(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    axis = r.number(0, len(shape) - 1)
    batch = 0 if op_type == "opset1.Gather" else r.number(0, min(axis, 2))
    low = -shape[axis] if op_type == "opset8.Gather" else 0
    places = r.integers((*shape[:batch], *r.shape(0, 2)), low, shape[axis] - 1, r.one("int64", "int32"))
    # Its plugin reads indices at run time that count from the end as 0.
    data = r.operand(r.tensor(shape, r.one(*TYPES)), constant=0.3)
    flags: dict[str, Any] = {}
    if batch or (op_type != "opset1.Gather" and r.chance()):
        flags["batch_dims"] = batch - (places.ndim if batch and r.chance(0.3) else 0)
    along = axis - len(shape) * r.number(0, 1)
    return one(op_type, data, r.operand(places, constant=0.3), numbers(r, along, constant=1), **flags)


@of("opset6.GatherElements")
def gather_elements(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    axis = r.number(0, len(shape) - 1)
    wanted = [r.number(1, 5) if k == axis else n for k, n in enumerate(shape)]
    places = r.integers(wanted, -shape[axis], shape[axis] - 1, r.one("int64", "int32"))
    x = r.operand(r.tensor(shape, r.one(*TYPES)))
    return one(op_type, x, r.operand(places, constant=0.3), axis=axis - len(shape) * r.number(0, 1))


@of("opset5.GatherND", "opset8.GatherND")
def gather_nd(r: Draw, op_type: str) -> Case:
    batch = r.number(0, 2)
    shape = r.shape(batch + 1, 4)
    depth = r.number(1, len(shape) - batch)
    middle = r.shape(0, 2)
    dims = shape[batch : batch + depth]
    low = r.one(0, 1)
    each = [r.integers((*shape[:batch], *middle), -n * low, n - 1) for n in dims]
    places = np.stack(each, axis=-1).astype(r.one("int64", "int32"))
    flags = {} if batch == 0 and r.chance() else {"batch_dims": batch}
    return one(op_type, r.operand(r.tensor(shape, r.one(*TYPES))), r.operand(places, constant=0.3), **flags)


@of("opset1.GatherTree")
def gather_tree(r: Draw, op_type: str) -> Case:
    time, batch, beams = r.numbers(1, 5, 3)
    dtype = r.one("int32", "float32")
    steps, parents = (
        r.integers((time, batch, beams), 1, 9, dtype),
        r.integers((time, batch, beams), 0, beams - 1, dtype),
    )
    lengths, end = r.integers((batch,), 1, time, dtype), r.integers((), 5, 9, dtype)
    return one(op_type, steps, parents, r.operand(lengths), end)


@of("opset9.GridSample")
def grid_sample(r: Draw, op_type: str) -> Case:
    n, c = r.numbers(1, 2, 2)
    flags = {"align_corners": r.one(True, False), "mode": r.one("bilinear", "nearest", "bicubic")}
    flags |= {"padding_mode": r.one("zeros", "border", "reflection")}
    grid = r.reals((n, *r.numbers(1, 4, 2), 2), spread=0.8)
    kept = {name: each for name, each in flags.items() if r.chance(0.8)}
    return one(
        op_type, r.operand(r.reals((n, c, *r.numbers(2, 5, 2)))), r.operand(grid), case={"tolerance": 1e-3}, **kept
    )


@of("opset3.CumSum")
def cumulative_sum(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    flags = {name: r.one(True, False) for name in ("exclusive", "reverse") if r.chance(0.8)}
    axis = numbers(r, r.number(-len(shape), len(shape) - 1), constant=0.7)
    return one(op_type, r.operand(r.tensor(shape, r.one("float32", "int32", "int64", "float16"))), axis, **flags)


@of("opset9.Eye")
def eye(r: Draw, op_type: str) -> Case:
    kind = r.one("int64", "int32")
    sides = [r.operand(np.array(r.number(1, 5), kind), constant=0.6) for _ in range(2)]
    diagonal = r.operand(np.array(r.number(-4, 4), kind), constant=0.6)
    batch = [r.operand(np.array(r.numbers(1, 3, r.number(1, 2)), kind), constant=0.6, dynamic=0)] if r.chance() else []
    return one(op_type, *sides, diagonal, *batch, output_type=r.one("f32", "i32", "i64", "u8", "f16"))


@of("opset3.Bucketize")
def bucketize(r: Draw, op_type: str) -> Case:
    dtype = r.one("float32", "int32", "int64")
    edges = np.unique(r.tensor((r.number(1, 6),), dtype))
    flags = {"output_type": r.one("i32", "i64"), "with_right_bound": r.one(True, False)}
    kept = {name: each for name, each in flags.items() if r.chance(0.8)}
    return one(op_type, r.operand(r.tensor(r.shape(), dtype)), r.operand(edges, constant=0.5), **kept)


@of("opset16.SparseFillEmptyRows")
def sparse_fill_empty_rows(r: Draw, op_type: str) -> Case:
    """Each place is named once, as OpenVINO promises no order of the same; it refuses tables without entries."""
    rows, columns = r.numbers(1, 7, 2)
    held = r.random.permutation(rows * columns)[: r.number(1, min(rows * columns, 9))]
    kind, dtype = r.one("int64", "int32"), r.one(*TYPES)
    places = np.stack([held // columns, held % columns], -1).astype(kind)
    shape = r.operand(np.array([rows, columns], kind), constant=0.5, dynamic=0.2)
    values, default = r.operand(r.tensor((len(held),), dtype)), r.operand(r.tensor((), dtype), constant=0.6)
    return one(op_type, values, shape, r.operand(places, constant=0.2), default, results=3)
