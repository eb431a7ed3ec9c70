"""The decomposition of floats: powers of two are exact in runtimes whose logarithm and power are approximations."""

import numpy as np
import pytest

import graphport as gp
from graphport.api.model import Model
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.arithmetic_differences import frexp
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference


def frexp_model(dtype, count):
    graph = Graph("frexp")
    x = graph.add_input("x", TensorFact(dtype, (count,)))
    for value in frexp(Builder(Inference(), graph, None), x):
        graph.add_output(value)
    return Model(graph)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT32, DType.FLOAT64], ids=str)
def test_mantissa_and_exponent_are_exact(dtype):
    info = np.finfo(dtype.numpy)
    powers = 2.0 ** np.arange(info.minexp, info.maxexp)
    least = info.smallest_subnormal
    x = np.concatenate([[0, -0.0, np.inf, -np.inf, info.max, -info.max, least, -3 * least, 0.7, -1.1], powers, -powers])
    x = x.astype(dtype.numpy)
    mantissa, exponent = gp.run(frexp_model(dtype, x.size), {"x": x}, backend="reference").values()
    expected = np.frexp(x)
    np.testing.assert_array_equal(mantissa, expected[0])
    np.testing.assert_array_equal(exponent[np.isfinite(x)], expected[1][np.isfinite(x)])


def test_powers_of_two_are_exact_in_ncnn(tmp_path):
    x = (2.0 ** np.arange(-60, 60)).astype(np.float32)
    gp.convert(frexp_model(DType.FLOAT32, x.size), tmp_path / "net.ncnn.param", verify=False)
    mantissa, exponent = gp.run(tmp_path / "net.ncnn.param", {"x": x}, backend="ncnn").values()
    np.testing.assert_array_equal(mantissa, np.full(x.size, 0.5))
    np.testing.assert_array_equal(exponent, np.arange(-59, 61))
