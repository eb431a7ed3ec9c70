"""Fused recurrent cells of TensorFlow: one step, and loops over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.definitions.activation import Sigmoid, Tanh
from graphport.ops.definitions.arithmetic import Add, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import Less, Where
from graphport.ops.definitions.control import Scan
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Concat, Identity, Split
from graphport.ops.lowering.captures import step_body
from graphport.ops.lowering.extents import counted, extent
from graphport.ops.lowering.operands import as_int64, dtype_of, reshaped

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_ICFO = (0, 1, 2, 3)
_IFCO = (0, 2, 1, 3)
"""The places of input gate, cell input, forget gate and output gate in the columns of the weights."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """An LSTM cell: weights [inputs + units, 4 * units], bias [4 * units], and weights of peepholes [units]."""

    weights: Value
    bias: Value
    peepholes: tuple[Value, Value, Value] | None
    order: tuple[int, ...]
    forget_bias: float
    cell_clip: float

    def step(self, b: Builder, x: Value, state: Value, h: Value) -> list[Value]:
        """One step: the gates i, the state cs, the gates f and o, the cell input ci, tanh(cs) and the output h."""
        gates = b(Add, b(MatMul, b(Concat, x, h, axis=1), self.weights), self.bias)
        parts = b.results(Split, 4, gates, axis=1, num_outputs=4)
        i, ci, f, o = (parts[place] for place in self.order)
        f = b(Add, f, b.like(f, self.forget_bias)) if self.forget_bias else f
        if self.peepholes is not None:
            i, f = (b(Add, gate, b(Mul, state, w)) for gate, w in zip((i, f), self.peepholes, strict=False))
        i, ci, f = b(Sigmoid, i), b(Tanh, ci), b(Sigmoid, f)
        cs = b(Add, b(Mul, ci, i), b(Mul, state, f))
        if self.cell_clip > 0:
            cs = b(Min, b(Max, cs, b.like(cs, -self.cell_clip)), b.like(cs, self.cell_clip))
        if self.peepholes is not None:
            o = b(Add, o, b(Mul, cs, self.peepholes[2]))
        o, co = b(Sigmoid, o), b(Tanh, cs)
        return [i, cs, f, o, ci, co, b(Mul, o, co)]


def _lstm_cell(
    weights: Value, bias: Value, peepholes: tuple[Value, Value, Value], *, use_peephole: bool, **options: float
) -> _Cell:
    return _Cell(weights, bias, peepholes if use_peephole else None, _ICFO, **options)


@operator("LSTMBlockCell")
def lstm_block_cell(
    b: Builder,
    x: Value,
    state: Value,
    h: Value,
    w: Value,
    wci: Value,
    wcf: Value,
    wco: Value,
    bias: Value,
    *,
    forget_bias: float = 1.0,
    cell_clip: float = 3.0,
    use_peephole: bool = False,
) -> list[Value]:
    """One step of an LSTM: i, cs, f, o, ci, co and h, each [batch, units]."""
    options = {"forget_bias": forget_bias, "cell_clip": cell_clip}
    cell = _lstm_cell(w, bias, (wci, wcf, wco), use_peephole=use_peephole, **options)
    return cell.step(b, x, state, h)


@operator("BlockLSTM")
def block_lstm(
    b: Builder,
    length: Value,
    x: Value,
    state: Value,
    h: Value,
    w: Value,
    wci: Value,
    wcf: Value,
    wco: Value,
    bias: Value,
    *,
    forget_bias: float = 1.0,
    cell_clip: float = 3.0,
    use_peephole: bool = False,
) -> list[Value]:
    """An LSTM over sequences [time, batch, inputs]; see `LSTMBlockCell`."""
    options = {"forget_bias": forget_bias, "cell_clip": cell_clip}
    cell = _lstm_cell(w, bias, (wci, wcf, wco), use_peephole=use_peephole, **options)
    return _steps(b, cell, length, x, state, h)


@operator("BlockLSTMV2")
def block_lstm_v2(
    b: Builder,
    length: Value,
    x: Value,
    state: Value,
    h: Value,
    w: Value,
    wci: Value,
    wcf: Value,
    wco: Value,
    bias: Value,
    *,
    cell_clip: float = 0.0,
    use_peephole: bool = False,
) -> list[Value]:
    """An LSTM over sequences [time, batch, inputs] with gates in the order i, f, ci, o and without a forget bias."""
    peepholes = (wci, wcf, wco) if use_peephole else None
    return _steps(b, _Cell(w, bias, peepholes, _IFCO, 0.0, cell_clip), length, x, state, h)


def _steps(b: Builder, cell: _Cell, length: Value, x: Value, state: Value, h: Value) -> list[Value]:
    """Run the cell over time. Each result is [time, batch, units]; cs and h are 0 after `length` steps."""
    row = TensorFact(x.dtype, b.dims(x, 3)[1:])
    inner, body, (before, last, entry) = step_body(b, [state.fact, h.fact, row])
    found = cell.step(inner, entry, before, last)
    body.set_outputs([inner(Identity, found[1]), inner(Identity, found[6]), *found])
    results = list(b.results(Scan, 9, state, h, x, body=body, num_scan_inputs=1)[2:])
    is_inside = reshaped(b, b(Less, counted(b, extent(b, x, 0)), as_int64(b, length)), (-1, 1, 1))
    for place in (1, 6):
        results[place] = b(Where, is_inside, results[place], 0)
    return results


@operator("GRUBlockCell")
def gru_block_cell(b: Builder, x: Value, h: Value, w_ru: Value, w_c: Value, b_ru: Value, b_c: Value) -> list[Value]:
    """One step of a GRU: the gates r and u, the candidate c and h = u * h + (1 - u) * c, each [batch, units]."""
    gates = b(Sigmoid, b(Add, b(MatMul, b(Concat, x, h, axis=1), w_ru), b_ru))
    r, u = b.results(Split, 2, gates, axis=1, num_outputs=2)
    c = b(Tanh, b(Add, b(MatMul, b(Concat, x, b(Mul, r, h), axis=1), w_c), b_c))
    return [r, u, c, b(Add, b(Mul, u, h), b(Mul, b(Sub, b.constant(1, dtype_of(x)), u), c))]
