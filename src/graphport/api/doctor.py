"""Report installed optional packages, their uses, and their known faults."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from typing import Any

from graphport.backends import BACKENDS
from graphport.core.packages import distribution, install, is_older, is_there
from graphport.core.short_repr import short_repr
from graphport.core.version import __version__
from graphport.proof.faults import FAULTS
from graphport.proof.runtimes import RUNTIMES
from graphport.quantization.processor import description


@short_repr
@dataclass(frozen=True)
class PackageStatus:
    """An optional package.

    `least` is the oldest supported version; `is_usable` is true if a supported version is installed. `adds`
    describes its use, `faults` lists deviations from the format's specification, `install` is the command that installs
    it.
    """

    module: str
    distribution: str | None
    version: str | None
    least: str | None
    is_usable: bool
    adds: tuple[str, ...]
    faults: tuple[str, ...]
    install: str


@short_repr
@dataclass(frozen=True)
class Diagnosis:
    """The report of `graphport doctor`."""

    version: str
    python: str
    system: str
    pieces: tuple[PackageStatus, ...]
    processor: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


_OTHERS = {
    "llvmlite": ("expressions and chains of element-wise operators, compiled to one loop (backend fused)",),
    "matplotlib": ("report --figure: figures for papers",),
    "PIL": ("quantize and cast: a folder of images as samples",),
    "pygls": ("graphport lsp: diagnostics and completion in editors",),
    "ray": ("quantize --distributed ray: samples observed on several machines",),
    "jax": ("graphport.from_jax: functions of JAX, exported and read",),
    "torch": ("graphport.from_torch: modules of PyTorch, exported and read",),
}
"""What packages bring that are neither runtimes nor always there, by module."""
_DISTRIBUTIONS = {"PIL": "pillow"}
"""What installs a module that is called otherwise."""


def diagnose() -> Diagnosis:
    """Inspect the installed packages."""
    found: dict[str, list[str]] = {}
    for name, backend in BACKENDS.items():
        if backend.package != "numpy":
            found.setdefault(backend.package, []).append(f"the backend {name}: models are run and timed by it")
    for format, runtime in RUNTIMES.items():
        found.setdefault(runtime.package, []).append(f"proofs about {format}: {runtime.title} runs the files")
    pieces = [_package_status(module, tuple(adds)) for module, adds in found.items()]
    pieces += [_package_status(module, adds) for module, adds in _OTHERS.items()]
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return Diagnosis(__version__, platform.python_version(), system, tuple(pieces), dict(description()))


def _package_status(module: str, adds: tuple[str, ...]) -> PackageStatus:
    seen = distribution(module) if is_there(module) else None
    least = next((backend.least for backend in BACKENDS.values() if backend.package == module), None)
    is_usable = is_there(module) and not (seen is not None and least is not None and is_older(seen[1], least))
    names = [name for name, backend in BACKENDS.items() if backend.package == module]
    faults = tuple(f"{fault.what} (seen in {fault.seen})" for fault in FAULTS if fault.runtime in names)
    name, version = seen or (None, None)
    return PackageStatus(
        module, name, version, least, is_usable, adds, faults, install(_DISTRIBUTIONS.get(module, module))
    )
