"""Functions of PyTorch as PNNX calls them: how arguments are bound, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.legalize import is_canonical

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def load(tmp_path, *lines, shape="(2,3,4)f32"):
    rows = [f"pnnx.Input in 0 1 x #x={shape}", *lines, "pnnx.Output out 1 0 y"]
    path = tmp_path / "net.pnnx.param"
    path.write_text(f"7767517\n{len(rows)} 99\n" + "\n".join(rows) + "\n")
    (tmp_path / "net.pnnx.bin").write_bytes(b"PK\5\6" + bytes(18))
    return gp.load(path)


def run(model, **inputs):
    return gp.run(model, inputs or {"x": X}, backend="reference")["y"]


def reasons(model):
    return " ".join(finding.message for finding in model.findings)


@pytest.mark.parametrize(
    "line",
    [
        "torch.sum s 1 1 x y dim=(1) keepdim=False $input=x",
        "torch.sum s 1 1 x y dim=(1) keepdim=False",
        "torch.sum s 1 1 x y keepdim=False dim=1 $self=x",
    ],
)
def test_an_operand_is_bound_by_its_name_or_its_place(tmp_path, line):
    np.testing.assert_allclose(run(load(tmp_path, line)), X.sum(1), rtol=1e-5)


def test_numbers_as_operands_are_arguments(tmp_path):
    model = load(
        tmp_path,
        "pnnx.Expression a 0 1 n expr=1",
        "prim::Constant b 0 1 none value=None",
        "pnnx.Expression c 0 1 t expr=True",
        "aten::sum s 4 1 x n t none y",
    )
    assert is_canonical(model.graph)
    np.testing.assert_allclose(run(model), X.sum(1, keepdims=True), rtol=1e-5)


def test_a_list_as_an_operand_is_its_items(tmp_path):
    model = load(
        tmp_path,
        "F.relu r 1 1 x a #a=(2,3,4)f32",
        "pnnx.Expression l 2 1 x a list expr=[@0,@1] #x=(2,3,4)f32 #a=(2,3,4)f32",
        "pnnx.Expression d 0 1 n expr=-1",
        "aten::cat c 2 1 list n y",
    )
    assert run(model).tolist() == np.concatenate([X, np.maximum(X, 0)], -1).tolist()


def test_results_of_a_list_are_results_of_its_maker(tmp_path):
    model = load(
        tmp_path,
        "pnnx.Expression a 0 1 n expr=2",
        "aten::unsafe_chunk c 3 1 x n n list",
        "prim::ListUnpack u 1 2 list p y",
    )
    assert run(model).tolist() == X[..., 2:].tolist()


def test_lengths_that_an_expression_asks_for_are_a_shape(tmp_path):
    model = load(
        tmp_path,
        "pnnx.Expression e 1 1 x s expr=[size(@0,0),mul(size(@0,1),2),-1]",
        "Tensor.reshape r 2 1 x s y $input=x $shape=s",
        shape="(?,3,4)f32",
    )
    assert run(model).shape == (2, 6, 2)


@pytest.mark.parametrize("expr", ["div(@0,3)", "sub(2,@0)", "pow(@0,2)", "floor_divide(@0,2)", "remainder(@0,3)"])
def test_integers_meet_numbers_as_in_pytorch(tmp_path, expr):
    model = load(tmp_path, f"pnnx.Expression e 1 1 x y expr={expr}", shape="(4)i64")
    x = np.array([-7, -2, 0, 5])
    found = run(model, x=x)
    expected = gp.Expression(expr)(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_argument_that_is_unknown_leaves_the_node_as_it_is(tmp_path):
    model = load(tmp_path, "torch.sum s 1 1 x y dim=(1) keepdim=False frobnicate=3")
    assert [node.op for node in model.graph] == ["pnnx.torch.sum"]
    assert "unsupported argument frobnicate" in reasons(model)


@pytest.mark.parametrize(
    "line",
    [
        "torch.sum s 1 1 x y dim=(9) keepdim=False",
        "torch.sum s 1 1 x y dim=word keepdim=False",
        "torch.topk s 1 1 x y k=None dim=0",
        "nn.Conv2d s 1 1 x y stride=(1,1)",
        "Tensor.permute s 1 1 x y dims=(0,0,1)",
        "torch.einsum s 1 1 x y equation=3",
        "F.pad s 1 1 x y pad=(1,2,3) mode=constant",
        "nn.GroupNorm s 1 1 x y num_groups=0",
        "nn.LSTM s 1 1 x y num_layers=-3",
    ],
)
def test_arguments_that_make_no_sense_are_findings(tmp_path, line):
    rows = ["pnnx.Input in 0 1 x #x=(2,3,4)f32", line, "pnnx.Output out 1 0 y"]
    path = tmp_path / "net.pnnx.param"
    path.write_text(f"7767517\n{len(rows)} 99\n" + "\n".join(rows) + "\n")
    found = gp.check(path)
    assert any(finding.code in ("SHAPE0001", "LEG0001") for finding in found)
