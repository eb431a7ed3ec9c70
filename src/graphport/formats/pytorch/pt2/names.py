"""Names that torch accepts: identifiers for values of a program, dotted names for parameters and buffers."""

from __future__ import annotations

import builtins
import keyword
import re

from graphport.core.names import unique

_OTHER = re.compile(r"[^0-9A-Za-z_]+")
_SEPARATOR = re.compile(r"[./\\]|::")
_GENERATED_CODE = frozenset(
    (
        *(*keyword.kwlist, *keyword.softkwlist, *dir(builtins)),
        *("torch", "operator", "math", "device", "inf", "nan", "fx_pytree", "pytree", "self", "output", "root"),
    )
)
"""Names that generated code of a `GraphModule` uses."""
_MODULE = frozenset(
    (
        *("T_destination", "add_module", "add_submodule", "apply", "bfloat16", "buffers", "call_super_init"),
        *("children", "code", "compile", "cpu", "cuda", "delete_all_unused_submodules", "delete_submodule"),
        *("double", "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer", "get_extra_state"),
        *("get_parameter", "get_submodule", "graph", "half", "ipu", "load_state_dict", "meta", "modules"),
        *("mtia", "named_buffers", "named_children", "named_modules", "named_parameters", "parameters"),
        *("print_readable", "recompile", "register_backward_hook", "register_buffer", "register_forward_hook"),
        *("register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook"),
        *("register_load_state_dict_post_hook", "register_load_state_dict_pre_hook", "register_module"),
        *("register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook"),
        *("requires_grad_", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to"),
        *("to_empty", "to_folder", "train", "training", "type", "xpu", "zero_grad"),
    )
)
"""Attributes of modules; parameters and submodules must have other names."""


MAX_DEPTH = 24
"""Maximum nesting of modules; torch recurses into nested modules."""


class Identifiers:
    """Unique identifiers for values."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_GENERATED_CODE)
        self._counters: dict[str, int] = {}

    def make(self, wanted: str) -> str:
        """Return a unique identifier similar to `wanted`."""
        name = _OTHER.sub("_", wanted) or "value"
        if not name[0].isalpha():
            name = f"v{name}" if name[0] == "_" else f"v_{name}"
        found = unique(name, self._taken, self._counters)
        self._taken.add(found)
        return found


class QualifiedNames:
    """Unique dotted names; none is a prefix of another, because a tensor has no submodules."""

    def __init__(self) -> None:
        self._tensors: set[str] = set()
        self._modules: set[str] = set()
        self._counters: dict[str, int] = {}

    def reserve_module(self, name: str) -> None:
        """Reserve the name of a module, which no tensor may have."""
        self._modules.update((name, *_prefixes(name)))

    def make(self, wanted: str) -> str:
        """Return a unique dotted name similar to `wanted`."""
        name = module_name(wanted) or "tensor"
        if self._conflicts(name):
            name = unique(name.replace(".", "_"), self._tensors | self._modules, self._counters)
        self._tensors.add(name)
        self._modules.update(_prefixes(name))
        return name

    def _conflicts(self, name: str) -> bool:
        return name in self._tensors or name in self._modules or any(each in self._tensors for each in _prefixes(name))


def module_name(text: str) -> str:
    """Return `text` as a dotted name, empty if no part of it is a name."""
    parts = [_attribute_name(part) for part in _SEPARATOR.split(text) if part.strip("_ ")]
    return ".".join([*parts[:MAX_DEPTH], *(["_".join(parts[MAX_DEPTH:])] if len(parts) > MAX_DEPTH else [])])


def _attribute_name(text: str) -> str:
    name = _OTHER.sub("_", text)
    return f"{name}_" if name in _MODULE or keyword.iskeyword(name) or name.startswith("_") else name


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
