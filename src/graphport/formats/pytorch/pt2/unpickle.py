"""Tensors of `torch.save`, from the dozen opcodes that they take; nothing is called that is not in the table here.

A pickle is a program for a stack machine. This one has no way to import or to call: of the names that a pickle may ask
for, those that tensors need stand for what the reader makes of them, and every other name is refused.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphport.core.dtypes import DType
from graphport.formats.pytorch.pt2.schema import fail

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_STEPS = 4_000_000
MOST_RANK = 64
_STORAGES = {
    "FloatStorage": DType.FLOAT32,
    "DoubleStorage": DType.FLOAT64,
    "HalfStorage": DType.FLOAT16,
    "BFloat16Storage": DType.BFLOAT16,
    "LongStorage": DType.INT64,
    "IntStorage": DType.INT32,
    "ShortStorage": DType.INT16,
    "CharStorage": DType.INT8,
    "ByteStorage": DType.UINT8,
    "BoolStorage": DType.BOOL,
    "ComplexFloatStorage": DType.COMPLEX64,
    "ComplexDoubleStorage": DType.COMPLEX128,
}
_UNTYPED = "torch.storage.UntypedStorage"
"""The storage of element types that have no class of storages: `_rebuild_tensor_v3` is told which."""
_ELEMENTS = {
    "torch.uint16": DType.UINT16,
    "torch.uint32": DType.UINT32,
    "torch.uint64": DType.UINT64,
    "torch.float8_e4m3fn": DType.FLOAT8E4M3FN,
    "torch.float8_e5m2": DType.FLOAT8E5M2,
    "torch.float8_e4m3fnuz": DType.FLOAT8E4M3FNUZ,
    "torch.float8_e5m2fnuz": DType.FLOAT8E5M2FNUZ,
    "torch.float8_e8m0fnu": DType.FLOAT8E8M0,
}
_NAMES = frozenset(
    {
        "collections.OrderedDict",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor_v3",
        "torch._utils._rebuild_parameter",
        _UNTYPED,
        *_ELEMENTS,
        *(f"torch.{name}" for name in _STORAGES),
    }
)


class StorageOf(NamedTuple):
    """A storage that a pickle names: the member that has its bytes."""

    key: str
    dtype: DType
    length: int


class Tensor(NamedTuple):
    """A tensor of a pickle."""

    storage: StorageOf
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Name(NamedTuple):
    """A name that a pickle may use, as it stands there."""

    text: str


class _Mark:
    pass


_MARK = _Mark()


def tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of a pickled dictionary by their names.

    Raises:
        SchemaError: it is something else, or asks for a name that no tensor needs.
    """
    try:
        found = Machine(data).run()
    except (struct.error, IndexError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        fail(f"the pickle of weights is damaged, or no dictionary of tensors: {error}")
    if not isinstance(found, dict):
        fail("the pickle of weights is no dictionary of tensors")
    for name, value in cast("dict[Any, Any]", found).items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            fail(f"the pickle has {str(name)[:80]!r}, which is no tensor")
    return cast("dict[str, Tensor]", found)


class Machine:
    """A stack machine for pickles that can neither import nor call."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def steps(self) -> dict[bytes, Callable[[Any], None]]:
        """What each opcode does."""
        return _STEPS

    def resolve(self, text: str) -> Any:
        """What a name stands for.

        Raises:
            SchemaError: it is not in the table.
        """
        if text not in _NAMES:
            fail(f"the pickle needs the name {text[:120]!r}, which no tensor has: it may be code")
        return Name(text)

    def storage_type(self, name: str) -> DType | None:
        """The element type of a class of storages."""
        return _STORAGES.get(name)

    def run(self) -> Any:
        """The value that the pickle makes.

        Raises:
            SchemaError: it has another operation, or is cut off.
        """
        steps = self.steps()
        for _ in range(MOST_STEPS):
            code = self.take(1)
            if code == b".":
                return self._stack.pop()
            step = steps.get(code)
            if step is None:
                fail(f"the pickle has the operation {code!r}, which no tensor needs")
            step(self)
        return fail("the pickle is longer than any of weights")

    def take(self, count: int) -> bytes:
        """The next bytes of the pickle."""
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            fail("the pickle ends too early")
        self._at += count
        return found

    def unpack(self, form: str) -> int:
        """Read the argument of an opcode."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        """A text up to the end of its line."""
        end = self._data.index(b"\n", self._at)
        found = self._data[self._at : end].decode("ascii")
        self._at = end + 1
        return found

    def text(self, length: int) -> str:
        """A text of so many bytes."""
        return self.take(length).decode("utf-8", "surrogatepass")

    def push(self, value: Any) -> None:
        """Lay a value on the stack."""
        self._stack.append(value)

    def pop(self) -> Any:
        """Take the last value from the stack."""
        return self._stack.pop()

    def top(self) -> Any:
        """The last value on the stack, which stays there."""
        return self._stack[-1]

    def since_mark(self) -> list[Any]:
        """Take everything from the last mark on."""
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                fail("the pickle has no mark")
        found = self._stack[at + 1 :]
        del self._stack[at:]
        return found

    def remember(self, key: int) -> None:
        """Keep the last value under a number."""
        self._memo[key] = self._stack[-1]

    def count_memo(self) -> int:
        """How many values are kept: MEMOIZE keeps the next under this number."""
        return len(self._memo)

    def recall(self, key: int) -> None:
        """Lay on the stack what is kept under a number."""
        self._stack.append(self._memo[key])

    def name(self) -> None:
        """A name that the pickle wants imported: one of the table, or nothing."""
        self.push(self.resolve(f"{self.line()}.{self.line()}"))

    def stored(self) -> None:
        """A storage, named as `("storage", class, key, device, count)`."""
        kind, name, key, _, count = self.pop()
        if kind != "storage" or not isinstance(name, Name) or not isinstance(key, str) or not isinstance(count, int):
            fail("the pickle names something that is no storage")
        dtype = DType.UINT8 if name.text == _UNTYPED else self.storage_type(name.text.removeprefix("torch."))
        self.push(StorageOf(key, dtype, count) if dtype is not None else fail(f"{name.text} is no storage"))

    def called(self) -> None:
        """A call of one of the names: made here, by hand."""
        given = self.pop()
        name = self.pop()
        if not isinstance(name, Name):
            fail("the pickle calls something that is no name")
        self.push(self.reduce_call(name.text, given))

    def reduce_call(self, name: str, given: Any) -> Any:
        """The result of a call with the value in place of the arguments."""
        if not isinstance(given, tuple):
            fail(f"the pickle calls {name} without a tuple of arguments")
        return self.call(name, cast("tuple[Any, ...]", given))

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """The result of a function of the table, made here."""
        match name.rpartition(".")[2]:
            case "OrderedDict" if not arguments:
                return {}
            case "_rebuild_tensor_v2":
                return rebuilt(*arguments[:4])
            case "_rebuild_tensor_v3" if len(arguments) > 6:
                return _typed(rebuilt(*arguments[:4]), arguments[6])
            case "_rebuild_parameter" if arguments and isinstance(arguments[0], Tensor):
                return arguments[0]
            case _:
                return fail(f"the pickle calls {name}, which is no tensor")

    def items(self, pairs: list[Any]) -> None:
        """Pairs of a dictionary that is on the stack."""
        target = self._stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            fail("the pickle has items of something that is no dictionary")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str | int):
                fail("the pickle has a key that is no text")
            target[key] = value

    def built(self) -> None:
        """A state of an object: that of a dictionary (`_metadata`) says nothing of tensors."""
        self.pop()
        if not isinstance(self._stack[-1], dict):
            fail("the pickle sets the state of something that is no dictionary")


def rebuilt(storage: Any, offset: Any, sizes: Any, strides: Any) -> Tensor:
    """A tensor of a storage.

    Raises:
        SchemaError: its sizes, strides or offset are no integers.
    """
    if not isinstance(sizes, tuple) or not isinstance(strides, tuple):
        fail("the pickle has a tensor without sizes or strides")
    known = cast("tuple[Any, ...]", sizes), cast("tuple[Any, ...]", strides)
    if max(map(len, known)) > MOST_RANK:
        fail(f"the pickle has a tensor of more than {MOST_RANK} axes")
    numbers: list[Any] = [offset, *known[0], *known[1]]
    if not isinstance(storage, StorageOf) or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
        fail("the pickle has a tensor without storage, sizes or strides")
    return Tensor(storage, offset, *known)


def _typed(tensor: Tensor, name: Any) -> Tensor:
    """A tensor whose storage has bytes alone, of the element type that is called `name`."""
    dtype = _ELEMENTS.get(name.text) if isinstance(name, Name) else None
    if dtype is None:
        fail("the pickle has a tensor whose element type is none")
    storage = tensor.storage
    return tensor._replace(storage=storage._replace(dtype=dtype, length=storage.length * 8 // dtype.bits))


def _long(machine: Machine) -> int:
    return int.from_bytes(machine.take(machine.unpack("<B")), "little", signed=True)


_STEPS: dict[bytes, Callable[[Machine], None]] = {
    b"\x80": lambda m: None if m.unpack("<B") <= 4 else fail("the pickle has a protocol that torch does not write"),
    b"}": lambda m: m.push({}),
    b"]": lambda m: m.push([]),
    b")": lambda m: m.push(()),
    b"(": lambda m: m.push(_MARK),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),  # noqa: FBT003
    b"\x89": lambda m: m.push(False),  # noqa: FBT003
    b"K": lambda m: m.push(m.unpack("<B")),
    b"M": lambda m: m.push(m.unpack("<H")),
    b"J": lambda m: m.push(m.unpack("<i")),
    b"\x8a": lambda m: m.push(_long(m)),
    b"G": lambda m: m.push(m.unpack(">d")),
    b"X": lambda m: m.push(m.text(m.unpack("<I"))),
    b"\x8c": lambda m: m.push(m.text(m.unpack("<B"))),
    b"q": lambda m: m.remember(m.unpack("<B")),
    b"r": lambda m: m.remember(m.unpack("<I")),
    b"h": lambda m: m.recall(m.unpack("<B")),
    b"j": lambda m: m.recall(m.unpack("<I")),
    b"c": lambda m: m.name(),
    b"Q": lambda m: m.stored(),
    b"R": lambda m: m.called(),
    b"b": lambda m: m.built(),
    b"t": lambda m: m.push(tuple(m.since_mark())),
    b"\x85": lambda m: m.push((m.pop(),)),
    b"\x86": lambda m: m.push((m.pop(), m.pop())[::-1]),
    b"\x87": lambda m: m.push((m.pop(), m.pop(), m.pop())[::-1]),
    b"s": lambda m: m.items([m.pop(), m.pop()][::-1]),
    b"u": lambda m: m.items(m.since_mark()),
}
