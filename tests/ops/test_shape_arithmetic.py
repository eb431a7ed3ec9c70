"""Random shape arithmetic: every inferred dim equals the dim of a run."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnx.printer
import onnxruntime
from hypothesis import given, note, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from graphport.conversion.legalize import legalize
from graphport.core.dims import evaluate
from graphport.core.facts import TensorFact
from graphport.formats.onnx import from_proto
from tests.draws import times
from tests.models import model, node

SIZES = ({"B": 1, "T": 1, "H": 1}, {"B": 2, "T": 7, "H": 3}, {"B": 3, "T": 4, "H": 10}, {"B": 5, "T": 1, "H": 8})
NUMBERS = {f"n{number}": np.array([number], np.int64) for number in range(-1, 13)} | {
    "f1.7": np.array([1.7], np.float32)
}
MANY_SIZES = [{name: random.Random(f"{name}{turn}").randint(1, 14) for name in "BTHW"} for turn in range(20)]
WEIGHTS = {f"w{k}": np.zeros((2, 2, k, k), np.float32) for k in (1, 2, 3)}
FACTORS = {f"by {factor}": np.array([1, 1, factor, factor], np.float32) for factor in (0.3, 0.5, 0.75, 1, 1.5, 2)}
MOST_PICTURES = 6


class Shaped:
    """A graph that computes integers from shapes and uses them as dims; every integer is a tensor of one element."""

    def __init__(self, draw):
        self.draw = draw
        self.nodes = []
        self.numbers = [f"n{number}" for number in range(1, 5)]
        self.tensors = ["x", "y"]
        self.ranks = {"x": 3, "y": 2}

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, [name], **attributes))
        return name

    def number(self):
        return self.draw(st.sampled_from(self.numbers))

    def tensor(self):
        return self.draw(st.sampled_from(self.tensors))

    def keep(self, name, rank):
        self.tensors.append(name)
        self.ranks[name] = rank

    def model(self, inputs, constants, **versions):
        names = dict.fromkeys([*self.tensors[len(inputs) :], *self.numbers[4:]])
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
        return model(self.nodes, inputs, outputs, constants, **versions)

    def read(self):
        """An extent of a tensor, by Gather, or by Slice."""
        tensor = self.tensor()
        shape = self.add("Shape", [tensor])
        axis = self.draw(st.integers(0, self.ranks[tensor] - 1))
        if self.draw(st.booleans()):
            self.numbers.append(self.add("Gather", [shape, f"n{axis}"]))
        else:
            self.numbers.append(self.add("Slice", [shape, f"n{axis}", f"n{axis + 1}"]))

    def compute(self):
        op = self.draw(st.sampled_from(["Mul", "Div", "Add", "Sub", "Max", "Min"]))
        second = f"n{self.draw(st.integers(1, 12))}" if op == "Div" else self.number()
        self.numbers.append(self.add(op, [self.number(), second]))

    def pile(self):
        """A long expression, which gets a symbol where it is an extent."""
        total = self.number()
        for _ in range(3):
            total = self.add("Add", [self.add("Mul", [total, self.number()]), self.number()])
        self.numbers.append(self.add("Div", [total, f"n{self.draw(st.integers(2, 12))}"]))

    def cast(self):
        inner = self.add("Cast", [self.number()], to=onnx.TensorProto.INT32)
        self.numbers.append(self.add("Cast", [inner], to=onnx.TensorProto.INT64))

    def measure(self):
        """Append a dim computed in floats, like PyTorch's `int(1.7 * height)`, which cannot be inferred."""
        real = self.add("Cast", [self.number()], to=onnx.TensorProto.FLOAT)
        scaled = self.add("Floor", [self.add("Mul", [real, "f1.7"])])
        self.numbers.append(self.add("Cast", [scaled], to=onnx.TensorProto.INT64))

    def where(self):
        condition = self.add(self.draw(st.sampled_from(["Equal", "Less"])), [self.number(), self.number()])
        self.numbers.append(self.add("Where", [condition, self.number(), self.number()]))

    def extent(self):
        """Return an integer clamped to 1 to 12, a valid and small dim."""
        return self.add("Min", [self.add("Max", [self.number(), "n1"]), "n12"])

    def flatten(self):
        tensor = self.tensor()
        first = self.add("Gather", [self.add("Shape", [tensor]), "n0"])
        self.keep(self.add("Reshape", [tensor, self.add("Concat", [first, "n-1"], axis=0)]), 2)

    def expand(self):
        shape = self.add("Concat", [self.extent(), self.extent()], axis=0)
        ones = self.add("ConstantOfShape", ["n1"])
        self.keep(self.add("Expand", [ones, shape]), 2)

    def count(self):
        ends = [self.add("Squeeze", [name, "n0"]) for name in ("n0", self.extent(), f"n{self.draw(st.integers(1, 3))}")]
        self.keep(self.add("Range", ends), 1)

    def cut(self):
        tensor = self.tensor()
        axis = self.draw(st.integers(0, self.ranks[tensor] - 1))
        end = self.add("Max", [self.number(), "n1"])
        self.keep(self.add("Slice", [tensor, "n0", end, f"n{axis}"]), self.ranks[tensor])

    def join(self):
        tensor = self.tensor()
        axis = self.draw(st.integers(0, self.ranks[tensor] - 1))
        self.keep(self.add("Concat", [tensor] * self.draw(st.integers(1, 2)), axis=axis), self.ranks[tensor])


class Pictured(Shaped):
    """The same with images among the tensors: dims of windows and Resize are read by Shape."""

    def __init__(self, draw):
        super().__init__(draw)
        self.tensors.append("z")
        self.ranks["z"] = 4
        self.pictures = ["z"]
        self.needs = []
        """How much of which picture a window covers: no runtime says what comes of one that is larger."""

    def picture(self, op, *inputs, **attributes):
        if len(self.pictures) < MOST_PICTURES:
            source = self.draw(st.sampled_from(self.pictures))
            made = self.add(op, [source, *inputs], **attributes)
            self.pictures.append(made)
            self.keep(made, 4)
            if op in ("Conv", "MaxPool", "AveragePool") and "SAME" not in attributes.get("auto_pad", ""):
                (kernel, _), dilations = attributes["kernel_shape"], attributes.get("dilations", [1, 1])
                (top, left, bottom, right) = attributes.get("pads", [0] * 4)
                covered = [(kernel - 1) * dilation + 1 for dilation in dilations]
                self.needs.append((source, covered[0] - top - bottom, covered[1] - left - right))

    def window(self, kernel, *, dilates):
        """Strides, pads and dilations, which fit the kernel, as a network has them and as none has."""
        given = {"strides": [self.draw(st.integers(1, 3)), self.draw(st.integers(1, 2))]}
        automatic = self.draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
        # ONNX Runtime ignores dilations in its automatic padding, and computes fewer windows.
        if dilates and "SAME" not in automatic:
            given["dilations"] = [self.draw(st.integers(1, 2)), 1]
        if automatic != "NOTSET":
            return {**given, "auto_pad": automatic}
        return {**given, "pads": [self.draw(st.integers(0, kernel - 1)) for _ in range(4)]}

    def convolve(self):
        kernel = self.draw(st.integers(1, 3))
        self.picture("Conv", f"w{kernel}", kernel_shape=[kernel] * 2, **self.window(kernel, dilates=True))

    def widen(self):
        kernel, stride = self.draw(st.integers(1, 3)), self.draw(st.integers(1, 2))
        extra = self.draw(st.integers(0, stride - 1))
        self.picture("ConvTranspose", f"w{kernel}", strides=[stride] * 2, output_padding=[extra] * 2)

    def pool(self):
        kernel = self.draw(st.integers(1, 3))
        op = self.draw(st.sampled_from(["MaxPool", "AveragePool"]))
        window = self.window(kernel, dilates=op == "MaxPool")
        ceil_mode = self.draw(st.integers(0, 1)) if "auto_pad" not in window else 0
        self.picture(op, kernel_shape=[kernel] * 2, ceil_mode=ceil_mode, **window)

    def scale(self):
        self.picture("Resize", "", self.draw(st.sampled_from(sorted(FACTORS))), mode="nearest")

    def resize(self):
        lengths = self.add("Concat", [self.extent(), self.extent()], axis=0)
        policy = self.draw(st.sampled_from(["stretch", "not_larger", "not_smaller"]))
        self.picture("Resize", "", "", lengths, axes=[2, 3], keep_aspect_ratio_policy=policy, mode="nearest")


STEPS = [
    *(Shaped.read, Shaped.read, Shaped.compute, Shaped.compute, Shaped.pile, Shaped.cast, Shaped.where),
    Shaped.measure,
    *(Shaped.flatten, Shaped.expand, Shaped.count, Shaped.cut, Shaped.join),
]


PICTURES = [Pictured.convolve, Pictured.widen, Pictured.pool, Pictured.pool, Pictured.scale, Pictured.resize]


@st.composite
def pictures(draw):
    made = Pictured(draw)
    made.read()
    for step in draw(st.lists(st.sampled_from([*PICTURES, *PICTURES, *STEPS]), min_size=3, max_size=14)):
        step(made)
    inputs = [("x", ["B", "T", 4]), ("y", ["H", "T"]), ("z", ["B", 2, "H", "W"])]
    return made.model(inputs, NUMBERS | WEIGHTS | FACTORS, opset=19), made.needs


@st.composite
def graphs(draw):
    made = Shaped(draw)
    made.read()
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=14)):
        step(made)
    return made.model([("x", ["B", "T", 4]), ("y", ["H", "T"])], NUMBERS)


def claims(proto):
    """Return the facts of the outputs and their known elements."""
    graph, findings = legalize(from_proto(proto))
    names = [output.name for output in proto.graph.output]
    facts = dict(zip(names, (value.fact for value in graph.outputs), strict=True))
    return graph.extents, facts, [finding for finding in findings if finding.is_error]


def hold(extents, facts, real, sizes):
    """Compare facts with the values of a run. Return the number of compared integers."""
    count, numbers = 0, extents.evaluate_symbols(sizes)
    for name, fact in facts.items():
        if not isinstance(fact, TensorFact) or fact.shape is None:
            continue
        pairs = [*zip(fact.shape, real[name].shape, strict=True)]
        pairs += zip(fact.elements or (), real[name].reshape(-1).tolist(), strict=False)
        for dim, number in pairs:
            if extents.free(dim) <= sizes.keys():
                assert evaluate(dim, numbers) == number, (name, str(dim), sizes)
                count += 1
    return count


@settings(max_examples=times(100), deadline=None)
@given(graphs())
def test_extents_are_those_of_a_run(proto):
    extents, facts, errors = claims(proto)
    assert not errors
    evaluator = ReferenceEvaluator(proto)
    for sizes in SIZES:
        feeds = {
            "x": np.zeros((sizes["B"], sizes["T"], 4), np.float32),
            "y": np.zeros((sizes["H"], sizes["T"]), np.float32),
        }
        hold(extents, facts, dict(zip(facts, map(np.asarray, evaluator.run(None, feeds)), strict=True)), sizes)


@settings(max_examples=times(30), deadline=None)
@given(pictures())
def test_extents_of_images_are_those_of_a_run(drawn):
    proto, needs = drawn
    extents, facts, errors = claims(proto)
    note("\n".join(map(onnx.printer.to_text, proto.graph.node)))
    session = ran(proto)
    for sizes in MANY_SIZES:
        b, t, h, w = (sizes[name] for name in "BTHW")
        feeds = {
            name: np.zeros(shape, np.float32)
            for name, shape in {"x": (b, t, 4), "y": (h, t), "z": (b, 2, h, w)}.items()
        }
        try:
            real = dict(zip(facts, session.run(None, feeds), strict=True))
        except (Fail, InvalidArgument, RuntimeException):
            continue
        lengths = {"z": (b, 2, h, w)} | {name: array.shape for name, array in real.items()}
        if any(lengths[name][2] < high or lengths[name][3] < wide for name, high, wide in needs):
            continue
        assert not errors
        hold(extents, facts, real, sizes)


def test_data_dependent_dim_keeps_the_other_dims_known():
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Split", ["shape"], ["n", "c", "h", "w"], num_outputs=4),
        node("Cast", ["h"], ["real"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["real", "f1.7"], ["scaled"]),
        node("Cast", ["scaled"], ["rows"], to=onnx.TensorProto.INT64),
        node("Concat", ["n", "c", "rows", "w"], ["sizes"], axis=0),
        node("Concat", ["n", "rows", "rows", "w"], ["twice"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["resized"]),
        node("ConstantOfShape", ["twice"], ["filled"]),
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in ("resized", "filled")]
    extents, facts, errors = claims(model(nodes, [("x", ["B", 3, "H", "W"])], outputs, NUMBERS, opset=19))
    assert not errors
    resized, filled = (fact.shape for fact in facts.values())
    assert [str(dim) for dim in (*resized[:2], resized[3])] == ["B", "3", "W"]
    assert [str(dim) for dim in (filled[0], filled[3])] == ["B", "W"]
    # These dims are unknown and must not be equated with other dims.
    unknown = [extents.free(dim) for dim in (resized[2], *filled[1:3])]
    assert all(len(names) == 1 and not names & {"B", "H", "W"} for names in unknown)
    assert len(set.union(*unknown)) == 3


def ran(proto):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
