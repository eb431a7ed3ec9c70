"""docs/requests.md: each request has a command with a line of its output, or a reason."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import graphport as gp
from graphport.cli.main import cli
from tests.docs.test_examples import given, net
from tests.models import model, node, typed

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| (.+?) \| ?(.*?) ?\|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "requests.md").read_text(encoding="utf-8"))
MEASURES = "def agreement(run, samples=None):\n    return 1.0\n"


def branches() -> onnx.ModelProto:
    def body(op: str) -> onnx.GraphProto:
        return helper.make_graph([node(op, ["x"], [f"{op}_y"])], op, [], [typed(f"{op}_y", (2, 3))])

    nodes = [node("If", ["c"], ["h"], name="choose", then_branch=body("Relu"), else_branch=body("Neg"))]
    nodes.append(node("Exp", ["h"], ["y"], name="last"))
    return model(nodes, [typed("c", (), TensorProto.BOOL), ("x", (2, 3))], [("y", (2, 3))])


def old() -> onnx.ModelProto:
    nodes = [
        node("Slice", ["x"], ["s"], axes=[1], starts=[0], ends=[2]),
        node("Split", ["s"], ["a", "b"], axis=1, split=[1, 1]),
        node("Add", ["a", "b"], ["y"]),
    ]
    return model(nodes, [("x", (1, 3, 8, 8))], [("y", (1, 1, 8, 8))], opset=9)


def shapes() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Shape", ["r"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "rest"], ["t"], axis=0),
        node("Reshape", ["r", "t"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([-1])}
    return model(nodes, [("x", ("N", 3, 8, 8))], [("y", ("N", 192))], constants)


def resize() -> onnx.ModelProto:
    scales = np.array([1, 1, 2, 2], np.float32)
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    nodes = [
        node("Conv", ["x", "w"], ["h"], name="conv", pads=[1, 1, 1, 1]),
        node("Resize", ["h", "", "scales"], ["y"], name="resize", mode="nearest"),
    ]
    return model(nodes, [("x", (1, 3, 8, 8))], [("y", (1, 4, 16, 16))], {"w": weights, "scales": scales})


def quantized_sum() -> onnx.ModelProto:
    constants = {"s": np.float32(0.1), "z": np.uint8(128), "w": np.float32(0.2), "v": np.uint8(120)}
    operands = ["x", "s", "z", "x", "s", "z", "w", "v"]
    nodes = [node("QLinearAdd", operands, ["y"], domain="com.microsoft")]
    ends = [typed("x", (2, 3), TensorProto.UINT8)], [typed("y", (2, 3), TensorProto.UINT8)]
    return model(nodes, *ends, constants, domains={"com.microsoft": 1})


def odd() -> onnx.ModelProto:
    nodes = [node("Det", ["x"], ["y"]), node("StringNormalizer", ["t"], ["u"])]
    inputs = [("x", (2, 3, 3)), typed("t", (4,), TensorProto.STRING)]
    return model(nodes, inputs, [("y", (2,)), typed("u", (4,), TensorProto.STRING)])


def products() -> onnx.ModelProto:
    weights = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
    return model([node("MatMul", ["x", "w"], ["y"])], [("x", (1, 64))], [("y", (1, 32))], {"w": weights})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Create the input files of all commands."""
    top = tmp_path_factory.mktemp("requests")
    made = {
        "net": net("x", 1, 3, 8, 8),
        "model": net("x", "N", 3, "H", "W"),
        "branches": branches(),
        "old": old(),
        "shapes": shapes(),
        "resize": resize(),
        "qadd": quantized_sum(),
        "odd": odd(),
    }
    worse = net("x", 1, 3, 8, 8)
    worse.graph.node[2].op_type = "Sigmoid"
    for name, proto in {**made, "a": made["model"], "b": made["model"], "worse": worse}.items():
        onnx.save(proto, top / f"{name}.onnx")
    gp.save(
        gp.quantize(gp.from_onnx(products()), None, weights_only=True, weight_bits=4, weight_block=32),
        top / "nbits.onnx",
    )
    gp.save(gp.load(top / "net.onnx"), top / "net.xml")
    shutil.copyfile(ROOT / "tests" / "formats" / "pytorch" / "pt2" / "programs" / "network.pt2", top / "net.pt2")
    samples = np.concatenate([given((1, 3, 8, 8))] * 4)
    np.savez(top / "samples.npz", x=samples)
    (top / "samples").mkdir()
    np.save(top / "samples" / "x.npy", samples)
    (top / "measures.py").write_text(MEASURES, encoding="utf-8")
    pillow = pytest.importorskip("PIL.Image")
    (top / "photos").mkdir()
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3)).astype(np.uint8)
        pillow.fromarray(pixels).save(top / "photos" / f"{number}.png")
    return top


def test_page_lists_48_requests():
    assert [int(number) for number, *_ in ROWS] == list(range(1, 49))


def test_each_command_prints_the_documented_output(folder, monkeypatch):
    """Run the commands in order: some read files that others write."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    failed: list[str] = []
    for number, _, command, shown in ROWS:
        if not command.startswith("`"):
            assert not shown, number
            continue
        result = CliRunner().invoke(cli, shlex.split(command.strip("`"))[1:], prog_name="graphport")
        printed = " ".join(result.output.split())
        expected = 1 if "exit code 1" in shown else 0
        if result.exit_code != expected or shown.split("`")[1] not in printed:
            failed.append(f"{number} {command}: exit code {result.exit_code}, {shown} is not in\n{result.output}")
    assert not failed, "\n".join(failed)
