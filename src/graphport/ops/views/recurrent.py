"""Views of the pages of recurrent; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class GRUView(View[T]):
    """A node of `GRU`."""

    operator = "GRU"

    x: T
    w: T
    r: T
    b: T | None = None
    sequence_lens: T | None = None
    initial_h: T | None = None
    _: KW_ONLY
    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0
    linear_before_reset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class LSTMView(View[T]):
    """A node of `LSTM`."""

    operator = "LSTM"

    x: T
    w: T
    r: T
    b: T | None = None
    sequence_lens: T | None = None
    initial_h: T | None = None
    initial_c: T | None = None
    p: T | None = None
    _: KW_ONLY
    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    input_forget: int = 0
    layout: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RNNView(View[T]):
    """A node of `RNN`."""

    operator = "RNN"

    x: T
    w: T
    r: T
    b: T | None = None
    sequence_lens: T | None = None
    initial_h: T | None = None
    _: KW_ONLY
    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] = ("Tanh", "Tanh")
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0
