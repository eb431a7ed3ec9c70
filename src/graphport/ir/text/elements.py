"""Elements of tensors as text, and back, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ir.text.words import INTEGER, bytes_text, string_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphport.core.storage import Storage


class Bits(NamedTuple):
    """A NaN that is written with all its bits."""

    bits: int

    def __str__(self) -> str:
        return f"nan:{self.bits:#x}"


Element: TypeAlias = bool | int | float | str | bytes | Bits

_KINDS: dict[str, tuple[type, ...]] = {
    "f": (int, float, Bits),
    "c": (int, float, Bits),
    "i": (int,),
    "u": (int,),
    "b": (bool,),
    "s": (str, bytes),
}


class Misfit(Exception):  # noqa: N818  an error of the input: the caller reports it as a diagnostic
    """An element does not have its declared type."""


def element_texts(storage: Storage) -> Iterable[str]:
    """Every element in row-major order; complex ones as two."""
    flat = storage.numpy().reshape(-1)
    match storage.dtype.kind:
        case "f":
            return _float_texts(flat)
        case "c":
            return _float_texts(flat.view(flat.real.dtype))
        case "b":
            return ("true" if element else "false" for element in flat.tolist())
        case "s":
            return (bytes_text(text) if isinstance(text, bytes) else string_text(text) for text in flat.tolist())
        case _:
            return (str(int(element)) for element in flat.tolist())


def float_text(number: float) -> str:
    """Return the shortest text that parses to the same float64."""
    return _float_texts(np.array([number], np.float64))[0]


def _float_texts(flat: np.ndarray[Any, Any]) -> list[str]:
    # Types missing in NumPy print integers without a point, and -0 would be an integer.
    texts = [f"{text}.0" if INTEGER.fullmatch(text) else text for text in map(str, flat)]
    read = np.array([float(text) for text in texts], np.float64).astype(flat.dtype)
    bits = np.dtype(f"u{flat.dtype.itemsize}")
    for index in np.flatnonzero(read.view(bits) != flat.view(bits)).tolist():
        number = float(flat[index])
        texts[index] = str(Bits(int(flat.view(bits)[index]))) if np.isnan(number) else repr(number)
    return texts


def array_of(dtype: DType, elements: Sequence[Element]) -> np.ndarray[Any, Any]:
    """The elements in one dimension; two for each complex one.

    Raises:
        Misfit: one is of another kind, or out of the range of `dtype`.
    """
    kinds = _KINDS[dtype.kind]
    for element in elements:
        if type(element) not in kinds:
            message = f"{element!s:.40} is not an element of {dtype}"
            raise Misfit(message)
    if dtype.kind in "fc":
        return _float_array(dtype, elements)
    if dtype.kind == "s":
        texts = np.empty(len(elements), object)
        texts[:] = elements
        return texts
    if dtype.is_integer:
        _check_range(dtype, elements)
    return np.array(elements, np.uint64 if dtype is DType.UINT64 else np.int64).astype(dtype.numpy)


def _check_range(dtype: DType, elements: Sequence[Element]) -> None:
    lower, upper = (0, 1 << dtype.bits) if dtype.kind == "u" else (-(1 << (dtype.bits - 1)), 1 << (dtype.bits - 1))
    for element in elements:
        if isinstance(element, int) and not lower <= element < upper:
            message = f"{element} is out of the range of {dtype}"
            raise Misfit(message)


def _float_array(dtype: DType, elements: Sequence[Element]) -> np.ndarray[Any, Any]:
    part = dtype.numpy if dtype.kind == "f" else np.dtype(f"f{dtype.bits // 16}")
    try:
        wide = np.array([0.0 if isinstance(element, Bits) else float(element) for element in elements], np.float64)
    except OverflowError as error:
        message = f"an integer is out of the range of {dtype}"
        raise Misfit(message) from error
    with np.errstate(all="ignore"):
        array = wide.astype(part)
        again = array.astype(np.float64)
    lost = np.flatnonzero((np.isnan(wide) != np.isnan(again)) | (np.isinf(wide) != np.isinf(again)))
    if lost.size:
        message = f"{wide[lost[0]]} is out of the range of {dtype}"
        raise Misfit(message)
    fields = array.view(f"u{part.itemsize}")
    for index, element in enumerate(elements):
        if isinstance(element, Bits):
            if element.bits >> (8 * part.itemsize):
                message = f"{element} has more bits than {dtype}"
                raise Misfit(message)
            fields[index] = element.bits
    return array.view(dtype.numpy)
