"""Words of PyTorch that neither its Core ATen set nor the networks beside it have, held against what PyTorch computes.

`words/make.py` made the programs: a word is called several times, with what is special about it.
"""

from pathlib import Path

import pytest

from graphport.conversion.legalize import legalize
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from tests.formats.pt2.test_core_aten import compute_alike

PROGRAMS = Path(__file__).parent / "words"
RESULTS = {name: name for name in sorted(path.stem for path in PROGRAMS.glob("*.pt2"))} | {"older": "sizes"}


@pytest.mark.parametrize(("name", "results"), [*RESULTS.items(), ("sizes", "larger"), ("reals", "fewer")])
def test_words_compute_what_pytorch_does(name, results, tmp_path):
    compute_alike(PROGRAMS / f"{name}.pt2", PROGRAMS / f"{results}.npz", tmp_path)


def test_a_tensor_begins_with_its_first_number():
    # Of a graph of its own: `torch.export` computes this where it is called.
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    node = graph.append(Node("aten.sym_storage_offset.default", [x], [Value("y")], dialect="pytorch"))
    graph.set_outputs(node.results)
    (offset,) = legalize(graph)[0]
    assert offset.inputs[0].storage.numpy().tolist() == 0
