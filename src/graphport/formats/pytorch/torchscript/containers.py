"""Operations on lists, tuples and dictionaries of the code; mutations are recorded for branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from graphport.formats.pytorch.torchscript.mutations import Growing
from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.scalar_functions import check_length, equal
from graphport.formats.pytorch.torchscript.values import (
    Dict,
    List,
    NamedTuple,
    Object,
    RuntimeScalar,
    Tensor,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.formats.pytorch.torchscript.context import Context


def static_items(value: List) -> list[Any]:
    """Return the items of a list of static length.

    Raises:
        RefusedError: TS0009 the length depends on run-time values.
    """
    if value.stacked is not None:
        refuse("TS0009", "single items of a list whose length depends on run-time values")
    return value.items


def unpacked(evaluator: Context, value: Any, count: int) -> Sequence[Any]:
    """Unpack a value for an assignment to `count` variables."""
    match value:
        case tuple():
            return cast("tuple[Any, ...]", value)
        case NamedTuple():
            return value.items
        case List():
            return static_items(value)
        case Tensor():
            return evaluator.operators.torch("unbind", [value], {}).items
        case _:
            refuse("TS0011", f"{type_name(value)} cannot be unpacked to {count} variables")
    return None


def _index(evaluator: Context, key: Any, length: int) -> int:
    if isinstance(key, RuntimeScalar | Tensor):
        key = evaluator.operators.to_scalar(key, "int")
    if isinstance(key, RuntimeScalar):
        refuse("TS0009", "a list index that depends on run-time values")
    if not isinstance(key, int) or not -length <= key < length:
        refuse("TS0011", f"index {key} is out of range for a list of {length} items")
    return key


def get_item(evaluator: Context, owner: Any, key: Any) -> Any:
    """Evaluate `owner[key]`."""
    match owner:
        case List() if owner.stacked is not None:
            return evaluator.operators.torch("select", [owner.stacked, 0, key], {})
        case List():
            if isinstance(owner.items, Growing):
                return owner.items[0]
            return owner.items[_index(evaluator, key, len(owner.items))]
        case tuple() | NamedTuple():
            items = owner.items if isinstance(owner, NamedTuple) else cast("tuple[Any, ...]", owner)
            return items[_index(evaluator, key, len(items))]
        case Dict():
            if key not in owner.items:
                refuse("TS0011", f"missing dictionary key {key!r}")
            return owner.items[key]
        case str():
            return owner[_index(evaluator, key, len(owner))]
        case Tensor():
            return evaluator.operators.torch("select", [owner, 0, key], {})
        case Object() if "__getitem__" in owner.type.methods:
            return evaluator.call_method(owner, "__getitem__", [key], {})
        case _:
            refuse("TS0011", f"{type_name(owner)} does not support indexing")
    return None


def set_item(evaluator: Context, owner: Any, key: Any, value: Any) -> None:
    """Execute `owner[key] = value`."""
    if isinstance(owner, List):
        evaluator.mutations.touch(owner)
        known = static_items(owner)
        known[_index(evaluator, key, len(known))] = value
    elif isinstance(owner, Dict):
        if isinstance(key, RuntimeScalar | Tensor):
            refuse("TS0009", "a dictionary key that depends on run-time values")
        evaluator.mutations.touch(owner)
        owner.items[key] = value
        check_length(list(owner.items))
    else:
        refuse("TS0011", f"{type_name(owner)} does not support item assignment")


def delete(evaluator: Context, owner: Any, key: Any) -> None:
    """Execute `del owner[key]`."""
    if isinstance(owner, Dict) and key in owner.items:
        evaluator.mutations.touch(owner)
        del owner.items[key]
    elif isinstance(owner, List):
        evaluator.mutations.touch(owner)
        del static_items(owner)[_index(evaluator, key, len(owner.items))]
    else:
        refuse("TS0011", f"{type_name(owner)} has no item {key!r} to delete")


def as_list(evaluator: Context, value: Any) -> List:
    """Create a list with the items of another container."""
    match value:
        case List():
            return List(list(value.items), value.element, value.stacked)
        case str():
            return List(list(value), "str")
        case Dict():
            return List(list(value.items))
        case _:
            return List(list(unpacked(evaluator, value, 0)))


# ── methods: what the code calls as functions of torch ────────────────────────────────────────────────────────────────


def _append(evaluator: Context, owner: List, value: Any) -> List:
    evaluator.mutations.touch(owner)
    if owner.stacked is not None:
        static_items(owner)
    owner.items.append(value)
    check_length(owner.items)
    return owner


def _extend(evaluator: Context, owner: List, other: Any) -> List:
    evaluator.mutations.touch(owner)
    static_items(owner).extend(unpacked(evaluator, other, 0))
    check_length(owner.items)
    return owner


def _pop(evaluator: Context, owner: Any, *arguments: Any) -> Any:
    given = list(arguments)
    evaluator.mutations.touch(owner)
    if isinstance(owner, Dict):
        if given[0] not in owner.items and len(given) < 2:
            refuse("TS0011", f"missing dictionary key {given[0]!r}")
        return owner.items.pop(*given)
    items = static_items(owner)
    return items.pop(_index(evaluator, given[0] if given else -1, len(items)))


def _insert(evaluator: Context, owner: List, place: int, value: Any) -> None:
    evaluator.mutations.touch(owner)
    static_items(owner).insert(place, value)
    check_length(owner.items)


def _remove(evaluator: Context, owner: List, value: Any) -> None:
    evaluator.mutations.touch(owner)
    static_items(owner).pop(_find_index(owner, value))


def _find_index(owner: List, value: Any) -> int:
    for index, each in enumerate(static_items(owner)):
        same = equal(each, value)
        if same is None:
            refuse("TS0009", "a list search for a value that depends on run-time values")
        if same:
            return index
    refuse("TS0011", f"a list does not have the item {value!r}")
    return None


def _contains(evaluator: Context, owner: Any, value: Any) -> Any:
    if isinstance(owner, Dict):
        return value in owner.items
    if isinstance(owner, str):
        return value in owner
    if isinstance(owner, List) and isinstance(owner.items, Growing):
        return owner.items[0]
    found: list[Any] = []
    for each in unpacked(evaluator, owner, 0):
        same = evaluator.operators.torch("eq", [each, value], {})
        if same is True:
            return True
        found.append(same)
    unknown = [x for x in found if x is not False]
    result: Any = False
    for x in unknown:
        result = x if result is False else evaluator.operators.torch("__or__", [result, x], {})
    return result


def _sort_list(evaluator: Context, owner: List, *given: Any) -> None:
    evaluator.mutations.touch(owner)
    owner.items = _sorted(owner.items, reverse=bool(given and given[0]))


def _sorted(items: Sequence[Any], *, reverse: bool = False) -> list[Any]:
    if not all(isinstance(x, int | float | str) for x in items):
        refuse("TS0009", "sorting of a list by run-time values")
    return sorted(items, reverse=reverse)


def _slice(evaluator: Context, owner: Any, start: Any = None, stop: Any = None, step: Any = 1) -> Any:
    if any(isinstance(x, RuntimeScalar) for x in (start, stop, step)):
        refuse("TS0009", "a list slice with bounds that depend on run-time values")
    if isinstance(owner, str):
        return owner[start:stop:step]
    if isinstance(owner, tuple):
        return cast("tuple[Any, ...]", owner)[start:stop:step]
    return List(list(unpacked(evaluator, owner, 0))[start:stop:step], owner.element)


def _clear(evaluator: Context, owner: Any) -> None:
    evaluator.mutations.touch(owner)
    owner.items = type(owner.items)()


def _reverse(evaluator: Context, owner: List) -> None:
    evaluator.mutations.touch(owner)
    static_items(owner).reverse()


def _update(evaluator: Context, owner: Dict, other: Dict) -> None:
    evaluator.mutations.touch(owner)
    owner.items.update(other.items)


def _set_default(evaluator: Context, owner: Dict, key: Any, value: Any) -> Any:
    evaluator.mutations.touch(owner)
    return owner.items.setdefault(key, value)


def _pop_item(evaluator: Context, owner: Dict) -> Any:
    evaluator.mutations.touch(owner)
    return owner.items.popitem()


def _length(evaluator: Context, owner: Any) -> Any:
    if isinstance(owner, List) and owner.stacked is not None:
        return evaluator.operators.torch("size", [owner.stacked, 0], {})
    if isinstance(owner, List) and isinstance(owner.items, Growing):
        return owner.items[0]
    if isinstance(owner, Tensor):
        return evaluator.operators.torch("size", [owner, 0], {})
    if isinstance(owner, Object):
        return evaluator.call_method(owner, "__len__", [], {})
    return len(cast("Any", owner) if isinstance(owner, str | tuple) else owner.items)


def _index_(_: Context, owner: Any, value: Any) -> Any:
    return _find_index(owner, value)


def _count(_: Context, owner: Any, value: Any) -> Any:
    return sum(equal(x, value) is True for x in static_items(owner))


def _sorted_(_: Context, owner: Any, *given: Any) -> Any:
    return List(_sorted(owner.items, reverse=bool(given and given[0])), owner.element)


def _copy(_: Context, owner: Any) -> Any:
    return Dict(dict(owner.items)) if isinstance(owner, Dict) else as_list(_, owner)


def _keys(_: Context, owner: Any) -> Any:
    return List(list(owner.items))


def _values(_: Context, owner: Any) -> Any:
    return List(list(owner.items.values()))


def _dict_items(_: Context, owner: Any) -> Any:
    return List(list(owner.items.items()))


def _get(_: Context, owner: Any, key: Any, default: Any = None) -> Any:
    return owner.items.get(key, default)


def _dict(_: Context, owner: Any) -> Any:
    return Dict(dict(owner.items))


METHODS: Mapping[str, Callable[..., Any]] = {
    "append": _append,
    "extend": _extend,
    "add_": _extend,
    "pop": _pop,
    "insert": _insert,
    "remove": _remove,
    "index": _index_,
    "count": _count,
    "reverse": _reverse,
    "sort": _sort_list,
    "sorted": _sorted_,
    "clear": _clear,
    "copy": _copy,
    "list": as_list,
    "slice": _slice,
    "len": _length,
    "keys": _keys,
    "values": _values,
    "items": _dict_items,
    "get": _get,
    "setdefault": _set_default,
    "update": _update,
    "popitem": _pop_item,
    "Delete": delete,
    "dict": _dict,
    "_set_item": set_item,
    "__getitem__": get_item,
    "__contains__": _contains,
    "__contains": _contains,
}
"""Functions of `torch` whose first argument is a container."""
