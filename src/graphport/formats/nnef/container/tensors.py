"""Tensor files (`.dat`): a header and the elements of one variable.

The final edition's header has 128 bytes, the provisional one's length depends on rank and quantization. Both begin
with the same magic number and version; their further content distinguishes them.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from graphport.core.dtypes import DType
from graphport.core.storage import CHUNK, FileStorage, Packing, View
from graphport.formats.nnef.container.item_types import (
    Converted,
    ItemStorage,
    ItemType,
    Linear,
    Logarithmic,
    NumberEncoding,
    regrouped,
    storage_of_items,
)
from graphport.formats.nnef.container.limits import MOST_DIMS
from graphport.formats.nnef.container.syntax import Edition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from graphport.core.storage import Bytes, MappedFile, Storage

MAGIC = b"\x4e\xef"
VERSION = (1, 0)
HEADER = 128
"""Bytes of a final header."""
MOST_BYTES = 2**32 - 1
"""A final header counts the bytes of data in 32 bits, so do extents."""

_FINAL = struct.Struct("<2sBBII8IIHH")
_PROVISIONAL_DIMS = 64
_PROVISIONAL_HEAD = 16
_AHEAD = 512

_FLOAT, _UNSIGNED, _QUANTIZED_UNSIGNED, _QUANTIZED_SIGNED, _SIGNED, _LOGICAL = range(6)
_OLD_LINEAR, _OLD_LOGARITHMIC = 0x10, 0x11
"""Item types of 1.0 to 1.0.2, as files of that time have them."""
_PROVISIONAL_KINDS = (NumberEncoding.FLOAT, NumberEncoding.UNSIGNED, NumberEncoding.SIGNED, NumberEncoding.UNSIGNED)
_PROVISIONAL_QUANTIZED = 1
_FLOAT_BITS = (16, 32, 64)
_LOGICAL_BITS = (1, 8)


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes of one tensor file: a whole file, or a member of an archive."""

    file: MappedFile | Bytes
    start: int
    size: int
    name: str

    def read(self, start: int, length: int) -> bytes:
        """Bytes `start` to `start + length`, fewer where the region ends."""
        length = max(min(length, self.size - start), 0)
        return b"".join(bytes(piece) for piece in self.file.chunks(self.start + start, length))


@dataclass(frozen=True, slots=True)
class Tensor:
    """Content of a tensor file; `findings` are warnings."""

    layout: Edition
    item: ItemType
    storage: Storage
    findings: tuple[Diagnostic, ...] = ()


@dataclass(slots=True)
class _Faults:
    """Findings about one file, placed by byte."""

    source: Source
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def error(self, code: str, message: str, byte: int, help: str | None = None) -> None:
        self.found.append(Diagnostic(code, message, self.at(byte), help))

    def warn(self, code: str, message: str, byte: int, help: str | None = None) -> None:
        self.found.append(Diagnostic(code, message, self.at(byte), help, Severity.WARNING))

    def at(self, byte: int) -> Span:
        return Span(self.source, place=f"byte {byte}")


@dataclass(frozen=True, slots=True)
class _Header:
    item: ItemType
    shape: tuple[int, ...]
    start: int


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_tensor(region: Region, edition: Edition | None = None) -> Tensor:
    """Read the tensor in `region`; only its header is parsed.

    `edition` decides between the layouts if both are possible. Counts are checked against the size of the region first.

    Raises:
        DiagnosticError: all errors of the header (NNEF0701 to NNEF0713), each with its byte offset.
    """
    head = region.read(0, _AHEAD)
    faults = _Faults(Source(region.name))
    layout = _layout(head, region.size, edition)
    header = None
    if _begins_well(head, faults):
        header = (_final if layout is Edition.FINAL else _provisional)(region, head, faults)
    if header is None or any(finding.is_error for finding in faults.found):
        raise DiagnosticError(*faults.found)
    storage = storage_of_items(region.file, region.start + header.start, header.item, header.shape)
    return Tensor(layout, header.item, storage, tuple(faults.found))


def _begins_well(head: bytes, faults: _Faults) -> bool:
    if not head.startswith(MAGIC):
        found = head[:2].hex(" ") or "nothing"
        faults.error(
            "NNEF0702",
            f"not an NNEF tensor file: it begins with {found}, expected 4e ef",
            0,
            "replace it by a tensor file (.dat)",
        )
        return False
    if len(head) < _PROVISIONAL_HEAD:
        message = f"truncated file: {len(head)} bytes are too few for a header"
        faults.error("NNEF0701", message, len(head), "write the file again")
        return False
    if (head[2], head[3]) != VERSION:
        message = f"unsupported tensor file version {head[2]}.{head[3]}"
        faults.error("NNEF0703", message, 2, "write the file in version 1.0")
        return False
    return True


def _layout(head: bytes, size: int, edition: Edition | None) -> Edition:
    is_final, is_provisional = _could_be_final(head, size), _could_be_provisional(head, size)
    if is_final != is_provisional:
        return Edition.FINAL if is_final else Edition.PROVISIONAL
    return edition or Edition.FINAL


def _could_be_final(head: bytes, size: int) -> bool:
    if len(head) < HEADER:
        return False
    _, _, _, length, rank, *extents, bits, _, _ = _FINAL.unpack_from(head)
    return rank <= MOST_DIMS and 0 < bits <= 64 and length == _bytes(extents[:rank], bits) <= size - HEADER


def _could_be_provisional(head: bytes, size: int) -> bool:
    if len(head) < _PROVISIONAL_HEAD:
        return False
    offset, rank = struct.unpack_from("<II", head, 4)
    if rank > _PROVISIONAL_DIMS or 12 + 4 * rank + 4 > len(head):
        return False
    *extents, code, bits, length = struct.unpack_from(f"<{rank}IBBH", head, 12)
    begins = _PROVISIONAL_HEAD + 4 * rank + length <= offset
    return begins and code < len(_PROVISIONAL_KINDS) and bits > 0 and offset + _bytes(extents, bits) <= size


def _bytes(shape: Iterable[int], bits: int) -> int:
    return (math.prod(shape) * bits + 7) // 8


def _final(region: Region, head: bytes, faults: _Faults) -> _Header | None:
    if len(head) < HEADER:
        message = f"truncated file: {len(head)} bytes, the header has {HEADER}"
        faults.error("NNEF0701", message, len(head), "write the file again")
        return None
    _, _, _, length, rank, *extents, bits, code, vendor = _FINAL.unpack_from(head)
    if rank > MOST_DIMS:
        faults.error("NNEF0704", f"rank {rank} exceeds the limit of {MOST_DIMS}", 8)
        return None
    shape = tuple(extents[:rank])
    if vendor:
        message = f"unknown item type {code} of the vendor {_vendor(vendor)}"
        faults.error("NNEF0710", message, 48, "write the tensor with one of the standard item types")
        return None
    item = _final_item(head, code, bits, faults)
    if item is None:
        return None
    needed = _bytes(shape, bits)
    if length != needed:
        message = f"the header declares {length} bytes of data, but {_describe_items(shape, bits)} take {needed}"
        faults.error("NNEF0707", message, 4, "write the file again with a consistent header")
    _check_end(region, HEADER + needed, faults)
    return _Header(item, shape, HEADER)


def _vendor(number: int) -> str:
    letters = number.to_bytes(2, "big")
    return f"'{letters.decode('ascii')}'" if letters.isalpha() else f"{number:#06x}"


def _describe_items(shape: tuple[int, ...], bits: int) -> str:
    return f"{' x '.join(map(str, shape)) or '1'} items of {bits} bit{'' if bits == 1 else 's'}"


def _check_end(region: Region, stop: int, faults: _Faults) -> None:
    if stop > region.size:
        message = f"truncated file: {stop} bytes expected, {region.size} found"
        faults.error("NNEF0708", message, region.size, "write the file again")
    elif stop < region.size:
        message = f"the reader ignores {region.size - stop} bytes after the data"
        faults.warn("NNEF0709", message, stop)


def _final_item(head: bytes, code: int, bits: int, faults: _Faults) -> ItemType | None:
    signedness, _ = struct.unpack_from("<II", head, 52)
    match code:
        case 0:
            item = ItemType(NumberEncoding.FLOAT, bits)
        case 1:
            # Until 1.0.2 a flag after the type was the signedness of integers.
            item = ItemType(NumberEncoding.SIGNED if signedness else NumberEncoding.UNSIGNED, bits)
        case 2 | 3 | 0x10 | 0x11:
            return _final_quantized(head, code, bits, faults)
        case 4:
            item = ItemType(NumberEncoding.SIGNED, bits)
        case 5:
            item = ItemType(NumberEncoding.LOGICAL, bits)
        case _:
            message = f"unknown item type {code}"
            remedy = (
                "use 0 (float), 1 (unsigned), 2 (quantized unsigned), 3 (quantized signed), 4 (signed) or 5 (logical)"
            )
            faults.error("NNEF0705", message, 48, remedy)
            return None
    return item if _has_sound_width(item, 44, faults) else None


def _has_sound_width(item: ItemType, byte: int, faults: _Faults) -> bool:
    if item.kind is NumberEncoding.FLOAT and item.bits not in _FLOAT_BITS:
        faults.error("NNEF0706", f"unsupported item type: {item.bits}-bit float", byte, "16, 32 or 64")
    elif item.kind is NumberEncoding.LOGICAL and item.bits not in _LOGICAL_BITS:
        faults.error("NNEF0706", f"unsupported item type: {item.bits}-bit logical", byte, "1 or 8")
    elif not 0 < item.bits <= 64:
        faults.error("NNEF0706", f"unsupported item type: {item.bits}-bit integer", byte, "1 to 64")
    else:
        return True
    return False


def _final_quantized(head: bytes, code: int, bits: int, faults: _Faults) -> ItemType | None:
    """Return the item type of quantized codes; until 1.0.2 the header contained their range."""
    minimum, maximum = struct.unpack_from("<ff", head, 52)
    kind = NumberEncoding.SIGNED if code == _QUANTIZED_SIGNED else NumberEncoding.UNSIGNED
    item = ItemType(kind, bits, is_quantized=True)
    if not _has_sound_width(item, 44, faults):
        return None
    if not any(head[52:60]) and code in (_QUANTIZED_UNSIGNED, _QUANTIZED_SIGNED):
        return item
    # With a range, codes 2 and 3 meant linear and logarithmic, like 0x10 and 0x11; both unsigned.
    if code in (_QUANTIZED_UNSIGNED, _OLD_LINEAR):
        decoding = _linear(minimum, maximum, bits, 52, faults)
    else:
        decoding = _logarithmic(maximum, 2**bits - 1, 56, faults)
    return None if decoding is None else ItemType(NumberEncoding.UNSIGNED, bits, is_quantized=True, decoding=decoding)


def _linear(minimum: float, maximum: float, bits: int, byte: int, faults: _Faults) -> Linear | None:
    if math.isfinite(minimum) and math.isfinite(maximum) and minimum < maximum:
        return Linear(minimum, maximum, bits)
    message = f"invalid quantization range from {minimum:.9g} to {maximum:.9g}"
    faults.error("NNEF0711", message, byte, "set min and max to finite values with min < max")
    return None


def _logarithmic(maximum: float, steps: int, byte: int, faults: _Faults) -> Logarithmic | None:
    if math.isfinite(maximum) and maximum > 0:
        return Logarithmic.up_to(maximum, steps)
    faults.error(
        "NNEF0711",
        f"invalid maximum {maximum:.9g} of a logarithmic quantization",
        byte,
        "set max to a finite value above 0",
    )
    return None


def _provisional(region: Region, head: bytes, faults: _Faults) -> _Header | None:
    offset, rank = struct.unpack_from("<II", head, 4)
    if rank > _PROVISIONAL_DIMS:
        faults.error("NNEF0704", f"rank {rank} exceeds the limit of {_PROVISIONAL_DIMS}", 8)
        return None
    fixed = _PROVISIONAL_HEAD + 4 * rank
    if len(head) < fixed:
        message = f"truncated file: {len(head)} bytes are too few for a header of rank {rank}"
        faults.error("NNEF0701", message, len(head), "write the file again")
        return None
    *shape, code, bits, length = struct.unpack_from(f"<{rank}IBBH", head, 12)
    if offset < fixed + length:
        message = f"data offset {offset} is inside of the header, which has {fixed + length} bytes"
        faults.error("NNEF0712", message, 4, "set the offset relative to the beginning of the file")
    if code >= len(_PROVISIONAL_KINDS):
        remedy = "0 float, 1 quantized, 2 signed, 3 unsigned"
        faults.error("NNEF0705", f"unknown item type {code}", fixed - 4, remedy)
        return None
    item = ItemType(_PROVISIONAL_KINDS[int(code)], bits, is_quantized=code == _PROVISIONAL_QUANTIZED)
    if not _has_sound_width(item, fixed - 3, faults):
        return None
    if item.is_quantized and length:
        decoding = _algorithm(region.read(fixed, length), bits, fixed, faults)
        item = ItemType(item.kind, bits, is_quantized=True, decoding=decoding)
    _check_end(region, offset + _bytes(shape, bits), faults)
    return _Header(item, tuple(shape), offset)


_CALL = re.compile(r"\s*(linear|logarithmic)(?:_quantize)?\s*\(([^()]*)\)\s*;?\s*\0*")
_ARGUMENT = re.compile(r"\s*(?:(min|max|bits)\s*=)?\s*([-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*")
_PARAMETERS = {"linear": ("min", "max", "bits"), "logarithmic": ("max", "bits")}


def _algorithm(text: bytes, bits: int, byte: int, faults: _Faults) -> Linear | Logarithmic | None:
    """Parse the algorithm of a provisional file: `linear_quantize(min = …, max = …, bits = …)` or logarithmic."""
    call = _CALL.fullmatch(text.decode("latin-1"))
    given = {} if call is None else _arguments(call[1], call[2])
    wanted = () if call is None else _PARAMETERS[call[1]]
    if call is None or not given.keys() >= set(wanted) - {"bits"}:
        shown = text[:60].decode("ascii", "replace")
        remedy = "use linear_quantize(min, max, bits) or logarithmic_quantize(max, bits)"
        faults.error("NNEF0713", f"unknown quantization '{shown}'", byte, remedy)
        return None
    if call[1] == "linear":
        return _linear(given["min"], given["max"], bits, byte, faults)
    # Here the least power is `bits` below the largest, where the final edition has 2^bits - 1.
    return _logarithmic(given["max"], bits, byte, faults)


def _arguments(algorithm: str, text: str) -> dict[str, float]:
    given: dict[str, float] = {}
    for name, part in zip(_PARAMETERS[algorithm], text.split(","), strict=False):
        argument = _ARGUMENT.fullmatch(part)
        if argument is not None:
            given[argument[1] or name] = float(argument[2])
    return given


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Payload:
    """A file to be written, of known size, whose bytes are generated on demand."""

    size: int
    chunks: Callable[[], Iterator[bytes | memoryview]]


def tensor_file(
    storage: Storage, name: str, *, edition: Edition = Edition.FINAL, is_plain: bool = False, is_quantized: bool = False
) -> Payload:
    """Return the tensor file of `storage`, generated while it is written.

    Elements that were read from a tensor file keep their item type. With `is_plain` they get the storage's dtype, which
    other readers support: 8 to 64 bits per number, 1 bit per logical item.

    Args:
        storage: the elements.
        name: of the file, for diagnostics.
        edition: determines the header.
        is_plain: avoid item types that some readers refuse.
        is_quantized: integers are codes of real numbers.

    Raises:
        DiagnosticError: too many elements for the header (NNEF0720), too many or too large dims (NNEF0721), or an
            unsupported dtype (NNEF0722).
    """
    item, pieces = _source(storage, is_plain=is_plain)
    faults = _Faults(Source(name))
    if item is None:
        message = f"NNEF tensor files do not support {storage.dtype}"
        faults.error("NNEF0722", message, 0, "cast to float16, float32, float64, an integer type or bool")
        raise DiagnosticError(*faults.found)
    length = _bytes(storage.shape, item.bits)
    if edition is Edition.FINAL:
        header = _final_header(storage, item, length, faults, is_quantized=is_quantized)
    else:
        header = _provisional_header(storage, item, faults)
    if faults.found:
        raise DiagnosticError(*faults.found)

    def chunks() -> Iterator[bytes | memoryview]:
        yield header
        yield from pieces()

    return Payload(len(header) + length, chunks)


def _source(storage: Storage, *, is_plain: bool) -> tuple[ItemType | None, Callable[[], Iterator[bytes | memoryview]]]:
    """Return the item type of `storage`, and its bytes."""
    while isinstance(storage, Converted | View) and not is_plain:
        storage = storage.of
    if isinstance(storage, ItemStorage) and not is_plain and storage.item.decoding is None:
        length = _bytes(storage.shape, storage.item.bits)
        return storage.item, lambda: storage.file.chunks(storage.start, length)
    dtype = storage.dtype
    if dtype is DType.BOOL:
        return ItemType(NumberEncoding.LOGICAL, 1), lambda: _flags(storage)
    if is_plain and dtype in _WIDER:
        wider = Converted(storage, _WIDER[dtype])
        return _item_type_of(wider.dtype), wider.chunks
    item = _item_type_of(dtype)
    if item is not None and item.bits < 8:
        return item, lambda: _reversed_fields(storage, item.bits)
    return item, storage.chunks


_WIDER = {DType.INT2: DType.INT8, DType.INT4: DType.INT8, DType.UINT2: DType.UINT8, DType.UINT4: DType.UINT8}
_KINDS = {"i": NumberEncoding.SIGNED, "u": NumberEncoding.UNSIGNED}


def _item_type_of(dtype: DType) -> ItemType | None:
    if dtype in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64):
        return ItemType(NumberEncoding.FLOAT, dtype.bits)
    return ItemType(_KINDS[dtype.kind], dtype.bits) if dtype.is_integer else None


def _flags(storage: Storage) -> Iterator[bytes | memoryview]:
    for piece in regrouped(storage.chunks(CHUNK), 8):
        yield np.packbits(np.frombuffer(piece, np.uint8)).tobytes()


def _reversed_fields(storage: Storage, bits: int) -> Iterator[bytes | memoryview]:
    if isinstance(storage, FileStorage) and storage.packing is Packing.HIGH_FIRST:
        yield from storage.file.chunks(storage.start, storage.nbytes)
        return
    table = np.zeros(256, np.uint8)
    for shift in range(0, 8, bits):
        fields = np.arange(256) >> shift & ((1 << bits) - 1)
        table |= (fields << (8 - bits - shift)).astype(np.uint8)
    for piece in storage.chunks(CHUNK):
        yield table[np.frombuffer(piece, np.uint8)].tobytes()


def _final_header(storage: Storage, item: ItemType, length: int, faults: _Faults, *, is_quantized: bool) -> bytes:
    shape = storage.shape
    if length > MOST_BYTES:
        message = f"the tensor has {length} bytes, more than a tensor file can hold"
        faults.error(
            "NNEF0720",
            message,
            4,
            f"split the tensor into tensors of at most {MOST_BYTES} bytes, or choose another format",
        )
    if len(shape) > MOST_DIMS:
        faults.error(
            "NNEF0721", f"rank {len(shape)} exceeds the limit of {MOST_DIMS}", 8, "merge some dims by a reshape"
        )
    if any(extent > MOST_BYTES for extent in shape):
        faults.error("NNEF0721", f"extent {max(shape)} exceeds the uint32 range", 12, "split the tensor")
    if faults.found:
        return b""
    code = _final_code(item, is_quantized=is_quantized or item.is_quantized)
    extents = [*shape, *[0] * (MOST_DIMS - len(shape))]
    return _FINAL.pack(MAGIC, *VERSION, length, len(shape), *extents, item.bits, code, 0).ljust(HEADER, b"\0")


def _final_code(item: ItemType, *, is_quantized: bool) -> int:
    match item.kind:
        case NumberEncoding.FLOAT:
            return _FLOAT
        case NumberEncoding.UNSIGNED:
            return _QUANTIZED_UNSIGNED if is_quantized else _UNSIGNED
        case NumberEncoding.SIGNED:
            return _QUANTIZED_SIGNED if is_quantized else _SIGNED
        case NumberEncoding.LOGICAL:
            return _LOGICAL


def _provisional_header(storage: Storage, item: ItemType, faults: _Faults) -> bytes:
    shape = storage.shape
    if len(shape) > _PROVISIONAL_DIMS:
        message = f"rank {len(shape)} exceeds the limit of {_PROVISIONAL_DIMS}"
        faults.error("NNEF0721", message, 8, "merge some dims by a reshape")
    if any(extent > MOST_BYTES for extent in shape):
        faults.error("NNEF0721", f"extent {max(shape)} exceeds the uint32 range", 12, "split the tensor")
    if faults.found:
        return b""
    code = 0 if item.kind is NumberEncoding.FLOAT else 2 if item.kind is NumberEncoding.SIGNED else 3
    offset = _PROVISIONAL_HEAD + 4 * len(shape)
    extents = struct.pack(f"<{len(shape)}I", *shape)
    return MAGIC + bytes(VERSION) + struct.pack("<II", offset, len(shape)) + extents + bytes((code, item.bits, 0, 0))
