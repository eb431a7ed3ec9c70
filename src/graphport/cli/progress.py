"""Progress of long operations on standard error and in a log file."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from graphport.core.progress import register_listener

if TYPE_CHECKING:
    from collections.abc import Generator

    from graphport.core.progress import Stage

PATIENCE = 1.0
"""Seconds before the progress of a stage is printed."""
SETTING = "GRAPHPORT_PATIENCE"
"""Environment variable that overrides the delay in seconds; `never` disables progress."""
_TICK = 0.1
_MORE = 1.6
"""Factor between the times of successive progress lines of one stage."""
_CLEAR = "\r\x1b[K"
_LOG = "graphport.log"
_MEBI = 1 << 20


def patience() -> float | None:
    """Return the delay in seconds before progress is printed; `None` disables it."""
    wanted = os.environ.get(SETTING, "")
    if wanted == "never":
        return None
    try:
        return max(float(wanted), 0.0)
    except ValueError:
        return PATIENCE


class ProgressPrinter:
    """Prints the progress of long stages: an updated line on a terminal, plain lines elsewhere."""

    def __init__(self, stream: TextIO | None, log: TextIO | None, patience: float) -> None:
        self._patience = patience
        self._stream = stream
        self._log = log
        self._begun: list[Stage] = []
        self._next: dict[tuple[Stage, float], float] = {}
        self._is_shown = False
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def begin(self, stage: Stage) -> None:
        """Record the start of a stage."""
        with self._lock:
            self._begun.append(stage)
        self.write(f"begin {stage.name}")

    def end(self, stage: Stage) -> None:
        """Remove a stage and log its duration."""
        with self._lock:
            self._begun.pop()
        self.write(f"end {stage.name} ({time.monotonic() - stage.began:.2f} s)")

    def write(self, text: str) -> None:
        """Write a log line with the time."""
        if self._log is not None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._log.write(f"{now} {' '.join(text.split())}\n")
            self._log.flush()

    @contextmanager
    def running(self) -> Generator[None]:
        """Print progress during the block."""
        if self._stream is None:
            yield
            return
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            if self._is_shown:
                self._stream.write(_CLEAR)
                self._stream.flush()

    def _run(self) -> None:
        while not self._ended.wait(_TICK):
            self.tick(time.monotonic())

    def tick(self, now: float) -> None:
        """Print the progress of the innermost stage at its time."""
        with self._lock:
            if self._stream is None or not self._begun:
                return
            stage = self._begun[-1]
            spent = now - stage.began
            if spent < self._next.get((stage, stage.began), self._patience):
                return
            is_terminal = self._stream.isatty()
            self._next[stage, stage.began] = spent + _TICK if is_terminal else max(spent * _MORE, PATIENCE)
            line = emitted(stage, spent)
        self._stream.write(f"{_CLEAR}{line}" if is_terminal else f"{line}\n")
        self._stream.flush()
        self._is_shown = is_terminal


def emitted(stage: Stage, spent: float) -> str:
    """Format a stage as one line: completed amount, total, and estimated remaining time."""
    from graphport.cli.render import shown

    done = stage.done if stage.measure is None else stage.measure()
    name = shown(stage.name)
    if not stage.total or (stage.unit == "bytes" and done > stage.total):
        # A total in bytes is an estimate from the weights.
        return f"{name} … {spent:.0f} s"
    part = min(done / stage.total, 1.0)
    amount = (
        f"{done / _MEBI:,.0f} of {stage.total / _MEBI:,.0f} MiB"
        if stage.unit == "bytes"
        else (f"{done:,} of {stage.total:,} {stage.unit}".rstrip())
    )
    left = f", {spent / part - spent:.0f} s left" if 0 < part < 1 else ""
    return f"{name}: {amount} ({100 * part:.0f} %), {spent:.0f} s{left}"


def log_file() -> click.Option:
    """Add the option `--log-file`."""
    return click.Option(
        ["--log-file"],
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        expose_value=False,
        callback=_keep,
        help="Append stages with times and findings to a file.",
    )


def _keep(ctx: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        ctx.meta[_LOG] = value


@contextmanager
def print_progress(ctx: click.Context, *, is_silent: bool) -> Generator[None]:
    """Print and log the progress of long stages during the block, unless disabled."""
    path: Path | None = ctx.meta.get(_LOG)
    wait = patience()
    stream = None if is_silent or wait is None else sys.stderr
    if path is None:
        teller = ProgressPrinter(stream, None, wait or 0.0)
        with teller.running(), register_listener(None if stream is None else teller):
            yield
        return
    with path.open("a", encoding="utf-8", errors="backslashreplace") as log:
        teller = ProgressPrinter(stream, log, wait or 0.0)
        ctx.meta[f"{_LOG}.teller"] = teller
        teller.write(f"graphport {' '.join(sys.argv[1:])}")
        with teller.running(), register_listener(teller):
            yield


def logged(text: str) -> None:
    """Write a line to the log file, if there is one."""
    context = click.get_current_context(silent=True)
    teller = None if context is None else context.meta.get(f"{_LOG}.teller")
    if isinstance(teller, ProgressPrinter):
        teller.write(text)
