"""What options name instead of the file that they want: a pipe, a device, a folder, nothing, or any bytes."""

from __future__ import annotations

import io
import os
import pickle
import resource
import signal
from pathlib import Path

import click
import numpy as np
import pytest

import graphport as gp
from graphport.cli.main import cli
from tests.draws import spread

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits, pipes and devices as POSIX has them")

DIGITS = str(Path(gp.__file__).parent / "examples" / "digits")
QUANTIZE = f"quantize {DIGITS} out.onnx --no-verify"
COMMANDS = {
    "model": ("check {}", ".onnx"),
    "fmt": ("fmt {}", ".nnef"),
    "calibration": (f"{QUANTIZE} --preset fast --calibration {{}}", ".npz"),
    "array": (f"cast {DIGITS} out.onnx --no-verify --calibration {{}}", ".npy"),
    "settings": (f"{QUANTIZE} --settings {{}}", ".json"),
    "resume": (f"{QUANTIZE} --calibration good.npz --resume {{}}", ".npz"),
    "latency table": (f"{QUANTIZE} --calibration good.npz --latency-table {{}} --max-latency 1", ".json"),
    "perplexity": (f"{QUANTIZE} --calibration good.npz --perplexity {{}}", ".npy"),
    "inputs of run": (f"run {DIGITS} --backend reference --inputs {{}}", ".npz"),
    "inputs of compare": (f"compare {DIGITS} {DIGITS} --backend reference --inputs {{}}", ".npz"),
    "inputs of report": (f"report {DIGITS} -o out.json --inputs {{}}", ".npz"),
    "inputs of expr": ("expr add(@0,1) --inputs {}", ".npz"),
    "proof": (f"verify {DIGITS} {DIGITS} --proof {{}}", ".json"),
    "weight": (f"edit {DIGITS} out.onnx --no-verify --replace-weight conv1_filter={{}}", ".npy"),
}
"""Commands, and the ending of the file that they want."""


def _array(*, shape: tuple[int, ...], data: bytes = b"") -> bytes:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return head.getvalue() + data


GIVEN = {
    "empty": b"",
    "random": np.random.default_rng(0).bytes(3000),
    "text": "nothing, 1 2 3 \u00e4\n".encode(),
    "nested": b"[" * 200_000,
    "nested objects": b'{"a":' * 100_000,
    "wrong types": b'{"version": [], "files": {"a": {"sha256": []}, "b": 3}, "layers": 5, "ops": [1]}',
    "archive": b"PK\x03\x04" + bytes(200),
    "array of 2^40": _array(shape=(1 << 40,)),
    "array of -1": _array(shape=(-1, 4)),
    "array cut off": _array(shape=(100,), data=bytes(40)),
    "pickle": pickle.dumps([1]),
}


def _code(command: str, given: str) -> int:
    """The exit code of a command; our own mistakes are raised, as in all tests."""
    try:
        return int(cli.main(command.format(given).split(), standalone_mode=False) or 0)
    except click.ClickException:
        return 2
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def _limited(command: str, given: str) -> int:
    """The exit code in a process of its own, which takes some seconds and gigabytes at most."""
    process = os.fork()
    if not process:
        code = 99
        try:
            signal.alarm(100)
            resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
            resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            code = _code(command, given)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where commands are called."""
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "good.npz", image=np.zeros((2, 1, 8, 8), np.float32))
    return tmp_path


@pytest.mark.parametrize("command", spread(list(COMMANDS)))
def test_bytes_that_are_no_such_file_are_reported(folder, command):
    text, ending = COMMANDS[command]
    found = {}
    for name, data in GIVEN.items():
        (folder / f"given{ending}").write_bytes(data)
        found[name] = _code(text, f"given{ending}")
    assert set(found.values()) <= {1, 2} | ({0} if command == "fmt" else set()), found


@pytest.mark.parametrize("command", spread(list(COMMANDS)))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the child does nothing that other threads hold
def test_commands_do_not_block_on_pipes_and_devices(folder, command):
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    text = COMMANDS[command][0]
    found = {"none": _code(text, "none")}  # here, so that the processes find modules that are imported
    found |= {each: _limited(text, each) for each in ("pipe", "folder", "/dev/zero", "/dev/full")}
    assert set(found.values()) <= {0, 1, 2}, str(found)
