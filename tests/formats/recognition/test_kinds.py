"""Each kind of file that is not read is named, with a remedy, whatever the file is called."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

import graphport as gp
from graphport.formats import recognize
from graphport.formats.recognition.kinds import KINDS
from tests.formats.recognition.samples import FILES
from tools import file_kinds

IDS = [f"{name}: {words}" for words, name, _ in FILES]


def write(path: Path, content: bytes | str | list[str]) -> Path:
    match content:
        case bytes():
            path.write_bytes(content)
        case str():
            path.write_text(content, encoding="utf-8")
        case members:
            path.mkdir()
            for member in members:
                (path / member).parent.mkdir(parents=True, exist_ok=True)
                (path / member).write_bytes(b"x")
    return path


def refusal(path: Path) -> gp.Diagnostic:
    with pytest.raises(gp.DiagnosticError) as caught:
        recognize(path)
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize(("words", "name", "content"), FILES, ids=IDS)
def test_a_file_that_is_not_read_is_named_with_a_remedy(tmp_path, words, name, content):
    found = refusal(write(tmp_path / name, content))
    assert found.code == "IO0017"
    assert words in found.message.partition(name)[2]
    assert found.help
    assert not re.search(r"\{\w+\}", found.help)


BY_NAME = (
    "external weights",
    "model.ckpt.index",
    "Flax weights",
    "IREE module",
    "MNN model",
    "MindIR",
    "Unity",
    ".blob",
    "weights of PaddlePaddle",
    "Paddle Lite",
    "Darknet weights",
    "model.ckpt-100.meta",
    "compiled by Tengine",
    "unfinished download",
    "TensorFlow event file",
    "m.csv",
    "text, such as documentation",
)
"""Kinds whose content has no mark."""


@pytest.mark.parametrize("ending", [".onnx", ".tflite", ".pt", ".bin", ""])
def test_bytes_decide_and_not_the_extension(tmp_path, ending):
    for words, name, content in FILES:
        if isinstance(content, list) or words in BY_NAME or name in BY_NAME or ".blob" in words:
            continue
        assert words in refusal(write(tmp_path / f"model{ending}", content)).message


def test_each_kind_has_a_sample():
    sampled = {words for words, *_ in FILES}
    missing = [kind.name for kind in KINDS if not any(words in kind.name for words in sampled)]
    assert missing == UNSAMPLED


UNSAMPLED = [
    "weight file of an OpenVINO IR",
    "weight file of an ncnn or PNNX model",
]
"""Kinds that need a file beside them."""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("m.onnx.gz", gzip.compress(bytes(range(256)))[:-12], id="gzip"),
        pytest.param("m.zip", b"PK\3\4" + bytes(200), id="zip without its directory"),
    ],
)
def test_archives_that_are_cut_short_are_to_be_fetched_again(tmp_path, name, content):
    found = refusal(write(tmp_path / name, content))
    assert "truncated or corrupt" in found.message
    assert found.help == f"download or copy {name} again"


def test_external_weights_a_graph_are_named(tmp_path):
    (tmp_path / "m.bin").write_bytes(bytes(40))
    (tmp_path / "m.xml").write_text("<net/>")
    assert refusal(tmp_path / "m.bin").help == "give the .xml file: m.xml"
    (tmp_path / "m.xml").rename(tmp_path / "m.param")
    assert refusal(tmp_path / "m.bin").help == "give the .param file: m.param"


def test_the_documentation_lists_each_kind():
    assert file_kinds.PAGE.read_text(encoding="utf-8") == file_kinds.page(), "run python -m tools.file_kinds"


def test_the_remedy_for_an_ort_file_writes_onnx(tmp_path):
    data = next(content for words, _, content in FILES if "ORT" in words)
    (tmp_path / "relu.ort").write_bytes(data)
    help = refusal(tmp_path / "relu.ort").help or ""
    code = re.fullmatch(r'python -c "(.*)"', help)[1]
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert recognize(tmp_path / "relu.onnx").name == "onnx"
    assert gp.check(tmp_path / "relu.onnx") == []
