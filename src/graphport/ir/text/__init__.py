r"""A lossless text form of graphs.

    graph main(%x: float32[N, 3] where N in 1..64) opsets {"" = 25} {
      constant %w = float32[3, 2](0.5, -1.0, 2.0, 0.0, 0.25, nan)
      %h: float32[N, 2] = MatMul(%x, %w) name "dense"
      _, %i: int64[N, 1] = TopK(%h, %k) {axis = -1, sorted = true}
      %y = If(%c) {then_branch = graph then() {
        %z = nnef.relu(%h)
        return %z
      }, else_branch = graph else() {
        return %h
      }}
      return %y, %i
    }

The text contains everything except notes; origins become positions in the text. A graph that is written with all
elements is read back as an equal graph, and `to_text(from_text(text))` is a normal form.

The grammar, where `{a}` is any number of `a` and `[a]` none or one. Blanks, line ends and comments (`#` to the end of
the line) may separate any two tokens.

    graph      = "graph" name "(" [input {"," input}] ")" ["opsets" "{" [opset {"," opset}] "}"]
                 "{" {constant} {node} "return" [value {"," value}] "}"
    input      = value [":" fact] ["=" tensor]
    opset      = name "=" integer
    constant   = ("constant" | "literal") value [":" fact] ["=" tensor]
    node       = results "=" op "(" [operand {"," operand}] ")" ["{" [entry {"," entry}] "}"] ["name" string]
    results    = "(" ")" | result {"," result}
    result     = "_" | value [":" fact]
    operand    = "_" | value
    op         = name [":" name]
    entry      = name "=" attribute
    attribute  = "none" | "true" | "false" | integer | float | "complex" "(" float "," float ")" | string | bytes
               | dtype | fact | tensor | graph | "(" [attribute {"," attribute}] ")"

    tensor     = dtype "[" [integer {"," integer}] "]" ( "(" [element {"," element}] ")" | "(...)" | "@" name )
    element    = "true" | "false" | integer | float | string | bytes
    fact       = plain ["where" bound {"and" bound}]
    plain      = (dtype | "?") "[" ["..." | dim {"," dim}] "]" ["{" [dim {"," dim}] "}"]
                 ["<" [float {"," float}] ">"]
               | ("sequence" | "optional") "(" plain ")"
    dim        = integer | DIM | string
    bound      = name "in" [integer] ".." [integer] | name "=" dim

    value      = "%" (PATH | string)
    name       = WORD | string
    bytes      = "b" string
    float      = NUMBER | ["-"] "inf" | "nan" [":0x" HEX]

- A `WORD` consists of letters, digits, `_` and `.`; a `PATH` may have `/`, too. A string is in double quotes, on one
  line, with the escapes `\" \\ \n \r \t \xHH \uHHHH \UHHHHHHHH`; in bytes each character is one byte. A `NUMBER` with
  a point or an exponent is a float, another one an integer.
- A `DIM` consists of letters, digits and ``_+-*/%()?` `` and ends before an unmatched closing bracket;
  `core.dims.parse_dim` parses it, and a string.
- In an `op`, the colon separates dialect and op type; without a colon the first point does. So `nnef.conv` is
  `nnef:conv`, and `com.microsoft:Gelu` needs its colon.
- An omitted fact is unknown; that of a constant follows from its tensor. The known elements follow a shape:
  `int64[2]{N, 3}` or `float32[2]<0.5, nan>`.
- `where` gives the bounds of a symbol, or its definition, for the rest of the text; the default is `1..`.
- Elements are in row-major order, complex ones as real and imaginary part. A literal is rounded to the nearest float
  of the type; `nan` is the default NaN, other NaNs have all bits: `nan:0xffc00001`.
- The tensor of an input is its default value.
- `(...)` stands for omitted elements, which cannot be read back; `@w0` refers to an entry of the separate table.
"""

from __future__ import annotations

from graphport.ir.text.reader import MOST_NESTED, from_text
from graphport.ir.text.scanner import MOST_DIGITS
from graphport.ir.text.writer import INLINE, to_text

__all__ = ["INLINE", "MOST_DIGITS", "MOST_NESTED", "from_text", "to_text"]
