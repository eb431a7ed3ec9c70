"""Numbers in the text of ncnn: its own reader makes the same single floats of them."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.ncnn import write
from graphport.ir.graph import Graph, Node, Value
from tests.formats.ncnn.test_layers import run_ncnn

pytest.importorskip("ncnn")


def written(path, number):
    """The text of a file of one layer, which multiplies by a number."""
    graph, y = Graph(), Value("y")
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (1, 1)))
    graph.append(Node("BinaryOp", [x], [y], {"0": 2, "1": 1, "2": number}, dialect="ncnn", name="l"))
    graph.add_output(y)
    write(graph, path)
    return path.read_text().split(" 2=")[-1].strip()


def test_every_single_float_is_read_as_itself(tmp_path):
    random = np.random.default_rng(0)
    bits = random.integers(0, 1 << 32, 300, dtype=np.uint32).view(np.float32)
    known = np.array([0.1, 1 / 3, 16777215, 123456789, 1e-5, 1.17549435e-38, 3.4028235e38, -0.00012345678], np.float32)
    for number in (*known, *bits[np.isfinite(bits) & (np.abs(bits) > 1e-37)]):
        text = written(tmp_path / "net.param", float(number))
        assert len(text) <= 15
        (found,) = run_ncnn(tmp_path / "net.param", {"x": np.ones(1, np.float32)}, ["y"]).values()
        assert found[0] == number, text


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, 1e39])
def test_operators_without_ncnn_layer_are_refused(tmp_path, number):
    with pytest.raises(DiagnosticError, match="NCNN0303"):
        written(tmp_path / "net.param", float(number))
