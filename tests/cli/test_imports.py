"""What each verb imports: what its work needs, so that it starts quickly."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from graphport.ops.dialects import RULES
from tests.models import perceptron, write_onnx

PROGRAM = """
import json, sys
from graphport.cli.main import cli
try:
    cli.main(sys.argv[1:], standalone_mode=False)
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""
RUNTIMES = ("onnxruntime", "ncnn", "tract", "ai_edge_litert", "llvmlite", "torch", "tensorflow", "keras", "jax")
NOBODY = (*RUNTIMES, "rich", "openvino", "pygls", "lsprotocol", "graphport.lsp", "graphport.expression.fused")
"""Modules, with all below them, that no verb here has a use for."""
OTHERS = [
    *(
        f"graphport.formats.{name}"
        for name in (
            "pytorch.pt2.reader",
            "tflite.container.reader",
            "openvino.container.reader",
            "caffe.container.reader",
        )
    ),
    *(
        f"graphport.formats.{name}"
        for name in (
            "nnef.container.reader",
            "nnef.container.parser",
            "nnef.container.syntax",
            "ncnn.container.reader",
        )
    ),
    *(
        f"graphport.formats.{name}"
        for name in (
            "pnnx.container.reader",
            "archive.container.reader",
            "onnx.container.writer",
            "tflite.container.writer",
        )
    ),
]
"""The work of other formats, and of writers."""
NO_RUN = tuple(f"graphport.{name}" for name in ("proof", "comparison", "quantization", "passes", "reports"))
"""What changes, runs, compares and reports."""
WORDS = ("openvino", "tflite", "ncnn", "pnnx", "caffe", "nnef", "pytorch")
"""Dialects that ONNX does not speak."""


def imported(*arguments: object) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def of(names, *prefixes: str) -> list[str]:
    """Those of `names` that are one of `prefixes` or below it."""
    return sorted(name for name in names if name in prefixes or name.startswith(tuple(f"{p}." for p in prefixes)))


def spoken(names) -> list[tuple[str, str]]:
    """The dialects, other than ONNX's, and the modules of their rules that were imported."""
    rules = {name: RULES[name] for name in WORDS}
    return sorted(
        (dialect, name.rpartition(".")[2])
        for name in names
        for dialect, package in rules.items()
        if name.rpartition(".")[0] == package and name not in RULES.values()
    )


@pytest.fixture
def net(tmp_path):
    return write_onnx(tmp_path / "net.onnx", perceptron())


def test_help_imports_only_the_command_line():
    names = imported("--help")
    assert of(names, *NOBODY, "numpy", "onnx", "google", "graphport.formats", "graphport.ops", "graphport.ir") == []
    assert of(names, "graphport.api", "graphport.conversion", "graphport.expression") == []


@pytest.mark.parametrize("verb", ["check", "shapes"])
def test_reading_imports_no_other_dialect(verb, net):
    names = imported(verb, net)
    assert "graphport.formats.onnx.container.reader" in names
    assert of(names, *NOBODY, *OTHERS, *NO_RUN, "graphport.backends", "graphport.expression") == []
    assert spoken(names) == []


def test_inspect_imports_only_the_operator_families_in_use(net):
    names = imported("inspect", net)
    assert of(names, *NOBODY, *OTHERS, *NO_RUN) == []
    # A perceptron is products and activations: it has neither spectra, loops, nor states.
    families = {family for dialect, family in spoken(names) if dialect not in ("tflite", "pytorch", "pnnx")}
    assert families.isdisjoint({"signal", "control", "recurrent", "loss"})
    assert families >= {"matmul", "activation"}


def test_convert_imports_only_the_onnx_format(net, tmp_path):
    names = imported("convert", net, tmp_path / "out.onnx", "--no-verify")
    assert "graphport.formats.onnx.container.reader" in names
    assert of(names, *NOBODY, *[each for each in OTHERS if each != "graphport.formats.onnx.container.writer"]) == []
    assert spoken(names) == []
