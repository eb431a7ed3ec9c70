"""Operations of the provisional edition in the current form, and written in that edition again."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.nnef import read, write
from graphport.ir.verify import verify


def document(*statements, inputs="x", outputs="y"):
    body = "".join(f"    {statement}\n" for statement in statements)
    return f"version 1.0\n\ngraph net( {inputs} ) -> ( {outputs} )\n{{\n{body}}}\n"


def graph_of(folder: Path, *statements, **parts):
    path = folder / "model.nnef"
    path.write_text(document(*statements, **parts))
    graph, findings = read(path, edition="provisional")
    verify(graph)
    assert findings == []
    return graph


def last(graph):
    node = graph.outputs[0].producer
    return node.op_type, node.attributes


X = "x = external(shape = [1, 4, 9, 8])"
W = "w = variable(shape = [4, 1, 3, 3], label = 'w')"
V = "v = variable(shape = [8, 4, 3, 3], label = 'v')"


def test_a_copy_has_its_final_name(tmp_path):
    assert last(graph_of(tmp_path, X, "y = idn(x)")) == ("copy", {})


@pytest.mark.parametrize("op_type", ["conv", "deconv"])
def test_planewise_is_one_group_each_channel(tmp_path, op_type):
    said, attributes = last(graph_of(tmp_path, X, W, f"y = planewise_{op_type}(x, w)"))
    assert said == op_type
    assert attributes["groups"] == 0


def test_parameters_have_their_final_names(tmp_path):
    assert last(graph_of(tmp_path, X, "y = transpose(x, perm = [0, 2, 1])")) == ("transpose", {"axes": (0, 2, 1)})
    a, b = "x = external(shape = [3, 2])", "b = variable(shape = [3, 4], label = 'b')"
    op_type, attributes = last(graph_of(tmp_path, a, b, "y = matmul(x, b, trA = true)"))
    assert (op_type, attributes) == ("matmul", {"transposeA": True, "transposeB": False})


def test_axes_beyond_the_rank_are_omitted(tmp_path):
    x = "x = external(shape = [3, 2])"
    assert last(graph_of(tmp_path, x, "y = sum_reduce(x, axes = [1, 2, 5])"))[1]["axes"] == (1,)
    assert last(graph_of(tmp_path, x, "y = transpose(x, perm = [1, 0, 2])"))[1]["axes"] == (1, 0)


def test_short_arrays_are_filled_up(tmp_path):
    op_type, attributes = last(graph_of(tmp_path, X, V, "y = conv(x, v, stride = [2], dilation = [1])"))
    assert op_type == "conv"
    assert (attributes["stride"], attributes["dilation"]) == ((2, 1), (1, 1))
    _, attributes = last(graph_of(tmp_path, X, "y = max_pool(x, size = [1, 1, 2], stride = [1, 1, 2])"))
    assert (attributes["size"], attributes["stride"], attributes["dilation"]) == ((1, 1, 2, 1), (1, 1, 2, 1), ())


@pytest.mark.parametrize(
    ("call", "padding"),
    [
        pytest.param("conv(x, v, padding = [(2, 0)])", ((2, 0), (1, 1)), id="the rest is automatic"),
        pytest.param("conv(x, v, padding = [(2, 0)], stride = [1, 3])", ((2, 0), (0, 1)), id="by the stride"),
        pytest.param("conv(x, v, padding = [(2, 0)], dilation = [1, 2])", ((2, 0), (2, 2)), id="and the dilation"),
        pytest.param("deconv(x, w, padding = [(1, 1)], groups = 4)", ((1, 1), (1, 1)), id="reverse"),
        pytest.param("conv(x, v, padding = [])", (), id="all automatic"),
        pytest.param("max_pool(x, size = [1, 1, 3, 3], padding = [(0, 0), (0, 0), (1, 0)])",
                     ((0, 0), (0, 0), (1, 0), (1, 1)), id="over all axes"),
    ],
)  # fmt: skip
def test_paddings_that_are_omitted_are_automatic(tmp_path, call, padding):
    assert last(graph_of(tmp_path, X, V, W, f"y = {call}"))[1]["padding"] == padding


def test_automatic_padding_of_a_dynamic_dim_must_not_depend_on_it(tmp_path):
    x = "x = external(shape = [1, 4, 9, 0])"
    assert last(graph_of(tmp_path, x, V, "y = conv(x, v, padding = [(2, 0)])"))[1]["padding"] == ((2, 0), (1, 1))
    with pytest.raises(DiagnosticError) as caught:
        graph_of(tmp_path, x, V, "y = conv(x, v, padding = [(2, 0)], stride = [2, 2])")
    (finding,) = caught.value.diagnostics
    assert finding.code == "NNEF0632"
    assert finding.span is not None
    assert (finding.span.line, finding.span.column) == (7, 30)


def test_its_own_powers_of_two_are_an_op_type_of_their_own(tmp_path):
    op_type, attributes = last(graph_of(tmp_path, X, "y = logarithmic_quantize(x, 4.0, bits = 3)"))
    assert (op_type, attributes) == ("provisional.logarithmic_quantize", {"bits": 3})


STATEMENTS = (
    X,
    "w = variable(shape = [4, 1, 3, 3], label = 'w')",
    "a = idn(x)",
    "b = planewise_conv(a, w, padding = [(1, 1), (1, 1)])",
    "c = transpose(b, perm = [0, 2, 3, 1])",
    "d = elu(c)",
    "e = reshape(d, shape = [1, 288])",
    "f = l2_normalization(e, axes = [1])",
    "g = logarithmic_quantize(f, 4.0, bits = 3)",
    "y = matmul(g, g, trB = true)",
)


def test_a_graph_is_written_in_the_edition_that_is_requested(tmp_path):
    graph = graph_of(tmp_path, *STATEMENTS)
    write(graph, tmp_path / "again.nnef", edition="provisional", flatten=True)
    again, _ = read(tmp_path / "again.nnef", edition="provisional")
    assert [(node.op_type, node.attributes) for node in again] == [(node.op_type, node.attributes) for node in graph]
    text = (tmp_path / "again.nnef").read_text()
    assert "planewise_conv(a, w, " in text
    assert "perm = [" in text


def test_a_provisional_graph_is_written_in_the_final_edition(tmp_path):
    statements = [line for line in STATEMENTS if "logarithmic" not in line]
    graph = graph_of(tmp_path, *(line.replace("(g, g", "(f, f") for line in statements))
    write(graph, tmp_path / "final.nnef", edition="final")
    text = (tmp_path / "final.nnef").read_text()
    assert "version 1.0;" in text
    again, _ = read(tmp_path / "final.nnef", edition="final")
    assert [node.op_type for node in again] == [node.op_type for node in graph]
    # Its reader adds the default arguments of the later edition.
    said = [(node, other) for node, other in zip(again, graph, strict=True)]
    assert all(other.attributes.items() <= node.attributes.items() for node, other in said)
