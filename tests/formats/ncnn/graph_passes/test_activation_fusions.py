"""An activation is fused into the layer before it if it is the only consumer, and results are unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.ncnn.graph_passes.activation_fusions import drop_copies, fuse_activations, fuse_swish
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from tests.laws import canonical, computed

W = storage_of(np.array([1.0, -2.0, 0.5, 3.0, 0.25, -1.0, 2.0, 0.0, -3.0, 1.0, 1.0, -1.0], np.float32))
X = np.array([[0.5, -1.0, 1.5]], np.float32)
PRODUCT: dict[Any, Any] = {0: 4, 2: 12, "@0": W}
LOWEST, HIGHEST = -3.4028235e38, 3.4028235e38


class Net:
    """Layers by op type; `x` is the input, the last result is the output."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self.graph: Any = Graph()
        self.values = {"x": self.graph.add_input("x", TensorFact(DType.FLOAT32, (1, 3)))}
        for results, op_type, operands, *parameters in rows:
            self.put(results, op_type, operands, parameters[0] if parameters else {})
        self.graph.set_outputs([self.graph.last.output])

    def put(self, results: str, op_type: str, operands: str, parameters: Any) -> Node:
        made = [Value(name) for name in results.split()]
        self.values |= {value.name: value for value in made}
        told = {str(key): each for key, each in parameters.items()}
        given_ = [self.values[name] for name in operands.split()]
        return self.graph.append(Node(op_type, given_, made, told, dialect="ncnn"))

    def words(self) -> list[str]:
        verify(self.graph)
        return [node.op_type for node in self.graph]


def behind(op_type: Any, activation: Any = None, layer: Any = PRODUCT) -> Net:
    """A layer and an activation."""
    return Net(("h", "InnerProduct", "x", layer), ("y", op_type, "h", activation or {}))


ACTIVATIONS: list[tuple[str, dict[Any, Any], int, tuple[float, ...] | None]] = [
    ("ReLU", {}, 1, None),
    ("ReLU", {0: 0.0}, 1, None),
    ("ReLU", {0: 0.25}, 2, (0.25,)),
    ("Clip", {0: -0.5, 1: 0.75}, 3, (-0.5, 0.75)),
    ("Clip", {0: -2}, 3, (-2.0, HIGHEST)),
    ("Clip", {1: 0.75}, 3, (LOWEST, 0.75)),
    ("Sigmoid", {}, 4, None),
    ("Mish", {}, 5, None),
    ("HardSwish", {}, 6, (0.2, 0.5)),
    ("HardSwish", {0: 0.5, 1: 0.25}, 6, (0.5, 0.25)),
]


def test_each_activation_has_its_number_and_its_numbers():
    for op_type, parameters, number, numbers in ACTIVATIONS:
        net = behind(op_type, parameters)
        expected = computed(canonical(net.graph), {"x": X})
        assert fuse_activations(net.graph) == 1
        assert net.words() == ["InnerProduct"]
        assert net.graph.outputs[0].name == "y"
        layer = net.graph.first
        assert (layer.attributes["9"], layer.attributes.get("10")) == (number, numbers), op_type
        np.testing.assert_array_equal(computed(canonical(net.graph), {"x": X}), expected)


def test_what_takes_activations():
    one = {"Convolution": 2, "Convolution1D": 1, "Convolution3D": 3, "Deconvolution": 2}
    for op_type in (*one, "ConvolutionDepthWise", "ConvolutionDepthWise1D", "ConvolutionDepthWise3D", "InnerProduct"):
        assert fuse_activations(Net(("h", op_type, "x", PRODUCT), ("y", "ReLU", "h")).graph) == 1
    assert fuse_activations(Net(("h", "DeconvolutionDepthWise", "x", PRODUCT), ("y", "ReLU", "h")).graph) == 1
    for op_type in ("BatchNorm", "Gemm", "ReLU", "Pooling"):
        assert fuse_activations(Net(("h", op_type, "x"), ("y", "Sigmoid", "h")).graph) == 0
    assert fuse_activations(Net(("y", "ReLU", "x")).graph) == 0


def test_what_is_left_alone():
    other = behind("ReLU")
    other.graph.first.dialect = "custom"
    two = Net(("h", "InnerProduct", "x", PRODUCT), ("y z", "ReLU", "h"))
    for net in (
        behind("ReLU", layer={**PRODUCT, 9: 1}),
        behind("ReLU", layer={**PRODUCT, 8: 2}),
        behind("TanH"),
        other,
        two,
        Net(("h", "InnerProduct", "x", PRODUCT), ("y", "ReLU", "h"), ("z", "BinaryOp", "h y")),
    ):
        before = str(rewrite.copy(net.graph)), net.words()
        assert fuse_activations(net.graph) == 0
        assert (str(net.graph), net.words()) == before
    seen = behind("ReLU")
    seen.graph.set_outputs([seen.values["y"], seen.values["h"]])
    assert fuse_activations(seen.graph) == 0
    # A layer with an explicit "no activation" or "no int8" parameter can be fused.
    assert fuse_activations(behind("ReLU", layer={**PRODUCT, 9: 0, 8: 0}).graph) == 1


def test_every_layer_takes_its_own():
    net = Net(
        ("a", "InnerProduct", "x", PRODUCT),
        ("b", "ReLU", "a"),
        ("c", "InnerProduct", "b", {0: 3, 2: 12, "@0": W}),
        ("d", "TanH", "c"),
        ("e", "InnerProduct", "d", PRODUCT),
        ("y", "Sigmoid", "e"),
    )
    net.values["b"].notes["seen"] = 1
    net.values["b"].fact = TensorFact(DType.FLOAT32, (1, 4))
    assert fuse_activations(net.graph) == 2
    assert net.words() == ["InnerProduct", "InnerProduct", "TanH", "InnerProduct"]
    first = net.graph.first.output
    assert (first.name, first.fact, first.notes["seen"]) == ("b", TensorFact(DType.FLOAT32, (1, 4)), 1)


def swish(kind: Any = 2, *, order: str = "a s", read: str = "b", copies: str = "a b") -> Net:
    """A blob by its own sigmoid."""
    return Net(
        (copies, "Split", "x"),
        ("s", "Sigmoid", read),
        ("y", "BinaryOp", order, {} if kind is None else {0: kind}),
    )


def test_a_blob_by_its_own_sigmoid_is_one_layer():
    for order, read in (("a s", "b"), ("s a", "b"), ("b s", "a"), ("s b", "a")):
        net = swish(order=order, read=read)
        expected = computed(canonical(net.graph), {"x": X})
        assert fuse_swish(net.graph) == 1
        assert net.words() == ["Swish"]
        assert not net.graph.first.attributes
        assert net.graph.first.operands == [net.values["x"]]
        assert net.graph.outputs[0].name == "y"
        np.testing.assert_allclose(computed(canonical(net.graph), {"x": X}), expected, rtol=1e-6)


def test_a_blob_that_others_read_is_copied_for_them():
    net = swish(copies="a b c")
    net.put("z", "BinaryOp", "y c", {0: 0})
    net.graph.set_outputs([net.values["z"]])
    assert fuse_swish(net.graph) == 1
    assert net.words() == ["Split", "Swish", "BinaryOp"]
    assert [value.name for value in net.graph.first.results] == ["a", "c"]


def test_what_is_no_swish():
    for kind in (None, 0, 1, 3):
        assert fuse_swish(swish(kind).graph) == 0
    seen = swish()
    seen.graph.set_outputs([seen.values["y"], seen.values["s"]])
    assert fuse_swish(seen.graph) == 0
    twice = swish()
    twice.put("z", "BinaryOp", "s y", {0: 2})
    assert fuse_swish(twice.graph) == 0
    split, sigmoid = ("a b", "Split", "x"), ("s", "Sigmoid", "a")
    product: Any = {0: 2}
    assert fuse_swish(Net(split, ("s", "TanH", "a"), ("y", "BinaryOp", "b s", product)).graph) == 0
    assert fuse_swish(Net(split, sigmoid, ("y", "BinaryOp", "s", {**product, 1: 1, 2: 3.0})).graph) == 0
    assert fuse_swish(Net(split, ("c d", "Split", "b"), sigmoid, ("y", "BinaryOp", "c s", product)).graph) == 0
    assert fuse_swish(Net(split, ("c d", "Slice", "x"), sigmoid, ("y", "BinaryOp", "c s", product)).graph) == 0
    assert fuse_swish(Net(("s", "Sigmoid", "x"), ("y", "BinaryOp", "x s", product)).graph) == 0
    slices = Net(("a b", "Slice", "x"), sigmoid, ("y", "BinaryOp", "b s", product))
    assert fuse_swish(slices.graph) == 0


@given(copies=st.integers(2, 5), data=st.data())
def test_copies_without_consumers_go(copies, data):
    names = [f"c{n}" for n in range(copies)]
    net = Net((" ".join(names), "Split", "x"), ("y", "ReLU", "x"))
    read = data.draw(st.lists(st.sampled_from(names), unique=True))
    returned = data.draw(st.lists(st.sampled_from(names), unique=True))
    for name in read:
        net.put(f"r{name}", "Sigmoid", name, {})
    net.graph.set_outputs([net.values["y"], *[net.values[name] for name in returned]])
    asked = data.draw(st.lists(st.sampled_from(names), unique=True))
    kept = [name for name in names if name in (*read, *returned) or name not in asked]
    drop_copies(net.graph, [net.values[name] for name in asked])
    words = net.words()
    if len(kept) == 1 and kept[0] not in returned and set(asked) - set(kept):
        assert "Split" not in words
        assert all(node.operands[0].name == "x" for node in net.graph)
    elif kept:
        assert [value.name for value in net.graph.first.results] == kept
