"""Results that the elements of an input make larger than the memory of a run."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from graphport.backends import interpreter, reference
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.onnx import from_proto
from graphport.ops import registry
from graphport.runtimes import run_limits
from tests.models import model, node, typed

N = 10**10
IMAGE = np.ones((1, 1, 2, 2), np.float32)
GROWING = {
    "AffineGrid": ([np.ones((1, 2, 3), np.float32), "n"], [1, 1, N, 2], {}),
    "BlackmanWindow": (["n"], N, {}),
    "CenterCropPad": ([IMAGE, "n"], [1, 1, N, 2], {}),
    "Col2Im": ([np.ones((1, 4, 1), np.float32), "n", np.array([2, 2])], [N, 2], {"strides": [N, 1]}),
    "ConstantOfShape": (["n"], [N], {}),
    "DFT": ([np.ones((1, 4, 1), np.float32), "n", np.int64(1)], N, {}),
    "Expand": ([IMAGE, "n"], [1, N, 2, 2], {}),
    "HammingWindow": (["n"], N, {}),
    "HannWindow": (["n"], N, {}),
    "MaxUnpool": ([IMAGE, np.zeros((1, 1, 2, 2), np.int64), "n"], [1, 1, N, 4], {"kernel_shape": [2, 2]}),
    "MelWeightMatrix": (
        ["n", np.int64(16), np.int64(8000), np.float32(0), np.float32(4000)],
        N,
        {},
    ),
    "OneHot": ([np.arange(3), "n", np.array([0, 1], np.float32)], N, {}),
    "Pad": ([IMAGE, "n"], [0, 0, N, 0, 0, 0, 0, 0], {}),
    "Range": ([np.int64(0), "n", np.int64(1)], N, {}),
    "Resize": ([IMAGE, None, None, "n"], [1, 1, N, 2], {}),
    "STFT": ([np.ones((1, 1 << 18, 1), np.float32), "n", None, np.int64(1 << 17)], 1, {}),
    "Tile": ([IMAGE, "n"], [1, 1, N, 2], {}),
}
"""Operands with "n" for an input, a value of the input that makes the result large, and attributes."""
BOUNDED = {
    "Attention", "CumProd", "CumSum", "DeformConv", "Dropout", "GRU", "Gather", "GatherElements", "GatherND",
    "GridSample", "LSTM", "MaxRoiPool", "NonMaxSuppression", "RNN", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Reshape",
    "ReverseSequence", "RoiAlign", "RotaryEmbedding", "ScatterElements", "ScatterND", "SequenceAt", "SequenceErase",
    "SequenceInsert", "Slice", "Split", "SplitToSequence", "Squeeze", "TensorScatter", "TopK", "Trilu", "Unsqueeze",
}  # fmt: skip
"""Operators whose results are not larger than their operands' shapes allow, for any elements."""


def test_each_operator_with_index_operands_is_in_one_list():
    assert {name for name, each in registry.op_defs().items() if each.index_operands} == {*GROWING, *BOUNDED}


def session_of(op, operands, given, attributes):
    given = np.asarray(given)
    held = {f"c{index}": each for index, each in enumerate(operands) if not isinstance(each, (str, type(None)))}
    names = ["" if each is None else "n" if isinstance(each, str) else f"c{i}" for i, each in enumerate(operands)]
    proto = model(
        [node(op, names, ["y"], **attributes)],
        [typed("n", list(given.shape), TensorProto.INT64)],
        [helper.make_empty_tensor_value_info("y")],
        held,
        opset=20,
    )
    graph, findings = legalize(from_proto(proto))
    assert findings == []
    return reference.prepare(graph), {"n": given.astype(np.int64)}


@pytest.mark.parametrize("op", GROWING)
def test_a_result_that_an_input_makes_too_large_is_not_computed(op):
    """A node may take all memory of the machine: the memory of a run is only checked between nodes."""
    session, inputs = session_of(op, *GROWING[op])
    with run_limits.limited(1000), pytest.raises(DiagnosticError, match=r"the result has \S+e\+\d+ elements"):
        session.run(inputs)


@pytest.mark.parametrize("op", [op for op in GROWING if op != "STFT"])
def test_a_small_result_of_open_size_is_computed(op):
    operands, given, attributes = GROWING[op]
    session, inputs = session_of(op, operands, np.where(np.equal(given, N), 4, given), attributes)
    with run_limits.limited(1000):
        assert session.run(inputs)["y"].size >= 3


def test_size_of_a_result_is_inferred_once_for_operands_of_equal_shapes(monkeypatch):
    inferred = []
    count = interpreter._count_elements
    monkeypatch.setattr(interpreter, "_count_elements", lambda *given: inferred.append(given[0].op) or count(*given))
    proto = model(
        [node("Relu", "x", "y")], [typed("x", ["N"], TensorProto.FLOAT)], [typed("y", ["N"], 1)], {}, opset=20
    )
    session = reference.prepare(legalize(from_proto(proto))[0])
    for size in (3, 3, 5, 5):
        with run_limits.limited(1000):
            assert session.run({"x": np.ones(size, np.float32)})["y"].size == size
    assert inferred == ["Relu", "Relu"]
