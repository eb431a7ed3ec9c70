"""`--only` and `--skip`: every pass of preparation can be asked for alone and left out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper

import graphport as gp
from graphport.cli.main import cli
from graphport.passes.prepare import PREPARE
from tests.every import every
from tests.passes.cases import bn, graph, info, model, node, norm, some

W = {"w": some(6, 6, 1, 1)}
ALWAYS = graph([node("Neg", "x", "r")], [], [info("r", None)])
ERF = [node("Div", "x root", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"), node("Mul", "x a", "m")]
SQUARE = [node("Pow", "x two", "s"), node("ReduceMean", "s", "m", axes=[-1]), node("Add", "m eps", "v")]
MEAN = [
    node("ReduceMean", "x", "u", axes=[-1]),
    node("Sub", "x u", "d"),
    node("Pow", "d two", "s"),
    node("ReduceMean", "s", "m", axes=[-1]),
    node("Add", "m eps", "v"),
    node("Sqrt", "v", "q"),
    node("Div", "d q", "n"),
]
NUMBERS = {name: np.float32(number) for name, number in {"two": 2, "one": 1, "half": 0.5, "root": 2**0.5}.items()}
SMALL = {**NUMBERS, "eps": np.float32(1e-5), "g": some(6), "b": some(6)}

Snippet = tuple[list[Any], dict[str, Any], tuple[int | str, ...]]
MAPS, ROWS = ("N", 6, 5, 5), ("N", 6)
SNIPPETS: dict[str, Snippet] = {
    "lift-constants": (
        [node("Constant", "", "k", value=numpy_helper.from_array(some(6, 1, 1))), node("Mul", "x k", "y")],
        {},
        MAPS,
    ),
    "resolve-casts": ([node("CastLike", "k x", "h"), node("Mul", "x h", "y")], {"k": np.array([2])}, ROWS),
    "resolve-sequences": (
        [node("SplitToSequence", "x three", "s", axis=1), node("SequenceAt", "s one", "y")],
        {"three": np.array(3), "one": np.array(1)},
        ROWS,
    ),
    "inline-branches": ([node("If", "c", "y", then_branch=ALWAYS, else_branch=ALWAYS)], {"c": np.array(True)}, MAPS),
    "fold-constants": ([node("Neg", "k", "h"), node("Mul", "x h", "y")], {"k": some(6)}, ROWS),
    "resolve-shapes": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s i", "n"),
            node("Concat", "n m", "t", axis=0),
            node("Reshape", "x t", "y"),
        ],
        {"i": np.array([0]), "m": np.array([-1])},
        MAPS,
    ),
    "remove-noops": ([node("Relu", "x", "h"), node("Identity", "h", "y")], {}, MAPS),
    "recompose-layernorm": ([*MEAN, node("Mul", "n g", "k"), node("Add", "k b", "y")], SMALL, ROWS),
    "recompose-rmsnorm": (
        [*SQUARE, node("Sqrt", "v", "q"), node("Div", "x q", "n"), node("Mul", "n g", "y")],
        SMALL,
        ROWS,
    ),
    "recompose-gelu": ([*ERF, node("Mul", "m half", "y")], NUMBERS, ROWS),
    "recompose-swish": ([node("Sigmoid", "x", "k"), node("Mul", "k x", "y")], {}, ROWS),
    "split-parameters": ([node("Add", "x c", "h"), node("Mul", "h c", "y")], {"c": some(5)}, MAPS),
    "form-gemm": ([node("MatMul", "x m", "h"), node("Add", "h c", "y")], {"m": some(6, 6), "c": some(6)}, ROWS),
    "fuse-pads": (
        [node("Pad", "x p", "h"), node("Conv", "h w", "y")],
        {**W, "p": np.array([0, 0, 1, 1, 0, 0, 1, 1])},
        MAPS,
    ),
    "fuse-bias": ([node("Conv", "x w", "h"), node("Add", "h c", "y")], {**W, "c": some(6, 1, 1)}, MAPS),
    "fuse-scale": ([node("Conv", "x w", "h"), node("Div", "h c", "y")], {**W, "c": some(6, 1, 1)}, MAPS),
    "fuse-batchnorm": ([node("Conv", "x w", "h"), bn("h", "y")], {**W, **norm(6)}, MAPS),
    "batchnorm-to-conv": ([bn("x", "y")], norm(6), MAPS),
    "batchnorm-to-scale": ([bn("x", "y")], norm(6), ROWS),
    "remove-dead": ([node("Relu", "x", "h"), node("Neg", "x", "y")], {}, MAPS),
    "name-nodes": ([node("Relu", "x", "h"), node("Neg", "h", "y")], {}, MAPS),
}


def proto(name: str) -> onnx.ModelProto:
    nodes, constants, x = SNIPPETS[name]
    if not name.startswith("recompose"):
        return model(nodes, [info("x", x)], [info("y", None)], constants)
    modern = [_of_opset_24(each) for each in nodes]
    return model(modern, [info("x", x)], [info("y", None)], {**constants, "axes": np.array([-1])}, opset=24)


def _of_opset_24(given: onnx.NodeProto) -> onnx.NodeProto:
    """Axes as an operand."""
    return node("ReduceMean", f"{given.input[0]} axes", given.output[0]) if given.op_type == "ReduceMean" else given


def test_every_pass_has_a_snippet():
    assert list(SNIPPETS) == [each.name for each in PREPARE]


@every("name", SNIPPETS)
def test_only_option_runs_a_single_pass(name):
    source = gp.from_onnx(proto(name))
    _, report = gp.prepare(source, only=[name])
    assert {each: count > 0 for each, count in report.changes.items()} == {"upgrade": False, name: True}
    assert report.passed
    assert report.verification is not None


@every("name", SNIPPETS)
def test_skip_option_omits_a_pass(name):
    _, report = gp.prepare(gp.from_onnx(proto(name)), skip=[name])
    assert name not in report.changes
    assert len(report.changes) == len(PREPARE)
    assert report.passed


@every("name", SNIPPETS)
def test_pass_docstrings_state_before_after_and_limits(name):
    (each,) = (each for each in PREPARE if each.name == name)
    said = " ".join((each.work.__doc__ or "").split())
    assert "Before " in said
    assert "After " in said
    assert "Does not " in said
    assert "Preserves values" in said


def test_the_command_reports_why_a_rule_did_not_apply(tmp_path):
    nodes = [node("Conv", "x w", "h"), bn("h", "k"), node("Relu", "h", "r"), node("Add", "k r", "y")]
    onnx.save(model(nodes, [info("x", MAPS)], [info("y", None)], {**W, **norm(6)}), tmp_path / "net.onnx")
    arguments = ["prepare", str(tmp_path / "net.onnx"), str(tmp_path / "out.onnx"), "--only", "fuse-batchnorm", "-v"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0
    assert "fuse-batchnorm not changed:\n  BatchNormalization k: h has another consumer; " in result.output


def test_prepare_command_reports_the_quantization_placement(tmp_path):
    nodes = [node("Conv", "x w", "h", name="c"), node("Greater", "h k", "y", name="g")]
    proto = model(nodes, [info("x", MAPS)], [info("y", None, 9)], {**W, "k": np.float32(0)})
    onnx.save(proto, tmp_path / "net.onnx")
    arguments = ["prepare", str(tmp_path / "net.onnx"), str(tmp_path / "out.onnx"), "-v"]
    said = CliRunner().invoke(cli, arguments).output
    assert "nodes for quantization: 1 quantized, 1 floating, 0 index\n" in said
    assert "quantization would keep in float:\n  Greater (1): its results are not floats\n" in said
    document = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).output)
    assert document["dispatch"] == [
        {"node": "c", "operator": "Conv", "place": "quantized", "reason": "it has weights"},
        {"node": "g", "operator": "Greater", "place": "floating", "reason": "its results are not floats"},
    ]


@pytest.mark.parametrize(("dtype", "least"), [("float16", 50), ("float32", None)])
def test_in_half_precision_outputs_pass_by_their_noise(tmp_path, dtype, least):
    nodes = [node("Conv", "x w", "h"), node("Mul", "h c", "k"), node("Add", "k c", "y")]
    constants = {name: some(*shape).astype(dtype) for name, shape in {"w": (6, 6, 3, 3), "c": (6, 1, 1)}.items()}
    kind = 10 if dtype == "float16" else 1
    proto = model(nodes, [info("x", MAPS, kind)], [info("y", None, kind)], constants)
    onnx.save(proto, tmp_path / "net.onnx")
    result = CliRunner().invoke(cli, ["prepare", str(tmp_path / "net.onnx"), str(tmp_path / "out.onnx")])
    assert result.exit_code == 0
    note = f"note: tolerance for half-precision computation: SNR >= {least} dB\n"
    assert (note in result.output) == (least is not None)


def test_a_name_that_no_pass_has_is_wrong_usage(tmp_path):
    onnx.save(proto("fuse-bias"), tmp_path / "net.onnx")
    result = CliRunner().invoke(
        cli, ["prepare", str(tmp_path / "net.onnx"), str(tmp_path / "out.onnx"), "--skip", "FORMATTER_FUSE_BN"]
    )
    assert result.exit_code == 2
    assert "there is no pass 'FORMATTER_FUSE_BN'; passes: lift-constants" in result.output
