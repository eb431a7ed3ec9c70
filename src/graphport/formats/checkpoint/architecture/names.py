"""Map tensor names of files, with or without prefixes, to the names of a family."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from graphport.formats.checkpoint.architecture.declaration import Decoder, Family

_OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def canonical_names(names: Container[str], decoder: Decoder, family: Family) -> Callable[[str], str]:
    """Return the function that maps tensor names of a file to names of the family."""
    embed = f"{decoder.names['embed']}.weight"
    prefix = family.prefix
    heads = tuple(decoder.names["heads"].split()) if "heads" in decoder.names else (f"{decoder.names['head']}.",)
    bare = embed.removeprefix(prefix)
    for extra in ("", "language_model.", "model.language_model.", "model."):
        if extra + embed in names:
            return lambda name: _current(name.removeprefix(extra))
    for extra in ("model.language_model.", "language_model.", ""):
        if extra + bare in names:
            return lambda name: _with_prefix(_current(name.removeprefix(extra)), prefix, heads)
    return _current


def _with_prefix(name: str, prefix: str, heads: tuple[str, ...]) -> str:
    return name if name.startswith(heads) else prefix + name


def _current(name: str) -> str:
    for old, new in _OLD.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
