"""Python that runs a model of ncnn."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.python_code import call, literal, path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Graph, Value

_UNNAMED = re.compile(r"[^\w.-]", re.ASCII)
_TEXT = '''"""{name} in ncnn, written by graphport. `run` takes and returns arrays with a batch of 1 in front."""

from pathlib import Path

import ncnn
import numpy as np

MODEL = Path(__file__).with_name({model})
INPUTS = {inputs}
OUTPUTS = {outputs}


def run(*arrays):
    """The results of the model, one for each of OUTPUTS; `arrays` are as many as INPUTS."""
    with ncnn.Net() as net:
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.load_param(str(MODEL))
        net.load_model(str(MODEL.with_suffix(".bin")))
        with net.create_extractor() as extractor:
            # A clone has the gaps between channels that layers count on.
            blobs = [ncnn.Mat(np.ascontiguousarray(array[0])).clone() for array in arrays]
            for name, blob in zip(INPUTS, blobs):
                extractor.input(name, blob)
            return [np.array(extractor.extract(name)[1])[None] for name in OUTPUTS]


if __name__ == "__main__":
    random = np.random.default_rng(0)
    for name, result in zip(OUTPUTS, run({samples})):
        print(name, result.shape, result.dtype)
'''


def code_of(model: str, graph: Graph) -> str:
    """Return a Python program that runs `MODEL.param`, from which `graph` was read, by ncnn."""
    return _TEXT.format(
        name=_UNNAMED.sub("_", model.removesuffix(".ncnn")),
        model=ast.unparse(literal(f"{model}.param")),
        inputs=_names(graph.inputs),
        outputs=_names(graph.outputs),
        samples=", ".join(ast.unparse(_sample(value)) for value in graph.inputs),
    )


def _names(values: Sequence[Value]) -> str:
    return ast.unparse(literal(tuple(value.name for value in values)))


def _sample(value: Value) -> ast.expr:
    """Random elements for an input; open dims have size 8."""
    fact = value.fact
    dims = (fact.shape or ()) if isinstance(fact, TensorFact) else ()
    shape = literal(tuple(dim if isinstance(dim, int) else 8 for dim in dims))
    if isinstance(fact, TensorFact) and fact.dtype not in (None, DType.FLOAT32, DType.FLOAT16, DType.FLOAT64):
        return call("np.zeros", shape, path("np.int32"))
    return call("random.random", shape, path("np.float32"))
