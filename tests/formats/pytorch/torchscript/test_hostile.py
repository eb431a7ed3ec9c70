"""Damaged and hostile TorchScript files are diagnosed: nothing is executed, and reading ends."""

import contextlib
import random
import zipfile
from pathlib import Path

import pytest

import graphport as gp
from graphport.formats.pytorch.torchscript import matching, reader
from graphport.formats.pytorch.torchscript.values import List, Tensor
from graphport.ir.graph import Value

NETWORK = Path(__file__).parent / "cases" / "network_frozen.pt"
SHAPES = {"x": ["float32:1", 3, 8, 8]}
_CODE = """class Network(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.net.Network,
    x: Tensor) -> Tensor:
{body}
"""

_VIEW_OF_BRANCH = """y = torch.clone(x)
r = x
if bool(torch.sum(x)):
  r = torch.select(y, 0, 0)
else:
  r = torch.select(x, 0, 0)
"""


def written(path, body, extra=""):
    """The network with another `forward`."""
    with zipfile.ZipFile(NETWORK) as old, zipfile.ZipFile(path, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if "/code/" in item.filename and b"class Network(" in data:
                lines = "\n".join(f"    {line}" for line in body.split("\n"))
                data = (_CODE.format(body=lines) + extra).encode()
            new.writestr(item.filename, data)
    return path


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param('exec("1")\nreturn x', "TS0005", id="a name that has no value"),
        pytest.param("import os\nreturn os.getcwd()", "TS0005", id="import"),
        pytest.param("return [x for y in x]", "TS0004", id="comprehension"),
        pytest.param("return (lambda: x)()", "TS0004", id="lambda"),
        pytest.param("return x + x", "TS0004", id="operator"),
        pytest.param("return torch.no_such_operator(x)", "TS0006", id="unknown operator"),
        pytest.param("return ops.mylib.fused(x)", "TS0006", id="custom operator"),
        pytest.param("return CONSTANTS.c99", "TS0005", id="constant that is not there"),
        pytest.param("return self.nothing", "TS0005", id="attribute that is not there"),
        pytest.param("return (self).forward(x, )", "TS0008", id="recursion"),
        pytest.param("y = x\nwhile True:\n  y = torch.add(y, 1)\nreturn y", "TS0008", id="endless loop"),
        pytest.param(f"return torch.add(x, {'9' * 1000})", "TS0004", id="long number"),
        pytest.param(f"return {'(' * 500}x{')' * 500}", "TS0004", id="deep parentheses"),
        pytest.param('return torch.mul("a", 1000000000)', "TS0011", id="long string"),
        pytest.param("return torch.add(x, torch.pow(7, 100000))", None, id="power that is infinite"),
        pytest.param("return torch.append([x], x)", None, id="list of tensors"),
        pytest.param('ops.prim.RaiseException("no", "builtins.ValueError")\nreturn x', "TS0010", id="exception"),
        pytest.param("return torch.randn_like(x)", "TS0009", id="random numbers"),
        pytest.param("return torch.add(x)", "TS0011", id="no overload"),
        pytest.param(
            _VIEW_OF_BRANCH + "_ = torch.add_(r, 1)\nreturn y",
            "TS0009",
            id="write into what one branch makes a view",
        ),
        pytest.param(
            _VIEW_OF_BRANCH + "_ = torch.add_(y, 1)\nreturn r",
            "TS0009",
            id="write beneath what one branch makes a view",
        ),
        pytest.param(
            "y = torch.clone(x)\nz = y\nfor i in range(int(torch.sum(x))):\n  z = torch.add_(z, 1)\nreturn y",
            "TS0009",
            id="write into what a loop carries and another variable shows",
        ),
        pytest.param("return ops.prim.NumToTensor(x)", "TS0011", id="tensor for a number"),
        pytest.param('return torch.linear(x, "a")', "TS0011", id="string for a tensor"),
    ],
)
def test_code(body, code, tmp_path):
    path = written(tmp_path / "m.pt", body)
    if code is None:
        assert gp.load(path, shapes=SHAPES).outputs
        return
    with pytest.raises(gp.DiagnosticError) as found:
        gp.load(path, shapes=SHAPES)
    assert [finding.code for finding in found.value.diagnostics] == [code]


@pytest.mark.parametrize(
    ("start", "write", "reason"),
    [
        pytest.param("[]", "torch.append(a, 1)", "a list whose length depends", id="list"),
        pytest.param("{}", 'torch._set_item(a, "k", 1)', "a dictionary whose keys depend", id="dictionary"),
    ],
)
def test_containers_that_one_branch_changes(start, write, reason, tmp_path):
    branches = f"if bool(torch.gt(torch.sum(x), 0)):\n  _ = {write}\nelse:\n  pass\n"
    path = written(tmp_path / "m.pt", f"a = {start}\n{branches}return torch.add(x, torch.len(a))")
    with pytest.raises(gp.DiagnosticError, match=rf"TS0009\]: {reason} on run-time values"):
        gp.load(path, shapes=SHAPES)


def test_place_of_an_error(tmp_path):
    path = written(tmp_path / "m.pt", "y = torch.relu(x)\nreturn ops.mylib.fused(y)")
    with pytest.raises(
        gp.DiagnosticError, match=r"code/__torch__/\S+\.py:8: error\[TS0006\]: unsupported custom operator mylib::fused"
    ):
        gp.load(path, shapes=SHAPES)


def test_damaged_bytes(tmp_path):
    data = NETWORK.read_bytes()
    path = tmp_path / "m.pt"
    draws = random.Random(5)
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(draws.randint(1, 4)):
            changed[draws.randrange(len(changed))] = draws.randrange(256)
        path.write_bytes(changed[: draws.choice([len(changed), draws.randrange(len(changed))])])
        with contextlib.suppress(gp.DiagnosticError):
            reader.read(path, shapes=SHAPES)


def tensor():
    return Tensor(Value("x"))


@pytest.mark.parametrize(
    ("name", "given", "overload"),
    [
        ("add", lambda: [tensor(), tensor()], "Tensor"),
        ("add", lambda: [tensor(), 1.5], "Scalar"),
        ("sum", lambda: [tensor()], ""),
        ("sum", lambda: [tensor(), List([1])], "dim_IntList"),
        ("split", lambda: [tensor(), 2], "Tensor"),
        ("split", lambda: [tensor(), List([1, 2])], "sizes"),
        ("upsample_bilinear2d", lambda: [tensor(), None, True, List([2.0, 2.0])], "vec"),
        ("upsample_bilinear2d", lambda: [tensor(), List([2, 2]), True], ""),
        ("max", lambda: [tensor(), 1], "dim"),
        ("max", lambda: [tensor(), tensor()], "other"),
    ],
)
def test_overloads(name, given, overload):
    found = matching.match(name, given(), {})
    assert found is not None
    assert found[0].overload == overload
