"""Packages that are not always there: whether they are, in which version, and what installs them."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)")
_NUMBERS = re.compile(r"(\d+)\.(\d+)")


def is_there(module: str) -> bool:
    """Whether a module of that name can be imported, from any distribution."""
    return find_spec(module) is not None


def disable_telemetry() -> None:
    """Disable telemetry in runtimes that are imported later; explicit settings of the user remain."""
    # ONNX Runtime 1.31 stores a device identifier and events in the user's cache folder, and uploads them.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


@contextmanager
def without(module: str) -> Generator[None]:
    """Make imports of `module` fail inside the block; modules that have already imported it are not affected."""
    is_known, known = module in sys.modules, sys.modules.get(module)
    sys.modules[module] = None  # type: ignore[assignment]  what the import system reads as "there is none"
    try:
        yield
    finally:
        del sys.modules[module]
        if is_known:  # even if the entry is None: a module hidden before remains hidden
            sys.modules[module] = known  # type: ignore[assignment]


@cache
def distribution(module: str) -> tuple[str, str] | None:
    """Return the distribution of a module and its version: `onnxruntime` may come from `onnxruntime-gpu`."""
    from importlib.metadata import PackageNotFoundError, packages_distributions, version

    try:
        return module, version(module)
    except PackageNotFoundError:
        found = packages_distributions().get(module) if is_there(module) else None
        return None if not found else (found[0], version(found[0]))


def is_older(version: str, least: str) -> bool:
    """Whether `version` precedes `least` in the first two numbers; false without numbers."""
    numbers, needed = _NUMBERS.match(version), _NUMBERS.match(least)
    if numbers is None or needed is None:
        return False
    return (int(numbers[1]), int(numbers[2])) < (int(needed[1]), int(needed[2]))


def requirement(package: str) -> str:
    """Return the requirement specifier of a package, with its tested versions."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        stated = requires("graphport") or []
    except PackageNotFoundError:
        stated = []
    for each in stated:
        found = _REQUIREMENT.match(each)
        if found is not None and _normalized(found[1]) == _normalized(package):
            return found[1] + found[2].strip()
    return package


def _normalized(name: str) -> str:
    """Return the name of a distribution as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install(package: str) -> str:
    """The command that installs a package."""
    wanted = requirement(package)
    return f"pip install {wanted}" if wanted == package else f"pip install '{wanted}'"
