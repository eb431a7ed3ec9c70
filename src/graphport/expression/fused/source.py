"""Emit the LLVM module of a program: one pass over memory for any shapes and strides of the operands.

kernel   iterates over all but the innermost axis
row      the innermost axis: unaligned head for non-temporal stores, full vectors, tail
part     fewer elements than a vector, through buffers
segment  a section of the program on full vectors; long programs have several, which exchange intermediate values of a
         few hundred elements, so that compile time is linear in the length
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.expression.fused.arguments import DECLARATIONS, LARGE, emit_entry
from graphport.expression.fused.memory import ALIGNMENT, STRIP, Memory, fetched
from graphport.expression.fused.operators import ELEMENTS, EXTREMES, bounded, convert, divides_integers, emit, nonzero
from graphport.expression.fused.segments import segments_of
from graphport.expression.fused.vector import BITS, Block, Vector
from graphport.expression.program import Apply, Constant, Load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.expression.fused.arguments import ObjectLayout
    from graphport.expression.fused.segments import Segment
    from graphport.expression.program import Program

_LEAST_BOUND = 1e-30
"""Smaller numbers may be zero in float32."""
KERNEL = "graphport_kernel"
"""The name of the function that takes pointers."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access mode of each operand along the innermost axis, one letter each, the result last.

    `c` contiguous, `s` scalar, `g` strided.
    """

    modes: str
    bypasses_cache: bool = False


def module(
    program: Program,
    access: Access,
    lanes: int,
    objects: ObjectLayout | None = None,
    *,
    largest: int = LARGE,
    x86: bool,
    scales: bool = False,
) -> str:
    """Return the text of the module, with two exported functions.

    `i64 KERNEL(ptr pointers, ptr outer strides, ptr extents, i64 rank, i64 length, ptr inner strides, ptr constants)`
    returns 0, or 1 plus the index of the value that divides an integer by zero.

    `ENTRY`, if `objects` is given, is a function that Python calls with the arrays, up to `largest` elements (see
    `entry`).
    """
    loads = [value for value in program.values if isinstance(value, Load)]
    operands = [
        Memory(position, value.index, ELEMENTS[value.dtype], access.modes[position])
        for position, value in enumerate(loads)
    ]
    last = 1 + max(value.index for value in loads)
    result = Memory(len(loads), last, ELEMENTS[program.dtype], access.modes[-1])
    segments, slots = segments_of(program)
    writer = _Writer(program, operands, result, segments, access.bypasses_cache, lanes, scales)
    texts = [writer.segment(number) for number in range(len(segments))]
    texts += [writer.emit_partial_vector(), writer.row(), writer.kernel(slots, x86=x86)]
    if objects is not None:
        texts.append(emit_entry([*operands, result], objects, slots, largest))
        writer.declarations |= set(DECLARATIONS)
    return "\n".join([*texts, *sorted(writer.declarations), "!0 = !{i32 1}", ""])


_ARGUMENTS = "ptr %table, i64 %from, i64 %count, ptr %inner, ptr %constants, ptr %scratch, ptr %flag"

_KERNEL_ARGUMENTS = "ptr %pointers, ptr %outer, ptr %extents, i64 %rank, i64 %length, ptr %inner, ptr %constants"


class _Writer:
    """Writes the functions of one module."""

    def __init__(
        self,
        program: Program,
        operands: Sequence[Memory],
        result: Memory,
        segments: Sequence[Segment],
        bypasses_cache: bool,  # noqa: FBT001
        lanes: int,
        scales: bool,  # noqa: FBT001
    ) -> None:
        self.program = program
        self.operands = operands
        self.result = result
        self.segments = segments
        self.bypasses_cache = bypasses_cache
        self.lanes = lanes
        self.scales = scales
        self.declarations: set[str] = set()
        loads = [number for number, value in enumerate(program.values) if isinstance(value, Load)]
        self.operand_of = dict(zip(loads, operands, strict=True))
        constants = [number for number, value in enumerate(program.values) if isinstance(value, Constant)]
        self.constant_of = {number: position for position, number in enumerate(constants)}
        self.slot_of = {number: slot for segment in segments for number, slot in segment.kept.items()}

    @property
    def memories(self) -> list[Memory]:
        return [*self.operands, self.result]

    def segment(self, index: int) -> str:
        """The function that computes segment `index` on `count` elements from element `from` on."""
        segment = self.segments[index]
        own = set(segment.values)
        outer = sorted(
            {argument for number in segment.values for argument in self.arguments_of(number) if argument not in own}
        )
        is_last = index == len(self.segments) - 1
        if is_last and not segment.values:
            outer = [len(self.program.values) - 1]
        entry, vectors = self.entered(outer, is_last=is_last)
        block = Block(self.lanes, scales=self.scales)
        for number in outer:
            if number not in vectors:
                vectors[number] = self.loaded(block, number)
        for number in segment.values:
            vectors[number] = self.computed(block, number, vectors)
        for number, slot in segment.kept.items():
            self.stored(block, vectors[number], f"%slot{slot}", "%i", "c")
        if is_last:
            self.stored(block, vectors[len(self.program.values) - 1], "%out", "%j", self.result.mode)
        entry += [f"  %slot{slot} = {self.slot_pointer(slot)}" for slot in segment.kept.values()]
        self.declarations |= block.declarations
        return _loop(f"segment{index}", entry, block.lines, self.lanes)

    def arguments_of(self, number: int) -> tuple[int, ...]:
        value = self.program.values[number]
        return value.arguments if isinstance(value, Apply) else ()

    def entered(self, outer: Sequence[int], *, is_last: bool) -> tuple[list[str], dict[int, Vector]]:
        """Emit the loop preamble: pointers, strides, and loop-invariant vectors."""
        entry: list[str] = []
        vectors: dict[int, Vector] = {}
        for number in outer:
            value = self.program.values[number]
            if isinstance(value, Constant):
                pointer = f"getelementptr i8, ptr %constants, i64 {8 * self.constant_of[number]}"
                entry += [f"  %p{number} = {pointer}"]
                vectors[number] = self.broadcast_element(entry, number, ELEMENTS[value.dtype])
            elif isinstance(value, Load):
                memory = self.operand_of[number]
                entry += fetched(f"%p{number}", "ptr", "%table", 8 * memory.position)
                if memory.mode == "s":
                    vectors[number] = self.broadcast_element(entry, number, memory.element)
                if memory.mode == "g":
                    entry += fetched(f"%stride{number}", "i64", "%inner", 8 * memory.position)
            else:
                entry += [f"  %p{number} = {self.slot_pointer(self.slot_of[number])}"]
        if is_last:
            entry += fetched("%out", "ptr", "%table", 8 * self.result.position)
            if self.result.mode == "g":
                entry += fetched("%out_stride", "i64", "%inner", 8 * self.result.position)
        return entry, vectors

    def broadcast_element(self, entry: list[str], number: int, element: str) -> Vector:
        """One element for all lanes, read before the loop."""
        of = f"<{self.lanes} x {element}>"
        entry += [
            f"  %e{number} = load {element}, ptr %p{number}",
            f"  %o{number} = insertelement {of} poison, {element} %e{number}, i64 0",
            f"  %s{number} = shufflevector {of} %o{number}, {of} poison, <{self.lanes} x i32> zeroinitializer",
        ]
        return Vector(f"%s{number}", element)

    def slot_pointer(self, slot: int) -> str:
        return f"getelementptr i8, ptr %scratch, i64 {slot * STRIP * 8}"

    def loaded(self, block: Block, number: int) -> Vector:
        """The elements of an operand, or of a value that an earlier segment kept."""
        value = self.program.values[number]
        if isinstance(value, Apply):
            return self.contiguous(block, f"%p{number}", "%i", ELEMENTS[value.dtype])
        memory = self.operand_of[number]
        if memory.mode == "c":
            return self.contiguous(block, f"%p{number}", "%j", memory.element)
        result = "poison"
        for lane in range(self.lanes):
            address = self.lane_address(block, f"%p{number}", f"%stride{number}", lane)
            element = block.add_line(f"load {memory.element}, ptr {address}, align {memory.bytes}")
            of = block.type(memory.element)
            result = block.add_line(f"insertelement {of} {result}, {memory.element} {element}, i64 {lane}")
        return Vector(result, memory.element)

    def contiguous(self, block: Block, pointer: str, index: str, element: str) -> Vector:
        address = block.add_line(f"getelementptr {element}, ptr {pointer}, i64 {index}")
        return Vector(block.add_line(f"load {block.type(element)}, ptr {address}, align {BITS[element] // 8}"), element)

    def lane_address(self, block: Block, pointer: str, stride: str, lane: int) -> str:
        index = block.add_line(f"add i64 %j, {lane}")
        offset = block.add_line(f"mul i64 {index}, {stride}")
        return block.add_line(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def computed(self, block: Block, number: int, vectors: dict[int, Vector]) -> Vector:
        value = self.program.values[number]
        if not isinstance(value, Apply):
            return vectors[number]
        arguments = [vectors[argument] for argument in value.arguments]
        dtype = self.program.values[value.arguments[0]].dtype
        if value.kernel == "copy":
            return convert(block, arguments[0], dtype, value.dtype)
        if divides_integers(value.kernel, dtype):
            is_zero, arguments[1] = nonzero(block, arguments[1])
            found = block.any_lane(is_zero)
            known = block.add_line("load i64, ptr %flag")
            flagged = block.add_line(f"select i1 {found}, i64 {number + 1}, i64 {known}")
            block.lines.append(f"  store i64 {flagged}, ptr %flag")
        if value.kernel in EXTREMES and dtype.is_floating:
            return bounded(block, value.kernel, arguments, [self.is_bound(argument) for argument in value.arguments])
        return emit(block, value.kernel, dtype, arguments)

    def is_bound(self, number: int) -> bool:
        """Whether it is a constant that is neither NaN nor a zero."""
        value = self.program.values[number]
        if not isinstance(value, Constant):
            return False
        known = self.program.constants[value.slot]
        return isinstance(known, int | float) and abs(known) > _LEAST_BOUND

    def stored(self, block: Block, vector: Vector, pointer: str, index: str, mode: str) -> None:
        element, of = vector.element, block.type(vector.element)
        if mode == "c":
            address = block.add_line(f"getelementptr {element}, ptr {pointer}, i64 {index}")
            bypasses = self.bypasses_cache and pointer == "%out"
            alignment = min(ALIGNMENT, self.lanes * BITS[element] // 8) if bypasses else BITS[element] // 8
            hint = ", !nontemporal !0" if bypasses else ""
            block.lines.append(f"  store {of} {vector.name}, ptr {address}, align {alignment}{hint}")
            return
        for lane in range(self.lanes):
            address = self.lane_address(block, pointer, "%out_stride", lane)
            scalar = block.add_line(f"extractelement {of} {vector.name}, i64 {lane}")
            block.lines.append(f"  store {element} {scalar}, ptr {address}, align {BITS[element] // 8}")

    def emit_partial_vector(self) -> str:
        """Fewer elements than a vector: copied into buffers, which the first element fills up."""
        lines = [f"define internal void @part({_ARGUMENTS}) noinline {{", "entry:"]
        lines += (
            ["  %buffers = alloca [64 x ptr], align 64"]
            if len(self.memories) <= 64
            else [f"  %buffers = alloca [{len(self.memories)} x ptr], align 64"]
        )
        lines += [f"  %steps = alloca [{len(self.memories)} x i64], align 64"]
        moved = [memory for memory in self.operands if memory.mode != "s"]
        for memory in self.memories:
            lines += self.buffered(memory, is_moved=memory in moved)
        lines += ["  br label %in", "in:", "  %t = phi i64 [ 0, %entry ], [ %t1, %in ]", "  %k = add i64 %from, %t"]
        for memory in moved:
            lines += self.moved(memory, "%k", "%t", into_buffer=True)
        lines += ["  %t1 = add i64 %t, 1", "  %more = icmp ult i64 %t1, %count", "  br i1 %more, label %in, label %run"]
        lines += ["run:", *self.calls("%buffers", "0", str(self.lanes), "%steps"), "  br label %back", "back:"]
        lines += ["  %u = phi i64 [ 0, %run ], [ %u1, %back ]", "  %l = add i64 %from, %u"]
        lines += self.moved(self.result, "%l", "%u", into_buffer=False)
        lines += ["  %u1 = add i64 %u, 1", "  %rest = icmp ult i64 %u1, %count"]
        lines += ["  br i1 %rest, label %back, label %done", "done:", "  ret void", "}"]
        return "\n".join(lines)

    def buffered(self, memory: Memory, *, is_moved: bool) -> list[str]:
        """The pointer, stride and buffer of an operand, put into the tables for the segments."""
        p, of = memory.position, f"<{self.lanes} x {memory.element}>"
        lines = fetched(f"%p{p}", "ptr", "%table", 8 * p)
        if memory.mode == "g":
            lines += fetched(f"%stride{p}", "i64", "%inner", 8 * p)
        lines += [f"  %q{p} = getelementptr i8, ptr %buffers, i64 {8 * p}"]
        if memory.mode == "s":
            return [*lines, f"  store ptr %p{p}, ptr %q{p}"]
        lines += [f"  %b{p} = alloca {of}, align {ALIGNMENT}", f"  store ptr %b{p}, ptr %q{p}"]
        lines += [f"  %w{p} = getelementptr i8, ptr %steps, i64 {8 * p}", f"  store i64 {memory.bytes}, ptr %w{p}"]
        if is_moved:
            stride = f"%stride{p}" if memory.mode == "g" else str(memory.bytes)
            lines += [
                f"  %d{p} = mul i64 %from, {stride}",
                f"  %a{p} = getelementptr i8, ptr %p{p}, i64 %d{p}",
                f"  %e{p} = load {memory.element}, ptr %a{p}, align {memory.bytes}",
                f"  %i{p} = insertelement {of} poison, {memory.element} %e{p}, i64 0",
                f"  %s{p} = shufflevector {of} %i{p}, {of} poison, <{self.lanes} x i32> zeroinitializer",
                f"  store {of} %s{p}, ptr %b{p}, align {ALIGNMENT}",
            ]
        return lines

    def moved(self, memory: Memory, outside: str, inside: str, *, into_buffer: bool) -> list[str]:
        """One element between memory and buffer."""
        p, element = memory.position, memory.element
        stride = f"%stride{p}" if memory.mode == "g" else str(memory.bytes)
        lines = [
            f"  %mo{p} = mul i64 {outside}, {stride}",
            f"  %ma{p} = getelementptr i8, ptr %p{p}, i64 %mo{p}",
            f"  %mb{p} = getelementptr {element}, ptr %b{p}, i64 {inside}",
        ]
        source, target = (f"%ma{p}", f"%mb{p}") if into_buffer else (f"%mb{p}", f"%ma{p}")
        return [
            *lines,
            f"  %mv{p} = load {element}, ptr {source}, align {memory.bytes}",
            f"  store {element} %mv{p}, ptr {target}, align {memory.bytes}",
        ]

    def calls(self, table: str, start: str, count: str, inner: str) -> list[str]:
        given = f"ptr {table}, i64 {start}, i64 {count}, ptr {inner}, ptr %constants, ptr %scratch, ptr %flag"
        return [f"  call void @segment{number}({given})" for number in range(len(self.segments))]

    def row(self) -> str:
        """All elements of the innermost axis."""
        lines = [f"define internal void @row({_ARGUMENTS}) noinline {{", "entry:", *self.aligned()]
        lines += [
            "  %left = sub i64 %count, %head",
            f"  %over = urem i64 %left, {self.lanes}",
            "  %main = sub i64 %left, %over",
            "  %end = add i64 %head, %main",
            "  %any = icmp ne i64 %main, 0",
            "  br i1 %any, label %strips, label %last",
            "strips:",
            "  %at = phi i64 [ %head, %start ], [ %next, %strips ]",
            "  %remaining = sub i64 %end, %at",
        ]
        if len(self.segments) > 1:
            lines += [
                f"  %is_short = icmp ult i64 %remaining, {STRIP}",
                f"  %strip = select i1 %is_short, i64 %remaining, i64 {STRIP}",
            ]
        strip = "%strip" if len(self.segments) > 1 else "%remaining"
        lines += self.calls("%table", "%at", strip, "%inner")
        lines += [
            f"  %next = add i64 %at, {strip}",
            "  %more = icmp ult i64 %next, %end",
            "  br i1 %more, label %strips, label %last",
            "last:",
            "  %rest = sub i64 %count, %end",
            "  %is_rest = icmp ne i64 %rest, 0",
            "  br i1 %is_rest, label %tail, label %done",
            "tail:",
            f"  call void @part({_call_arguments('%end', '%rest')})",
            "  br label %done",
            "done:",
            "  ret void",
            "}",
        ]
        return "\n".join(lines)

    def aligned(self) -> Iterator[str]:
        """Emit the number of elements before the result is aligned, and process them."""
        if not self.bypasses_cache:
            yield from ("  br label %start", "start:", "  %head = phi i64 [ 0, %entry ]")
            return
        yield from fetched("%out", "ptr", "%table", 8 * self.result.position)
        yield from (
            "  %address = ptrtoint ptr %out to i64",
            "  %minus = sub i64 0, %address",
            f"  %gap = and i64 %minus, {ALIGNMENT - 1}",
            f"  %wanted = udiv i64 %gap, {self.result.bytes}",
            "  %is_all = icmp ult i64 %count, %wanted",
            "  %head = select i1 %is_all, i64 %count, i64 %wanted",
            "  %is_head = icmp ne i64 %head, 0",
            "  br i1 %is_head, label %first, label %start",
            "first:",
        )
        # A buffer holds as many elements as a vector, and no more.
        yield from (
            f"  %is_long = icmp ugt i64 %head, {self.lanes}",
            f"  %head_a = select i1 %is_long, i64 {self.lanes}, i64 %head",
            f"  call void @part({_call_arguments('0', '%head_a')})",
            "  %head_b = sub i64 %head, %head_a",
            "  %is_b = icmp ne i64 %head_b, 0",
            "  br i1 %is_b, label %second, label %start",
            "second:",
            f"  call void @part({_call_arguments('%head_a', '%head_b')})",
            "  br label %start",
            "start:",
        )

    def kernel(self, slots: int, *, x86: bool) -> str:
        """The visible function: counts through the outer axes like an odometer."""
        count = len(self.memories)
        fence = ["  call void @llvm.x86.sse.sfence()"] if self.bypasses_cache and x86 else []
        if fence:
            self.declarations.add("declare void @llvm.x86.sse.sfence()")
        lines = [
            f"define i64 @{KERNEL}({_KERNEL_ARGUMENTS}) {{",
            "entry:",
            "  %flag = alloca i64",
            "  store i64 0, ptr %flag",
            f"  %scratch = alloca [{max(1, slots) * STRIP * 8} x i8], align {ALIGNMENT}",
            f"  %table = alloca [{count} x ptr], align {ALIGNMENT}",
            "  %index = alloca [64 x i64], align 8",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %table, ptr %pointers, i64 {8 * count}, i1 false)",
            "  call void @llvm.memset.p0.i64(ptr %index, i8 0, i64 512, i1 false)",
            "  br label %line",
            "line:",
            "  call void @row(ptr %table, i64 0, i64 %length, ptr %inner, ptr %constants, ptr %scratch, ptr %flag)",
            "  br label %carry",
            "carry:",
            "  %above = phi i64 [ %rank, %line ], [ %axis, %wrap ]",
            "  %is_end = icmp eq i64 %above, 0",
            "  br i1 %is_end, label %done, label %step",
            "step:",
            "  %axis = sub i64 %above, 1",
            "  %pi = getelementptr i64, ptr %index, i64 %axis",
            "  %old = load i64, ptr %pi",
            "  %new = add i64 %old, 1",
            "  %pe = getelementptr i64, ptr %extents, i64 %axis",
            "  %extent = load i64, ptr %pe",
            f"  %first_stride = mul i64 %axis, {count}",
            "  %is_over = icmp uge i64 %new, %extent",
            "  %back = sub i64 1, %extent",
            "  %times = select i1 %is_over, i64 %back, i64 1",
            "  %kept = select i1 %is_over, i64 0, i64 %new",
            "  store i64 %kept, ptr %pi",
            "  br label %walk",
            "walk:",
            "  %m = phi i64 [ 0, %step ], [ %m1, %walk ]",
            "  %s = add i64 %first_stride, %m",
            "  %ps = getelementptr i64, ptr %outer, i64 %s",
            "  %stride = load i64, ptr %ps",
            "  %move = mul i64 %stride, %times",
            "  %pt = getelementptr ptr, ptr %table, i64 %m",
            "  %was = load ptr, ptr %pt",
            "  %is = getelementptr i8, ptr %was, i64 %move",
            "  store ptr %is, ptr %pt",
            "  %m1 = add i64 %m, 1",
            f"  %is_more = icmp ult i64 %m1, {count}",
            "  br i1 %is_more, label %walk, label %wrap",
            "wrap:",
            "  br i1 %is_over, label %carry, label %line",
            "done:",
            *fence,
            "  %found = load i64, ptr %flag",
            "  ret i64 %found",
            "}",
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        ]
        return "\n".join(lines)


def _loop(name: str, entry: Sequence[str], body: Sequence[str], lanes: int) -> str:
    return "\n".join(
        [
            f"define internal void @{name}({_ARGUMENTS}) noinline {{",
            "entry:",
            *entry,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]",
            "  %j = add i64 %from, %i",
            *body,
            f"  %i1 = add i64 %i, {lanes}",
            "  %again = icmp ult i64 %i1, %count",
            "  br i1 %again, label %loop, label %done",
            "done:",
            "  ret void",
            "}",
        ]
    )


def _call_arguments(start: str, count: str) -> str:
    return f"ptr %table, i64 {start}, i64 {count}, ptr %inner, ptr %constants, ptr %scratch, ptr %flag"
