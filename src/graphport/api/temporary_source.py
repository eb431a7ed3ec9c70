"""Temporary files for models that are passed as bytes, open files, or objects of other packages."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from os import PathLike, fsdecode
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphport import formats
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source
from graphport.core.storage import Bits, FileStorage, MappedFile, View
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from graphport.ir.graph import Graph

SOURCE_NAME = "<bytes>"
"""What findings call a model that has no path."""


def path_of(source: Any) -> Path | None:
    """Return the path that `source` is, or `None` if it is something else."""
    return Path(fsdecode(cast("Any", source))) if isinstance(source, str | PathLike) else None


@contextmanager
def write_temporary(source: object, format: str | None = None) -> Generator[Path]:
    """Write `source` to a temporary file that exists inside the block; diagnostics call it `<bytes>`.

    Args:
        source: bytes, a file that is open for reading bytes, or a model of a package in `_SAVERS`.
        format: of bytes whose content does not identify it.

    Raises:
        DiagnosticError: IO0003 the format is unknown; IO0020 `source` is no model; errors of the block.
    """
    saver = _saver_of(source)
    ending = "" if format is None else next(iter(formats.called(format).endings), "")
    folder = Path(tempfile.mkdtemp(prefix="graphport-"))
    path = folder / f"model{ending if saver is None else saver.ending}"
    try:
        if saver is None:
            _write_bytes(source, path)
        else:
            saver.save(source, path)
        yield path
    except DiagnosticError as error:
        raise DiagnosticError(*(replace_path(finding, path) for finding in error.diagnostics)) from error
    finally:
        # If the system cannot remove mapped files, it removes the file later.
        shutil.rmtree(folder, ignore_errors=True)


def _write_bytes(source: Any, path: Path) -> None:
    try:
        data: Any = source.read() if hasattr(source, "read") else source
    except (OSError, ValueError) as error:
        message = f"cannot read a model from an object of type {_type_name(source)}: {error}"
        raise DiagnosticError(Diagnostic("IO0020", message, None, "pass a file opened in mode 'rb'")) from error
    if not isinstance(data, (bytes, bytearray, memoryview)):
        message = f"cannot read a model from an object of type {_type_name(source)}"
        raise DiagnosticError(Diagnostic("IO0020", message, None, _remedy(source)))
    path.write_bytes(cast("bytes", data))


@dataclass(frozen=True, slots=True)
class _Saver:
    """How a package writes its models: the ending of the file, and the function."""

    ending: str
    save: Callable[[Any, Path], object]


def _save_proto(model: Any, path: Path) -> None:
    """Write a ModelProto; protobuf refuses messages of 2 GiB and more, whose weights are stored in a second file."""
    save_model: Any = import_module("onnx").save_model
    try:
        path.write_bytes(model.SerializeToString())
    except ValueError:
        save_model(model, path, save_as_external_data=True, location=f"{path.name}.data")


def _call(function: str) -> Callable[[Any, Path], object]:
    """Return `function(model, path)`, a function of the package that the model belongs to."""
    module, _, name = function.rpartition(".")
    return lambda model, path: getattr(import_module(module), name)(model, str(path))


def _save_archive(model: Any, path: Path) -> None:
    formats.FORMATS["archive"].write(model.graph, path)


_SAVERS: dict[tuple[str, str], _Saver] = {
    ("graphport", "Model"): _Saver(".graphport", _save_archive),
    ("onnx", "ModelProto"): _Saver(".onnx", _save_proto),
    ("onnx_ir", "Model"): _Saver(".onnx", _call("onnx_ir.save")),
    ("openvino", "Model"): _Saver(".xml", _call("openvino.serialize")),
    ("torch", "ExportedProgram"): _Saver(".pt2", _call("torch.export.save")),
    ("torch", "ScriptModule"): _Saver(".pt", _call("torch.jit.save")),
    ("jax", "Exported"): _Saver(".jax", lambda model, path: path.write_bytes(bytes(model.serialize()))),
    ("keras", "Model"): _Saver(".keras", lambda model, path: model.save(str(path))),
}
"""By package and class: subclasses are recognized, too."""
_REMEDIES = {
    ("torch", "Module"): "export it with example inputs: graphport.from_torch(module, (x,))",
    ("tensorflow", "Module"): "save it: tf.saved_model.save(module, 'folder'), then graphport.load('folder')",
    ("tensorflow", "ConcreteFunction"): "save its module: tf.saved_model.save(module, 'folder')",
}


def _classes(source: object) -> list[tuple[str, str]]:
    return [(each.__module__.partition(".")[0], each.__name__) for each in type(source).__mro__]


def _saver_of(source: object) -> _Saver | None:
    return next((_SAVERS[each] for each in _classes(source) if each in _SAVERS), None)


def _remedy(source: object) -> str:
    found = next((_REMEDIES[each] for each in _classes(source) if each in _REMEDIES), None)
    listed = ", ".join(f"{package}.{name}" for package, name in _SAVERS)
    return found or f"pass a path, bytes, a file that is open for reading bytes, a graphport.Model, or one of: {listed}"


def _type_name(source: object) -> str:
    return f"{type(source).__module__}.{type(source).__qualname__}".removeprefix("builtins.")


def replace_path(finding: Diagnostic, path: Path) -> Diagnostic:
    """Replace the path of the temporary file in a diagnostic."""
    span = finding.span
    if span is not None:
        span = replace(span, source=Source(span.source.name.replace(str(path), SOURCE_NAME), span.source.text))
    return replace(finding, message=finding.message.replace(str(path), SOURCE_NAME), span=span)


def map_weights(graph: Graph) -> None:
    """Map every file that contains weights of `graph`; a mapping remains valid after the file is removed."""
    for storage in _storages(graph):
        file = storage.file
        if isinstance(file, MappedFile):
            file.view(0, 0)


def _storages(graph: Graph) -> Iterator[FileStorage]:
    for inner in walk(graph):
        held: list[object] = [value.storage for value in inner.constants]
        held += [attribute for node in inner for attribute in node.attributes.values()]
        while held:
            each = held.pop()
            if isinstance(each, FileStorage):
                yield each
            elif isinstance(each, View | Bits):
                held.append(each.of)
            elif isinstance(each, tuple):
                held.extend(cast("tuple[object, ...]", each))
