"""Compiled programs as functions that Python calls with arrays, without anything between.

A call through ctypes, with the addresses of arrays looked up one by one, takes tens of microseconds; for small arrays
that is all the time there is. So the compiled code looks into the objects itself. Where things lie in them is fixed by
the stable interfaces of CPython and NumPy; that it is so is checked once, on real objects, and if not, nothing here is
used.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.expression.fused.arguments import ENTRY, LARGE, ObjectLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.core.dtypes import DType
    from graphport.expression.fused.engine import Code

    Array = np.ndarray[Any, Any]

_FASTCALL = 0x80
_WORD = 8


class _Method(ctypes.Structure):
    """`PyMethodDef` of the interface of CPython."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("manual", ctypes.c_char_p),
    ]


class CompiledEntry:
    """A compiled program that Python calls directly: `entry.call(*operands, out)` gives `out`, or None.

    None means that it has not computed, because the arrays are not of one shape, very large, not contiguous, or not of
    the element types that the program was made for; or because an integer would have been divided by zero.
    """

    def __init__(self, code: Code, dtypes: Sequence[DType], constants: Array) -> None:
        self.dtype = dtypes[-1].numpy
        self.largest = LARGE
        context = [id(np.ndarray), id(None), constants.ctypes.data, *(id(dtype.numpy) for dtype in dtypes)]
        self._method = _Method(b"kernel", code.addresses[ENTRY], _FASTCALL, None)
        # Objects that the code refers to must live as long as the function.
        self._kept = (code, constants, [dtype.numpy for dtype in dtypes])
        packed = b"".join(address.to_bytes(_WORD, "little") for address in context)
        self.call: Callable[..., Array | None] = _new_function()(ctypes.byref(self._method), packed, None)


@cache
def object_layout() -> ObjectLayout | None:
    """Return the memory layout of this interpreter's objects; `None` if it is not as expected."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != 2 * _WORD:
        return None
    head = object.__basicsize__
    layout = ObjectLayout(
        type=_WORD,
        bytes=bytes.__basicsize__ - 1,
        data=head,
        rank=head + _WORD,
        extents=head + 2 * _WORD,
        dtype=head + 5 * _WORD,
        flags=head + 6 * _WORD,
    )
    return layout if _is_right(layout) else None


def _is_right(layout: ObjectLayout) -> bool:
    """Whether two arrays and a bytes object have the memory layout `layout`."""
    sample = b"0123456789"
    if ctypes.string_at(id(sample) + layout.bytes, len(sample)) != sample:
        return False
    arrays: list[Array] = [np.zeros((2, 3, 5), np.float32), np.zeros((7, 4), np.int16)[:, ::2]]
    return all(_describes(layout, array) for array in arrays)


def _describes(layout: ObjectLayout, array: Array) -> bool:
    def read_pointer(offset: int) -> int:
        return ctypes.c_size_t.from_address(id(array) + offset).value

    rank = ctypes.c_int.from_address(id(array) + layout.rank).value
    flags = ctypes.c_int.from_address(id(array) + layout.flags).value
    if (read_pointer(layout.type), read_pointer(layout.data), rank) != (id(np.ndarray), array.ctypes.data, array.ndim):
        return False
    extents = tuple((ctypes.c_ssize_t * rank).from_address(read_pointer(layout.extents)))
    return extents == array.shape and read_pointer(layout.dtype) == id(array.dtype) and flags == array.flags.num


@cache
def _new_function() -> Callable[..., Any]:
    make: Any = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make
