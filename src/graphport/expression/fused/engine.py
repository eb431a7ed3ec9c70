"""Compile LLVM code to functions in memory; compiled objects are cached on disk.

LLVM comes from the package llvmlite (`graphport[fast]`), which is imported when the first program is compiled.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import platform
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from graphport.core.regular_files import contents
from graphport.core.user_cache import cache_root, make_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MOST_FILES = 512
"""Limit of cached kernels on disk; above it the older half is deleted."""
_DIGEST = 32


@dataclass(frozen=True, slots=True)
class Target:
    """The processor: its name, the bytes of a vector, how many it holds, whether it converts half precision.

    `scales`: it multiplies by powers of two in one instruction (AVX-512).
    """

    identity: str
    vector_bytes: int
    registers: int
    is_x86: bool
    converts_half: bool
    scales: bool


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Code:
    """Functions in memory by name; they live as long as this object."""

    addresses: Mapping[str, int]
    library: Any


@dataclass(frozen=True, slots=True)
class _Machine:
    target: Target
    llvm: Any
    machine: Any
    jit: Any
    lock: threading.Lock
    serials: Iterator[int]
    """Numbers for libraries: the linker wants names that it has never seen."""
    loaded: WeakValueDictionary[str, Code]
    """Return code that is already in memory."""


def is_available() -> bool:
    """Whether programs can be compiled here: llvmlite is installed, and we know the system and the processor."""
    if sys.platform not in {"linux", "darwin"} or sys.byteorder != "little" or sys.maxsize <= 1 << 32:
        return False
    if importlib.util.find_spec("llvmlite") is None:
        return False
    return platform.machine().lower() in {"x86_64", "amd64", "aarch64", "arm64"} and _machine() is not None


def target() -> Target:
    """The processor of this machine.

    Raises:
        RuntimeError: `is_available()` is false.
    """
    return _required().target


def load(text: str, symbols: Sequence[str]) -> Code:
    """The functions `symbols` of the module `text`, from disk if it has been compiled for this processor before.

    Raises:
        RuntimeError: `is_available()` is false.
    """
    machine = _required()
    key = hashlib.sha256(f"{machine.target.identity}\n{text}".encode()).hexdigest()
    with machine.lock:
        known = machine.loaded.get(key)
        if known is not None:
            return known
        compiled = _read(key)
        if compiled is None:
            parsed = machine.llvm.parse_assembly(text)
            parsed.verify()
            compiled = machine.machine.emit_object(parsed)
            _write(key, compiled)
        builder = machine.llvm.JITLibraryBuilder().add_object_img(compiled).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        library = builder.link(machine.jit, f"{key}.{next(machine.serials)}")
        code = machine.loaded[key] = Code({symbol: library[symbol] for symbol in symbols}, library)
        return code


def cache_folder() -> Path | None:
    """Return the folder of compiled programs: `GRAPHPORT_KERNELS` (none if empty), or the user's cache."""
    given = os.environ.get("GRAPHPORT_KERNELS")
    if given is not None:
        return Path(given) if given else None
    root = cache_root()
    return None if root is None else root / "kernels"


def _required() -> _Machine:
    machine = _machine()
    if machine is None:
        message = "this CPU is not supported by the compiler"
        raise RuntimeError(message)
    return machine


@cache
def _machine() -> _Machine | None:
    llvm: Any = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    is_x86 = platform.machine().lower() in {"x86_64", "amd64"}
    if is_x86 and not features.get("sse4.1", False):
        # Without this, rounding becomes a C library call per element.
        return None
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features.flatten(), opt=2, jit=True
    )
    version = ".".join(map(str, llvm.llvm_version_info))
    known = Target(
        identity=f"{llvm.get_process_triple()} {name} {features.flatten()} LLVM {version}",
        vector_bytes=_vector_bytes(features, is_x86=is_x86),
        registers=16 if is_x86 and not features.get("avx512f", False) else 32,
        is_x86=is_x86,
        converts_half=not is_x86 or features.get("f16c", False),
        scales=_vector_bytes(features, is_x86=is_x86) == 64,
    )
    jit = llvm.create_lljit_compiler(machine)
    return _Machine(known, llvm, machine, jit, threading.Lock(), count(), WeakValueDictionary())


def _vector_bytes(features: Any, *, is_x86: bool) -> int:
    if not is_x86:
        return 16
    if features.get("avx512f", False) and features.get("avx512dq", False):
        return 64
    return 32 if features.get("avx2", False) else 16


def _read(key: str) -> bytes | None:
    """Return the cached object `key` if it is intact and only this user could have written it."""
    folder = _trusted_folder()
    if folder is None:
        return None
    try:
        content = contents(folder / f"{key}.o")
    except OSError:
        return None
    digest, compiled = content[:_DIGEST], content[_DIGEST:]
    return compiled if _digest(key, compiled) == digest else None


def _digest(key: str, compiled: bytes) -> bytes:
    """Digest of a cached file and of the program that its name identifies."""
    return hashlib.sha256(key.encode() + compiled).digest()


def _write(key: str, compiled: bytes) -> None:
    """Write `compiled` to the cache; a full or read-only disk only costs another compilation."""
    import tempfile

    folder = _trusted_folder()
    if folder is None:
        return
    with suppress(OSError):
        _make_room(folder)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(key, compiled) + compiled)
            Path(name).replace(folder / f"{key}.o")
        finally:
            Path(name).unlink(missing_ok=True)


def _make_room(folder: Path) -> None:
    files = sorted(folder.glob("*.o"), key=lambda path: path.stat().st_mtime)
    if len(files) >= _MOST_FILES:
        for path in files[: len(files) // 2]:
            path.unlink(missing_ok=True)


def _trusted_folder() -> Path | None:
    """Return the cache folder if only this user can write to it, because its files are executed."""
    folder = cache_folder()
    return folder if folder is not None and make_private(folder) else None
