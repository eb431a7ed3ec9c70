"""No name of a file reaches a terminal as something that it obeys or does not show."""

from __future__ import annotations

import io
import json
import sys

import click
import pytest

from graphport.cli.main import cli
from graphport.cli.render import TerminalStream, escape_json, shown
from tests.cli.terminals import HOSTILE, broken_model, hostile_model, obeyed, opaque_model, run_on_terminal

MODELS = {"hostile": hostile_model, "opaque": opaque_model, "broken": broken_model}
READING = (
    *(["check"], ["check", "--json"], ["shapes"], ["shapes", "--json"], ["inspect"], ["inspect", "--json"]),
    *(["report"], ["report", "--format", "csv"], ["report", "--format", "json"], ["report", "--format", "svg"]),
    *(["report", "--format", "html"], ["check", "--format", "sarif"], ["check", "--format", "github"]),
)
TARGETS = ("o.onnx", "o.nnef", "o.pnnx.param", "o.ncnn.param", "o.xml", "o.tflite", "o.prototxt", "o.graphport")
OTHERS = (
    *(["run", "hostile.onnx"], ["run", "hostile.onnx", "--json"], ["simplify", "hostile.onnx", "s.onnx"]),
    *(["prepare", "hostile.onnx", "p.onnx", "-v"], ["cast", "hostile.onnx", "c.onnx", "--to", "float16"]),
    *(["cut", "hostile.onnx", "k.onnx", "--outputs", f"{HOSTILE}h"], ["quantize", "hostile.onnx", "q.onnx"]),
    ["dequantize", "hostile.onnx", "d.onnx"],
    *(["compare", "hostile.onnx", "hostile.onnx"], ["compare", "hostile.onnx", "opaque.onnx"]),
    *(["verify", "hostile.onnx", "hostile.onnx"], ["merge", "hostile.onnx", "hostile.onnx", "m.onnx"]),
    *(["edit", "hostile.onnx", "e.onnx", "--rename", f"{HOSTILE}x=z"], ["expr", f"add(@0,{HOSTILE})"]),
    *(["bench", "hostile.onnx", "--nodes"], ["bench", "hostile.onnx", "--backend", HOSTILE], ["doctor"], ["formats"]),
    *(["latency", "hostile.onnx", "-o", "l.json"], ["latency", "hostile.onnx", "-o", "l.json", "--input", HOSTILE]),
    *(["fmt", HOSTILE], ["ops", HOSTILE], ["explain", HOSTILE], ["schema", HOSTILE], ["check", HOSTILE], [HOSTILE]),
    *(
        ["check", f"--{HOSTILE}"],
        ["convert", "hostile.onnx", f"o.{HOSTILE}"],
        ["run", "hostile.onnx", "--input", HOSTILE],
    ),
    *(["convert", "hostile.onnx", "o.onnx", "--to", HOSTILE], ["shapes", "hostile.onnx", "--input", f"{HOSTILE}=1"]),
)


class Terminal(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", errors="backslashreplace", newline="\n")

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    for name, make in MODELS.items():
        make(tmp_path / f"{name}.onnx")

    def run(arguments):
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        try:
            cli.main(arguments, standalone_mode=False)
        except click.ClickException as error:
            error.show()
        stream.flush()
        return stream.buffer.getvalue().decode()  # pyright: ignore[reportAttributeAccessIssue]

    return run


@pytest.mark.parametrize("model", MODELS)
def test_verbs_that_read_show_names_without_control_characters(terminal, model):
    for verb, *options in READING:
        text = terminal([verb, f"{model}.onnx", *options])
        assert text
        assert (verb, options, obeyed(text)) == (verb, options, [])


def test_every_verb_is_tried():
    """A language server writes to an editor, and the demo reads a model of its own."""
    tried = {arguments[0] for arguments in (*READING, *OTHERS)} | {"convert"}
    assert set(cli.list_commands(click.Context(cli))) - tried == {"lsp", "demo"}


@pytest.mark.parametrize("model", MODELS)
def test_conversions_show_names_without_control_characters(terminal, model):
    for target in TARGETS:
        text = terminal(["convert", f"{model}.onnx", target])
        assert text
        assert (target, obeyed(text)) == (target, [])


def test_other_verbs_show_names_without_control_characters(terminal):
    for arguments in OTHERS:
        assert (arguments, obeyed(terminal(arguments))) == (arguments, [])


def test_terminal_output_escapes_names_of_the_model(tmp_path):
    hostile_model(tmp_path / "net.onnx")
    text = run_on_terminal(["report", "net.onnx", "--format", "csv"], tmp_path)
    assert "matmul" in text
    assert obeyed(text) == []


def test_terminal_stream_passes_only_styles_and_line_ends():
    file = io.BytesIO()
    stream = TerminalStream(file, "utf-8", errors="backslashreplace", newline="\n")
    styled = "\x1b[1;31merror\x1b[0m\n\r\x1b[Kdone\tx\n"
    assert stream.write(styled) == len(styled)
    stream.write(HOSTILE.replace("\n", ""))
    stream.flush()
    text = file.getvalue().decode()
    assert text.startswith(styled)
    assert obeyed(text[len(styled) :]) == []


def test_json_keeps_its_strings():
    document = {HOSTILE: [HOSTILE, "\udc80\x7f", "漢é \u3000"]}
    text = escape_json(json.dumps(document, ensure_ascii=False))
    assert json.loads(text) == document
    assert obeyed(text) == []
    assert "漢é" in text


def test_escaped_names_are_unique():
    names = [f"a{chr(point)}b" for point in (*range(0x100), 0x202E, 0x200B, 0x200D, 0x2028, 0xFEFF, 0xD800)]
    assert len({shown(name) for name in names}) == len(names)
