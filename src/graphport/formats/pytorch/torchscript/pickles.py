"""Read the pickles of a TorchScript archive: objects of its classes, tensors and containers. No code is executed."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphport.core.dtypes import DType
from graphport.formats.pytorch.pt2.schema import SchemaError, fail
from graphport.formats.pytorch.pt2.unpickle import Machine, Name, Tensor, rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES = "__torch__."
CPP_CLASSES = "__torch__.torch.classes."
_QUANTIZED = {
    "QInt8Storage": DType.INT8,
    "QUInt8Storage": DType.UINT8,
    "QInt32Storage": DType.INT32,
    "QUInt4x2Storage": DType.UINT4,
}
_BUILT = "torch.jit._pickle."
_NAMES = frozenset(
    {
        *(f"{_BUILT}build_{kind}list" for kind in ("int", "double", "bool", "tensor")),
        f"{_BUILT}restore_type_tag",
        "torch._utils._rebuild_qtensor",
        "torch.per_tensor_affine",
        "torch.per_channel_affine",
        "torch.per_channel_affine_float_qparams",
        "torch.device",
        *(f"torch.{name}" for name in _QUANTIZED),
    }
)
_FAULTS = (struct.error, IndexError, TypeError, ValueError, KeyError, AttributeError, RecursionError, UnicodeError)


@dataclass(eq=False, slots=True)
class Instance:
    """An object of a class of the archive; `state` is its attributes or the result of `__getstate__`."""

    type: str
    state: Any = None
    has_state: bool = False

    @property
    def attributes(self) -> dict[str, Any] | None:
        """The attributes; `None` if the state is not a dictionary."""
        state = self.state
        return cast("dict[str, Any]", state) if isinstance(state, dict) else None


class QuantizedTensor(NamedTuple):
    """A quantized tensor with `("per_tensor", scale, zero_point)` or `("per_channel", scales, zero_points, axis)`."""

    tensor: Tensor
    parameters: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Member:
    """An enum member, identified by its value."""

    type: str
    value: Any


@dataclass(eq=False, slots=True)
class Tagged:
    """A list or dictionary with a declared type, for example `List[Any]`."""

    value: Any
    type: str = field(default="")


def unpickled(data: bytes) -> Any:
    """Return the value of a pickle.

    Raises:
        SchemaError: the pickle is corrupt, or contains a global name that TorchScript does not use.
    """
    try:
        return _Machine(data).run()
    except SchemaError:
        raise
    except _FAULTS as error:
        fail(f"corrupt pickle: {error}")


class _Machine(Machine):
    """Pickle machine for tensors, objects and containers."""

    def resolve(self, text: str) -> Any:
        if text in _NAMES or text.startswith(CLASSES):
            return Name(text)
        return super().resolve(text)

    def storage_type(self, name: str) -> DType | None:
        return _QUANTIZED.get(name) or super().storage_type(name)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        match name.removeprefix(_BUILT):
            case "build_intlist" | "build_doublelist" | "build_boollist" | "build_tensorlist" if len(arguments) == 1:
                return arguments[0]
            case "restore_type_tag" if len(arguments) == 2 and isinstance(arguments[1], str):
                return Tagged(arguments[0], arguments[1][:200])
            case "torch._utils._rebuild_qtensor" if len(arguments) >= 5:
                return QuantizedTensor(rebuilt(*arguments[:4]), _quantizer(arguments[4]))
            case "torch.device":
                return str(arguments[0]) if arguments else "cpu"
            case _:
                return super().call(name, arguments)

    def reduce_call(self, name: str, given: Any) -> Any:
        """Return an enum member for a class with one argument, else the result of an accepted call."""
        if not name.startswith(CLASSES):
            return super().reduce_call(name, given)
        if not isinstance(given, bool | int | float | str):
            fail(f"malformed pickle: a member of {name} has an invalid value")
        return Member(name, given)

    def new_object(self) -> None:
        """NEWOBJ: create an object without a state."""
        arguments, name = self.pop(), self.pop()
        if arguments != () or not isinstance(name, Name) or not name.text.startswith(CLASSES):
            fail("malformed pickle: an object of an undefined class")
        self.push(Instance(name.text))

    def built(self) -> None:
        state = self.pop()
        target = self.top()
        if isinstance(target, Instance):
            if target.has_state:
                fail("malformed pickle: duplicate state of an object")
            target.state, target.has_state = state, True
        elif not isinstance(target, dict):
            fail("malformed pickle: state without an object")

    def extend(self, items: list[Any]) -> None:
        """APPEND, APPENDS: append items to the list on top of the stack."""
        target = self.top()
        if not isinstance(target, list):
            fail("malformed pickle: append to a value that is not a list")
        cast("list[Any]", target).extend(items)

    def steps(self) -> dict[bytes, Callable[[Any], None]]:
        return super().steps() | _MORE_STEPS


_MORE_STEPS: dict[bytes, Callable[[Any], None]] = {
    b"\x81": lambda m: m.new_object(),
    b"e": lambda m: m.extend(m.since_mark()),
    b"a": lambda m: m.extend([m.pop()]),
}


def _quantizer(parameters: Any) -> tuple[Any, ...]:
    if not isinstance(parameters, tuple) or not parameters or not isinstance(parameters[0], Name):
        fail("the pickle has a quantized tensor without scale and zero point")
    given = cast("tuple[Any, ...]", parameters)
    kind = given[0].text.rpartition(".")[2]
    if kind == "per_tensor_affine" and len(given) == 3:
        return "per_tensor", float(given[1]), int(given[2])
    if kind.startswith("per_channel_affine") and len(given) == 4 and all(isinstance(x, Tensor) for x in given[1:3]):
        return "per_channel", given[1], given[2], int(given[3])
    return fail(f"the pickle has a tensor quantized {kind}")


def is_tensor(value: Any) -> bool:
    """Whether a value of a pickle is a tensor."""
    return isinstance(value, Tensor | QuantizedTensor)
