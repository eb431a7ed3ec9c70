r"""Graphs as text that people read and programs read back, exactly.

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

Everything comes back but notes, and origins are places in the text: a graph that is written with all its numbers is
read as its copy, and `to_text(from_text(text))` is a normal form.

The grammar, where `{a}` is any number of `a` and `[a]` none or one. Blanks, line ends and comments (`#` to the end of
the line) may stand between any two words and signs.

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

- A `WORD` is made of letters, digits, `_` and `.`; a `PATH` may have `/`, too. A string stands in double quotes, on one
  line, with the escapes `\" \\ \n \r \t \xHH \uHHHH \UHHHHHHHH`; in bytes each character is one byte. A `NUMBER` with a
  point or an exponent is a float, another one an integer.
- A `DIM` is made of letters, digits and ``_+-*/%()?` `` and ends before a bracket that closes what none in it has
  opened; it and a string are read by `core.dims.parse_dim`.
- In an `op` with a colon, dialect and word stand beside it; one without is split at its first point. So `nnef.conv` is
  `nnef:conv`, and `com.microsoft:Gelu` needs its colon.
- A fact that is left out is unknown, that of a constant what its numbers say. Behind a shape stands what is known of
  the elements, `int64[2]{N, 3}` or `float32[2]<0.5, nan>`.
- `where` says between which bounds a symbol lies, from there on in the whole text; until then it is `1..`; or
  what it stands for.
- Elements come in row-major order, those of complex numbers as real and imaginary part. A float is the nearest of its
  type to what is written; `nan` is the usual one, another is written with all its bits: `nan:0xffc00001`.
- The numbers of an input are those that a run begins with which is given none.
- `(...)` stands for numbers that were left out and cannot be read back; `@w0` for those that a table beside the text
  has under this name.
"""

from __future__ import annotations

from graphport.ir.text.reader import MOST_NESTED, from_text
from graphport.ir.text.scanner import MOST_DIGITS
from graphport.ir.text.writer import INLINE, to_text

__all__ = ["INLINE", "MOST_DIGITS", "MOST_NESTED", "from_text", "to_text"]
