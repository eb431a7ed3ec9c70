"""Runtime processes: start, resource limits, and termination together with the parent process.

`start` runs this module, which sets limits for its own process before it runs the module of the runtime:

- Linux kills it when the parent ends (`PR_SET_PDEATHSIG`), even if it is stopped or runs native code.
- A thread polls the parent and the memory, for systems without that signal.
- Each request sets a limit on CPU time (`allow`), for cases in which neither of these works.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

POLL_SECONDS = 0.25
OUT_OF_MEMORY = 125
"""Exit code of a process that ended because it took more memory than it was allowed."""

LARGE_FILE = 1 << 28
"""Bytes of a file from which on memory is returned to the system as soon as it is freed."""
_M_MMAP_THRESHOLD = -3
_ORPHANED = 124
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SIGKILL = 9
_SPARE_SECONDS = 30.0
"""Processor time beyond the deadline after which the system ends a process whose program does not."""


class _Request(NamedTuple):
    command: list[str]
    reply: queue.SimpleQueue[subprocess.Popen[bytes] | OSError]


class _Starter:
    """A thread that starts processes.

    Linux sends the death signal when the *thread* ends that started the process: a runtime that a short-lived thread
    of the program starts, and that later threads reuse, would be killed with it.
    """

    def __init__(self) -> None:
        self.program = os.getpid()
        self._requests: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="graphport processes", daemon=True).start()

    def start_process(self, command: list[str]) -> subprocess.Popen[bytes]:
        request = _Request(command, queue.SimpleQueue())
        self._requests.put(request)
        reply = request.reply.get()
        if isinstance(reply, OSError):
            raise reply
        return reply

    def _serve(self) -> None:
        while True:
            command, reply = self._requests.get()
            try:
                reply.put(_popen(command))
            except OSError as error:
                reply.put(error)


_STARTER: list[_Starter] = []
_LOCK = threading.Lock()


def start_process(module: str, interpreter: str | None = None) -> subprocess.Popen[bytes]:
    """Start `module` as a program that reads requests from its standard input and writes to its standard output.

    Args:
        module: of this package, or of the runtime.
        interpreter: another Python than this one, which has the runtime.

    Raises:
        OSError: the system starts no process.
    """
    # `-P`: with `-m` alone Python imports modules from the working folder first, which may be that of a stranger.
    command = [sys.executable, "-P", "-m", __name__, str(os.getpid()), module]
    if interpreter is not None:
        # Last on its path: packages that it has itself, NumPy for one, are built for its version of Python.
        root = str(Path(__file__).parents[2])
        program = f"import sys; sys.path.append({root!r}); from graphport.core.child_process import main; main()"
        command = [interpreter, "-c", program, str(os.getpid()), module]
    if sys.platform != "linux":
        return _popen(command)
    with _LOCK:
        # A program that was forked has none of the threads of its parent.
        if not _STARTER or _STARTER[-1].program != os.getpid():
            _STARTER[:] = [_Starter()]
        return _STARTER[-1].start_process(command)


def _popen(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  a module of this package
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def end(process: subprocess.Popen[bytes], patience: float = 2.0) -> None:
    """Close the pipes of a process, which ends it, and kill it if it has not ended after `patience` seconds."""
    streams: tuple[IO[bytes] | None, ...] = (process.stdin, process.stdout)
    for stream in streams:
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, even if it is stopped, and wait for its end."""
    process.kill()
    process.wait()


def resident_bytes(process: int | None = None) -> int:
    """Return the resident memory of a process in bytes, by default of this one; 0 if the system does not report it."""
    if sys.platform != "linux":
        return 0
    try:
        with open(f"/proc/{process or 'self'}/statm", encoding="ascii") as file:  # noqa: PTH123  read 4 times a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


# The following runs in the process of a runtime.


class _Allowance:
    """The limits of the current request; written by `allow`, read by the polling thread."""

    nbytes = 0
    """Bytes that the process may hold; 0 for any number."""


def allow(seconds: float, nbytes: int) -> None:
    """Limit the next request: `seconds` of wall time, and `nbytes` in addition to the present memory.

    0 is no limit.
    """
    _Allowance.nbytes = resident_bytes() + nbytes if nbytes else 0
    try:
        import resource
    except ImportError:
        return  # not available on Windows
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = hard
    if seconds:
        spent = time.process_time()
        soft = int(spent + (seconds + _SPARE_SECONDS) * (os.cpu_count() or 1)) + 1
        soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def return_memory_at_once() -> None:
    """Have glibc return each freed allocation of 1 MiB or more to the system, which takes time for every allocation."""
    _call_allocator("mallopt", _M_MMAP_THRESHOLD, 1 << 20)


def return_freed_memory() -> None:
    """Have glibc return freed memory to the system; by default the process keeps the weights of a released file."""
    _call_allocator("malloc_trim", 0)


def _call_allocator(name: str, *arguments: int) -> None:
    import ctypes

    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            getattr(ctypes.CDLL(None), name)(*arguments)


def end_with(parent: int) -> None:
    """Have this process end when its parent does."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, _SIGKILL, 0, 0, 0)
    if not _is_child_of(parent):
        os._exit(_ORPHANED)  # the parent ended before the signal was requested
    threading.Thread(target=_watch, args=(parent,), name="graphport watch", daemon=True).start()


def _watch(parent: int) -> None:
    while True:
        time.sleep(POLL_SECONDS)
        if not _is_child_of(parent):
            os._exit(_ORPHANED)
        if _Allowance.nbytes and resident_bytes() > _Allowance.nbytes:
            os._exit(OUT_OF_MEMORY)


def _is_child_of(parent: int) -> bool:
    if sys.platform == "win32":
        from graphport.core.system import lives

        return lives(parent)
    return os.getppid() == parent


def main() -> None:
    """Run as the child process: `python -m graphport.core.child_process PARENT MODULE`."""
    from importlib import import_module
    from runpy import run_module, run_path

    parent, module = int(sys.argv[1]), sys.argv[2]
    # Run as a program this module is `__main__`: the runtime's module imports it under its own name.
    import_module("graphport.core.child_process").end_with(parent)
    import_module("graphport.core.packages").disable_telemetry()
    sys.argv = [module]
    path = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    if path.is_file():
        # Without importing the packages of the module, which take a third of the start.
        run_path(str(path), run_name="__main__")
    else:
        run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
