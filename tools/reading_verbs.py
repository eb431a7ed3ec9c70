"""Run every verb and function that reads models on hostile folders, and report each change that it makes.

    python tools/reading_verbs.py --folders 1000 --seed 1

Each folder holds a small model of some format and files that an attacker may add: journals in every form, temporary
files, links, pipes, devices, archives with path traversal, Python modules named like runtimes, a cache folder. An audit
hook, in this process and in those of runtimes, records each event that changes a file outside of the folder for
temporary files (open to write, rename, remove, mkdir, chmod, link, truncate ...) or starts a program that is not a
runtime. The folders are also compared before and after, since native code bypasses the audit hook. Exit code 1 if there
is a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import io
import json
import os
import random
import shutil
import signal
import stat
import struct
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzing.checkpoints import GGUF, gguf_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERNAL_ERROR = 3
"""The exit code of BUG0001."""
INTERNAL_ERRORS = (f"exit code {INTERNAL_ERROR}", "raised")
HOOK = """
import os, sys

_CHANGING = {
    "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate",
    "os.utime", "os.setxattr", "os.removexattr", "shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree",
    "shutil.chown", "os.system", "os.exec", "os.posix_spawn", "os.startfile", "socket.connect", "socket.bind",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_RUNTIME = "graphport.core.child_process"
STATE = {"is_on": True, "found": None}


def _is_allowed(path, folder=-1):
    if isinstance(path, int):
        return True  # a file that is open already: its opening was seen
    text = os.fsdecode(path)
    if folder >= 0:
        text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
    real = os.path.realpath(text)
    temporary = os.environ["AUDIT_TEMPORARY"]
    return real == temporary or real.startswith(temporary + os.sep) or real in ("/dev/null", "/dev/tty", "/dev/shm")


def hook(event, arguments):
    if not STATE["is_on"]:
        return
    if event == "open":
        path, mode, flags = arguments
        is_writing = any(c in mode for c in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITING)
        if not is_writing or _is_allowed(path):
            return
    elif event == "subprocess.Popen":
        if _RUNTIME in list(arguments[1]):
            return
    elif event not in _CHANGING:
        return
    elif event != "os.system":
        folder = arguments[-1] if len(arguments) > 1 and isinstance(arguments[-1], int) else -1
        if _is_allowed(arguments[0], folder):
            return
    STATE["is_on"] = False
    text = f"{event} {arguments!r}"[:300]
    if STATE["found"] is not None:
        STATE["found"].append(text)
    with open(os.environ["AUDIT_LOG"], "a") as log:
        log.write(text + "\\n")
    STATE["is_on"] = True
"""
TESTS = Path(__file__).parent.parent / "tests" / "formats"
COPIED = {
    "keras": ("keras/cases/cnn_sequential.keras", "m.keras"),
    "keras h5": ("keras/cases/cnn_sequential.h5", "m.h5"),
    "saved model": ("tensorflow/cases/k2_cnn.k2.sm", "m"),
    "torchscript": ("pytorch/torchscript/cases/network_frozen.pt", "m.pt"),
    "stablehlo": ("stablehlo/cases/network.mlir.bc", "m.mlir.bc"),
    "checkpoint": ("checkpoint/models/llama", "m"),
    "pt2": ("pytorch/pt2/core_aten/part0.pt2", "m.pt2"),
}
"""Models of formats without a writer: a file or folder of the tests, and its name."""
FOREIGN = "import os; open(os.environ['AUDIT_OWNED'], 'a').write(__name__ + chr(10))\n"


def seeds(folder: Path) -> dict[str, str]:
    """Write a small model in each format to a separate folder. Return the name of its graph file by folder name."""
    import numpy as np

    import graphport as gp
    from tests.models import model, node, typed

    constants = {"w": np.full((3, 2, 1, 1), 0.5, np.float32), "b": np.ones(3, np.float32)}
    nodes = [node("Conv", ["x", "w", "b"], ["c"]), node("Sigmoid", ["c"], ["y"])]
    made = gp.from_onnx(model(nodes, [typed("x", [1, 2, 4, 4])], [typed("y", [1, 3, 4, 4])], constants))
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "onnx": ("m.onnx", {}),
        "onnx with data": ("m.onnx", {"external_data": True}),
        "openvino": ("m.xml", {}),
        "pnnx": ("m.pnnx.param", {}),
        "ncnn": ("m.ncnn.param", {}),
        "prototxt": ("m.prototxt", {}),
        "caffemodel": ("m.caffemodel", {}),
        "tflite": ("m.tflite", {}),
        "archive": ("m.graphport", {}),
        "nnef": ("m.nnef.tgz", {}),
        "nnef folder": ("m", {}),
    }
    for name, (graph, options) in kinds.items():
        (folder / name).mkdir()
        gp.save(made, folder / name / graph, **options)
    for name, (source, graph) in COPIED.items():
        (folder / name).mkdir()
        copy = shutil.copytree if (TESTS / source).is_dir() else shutil.copyfile
        copy(TESTS / source, folder / name / graph)
    (folder / "gguf").mkdir()
    (folder / "gguf" / GGUF).write_bytes(gguf_files()[0])
    # A pair of elementwise operators that a backend with compiled kernels fuses.
    text = model([node("Add", ["x", "x"], ["a"]), node("Exp", ["a"], ["y"])], [typed("x", [2])], [typed("y", [2])])
    fused = gp.from_onnx(text)
    (folder / "expression").mkdir()
    gp.save(fused, folder / "expression" / "m.graphport")
    copied = {name: graph for name, (_, graph) in COPIED.items()}
    return {name: graph for name, (graph, _) in kinds.items()} | copied | {"expression": "m.graphport", "gguf": GGUF}


class Stranger:
    """Adds an attacker's files to the folder of a model; each public method adds one kind."""

    def __init__(self, folder: Path, graph: str, draw: random.Random) -> None:
        self.folder, self.graph, self.draw = folder, folder / graph, draw
        self.environment: dict[str, str] = {}

    def _write(self, path: Path, text: str) -> None:
        """Write a new file, or overwrite a regular one: opening a pipe would block."""
        if path.is_file() or not os.path.lexists(path):
            with contextlib.suppress(OSError):
                path.write_text(text)

    def _part(self, name: str) -> Path:
        return self.folder / f".{name}.{self.draw.choice([1, 4194305, 10**12])}-{self.draw.getrandbits(32):08x}.part"

    def _victim(self) -> str:
        victims = ["notes.txt", ".bashrc", "project", "../outside.txt", self.graph.name, ".git/hooks/x", "/etc/passwd"]
        return self.draw.choice(victims)

    @property
    def _marker(self) -> Path:
        return self.folder / f".{self.graph.name}.moves"

    def old_journal(self) -> None:
        moves = []
        for _ in range(self.draw.randint(1, 3)):
            part = self._part(self.graph.name)
            part.write_text("theirs")
            moves.append([part.name, self._victim()])
        if os.path.lexists(self._marker):
            return
        self._marker.write_text(json.dumps(moves))
        self._marker.chmod(self.draw.choice([0o600, 0o644]))

    def new_journal(self) -> None:
        """Add a journal with its record, in a cache folder that is distributed with the model."""
        root = self.folder / "cache" / "graphport" / "journals"
        root.mkdir(parents=True, exist_ok=True)
        key = f"{self.draw.getrandbits(128):032x}"
        part, aside = self._part(self.graph.name), self._part(self.graph.name)
        part.write_text("theirs")
        target = self._victim()
        victim = self.folder / target
        number = victim.lstat().st_ino if os.path.lexists(victim) else None
        moves = [[part.name, target, aside.name, part.lstat().st_ino, number]]
        name = hashlib.sha256(os.fsencode(str(self.folder.resolve() / self._marker.name))).hexdigest()
        stated = {"id": key, "folder": self.folder.stat().st_ino, "moves": moves}
        if not self._marker.is_dir() or self._marker.is_symlink():
            self._marker.unlink(missing_ok=True)
            self._marker.write_text(json.dumps({"id": key, "moves": [each[:3] for each in moves]}))
            self._marker.chmod(0o600)
        (root / f"{name}.json").write_text(json.dumps(stated))
        (root / f"{name}.json").chmod(0o600)
        root.chmod(0o700)
        self.environment["XDG_CACHE_HOME"] = self.draw.choice([str(self.folder / "cache"), "cache", str(self.folder)])

    def new_journal_of_a_missing_graph(self) -> None:
        self.new_journal()
        self.missing_graph()

    def marker_of_another_kind(self) -> None:
        if os.path.lexists(self._marker):
            return
        match self.draw.choice(["pipe", "folder", "link", "large", "nested", "bytes"]):
            case "pipe":
                os.mkfifo(self._marker)
            case "folder":
                self._marker.mkdir()
            case "link":
                self._marker.symlink_to(self.draw.choice(["notes.txt", "/dev/zero", self._marker.name]))
            case "large":
                self._marker.write_text("[" + " " * (1 << 17))
            case "nested":
                self._marker.write_text("[" * 50_000)
            case _:
                self._marker.write_bytes(b"\xff\0" * 99)

    def temporary_files(self) -> None:
        for name in (self.graph.name, "notes.txt"):
            self._part(name).write_text("theirs")
            inner = self._part(name)
            inner.mkdir(exist_ok=True)
            (inner / self.graph.name).write_text("theirs")

    def modules(self) -> None:
        """Add Python modules that a process started in this folder could import in place of others."""
        names = ["onnxruntime", "numpy", "ncnn", "openvino", "tract", "json", "sitecustomize", "ctypes", "graphport"]
        for name in names:
            self._write(self.folder / f"{name}.py", FOREIGN)
        (self.folder / "ai_edge_litert").mkdir(exist_ok=True)
        (self.folder / "ai_edge_litert" / "__init__.py").write_text(FOREIGN)

    def links(self) -> None:
        for path in list(self.folder.iterdir()):
            if path.is_file() and self.draw.random() < 0.4:
                outside = self.folder.parent / f"outside-{path.name}"
                with contextlib.suppress(OSError):
                    path.rename(outside)
                    path.symlink_to(self.draw.choice([str(outside), outside.name, f"../{outside.name}"]))

    def another_kind_of_file(self) -> None:
        files = [path for path in self.folder.iterdir() if path.is_file() and not path.is_symlink()]
        path = self.draw.choice(files or [self.folder / "more"])
        path.unlink(missing_ok=True)
        match self.draw.choice(["pipe", "zero", "loop", "folder", "empty"]):
            case "pipe":
                os.mkfifo(path)
            case "zero":
                path.symlink_to("/dev/zero")
            case "loop":
                path.symlink_to(path.name)
            case "folder":
                path.mkdir()
            case _:
                path.write_bytes(b"")

    def missing_graph(self) -> None:
        if self.graph.is_dir() and not self.graph.is_symlink():
            shutil.rmtree(self.graph)
        else:
            self.graph.unlink(missing_ok=True)

    def damage(self) -> None:
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.stat().st_size and self.draw.random() < 0.6:
                data = bytearray(path.read_bytes())
                for _ in range(self.draw.randint(1, 8)):
                    data[self.draw.randrange(len(data))] = self.draw.randrange(256)
                path.write_bytes(data[: self.draw.randint(1, len(data))] if self.draw.random() < 0.3 else data)

    def evil_members(self) -> None:
        evil = ["../../evil", "/tmp/evil", "..\\evil", "notes.txt", "a/../../evil", "\x1b[31m", "new\nline", "C:evil"]  # noqa: S108  it is not opened
        if not self.graph.is_file():
            return
        if self.graph.suffix == ".graphport" and zipfile.is_zipfile(self.graph):
            # The directory of a mutated archive cannot always be rewritten.
            with contextlib.suppress(struct.error, zipfile.BadZipFile), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with zipfile.ZipFile(self.graph, "a") as archive:
                    for name in self.draw.sample(evil, 3):
                        archive.writestr(name, b"theirs")
        elif self.graph.suffix == ".tgz":
            with tarfile.open(self.graph.with_name("evil.nnef.tgz"), "w:gz") as archive:
                for name in [*self.draw.sample(evil, 3), "graph.nnef"]:
                    member = tarfile.TarInfo(name)
                    member.type = self.draw.choice([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
                    member.linkname = self._victim()
                    archive.addfile(member, io.BytesIO())
            (self.folder / "evil.nnef.tgz").replace(self.graph)

    def strange_name(self) -> None:
        stem = self.draw.choice(["new\nline", "\x1b]0;x\x07", "-rf", "$(touch pwn)", " ", "%n", "é" * 60, "--help"])
        renamed = self.folder / self.graph.name.replace("m", stem, 1)
        if os.path.lexists(self.graph) and not os.path.lexists(renamed):
            self.graph.rename(renamed)
            self.graph = renamed

    def read_only(self) -> None:
        self.folder.chmod(0o555)

    ALL = (
        old_journal,
        new_journal,
        new_journal_of_a_missing_graph,
        marker_of_another_kind,
        temporary_files,
        modules,
        links,
        another_kind_of_file,
        missing_graph,
        damage,
        evil_members,
        strange_name,
        read_only,
    )


def hostile(home: Path, source: Path, graph: str, draw: random.Random) -> Stranger:
    """Create a folder with a model and an attacker's files."""
    folder = home / "downloads"
    shutil.copytree(source, folder)
    (folder / "notes.txt").write_text("mine")
    (folder / ".bashrc").write_text("mine")
    (folder / "project").mkdir()
    (folder / "project" / "work.txt").write_text("mine")
    (folder / ".git" / "hooks").mkdir(parents=True)
    (home / "outside.txt").write_text("mine")
    stranger = Stranger(folder, graph, draw)
    for put in draw.sample(Stranger.ALL, draw.randint(1, 4)):
        put(stranger)
    return stranger


def state(home: Path) -> dict[str, tuple[Any, ...]]:
    """Return mode, inode, size, modification time and content of each path below a folder."""
    found: dict[str, tuple[Any, ...]] = {}
    for base, folders, files in os.walk(home):
        for name in (*folders, *files):
            path = Path(base) / name
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) and status.st_size < 1 << 20 else b""
            found[str(path)] = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, content)
    return found


def readers(graph: Path, folder: Path, *, is_whole: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield every verb and function that reads; those that start runtimes only if `is_whole`."""
    import numpy as np

    import graphport as gp
    from graphport.cli.main import main

    path = str(graph)

    def verb(*arguments: str) -> tuple[str, Callable[[], object]]:
        def call() -> object:
            sys.argv = ["graphport", *arguments]
            return main()

        return arguments[0], call

    def run() -> object:
        model = gp.load(path)
        given = {
            name: np.ones([1 if not isinstance(d, int) else d for d in fact.shape or ()], np.float32)
            for name, fact in model.inputs.items()
        }
        return [gp.run(model, given, backend=backend) for backend in ("reference", "fused")]

    yield verb("check", path)
    yield verb("shapes", "--", path)
    yield verb("inspect", path)
    yield verb("inspect", path, "--json")
    yield verb("fmt", "--check", path)
    yield verb("check", str(folder))
    yield "gp.load", lambda: gp.load(path)
    yield "gp.check", lambda: gp.check(path)
    yield "gp.inspect", lambda: gp.inspect(gp.load(path))
    yield "gp.report", lambda: gp.report(gp.load(path)).html()
    yield "gp.to_onnx", lambda: gp.to_onnx(gp.load(path))
    yield "gp.run", run
    if is_whole:
        yield verb("run", path)
        yield verb("report", path, "--format", "json")
        yield verb("compare", path, path)
        yield verb("verify", path, path)
        yield verb("bench", path, "--seconds", "0.01")
        yield verb("run", path, "--backend", "ncnn")
        yield verb("doctor")
        yield "gp.verify", lambda: gp.verify(path, path)


def read_all(folders: int, seed: int, every: int) -> Counter[str]:
    """Read `folders` generated folders. Return the counts of results and calls."""
    counts: Counter[str] = Counter()
    home = Path(os.environ["AUDIT_HOME"])
    owned, log = Path(os.environ["AUDIT_OWNED"]), Path(os.environ["AUDIT_LOG"])
    scope: dict[str, Any] = {}
    exec(HOOK, scope)  # noqa: S102  the text above, which processes of runtimes run as well
    audited = scope["STATE"]
    audited["is_on"], audited["found"] = False, []
    sys.addaudithook(scope["hook"])
    source = home / "seeds"
    source.mkdir()
    graphs = seeds(source)
    environment = dict(os.environ)
    for number in range(folders):
        draw = random.Random(f"{seed} {number}")  # noqa: S311  not used for secrets
        kind = draw.choice(list(graphs))
        place = home / f"{number}"
        place.mkdir()
        stranger = hostile(place, source / kind, graphs[kind], draw)
        os.environ.update(stranger.environment)
        os.chdir(stranger.folder)
        before = state(place)
        print(f"folder {number} ({kind})", file=sys.stderr, flush=True)
        for name, call in readers(stranger.graph, stranger.folder, is_whole=number % every == 0):
            audited["found"].clear()
            outcome = _called(call, audited)
            counts[outcome.partition(":")[0]] += 1
            counts["calls"] += 1
            after = state(place)
            changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
            reasons = [*audited["found"], *(f"changed {path}" for path in changed)]
            reasons += [f"executed {owned.read_text().split()}"] if owned.exists() else []
            reasons += [f"in a runtime: {log.read_text()}"] if log.exists() and not audited["found"] else []
            if outcome.startswith(INTERNAL_ERRORS):
                reasons.append(outcome)
            for path in (owned, log):
                path.unlink(missing_ok=True)
            before = after
            for reason in reasons:
                counts["events"] += 1
                print(f"folder {number} ({kind}), {name}: {reason}", flush=True)
        os.chdir(home)
        os.environ.clear()
        os.environ.update(environment)
        stranger.folder.chmod(0o755)
        shutil.rmtree(place)
    return counts


def _called(call: Callable[[], object], audited: dict[str, Any]) -> str:
    """Call a function with its output discarded. Return a description of the result."""
    import graphport as gp

    sink = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace", write_through=True)
    streams = sys.stdout, sys.stderr
    try:
        sys.stdout, sys.stderr = sink, sink
        audited["is_on"] = True
        call()
    except gp.DiagnosticError:
        return "diagnostics"
    except SystemExit as end:
        sink.flush()
        text = sink.buffer.getvalue().decode("utf-8", "replace")  # pyright: ignore[reportAttributeAccessIssue]
        return f"exit code {end.code or 0}" + (f": {text[-600:]}" if end.code == INTERNAL_ERROR else "")
    except Exception as error:  # noqa: BLE001  exceptions other than diagnostics are findings
        return f"raised {type(error).__name__}: {error} in {traceback.extract_tb(error.__traceback__)[-1]}"
    finally:
        audited["is_on"] = False
        sys.stdout, sys.stderr = streams
    return "returned"


def main() -> int:
    """Read with the options of the command line. Return 1 if a file was changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=10, help="verbs that start runtimes are tried on each N-th folder")
    chosen = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="reading-") as folder:
        base = Path(folder).resolve()
        temporary, home, site = base / "temporary", base / "home", base / "site"
        for each in (temporary, home, site, temporary / "cache"):
            each.mkdir()
        (site / "sitecustomize.py").write_text(HOOK + "\nsys.addaudithook(hook)\n")
        os.environ |= {
            "AUDIT_TEMPORARY": str(temporary),
            "AUDIT_HOME": str(home),
            "AUDIT_LOG": str(temporary / "log"),
            "AUDIT_OWNED": str(temporary / "owned"),
            "TMPDIR": str(temporary),
            "XDG_CACHE_HOME": str(temporary / "cache"),
            "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "GRAPHPORT_LIMITS": "proof.seconds=20",
            "GRAPHPORT_PATIENCE": "never",
        }
        sys.dont_write_bytecode = True
        tempfile.tempdir = None
        sys.path.insert(0, str(root))
        warnings.simplefilter("ignore")
        faulthandler.dump_traceback_later(120, repeat=True)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        began = time.process_time()
        counts = read_all(chosen.folders, chosen.seed, chosen.every)
        os.chdir(root)
    kinds = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()) if what not in ("calls", "events"))
    seconds = time.process_time() - began
    print(f"{chosen.folders} folders, {counts['calls']} calls ({kinds}), {seconds:.0f} s of processor time")
    print(f"{counts['events']} events outside of the temporary folder")
    return int(counts["events"] > 0)


if __name__ == "__main__":
    sys.exit(main())
