"""Rules that are rows of a table: a word and what it means, in one line.

nn.Softshrink, F.softshrink(input, lambd=0.5) -> Shrink(input, lambd=lambd, bias=lambd)
opset1.SquaredDifference(x, y)                -> Mul(d := Sub(x, y), d)
Celu                                          -> alpha > 0: mul(elu(div(x, alpha), alpha=1.0), alpha)

`text` takes a table apart, `terms` makes a function of what stands right of an arrow, `mirror` turns a row around, and
`rule` has the rules themselves. `ops.lowering.table` registers them.
"""
