"""Chains of operators that only move elements compute bit for bit what NumPy does, whatever is merged of them."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from tests.draws import times
from tests.passes.cases import info, model, node

MERGING = ("merge-reshapes", "merge-transposes", "push-transposes", "merge-slices", "merge-concats")
EXTENTS = (2, 3, 5, 7)


class Moves:
    """A random network of moves over one array of unequal extents, and what NumPy makes of that array."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.extents = draw(st.permutations(EXTENTS))[: draw(st.integers(2, 4))]
        self.values = {"x": np.arange(prod(self.extents), dtype=np.float32).reshape(self.extents)}
        self.nodes = []
        self.constants = {}

    def add(self, op: str, operands: list[str], result: np.ndarray, **attributes) -> None:
        name = f"t{len(self.values)}"
        self.nodes.append(node(op, " ".join(operands), name, **attributes))
        self.values[name] = result

    def constant(self, *numbers) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(numbers, np.int64)
        return name

    def source(self) -> str:
        # Of the last three, so that chains are long and some values have several readers.
        last = [name for name, array in self.values.items() if array.ndim and array.size < 2000][-3:]
        return self.draw(st.sampled_from(last))

    def transpose(self) -> None:
        name = self.source()
        perm = self.draw(st.permutations(range(self.values[name].ndim)))
        self.add("Transpose", [name], self.values[name].transpose(perm), perm=perm)

    def reshape(self) -> None:
        name = self.source()
        x = self.values[name]
        cuts = sorted(self.draw(st.lists(st.integers(0, x.ndim), max_size=2)))
        shape = [prod(x.shape[a:b]) for a, b in itertools.pairwise([0, *cuts, x.ndim])]
        target = list(shape)
        if self.draw(st.booleans()):
            target[self.draw(st.integers(0, len(target) - 1))] = -1
        self.add("Reshape", [name, self.constant(*target)], x.reshape(shape))

    def flatten(self) -> None:
        name = self.source()
        x = self.values[name]
        axis = self.draw(st.integers(-x.ndim, x.ndim))
        self.add("Flatten", [name], x.reshape(prod(x.shape[:axis]), -1), axis=axis)

    def unsqueeze(self) -> None:
        name = self.source()
        x = self.values[name]
        axis = self.draw(st.integers(-x.ndim - 1, x.ndim))
        self.add("Unsqueeze", [name, self.constant(axis)], np.expand_dims(x, axis))

    def squeeze(self) -> None:
        name = self.source()
        x = self.values[name]
        single = [axis - x.ndim * self.draw(st.booleans()) for axis, extent in enumerate(x.shape) if extent == 1]
        if single:
            axes = tuple(self.draw(st.lists(st.sampled_from(single), min_size=1, unique=True)))
            self.add("Squeeze", [name, self.constant(*axes)], x.squeeze(axes))

    def slice(self) -> None:
        name = self.source()
        x = self.values[name]
        axes = self.draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, max_size=2, unique=True))
        rows = []
        for axis in axes:
            extent = x.shape[axis]
            step = self.draw(st.sampled_from([1, 1, 2, -1]))
            start = self.draw(st.integers(-extent, extent - 1))
            end = self.draw(st.sampled_from([extent, 1 << 60, -1])) if step > 0 else -(1 << 60)
            rows.append((start, end, axis - x.ndim * self.draw(st.booleans()), step))
            x = np.take(x, range(*slice(start, end, step).indices(extent)), axis)
        if x.size:
            self.add("Slice", [name, *(self.constant(*column) for column in zip(*rows, strict=True))], x)

    def concat(self) -> None:
        name = self.source()
        x = self.values[name]
        axis = self.draw(st.integers(0, x.ndim - 1))
        rest = (*x.shape[:axis], *x.shape[axis + 1 :])
        fitting = [
            other
            for other, y in self.values.items()
            if y.ndim == x.ndim and (*y.shape[:axis], *y.shape[axis + 1 :]) == rest
        ]
        operands = [name, self.draw(st.sampled_from(fitting))][:: self.draw(st.sampled_from([1, -1]))]
        said = axis - x.ndim * self.draw(st.booleans())
        self.add("Concat", operands, np.concatenate([self.values[each] for each in operands], axis), axis=said)

    def pointwise(self) -> None:
        name = self.source()
        self.add("Neg", [name], -self.values[name])

    def grow(self) -> None:
        moves = (self.transpose, self.reshape, self.flatten, self.unsqueeze, self.squeeze, self.slice, self.concat)
        self.draw(st.sampled_from((*moves, self.transpose, self.pointwise)))()


@st.composite
def networks(draw: st.DrawFn):
    """A network, its input and its expected outputs."""
    network = Moves(draw)
    for _ in range(draw(st.integers(1, 9))):
        network.grow()
    network.pointwise()
    made = [name for name in network.values if name != "x"]
    names = list(dict.fromkeys([made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))]))
    opened = [f"s{axis}" if draw(st.booleans()) else extent for axis, extent in enumerate(network.extents)]
    proto = model(network.nodes, [info("x", opened)], [info(name, None) for name in names], network.constants)
    return proto, {"x": network.values["x"]}, {name: network.values[name] for name in names}


@given(networks(), st.sampled_from([(), *((name,) for name in MERGING)]))
@settings(max_examples=times(80))
def test_random_data_movement_matches_numpy_after_simplify(network, only):
    proto, given_, expected = network
    found, _ = gp.simplify(gp.from_onnx(proto), only=only, verify=False)
    outputs = gp.run(found, given_, backend="reference")
    for name, wanted in expected.items():
        np.testing.assert_array_equal(outputs[name], wanted, err_msg=name)


def merged(nodes, shape, constants=None, **options):
    proto = model(nodes, [info("x", shape)], [info("y", None)], constants or {})
    found, report = gp.simplify(gp.from_onnx(proto), verify=False, **options)
    x = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    return found, report, x, gp.run(found, {"x": x}, backend="reference")["y"]


@pytest.mark.parametrize("between", [(), ("Neg",)], ids=["next to each other", "with an operator between"])
def test_two_orders_are_composed_in_theirs(between):
    """All pairs of orders of three axes, most of which do not commute."""
    merge = "push-transposes" if between else "merge-transposes"
    for p, q in itertools.product(itertools.permutations(range(3)), repeat=2):
        middle = [node(op, "h", "k") for op in between]
        nodes = [node("Transpose", "x", "h", perm=p), *middle, node("Transpose", "k" if between else "h", "y", perm=q)]
        found, report, x, y = merged(nodes, (2, 3, 5), only=[merge, "remove-dead"])
        assert report.changes[merge] == 1
        assert [each.op for each in found.graph].count("Transpose") == 1
        expected = x.transpose(p).transpose(q)
        np.testing.assert_array_equal(y, -expected if between else expected, err_msg=f"{p} then {q}")


def test_slices_along_different_axes_are_merged():
    def cut(value, result, prefix):
        return node("Slice", f"{value} {prefix}s {prefix}e {prefix}a {prefix}t", result)

    def rows(prefix, start, end, axis, step):
        columns = dict(zip("seat", (start, end, axis, step), strict=True))
        return {prefix + letter: np.array([number]) for letter, number in columns.items()}

    for one, two in itertools.product(range(-3, 3), repeat=2):
        constants = rows("p", 1, 1 << 60, one, 2) | rows("q", -1, -(1 << 60), two, -1)
        found, _, x, y = merged([cut("x", "h", "p"), cut("h", "y", "q")], (5, 7, 6), constants, only=["merge-slices"])
        is_one = found.graph.outputs[0].producer.inputs[0].name == "x"
        assert is_one == (one % 3 != two % 3), (one, two)
        half = np.take(x, range(1, x.shape[one], 2), one)
        np.testing.assert_array_equal(y, np.flip(half, two), err_msg=f"{one} and {two}")
