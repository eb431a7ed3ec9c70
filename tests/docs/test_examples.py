"""Every command and program of the documentation runs on the files of docs/example-files.md.

README, landing page and tutorials, which run from top to bottom, are in test_tutorials.py.
"""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from tests.draws import spread
from tests.models import model, node
from tests.quantization.test_weights_alone import TOKENS, decoder

ROOT = Path(__file__).parents[2]
MANUAL = sorted((ROOT / "docs").glob("*.md"))
TOP_TO_BOTTOM = ("index.md", "checkpoint.md")
PAGES = [page for page in MANUAL if page.name not in TOP_TO_BOTTOM and "tutorial" not in page.name]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)

DEPLOY = """name: "net"
input: "data"
input_shape { dim: 1 dim: 3 dim: 224 dim: 224 }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE kernel_size: 4 stride: 4 } }
layer { name: "relu" type: "ReLU" bottom: "pool" top: "y" }
"""

RECORDED = {
    "tensorflow.md": {"my_model": "tensorflow/cases/pads.sm", "frozen.pb": "tensorflow/cases/casts.pb"},
    "stablehlo.md": {"model.jaxexport": "stablehlo/cases/indexing.jaxexport"},
    "keras.md": {"model.keras": "keras/cases/cnn_sequential.keras", "model.h5": "keras/cases/cnn_sequential.h5"},
}
"""Files of other frameworks that a page names, in tests/formats."""
ELSEWHERE = re.compile(r"graphport (demo|lsp|VERB)|.* (--preset best|--max-latency|--min-snr|--metric)")
"""Commands with tests of their own that take long or depend on the machine, and placeholders."""

IN_TABLE = re.compile(r"^\|.*\| `(graphport [^`]+)` \|$", re.MULTILINE)
"""A command in the last column of a table."""


def blocks(page: Path, *languages: str) -> list[str]:
    return [code for language, code in BLOCK.findall(page.read_text(encoding="utf-8")) if language in languages]


(EXAMPLE_FILES,) = blocks(ROOT / "docs" / "example-files.md", "python")
"""The program that writes the files of the examples."""


def commands(code: str) -> list[str]:
    lines = (line.partition("  #")[0].strip() for line in code.splitlines())
    return [line for line in lines if line.startswith("graphport ") and not ELSEWHERE.match(line)]


def listings(*languages: str) -> list[Any]:
    """Return every listing with the name of its page."""
    return [
        pytest.param(page.name, code, id=f"{page.stem}-{index}")
        for page in PAGES
        for index, code in enumerate(blocks(page, *languages))
        if "python" in languages or commands(code)
    ]


def net(name: str, *extents: int | str) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    shapes: dict[str, Any] = {
        "w": (4, extents[1], 3, 3),
        "s": (4,),
        "z": (4,),
        "m": (4,),
        "v": (4,),
        "g": (4, 2),
        "c": (2,),
    }
    nodes = [
        node("Conv", [name, "w"], ["h"], name="conv1", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["h", "s", "z", "m", "v"], ["n"], name="bn1"),
        node("Relu", ["n"], ["r"], name="relu1"),
        node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        node("Flatten", ["p"], ["f"], name="flat"),
        node("Gemm", ["f", "g", "c"], ["y"], name="dense"),
    ]
    constants = {name: random.uniform(0.5, 1.0, shape).astype(np.float32) for name, shape in shapes.items()}
    return model(nodes, [(name, extents)], [("y", (extents[0], 2))], constants)


def given(extents: Sequence[int | str]) -> np.ndarray:
    shape = [8 if isinstance(extent, str) else extent for extent in extents]
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def pictures(folder: str, count: int) -> None:
    """Write images in landscape and portrait format."""
    pillow = pytest.importorskip("PIL.Image")
    Path(folder).mkdir(exist_ok=True)
    for number in range(count):
        size = (300, 240) if number % 2 else (230, 320)
        pixels = np.random.default_rng(number).integers(0, 256, size=(8, 8, 3), dtype=np.uint8)
        pillow.fromarray(pixels).resize(size).save(Path(folder) / f"{number}.png")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return a function that creates the files of a page in the current folder."""
    monkeypatch.chdir(tmp_path)

    def make(page: str) -> None:
        if page != "example-files.md":
            exec(EXAMPLE_FILES, {})  # noqa: S102  of our own page
        Path("deploy.prototxt").write_text(DEPLOY, encoding="utf-8")
        if page in ("openvino.md", "pnnx.md"):
            gp.save(gp.load("net.onnx"), "net.xml" if page == "openvino.md" else "net.pnnx.param")
        if page == "quantization.md":
            gp.save(decoder(), "decoder.onnx")
            for tokens in ("tokens.npy", "text.npy"):
                np.save(tokens, np.random.default_rng(0).integers(0, TOKENS, size=(16, 24)))
        for file, source in RECORDED.get(page, {}).items():
            found = ROOT / "tests" / "formats" / source
            (shutil.copytree if found.is_dir() else shutil.copyfile)(found, file)

    return make


@pytest.mark.parametrize(("page", "code"), spread(listings("sh", "text")))
def test_commands_work(page, code, files):
    files(page)
    for line in commands(code):
        if "--calibration photos/" in line:
            pictures("photos", 8)
        plain, _, into = line.partition(" > ")
        plain, _, source = plain.partition(" < ")
        standard_input = Path(source).read_bytes() if source else None
        result = CliRunner().invoke(cli, shlex.split(plain)[1:], standard_input, prog_name="graphport")
        if into:
            Path(into).write_bytes(result.stdout_bytes)
        assert result.exit_code == 0, f"{line}\n{result.output}"


@pytest.mark.parametrize("page", ["how-to.md", "from-other-tools.md"])
def test_commands_in_tables_work(page, files):
    """Run the commands of a page in order, in one folder."""
    files(page)
    gp.save(gp.load("net.onnx"), "net.xml")
    gp.save(gp.cut(gp.load("model.onnx"), inputs=["r"]), "tail.onnx")
    shutil.copyfile(ROOT / "tests" / "formats" / "pytorch" / "pt2" / "programs" / "network.pt2", "net.pt2")
    Path("bert/onnx").mkdir(parents=True)
    shutil.copyfile("net.onnx", "bert/onnx/model.onnx")
    Path("bert/config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    found = IN_TABLE.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert len(found) > 30
    for line in found:
        result = CliRunner().invoke(cli, shlex.split(line)[1:], prog_name="graphport")
        assert result.exit_code == 0, f"{line}\n{result.output}"


@pytest.mark.parametrize(("page", "code"), listings("python"))
def test_programs_run(page, code, files, tmp_path):
    files(page)
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    runpy.run_path(str(tmp_path / "program.py"))
