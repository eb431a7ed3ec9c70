"""What the layers of a text say of its inputs, and what is made of a graph before it is said in layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.conversion.dialects.ncnn import after_lifting, before, before_lifting
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.ops.dialects.ncnn.told import BATCH
from tests.every import every
from tests.laws import canonical as as_canonical
from tests.laws import computed


def numbers(count):
    return storage_of(np.zeros(count, np.float32))


def layers(*rows, inputs=1) -> Any:
    """A graph of layers, each a word, its operands and its parameters; `x` and what follows are inputs."""
    graph = Graph()
    values = {name: graph.add_input(name, TensorFact(DType.FLOAT32, None)) for name in "xyz"[:inputs]}
    for index, (word, operands, *parameters) in enumerate(rows):
        result = Value(f"r{index}")
        told = {str(key): each for key, each in (parameters[0] if parameters else {}).items()}
        graph.append(Node(word, [values[name] for name in operands.split()], [result], told, dialect="ncnn"))
        values[f"r{index}"] = result
    graph.set_outputs([graph.last.output])
    return graph


def told(graph, place=0):
    before(graph)
    fact = graph.inputs[place].fact
    return fact.dtype, None if fact.shape is None else [str(dim) for dim in fact.shape]


F, I = DType.FLOAT32, DType.INT32  # noqa: E741  as short as the table wants


@every(
    ("word", "parameters", "expected"),
    [
        ("Convolution", {0: 5, 1: 3, "@0": numbers(5 * 7 * 9)}, (F, ["1", "7", "x.h", "x.w"])),
        ("Convolution", {0: 5, 1: 3, 11: 2, "@0": numbers(5 * 7 * 6)}, (F, ["1", "7", "x.h", "x.w"])),
        ("Convolution", {0: 5, 1: 3}, (F, ["1", "x.c", "x.h", "x.w"])),
        ("Deconvolution", {0: 5, 1: 2, "@0": numbers(5 * 3 * 4)}, (F, ["1", "3", "x.h", "x.w"])),
        ("ConvolutionDepthWise", {0: 6, 1: 3, 7: 6, "@0": numbers(6 * 9)}, (F, ["1", "6", "x.h", "x.w"])),
        ("ConvolutionDepthWise", {0: 6, 1: 3, 7: 2, "@0": numbers(6 * 4 * 9)}, (F, ["1", "8", "x.h", "x.w"])),
        ("ConvolutionDepthWise", {0: 6, 1: 3, "@0": numbers(6 * 4 * 9)}, (F, ["1", "4", "x.h", "x.w"])),
        ("ConvolutionDepthWise", {0: 6, 1: 3, 7: 2}, (F, ["1", "x.c", "x.h", "x.w"])),
        ("Embed", {}, (I, ["1", "x.w"])),
        ("Dequantize", {}, (I, None)),
        ("Requantize", {}, (I, None)),
        ("LSTM", {0: 4, 1: 4 * 4 * 7}, (F, ["1", "x.h", "7"])),
        ("LSTM", {0: 4, 1: 2 * 4 * 4 * 7, 2: 2}, (F, ["1", "x.h", "7"])),
        ("LSTM", {0: 4, 1: 4 * 5 * 7, 3: 5}, (F, ["1", "x.h", "7"])),
        ("GRU", {0: 4, 1: 3 * 4 * 7, 2: 1}, (F, ["1", "x.h", "7"])),
        ("RNN", {0: 4, 1: 2 * 4 * 7, 2: 2}, (F, ["1", "x.h", "7"])),
        ("MultiHeadAttention", {0: 6, 1: 2, 2: 6 * 9}, (F, ["1", "x.h", "9"])),
        ("Pooling", {}, (F, ["1", "x.c", "x.h", "x.w"])),
        ("Interp", {}, (F, ["1", "x.c", "x.h", "x.w"])),
        ("BatchNorm", {0: 3}, (F, None)),
        ("ReLU", {}, (F, None)),
    ],
)
def test_what_a_layer_needs_its_blob_to_be(word, parameters, expected):
    assert told(layers((word, "x", parameters))) == expected


@every(
    ("word", "place", "parameters", "expected"),
    [
        ("LSTM", 1, {0: 4, 3: 6}, ["1", "1", "4"]),
        ("LSTM", 2, {0: 4, 3: 6}, ["1", "1", "6"]),
        ("LSTM", 2, {0: 4, 2: 2}, ["1", "2", "4"]),
        ("GRU", 1, {0: 4, 2: 2, 3: 9}, ["1", "2", "4"]),
        ("Convolution", 1, {}, ["1", "y.c", "y.d", "y.h", "y.w"]),
        ("DeconvolutionDepthWise", 1, {}, ["1", "y.c", "y.d", "y.h", "y.w"]),
        ("Convolution", 2, {}, None),
        ("BinaryOp", 1, {}, None),
    ],
)
def test_what_a_layer_needs_blobs_beside_its_first_to_be(word, place, parameters, expected):
    operands = " ".join("xyz"[: place + 1]) if place == 1 else "x z y"
    assert told(layers((word, operands, parameters), inputs=3), 1)[1] == expected


KNOWN = ("Convolution", {0: 5, 1: 1, "@0": numbers(15)})


def test_what_is_behind_layers_that_keep_a_shape_tells_too():
    word, parameters = KNOWN
    assert told(layers(("ReLU", "x"), ("Sigmoid", "r0"), (word, "r1", parameters)))[1] == ["1", "3", "x.h", "x.w"]
    assert told(layers(("Permute", "x"), (word, "r0", parameters)))[1] is None
    # Who knows the channels is asked before who knows the rank alone.
    known = layers(("Pooling", "x"), ("ReLU", "x"), (word, "r1", parameters))
    assert told(known)[1] == ["1", "3", "x.h", "x.w"]
    assert told(layers(("Pooling", "x"), (word, "r0", parameters)))[1] == ["1", "x.c", "x.h", "x.w"]
    other = layers(("ReLU", "x"), (word, "r0", parameters))
    other.first.restate("ReLU", "custom", {})
    assert told(other)[1] is None


def test_layers_are_followed_so_far_and_no_farther():
    word, parameters = KNOWN
    for count, is_seen in ((62, True), (63, True), (64, False)):
        chain = [("ReLU", "x" if n == 0 else f"r{n - 1}") for n in range(count)]
        assert (told(layers(*chain, (word, f"r{count - 1}", parameters)))[1] is not None) is is_seen


def test_a_shape_that_a_text_says_stays_and_gets_its_element_type():
    for word, dtype in (("Embed", I), ("ReLU", F)):
        graph = layers((word, "x"))
        graph.inputs[0].fact = TensorFact(F, (1, 9))
        assert told(graph) == (dtype, ["1", "9"])


def canonical(word="Relu", shape: Any = (2, 3), outputs=1, **attributes) -> Any:
    graph = Graph()
    x = graph.add_input("x", TensorFact(F, shape))
    node = graph.append(Node(word, [x], [Value(f"y{n}", TensorFact(F, shape)) for n in range(outputs)], attributes))
    graph.set_outputs([node.output])
    return graph


def test_an_open_batch_is_one_item():
    graph = canonical(shape=None)
    n = graph.extents.declare("N")
    for dims, expected in (((n, 3), ["1", "3"]), ((3, n), ["3", "N"]), ((2 * n, 3), ["2*N", "3"])):
        graph = canonical(shape=dims)
        before_lifting(graph)
        assert [str(dim) for dim in graph.inputs[0].fact.shape] == expected
        assert [str(dim) for dim in graph.outputs[0].fact.shape] == expected


def test_an_input_without_a_batch_of_one_is_a_blob_with_all_its_axes():
    for shape, is_whole in (
        ((2, 3), True),
        ((1, 3), False),
        ((2, 3, 4, 5), True),
        ((), False),
        ((2, 1, 1, 1, 1, 3), False),
    ):
        graph = canonical(shape=shape)
        before_lifting(graph)
        assert (graph.inputs[0].notes.get(BATCH) if graph.inputs[0].has_notes else None) == (-1 if is_whole else None)


def test_results_that_nobody_reads_are_dropped_from_the_end():
    graph = canonical("MaxPool", (1, 3, 6), outputs=2, kernel_shape=(2,))
    before_lifting(graph)
    assert len(graph.first.outputs) == 1
    graph = canonical("MaxPool", (1, 3, 6), outputs=2, kernel_shape=(2,))
    graph.add_output(graph.first.results[1])
    before_lifting(graph)
    assert len(graph.first.outputs) == 2
    graph = canonical("Split", (1, 4), outputs=2, axis=1, num_outputs=2)
    before_lifting(graph)
    assert len(graph.first.outputs) == 2  # how many there are says what each is


# ── what blobs are read by ────────────────────────────────────────────────────────────────────────────────────────────

ROW = TensorFact(F, (1, 3))
X = np.array([[-1, 2, -3]], np.float32)


def random_layers(rng):
    """Layers and operators on constants that read each other at random, and what each value is."""
    graph: Any = Graph()
    x = graph.add_input("x", ROW)
    found = {x: X}
    constants = []
    for place in range(int(rng.integers(1, 3))):
        array = rng.integers(-3, 4, (1, 3)).astype(np.float32)
        storage = storage_of(array)
        constants.append(graph.add_constant(f"c{place}", TensorFact.of(storage), storage))
        found[constants[-1]] = array

    def put(word, *operands, dialect="ncnn", results=1, **told):
        made = [Value(graph.fresh("v"), ROW) for _ in range(results)]
        return graph.append(Node(word, list(operands), made, told, dialect=dialect, name=f"l{len(graph)}")).results

    for _ in range(int(rng.integers(1, 8))):
        layers = [value for value in found if not value.is_constant]
        one, other = (layers[int(rng.integers(len(layers)))] for _ in range(2))
        kind = str(rng.choice(["ReLU", "Noop", "BinaryOp", "Split", "constant"]))
        if kind == "ReLU":
            found[put(kind, one)[0]] = np.maximum(found[one], 0)
        elif kind == "Noop":
            found[put(kind, one)[0]] = found[one]
        elif kind == "Split":
            found |= dict.fromkeys(put(kind, one, results=2), found[one])
        elif kind == "BinaryOp":
            found[put(kind, one, other, **{"0": 0})[0]] = found[one] + found[other]
        else:
            place = constants[int(rng.integers(len(constants)))]
            array = found[put("Neg", place, dialect="")[0]] = -found[place]
            (negative,) = graph.last.results
            found[put("BinaryOp", one, negative, **{"0": 0})[0]] = found[one] + array
            del found[negative]
    values = [value for value in found if not value.is_constant or rng.random() < 0.5]
    chosen = [values[place] for place in rng.integers(len(values), size=int(rng.integers(1, 5)))]
    graph.set_outputs(chosen)
    return graph, [value.name for value in chosen], [found[value] for value in chosen]


def test_every_blob_has_one_reader_and_results_stand_in_their_order():
    rng = np.random.default_rng(5)
    for case in range(50):
        graph, names, expected = random_layers(rng)
        returned = {node.name for node in graph if node.word == "Noop" and node.output.is_output}
        after_lifting(graph)
        verify(graph)
        assert {node.dialect for node in graph} <= {"ncnn"}, case
        assert {node.name for node in graph if node.word == "Noop" and node.name.startswith("l")} == returned
        for value in graph.values():
            assert len(value.uses) < 2 or value.is_constant
            assert not (value.is_input and value.returns)
        called = [value.name for value in graph.outputs]
        for place, name in enumerate(names):
            assert name == "x" or called.count(name) == 1
            assert name == "x" or names.count(name) > 1 or called[place] == name
        order = {result: place for place, result in enumerate(result for node in graph for result in node.results)}
        places = [order[value] for value in graph.outputs]
        assert places == sorted(places), case
        layers = [node.name for node in graph if node.name]
        assert len(layers) == len(set(layers))
        for found, wanted in zip(computed(as_canonical(rewrite.copy(graph)), {"x": X}), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
