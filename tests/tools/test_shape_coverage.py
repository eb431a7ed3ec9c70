"""The tool that holds inferred shapes against computed ones."""

import pytest
from onnx import TensorProto, helper, save

from tools import shape_coverage as tool


def test_a_row_states_how_many_shapes_are_right(tmp_path, capsys):
    nodes = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Relu", ["x"], ["y"])]
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([*nodes], "net", infos, outputs)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx")
    assert tool.main([str(tmp_path / "net.onnx")]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:2] == ["net.onnx", "2"]
    assert "1 right, 1 open" in row


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((2, "d0"), "right"), ((2, "2*d0"), "WRONG"), ((2, "other"), "open"), ((2,), "WRONG"), (None, "no rank")],
)
def test_a_shape_is_judged_at_both_sizes(shape, expected):
    assert tool.verdict(shape, [(2, 5), (2, 7)], [{"d0": 5}, {"d0": 7}]) == expected


def test_without_a_model_it_states_how_to_call_it(capsys):
    assert tool.main([]) == 2
    assert "MODEL.onnx" in capsys.readouterr().err
