"""Integer instructions of the processor."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_DOT_PRODUCTS = frozenset({"avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8"})
_WIDTHS = ("avx2", "avx512f", "avx512bw")


@cache
def flags() -> frozenset[str]:
    """Return the CPU flags of the first processor; empty if the system does not report them."""
    try:
        lines = Path("/proc/cpuinfo").read_text("ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(found.partition(":")[2].split())


def saturates() -> bool:
    """Whether products of int8 are added in pairs in 16 bits, which overflow.

    True on x86 without dot-product instructions, and if the flags are unknown.
    """
    return platform.machine().lower() in ("x86_64", "amd64", "x86", "i686") and not flags() & _DOT_PRODUCTS


def may_saturate(which: str) -> bool:
    """Whether pairs may overflow on `which`: `any` processor, one with `dot-products` of int8, or `this` one."""
    match which:
        case "any":
            return True
        case "this":
            return saturates()
        case _:
            return False


def description() -> dict[str, object]:
    """Describe the processor for a report."""
    known = flags()
    return {
        "machine": platform.machine(),
        "flags": sorted(known & {*_DOT_PRODUCTS, *_WIDTHS, "asimddp", "i8mm"}),
        "saturates": saturates(),
    }
