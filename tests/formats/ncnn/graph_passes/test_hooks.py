"""Input shapes that layers imply, and rewrites of a graph before its export to ncnn."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import SequenceFact, TensorFact
from graphport.core.storage import storage_of
from graphport.formats.ncnn.graph_passes.hooks import after_export, before, before_export
from graphport.formats.ncnn.rules.annotations import BATCH, LINE
from graphport.formats.ncnn.rules.integers import BITS
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from tests.every import every
from tests.laws import canonical as as_canonical
from tests.laws import computed


def numbers(count):
    return storage_of(np.zeros(count, np.float32))


def layers(*rows, inputs=1) -> Any:
    """Return a graph of layers (op type, operands, parameters); the inputs are `x`, `y`, … according to `inputs`."""
    graph = Graph()
    values = {name: graph.add_input(name, TensorFact(DType.FLOAT32, None)) for name in "xyz"[:inputs]}
    for index, (op_type, operands, *parameters) in enumerate(rows):
        result = Value(f"r{index}")
        told = {str(key): each for key, each in (parameters[0] if parameters else {}).items()}
        graph.append(Node(op_type, [values[name] for name in operands.split()], [result], told, dialect="ncnn"))
        values[f"r{index}"] = result
    graph.set_outputs([graph.last_node.output])
    return graph


def told(graph, place=0):
    before(graph)
    fact = graph.inputs[place].fact
    for dim in fact.shape or ():
        assert isinstance(dim, int) or dim.bounds[0] == 1
    return fact.dtype, None if fact.shape is None else [str(dim) for dim in fact.shape]


F, I = DType.FLOAT32, DType.INT32  # noqa: E741  as short as the table wants


@every(
    ("op_type", "parameters", "expected"),
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
def test_what_a_layer_needs_its_blob_to_be(op_type, parameters, expected):
    assert told(layers((op_type, "x", parameters))) == expected


@every(
    ("op_type", "place", "parameters", "expected"),
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
def test_what_a_layer_needs_blobs_beside_its_first_to_be(op_type, place, parameters, expected):
    operands = " ".join("xyz"[: place + 1]) if place == 1 else "x z y"
    assert told(layers((op_type, operands, parameters), inputs=3), 1)[1] == expected


KNOWN = ("Convolution", {0: 5, 1: 1, "@0": numbers(15)})


def test_what_is_after_layers_that_keep_a_shape_tells_too():
    op_type, parameters = KNOWN
    assert told(layers(("ReLU", "x"), ("Sigmoid", "r0"), (op_type, "r1", parameters)))[1] == ["1", "3", "x.h", "x.w"]
    assert told(layers(("Permute", "x"), (op_type, "r0", parameters)))[1] is None
    # A layer that determines the channels takes precedence over one that determines only the rank.
    known = layers(("Pooling", "x"), ("ReLU", "x"), (op_type, "r1", parameters))
    assert told(known)[1] == ["1", "3", "x.h", "x.w"]
    assert told(layers(("Pooling", "x"), (op_type, "r0", parameters)))[1] == ["1", "x.c", "x.h", "x.w"]
    other = layers(("ReLU", "x"), (op_type, "r0", parameters))
    other.first.restate("ReLU", "custom", {})
    assert told(other)[1] is None


def test_layers_are_followed_so_far_and_no_farther():
    op_type, parameters = KNOWN
    for count, is_seen in ((62, True), (63, True), (64, False)):
        chain = [("ReLU", "x" if n == 0 else f"r{n - 1}") for n in range(count)]
        assert (told(layers(*chain, (op_type, f"r{count - 1}", parameters)))[1] is not None) is is_seen


def test_a_shape_that_a_text_states_stays_and_gets_its_element_type():
    for op_type, dtype in (("Embed", I), ("ReLU", F)):
        graph = layers((op_type, "x"))
        graph.inputs[0].fact = TensorFact(F, (1, 9))
        assert told(graph) == (dtype, ["1", "9"])


def test_a_list_that_is_given_stays_one():
    graph = layers(("ReLU", "x"), inputs=2)
    graph.inputs[1].fact = SequenceFact(TensorFact(F, None))
    before(graph)
    assert graph.inputs[1].fact == SequenceFact(TensorFact(F, None))


def canonical(op_type="Relu", shape: Any = (2, 3), outputs=1, **attributes) -> Any:
    graph = Graph()
    x = graph.add_input("x", TensorFact(F, shape))
    node = graph.append(Node(op_type, [x], [Value(f"y{n}", TensorFact(F, shape)) for n in range(outputs)], attributes))
    graph.set_outputs([node.output])
    return graph


def test_an_open_batch_is_one_item():
    graph = canonical(shape=None)
    n = graph.extents.declare("N")
    for dims, expected in (((n, 3), ["1", "3"]), ((3, n), ["3", "N"]), ((2 * n, 3), ["2*N", "3"])):
        graph = canonical(shape=dims)
        before_export(graph)
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
        before_export(graph)
        assert (graph.inputs[0].notes.get(BATCH) if graph.inputs[0].has_notes else None) == (-1 if is_whole else None)


def test_results_without_consumers_are_dropped_from_the_end():
    graph = canonical("MaxPool", (1, 3, 6), outputs=2, kernel_shape=(2,))
    before_export(graph)
    assert len(graph.first.outputs) == 1
    graph = canonical("MaxPool", (1, 3, 6), outputs=2, kernel_shape=(2,))
    graph.add_output(graph.first.results[1])
    before_export(graph)
    assert len(graph.first.outputs) == 2
    graph = canonical("Split", (1, 4), outputs=2, axis=1, num_outputs=2)
    before_export(graph)
    assert len(graph.first.outputs) == 2  # the number of outputs is not declared


# ── consumers of blobs ────────────────────────────────────────────────────────────────────────────────────────────────

ROW = TensorFact(F, (1, 3))
X = np.array([[-1, 2, -3]], np.float32)


def random_layers(rng):
    """Return random layers and operators on constants, and the expected value of each result."""
    graph: Any = Graph()
    x = graph.add_input("x", ROW)
    found = {x: X}
    constants = []
    for place in range(int(rng.integers(1, 3))):
        array = rng.integers(-3, 4, (1, 3)).astype(np.float32)
        storage = storage_of(array)
        constants.append(graph.add_constant(f"c{place}", TensorFact.of(storage), storage))
        found[constants[-1]] = array

    def put(op_type, *operands, dialect="ncnn", results=1, **told):
        made = [Value(graph.fresh("v"), ROW) for _ in range(results)]
        return graph.append(Node(op_type, list(operands), made, told, dialect=dialect, name=f"l{len(graph)}")).results

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
        returned = {node.name for node in graph if node.op_type == "Noop" and node.output.is_output}
        after_export(graph)
        verify(graph)
        assert {node.dialect for node in graph} <= {"ncnn"}, case
        assert {node.name for node in graph if node.op_type == "Noop" and node.name.startswith("l")} == returned
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


def test_a_result_that_is_a_constant_is_a_layer_where_a_blob_has_its_numbers():
    for array, is_layer in (
        (np.array([[1.5, -2]], np.float32), True),
        (np.array([[1.5, -2]], np.float64), True),
        (np.array([[True, False]]), True),
        (np.array([[1 << 23, -(1 << 23)]], np.int64), True),
        (np.array([[1, 1 << 24]], np.int64), False),
        (np.zeros((1, 0), np.float32), False),
        (np.array([["a"]], object), False),
        (np.ones((2, 1, 2, 1, 2, 2, 1), np.float32), False),
        (None, False),
    ):
        graph = Graph()
        x = graph.add_input("x", ROW)
        if array is None:
            constant = graph.add_constant("c", TensorFact(F, None), storage_of(np.zeros((1, 2), np.float32)))
        else:
            storage = storage_of(array)
            constant = graph.add_constant("c", TensorFact.of(storage), storage)
        z, y = (graph.append(Node("ReLU", [x], [Value(name, ROW)], dialect="ncnn", name=name)).output for name in "zy")
        graph.set_outputs([constant, y, z, constant])
        after_export(graph)
        verify(graph)
        assert [value.name for value in graph.outputs[:3]] == ["c", "y", "z"], array
        order = [result for node in graph for result in node.results]
        assert order.index(graph.outputs[1]) < order.index(graph.outputs[2])
        assert (graph.outputs[0] is not constant) is is_layer
        assert {node.dialect for node in graph} == {"ncnn"}
        assert ("MemoryData" in [node.op_type for node in graph]) is is_layer
        if is_layer:
            assert [value.fact for value in graph.outputs] == [constant.fact, ROW, ROW, constant.fact]


def test_results_tell_what_their_blobs_do_not():
    for dtype, is_read, words in (
        (F, False, ["Flatten"]),
        (I, False, ["Flatten", "Dequantize", "Noop"]),
        (DType.INT64, True, ["Flatten", "Split", "Dequantize", "Noop", "ReLU"]),
    ):
        graph: Any = Graph()
        fact = TensorFact(dtype, (1, 3))
        x = graph.add_input("x", fact)
        y = graph.append(Node("Flatten", [x], [Value("y", fact)], dialect="ncnn", name="f")).output
        if dtype is not F:
            y.notes[BITS] = 1
        shown = [y]
        if is_read:
            shown.append(graph.append(Node("ReLU", [y], [Value("z", ROW)], dialect="ncnn", name="z")).output)
        graph.set_outputs(shown)
        after_export(graph)
        verify(graph)
        assert sorted(node.op_type for node in graph) == sorted(words)
        assert [value.name for value in graph.outputs] == ["y", "z"][: len(shown)]
        if dtype is not F:
            told_, numbers_ = (
                next(node for node in graph if node.op_type == op_type) for op_type in ("Noop", "Dequantize")
            )
            assert told_.attributes == {"15": 6 if dtype is I else 7}
            assert told_.operands == numbers_.results
            assert {**numbers_.attributes, "@0": numbers_.attributes["@0"].numpy().tolist()} == {
                "0": 1,
                "1": 0,
                "@0": [1],
            }
            assert graph.outputs[0].fact == fact
    graph = Graph()
    x = graph.add_input("x", TensorFact(F, (2, 3)))
    y = graph.append(Node("ReLU", [x], [Value("y", x.fact)], dialect="ncnn", name="y")).output
    y.notes[BATCH] = -1
    graph.set_outputs([y])
    after_export(graph)
    assert [(node.op_type, node.attributes) for node in graph] == [("ReLU", {}), ("Noop", {"13": 233})]


def test_what_rounding_cuts_off_anyway_is_taken_out():
    for floor, step, zero, dtype, is_gone in (
        (-1.27, 0.01, 0, np.int8, True),
        (-1.28, 0.01, 0, np.int8, False),
        (-1.27, 0.02, 0, np.int8, False),
        (-1.27, 0.01, 1, np.int8, False),
        (-1.27, 0.01, 0, np.uint8, False),
        ([-1.27, -1.27, -1.27], 0.01, 0, np.int8, False),
        (-1.27, [0.01, 0.01, 0.01], [0, 0, 0], np.int8, False),
    ):
        for is_read in (False, True):
            graph: Any = Graph()

            def stored(array, graph=graph):
                storage = storage_of(np.asarray(array))
                return graph.add_constant("c", TensorFact.of(storage), storage)

            x = graph.add_input("x", ROW)
            cut = graph.append(Node("Max", [x, stored(np.float32(floor))], [Value("m", ROW)])).output
            rounding = [stored(np.float32(step)), stored(np.array(zero, dtype))]
            q = graph.append(Node("QuantizeLinear", [cut, *rounding], [Value("q")], {"axis": 1})).output
            y = graph.append(Node("DequantizeLinear", [q, *rounding], [Value("y", ROW)], {"axis": 1})).output
            graph.set_outputs([y, cut] if is_read else [y])
            before_export(graph)
            verify(graph)
            assert ("Max" not in [node.op_type for node in graph]) is (is_gone and not is_read), (floor, step, zero)
            assert (graph.first.operands[0] is x) is True


def test_what_inputs_tell_of_themselves_is_put_in_front_of_their_readers():
    class Line:
        parameters: Any

    for op_type, parameters, shape, dtype, expected in (
        ("ReLU", {"13": 233}, (4, 3), F, ["Unsqueeze"]),
        ("Embed", {"13": 233}, (3,), I, ["Unsqueeze"]),
        ("Embed", {"13": 233, "15": 7}, (3,), F, ["Unsqueeze"]),
        ("ReLU", {"13": 1}, (4, 1, 3), F, ["Transpose"]),
        ("ReLU", {"13": 0, "14": 1}, (1,), F, ["Unsqueeze"]),
        ("ReLU", {"15": 7}, (1, 3), F, []),
        ("ReLU", {}, (1, 3), F, []),
    ):
        graph = layers((op_type, "x"), (op_type, "x"))
        line = Line()
        line.parameters = parameters
        x = graph.inputs[0]
        x.fact = TensorFact(F, shape)
        x.notes[LINE] = line
        before(graph)
        verify(graph)
        assert x.fact == TensorFact(dtype, shape), (op_type, parameters)
        front = [node.op_type for node in graph if not node.dialect]
        assert [each for each in front if each != "Identity"] == expected
        readers = {node.operands[0] for node in graph if node.dialect}
        assert len(readers) == 1
        assert (readers == {x}) is not bool(expected)
