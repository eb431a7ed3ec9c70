"""What strict texts say instead of operations that not every reader knows."""

from __future__ import annotations

from pathlib import Path

import nnef
import numpy as np
import pytest

import graphport as gp
from graphport.formats.nnef.container.operator_replacements import portable
from graphport.formats.nnef.container.syntax import Edition

X = np.random.default_rng(3).normal(size=(2, 4, 6, 8)).astype(np.float32)

CALLS = {
    "rcp": "y = rcp(x)",
    "rsqr": "y = rsqr(x)",
    "rsqrt": "y = rsqrt(exp(x))",
    "silu": "y = silu(x)",
    "gelu": "y = gelu(x)",
    "elu": "y = elu(x, alpha = 0.7)",
    "selu": "y = selu(x, alpha = 1.5, lambda = 2.0)",
    "cast": "y = cast<scalar>(lt(x, 0.0))",
    "split": "[y, z] = split(x, axis = 1, ratios = [1, 3])",
    "unstack": "[y, z] = unstack(x, axis = 0)",
    "copy_n": "[y, z] = copy_n(x, times = 2)",
    "add_n": "y = add_n([x, x, x])",
    "nearest_upsample": "y = nearest_upsample(x, factor = [2, 3])",
    "nearest_downsample": "y = nearest_downsample(x, factor = [2, 4])",
    "area_downsample": "y = area_downsample(x, factor = [3, 2])",
    "local_response_normalization": "y = local_response_normalization(x, size = [1, 3, 1, 1], alpha = 0.5)",
    "pad": "y = pad(x, padding = [(0, 0), (1, 0), (2, 3), (0, 5)], border = 'replicate')",
    "slice": "y = slice(x, axes = [3, 1], begin = [-1, 1], end = [0, 4], stride = [-3, 2])",
}


def document(folder: Path, call: str, shape="[2, 4, 6, 8]") -> Path:
    outputs = "y, z" if " z]" in call else "y"
    text = f"graph net( x ) -> ( {outputs} )\n{{\n    x = external(shape = {shape});\n    {call};\n}}\n"
    (folder / "graph.nnef").write_text(f"version 1.0;\nextension KHR_enable_operator_expressions;\n{text}")
    return folder


@pytest.mark.parametrize("op_type", CALLS)
def test_other_op_types_are_equivalent(tmp_path, op_type):
    graph = gp.load(document(tmp_path, CALLS[op_type]), raw=True).graph
    said = portable(graph, Edition.FINAL)
    assert op_type in {node.op_type for node in graph}
    assert op_type == "slice" or op_type not in {node.op_type for node in said}
    (tmp_path / "out").mkdir()
    said.notes.clear()
    gp.formats.FORMATS["nnef"].write(said, tmp_path / "out")
    a, b = (gp.run(gp.load(path), {"x": X}, backend="reference") for path in (tmp_path, tmp_path / "out"))
    assert a.keys() == b.keys()
    for name, array in a.items():
        np.testing.assert_allclose(b[name], array, rtol=1e-5, atol=1e-6)
    theirs = nnef.load_graph(str(tmp_path / "out"))
    nnef.infer_shapes(theirs)
    assert {name: tuple(theirs.tensors[name].shape) for name in a} == {name: array.shape for name, array in a.items()}


def test_a_graph_of_op_types_that_all_know_stays_itself(tmp_path):
    graph = gp.load(document(tmp_path, "y = relu(x)"), raw=True).graph
    assert portable(graph, Edition.FINAL) is graph


def test_the_provisional_edition_keeps_what_it_has(tmp_path):
    graph = gp.load(document(tmp_path, "[y, z] = split(silu(x), axis = 1, ratios = [1, 3])"), raw=True).graph
    assert [node.op_type for node in portable(graph, Edition.PROVISIONAL)] == ["sigmoid", "mul", "split"]
    assert [node.op_type for node in portable(graph, Edition.FINAL)] == ["sigmoid", "mul", "slice", "slice"]


@pytest.mark.parametrize(
    "call",
    [
        "y = local_response_normalization(x, size = [1, 3, 3, 1])",
        "y = cast<integer>(x)",
        "y = slice(x, axes = [0], begin = [0], end = [1])",
    ],
)
def test_op_types_without_alternative_are_unchanged(tmp_path, call):
    graph = gp.load(document(tmp_path, call), raw=True).graph
    assert [node.op_type for node in portable(graph, Edition.FINAL)] == [node.op_type for node in graph]


@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "reflect-even"])
def test_borders_of_pad_are_combined(tmp_path, border):
    call = f"y = pad(x, padding = [(0, 0), (-1, 2), (3, -2), (7, 0)], border = '{border}')"
    graph = gp.load(document(tmp_path, call), raw=True).graph
    said = portable(graph, Edition.FINAL)
    left = {pair for node in said if node.op_type == "pad" for pair in node.attributes["padding"]}
    assert all(min(pair) >= 0 for pair in left)
    assert left == set() or border in ("constant", "reflect")
    (tmp_path / "out").mkdir()
    said.notes.clear()
    gp.formats.FORMATS["nnef"].write(said, tmp_path / "out")
    a, b = (gp.run(gp.load(path), {"x": X}, backend="reference") for path in (tmp_path, tmp_path / "out"))
    np.testing.assert_array_equal(b["y"], a["y"])


PAINTED = [
    "stride = [2, 3], padding = [(0, 1), (1, 0)]",
    "stride = [2, 2], dilation = [2, 1]",
    "stride = [3, 4]",
    "padding = [(4, 0), (0, 3)], dilation = [1, 2]",
    "stride = [2, 1], padding = [(0, 0), (0, 0)], output_shape = [2, 4, 14, 10]",
    "stride = [3, 1], padding = [(0, 0), (0, 0)], groups = 2",
    "padding = [(0, 0), (0, 0)], groups = 0",
]


@pytest.mark.parametrize("said", PAINTED)
def test_transposed_convolutions_are_convolutions(tmp_path, said):
    rng = np.random.default_rng(5)
    count = 4 if "groups = 0" not in said else 1
    shape = 4, count // 2 if "groups = 2" in said else count, 3, 3
    text = (
        f"w = variable(shape = {list(shape)}, label = 'w');\n"
        f"    b = variable(shape = [1, 4], label = 'b');\n"
        f"    v = mul(w, 2.0);\n    y = deconv(x, {'v' if 'dilation' in said else 'w'}, b, {said})"
    )
    path = document(tmp_path, text)
    for name, array in {"w": rng.normal(size=shape), "b": rng.normal(size=(1, 4))}.items():
        with (tmp_path / f"{name}.dat").open("wb") as file:
            nnef.write_tensor(file, array.astype(np.float32))
    said_so = portable(gp.load(path, raw=True).graph, Edition.FINAL)
    assert "deconv" not in {node.op_type for node in said_so}
    hold(path, said_so)


@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
def test_interpolation_is_a_product(tmp_path, method):
    path = document(
        tmp_path, f"y = multilinear_upsample(x, factor = [3, 2], method = '{method}', border = 'replicate')"
    )
    said = portable(gp.load(path, raw=True).graph, Edition.FINAL)
    assert "multilinear_upsample" not in {node.op_type for node in said}
    hold(path, said)


def hold(path, said):
    """What `said` computes, in tract too, is what the text at `path` does."""
    (path / "out").mkdir()
    said.notes.clear()
    gp.formats.FORMATS["nnef"].write(said, path / "out")
    expected = gp.run(gp.load(path), {"x": X}, backend="reference")["y"]
    for backend in ("reference", "tract"):
        found = gp.run(gp.load(path / "out"), {"x": X}, backend=backend)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    nnef.infer_shapes(theirs := nnef.load_graph(str(path / "out")))
    assert tuple(theirs.tensors["y"].shape) == expected.shape
