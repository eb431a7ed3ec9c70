"""The command itself, in a process of its own: how it ends, and what goes where."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.models import NNEF, model, node, perceptron, write_onnx

COMMAND = [sys.executable, "-W", "error", "-c", "from graphport.cli import main; main()"]
INSTALLED = Path(sys.executable).with_name("graphport")


def run(*arguments: object, **options):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120, **options
    )


@pytest.fixture
def net(tmp_path) -> Path:
    return write_onnx(tmp_path / "net.onnx", perceptron())


def test_done_is_0(net):
    done = run("check", net)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{net}: valid ONNX\n"


@pytest.mark.skipif(not INSTALLED.exists(), reason="it is not installed")
def test_the_installed_command_is_the_same(net):
    done = subprocess.run([INSTALLED, "check", net], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{net}: valid ONNX\n")


def test_a_fault_of_the_input_is_1(tmp_path):
    done = run("check", tmp_path / "missing.onnx")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error[IO0001]" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_option_prints_errors_as_one_document(tmp_path):
    done = run("shapes", tmp_path / "missing.onnx", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["diagnostics"][0]["code"] == "IO0001"
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("arguments", [["nosuch"], ["check"], ["check", "--nosuch"], ["shapes", "a", "--input", "x"]])
def test_wrong_usage_is_2(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: " in done.stderr
    assert "' for help." in done.stderr  # click 8.2 names -h, later ones --help
    assert "Traceback" not in done.stderr


def test_no_arguments_show_the_help():
    done = run()
    assert done.returncode in (0, 2)
    assert "Look at a model:" in done.stdout + done.stderr


def test_the_version_is_reported():
    from graphport import __version__

    assert run("--version").stdout == f"graphport, version {__version__}\n"


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_is_130_without_traceback(tmp_path):
    net = write_onnx(tmp_path / "net.onnx", perceptron())
    # Where the tests themselves run in the background, the interruption would be ignored.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    waiting = f"import pathlib, time, graphport; graphport.check = lambda *_, **__: [pathlib.Path({str(tmp_path / 'ready')!r}).touch(), time.sleep(60)]"
    command = [*COMMAND[:-1], f"{heeding}; {waiting}; {COMMAND[-1]}", "check", str(net)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _wait_for(tmp_path / "ready")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert output == ""
    assert errors.strip() == "interrupted"


def _wait_for(file: Path) -> None:
    for _ in range(600):
        if file.exists():
            return
        time.sleep(0.1)


@pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
def test_a_reader_that_leaves_is_no_traceback(tmp_path):
    names = ["x", *(f"value number {number}" for number in range(5000))]
    nodes = [node("Relu", [a], [b]) for a, b in pairwise(names)]
    net = write_onnx(tmp_path / "net.onnx", model(nodes, [("x", [1])], [(names[-1], [1])]))
    process = subprocess.Popen([*COMMAND, "shapes", str(net)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert errors == b""


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_names_that_the_terminal_cannot_show_are_escaped(tmp_path, encoding):
    proto = model([node("Relu", ["größe"], ["出力"])], [("größe", [1])], [("出力", [1])])
    net = write_onnx(tmp_path / "net.onnx", proto)
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = run("shapes", net, "--json", env=environment, encoding=encoding)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["values"]) == {"größe", "出力"}
    assert run("shapes", net, env=environment, encoding=encoding).returncode == 0


def test_check_of_nnef_imports_no_heavy_module(tmp_path):
    path = tmp_path / "text.nnef"
    path.write_text(NNEF)
    program = (
        "import sys\nfrom graphport.cli.main import cli\n"
        f"cli.main(['check', {str(path)!r}], standalone_mode=False)\n"
        "print(sorted({'onnx', 'onnxruntime', 'rich', 'google', 'ml_dtypes'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_import_loads_neither_numpy_nor_click():
    program = "import sys, graphport\nprint(sorted({'numpy', 'click', 'onnx', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_loads_no_numpy():
    program = (
        "import sys\nfrom graphport.cli.main import cli\ncli.main(['--help'], standalone_mode=False)\n"
        "print(sorted({'numpy', 'onnx', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_during_imports_exits_with_130():
    program = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
real = builtins.__import__
def interrupted(name, *arguments, **named):
    if name == "click":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *arguments, **named)
builtins.__import__ = interrupted
from graphport.__main__ import main
main()
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="file descriptors as POSIX has them")
def test_closed_outputs_change_no_exit_code(tmp_path):
    net = write_onnx(tmp_path / "net.onnx", perceptron())
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        command = f'"{sys.executable}" -m graphport check "{net}" {closed}'
        process = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
        assert process.returncode == 0, closed


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_during_writing_leaves_no_partial_file(tmp_path, number):
    net = write_onnx(tmp_path / "net.onnx", perceptron())
    # The writer waits in the middle of its file.
    waiting = (
        "import pathlib, time; from graphport.formats.openvino.container import writer; real = writer.render; "
        f"writer.render = lambda *a: [pathlib.Path({str(tmp_path / 'ready')!r}).touch(), time.sleep(60)]"
    )
    command = [*COMMAND[:-1], f"{waiting}; {COMMAND[-1]}", "convert", str(net), str(tmp_path / "m.xml"), "--no-verify"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _wait_for(tmp_path / "ready")
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, errors) == (128 + number, "")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["net.onnx", "ready"]
