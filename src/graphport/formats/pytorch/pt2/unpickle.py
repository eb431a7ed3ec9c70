"""Read tensors pickled by `torch.save` with a restricted pickle machine.

The machine supports the opcodes that tensors need. It cannot import or call: the few global names that tensors need are
interpreted by the functions of this module, and every other name is refused.
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
"""Storage class without an element type, which `_rebuild_tensor_v3` receives as an argument."""
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
    """A storage: element type, and the archive member with its bytes."""

    key: str
    dtype: DType
    length: int


class Tensor(NamedTuple):
    """A tensor of a pickle: its storage, offset, sizes and strides."""

    storage: StorageOf
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Name(NamedTuple):
    """An accepted global name of a pickle."""

    text: str


class _Mark:
    pass


_MARK = _Mark()


def tensors(data: bytes) -> dict[str, Tensor]:
    """Return the tensors of a pickled dictionary by key.

    Raises:
        SchemaError: the pickle is not a dictionary of tensors, or contains another global name.
    """
    try:
        found = Machine(data).run()
    except (struct.error, IndexError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        fail(f"the pickle of weights is corrupt or not a dictionary of tensors: {error}")
    if not isinstance(found, dict):
        fail("the pickle of weights is not a dictionary of tensors")
    for name, value in cast("dict[Any, Any]", found).items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            fail(f"{str(name)[:80]!r} in the pickle is not a tensor")
    return cast("dict[str, Tensor]", found)


class Machine:
    """Pickle machine that cannot import or call."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def steps(self) -> dict[bytes, Callable[[Any], None]]:
        """Return the opcode handlers by opcode."""
        return _STEPS

    def resolve(self, text: str) -> Any:
        """Resolve a global name.

        Raises:
            SchemaError: the name is not accepted.
        """
        if text not in _NAMES:
            fail(f"the pickle refers to {text[:120]!r}, which is not part of a tensor and may execute code")
        return Name(text)

    def storage_type(self, name: str) -> DType | None:
        """Return the element type of a storage class."""
        return _STORAGES.get(name)

    def run(self) -> Any:
        """Execute the pickle and return its value.

        Raises:
            SchemaError: an opcode is not supported, or the pickle is truncated.
        """
        steps = self.steps()
        for _ in range(MOST_STEPS):
            code = self.read_bytes(1)
            if code == b".":
                return self._stack.pop()
            step = steps.get(code)
            if step is None:
                fail(f"unsupported pickle operation {code!r}")
            step(self)
        return fail("the pickle exceeds the size limit")

    def read_bytes(self, count: int) -> bytes:
        """Return the next `count` bytes of the pickle."""
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            fail("truncated pickle")
        self._at += count
        return found

    def unpack(self, form: str) -> int:
        """Read the argument of an opcode."""
        return struct.unpack(form, self.read_bytes(struct.calcsize(form)))[0]

    def line(self) -> str:
        """Read a string up to the end of the line."""
        end = self._data.index(b"\n", self._at)
        found = self._data[self._at : end].decode("ascii")
        self._at = end + 1
        return found

    def text(self, length: int) -> str:
        """Read a string of `length` bytes."""
        return self.read_bytes(length).decode("utf-8", "surrogatepass")

    def push(self, value: Any) -> None:
        """Push a value."""
        self._stack.append(value)

    def pop(self) -> Any:
        """Pop the top of the stack."""
        return self._stack.pop()

    def top(self) -> Any:
        """Return the top of the stack."""
        return self._stack[-1]

    def since_mark(self) -> list[Any]:
        """Pop all values above the last mark."""
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                fail("malformed pickle: missing mark")
        found = self._stack[at + 1 :]
        del self._stack[at:]
        return found

    def remember(self, key: int) -> None:
        """Store the top of the stack in the memo."""
        self._memo[key] = self._stack[-1]

    def count_memo(self) -> int:
        """Return the size of the memo, the key of the next MEMOIZE."""
        return len(self._memo)

    def recall(self, key: int) -> None:
        """Push a value of the memo."""
        self._stack.append(self._memo[key])

    def name(self) -> None:
        """GLOBAL, STACK_GLOBAL: resolve an accepted name; refuse others."""
        self.push(self.resolve(f"{self.line()}.{self.line()}"))

    def stored(self) -> None:
        """BINPERSID: a storage `("storage", class, key, device, count)`."""
        kind, name, key, _, count = self.pop()
        if kind != "storage" or not isinstance(name, Name) or not isinstance(key, str) or not isinstance(count, int):
            fail("malformed pickle: expected a storage")
        dtype = DType.UINT8 if name.text == _UNTYPED else self.storage_type(name.text.removeprefix("torch."))
        self.push(StorageOf(key, dtype, count) if dtype is not None else fail(f"{name.text} is not a storage"))

    def called(self) -> None:
        """REDUCE: interpret a call of an accepted name."""
        given = self.pop()
        name = self.pop()
        if not isinstance(name, Name):
            fail("malformed pickle: call of an object")
        self.push(self.reduce_call(name.text, given))

    def reduce_call(self, name: str, given: Any) -> Any:
        """Return the result of REDUCE on `name` and the popped argument value."""
        if not isinstance(given, tuple):
            fail(f"malformed pickle: call of {name} without a tuple of arguments")
        return self.call(name, cast("tuple[Any, ...]", given))

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Return the result of an accepted function without calling it."""
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
                return fail(f"the pickle calls {name}, which is not allowed: only tensors are loaded")

    def set_items(self, pairs: list[Any]) -> None:
        """SETITEM, SETITEMS: add key-value pairs to the dictionary on top of the stack."""
        target = self._stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            fail("malformed pickle: items outside of a dictionary")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str | int):
                fail("malformed pickle: a key is not a string")
            target[key] = value

    def built(self) -> None:
        """BUILD: drop the state of an object, for example `_metadata` of a state dict."""
        self.pop()
        if not isinstance(self._stack[-1], dict):
            fail("malformed pickle: state of an object that is not a dictionary")


def rebuilt(storage: Any, offset: Any, sizes: Any, strides: Any) -> Tensor:
    """Return a strided view of a storage.

    Raises:
        SchemaError: the sizes, strides or offset are not integers.
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
    """Return `tensor` with the element type `name` for its untyped storage."""
    dtype = _ELEMENTS.get(name.text) if isinstance(name, Name) else None
    if dtype is None:
        fail("the pickle has a tensor without an element type")
    storage = tensor.storage
    return tensor._replace(storage=storage._replace(dtype=dtype, length=storage.length * 8 // dtype.bits))


def _long(machine: Machine) -> int:
    return int.from_bytes(machine.read_bytes(machine.unpack("<B")), "little", signed=True)


_STEPS: dict[bytes, Callable[[Machine], None]] = {
    b"\x80": lambda m: None if m.unpack("<B") <= 4 else fail("unsupported pickle protocol"),
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
    b"s": lambda m: m.set_items([m.pop(), m.pop()][::-1]),
    b"u": lambda m: m.set_items(m.since_mark()),
}
