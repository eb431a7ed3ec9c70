"""Writes LLVM code for vectors, one instruction after another."""

from __future__ import annotations

import struct
from typing import NamedTuple

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64}
"""Element types of LLVM that kernels compute with, and their widths."""
INTEGER_OF = {"float": "i32", "double": "i64"}
"""The integers that have the bits of a float."""


class Vector(NamedTuple):
    """A value of the code: its name (or the spelling of a constant) and the type of its elements."""

    name: str
    element: str


class Block:
    """A straight run of instructions on vectors of `lanes` elements."""

    def __init__(self, lanes: int, prefix: str = "v", *, scales: bool = False) -> None:
        self.lanes = lanes
        self.scales = scales
        self.prefix = prefix
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._count = 0

    def type(self, element: str) -> str:
        """Return the vector type of an element type."""
        return f"<{self.lanes} x {element}>"

    def constant(self, value: float, element: str) -> Vector:
        """Return a vector with equal elements."""
        return Vector(f"splat ({element} {literal(value, element)})", element)

    def like(self, value: float, other: Vector) -> Vector:
        """Return a vector with equal elements, in the type of `other`."""
        return self.constant(value, other.element)

    def add_line(self, text: str) -> str:
        """Append an instruction; return the name of its result."""
        name = f"%{self.prefix}{self._count}"
        self._count += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def binary(self, operation: str, a: Vector, b: Vector) -> Vector:
        """An instruction on two vectors of one type, for instance `fadd`."""
        return Vector(self.add_line(f"{operation} {self.type(a.element)} {a.name}, {b.name}"), a.element)

    def compare(self, predicate: str, a: Vector, b: Vector) -> Vector:
        """Emit a comparison per lane; float predicates start with `o` or `u`, integer ones are `eq`, `slt` etc."""
        kind = "fcmp" if a.element in INTEGER_OF else "icmp"
        return Vector(self.add_line(f"{kind} {predicate} {self.type(a.element)} {a.name}, {b.name}"), "i1")

    def select(self, condition: Vector, a: Vector, b: Vector) -> Vector:
        """`a` where the condition holds, else `b`."""
        of = self.type(a.element)
        text = f"select {self.type('i1')} {condition.name}, {of} {a.name}, {of} {b.name}"
        return Vector(self.add_line(text), a.element)

    def convert(self, operation: str, a: Vector, element: str) -> Vector:
        """The elements in another type, by `sitofp`, `zext`, `bitcast` and the like."""
        return Vector(self.add_line(f"{operation} {self.type(a.element)} {a.name} to {self.type(element)}"), element)

    def intrinsic(self, name: str, *arguments: Vector, tail: str = "") -> Vector:
        """`llvm.NAME` of vectors of one type, which it gives too; `tail` are further operands as written."""
        of = self.type(arguments[0].element)
        full = f"@llvm.{name}.v{self.lanes}{_MANGLED[arguments[0].element]}"
        tail_types = "".join(f", {part.split()[0]}" for part in tail.split(", ") if part)
        self.declarations.add(f"declare {of} {full}({', '.join([of] * len(arguments))}{tail_types})")
        given = ", ".join(f"{of} {argument.name}" for argument in arguments) + (f", {tail}" if tail else "")
        return Vector(self.add_line(f"call {of} {full}({given})"), arguments[0].element)

    def scaled(self, x: Vector, n: Vector) -> Vector:
        """Return x * 2^n, rounded once, for an integer n in the type of x (one AVX-512 instruction if `scales`)."""
        kind, width, mask = ("ps", 16, "i16") if x.element == "float" else ("pd", 8, "i8")
        whole, of = self.type(x.element), f"<{width} x {x.element}>"
        tail = f"v{width}{_MANGLED[x.element]}"
        scale = f"@llvm.x86.avx512.mask.scalef.{kind}.512"
        take = f"@llvm.vector.extract.{tail}.v{self.lanes}{_MANGLED[x.element]}"
        put = f"@llvm.vector.insert.v{self.lanes}{_MANGLED[x.element]}.{tail}"
        self.declarations |= {
            f"declare {of} {scale}({of}, {of}, {of}, {mask}, i32)",
            f"declare {of} {take}({whole}, i64)",
            f"declare {whole} {put}({whole}, {of}, i64)",
        }
        result = "poison"
        for start in range(0, self.lanes, width):
            a, b = (self.add_line(f"call {of} {take}({whole} {each.name}, i64 {start})") for each in (x, n))
            part = self.add_line(f"call {of} {scale}({of} {a}, {of} {b}, {of} zeroinitializer, {mask} -1, i32 4)")
            result = self.add_line(f"call {whole} {put}({whole} {result}, {of} {part}, i64 {start})")
        return Vector(result, x.element)

    def any_lane(self, condition: Vector) -> str:
        """Whether the condition holds in some lane, as a scalar `i1`."""
        of = self.type("i1")
        self.declarations.add(f"declare i1 @llvm.vector.reduce.or.v{self.lanes}i1({of})")
        return self.add_line(f"call i1 @llvm.vector.reduce.or.v{self.lanes}i1({of} {condition.name})")

    def library(self, function: str, *arguments: Vector) -> Vector:
        """Call a function of the C library for each lane."""
        element = arguments[0].element
        name = function + ("f" if element == "float" else "")
        self.declarations.add(f"declare {element} @{name}({', '.join([element] * len(arguments))})")
        result = "poison"
        for lane in range(self.lanes):
            scalars = [
                self.add_line(f"extractelement {self.type(element)} {argument.name}, i64 {lane}")
                for argument in arguments
            ]
            given = ", ".join(f"{element} {scalar}" for scalar in scalars)
            value = self.add_line(f"call {element} @{name}({given})")
            result = self.add_line(f"insertelement {self.type(element)} {result}, {element} {value}, i64 {lane}")
        return Vector(result, element)


_MANGLED = {"half": "f16", "float": "f32", "double": "f64", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64"}


def literal(value: float, element: str) -> str:
    """Format a number as an LLVM constant; floats by the bits of the equal double."""
    if element == "i1":
        return "true" if value else "false"
    if element not in INTEGER_OF:
        return str(int(value))
    if element == "float":
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"
