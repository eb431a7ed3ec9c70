"""Arguments of a call in the configuration: references to tensors among Python values, in both dialects of Keras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

CONSTANT = "_CONSTANT_VALUE"
"""What Keras 2 writes in place of a layer's name in front of a constant argument."""
_TENSOR = "__keras_tensor__"


@dataclass(frozen=True, slots=True)
class Reference:
    """A tensor: result `index` of call `node` of a layer."""

    layer: str
    node: int
    index: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a layer: arguments with a `Reference` for each tensor."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def references(self) -> list[Reference]:
        """All tensors that the call reads."""
        return [each for each in flatten((self.args, self.kwargs)) if isinstance(each, Reference)]


def flatten(value: Any) -> Iterator[Any]:
    """The leaves of nested lists and dictionaries in order."""
    if is_sequence(value):
        for each in value:
            yield from flatten(each)
    elif isinstance(value, dict):
        for each in cast("dict[Any, Any]", value).values():
            yield from flatten(each)
    else:
        yield value


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """A nested structure with every leaf changed."""
    if is_sequence(value):
        return [map_leaves(each, change) for each in value]
    if isinstance(value, dict):
        return {key: map_leaves(each, change) for key, each in cast("dict[Any, Any]", value).items()}
    return change(value)


def read_calls(inbound: Any, names: Collection[str]) -> list[Call]:
    """The calls of a layer from its `inbound_nodes`."""
    if not is_sequence(inbound):
        return []
    return [_read_call(each, names) for each in inbound]


def _read_call(node: Any, names: Collection[str]) -> Call:
    given = _object(node)
    if "args" in given:
        args = _read_values(given["args"])
        kwargs: Any = _read_values(given.get("kwargs") or {})
        # A list of keyword arguments gets the empty name, which no layer accepts.
        named = cast("dict[str, Any]", kwargs) if isinstance(kwargs, dict) else {"": kwargs}
        return Call(tuple(args) if is_sequence(args) else (args,), named)
    options: dict[str, Any] = {}
    found = _read_legacy(node, names, options)
    if is_sequence(node) and not _is_leaf(node, names) and len(node) == 1:
        found = found[0]
    return Call((found,), options)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _read_values(value: Any) -> Any:
    """Arguments of Keras 3."""
    if is_sequence(value):
        return [_read_values(each) for each in value]
    if not isinstance(value, dict):
        return value
    value = cast("dict[str, Any]", value)
    config = value.get("config")
    if value.get("class_name") == _TENSOR and isinstance(config, dict):
        return read_reference(cast("dict[str, Any]", config).get("keras_history"))
    if value.get("class_name") == "__slice__" and isinstance(config, dict):
        return Slice(*(cast("dict[str, Any]", config).get(key) for key in ("start", "stop", "step")))
    if value.get("class_name") == "__ellipsis__":
        return ...
    if value.get("class_name") in ("__tuple__", "__tensor__", "__numpy__") and isinstance(config, dict):
        return _read_values(cast("dict[str, Any]", config).get("value"))
    return {key: _read_values(each) for key, each in value.items()}


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of one axis."""

    start: Any
    stop: Any
    step: Any


def read_reference(value: Any) -> Reference | None:
    """A reference from `[layer, node, tensor]`; `None` if it is none."""
    if is_sequence(value) and len(value) >= 3 and isinstance(value[0], str):
        node, index = value[1], value[2]
        if isinstance(node, int) and isinstance(index, int):
            return Reference(value[0], node, index)
    return None


def read_ports(value: Any) -> Any:
    """The structure of `input_layers` and `output_layers` with references."""
    found = read_reference(value)
    if found is not None:
        return found
    if is_sequence(value):
        return [read_ports(each) for each in value]
    if isinstance(value, dict):
        return {key: read_ports(each) for key, each in cast("dict[str, Any]", value).items()}
    return value


def _is_leaf(value: Any, names: Collection[str]) -> bool:
    return (
        is_sequence(value)
        and len(value) in (3, 4)
        and isinstance(value[0], str)
        and (value[0] in names or value[0] == CONSTANT)
        and isinstance(value[1], int)
    )


def _read_legacy(value: Any, names: Collection[str], kwargs: dict[str, Any]) -> Any:
    """Arguments of Keras 2: `[layer, node, tensor, kwargs]`, in lists or dictionaries."""
    if _is_leaf(value, names):
        if len(value) == 4 and isinstance(value[3], dict):
            given = cast("dict[str, Any]", value[3])
            kwargs.update({key: _read_legacy_value(each, names) for key, each in given.items()})
        return value[2] if value[0] == CONSTANT else read_reference(value)
    if is_sequence(value):
        return [_read_legacy(each, names, kwargs) for each in value]
    if isinstance(value, dict):
        return {key: _read_legacy(each, names, kwargs) for key, each in cast("dict[str, Any]", value).items()}
    return value


def _read_legacy_value(value: Any, names: Collection[str]) -> Any:
    """A keyword argument of Keras 2."""
    if _is_leaf(value, names):
        return value[2] if value[0] == CONSTANT else read_reference(value)
    if is_sequence(value):
        return [_read_legacy_value(each, names) for each in value]
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value)
        if set(value) == {"start", "stop", "step"}:
            return Slice(*(_read_legacy_value(value[key], names) for key in ("start", "stop", "step")))
        if value.get("class_name") in ("__ellipsis__", "Ellipsis"):
            return ...
        return {key: _read_legacy_value(each, names) for key, each in value.items()}
    return value
