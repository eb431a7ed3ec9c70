"""Progress of long work on standard error: not for quick work, and not with --quiet or --json."""

from __future__ import annotations

import io
import json
import time

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from graphport.cli import progress
from graphport.cli.main import cli
from graphport.cli.progress import ProgressPrinter, emitted
from graphport.core.progress import Stage, register_listener, stage
from graphport.formats import Format
from tests.models import model, node, write_onnx


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_line_shows_amount_percentage_and_remaining_time():
    assert emitted(Stage("reading a.onnx"), 3.2) == "reading a.onnx … 3 s"
    assert (
        emitted(Stage("legalizing", 4000, "nodes", 1000), 2.0)
        == "legalizing: 1,000 of 4,000 nodes (25 %), 2 s, 6 s left"
    )
    written = Stage("writing b.xml", 480 << 20, "bytes", measure=lambda: 120 << 20)
    assert emitted(written, 1.0) == "writing b.xml: 120 of 480 MiB (25 %), 1 s, 3 s left"
    assert "\x1b" not in emitted(Stage("reading \x1b[31m"), 1.0)


def test_progress_lines_back_off_and_show_the_innermost_stage():
    stream = io.StringIO()
    teller = ProgressPrinter(stream, None, 1.0)
    with register_listener(teller), stage("outer") as outer, stage("inner") as inner:
        for tenth in range(100):
            teller.tick(inner.began + tenth / 10)
    assert outer.began <= inner.began
    lines = stream.getvalue().splitlines()
    assert [line.rpartition("… ")[2] for line in lines] == ["1 s", "2 s", "3 s", "4 s", "7 s"]
    assert all(line.startswith("inner") for line in lines)


def test_terminal_progress_overwrites_one_line():
    stream = Terminal()
    teller = ProgressPrinter(stream, None, 1.0)
    with register_listener(teller), stage("work") as work:
        for tenth in range(30):
            teller.tick(work.began + tenth / 10)
    assert "\n" not in stream.getvalue()
    assert 10 <= stream.getvalue().count("\r\x1b[K") <= 20


def test_another_stage_under_the_same_count_begins_anew():
    step = Stage("a")
    step.go_on("observing", 5, 10)
    began = step.began
    time.sleep(0.01)
    step.go_on("observing", 6, 10)
    assert step.began == began
    step.go_on("rounding", 6, 10)
    assert step.began > began


@pytest.fixture
def net(tmp_path):
    onnx.save(model([node("Relu", ["x"], ["y"])], [("x", (2,))], [("y", (2,))]), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.mark.parametrize(("more", "is_told"), [([], True), (["--json"], False), (["-q"], False)])
def test_quiet_and_json_print_no_progress(net, more, is_told, monkeypatch):
    monkeypatch.setenv(progress.SETTING, "0")
    read = Format.read

    def slow(self, *arguments, **named):
        time.sleep(0.5)
        return read(self, *arguments, **named)

    monkeypatch.setattr(Format, "read", slow)
    result = CliRunner().invoke(cli, ["check", str(net), *more])
    assert result.exit_code == 0
    assert ("reading net.onnx … " in result.stderr) is is_told
    if more == ["--json"]:
        json.loads(result.stdout)


def test_environment_variable_sets_the_progress_delay(net, monkeypatch):
    monkeypatch.setenv(progress.SETTING, "never")
    assert progress.patience() is None
    monkeypatch.setenv(progress.SETTING, "2.5")
    assert progress.patience() == 2.5
    monkeypatch.setenv(progress.SETTING, "soon")
    assert progress.patience() == progress.PATIENCE


def test_a_log_has_stages_with_times_and_findings(net, tmp_path):
    log = tmp_path / "log.txt"
    (tmp_path / "bad.nnef").write_text("version 1.0;\ngraph net(x) -> (y)\n{\n    y = relu(h);\n}\n")
    CliRunner().invoke(cli, ["check", str(net), "--log-file", str(log), "--json"])
    result = CliRunner().invoke(cli, ["check", str(tmp_path / "bad.nnef"), "--log-file", str(log)])
    assert result.exit_code == 1
    lines = log.read_text("utf-8").splitlines()
    assert any(" begin reading net.onnx" in line for line in lines)
    assert any(" end reading net.onnx (" in line for line in lines)
    assert any("error[NNEF0303]" in line for line in lines)
    assert all(line[4] == "-" and "T" in line[:20] for line in lines)


def test_archive_progress_counts_packed_bytes(tmp_path, monkeypatch):
    weights = {"w": np.zeros((64, 1024), np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    path = write_onnx(tmp_path / "zeros.onnx", model(nodes, [("x", (1, 64))], [("y", (1, 1024))], weights))
    parts: list[float] = []
    end = ProgressPrinter.end
    monkeypatch.setenv(progress.SETTING, "100")

    def ended(self, stage):
        if stage.name.startswith("packing"):
            parts.append(stage.measure() / stage.total)
        end(self, stage)

    monkeypatch.setattr(ProgressPrinter, "end", ended)
    assert CliRunner().invoke(cli, ["convert", str(path), str(tmp_path / "z.nnef.tgz"), "--no-verify"]).exit_code == 0
    assert parts == [pytest.approx(1.0, rel=0.05)]  # zeros take next to nothing on the disk
