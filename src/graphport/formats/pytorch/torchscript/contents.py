"""List the contents of a TorchScript archive: modules, weights, methods, version record, extra files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.storage import MappedFile
from graphport.formats.contract import Contents, ModuleContents, TensorContents
from graphport.formats.pytorch.pt2.container import Container
from graphport.formats.pytorch.torchscript import other_files
from graphport.formats.pytorch.torchscript.pickles import CPP_CLASSES, Instance, QuantizedTensor, Tagged, is_tensor
from graphport.formats.pytorch.torchscript.refusal import RefusedError
from graphport.formats.pytorch.torchscript.state import State
from graphport.formats.pytorch.torchscript.syntax import ClassText, FunctionText, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTRA = "extra/"
MAX_MODULES = 100_000
"""Maximum number of listed modules; one object may have many names."""


def contents(path: str | Path) -> Contents:
    """Read the contents of a file; no code is evaluated, and inputs need no shapes.

    Raises:
        DiagnosticError: as the reader, for faults of the archive and its pickles.
    """
    source = Source(str(path))
    file = MappedFile(Path(path))
    other_files.refuse_other_kinds(file, source)
    container = Container(file, source)
    try:
        other_files.refuse_other_archives(container)
        texts = Texts(container)
        state = State(container, texts)
        root = texts.find(state.root.type)
        methods = root.methods.values() if isinstance(root, ClassText) else ()
        return Contents(
            versions={"version": str(state.version)},
            methods=tuple(_signature(method) for method in methods if not method.name.endswith("__setstate__")),
            modules=tuple(_modules(state.root)),
            extra_files={name.removeprefix(EXTRA): container.members[name].length for name in container.below(EXTRA)},
        )
    except RefusedError as refused:
        raise DiagnosticError(Diagnostic(refused.code, refused.message, Span(source), refused.help)) from refused


def _signature(method: FunctionText) -> str:
    """Format a method: `forward(x: Tensor, n: int = …) -> Tensor`."""
    parameters = (
        f"{each.name}: {each.type}" + ("" if each.default is None else " = …") for each in method.parameters[1:]
    )
    return f"{method.name.rpartition('.')[2]}({', '.join(parameters)}) -> {method.returns or 'None'}"


def _modules(root: Instance) -> Iterator[ModuleContents]:
    """Yield each module once, ordered by path, with its tensor attributes."""
    pending: list[tuple[str, Instance]] = [("", root)]
    known: set[int] = set()
    while pending and len(known) < MAX_MODULES:
        path, module = pending.pop()
        if id(module) in known:
            continue
        known.add(id(module))
        tensors = dict(_tensors(module.state))
        yield ModuleContents(path, _class_name(module.type), tensors)
        children = [(f"{path}.{name}" if path else name, value) for name, value in _attributes(module)]
        pending += [(below, value) for below, value in reversed(children) if _is_module(value)]


def _is_module(value: Any) -> bool:
    """Whether a value is an object of a class of the archive; objects of C++ classes are packed weights."""
    return isinstance(value, Instance) and not value.type.startswith(CPP_CLASSES)


def _attributes(module: Instance) -> list[tuple[str, Any]]:
    found = module.attributes
    return [(str(name), value) for name, value in found.items()] if found is not None else []


def _tensors(state: Any, name: str = "", depth: int = 3) -> Iterator[tuple[str, TensorContents]]:
    """Yield the tensors in the state of a module, in its containers, and in packed weights."""
    value = state.value if isinstance(state, Tagged) else state
    if is_tensor(value):
        raw = value.tensor if isinstance(value, QuantizedTensor) else value
        yield name or "0", TensorContents(raw.storage.dtype.text, tuple(raw.sizes), isinstance(value, QuantizedTensor))
    elif _is_module(value):
        return
    elif depth:
        inner = value.state if isinstance(value, Instance) else value
        pairs: Any = ()
        if isinstance(inner, dict):
            pairs = cast("dict[Any, Any]", inner).items()
        elif isinstance(inner, list | tuple):
            pairs = enumerate(cast("list[Any]", inner))
        for key, item in pairs:
            yield from _tensors(item, f"{name}.{key}" if name else str(key), depth - 1)


def _class_name(qualified: str) -> str:
    """Demangle a class: `__torch__.torch.nn.___torch_mangle_3.Conv2d` to `torch.nn.Conv2d`."""
    parts = qualified.removeprefix("__torch__.").split(".")
    return ".".join(part for part in parts if not part.startswith("___torch_mangle"))
