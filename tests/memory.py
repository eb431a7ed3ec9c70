"""How much memory conversions and simplifying take, measured in processes of their own."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from onnx import TensorProto, helper

from graphport.formats.onnx.container.wire import head

MIB = 1 << 20
LIMIT = 200 * MIB
"""What a tensor file of 1 GB may take."""

_PROGRAM = """
import json, sys, threading, warnings

def status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field + ":"))

def watch():
    while not done.wait(0.002):
        peak[0] = max(peak[0], status("RssAnon"))

peak, done = [0], threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
try:
    import graphport as gp

    source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    findings = gp.check(source)
    shapes = {name: str(fact) for name, fact in gp.load(source).shapes().items()}
    gp.convert(source, target, verify=False, **options)
finally:
    done.set()
    watcher.join()
print(json.dumps({"anonymous": peak[0], "resident": status("VmHWM"), "findings": len(findings), "shapes": shapes}))
"""
"""Checks a model, infers its shapes and converts it; tells the peaks of both kinds of memory.

`VmHWM` is what `ru_maxrss` counts, but for this process alone: `ru_maxrss` remembers the one that started it, too.
"""


class Peaks(NamedTuple):
    """Bytes: of memory that no file backs, and of all pages that were in memory."""

    anonymous: int
    resident: int
    shapes: dict[str, str]


def large_model(folder: Path, rows: int, columns: int) -> Path:
    """An NNEF folder with a matrix product whose weights are a tensor file with a hole in place of the numbers."""
    folder.mkdir()
    (folder / "graph.nnef").write_text(
        "version 1.0;\n\n"
        "graph large(x) -> (y)\n{\n"
        f"    x = external(shape = [1, {rows}]);\n"
        f"    w = variable(shape = [{rows}, {columns}], label = 'w');\n"
        "    h = matmul(x, w);\n"
        "    y = relu(h);\n"
        "}\n"
    )
    size = rows * columns * 4
    header = struct.pack("<2sBBII8IIHH", b"\x4e\xef", 1, 0, size, 2, rows, columns, *[0] * 6, 32, 0, 0)
    with (folder / "w.dat").open("wb") as file:
        file.write(header.ljust(128, b"\0"))
        file.truncate(128 + size)
    return folder


def peaks(source: Path, target: Path, **options: object) -> Peaks:
    """What it takes to check `source`, infer its shapes and convert it without verification."""
    command = [sys.executable, "-W", "error", "-c", _PROGRAM, str(source), str(target), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["findings"] == 0
    return Peaks(told["anonymous"], told["resident"], told["shapes"])


def large_onnx(path: Path, layers: int, channels: int, *, is_external: bool = False) -> Path:
    """A model of convolutions, each with a normalization behind it, whose weights are holes in a file.

    All elements but the first of each weight are 0, and the file takes little room: only its length is that of the
    weights.
    """
    shape = [channels, channels, 3, 3]
    size = channels * channels * 9 * 4
    nodes, small, large = [], [], []
    value = "x"
    for n in range(layers):
        statistics = [f"{kind}{n}" for kind in ("scale", "shift", "mean", "variance")]
        small += [helper.make_tensor(name, TensorProto.FLOAT, [channels], [1.0] * channels) for name in statistics]
        large.append(TensorProto(name=f"w{n}", data_type=TensorProto.FLOAT, dims=shape))
        nodes.append(helper.make_node("Conv", [value, f"w{n}"], [f"c{n}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("BatchNormalization", [f"c{n}", *statistics], [f"b{n}"]))
        nodes.append(helper.make_node("Relu", [f"b{n}"], [f"r{n}"]))
        value = f"r{n}"
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", channels, 8, 8])
    graph = helper.make_graph(
        nodes, "large", [helper.make_value_info("x", kind)], [helper.make_value_info(value, kind)], small
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if is_external:
        _write_beside(path, model, large, size)
    else:
        _write_inside(path, model, large, size)
    return path


def _write_beside(path, model, tensors, size):
    for n, tensor in enumerate(tensors):
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": f"{path.name}.data", "offset": str(n * size), "length": str(size)}.items():
            tensor.external_data.add(key=key, value=value)
    model.graph.initializer.extend(tensors)
    path.write_bytes(model.SerializeToString())
    with path.with_name(f"{path.name}.data").open("wb") as file:
        file.truncate(len(tensors) * size)
        for n in range(len(tensors)):
            file.seek(n * size)
            file.write(struct.pack("<f", (n + 1) * 1e-6))


def _write_inside(path, model, tensors, size):
    rest = model.graph.SerializeToString()
    heads = []
    for tensor in tensors:
        said = tensor.SerializeToString() + head(TensorProto.RAW_DATA_FIELD_NUMBER, size)
        heads.append(head(model.graph.INITIALIZER_FIELD_NUMBER, len(said) + size) + said)
    length = len(rest) + sum(map(len, heads)) + len(heads) * size
    model.ClearField("graph")
    with path.open("wb") as file:
        file.write(model.SerializeToString() + head(model.GRAPH_FIELD_NUMBER, length) + rest)
        for n, said in enumerate(heads):
            file.write(said + struct.pack("<f", (n + 1) * 1e-6))
            file.seek(size - 4, 1)
        file.truncate()


def watched(*arguments: str | Path) -> Peaks:
    """The peaks of the command line with these arguments, which has to succeed."""
    command = [sys.executable, "-W", "error", "-c", "from graphport.cli import main; main()", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        anonymous = resident = 0
        while process.poll() is None:
            found = _status(process.pid)
            anonymous = max(anonymous, found.get("RssAnon", 0))
            resident = max(resident, found.get("VmHWM", 0))
            time.sleep(0.002)
        told = process.stdout.read() if process.stdout else ""
    assert process.returncode == 0, told
    return Peaks(anonymous, resident, {})


def _status(number: int) -> dict[str, int]:
    """Memory of a process in bytes; nothing of one that has ended."""
    try:
        lines = Path(f"/proc/{number}/status").read_text(encoding="ascii").splitlines()
    except ProcessLookupError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.endswith(" kB")}
