"""Kinds of files of PyTorch that are no TorchScript archives, and how to get a model from them.

A pickle is looked through by a machine that can neither import nor call: its names and keys say what kind it is.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Never, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.formats.pytorch.pt2.schema import SchemaError
from graphport.formats.pytorch.pt2.unpickle import Machine, Name, StorageOf, Tensor
from graphport.formats.pytorch.torchscript.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.core.diagnostics import Source
    from graphport.core.storage import MappedFile
    from graphport.formats.pytorch.pt2.container import Container

LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
"""How files of torch.save before 1.6 begin."""
_MAX_PICKLE = 1 << 26
_EXPORT = (
    "in Python, with the class of the network: model.load_state_dict(…); "
    "torch.export.save(torch.export.export(model.eval(), args), 'm.pt2'), "
    "or torch.jit.trace(model, args).save('m.pt'), or torch.onnx.export(model, args, 'm.onnx')"
)
_EXPORT_MODULE = (
    "in Python, where its class is: model = torch.load(FILE, weights_only=False).eval(); "
    "torch.export.save(torch.export.export(model, args), 'm.pt2'), or torch.jit.trace(model, args).save('m.pt')"
)
_BEGINNINGS: Sequence[tuple[int, bytes, str, str]] = (
    (4, b"ET12", "it is an ExecuTorch program (.pte)", "export the module with torch.export.save, or torch.jit.save"),
    (
        4,
        b"PTMF",
        "it is a mobile model in the flatbuffer form of the lite interpreter, which is compiled further than code",
        "save it again: torch.jit.save(torch.jit.load(FILE), 'm.pt'), or export the module with torch.export.save",
    ),
    (
        0,
        b"version https://git-lfs",
        "it is a pointer of Git LFS, not the file itself",
        "git lfs pull fetches the file, or download it from the site",
    ),
    (0, b"<!DOCTYPE", "it is an HTML page, which a download gives in place of a file", "download the file again"),
    (0, b"<html", "it is an HTML page, which a download gives in place of a file", "download the file again"),
    (0, b"\x1f\x8b", "it is compressed with gzip", "unpack it first: gunzip, or tar xzf"),
    (0, b"BZh", "it is compressed with bzip2", "unpack it first: bunzip2, or tar xjf"),
    (0, b"\xfd7zXZ", "it is compressed with xz", "unpack it first: unxz, or tar xJf"),
    (0, b"7z\xbc\xaf", "it is a 7z archive", "unpack it first"),
    (0, b"Rar!", "it is a RAR archive", "unpack it first"),
    (0, b"\x89HDF\r\n", "it is an HDF5 file, which Keras writes", "load it in Keras: model.export('folder')"),
    (0, b"GGUF", "it is a GGUF file of llama.cpp: weights, and no network", _EXPORT),
    (0, b"\x93NUMPY", "it is an array of NumPy, and no network", _EXPORT),
)


def refuse_other_kinds(file: MappedFile, source: Source) -> None:
    """Refuse files that are no archive.

    Raises:
        DiagnosticError: TS0001 what it is, and what to do.
    """
    head = file.view(0, min(file.size, 512)).tobytes()
    found = _kind_of(head, file)
    if found is not None:
        raise DiagnosticError(Diagnostic("TS0001", found[0], Span(source), found[1]))


def _kind_of(head: bytes, file: MappedFile) -> tuple[str, str] | None:
    if not head:
        return "the file is empty", "download or save it again"
    for offset, mark, kind, help in _BEGINNINGS:
        if head[offset : offset + len(mark)] == mark:
            return kind, help
    if head.lstrip()[:5].lower() == b"<html" or head.lstrip()[:9].lower() == b"<!doctype":
        return "it is an HTML page, which a download gives in place of a file", "download the file again"
    if head[257:262] == b"ustar":
        return "it is a tar archive", "unpack it first: tar xf"
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < file.size:
        return "it is a safetensors file: weights alone, no network", _EXPORT
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return _pickle_kind(file.view(0, min(file.size, _MAX_PICKLE)).tobytes(), is_legacy=head.startswith(LEGACY))
    return None


def refuse_other_archives(container: Container) -> None:
    """Refuse archives that are no TorchScript.

    Raises:
        RefusedError: TS0001 what it is, and what to do.
    """
    members = container.members
    has_code = bool(container.below("code/"))
    if has_code and "data.pkl" in members:
        return
    if "MAR-INF/MANIFEST.json" in members or container.folder == "MAR-INF/":
        inner = [name for name in members if name.endswith((".pt", ".pth", ".ptl"))]
        kind = f"it is an archive of TorchServe (.mar), whose model is the member {inner[0] if inner else 'model.pt'}"
        refuse("TS0001", kind, help=f"unpack it: unzip FILE {inner[0] if inner else 'model.pt'}, and give that file")
    if ".data/extern_modules" in members:
        refuse(
            "TS0001",
            "it is an archive of torch.package: Python source and pickles, which reading would run",
            help=_EXPORT_MODULE,
        )
    if "model.json" in members and container.below("tensors/"):
        help = "load it with torch 1.3 to 2.x and save it again: torch.jit.save(torch.jit.load(FILE), 'm.pt')"
        refuse("TS0001", "it is TorchScript of torch 1.0 to 1.2 (model.json), whose form is another one", help=help)
    if "bytecode.pkl" in members and not has_code:
        help = (
            "save it again with code: torch.jit.save(scripted, 'm.pt'), or _save_for_lite_interpreter of today's torch"
        )
        refuse(
            "TS0001", "it is a mobile model of the lite interpreter that has bytecode alone, without code", help=help
        )
    if "data.pkl" in members:
        kind, help = _pickle_kind(container.read("data.pkl"), is_legacy=False)
        refuse("TS0001", kind, help=help)
    _refuse_zip(container, members)


def _refuse_zip(container: Container, members: Mapping[str, Any]) -> Never:
    names = list(members)
    inner = [
        name for name in names if name.endswith((".pt", ".pth", ".pt2", ".torchscript", ".onnx", ".ptl", ".tflite"))
    ]
    if names and all(name.endswith(".npy") for name in names):
        refuse("TS0001", "it is an archive of NumPy arrays (.npz), and no network", help=_EXPORT)
    if "config.json" in members and "model.weights.h5" in members:
        refuse("TS0001", "it is a model of Keras (.keras)", help="load it in Keras: model.export('folder')")
    if inner:
        refuse("TS0001", f"it is a zip archive around {', '.join(inner[:4])}", help=f"unpack it, and give {inner[0]}")
    shown = f"{container.folder}{names[0]}" if names else "nothing"
    help = "torch.jit.save writes TorchScript, torch.export.save exported programs"
    refuse("TS0001", f"it is a zip archive without code/ and data.pkl, so no TorchScript: it has {shown}", help=help)


# ── pickles ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_CHECKPOINT_KEYS = {
    "state_dict": "the weights",
    "model_state_dict": "the weights",
    "model": "the model or its weights",
    "ema": "averaged weights",
    "net": "the weights",
    "params": "the weights",
    "params_ema": "averaged weights",
    "module": "the weights",
}
_TRAINING_KEYS = frozenset(
    {
        *("epoch", "optimizer", "optimizer_state_dict", "optimizer_states", "lr_schedulers", "global_step"),
        *(
            "pytorch-lightning_version",
            "callbacks",
            "scheduler",
            "train_args",
            "best_fitness",
            "date",
            "iteration",
            "args",
        ),
    }
)


class _Unknown:
    """An object that the pickle would make by running code: its class and what is known of it."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Looking(Machine):
    """A machine that keeps the names it meets, and makes nothing of them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.names: list[str] = []

    @property
    def at(self) -> int:
        """The position behind the last opcode."""
        return self._at

    def resolve(self, text: str) -> Any:
        if not text.startswith(("torch._utils.", "collections.", "torch.storage.")) and not text.endswith("Storage"):
            self.names.append(text)
        return Name(text)

    def stored(self) -> None:
        found = self.pop()
        given = cast("tuple[Any, ...]", found) if isinstance(found, tuple) else ()
        if given and given[0] == "module" and len(given) > 1:
            self.push(given[1])
            return
        name = given[1].text if len(given) > 1 and isinstance(given[1], Name) else ""
        dtype = self.storage_type(name.removeprefix("torch."))
        self.push(StorageOf("0", dtype, 0) if dtype is not None else _Unknown(name))

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name.endswith("OrderedDict") and not arguments:
            return {}
        if "_rebuild_" in name and arguments:
            try:
                return super().call(name, arguments)
            except SchemaError:
                return _Unknown(name)
        return _Unknown(name)

    def called(self) -> None:
        arguments, name = self.pop(), self.pop()
        given = cast("tuple[Any, ...]", arguments) if isinstance(arguments, tuple) else ()
        self.push(self.call(name.text, given) if isinstance(name, Name) else _Unknown("object"))

    def new(self) -> None:
        self.pop()
        name = self.pop()
        self.push(_Unknown(name.text if isinstance(name, Name) else "object"))

    def built(self) -> None:
        self.pop()

    def items(self, pairs: list[Any]) -> None:
        target = self.top()
        if isinstance(target, dict):
            known = [(k, v) for k, v in zip(pairs[::2], pairs[1::2], strict=False) if isinstance(k, str | int | float)]
            cast("dict[Any, Any]", target).update(known)

    def extend(self, items: list[Any]) -> None:
        target = self.top()
        if isinstance(target, list):
            cast("list[Any]", target).extend(items)

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        self.push(self.resolve(f"{module}.{name}"))

    def skip_mark(self) -> None:
        self.since_mark()

    def replace_mark(self, value: Any) -> None:
        self.since_mark()
        self.push(value)

    def skip(self, count: int) -> None:
        self.take(count)

    def drop(self) -> None:
        self.pop()

    def new_with_names(self) -> None:
        self.pop()
        self.new()

    def steps(self) -> dict[bytes, Callable[[Any], None]]:
        return super().steps() | _MORE_STEPS


def _bytes(form: str) -> Callable[[_Looking], None]:
    return lambda m: m.push(m.take(m.unpack(form)))


_MORE_STEPS: dict[bytes, Callable[[Any], None]] = {
    b"\x80": lambda m: m.skip(1),
    b"\x81": lambda m: m.new(),
    b"\x92": lambda m: m.new_with_names(),
    b"\x93": lambda m: m.stack_global(),
    b"\x94": lambda m: m.remember(m.count_memo()),
    b"\x95": lambda m: m.skip(8),
    b"\x8f": lambda m: m.push(_Unknown("set")),
    b"\x90": lambda m: m.skip_mark(),
    b"\x91": lambda m: m.replace_mark(_Unknown("frozenset")),
    b"\x8b": lambda m: m.push(int.from_bytes(m.take(m.unpack("<I")), "little", signed=True)),
    b"C": _bytes("<B"),
    b"B": _bytes("<I"),
    b"\x8e": _bytes("<Q"),
    b"\x8d": _bytes("<Q"),
    b"U": _bytes("<B"),
    b"T": _bytes("<I"),
    b"e": lambda m: m.extend(m.since_mark()),
    b"a": lambda m: m.extend([m.pop()]),
    b"2": lambda m: m.push(m.top()),
    b"0": lambda m: m.drop(),
    b"F": lambda m: m.push(float(m.line())),
    b"I": lambda m: m.push(m.line()),
    b"L": lambda m: m.push(m.line()),
    b"d": lambda m: m.replace_mark({}),
    b"l": lambda m: m.push(m.since_mark()),
}
_FAULTS = (SchemaError, struct.error, IndexError, TypeError, ValueError, KeyError, AttributeError, RecursionError)


def _pickle_kind(data: bytes, *, is_legacy: bool) -> tuple[str, str]:
    """What a pickle of torch.save holds, and what to do."""
    names: list[str] = []
    try:
        at = 0
        for _ in range(3 if is_legacy else 0):
            header = _Looking(data[at:])
            header.run()
            at += header.at
        machine = _Looking(data[at:])
        names = machine.names
        root = machine.run()
    except _FAULTS:
        shown = f", which names {names[0][:80]}" if names else ""
        return f"it is a Python pickle{shown}: reading it would run code", _EXPORT_MODULE
    return _described(root, names)


def _described(root: Any, names: Sequence[str]) -> tuple[str, str]:
    match root:
        case Tensor():
            return f"it is a tensor, {_shown(root)}, and no network: torch.save of a tensor", _EXPORT
        case dict():
            return _dictionary(cast("dict[Any, Any]", root), names)
        case list() | tuple():
            count = len(cast("Sequence[Any]", root))
            return f"it is a list of {count} items, and no network: torch.save of a list", _EXPORT
        case _:
            named = root.name if isinstance(root, _Unknown) else names[0] if names else type(root).__name__
            kind = f"it is a whole module that torch.save wrote: a pickle of Python objects of class {named[:100]}"
            return f"{kind}; reading it would run code", _EXPORT_MODULE


def _dictionary(root: dict[Any, Any], names: Sequence[str]) -> tuple[str, str]:
    tensors = {str(key): value for key, value in root.items() if isinstance(value, Tensor)}
    keys = [key for key in root if isinstance(key, str)]
    if tensors and len(tensors) * 2 >= len(root):
        name, first = next(iter(tensors.items()))
        kind = f"it is a state dict: weights alone, no network: {len(tensors)} tensors, such as {name} {_shown(first)}"
        return kind, _EXPORT
    if _TRAINING_KEYS & set(keys) or any(key in _CHECKPOINT_KEYS for key in keys):
        held = next((key for key in _CHECKPOINT_KEYS if key in keys), None)
        what = f": {held!r} has {_CHECKPOINT_KEYS[held]}" if held else ""
        kind = f"it is a checkpoint of training with the keys {', '.join(keys[:8])}{what}, and no network"
        is_yolo = any(name.startswith("ultralytics.") for name in names)
        return kind, "yolo export model=FILE format=torchscript, or format=onnx" if is_yolo else _EXPORT
    held_class = next((x.name for x in root.values() if isinstance(x, _Unknown)), None)
    if held_class is not None:
        return (
            f"it is a pickle of Python objects, of class {held_class[:100]} among them, and no network",
            _EXPORT_MODULE,
        )
    return f"it is a dictionary with the keys {', '.join(keys[:8]) or 'none'}, and no network", _EXPORT


def _shown(tensor: Tensor) -> str:
    sizes = "x".join(map(str, tensor.sizes)) or "scalar"
    return f"{tensor.storage.dtype.text} {sizes}"
