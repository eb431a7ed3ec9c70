"""Identify PyTorch files other than TorchScript archives, and report how to export a model from them.

A pickle is identified by its global names and keys, which a machine collects that cannot import or call.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.formats.pytorch.pt2.schema import SchemaError
from graphport.formats.pytorch.pt2.unpickle import Machine, Name, StorageOf, Tensor
from graphport.formats.pytorch.torchscript.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.core.diagnostics import Source
    from graphport.core.storage import MappedFile
    from graphport.formats.pytorch.pt2.container import Container

LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
"""First bytes of files of torch.save before 1.6."""
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
_MOBILE = b"PTMF"


def refuse_other_kinds(file: MappedFile, source: Source) -> None:
    """Refuse PyTorch files that are not zip archives; `formats.recognition` reports files of other programs.

    Raises:
        DiagnosticError: TS0001 with the kind of the file and a remedy.
    """
    head = file.view(0, min(file.size, 512)).tobytes()
    found = _describe_file(head, file)
    if found is not None:
        raise DiagnosticError(Diagnostic("TS0001", found[0], Span(source), found[1]))


def _describe_file(head: bytes, file: MappedFile) -> tuple[str, str] | None:
    if not head:
        return "the file is empty", "download or save it again"
    if head[4:8] == _MOBILE:
        return (
            "unsupported: a mobile TorchScript model (flatbuffer of the lite interpreter) without code",
            "save it again: torch.jit.save(torch.jit.load(FILE), 'm.pt'), or export the module with torch.export.save",
        )
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return _pickle_kind(file.view(0, min(file.size, _MAX_PICKLE)).tobytes(), is_legacy=head.startswith(LEGACY))
    return None


def refuse_other_archives(container: Container) -> None:
    """Refuse zip archives that are not TorchScript.

    Raises:
        RefusedError: TS0001 with the kind of the file and a remedy.
    """
    members = container.members
    has_code = bool(container.below("code/"))
    if has_code and "data.pkl" in members:
        return
    if "MAR-INF/MANIFEST.json" in members or container.folder == "MAR-INF/":
        inner = [name for name in members if name.endswith((".pt", ".pth", ".ptl"))]
        kind = (
            f"unsupported: a TorchServe archive (.mar), whose model is the member {inner[0] if inner else 'model.pt'}"
        )
        refuse(
            "TS0001",
            kind,
            help=f"unpack the archive with unzip FILE {inner[0] if inner else 'model.pt'}, and pass that file",
        )
    if ".data/extern_modules" in members:
        refuse(
            "TS0001",
            "unsupported: a torch.package archive (Python source and pickles), which executes code when it is loaded",
            help=_EXPORT_MODULE,
        )
    if "bytecode.pkl" in members and not has_code:
        help = (
            "save the model with code: torch.jit.save(scripted, "
            "'m.pt'), or _save_for_lite_interpreter of a current torch"
        )
        refuse(
            "TS0001",
            "unsupported: a mobile TorchScript model of the lite interpreter with bytecode but without code",
            help=help,
        )
    if "data.pkl" in members:
        kind, help = _pickle_kind(container.read("data.pkl"), is_legacy=False)
        refuse("TS0001", kind, help=help)
    names = list(members)
    shown = f"{container.folder}{names[0]}" if names else "nothing"
    help = "write TorchScript with torch.jit.save, or an exported program with torch.export.save"
    refuse("TS0001", f"not TorchScript: a zip archive without code/ and data.pkl, which contains {shown}", help=help)


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
    """An object whose creation would require running code, represented by its class name."""

    def __init__(self, name: str) -> None:
        self.name = name


class _NameCollector(Machine):
    """Pickle machine that collects global names without interpreting them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.names: list[str] = []

    @property
    def at(self) -> int:
        """The position after the last opcode."""
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

    def new_object(self) -> None:
        self.pop()
        name = self.pop()
        self.push(_Unknown(name.text if isinstance(name, Name) else "object"))

    def built(self) -> None:
        self.pop()

    def set_items(self, pairs: list[Any]) -> None:
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
        self.read_bytes(count)

    def drop(self) -> None:
        self.pop()

    def new_with_names(self) -> None:
        self.pop()
        self.new_object()

    def steps(self) -> dict[bytes, Callable[[Any], None]]:
        return super().steps() | _MORE_STEPS


def _bytes(form: str) -> Callable[[_NameCollector], None]:
    return lambda m: m.push(m.read_bytes(m.unpack(form)))


_MORE_STEPS: dict[bytes, Callable[[Any], None]] = {
    b"\x80": lambda m: m.skip(1),
    b"\x81": lambda m: m.new_object(),
    b"\x92": lambda m: m.new_with_names(),
    b"\x93": lambda m: m.stack_global(),
    b"\x94": lambda m: m.remember(m.count_memo()),
    b"\x95": lambda m: m.skip(8),
    b"\x8f": lambda m: m.push(_Unknown("set")),
    b"\x90": lambda m: m.skip_mark(),
    b"\x91": lambda m: m.replace_mark(_Unknown("frozenset")),
    b"\x8b": lambda m: m.push(int.from_bytes(m.read_bytes(m.unpack("<I")), "little", signed=True)),
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
    """Return the kind of a pickle of torch.save, and a remedy."""
    names: list[str] = []
    try:
        at = 0
        for _ in range(3 if is_legacy else 0):
            header = _NameCollector(data[at:])
            header.run()
            at += header.at
        machine = _NameCollector(data[at:])
        names = machine.names
        root = machine.run()
    except _FAULTS:
        shown = f" that refers to {names[0][:80]}" if names else ""
        return f"unsupported: a Python pickle{shown}, which executes code when it is loaded", _EXPORT_MODULE
    return _described(root, names)


def _described(root: Any, names: Sequence[str]) -> tuple[str, str]:
    match root:
        case Tensor():
            return f"not a model: a single tensor, {_shown(root)}, written by torch.save", _EXPORT
        case dict():
            return _dictionary(cast("dict[Any, Any]", root), names)
        case list() | tuple():
            count = len(cast("Sequence[Any]", root))
            return f"not a model: a list of {count} items, written by torch.save", _EXPORT
        case _:
            named = root.name if isinstance(root, _Unknown) else names[0] if names else type(root).__name__
            kind = (
                "unsupported: a module written by torch.save, "
                f"which is a pickle of Python objects of class {named[:100]}"
            )
            return f"{kind}; loading it executes code", _EXPORT_MODULE


def _dictionary(root: dict[Any, Any], names: Sequence[str]) -> tuple[str, str]:
    tensors = {str(key): value for key, value in root.items() if isinstance(value, Tensor)}
    keys = [key for key in root if isinstance(key, str)]
    if tensors and len(tensors) * 2 >= len(root):
        name, first = next(iter(tensors.items()))
        kind = (
            f"not a model: a state dict of {len(tensors)} weights without a network, for example {name} {_shown(first)}"
        )
        return kind, _EXPORT
    if _TRAINING_KEYS & set(keys) or any(key in _CHECKPOINT_KEYS for key in keys):
        held = next((key for key in _CHECKPOINT_KEYS if key in keys), None)
        what = f": {held!r} has {_CHECKPOINT_KEYS[held]}" if held else ""
        kind = f"not a model: a training checkpoint with the keys {', '.join(keys[:8])}{what}, without a network"
        is_yolo = any(name.startswith("ultralytics.") for name in names)
        return kind, "yolo export model=FILE format=torchscript, or format=onnx" if is_yolo else _EXPORT
    held_class = next((x.name for x in root.values() if isinstance(x, _Unknown)), None)
    if held_class is not None:
        return (
            f"not a model: a pickle of Python objects, including class {held_class[:100]}, without a network",
            _EXPORT_MODULE,
        )
    return f"not a model: a dictionary with the keys {', '.join(keys[:8]) or 'none'}, without a network", _EXPORT


def _shown(tensor: Tensor) -> str:
    sizes = "x".join(map(str, tensor.sizes)) or "scalar"
    return f"{tensor.storage.dtype.text} {sizes}"
