"""Rule tables: an op type and its conversion in one line.

nn.Softshrink, F.softshrink(input, lambd=0.5) -> Shrink(input, lambd=lambd, bias=lambd)
opset1.SquaredDifference(x, y)                -> Mul(d := Sub(x, y), d)
Celu                                          -> alpha > 0: mul(elu(div(x, alpha), alpha=1.0), alpha)

`text` parses a table, `terms` compiles the expression after an arrow, `mirror` inverts a row, and `rule` contains the
compiled rules. `ops.lowering.table` registers them.
"""
