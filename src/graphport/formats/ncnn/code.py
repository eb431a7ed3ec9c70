"""Python that runs a model of ncnn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value

_UNNAMED = re.compile(r"[^\w.-]", re.ASCII)
_TEXT = '''"""{name} in ncnn, written by graphport. `run` takes and returns arrays with a batch of 1 in front."""

from pathlib import Path

import ncnn
import numpy as np

MODEL = Path(__file__).with_name({model!r})
INPUTS = ({inputs})
OUTPUTS = ({outputs})


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
    """The text of a Python file for `MODEL.param`, which `graph` was read from."""
    return _TEXT.format(
        name=_UNNAMED.sub("_", model.removesuffix(".ncnn")),
        model=f"{model}.param",
        inputs="".join(f"{value.name!r}, " for value in graph.inputs).strip(),
        outputs="".join(f"{value.name!r}, " for value in graph.outputs).strip(),
        samples=", ".join(map(_sample, graph.inputs)),
    )


def _sample(value: Value) -> str:
    fact = value.fact
    dims = (fact.shape or ()) if isinstance(fact, TensorFact) else ()
    shape = ", ".join(str(dim) if isinstance(dim, int) else "8" for dim in dims)
    if isinstance(fact, TensorFact) and fact.dtype not in (None, DType.FLOAT32, DType.FLOAT16, DType.FLOAT64):
        return f"np.zeros(({shape},), np.int32)"
    return f"random.random(({shape},), np.float32)"
