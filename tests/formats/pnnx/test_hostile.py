"""Files that lie: counts, offsets, lengths, loops and numbers beyond all measure end in findings, quickly."""

from __future__ import annotations

import resource
import struct
import time
import zipfile
from contextlib import suppress

import numpy as np
import pytest

import graphport as gp
from tests import models
from tests.every import every
from tests.formats.pnnx import samples
from tests.formats.pnnx.test_reader import LINES, model

ENDLESS = "(" * 20_000 + "1" + ")" * 20_000
DEEP = "neg(" * 2_000 + "@0" + ")" * 2_000
EXPRESSION = (
    "7767517\n3 2\npnnx.Input i 0 1 x #x=(3)f32\npnnx.Expression e 1 1 x y expr={} #y=(3)f32\npnnx.Output o 1 0 y\n"
)
OPERATOR = "7767517\n3 2\npnnx.Input i 0 1 x #x=(1,4,6,6)f32\n{} o 1 1 x y {}\npnnx.Output p 1 0 y\n"
LARGE = 99_999_999_999

TEXTS = {
    "nothing": "",
    "blanks": " \n\t\n" * 1000,
    "zeros": "\0" * 1000,
    "one long word": "7" * 1_000_000,
    "the magic number alone": "7767517",
    "counts of a million": "7767517\n1000000 1000000\n",
    "counts below zero": "7767517\n-4 -3\n",
    "a count of forty digits": f"7767517\n{'9' * 40} 3\n",
    "very many operands": LINES.replace("1 1 x h", "999999999 1 x h"),
    "a line of twenty thousand words": LINES.replace("$input=h", " ".join(f"k{n}=1" for n in range(20_000))),
    "an operator that reads itself": LINES.replace("1 1 x h", "1 1 h h"),
    "two that read each other": LINES.replace("1 1 x h", "1 1 y h"),
    "the same line a thousand times": LINES + LINES.split("\n")[3] * 1000,
    "a line of wrong words": OPERATOR.format("F.relu", "word " * 100_000),
    "an endless list": LINES.replace("in_features=4", f"in_features={ENDLESS}"),
    "a list that never ends": LINES.replace("in_features=4", "in_features=(4,"),
    "a number of a million digits": LINES.replace("in_features=4", f"in_features={'9' * 1_000_000}"),
    "a real number beyond all": LINES.replace("in_features=4", "in_features=1e999999999"),
    "a shape of ten thousand axes": LINES.replace("#h=(1,2)f32", f"#h=({','.join(['9'] * 10_000)})f32"),
    "a shape larger than memory": LINES.replace("#h=(1,2)f32", f"#h=({LARGE},{LARGE},{LARGE})f32"),
    "a weight larger than memory": LINES.replace("@weight=(2,4)f32", f"@weight=({LARGE},{LARGE})f32"),
    "a weight of no type": LINES.replace("@weight=(2,4)f32", "@weight=(2,4)null"),
    "a weight of a type that nobody has": LINES.replace("@weight=(2,4)f32", "@weight=(2,4)f31"),
    "a weight with a path": LINES.replace("Linear                fc ", "Linear ../../fc"),
    "a symbol without a name": LINES.replace("#h=(1,2)f32", "#h=(1,%)f32"),
    "parentheses without end": EXPRESSION.format(ENDLESS),
    "an expression as deep as it is long": EXPRESSION.format(DEEP),
    "an expression of an operand that is not there": EXPRESSION.format("add(@0,@99999999999)"),
    "a power beyond all": EXPRESSION.format("pow(9,pow(9,pow(9,9)))"),
    "a shift beyond all": EXPRESSION.format("lshift(1,99999999999)"),
    "a quotient by zero": EXPRESSION.format("floor_divide(1,0)"),
    "a reshape beyond memory": OPERATOR.format("Tensor.reshape", f"shape=({LARGE},{LARGE})"),
    "copies beyond memory": OPERATOR.format("Tensor.repeat", f"sizes=(1,1,{LARGE},1)"),
    "copies of nothing": OPERATOR.format("Tensor.repeat", "sizes=None"),
    "padding beyond memory": OPERATOR.format("F.pad", f"mode=constant pad=({LARGE},{LARGE}) value=0.0"),
    "padding that takes all away": OPERATOR.format("F.pad", "mode=constant pad=(-99,-99) value=0.0"),
    "windows beyond count": OPERATOR.format("nn.AdaptiveAvgPool2d", "output_size=(1000000000,1000000000)"),
    "no windows": OPERATOR.format("nn.AdaptiveAvgPool2d", "output_size=(0,0)"),
    "windows of length zero": OPERATOR.format("nn.MaxPool2d", "kernel_size=(0,0) stride=(0,0) padding=(0,0)"),
    "steps of zero": OPERATOR.format("F.unfold", "kernel_size=(2,2) stride=(0,0) padding=0 dilation=1"),
    "a slice with steps of zero": OPERATOR.format("Tensor.slice", "dim=2 start=0 end=4 step=0"),
    "an axis that is not there": OPERATOR.format("F.softmax", f"dim={LARGE}"),
    "pieces of nothing": OPERATOR.format("torch.chunk", "chunks=0 dim=1"),
    "groups of nothing": OPERATOR.format("nn.GroupNorm", "num_groups=0 num_channels=4 eps=1e-5 affine=False"),
    "a factor beyond all": OPERATOR.format("F.interpolate", "mode=nearest scale_factor=(1e30,1e30) size=None"),
    "a range beyond memory": OPERATOR.format("torch.arange", f"start=0 end={LARGE} step=1"),
    "layers beyond count": OPERATOR.format("nn.LSTM", f"num_layers={LARGE} hidden_size=1 input_size=6"),
    "more results than there are": OPERATOR.format("aten::broadcast_tensors", "").replace("1 1 x y ", "1 3 x y z w "),
    "a text where a number belongs": OPERATOR.format("F.leaky_relu", "negative_slope=zeros"),
    "no number where one belongs": OPERATOR.format("F.leaky_relu", "negative_slope=None"),
    "an equation of nothing": OPERATOR.format("torch.einsum", "equation=->->"),
}

PLACES = {"length": 18, "packed length": 22, "name": 26, "extra": 28, "flags": 6, "compression": 8}


def settle(path):
    """What checking, loading and converting a file give, and that neither time nor memory run away."""
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gp.check(path)
    with suppress(gp.DiagnosticError):
        gp.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10
    assert time.process_time() - began < 30


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_that_lies_ends_in_findings(tmp_path, text):
    settle(model(tmp_path, text))


@every("value", [0, 1, 0x7FFF, 0xFFFF])
@every("field", PLACES)
def test_an_archive_that_lies_ends_in_findings(tmp_path, field, value):
    path = samples.unpack("linear", tmp_path)
    weights = tmp_path / f"linear{samples.WEIGHTS}"
    data = bytearray(weights.read_bytes())
    struct.pack_into("<H", data, PLACES[field], value)
    weights.write_bytes(data)
    settle(path)


@pytest.mark.parametrize("share", range(0, 100, 9))
def test_an_archive_that_is_cut_off_ends_in_findings(tmp_path, share):
    path = samples.unpack("linear", tmp_path)
    weights = tmp_path / f"linear{samples.WEIGHTS}"
    data = weights.read_bytes()
    weights.write_bytes(data[: len(data) * share // 100])
    settle(path)


def test_there_are_many_kinds():
    assert len(TEXTS) + len(PLACES) >= 50


def test_a_name_that_no_archive_holds_is_shortened(tmp_path):
    long = "w" * 70_000
    weights = {long: np.ones(2, np.float32)}
    made = models.model(
        [models.node("Add", ["x", long], ["y"])], [models.typed("x", [2])], [models.typed("y", [2])], weights
    )
    gp.save(gp.from_onnx(made), tmp_path / "m.pnnx.param")
    with zipfile.ZipFile(tmp_path / "m.pnnx.bin") as archive:
        assert archive.namelist() == [f"{'w' * 200}.data"]
