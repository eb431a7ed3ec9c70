"""The function of a module that Python calls with the arrays themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.expression.fused.memory import ALIGNMENT, STRIP, fetched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.expression.fused.memory import Memory

ENTRY = "graphport_entry"
"""The name of the function."""
DECLARATIONS = (
    "declare void @Py_IncRef(ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
)
"""Declarations of the CPython functions that it calls."""
LARGE = 1 << 22
"""Default number of elements up to which `ENTRY` uses one thread."""
_QUICK = 1 << 14
"""Number of elements up to which the GIL is held."""
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400


@dataclass(frozen=True, slots=True)
class ObjectLayout:
    """Byte offsets of the fields of Python and NumPy objects."""

    type: int
    bytes: int
    """The first byte of a `bytes` object."""
    data: int
    rank: int
    extents: int
    dtype: int
    flags: int


def emit_entry(memories: Sequence[Memory], objects: ObjectLayout, slots: int, largest: int = LARGE) -> str:
    """A function of Python for arrays of one shape, one after another in memory, without any conversion.

    `object ENTRY(bytes self, object *arguments, i64 count)` takes the operands by index, and the result, which it
    gives too, or None if it has not computed. `self` holds addresses: of the type of arrays, of None, of the
    constants, of the element types.
    """
    count = len(memories)
    result = memories[-1]
    lines = [
        f"define ptr @{ENTRY}(ptr %self, ptr %arguments, i64 %given) {{",
        "entry:",
        f"  %scratch = alloca [{max(1, slots) * STRIP * 8} x i8], align {ALIGNMENT}",
        f"  %table = alloca [{count} x ptr], align {ALIGNMENT}",
        "  %flag = alloca i64",
        "  store i64 0, ptr %flag",
        f"  %context = getelementptr i8, ptr %self, i64 {objects.bytes}",
        *fetched("%array_type", "ptr", "%context", 0),
        *fetched("%none", "ptr", "%context", 8),
        *fetched("%constants", "ptr", "%context", 16),
        f"  %is_count = icmp eq i64 %given, {result.index + 1}",
        "  br i1 %is_count, label %check0, label %slow",
    ]
    for memory in memories:
        lines += _checked(memory, objects, is_result=memory is result)
    last = result.position
    lines += [f"check{count}:", f"  %rank = zext i32 %rank{last} to i64"]
    lines += ["  br label %size", "size:", f"  %d = phi i64 [ 0, %check{count} ], [ %d1, %next ]"]
    lines += [f"  %n = phi i64 [ 1, %check{count} ], [ %n1, %next ]", "  %is_all = icmp eq i64 %d, %rank"]
    lines += ["  br i1 %is_all, label %sized, label %extent", "extent:"]
    lines += [f"  %at{m.position} = getelementptr i64, ptr %extents{m.position}, i64 %d" for m in memories]
    lines += [f"  %extent{m.position} = load i64, ptr %at{m.position}" for m in memories]
    lines += _conjunction("same", [f"icmp eq i64 %extent{m.position}, %extent{last}" for m in memories[:-1]])
    lines += ["  br i1 %same, label %next, label %slow", "next:", f"  %n1 = mul i64 %n, %extent{last}"]
    lines += ["  %d1 = add i64 %d, 1", "  br label %size", "sized:", "  %n0 = sub i64 %n, 1"]
    lines += [f"  %is_small = icmp ult i64 %n0, {largest}", "  br i1 %is_small, label %apart, label %slow", "apart:"]
    lines += _are_disjoint(memories)
    lines += ["  br i1 %fine, label %run, label %slow", "run:"]
    call = "  call void @row(ptr %table, i64 0, i64 %n, ptr null, ptr %constants, ptr %scratch, ptr %flag)"
    lines += [
        f"  %is_quick = icmp ult i64 %n, {_QUICK}",
        "  br i1 %is_quick, label %at_once, label %released",
        "at_once:",
        call,
        "  br label %done",
        "released:",
        "  %thread = call ptr @PyEval_SaveThread()",
        call,
        "  call void @PyEval_RestoreThread(ptr %thread)",
        "  br label %done",
        "done:",
        f"  call void @Py_IncRef(ptr %object{last})",
        f"  ret ptr %object{last}",
        "slow:",
        "  call void @Py_IncRef(ptr %none)",
        "  ret ptr %none",
        "}",
    ]
    return "\n".join(lines)


def _checked(memory: Memory, objects: ObjectLayout, *, is_result: bool) -> list[str]:
    """Emit checks that an argument is an array of the right dtype and layout."""
    p = memory.position
    wanted = _CONTIGUOUS | _ALIGNED | (_WRITEABLE if is_result else 0)
    return [
        f"check{p}:",
        *fetched(f"%object{p}", "ptr", "%arguments", 8 * memory.index),
        *fetched(f"%type{p}", "ptr", f"%object{p}", objects.type),
        f"  %is_array{p} = icmp eq ptr %type{p}, %array_type",
        f"  br i1 %is_array{p}, label %array{p}, label %slow",
        f"array{p}:",
        *fetched(f"%data{p}", "ptr", f"%object{p}", objects.data),
        *fetched(f"%rank{p}", "i32", f"%object{p}", objects.rank),
        *fetched(f"%extents{p}", "ptr", f"%object{p}", objects.extents),
        *fetched(f"%dtype{p}", "ptr", f"%object{p}", objects.dtype),
        *fetched(f"%flags{p}", "i32", f"%object{p}", objects.flags),
        *fetched(f"%wanted{p}", "ptr", "%context", 8 * (3 + p)),
        f"  %slot{p} = getelementptr ptr, ptr %table, i64 {p}",
        f"  store ptr %data{p}, ptr %slot{p}",
        f"  %kept{p} = and i32 %flags{p}, {wanted}",
        *_conjunction(
            f"is_right{p}",
            [
                f"icmp eq ptr %dtype{p}, %wanted{p}",
                f"icmp eq i32 %kept{p}, {wanted}",
                *([f"icmp eq i32 %rank{p}, %rank0"] if p else []),
            ],
        ),
        f"  br i1 %is_right{p}, label %check{p + 1}, label %slow",
    ]


def _are_disjoint(memories: Sequence[Memory]) -> list[str]:
    """Whether each operand coincides with the result element by element, or does not overlap it."""
    last = memories[-1]
    lines = [f"  %place{m.position} = ptrtoint ptr %data{m.position} to i64" for m in memories]
    lines += [f"  %after = mul i64 %n, {last.bytes}"]
    tests: list[str] = []
    for memory in memories[:-1]:
        p = memory.position
        lines += [
            f"  %ahead{p} = sub i64 %place{last.position}, %place{p}",
            f"  %behind{p} = sub i64 0, %ahead{p}",
            f"  %span{p} = mul i64 %n, {memory.bytes}",
            f"  %past{p} = icmp uge i64 %ahead{p}, %span{p}",
            f"  %before{p} = icmp uge i64 %behind{p}, %after",
            f"  %outside{p} = and i1 %past{p}, %before{p}",
            f"  %equal{p} = icmp eq i64 %ahead{p}, 0",
            f"  %in_step{p} = and i1 %equal{p}, {'true' if memory.bytes == last.bytes else 'false'}",
        ]
        tests.append(f"or i1 %outside{p}, %in_step{p}")
    return lines + _conjunction("fine", tests)


def _conjunction(name: str, tests: Sequence[str]) -> list[str]:
    """Whether all `tests` hold."""
    lines = [f"  %{name}.0 = or i1 true, false"]
    for number, test in enumerate(tests):
        lines += [f"  %{name}.t{number} = {test}"]
        lines += [f"  %{name}.{number + 1} = and i1 %{name}.{number}, %{name}.t{number}"]
    return [*lines, f"  %{name} = and i1 %{name}.{len(tests)}, true"]
