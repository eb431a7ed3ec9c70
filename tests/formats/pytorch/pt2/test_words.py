"""PyTorch ops outside the Core ATen set and the network tests, compared with PyTorch's results.

`words/make.py` made the programs: each op is called several times, with its special cases.
"""

from pathlib import Path

import openvino
import pytest

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from tests.formats.pytorch.pt2.test_core_aten import agree, compute_alike, recorded

PROGRAMS = Path(__file__).parent / "words"
RESULTS = {name: name for name in sorted(path.stem for path in PROGRAMS.glob("*.pt2"))} | {"older": "sizes"}


@pytest.mark.parametrize(
    ("name", "results"), [*RESULTS.items(), ("sizes", "larger"), ("reals", "fewer"), ("empties", "none")]
)
def test_op_types_match_pytorch(name, results, tmp_path):
    compute_alike(PROGRAMS / f"{name}.pt2", PROGRAMS / f"{results}.npz", tmp_path)


def test_symbolic_floats_of_static_sizes_match_python(tmp_path):
    model = gp.load(PROGRAMS / "reals.pt2", shapes={"x": [100, 3]})
    expected = recorded(PROGRAMS / "reals.npz", "out")
    assert [value.fact.shape for value in model.graph.outputs] == [array.shape for array in expected]
    (x,) = recorded(PROGRAMS / "reals.npz", "in")
    agree(list(gp.run(model, {"x": x}, backend="reference").values()), expected)
    # OpenVINO computes data-dependent values in float32.
    gp.save(model, tmp_path / "net.xml")
    compiled = openvino.Core().compile_model(tmp_path / "net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled([x])
    lengths = 9
    agree([found[port] for port in compiled.outputs[:lengths]], expected[:lengths])


def test_a_tensor_begins_with_its_first_number():
    # With a hand-built graph: `torch.export` evaluates this op during tracing.
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    node = graph.append(Node("aten.sym_storage_offset.default", [x], [Value("y")], dialect="pytorch"))
    graph.set_outputs(node.results)
    (offset,) = legalize(graph)[0]
    assert offset.inputs[0].storage.numpy().tolist() == 0


def test_cast_infers_the_dtype_of_an_untyped_operand():
    graph = Graph()
    x = graph.add_input("x", TensorFact(None, (2, 3)))
    attributes = {"dtype": "torch.float32", "$": ("self",)}
    node = graph.append(Node("aten.to.dtype", [x], [Value("y")], attributes, dialect="pytorch"))
    graph.set_outputs(node.results)
    (cast,) = legalize(graph)[0]
    assert (cast.op, cast.output.fact) == ("Cast", TensorFact(DType.FLOAT32, (2, 3)))


def test_proposed_sizes_satisfy_the_declared_shapes(tmp_path):
    path = PROGRAMS / "reals.pt2"
    with pytest.raises(gp.DiagnosticError) as refusal:
        gp.save(gp.load(path), tmp_path / "m.ncnn.param")
    helps = {finding.help for finding in refusal.value.diagnostics if "Resize" in finding.message}
    assert helps == {"set the symbolic dims, for example --input x=2x3"}
    with pytest.raises(gp.DiagnosticError, match="NCNN0305") as refusal:
        gp.save(gp.load(path, shapes={"x": [2, 3]}), tmp_path / "m.ncnn.param")
    assert "Resize" not in str(refusal.value)
