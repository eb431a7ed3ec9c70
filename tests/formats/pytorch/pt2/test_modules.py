"""The modules around the nodes of a written program, and the names of their weights."""

import pytest
from onnx import TensorProto as T
from onnx import helper as h

import graphport as gp
from tests.formats.pytorch.pt2.test_writer import document, floats, model, written


def stacks(path):
    """The qualified names of the modules around each node."""
    return [
        [entry.split(",")[1] for entry in node["metadata"]["nn_module_stack"].split(";")][1:]
        for node in document(path)["graph_module"]["graph"]["nodes"]
    ]


def parameters(path):
    specs = document(path)["graph_module"]["signature"]["input_specs"]
    return [spec["parameter"]["parameter_name"] for spec in specs if "parameter" in spec]


def network(names, weights=("onnx::Conv_12", "fc.bias")):
    """A convolution, a sum and a rectifier with these names."""
    nodes = [
        h.make_node("Conv", ["x", weights[0]], ["c"], name=names[0]),
        h.make_node("Add", ["c", weights[1]], ["a"], name=names[1]),
        h.make_node("Relu", ["a"], ["y"], name=names[2]),
    ]
    values = [(weights[0], floats(2, 3, 1, 1)), (weights[1], floats(1))]
    return model(nodes, [("x", T.FLOAT, [1, 3, 4, 4])], [("y", T.FLOAT, [1, 2, 4, 4])], values)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(
            ["/layers/layers.0/conv/Conv", "/layers/layers.0/Add", "/Relu"],
            [["layers", "layers.0", "layers.0.conv"], ["layers", "layers.0"], []],
            id="a part repeats the part before it",
        ),
        pytest.param(
            ["/layers.0/conv/Conv", "/layers.1/Add", "/layers.1/act/Relu"],
            [["layers.0", "layers.0.conv"], ["layers.1"], ["layers.1", "layers.1.act"]],
            id="a list of modules is not called",
        ),
        pytest.param(["/a/Conv", "/Add", "/a/Relu"], [["a"], [], []], id="a module is called once"),
        pytest.param(
            ["/forward/Conv", "/a b/Add", "/1/Relu"], [["forward_"], ["a_b"], ["1"]], id="names of attributes"
        ),
        pytest.param(["Conv", "Add", "Relu"], [[], ["fc"], []], id="no scopes: the module of the weights"),
    ],
)
def test_modules_are_those_of_the_node_names(tmp_path, names, expected):
    _, back = written(network(names), tmp_path)
    assert stacks(tmp_path / "net.pt2") == expected
    gp.save(back, tmp_path / "again.pt2")
    assert stacks(tmp_path / "again.pt2") == expected


def test_modules_are_those_that_the_exporter_records(tmp_path):
    made = network(["node_conv", "node_add", "node_relu"])
    recorded = ["['', 'body', 'body.0', 'conv2d']", "['', 'body', 'add']", "['', 'body@1', 'relu']"]
    for node, scopes in zip(made.graph.node, recorded, strict=True):
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    written(made, tmp_path)
    assert stacks(tmp_path / "net.pt2") == [["body", "body.0"], ["body"], ["body"]]


def test_the_nesting_of_modules_is_bounded(tmp_path):
    names = [f"{'/a' * 2000}/Conv", "/Add", "/Relu"]
    written(network(names, ("a." * 2000 + "weight", "fc.bias")), tmp_path)
    assert len(stacks(tmp_path / "net.pt2")[0]) == 24
    assert max(name.count(".") for name in parameters(tmp_path / "net.pt2")) == 24


def test_unnamed_weight_is_named_after_its_module(tmp_path):
    written(network(["/conv/Conv", "/Add", "/Relu"]), tmp_path)
    assert parameters(tmp_path / "net.pt2") == ["conv.weight", "fc.bias"]


def test_a_weight_has_another_name_than_a_module(tmp_path):
    written(network(["/conv/Conv", "/fc/Add", "/Relu"], ("conv", "fc")), tmp_path)
    assert parameters(tmp_path / "net.pt2") == ["conv_1", "fc_1"]
