"""Cells of recurrent layers in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops import registry
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.tract.binding import word

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _gates(b: Builder, x: Value, count: int) -> tuple[Value, ...]:
    return b.results(registry.pages()["Split"], count, x, None, axis=-1, num_outputs=count)


@word("tract_core_lstm_epilogue")
def lstm_epilogue(b: Builder, preact: Value, c_prev: Value, *, hidden: int) -> tuple[Value, Value]:
    """State and cell after one step, of the gates i, o, f and c one behind another."""
    del hidden
    emit = OpBuilder(b)
    i, o, f, c = _gates(b, preact, 4)
    kept = emit("Mul", emit("Sigmoid", f), c_prev)
    cell = emit("Add", kept, emit("Mul", emit("Sigmoid", i), emit("Tanh", c)))
    return emit("Mul", emit("Sigmoid", o), emit("Tanh", cell)), cell


@word("tract_core_gru_epilogue")
def gru_epilogue(b: Builder, xh: Value, rh: Value, h_prev: Value, *, hidden: int) -> Value:
    """The state after one step, of the gates z, r and h of the input and of the state before."""
    del hidden
    emit = OpBuilder(b)
    xz, xr, xn = _gates(b, xh, 3)
    hz, hr, hn = _gates(b, rh, 3)
    z, r = emit("Sigmoid", emit("Add", xz, hz)), emit("Sigmoid", emit("Add", xr, hr))
    new = emit("Tanh", emit("Add", xn, emit("Mul", r, hn)))
    return emit("Add", emit("Mul", z, h_prev), emit("Mul", emit("Sub", b.like(z, 1.0), z), new))
