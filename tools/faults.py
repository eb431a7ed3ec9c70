"""Inject a fault into each system call of each writer: the files must equal the old or the new state.

python tools/faults.py                       all writers, all faults
python tools/faults.py --fault kill eio      some faults
python tools/faults.py --only xml --most 20  writers whose name contains `xml`, about 20 points of each

Each command replaces an old file. At its n-th call that changes the folder (open to write, write, truncate, flush,
close, rename, mode, make and remove) the call fails (EIO, ENOSPC, EACCES), or the process receives a signal (SIGTERM,
SIGHUP, SIGINT) or is killed. Then all visible files must have the old or the new content; a failed call must give exit
code 1 and a message with a file name; the next writer must remove temporary files. Needs Linux and a C compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import gc
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHIM = Path(__file__).parent / "fuzzing" / "system_calls.c"
FAULTS = {
    "kill": -signal.SIGKILL,
    "SIGTERM": -signal.SIGTERM,
    "SIGHUP": -signal.SIGHUP,
    "SIGINT": -signal.SIGINT,
    "ENOSPC": errno.ENOSPC,
    "EIO": errno.EIO,
    "EACCES": errno.EACCES,
}
_GRAPHS = (".onnx", ".xml", ".param", ".prototxt", "graph.nnef", "folder")
"""Suffixes of graph files; without its graph file, a model's other files are ignored by readers."""
INTERNAL_ERROR = 77
"""Exit code of a child process in which an exception escaped the command line."""


@dataclass
class Writer:
    """A command that writes: the name of its target, and its arguments for input `a` or `b` and a target path."""

    target: str
    arguments: Callable[[str, str], list[str]]
    starts_without_file: bool = False
    """Whether it refuses to replace a file of a different input, so that the trial starts without an old file."""


@dataclass
class Table:
    """Counts of results and descriptions of failures of one writer and one fault."""

    counts: Counter[str] = field(default_factory=Counter[str])
    bad: list[str] = field(default_factory=list[str])


def writers(given: Path) -> dict[str, Writer]:
    """Return all writers by name; `given` is the folder with the inputs of `_inputs`."""

    def converted(target: str, *options: str) -> Writer:
        return Writer(target, lambda k, path: ["convert", f"{given}/{k}.onnx", path, "--no-verify", *options])

    def done(verb: str, target: str, *options: str) -> Writer:
        return Writer(target, lambda k, path: [verb, f"{given}/{k}.onnx", path, "--no-verify", *options])

    def quantized(target: str, *options: str) -> Writer:
        def arguments(k: str, path: str) -> list[str]:
            # Elapsed times differ from run to run and are part of a report: two runs would not write equal bytes.
            fixed = ["--calibration", f"{given}/{k}.npz", "--preset", "fast", "--no-verify", "--no-latency"]
            return ["quantize", f"{given}/{k}.onnx", path, *fixed, *options]

        return Writer(target, arguments)

    def checkpoint(target: str, *options: str) -> Writer:
        return Writer(target, lambda k, path: ["convert", f"{given}/{k}-checkpoint", path, "--no-verify", *options])

    def shown(target: str) -> Writer:
        return Writer(target, lambda k, path: ["report", f"{given}/{k}.onnx", "-o", path])

    found = {
        "convert .onnx": converted("m.onnx"),
        "convert .onnx + .data": converted("m.onnx", "--external-data"),
        "convert .xml": converted("m.xml"),
        "convert .pnnx --code": converted("m.pnnx.param", "--code"),
        "convert .ncnn": converted("m.ncnn.param"),
        "convert .prototxt": converted("m.prototxt"),
        "convert .caffemodel": converted("m.caffemodel"),
        "convert .tflite": converted("m.tflite"),
        "convert .graphport": converted("m.graphport"),
        "convert .nnef.tgz": converted("m.nnef.tgz"),
        "convert .nnef.tar": converted("m.nnef.tar"),
        "convert NNEF folder": converted("folder"),
        "convert .pt2": converted("m.pt2"),
        "convert checkpoint genai": checkpoint("folder", "--layout", "genai"),
        "convert checkpoint .xml": checkpoint("m.xml"),
        "convert tract .tgz": converted("t.nnef.tgz", "--flavour", "tract"),
        "simplify .xml": done("simplify", "m.xml"),
        "prepare": done("prepare", "m.onnx"),
        "cut .xml": done("cut", "m.xml", "--to", "r"),
        "cast .xml": done("cast", "m.xml", "--to", "float16"),
        "edit": done("edit", "m.onnx", "--rename", "y=z"),
        "merge": Writer(
            "m.onnx", lambda k, path: ["merge", f"{given}/{k}.onnx", f"{given}/{k}2.onnx", path, "--no-verify"]
        ),
        "quantize .onnx": quantized("m.onnx"),
        "quantize .ncnn + table": quantized("m.ncnn.param", "--target", "ncnn"),
        "quantize .tflite": quantized("m.tflite", "--target", "tflite"),
        "statistics": Writer(
            "s.npz",
            lambda k, path: [*quantized("").arguments(k, f"{given}/made.onnx"), "--resume", path],
            starts_without_file=True,
        ),
        "outputs of run": Writer("y.npz", lambda k, path: ["run", f"{given}/{k}.onnx", "--outputs", path]),
        "outputs of expr": Writer(
            "y.npz", lambda k, path: ["expr", "add(@0,1)", "--inputs", f"{given}/{k}.npz", "--outputs", path]
        ),
        "proof": Writer("p.json", lambda k, path: ["verify", f"{given}/{k}.onnx", f"{given}/{k}.xml", "--proof", path]),
        "convert --proof": Writer(
            "p.json", lambda k, path: ["convert", f"{given}/{k}.onnx", f"{given}/made.xml", "--proof", path]
        ),
        "quantize --report": Writer(
            "r.html", lambda k, path: [*quantized("").arguments(k, f"{given}/made.onnx"), "--report", path]
        ),
        "convert --report": Writer(
            "r.html", lambda k, path: ["convert", f"{given}/{k}.onnx", f"{given}/made.xml", "--report", path]
        ),
        "fmt": Writer("m.nnef", lambda _, path: ["fmt", path]),
    }
    return found | {f"report {ending}": shown(f"r{ending}") for ending in (".html", ".svg", ".json", ".csv", ".md")}


_CHECKPOINT = Path(__file__).parent.parent / "tests" / "formats" / "checkpoint" / "models" / "llama"


def _copy_checkpoint(folder: Path, scale: float) -> None:
    """Copy a checkpoint whose weights and tokens depend on `scale`, which is 1 or 2."""
    folder.mkdir()
    config = (_CHECKPOINT / "config.json").read_text(encoding="utf-8")
    config = config.replace('"bos_token_id": 1', f'"bos_token_id": {round(scale)}')
    (folder / "config.json").write_text(config, encoding="utf-8")
    data = bytearray((_CHECKPOINT / "model.safetensors").read_bytes())
    if scale > 1:
        for place in range(8 + int.from_bytes(data[:8], "little") + 1, len(data), 2):
            data[place] ^= 0x80  # the signs of bfloat16 weights
    (folder / "model.safetensors").write_bytes(data)


def _inputs(folder: Path) -> None:
    """Write the inputs `a` and `b`: networks that differ in weights, samples, networks to merge, OpenVINO files."""
    import numpy as np

    import graphport as gp
    from tests.models import model, node, typed

    for name, scale in (("a", 1.0), ("b", 2.0)):
        weights = {"w": np.full((64, 3, 3, 3), scale, np.float32), "v": np.full((8, 64), scale, np.float32)}
        nodes = [
            node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["r"]),
            node("GlobalAveragePool", ["r"], ["p"]),
            node("Flatten", ["p"], ["f"]),
            node("Gemm", ["f", "v"], ["y"], transB=1),
        ]
        first = model(nodes, [typed("x", [1, 3, 8, 8])], [typed("y", [1, 8])], weights)
        second = model(
            [node("Gemm", ["y", "u"], ["z"], transB=1)],
            [typed("y", [1, 8])],
            [typed("z", [1, 2])],
            {"u": np.full((2, 8), scale, np.float32)},
        )
        (folder / f"{name}.onnx").write_bytes(first.SerializeToString())
        (folder / f"{name}2.onnx").write_bytes(second.SerializeToString())
        np.savez(folder / f"{name}.npz", x=np.linspace(-scale, scale, 2 * 192, dtype=np.float32).reshape(2, 3, 8, 8))
        gp.convert(folder / f"{name}.onnx", folder / f"{name}.xml", verify=False)
        _copy_checkpoint(folder / f"{name}-checkpoint", scale)
        text = f"version 1.0;\ngraph g(x)->(y){{x=external(shape=[1]);y={name}lu(x);}}\n".replace("alu", "relu")
        (folder / f"{name}.nnef").write_text(text.replace("blu", "tanh"), encoding="utf-8")


class Trial:
    """Runs commands in forked child processes; the preloaded library counts their system calls below a folder."""

    def __init__(self, home: Path) -> None:
        from graphport.cli.main import main

        self.home = home
        self.given = home / "given"
        self.work = home / "work"
        self.output = home / "output"
        self.given.mkdir()
        self.work.mkdir()
        self.shim = ctypes.CDLL(None)
        self.main = main
        _inputs(self.given)

    def reset(self, keep: Path | None = None) -> None:
        """Empty the output folder, or restore it from `keep`."""
        shutil.rmtree(self.work)
        if keep is None:
            self.work.mkdir()
        else:
            shutil.copytree(keep, self.work)

    def command(self, arguments: list[str], number: int = -1, action: int = 0) -> tuple[int, int]:
        """Run a command with `action` injected at call `number`. Return its exit code and its number of calls."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            code = INTERNAL_ERROR
            try:
                os.close(read)
                for stream, path in ((1, os.devnull), (2, str(self.output))):
                    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                    os.dup2(handle, stream)
                sys.argv = ["graphport", *arguments]
                self.shim.faults_set(number, action, os.fsencode(self.work))
                try:
                    self.main()
                    code = 0
                except SystemExit as end:
                    code = end.code if isinstance(end.code, int) else int(end.code is not None)
                calls = self.shim.faults_count()
                self.shim.faults_set(-1, 0, b"")
                os.write(write, str(calls).encode())
            except BaseException as error:  # noqa: BLE001  the search is for unexpected exceptions
                os.write(2, repr(error).encode())
            finally:
                os._exit(code)
        os.close(write)
        with os.fdopen(read) as counted:
            calls = int(counted.read() or 0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), calls

    def list_files(self, *, is_all: bool = False) -> dict[str, bytes]:
        """Return the content of each output file by name; names that begin with a dot only if `is_all`."""
        found = {str(path.relative_to(self.work)): path for path in sorted(self.work.rglob("*"))}
        return {
            name: path.read_bytes() if path.is_file() else b""
            for name, path in found.items()
            if is_all or not name.startswith(".")
        }

    def warm(self, known: dict[str, Writer]) -> None:
        """Run each command once in this process, so that child processes inherit the imported modules."""
        arguments = sys.argv
        for writer in known.values():
            self.reset()
            self._place(writer, "a")
            if writer.target.endswith((".npz", ".json")) or writer.arguments("a", "")[0] in ("quantize", "cast"):
                continue  # multi-threaded; threads do not survive a fork
            sys.argv = ["graphport", *writer.arguments("a", str(self.work / writer.target))]
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
                contextlib.suppress(SystemExit),
            ):
                self.main()
        sys.argv = arguments
        gc.freeze()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        # A background process starts with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _place(self, writer: Writer, key: str) -> None:
        """Copy the input of a command that changes its file in place."""
        if writer.target.endswith(".nnef"):
            shutil.copy(self.given / f"{key}.nnef", self.work / writer.target)

    def run(self, writer: Writer, faults: list[str], most: int) -> dict[str, Table]:
        """Inject every fault at the calls of a writer. Return the results by fault.

        Raises:
            RuntimeError: the command fails or writes nothing without a fault.
        """
        path = str(self.work / writer.target)
        keep = self.home / "keep"
        shutil.rmtree(keep, ignore_errors=True)
        is_in_place = writer.target.endswith(".nnef")
        self.reset()
        self._place(writer, "b")
        if not is_in_place:
            code, _ = self.command(writer.arguments("a", path))
            if code:
                raise RuntimeError(self.output.read_text("utf-8", "replace"))
            if writer.starts_without_file:
                self.reset()
        old = self.list_files()
        shutil.copytree(self.work, keep)
        code, calls = self.command(writer.arguments("b", path))
        new = self.list_files()
        if code or not calls or (old == new):
            raise RuntimeError(f"{code}, {calls} calls, {self.output.read_text('utf-8', 'replace')}")
        step = max(1, calls // most)
        points = sorted({*range(1, calls + 1, step), *range(max(1, calls - most // 3), calls + 1)})
        found = {fault: Table() for fault in faults}
        for fault, table in found.items():
            for number in points:
                self.reset(keep)
                self._inject(writer, number, fault, (old, new), table)
        return found

    def _read(self, path: Path) -> str:
        """Return the output of `check` for the graph at `path`."""
        self.command(["check", str(path)])
        return self.output.read_text("utf-8", "replace")

    def _inject(
        self, writer: Writer, number: int, fault: str, states: tuple[dict[str, bytes], dict[str, bytes]], table: Table
    ) -> None:
        path = self.work / writer.target
        code, _ = self.command(writer.arguments("b", str(path)), number, FAULTS[fault])
        text = self.output.read_text("utf-8", "replace")
        old, new = states
        found = self.list_files()
        state = _state(found, old, new)
        table.counts[state] += 1
        is_refused = FAULTS[fault] > 0
        reasons = {
            state: state == "MIXED" or (state == "part" and fault != "kill"),
            "raised": fault != "kill" and (code == INTERNAL_ERROR or code < 0 or "Traceback" in text),
            "NOT REPORTED": state == "part" and "IO0012" not in self._read(path),
            "silent": is_refused and code == 0 and state == "old",
            f"exit code {code}": is_refused and code not in (0, 1),
            "no file is named": is_refused and code == 1 and self.work.name not in text,
        }
        if any(name.startswith(".") for name in self.list_files(is_all=True)):
            table.counts["left over"] += 1
            self.command(writer.arguments("b", str(path)))
            reasons["UNSWEPT"] = (
                any(name.startswith(".") for name in self.list_files(is_all=True)) or self.list_files() != new
            )
        for reason, holds in reasons.items():
            if holds:
                table.counts[reason] += reason != "MIXED"
                table.bad.append(f"{fault} at {number}: {reason} {sorted(found)} {text[-300:]}")


def _state(found: dict[str, bytes], old: dict[str, bytes], new: dict[str, bytes]) -> str:
    """Return `old` or `new` if the files equal that state, `part` if the graph file is missing, otherwise `MIXED`."""
    if found in (old, new):
        return "new" if found == new else "old"
    is_graph_missing = any(name.endswith(_GRAPHS) for name in set(new) - set(found)) or not found
    return "part" if is_graph_missing else "MIXED"


def main() -> int:
    """Run with the options of the command line. Return 1 if there is a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", nargs="*", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--only", default="", help="writers with that in their name")
    parser.add_argument("--most", type=int, default=1 << 20, help="points of each writer")
    chosen = parser.parse_args()
    shim = os.environ.get("LD_PRELOAD", "")
    if "faults" not in shim:
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            shim = f"{folder}/faults.so"
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", shim, str(SHIM), "-ldl"], check=True)  # noqa: S603, S607
            preloaded = {**os.environ, "LD_PRELOAD": shim}
            return subprocess.run([sys.executable, *sys.argv], check=False, env=preloaded).returncode  # noqa: S603
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(__file__).parent.parent))
    sums: dict[str, Table] = {fault: Table() for fault in chosen.fault}
    with tempfile.TemporaryDirectory(prefix="faulted-") as folder:
        trial = Trial(Path(folder))
        known = {name: each for name, each in writers(trial.given).items() if chosen.only in name}
        trial.warm(known)
        for name, writer in known.items():
            for fault, table in trial.run(writer, chosen.fault, chosen.most).items():
                sums[fault].counts += table.counts
                sums[fault].bad += table.bad
                print(f"{name:24} {fault:8} {_format_table(table)}", flush=True)
    for fault, table in sums.items():
        print(f"all {len(known):2} writers           {fault:8} {_format_table(table)}")
    return int(any(table.bad for table in sums.values()))


def _format_table(table: Table) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in sorted(table.counts.items()))
    return "\n    ".join([counts, *table.bad[:3]])


if __name__ == "__main__":
    sys.exit(main())
