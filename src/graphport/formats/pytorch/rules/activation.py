"""Activations of exported programs whose arguments differ from PNNX's."""

from __future__ import annotations

from typing import Any

from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.activation import Elu
from graphport.ops.definitions.arithmetic import Mul
from graphport.ops.definitions.comparison import Greater, Where

RULES.lower("""
# 0 where all that is normalized together is minus infinity.
aten._safe_softmax(self, dim, dtype=None)
    -> shares = F.softmax(self, dim=dim, dtype=dtype); rank(self) == 0: shares
    -> Where(Equal(ReduceMax(x := cast(self, dtype(shares)), [axis(dim, x)]), -math.inf), 0, shares)
aten.log_sigmoid_forward(self) -> (F.logsigmoid(self), None)
""")


RULES.lower("""
aten._softmax(self, dim, half_to_float=False, dtype=None)
    -> F.softmax(cast(self, float32) if half_to_float else self, dim=dim, dtype=dtype)
aten._log_softmax(self, dim, half_to_float=False)
    -> F.log_softmax(cast(self, float32) if half_to_float else self, dim=dim)
aten._prelu_kernel(self, weight) -> Where(Greater(self, 0), self, Mul(self, weight))
""")


RULES.lower("""
# What drops nothing may train.
aten.dropout, aten.feature_dropout, aten.alpha_dropout, aten.feature_alpha_dropout(input, p=0.5, train: any = False)
    -> p != 0 and train is not None and train: unsupported("a dropout that is training: export the module in eval mode")
    -> input
aten.native_dropout(input, p=0.5, train: any = False)
    -> p != 0 and train is not None and train: unsupported("a dropout that is training: export the module in eval mode")
    -> (input, None)
""")
RULES.lower(
    """
aten.rrelu, aten.rrelu_with_noise,
    aten.rrelu_with_noise_functional(self, noise: ignored = None, lower=0.125, upper=1 / 3, training: any = False)
    -> training is not None and training:
       unsupported("a dropout that is training: export the module in eval mode")
    -> (F.rrelu(self, lower, upper), None)
""",
    by_position=False,
)


@aten("aten.elu")
def elu(b: Builder, self: Value, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Value:
    """ELU: scale * x if x > 0, else scale * alpha * (exp(input_scale * x) - 1)."""
    first, outer, inner = (float(scalar_of(each)) for each in (alpha, scale, input_scale))
    x = self if inner == 1 else b(Mul, self, b.like(self, inner))
    y = b(Elu, x, alpha=first)
    if inner != 1:
        y = b(Where, b(Greater, self, 0), self, y)
    return y if outer == 1 else b(Mul, y, b.like(self, outer))
