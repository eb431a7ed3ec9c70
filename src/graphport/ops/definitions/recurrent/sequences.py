"""What all recurrent layers share: directions, layouts, sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Dim, Symbolic, product
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.recurrent.activations import check_activations
from graphport.ops.shapes import same_dim
from graphport.ops.types import Tensor

if TYPE_CHECKING:
    from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction runs from the last step to the first."""

Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""One time step: from inputs [batch, input] and states, each [batch, hidden], to the next states."""


def recurrent_shapes(
    op: GRUView[TensorFact] | LSTMView[TensorFact] | RNNView[TensorFact],
    states: dict[str, TensorFact | None],
    *,
    gates: int,
    activations: Sequence[str],
    each: int,
) -> list[TensorFact]:
    """Return the facts of the results of all steps, then of the final value of each of `states`.

    Raises:
        ShapeError: the shape of an operand or an attribute does not fit.
    """
    if op.direction not in DIRECTIONS:
        message = f"unknown direction {op.direction!r}"
        raise ShapeError(message, ", ".join(DIRECTIONS))
    if op.layout not in (0, 1):
        message = f"layout is {op.layout}"
        raise ShapeError(message, "expected 0 (sequence first) or 1 (batch first)")
    ways = len(DIRECTIONS[op.direction])
    check_activations(activations, each * ways)
    sizes = _Sizes(ways, gates, op.hidden_size)
    x, w, r, b = op.x, op.w, op.r, op.b
    for name, fact in (("x", x), ("w", w), ("r", r)):
        if fact.shape is not None and len(fact.shape) != 3:
            message = f"{name} has rank {len(fact.shape)}"
            raise ShapeError(message, "rank 3")
    steps, batch, entries = (OPEN, OPEN, None) if x.shape is None else x.shape
    if op.layout:
        steps, batch = batch, steps
    sizes.check("w", w, (ways, gates, None))
    sizes.check("r", r, (ways, gates, 1))
    sizes.check("b", b, (ways, 2 * gates))
    if entries is not None and w.shape is not None:
        same_dim(entries, w.shape[2], "entries of a step in x and w")
    for name, fact in states.items():
        wanted = (batch, ways) if op.layout else (ways, batch)
        _check_state(name, fact, wanted, sizes)
    hidden = sizes.hidden
    y = (batch, steps, ways, hidden) if op.layout else (steps, ways, batch, hidden)
    last = (batch, ways, hidden) if op.layout else (ways, batch, hidden)
    return [x.with_shape(y), *[x.with_shape(last)] * max(len(states), 1)]


def recurrent_macs(
    y: TensorFact | None, x: TensorFact, w: TensorFact, r: TensorFact, *_operands: object, **_attributes: object
) -> Dim:
    """Multiply-accumulates: one per weight, step and sequence; element-wise operations are not counted."""
    del y
    return x.dims[0] * x.dims[1] * (product(w.dims) + product(r.dims))


class _Sizes:
    """The number of hidden units, inferred from the operands."""

    def __init__(self, ways: int, gates: int, hidden_size: int | None) -> None:
        self.ways = ways
        self.gates = gates
        self.hidden: Dim = OPEN if hidden_size is None else hidden_size

    def settle(self, name: str, hidden: Dim) -> None:
        self.hidden = hidden if self.hidden is OPEN else same_dim(self.hidden, hidden, f"hidden units of {name}")

    def check(self, name: str, fact: TensorFact | None, parts: tuple[int | None, ...]) -> None:
        """Check that dim 0 is the directions and each other dim `parts[i]` times the hidden units (`None`: any)."""
        if fact is None or fact.shape is None:
            return
        if len(fact.shape) != len(parts):
            message = f"{name} has rank {len(fact.shape)}"
            raise ShapeError(message, f"rank {len(parts)}")
        same_dim(fact.shape[0], self.ways, f"directions of {name}")
        for dim, multiple in zip(fact.shape[1:], parts[1:], strict=True):
            if multiple is None or (isinstance(dim, Symbolic) and multiple != 1):
                continue
            if isinstance(dim, Symbolic):
                self.settle(name, dim)
                continue
            if dim % multiple:
                message = f"{name} has {dim} entries, which are not {multiple} times the hidden units"
                raise ShapeError(message)
            self.settle(name, dim // multiple)


def _check_state(name: str, fact: TensorFact | None, leading: tuple[Dim, ...], sizes: _Sizes) -> None:
    if fact is None or fact.shape is None:
        return
    if len(fact.shape) != 3:
        message = f"{name} has rank {len(fact.shape)}"
        raise ShapeError(message, "rank 3")
    for dim, wanted in zip(fact.shape, leading, strict=False):
        if wanted is not OPEN:
            same_dim(dim, wanted, f"directions and batch of {name}")
    sizes.settle(name, fact.shape[2])


def check_peepholes(p: TensorFact | None, ways: int, hidden: Dim) -> None:
    """Check that peephole weights have the shape [directions, 3 * hidden].

    Raises:
        ShapeError: they have another shape.
    """
    if p is None or p.shape is None:
        return
    if len(p.shape) != 2:
        message = f"p has rank {len(p.shape)}"
        raise ShapeError(message, "rank 2")
    same_dim(p.shape[0], ways, "directions of p")
    if hidden is not OPEN:
        same_dim(p.shape[1], 3 * hidden, "entries of p and three times the hidden units")


def run(
    x: Tensor,
    sequence_lens: Tensor | None,
    initial: Sequence[Tensor | None],
    cells: Sequence[Step],
    *,
    hidden: int,
    direction: str,
    layout: int,
) -> list[Tensor]:
    """Run a recurrent layer: the first state of all steps, then the final value of each state, in the layout of `x`.

    Args:
        x: [steps, batch, input], or with `layout` 1 [batch, steps, input], in the type of the computation.
        sequence_lens: number of steps of each batch element.
        initial: initial value of each state, or zeros.
        cells: one step function per direction.
        hidden: number of hidden units.
        direction: a key of `DIRECTIONS`.
        layout: 1 for batch first.
    """
    entries = np.swapaxes(x, 0, 1) if layout else x
    steps, batch = entries.shape[:2]
    lengths = np.full(batch, steps) if sequence_lens is None else sequence_lens
    every: list[Tensor] = []
    lasts: list[tuple[Tensor, ...]] = []
    for way, (backwards, cell) in enumerate(zip(DIRECTIONS[direction], cells, strict=True)):
        state = tuple(_before(values, way, batch, hidden, layout, x.dtype) for values in initial)
        order = _order(steps, lengths, backwards=backwards)
        results, state = _direction(entries, order, lengths, state, cell, hidden)
        every.append(results)
        lasts.append(state)
    y = np.stack(every, axis=1)
    finals = [np.stack([state[i] for state in lasts]) for i in range(len(initial))]
    if not layout:
        return [y, *finals]
    return [np.moveaxis(y, 2, 0), *(np.swapaxes(final, 0, 1) for final in finals)]


def _before(
    values: Tensor | None, way: int, batch: int, hidden: int, layout: int, dtype: np.dtype[np.generic]
) -> Tensor:
    if values is None:
        return np.zeros((batch, hidden), dtype)
    return (values[:, way] if layout else values[way]).astype(dtype)


def _order(steps: int, lengths: Tensor, *, backwards: bool) -> Tensor:
    """Return the time index of `x` that each batch element processes at each step: [steps, batch]."""
    forward = np.broadcast_to(np.arange(steps)[:, None], (steps, len(lengths)))
    # A shorter sequence is reversed within its own length.
    return np.where(forward < lengths, lengths - 1 - forward, forward) if backwards else forward


def _direction(
    entries: Tensor, order: Tensor, lengths: Tensor, state: tuple[Tensor, ...], cell: Step, hidden: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    batch = np.arange(entries.shape[1], dtype=np.int64)
    y = np.zeros((*entries.shape[:2], hidden), entries.dtype)
    for step, indices in enumerate(order):
        runs = (step < lengths)[:, None]
        following = cell(entries[indices, batch], state)
        state = tuple(np.where(runs, new, old) for new, old in zip(following, state, strict=True))
        y[indices, batch] = np.where(runs, state[0], 0)
    return y, state


def clipped(x: Tensor, clip: float | None) -> Tensor:
    """Clamp `x` to [-clip, clip]; return it unchanged if `clip` is absent."""
    return x if clip is None else np.clip(x, -clip, clip)
