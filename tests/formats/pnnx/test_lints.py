"""Known export errors of pnnx are reported where the text shows them."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

import graphport as gp
from graphport.formats.pnnx import read

HEAD = """7767517
4 3
pnnx.Input a 0 1 x #x=({shape}){first}
pnnx.Input b 0 1 z #z=({other}){second}
"""
EXPRESSION = "pnnx.Expression e 2 1 x z y expr={text} #x=(2)f32 #z=(2)f32 #y=(2){made}\npnnx.Output o 1 0 y\n"
ATTENTION = """nn.MultiheadAttention m 2 1 x z y num_heads=2 embed_dim=8 batch_first=True $attn_mask=z #y=(2,6,8)f32
pnnx.Output o 1 0 y
"""


def warnings(folder, text, **parts):
    given = {"shape": "2", "other": "2", "first": "f32", "second": "f32", "made": "f32"} | parts
    (folder / "net.pnnx.param").write_text((HEAD + text).format(**given, text=given.get("expr", "")))
    (folder / "net.pnnx.bin").write_bytes(b"PK\5\6" + bytes(18))
    return [finding.code for finding in read(folder / "net.pnnx.param")[1]]


@pytest.mark.parametrize(
    ("expr", "parts", "expected"),
    [
        pytest.param("floor_divide(@0,@1)", {}, ["PNNX0201"], id="trunc written as floor"),
        pytest.param("floor_divide(@0,@1)", {"first": "i64", "second": "i64"}, [], id="integers floor anyway"),
        pytest.param("mul(@1,floor_divide(size(@0,0),2))", {}, [], id="lengths floor anyway"),
        pytest.param("div(@0,@1)", {"first": "i64", "second": "i64", "made": "i64"}, ["PNNX0201"], id="a mode is gone"),
        pytest.param("div(@0,@1)", {}, [], id="plain quotient"),
        pytest.param("mul(@0,@1)", {"made": "f16"}, ["PNNX0202"], id="half is gone"),
        pytest.param("mul(@0,@1)", {"first": "f16", "made": "f32"}, [], id="the wider one"),
        pytest.param("add(@0,torch.float(@1))", {"first": "f16", "second": "f16"}, [], id="a cast that is there"),
        pytest.param(
            "add(@0,-1294967296)", {"first": "i64", "second": "i64", "made": "i64"}, ["PNNX0203"], id="cut off"
        ),
        pytest.param(
            "add(@0,-2147483648)", {"first": "i64", "second": "i64", "made": "i64"}, [], id="the least integer"
        ),
        pytest.param("add(@0,-1.0e10)", {}, [], id="a real number"),
    ],
)
def test_expressions_that_say_less_than_was_meant(tmp_path, expr, parts, expected):
    assert warnings(tmp_path, EXPRESSION, expr=expr, **parts) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param({"shape": "2,6,8", "other": "6,6"}, [], id="a mask of places"),
        pytest.param(
            {"shape": "6,6", "first": "bool", "other": "2,6,8"}, ["PNNX0204"], id="query and mask change places"
        ),
        pytest.param({"shape": "2,6,8", "other": "2,6", "second": "bool"}, ["PNNX0204"], id="padded keys"),
    ],
)
def test_masks_that_are_not_what_they_are_called(tmp_path, parts, expected):
    assert warnings(tmp_path, ATTENTION, **parts) == expected


def test_an_operand_that_does_not_exist_is_an_error_at_its_location(tmp_path):
    rows = [
        "pnnx.Input x 0 1 0 #0=(2,3)f32",
        "pnnx.Expression e 1 1 0 1 expr=add(@5,@0) #0=(2,3)f32 #1=(2,3)f32",
        "pnnx.Output y 1 0 1 #1=(2,3)f32",
    ]
    path = tmp_path / "net.pnnx.param"
    path.write_text("\n".join(["7767517", "3 2", *rows, ""]))
    path.with_suffix(".bin").write_bytes(bytes.fromhex("504b0506") + bytes(18))
    (finding,) = [each for each in gp.check(path) if each.is_error]
    assert (finding.code, finding.span.line) == ("PNNX0009", 4)
    assert path.read_text().splitlines()[3][finding.span.column - 1 :].startswith("@5")


def test_a_logical_mask_that_stands_first_and_has_no_name(tmp_path):
    text = ATTENTION.replace(" $attn_mask=z", "")
    assert warnings(tmp_path, text, shape="6,6", first="bool", other="2,6,8") == ["PNNX0204"]
    assert warnings(tmp_path, text, shape="2,6,8", other="2,6,8") == []


def test_a_declared_shape_that_is_not_that_of_the_text_is_reported_while_reading(tmp_path):
    text = "F.relu r 1 1 x y #y=(3)f32\npnnx.Output o 1 0 y\n"
    warnings(tmp_path, text)
    found = gp.load(tmp_path / "net.pnnx.param").findings
    assert [finding.code for finding in found] == ["SHAPE0002"]
    assert "float32[3], it is float32[2]" in found[0].message


@pytest.mark.parametrize(
    ("shape", "declared", "expected"),
    [
        pytest.param("(1,2,6,3,2)", "(1,2,6)", ["PNNX0205"], id="factors that do not fit"),
        pytest.param("(2,3,2,-1)", "(2,3,2)", ["PNNX0205"], id="factors that fit"),
        pytest.param("(2,-1)", "(2,6)", [], id="as declared"),
        pytest.param("(2,6)", "(3,4)", [], id="another shape of this rank"),
        pytest.param("(2,-1)", "(2,3,3)", [], id="a declaration that does not fit"),
        pytest.param("(2,-1)", "(2,?,3)", [], id="an open length"),
    ],
)
def test_a_shape_in_which_factors_are_left_is_read_as_declared(tmp_path, shape, declared, expected):
    text = f"Tensor.reshape r 1 1 x y shape={shape} $input=x #y={declared}f32\npnnx.Output o 1 0 y\n"
    assert warnings(tmp_path, text, shape="4,3") == expected
    if expected:
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        found = gp.run(gp.load(tmp_path / "net.pnnx.param"), {"x": x, "z": np.zeros(2, np.float32)})
        np.testing.assert_array_equal(found["y"], x.reshape([int(n) for n in declared[1:-1].split(",")]))


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_state_whose_sequence_is_unused_is_reported_by_its_shape(tmp_path, op_type, gates):
    draws = np.random.default_rng(0)
    arrays = {
        f"r.{name}": draws.normal(size=(gates * 2, n)).astype(np.float32)
        for name, n in (("weight_ih_l0", 4), ("weight_hh_l0", 2))
    }
    stated = " ".join(f"@{name[2:]}=({array.shape[0]},{array.shape[1]})f32" for name, array in arrays.items())
    options = "batch_first=True bias=False bidirectional=False hidden_size=2 input_size=4 num_layers=1"
    found = {}
    for results, shapes in (("y h", ("1,3,2", "1,1,2")), ("h", ("1,1,2",))):
        declared = " ".join(f"#{name}=({shape})f32" for name, shape in zip(results.split(), shapes, strict=True))
        rows = [
            "pnnx.Input a 0 1 x #x=(1,3,4)f32",
            f"nn.{op_type} r 1 {len(shapes)} x {results} {options} {stated} #x=(1,3,4)f32 {declared}",
            "pnnx.Output o 1 0 h",
        ]
        (tmp_path / "net.pnnx.param").write_text("\n".join(["7767517", "3 3", *rows, ""]))
        with zipfile.ZipFile(tmp_path / "net.pnnx.bin", "w") as archive:
            for name, array in arrays.items():
                archive.writestr(name, array.tobytes())
        net = gp.load(tmp_path / "net.pnnx.param")
        # Of an LSTM it may be either state.
        is_told = op_type == "LSTM" or len(shapes) == 1
        assert [finding.code for finding in net.findings] == ["PNNX0206"] * is_told
        x = np.ones((1, 3, 4), np.float32)
        found[results] = gp.run(net, {"x": x}, backend="reference")["h"]
        gp.convert(tmp_path / "net.pnnx.param", tmp_path / "again.pnnx.param", verify=False)
        again = gp.run(gp.load(tmp_path / "again.pnnx.param"), {"x": x}, backend="reference")
        np.testing.assert_array_equal(next(iter(again.values())), found[results])
    np.testing.assert_array_equal(found["h"], found["y h"])
