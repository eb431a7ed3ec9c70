"""Caches of keys and values, which tract keeps: an input and an output of a model, and its word again."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

TEXT = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_transformers;
extension tract_symbol S;
extension tract_symbol P;
graph g(x) -> (y)
{
    x = tract_core_external(shape = [1, 2, S, 4], datum_type = 'f32');
    k = tract_transformers_dyn_kv_cache(x, name = 'seen', axis = 2, datum_type = 'f32',
        past_sequence_shape = [1, 2, P, 4], input_sequence_shape = [1, 2, S, 4]);
    y = 2.0 * k;
}
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "graph.nnef").write_text(TEXT)
    return gp.load(tmp_path / "graph.nnef")


def parts():
    rng = np.random.default_rng(1)
    return [rng.normal(size=(1, 2, length, 4)).astype(np.float32) for length in (3, 1, 2)]


def test_it_begins_with_nothing_and_holds_what_came(model, tmp_path):
    gp.save(model, tmp_path / "m.onnx")
    for read in (model, gp.load(tmp_path / "m.onnx")):
        session = gp.session(read)
        found = [session.run({"x": part})["y"] for part in parts()]
        for count, y in enumerate(found, 1):
            np.testing.assert_array_equal(y, 2 * np.concatenate(parts()[:count], 2))


def test_the_past_may_be_given(model):
    first, second, _ = parts()
    y = gp.run(model, {"x": second, "seen": first})["y"]
    np.testing.assert_array_equal(y, 2 * np.concatenate([first, second], 2))


def test_it_is_written_as_the_op_type(model, tmp_path):
    gp.save(model, tmp_path / "m.onnx")
    for read in (model, gp.load(tmp_path / "m.onnx")):
        gp.save(read, tmp_path / "m", format="nnef", flavour="tract")
        text = (tmp_path / "m" / "graph.nnef").read_text()
        assert "graph network( x ) -> ( y )" in text
        assert "tract_transformers_dyn_kv_cache(x, name = 'seen', axis = 2, datum_type = 'f32'" in text
        assert list(gp.load(tmp_path / "m").inputs) == ["x", "seen"]


@pytest.mark.parametrize(("old", "new"), [("axis = 2", "axis = 4"), ("axis = 2", "axis = -1")])
def test_an_axis_that_does_not_exist_is_reported(tmp_path, old, new):
    (tmp_path / "graph.nnef").write_text(TEXT.replace(old, new))
    with pytest.raises(DiagnosticError, match="NNEF0904"):
        gp.load(tmp_path / "graph.nnef")
