"""Functions of the operating system that differ between Windows, Linux and macOS."""

from __future__ import annotations

import ctypes
import os
import sys

_ASKS_STATE = 0x1000  # PROCESS_QUERY_LIMITED_INFORMATION
_NO_PROCESS = 87  # ERROR_INVALID_PARAMETER
_RUNS = 259  # STILL_ACTIVE
_SHARED = 0x7  # FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE


class MemoryStatus(ctypes.Structure):
    """Windows' `MEMORYSTATUSEX`; all but the first two are bytes."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("all", "free", "swap", "free_swap", "virtual", "free_virtual", "more")),
    )


def free_memory() -> int:
    """Return the memory in bytes available to a process; half of the total if the system reports only that."""
    if sys.platform == "win32":
        status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
        ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
        return int(status.free)
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123  called before each proof
            known = dict(line.split(":", 1) for line in file)
        return int(known["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) // 2


def lives(process: int) -> bool:
    """Whether a process with that id runs, including processes of other users."""
    if sys.platform == "win32":
        return _lives_on_windows(process)  # `os.kill(process, 0)` sends Ctrl-C there
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # process of another user
    return True


def _lives_on_windows(process: int) -> bool:
    if sys.platform != "win32" or process >= 1 << 32:
        return False
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.OpenProcess.restype = ctypes.c_void_p
    handle = kernel.OpenProcess(_ASKS_STATE, 0, ctypes.c_uint32(process))
    if not handle:
        return ctypes.get_last_error() != _NO_PROCESS
    code = ctypes.c_uint32()
    try:
        kernel.GetExitCodeProcess(ctypes.c_void_p(handle), ctypes.byref(code))
    finally:
        kernel.CloseHandle(ctypes.c_void_p(handle))
    return code.value == _RUNS


def open_movable(path: str, flags: int) -> int:
    """Opener for `open` whose files can be renamed while open, on Windows too."""
    if sys.platform != "win32":
        return os.open(path, flags)
    import _winapi
    import msvcrt

    access, existing = _winapi.GENERIC_READ, _winapi.OPEN_EXISTING
    handle = _winapi.CreateFile(path, access, _SHARED, _winapi.NULL, existing, 0, _winapi.NULL)
    return msvcrt.open_osfhandle(handle, flags)
