"""Operations that move, choose and pad elements, from NonZero on."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Case, constant, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}

of = register(GENERATORS)

ANY = ("float32", "float32", "float16", "int32", "int64", "int8", "uint8", "bool")
INDEX = ("int64", "int32")


def _axes(r: Draw, chosen: Any, rank: int) -> np.ndarray[Any, Any]:
    """Axes as they may be given: some counted from the end."""
    return np.array([int(k) - rank if r.chance(0.3) else int(k) for k in chosen], r.one(*INDEX))


@of("opset3.NonZero")
def nonzero(r: Draw, op_type: str) -> Case:
    flags = {"output_type": r.one("i32", "i64")} if r.chance(0.7) else {}
    return one(op_type, r.operand(r.integers(r.shape(least=r.one(0, 1)), 0, 1).astype(r.one(*ANY))), **flags)


@of("opset1.OneHot", "opset16.OneHot")
def one_hot(r: Draw, op_type: str) -> Case:
    depth = r.number(1, 5)
    indices = r.integers(r.shape(0, 3), -depth if r.chance(0.3) else 0, depth + 1, r.one(*INDEX))
    dtype = r.one("float32", "int32", "bool", "uint8", "int64", "float16")
    ends = [r.operand(np.array(x).astype(dtype), constant=0.8) for x in (1, 0)]
    flags: dict[str, Any] = {"axis": r.number(-indices.ndim - 1, indices.ndim)}
    if op_type == "opset16.OneHot" and r.chance(0.7):
        flags["negative_indices_mode"] = r.one("ignore_negative", "normalize")
    depth_type = r.one(*INDEX)
    return one(op_type, r.operand(indices), r.operand(np.array(depth, depth_type), constant=0.8), *ends, **flags)


@of("opset1.Pad", "opset12.Pad")
def pad(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4, least=2)
    mode = r.one("constant", "edge", "reflect", "symmetric", "constant")
    least = -1 if op_type == "opset12.Pad" and r.chance(0.4) else 0
    most = {"reflect": 1, "symmetric": 2}.get(mode, 3)
    ends = [np.array([r.number(least, min(most, n)) for n in shape], r.one(*INDEX)) for _ in range(2)]
    dtype = r.one("float32", "int32", "float16", "int8", "uint8", "int64")
    operands = [r.operand(r.tensor(shape, dtype)), *(r.operand(end, constant=0.8, dynamic=0) for end in ends)]
    if mode == "constant" and r.chance(0.6):
        operands.append(r.operand(np.array(r.number(0, 5)).astype(dtype), constant=0.6))
    return one(op_type, *operands, pad_mode=mode)


@of("opset1.Reverse")
def reverse(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    rank = len(shape)
    if r.chance():
        axes = np.sort(r.random.permutation(rank)[: r.number(0, rank)]).astype(r.one(*INDEX))
        return one(op_type, r.operand(r.tensor(shape, r.one(*ANY))), constant(axes), mode="index")
    mask = r.integers((rank,), 0, 1, np.bool_)
    return one(op_type, r.operand(r.tensor(shape, r.one(*ANY))), constant(mask), mode="mask")


@of("opset1.ReverseSequence")
def reverse_sequence(r: Draw, op_type: str) -> Case:
    shape = r.shape(2, 4)
    batch, along = (int(k) for k in r.random.permutation(len(shape))[:2])
    lengths = r.integers((shape[batch],), 1, shape[along], "int32")
    flags = {
        "batch_axis": batch - len(shape) if r.chance(0.3) else batch,
        "seq_axis": along - len(shape) if r.chance(0.3) else along,
    }
    return one(op_type, r.operand(r.tensor(shape, r.one("float32", "int32"))), r.operand(lengths, dynamic=0), **flags)


@of("opset7.Roll")
def roll(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4, least=r.one(0, 1, 1))
    count = r.number(1, 3)
    axes = r.integers((count,), -len(shape), len(shape) - 1, r.one(*INDEX))
    shift = r.integers((count,), -7, 7, r.one(*INDEX))
    if count == 1 and r.chance():
        shift = shift.reshape(())
    return one(
        op_type,
        r.operand(r.tensor(shape, r.one(*ANY))),
        r.operand(shift, constant=0.5, dynamic=0),
        r.operand(axes, constant=0.7, dynamic=0),
    )


@of("opset3.ScatterUpdate")
def scatter(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    axis = r.number(0, len(shape) - 1)
    count = r.number(0 if r.chance(0.1) else 1, shape[axis])
    places = r.random.permutation(shape[axis])[:count].astype(r.one(*INDEX))
    if count == 4 and r.chance():
        places = places.reshape(2, 2)
    dtype = r.one("float32", "int32", "float16", "int64", "uint8", "int8")
    updates = r.tensor((*shape[:axis], *places.shape, *shape[axis + 1 :]), dtype)
    if r.chance(0.2):
        places = places - shape[axis]
    at = np.array(axis - len(shape) if r.chance(0.3) else axis, r.one(*INDEX))
    x = r.operand(r.tensor(shape, dtype))
    return one(op_type, x, r.operand(places, dynamic=0), r.operand(updates, dynamic=0), r.operand(at, constant=0.8))


@of("opset3.ScatterElementsUpdate", "opset12.ScatterElementsUpdate")
def scatter_elements(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    axis = r.number(0, len(shape) - 1)
    taken = tuple(r.number(1, n) for n in shape)
    flags: dict[str, Any] = {}
    reduction = "none"
    if op_type == "opset12.ScatterElementsUpdate":
        reduction = r.one("none", "sum", "prod", "min", "max", "mean")
        flags = {"reduction": reduction, "use_init_val": r.one(True, False)}
        if r.chance(0.2):
            flags, reduction = {}, "none"
    if reduction == "none":
        places = np.argsort(r.random.random(shape), axis=axis)[tuple(slice(0, n) for n in taken)]
    else:
        places = r.integers(taken, 0, shape[axis] - 1)
    if r.chance(0.3):
        places = places - shape[axis] * r.integers(taken, 0, 1)
    dtype = r.one("float32", "int32", "float32")
    x, updates = r.tensor(shape, dtype), r.tensor(taken, dtype)
    at = np.array(axis - len(shape) if r.chance(0.3) else axis, r.one(*INDEX))
    operands = [r.operand(x), r.operand(places.astype(r.one(*INDEX)), dynamic=0.1), r.operand(updates, dynamic=0.1)]
    return one(op_type, *operands, constant(at), **flags)


@of("opset4.ScatterNDUpdate", "opset15.ScatterNDUpdate")
def scatter_nd(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    depth = r.number(1, len(shape))
    flags: dict[str, Any] = {}
    if op_type == "opset15.ScatterNDUpdate" and r.chance(0.8):
        flags = {"reduction": r.one("none", "sum", "sub", "prod", "min", "max")}
    count = r.number(1, 3)
    if flags.get("reduction", "none") == "none":
        flat = r.random.permutation(int(np.prod(shape[:depth])))[:count]
        places = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    else:
        places = np.stack([r.integers((count,), 0, n - 1) for n in shape[:depth]], -1)
    if r.chance(0.3):
        places = places - np.array(shape[:depth]) * r.integers(places.shape, 0, 1)
    dtype = r.one("float32", "int32", "float16" if flags.get("reduction", "none") == "none" else "float32")
    updates = r.tensor((len(places), *shape[depth:]), dtype)
    operands = [r.operand(r.tensor(shape, dtype)), r.operand(places.astype(r.one(*INDEX)), dynamic=0.1)]
    return one(op_type, *operands, r.operand(updates, dynamic=0.1), **flags)


@of("opset15.SearchSorted")
def search_sorted(r: Draw, op_type: str) -> Case:
    front = r.shape(0, 2)
    count = r.number(1, 6)
    dtype = r.one("float32", "int32", "int64")
    rows = np.sort(r.integers((*front, count), -5, 5), axis=-1).astype(dtype)
    wanted = r.integers((*front, r.number(1, 4)), -6, 6).astype(dtype)
    if r.chance(0.3):
        rows = np.sort(r.integers((count,), -5, 5)).astype(dtype)
        wanted = r.integers(r.shape(0 if r.chance(0.2) else 1, 3), -6, 6).astype(dtype)
    flags: dict[str, Any] = {"right_mode": r.one(True, False)} if r.chance(0.8) else {}
    flags |= {"output_type": r.one("i32", "i64")} if r.chance() else {}
    return one(op_type, r.operand(rows), r.operand(wanted), **flags)


@of("opset16.SegmentMax")
def segment_max(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 3)
    groups = np.sort(r.integers((shape[0],), 0, 3)).astype(r.one(*INDEX))
    count = [r.operand(np.array(r.number(1, 6), groups.dtype), constant=0.7)] if r.chance() else []
    x = r.operand(r.tensor(shape, r.one("float32", "int32", "int8")))
    return one(op_type, x, r.operand(groups, dynamic=0, constant=0.4), *count, fill_mode=r.one("zero", "lowest"))


@of("opset1.Select")
def select(r: Draw, op_type: str) -> Case:
    rule = r.one("", "numpy", "none", "numpy", "pdpd")
    shape = r.shape()
    sides = [shape] * 3
    if rule in ("", "numpy"):
        sides = [
            tuple(1 if r.chance(0.25) else n for n in shape)[r.number(0, len(shape)) * r.number(0, 1) :] for _ in "abc"
        ]
    elif rule == "pdpd":
        cut = r.number(0, len(shape))
        sides = [shape[cut:], shape, shape]
        if any(n == 1 for n in shape):
            sides = [shape] * 3
    flags = {"auto_broadcast": rule} if rule else {}
    dtype = r.one(*ANY)
    operands = [r.operand(r.integers(sides[0], 0, 1, np.bool_), constant=0.1)]
    operands += [r.operand(r.tensor(side, dtype, special=r.chance(0.3)), constant=0.2) for side in sides[1:]]
    return one(op_type, *operands, **flags)


@of("opset1.ShapeOf", "opset3.ShapeOf")
def shape_of(r: Draw, op_type: str) -> Case:
    flags = {"output_type": r.one("i32", "i64")} if op_type == "opset3.ShapeOf" else {}
    return one(op_type, r.operand(r.tensor(r.shape(least=0), r.one(*ANY))), **flags)


@of("opset1.ShuffleChannels")
def shuffle(r: Draw, op_type: str) -> Case:
    shape = list(r.shape(1, 5, most=3))
    axis, group = r.number(0, len(shape) - 1), r.number(1, 3)
    shape[axis] = group * r.number(1, 3)
    said = {"axis": axis - len(shape) if r.chance(0.3) else axis, "group": group}
    if axis == 1 and r.chance(0.3):
        del said["axis"]
    return one(op_type, r.operand(r.tensor(shape, r.one("float32", "int32", "uint8"))), **said)


@of("opset8.Slice")
def slice_(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4, least=r.one(0, 1, 1, 1))
    chosen = r.random.permutation(len(shape))[: r.number(0 if r.chance(0.1) else 1, len(shape))]
    dtype = r.one(*INDEX)
    far = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    step = np.array([r.one(1, 1, 2, -1, -2, 3, -5) for _ in chosen], dtype)
    ends = [np.array([r.one(*far) if r.chance(0.15) else r.number(-6, 6) for _ in chosen], dtype) for _ in range(2)]
    operands = [r.operand(r.tensor(shape, r.one(*ANY)))]
    operands += [r.operand(x, constant=0.6, dynamic=0) for x in (*ends, step)]
    if list(chosen) != list(range(len(chosen))) or r.chance():
        operands.append(r.operand(_axes(r, chosen, len(shape)).astype(dtype), constant=0.8, dynamic=0))
    # The plugin dies of some ends.
    return one(op_type, *operands, case={"judges": ("evaluation",)})


@of("opset15.SliceScatter")
def slice_scatter(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    chosen = [int(k) for k in r.random.permutation(len(shape))[: r.number(1, len(shape))]]
    if r.chance(0.4):
        chosen = list(range(len(chosen)))
    taken, rows = [slice(None)] * len(shape), []
    for axis in chosen:
        step = r.one(1, 1, 2, -1, -2)
        begin = r.number(-shape[axis], shape[axis] - 1)
        end = r.one(-(shape[axis] + 1), 0, shape[axis], r.number(-shape[axis], shape[axis]))
        taken[axis] = slice(begin, end, step)
        rows.append((begin, end, step))
    dtype, index = r.one("float32", "int32", "float32"), r.one(*INDEX)
    x = r.tensor(shape, dtype)
    updates = r.tensor(x[tuple(taken)].shape, dtype)
    operands = [r.operand(np.array(each, index), constant=0.7, dynamic=0) for each in zip(*rows, strict=True)]
    if chosen != list(range(len(chosen))) or r.chance():
        operands.append(r.operand(_axes(r, chosen, len(shape)).astype(index), constant=0.8, dynamic=0))
    # The plugin crashes for some limits, and evaluation does not support the op type: the oracle is NumPy's slicing.
    expected = x.copy()
    expected[tuple(taken)] = updates
    told = {"expected": (expected,), "judges": ("evaluation",)}
    return one(op_type, r.operand(x), r.operand(updates, dynamic=0), *operands, case=told)


@of("opset1.Reshape")
def reshape(r: Draw, op_type: str) -> Case:
    shape = r.shape(0, 4, least=r.one(0, 1, 1, 1))
    flat, wanted = [int(n) for n in shape], [int(n) for n in r.random.permutation(shape)]
    if len(wanted) > 1 and r.chance():
        wanted = [wanted[0] * wanted[1], *wanted[2:]]
    wanted = [1] * r.number(0, 1) + wanted + [1] * r.number(0, 1)
    special = r.chance()
    pattern = [0 if special and k < len(flat) and flat[k] == n and r.chance() else n for k, n in enumerate(wanted)]
    if pattern and 0 not in flat and r.chance():
        pattern[r.number(0, len(pattern) - 1)] = -1
    x = r.operand(r.tensor(shape, r.one(*ANY)))
    return one(op_type, x, r.operand(np.array(pattern, r.one(*INDEX)), constant=0.7, dynamic=0), special_zero=special)


@of("opset2.SpaceToBatch")
def space_to_batch(r: Draw, op_type: str) -> Case:
    rank = r.number(3, 5)
    block = (1, *(r.number(1, 2) for _ in range(rank - 1)))
    begin = (0, *(r.number(0, 2) for _ in block[1:]))
    end, shape = [0], [r.number(1, 2)]
    for size, before in zip(block[1:], begin[1:], strict=True):
        n = r.number(1, 4)
        after = -(n + before) % size
        shape.append(n)
        end.append(after)
    dtype = r.one(*INDEX)
    operands = [r.operand(r.tensor(shape, r.one("float32", "int32")))]
    return one(op_type, *operands, *(constant(np.array(x, dtype)) for x in (block, begin, end)))


@of("opset1.SpaceToDepth")
def space_to_depth(r: Draw, op_type: str) -> Case:
    size = r.number(1, 3)
    shape = (r.number(1, 2), r.number(1, 3), *(size * r.number(1, 2) for _ in range(r.number(1, 3))))
    flags = {"block_size": size, "mode": r.one("blocks_first", "depth_first")}
    # Evaluation writes past the end of its buffer.
    x = r.operand(r.tensor(shape, r.one("float32", "float16", "int32")))
    return one(op_type, x, case={"judges": ("plugin",)}, **flags)


@of("opset1.Split")
def split(r: Draw, op_type: str) -> Case:
    shape = list(r.shape(1, 4))
    axis, parts = r.number(0, len(shape) - 1), r.number(1, 3)
    shape[axis] = parts * r.number(1, 3)
    at = np.array(
        axis - len(shape) if r.chance(0.3) else axis,
        r.one("int64", "int32", "int8", "uint8" if r.chance() else "int64"),
    )
    if at < 0:
        at = at.astype("int64")
    x = r.operand(r.tensor(shape, r.one(*ANY)))
    return one(
        op_type,
        x,
        r.operand(np.array(axis) if at.dtype == np.uint8 else at, constant=0.9),
        results=parts,
        num_splits=parts,
    )


@of("opset1.VariadicSplit")
def variadic(r: Draw, op_type: str) -> Case:
    shape = list(r.shape(1, 4))
    axis = r.number(0, len(shape) - 1)
    lengths = [r.number(0 if r.chance(0.1) else 1, 3) for _ in range(r.number(1, 3))]
    shape[axis] = sum(lengths)
    if r.chance(0.4) and shape[axis]:
        lengths[r.number(0, len(lengths) - 1)] = -1
    at = np.array(axis - len(shape) if r.chance(0.3) else axis, r.one(*INDEX))
    operands = [r.operand(r.tensor(shape, r.one(*ANY))), constant(at)]
    operands.append(r.operand(np.array(lengths, r.one(*INDEX)), constant=0.8, dynamic=0))
    return one(op_type, *operands, results=len(lengths))


@of("opset1.Squeeze", "opset15.Squeeze")
def squeeze(r: Draw, op_type: str) -> Case:
    shape = tuple(r.one(1, 1, 2, 3) for _ in range(r.number(1, 5)))
    ones = [k for k, n in enumerate(shape) if n == 1]
    operands = [r.operand(r.tensor(shape, r.one(*ANY)), dynamic=0)]
    flags: dict[str, Any] = {}
    if r.chance(0.8):
        chosen = list(r.random.permutation(ones)[: r.number(0 if r.chance(0.1) else min(1, len(ones)), len(ones))])
        if op_type == "opset15.Squeeze" and r.chance():
            flags = {"allow_axis_skip": True}
            chosen += [k for k, n in enumerate(shape) if n > 1 and r.chance(0.3)]
        axes = _axes(r, chosen, len(shape))
        if len(axes) == 1 and r.chance():
            axes = axes.reshape(())
        operands.append(r.operand(axes, constant=0.9, dynamic=0))
    return one(op_type, *operands, **flags)


@of("opset1.Unsqueeze")
def unsqueeze(r: Draw, op_type: str) -> Case:
    shape = r.shape(0, 3)
    rank = len(shape) + r.number(1, 3)
    axes = _axes(r, r.random.permutation(rank)[: rank - len(shape)], rank)
    if len(axes) == 1 and r.chance():
        axes = axes.reshape(())
    return one(op_type, r.operand(r.tensor(shape, r.one(*ANY))), r.operand(axes, constant=0.9, dynamic=0))


@of("opset1.StridedSlice")
def strided(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    count = r.number(1, len(shape))
    dtype = r.one(*INDEX)
    step = [r.one(1, 1, 1, 2, -1, -2) for _ in range(count)]
    ends = [[r.number(-5, 5) for _ in range(count)] for _ in range(2)]
    masks = {name: [int(r.chance(0.2)) for _ in range(count)] for name in ("begin_mask", "end_mask")}
    for name in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask"):
        masks[name] = [int(r.chance(0.12)) for _ in range(count)]
    if sum(masks["ellipsis_mask"]) > 1 or r.chance(0.5):
        masks["ellipsis_mask"] = [0] * count
    inner, place = {}, 0
    for k in range(count):
        if masks["ellipsis_mask"][k]:
            taken = sum(not masks["new_axis_mask"][j] for j in range(k + 1, count))
            place = len(shape) - taken
            continue
        if masks["new_axis_mask"][k]:
            masks["shrink_axis_mask"][k] = 0
            continue
        inner[k] = place
        place += 1
        if masks["shrink_axis_mask"][k]:
            # One existing element with stride 1: all other cases are unspecified.
            masks["begin_mask"][k], masks["end_mask"][k], step[k] = 0, 0, 1
            at = min(inner[k], len(shape) - 1)
            ends[0][k] = r.number(-shape[at], shape[at] - 1)
            ends[1][k] = ends[0][k] + 1
    flags = {name: tuple(mask) for name, mask in masks.items() if (name[0] in "be" and name[1] != "l") or any(mask)}
    operands = [r.operand(r.tensor(shape, r.one(*ANY)), dynamic=0.2)]
    operands += [r.operand(np.array(x, dtype), constant=0.7, dynamic=0) for x in ends]
    if r.chance(0.8) or any(x != 1 for x in step):
        operands.append(constant(np.array(step, dtype)))
    return one(op_type, *operands, **flags)


@of("opset1.Tile")
def tile(r: Draw, op_type: str) -> Case:
    shape = r.shape(0, 3, least=r.one(0, 1, 1))
    repeats = np.array(r.numbers(0 if r.chance(0.1) else 1, 3, r.number(1, 4)), r.one(*INDEX))
    x = r.operand(r.tensor(shape, r.one(*ANY)))
    # Evaluation dies of nothing.
    return one(op_type, x, r.operand(repeats, constant=0.7, dynamic=0), case={"judges": ("plugin",)})


@of("opset1.TopK", "opset3.TopK", "opset11.TopK")
def top_k(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 4)
    axis = r.number(0, len(shape) - 1)
    k = r.number(1, shape[axis])
    flags: dict[str, Any] = {
        "axis": axis - len(shape) if r.chance(0.3) else axis,
        "mode": r.one("max", "min"),
        "sort": r.one("value", "index", "value"),
    }
    if op_type != "opset1.TopK" and r.chance():
        flags["index_element_type"] = r.one("i32", "i64")
    if op_type == "opset11.TopK" and flags["sort"] == "value":
        flags["stable"] = r.one(True, False)
    x = r.random.permutation(int(np.prod(shape))).reshape(shape).astype(r.one("float32", "int32", "float16"))
    if flags.get("stable"):
        x = r.integers(shape, -2, 2).astype("float32")
    count = np.array(k, r.one("int64", "int32", "int8"))
    return one(op_type, r.operand(x), r.operand(count, constant=0.8), results=2, **flags)


@of("opset1.Transpose")
def transpose(r: Draw, op_type: str) -> Case:
    shape = r.shape(0, 5, most=3)
    order = r.random.permutation(len(shape)).astype(r.one(*INDEX))
    if r.chance(0.2):
        order = order[:0]
    return one(op_type, r.operand(r.tensor(shape, r.one(*ANY))), constant(order))


@of("opset10.Unique")
def unique(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 3)
    x = r.integers(shape, 0, 3).astype(r.one("float32", "int32", "int64", "int8", "uint8"))
    flags: dict[str, Any] = {"sorted": r.one(True, False)} if r.chance(0.8) else {}
    for name in ("index_element_type", "count_element_type"):
        if r.chance():
            flags[name] = r.one("i32", "i64")
    axis = [constant(np.array(r.number(-len(shape), len(shape) - 1), r.one(*INDEX)))] if r.chance() else []
    return one(op_type, r.operand(x), *axis, results=4, **flags)


@of("opset4.Range", "opset1.Range")
def range_(r: Draw, op_type: str) -> Case:
    """At run time its plugin has different rules: constants only."""
    kind = r.one("int32", "int64", "float32")
    start, step = r.number(-9, 9), r.one(1, 2, -1, -3, 5)
    stop = start + step * r.number(0, 6) + r.number(-1, 1)
    ends = [constant(np.array(x, kind)) for x in (start, stop, step)]
    flags = {"output_type": r.one("i32", "i64", "f32", "f16")} if op_type == "opset4.Range" else {}
    return one(op_type, *ends, **flags)
