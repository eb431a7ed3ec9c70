"""Names of outputs, derived from the keys of returned dictionaries and named tuples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DEPTH = 32
MOST_TEXT = 1 << 20
_KEYED = ("dict", "OrderedDict", "defaultdict", "ImmutableDict", "immutable_dict", "Dict")


def output_paths(module_call_graph: Any, named_fields: Any) -> list[tuple[str, ...]]:
    """Return the path of keys and indices of each output; an empty list if the file has no supported tree."""
    try:
        signature = module_call_graph[0]["signature"]
        written = signature["out_spec"]
        if not isinstance(written, str) or len(written) > MOST_TEXT:
            return []
        spec = json.loads(written)
        return list(_paths(spec[1], (), cast("dict[str, Any]", named_fields) if isinstance(named_fields, dict) else {}))
    except (LookupError, TypeError, ValueError, RecursionError):
        return []


def _paths(spec: Any, path: tuple[str, ...], named: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    if len(path) > MOST_DEPTH:
        message = "nested deeper than {MOST_DEPTH} levels"
        raise ValueError(message)
    kind = spec["type"]
    if kind is None:
        yield path
        return
    children = spec["children_spec"]
    keys = _keys(str(kind), spec.get("context"), len(children), named)
    for key, child in zip(keys, children, strict=True):
        yield from _paths(child, (*path, key), named)


def _keys(kind: str, context: Any, count: int, named: dict[str, Any]) -> list[str]:
    names = [str(index) for index in range(count)]
    found: Any = json.loads(context) if isinstance(context, str) else context
    # Keys: field names of a named tuple, the context of a dict, or an item of the context of a defaultdict.
    for candidate in (named.get(kind), found, *(cast("list[Any]", found) if isinstance(found, list) else ())):
        keys = cast("list[Any]", candidate) if isinstance(candidate, list) else []
        if len(keys) == count and all(isinstance(key, str) for key in keys):
            return [str(key) for key in keys]
    return names


def name_of(path: tuple[str, ...]) -> str | None:
    """Return the output name for a path; `None` if the path has no string key."""
    if all(part.isdecimal() for part in path):
        return None
    return ".".join(path)
