"""The backend that hands models to LiteRT as TFLite files."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.api.run import session, timed_session
from graphport.formats.tflite import runtime as litert
from tests.models import model, node

interpreter = pytest.importorskip("ai_edge_litert.interpreter")


def net():
    w = np.random.default_rng(2).normal(size=(4, 3, 3, 3)).astype(np.float32)
    return gp.from_onnx(model([node("Conv", ["x", "w"], ["y"])], [("x", (1, 3, 8, 8))], [("y", None)], {"w": w}))


def test_reported_to_be_quick_it_computes_equal_results():
    x = np.random.default_rng(3).normal(size=(1, 3, 8, 8)).astype(np.float32)
    found, expected = (make(net(), "litert").run({"x": x})["y"] for make in (timed_session, session))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("told", "kernels"), [((), "BUILTIN_WITHOUT_DEFAULT_DELEGATES"), (("quick",), "AUTO")])
def test_only_what_is_quick_has_the_kernels_of_its_delegates(tmp_path, monkeypatch, told, kernels):
    gp.save(net(), tmp_path / "net.tflite")
    given, real = [], interpreter.Interpreter
    monkeypatch.setattr(interpreter, "Interpreter", lambda **rest: given.append(rest) or real(**rest))
    litert._load(str(tmp_path / "net.tflite"), *told)
    assert given[0]["experimental_op_resolver_type"] is interpreter.OpResolverType[kernels]
