"""Programs run under a pseudo-terminal, and models whose names hold everything that a terminal obeys."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HOSTILE = "".join(
    [
        *(
            "\x1b]52;c;aGk=\x07",
            "\x1b[8m",
            "\x1b[2J",
            "\x1bc",
            "\x00"[1:],
            "\x08",
            "\x7f",
            "\r",
            "\nFORGED",
            "\v",
            "\f",
        ),
        *("\x85", "\x9b2J", "\x9d0;t\x9c", "\u202e", "\u202a", "\u2066", "\u2069", "\u200b", "\u200d", "\u200f"),
        *("\u2028", "\u2029", "\ufeff", "\u00ad", "\U000e0041", "\u061c"),
    ]
)
"""Control sequences, C0, C1, DEL, separators, and characters that take no space or turn the direction of writing."""
OWN = re.compile(r"\x1b\[(?:[0-7]|3[0-79]|9[0-7]|4[09]|;|22)*m|\r\x1b\[K|\r\n")
"""Styles without concealed text, a line of progress that is removed, and ends of lines as a terminal has them."""
OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def hostile_model(path: Path, name: str = HOSTILE) -> Path:
    """An ONNX model with `name` in every name, text and symbol."""
    w = numpy_helper.from_array(np.eye(4, dtype=np.float32), f"{name}w")
    nodes = [
        helper.make_node("MatMul", [f"{name}x", f"{name}w"], [f"{name}h"], name=f"{name}matmul", doc_string=name),
        helper.make_node("Relu", [f"{name}h"], [f"{name}y"], name=f"{name}relu"),
    ]
    graph = helper.make_graph(
        nodes,
        f"{name}graph",
        [helper.make_tensor_value_info(f"{name}x", TensorProto.FLOAT, [f"{name}n", 4])],
        [helper.make_tensor_value_info(f"{name}y", TensorProto.FLOAT, [f"{name}n", 4])],
        [w],
        doc_string=name,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10, producer_name=name)
    model.metadata_props.add(key=name, value=name)
    path.write_bytes(model.SerializeToString())
    return path


def opaque_model(path: Path, name: str = HOSTILE) -> Path:
    """An ONNX model with an operator and a domain that nobody knows, called by `name`."""
    node = helper.make_node(f"{name}op", [f"{name}x"], [f"{name}y"], name=name, domain=f"{name}domain")
    setattr_ = helper.make_attribute(f"{name}attribute", name)
    node.attribute.append(setattr_)
    values = [helper.make_tensor_value_info(f"{name}{each}", TensorProto.FLOAT, [f"{name}n"]) for each in "xy"]
    graph = helper.make_graph([node], name, values[:1], values[1:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(f"{name}domain", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    return path


def broken_model(path: Path, name: str = HOSTILE) -> Path:
    """An ONNX model that reads a value which nothing computes."""
    node = helper.make_node("Add", [f"{name}x", f"{name}missing"], [f"{name}y"], name=name)
    values = [helper.make_tensor_value_info(f"{name}{each}", TensorProto.FLOAT, [2]) for each in "xy"]
    graph = helper.make_graph([node], name, values[:1], values[1:])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    return path


def run_on_terminal(arguments: list[str], folder: Path, seconds: float = 120) -> str:
    """What a run of graphport prints on a terminal that is standard output and error."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "GRAPHPORT_PATIENCE": "0"}
    command = [sys.executable, "-m", "graphport", *arguments]
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, cwd=folder, env=environment, start_new_session=True
    )
    os.close(follower)
    end = time.monotonic() + seconds
    pieces: list[bytes] = []
    while time.monotonic() < end:
        ready, _, _ = select.select([leader], [], [], 0.2)
        if not ready:
            if process.poll() is not None:
                break
            continue
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
    if process.poll() is None and time.monotonic() >= end:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    os.close(leader)
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def obeyed(text: str) -> list[str]:
    """Everything in `text` that a terminal obeys or does not show, and lines that a name has begun."""
    rest = OWN.sub("\n", text)
    return [*map(ascii, OBEYED.findall(rest)), *(line for line in rest.split("\n") if line.startswith("FORGED"))]
