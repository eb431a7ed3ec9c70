from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import nnef
import numpy as np
import pytest
import tract
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import FileStorage, MappedFile, storage_of
from graphport.formats.nnef import read, write
from graphport.formats.nnef.container.item_types import Fill
from graphport.formats.nnef.container.operator_replacements import portable
from graphport.formats.nnef.container.packaging import open_container
from graphport.formats.nnef.container.syntax import Edition
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from tests.draws import times

DIGITS = Path(__file__).parents[3] / "src" / "graphport" / "examples" / "digits"
F32, I64, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL


class Making:
    """A graph in the nnef dialect, one line an operation."""

    def __init__(self, name="net", shape=(2, 3), dtype=F32, input="x") -> None:
        self.graph = Graph(name)
        self.x = self.graph.add_input(input, TensorFact(dtype, shape))

    def __call__(
        self, op_type: str, *operands: Value | None, out="h", dtype: DType | None = F32, **attributes
    ) -> Value:
        return self.several(op_type, *operands, out=(out,), dtype=dtype, **attributes)[0]

    def several(
        self, op_type: str, *operands: Value | None, out, dtype: DType | None = F32, **attributes
    ) -> list[Value]:
        results = [Value(self.graph.fresh(name), TensorFact(dtype, None)) for name in out]
        self.graph.append(Node(op_type, operands, results, attributes, dialect="nnef"))
        return results

    def constant(self, data, name="w", dtype: Any = np.float32, **notes) -> Value:
        storage = storage_of(np.asarray(data, dtype))
        value = self.graph.add_constant(name, TensorFact.of(storage), storage)
        value.notes.update(notes)
        return value

    def done(self, *outputs: Value) -> Graph:
        self.graph.set_outputs(outputs)
        verify(self.graph)
        return self.graph


def text_of(graph: Graph, folder: Path, **options) -> str:
    write(graph, folder / "out", **options)
    return (folder / "out" / "graph.nnef").read_text()


def lines(graph: Graph, folder: Path, **options) -> list[str]:
    """The statements of the flat text."""
    _, _, body = text_of(graph, folder, **options).partition("{\n")
    return [line.strip() for line in body.splitlines() if line != "}"]


def refused(graph: Graph, folder: Path, **options) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        write(graph, folder / "out", **options)
    assert not (folder / "out").exists()
    return [finding.code for finding in caught.value.diagnostics]


def content(graph: Graph) -> list[Any]:
    """Return the content of a graph, except names of literals."""

    def said(value: Value | None) -> object:
        if value is None or not value.is_constant or value.storage is None:
            return None if value is None else value.name
        numbers = value.storage.numpy()
        return (numbers.dtype.name, numbers.shape, numbers.tobytes())

    found: list[Any] = [[(value.name, value.fact) for value in graph.inputs]]
    found += [(node.op, [*map(said, node.inputs)], [*map(said, node.outputs)], node.attributes) for node in graph]
    return [*found, [said(value) for value in graph.outputs]]


# ── text ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_flat_text_has_an_operation_a_line_and_leaves_defaults_out(tmp_path):
    make = Making(shape=(1, 3, 8, 8))
    weight = make.constant(np.zeros((4, 3, 3, 3)), "conv/filter")
    zero = make.constant(0.0, "zero")
    attributes: dict[str, Any] = {
        "border": "constant",
        "padding": ((1, 1), (0, 2)),
        "stride": (),
        "dilation": (),
        "groups": 1,
    }
    h = make("conv", make.x, weight, zero, **attributes)
    y = make("leaky_relu", h, out="y", alpha=0.1)
    assert text_of(make.done(y), tmp_path) == (
        "version 1.0;\n"
        "\n"
        "graph net( x ) -> ( y )\n"
        "{\n"
        "    x = external(shape = [1, 3, 8, 8]);\n"
        "    conv_filter = variable(shape = [4, 3, 3, 3], label = 'conv/filter');"
        '  # originally {"conv_filter": "conv/filter"}\n'
        "    h = conv(x, conv_filter, padding = [(1, 1), (0, 2)]);\n"
        "    y = leaky_relu(h, alpha = 0.1);\n"
        "}\n"
    )
    assert (tmp_path / "out" / "conv" / "filter.dat").stat().st_size == 128 + 4 * 3 * 9 * 4


def test_an_operand_that_is_not_its_default_is_written(tmp_path):
    make = Making(shape=(1, 3, 8, 8))
    weight, half, minus = make.constant(np.zeros((4, 3, 1, 1))), make.constant(0.5, "b"), make.constant(-0.0, "c")
    first = make("conv", make.x, weight, half, groups=1)
    second = make("conv", make.x, weight, minus, groups=1)
    third = make("conv", make.x, weight, None, groups=1)
    graph = make.done(first, second, third)
    calls = [line.partition(" = ")[2] for line in lines(graph, tmp_path) if "conv(" in line]
    assert calls == ["conv(x, w, 0.5);", "conv(x, w, -0.0);", "conv(x, w);"]


def test_lists_of_operands_and_of_results(tmp_path):
    make = Making(shape=(2, 4))
    a, b = make.several("split", make.x, out=("a", "b"), axis=1, ratios=(1, 3))
    c = make("concat", b, a, make.x, out="c", axis=1)
    m, v = make.several("moments", c, out=("m", "v"), axes=(0, 1))
    statements = lines(make.done(m, v), tmp_path, strict=False)
    assert statements[1:] == [
        "[a, b] = split(x, axis = 1, ratios = [1, 3]);",
        "c = concat([b, a, x], axis = 1);",
        "m, v = moments(c, axes = [0, 1]);",
    ]


def test_a_result_that_nobody_wants_has_a_name_all_the_same(tmp_path):
    make = Making(shape=(2, 4))
    mean, variance = make.several("moments", make.x, out=("m", "v"), axes=(0, 1))
    graph = make.done(mean)
    (node,) = graph
    node.drop_output(1)
    assert variance.producer is None
    assert lines(graph, tmp_path)[-1] == "m, unused = moments(x, axes = [0, 1]);"


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        (np.float32, 0.1, "0.1"),
        (np.float32, 1 / 3, "0.33333334"),
        (np.float32, 1e-5, "1e-05"),
        (np.float32, 3.4028235e38, "3.4028235e38"),
        (np.float32, -2, "-2.0"),
        (np.float16, 0.1, "0.099975586"),
        (np.float64, 0.1, "0.1"),
        (np.float64, 1 / 3, "0.3333333333333333"),
        (np.float64, 1e300, "1e300"),
    ],
)
def test_a_literal_is_the_shortest_that_is_exact(tmp_path, dtype, number, expected):
    make = Making()
    y = make("mul", make.x, make.constant(number, "c", dtype), out="y", dtype=None)
    assert lines(make.done(y), tmp_path)[-1] == f"y = mul(x, {expected});"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_without_literal_goes_into_a_file(tmp_path, number):
    make = Making()
    y = make("mul", make.x, make.constant(number, "c"), out="y")
    assert lines(make.done(y), tmp_path)[1:] == ["c = variable(shape = [], label = 'c');", "y = mul(x, c);"]
    graph, _ = read(tmp_path / "out")
    (constant,) = graph.constants
    assert constant.storage is not None
    assert constant.storage.numpy().tobytes() == np.float32(number).tobytes()


@pytest.mark.parametrize(
    ("op_type", "attributes", "expected"),
    [
        ("leaky_relu", {"alpha": 1}, "alpha = 1.0"),
        ("leaky_relu", {"alpha": 1e-05}, "alpha = 1e-05"),
        ("leaky_relu", {"alpha": 1e22}, "alpha = 1e22"),
        ("leaky_relu", {"alpha": 0.1 + 0.2}, "alpha = 0.30000000000000004"),
        ("sum_reduce", {"axes": (0, 1), "normalize": True}, "axes = [0, 1], normalize = true"),
        ("sum_reduce", {"axes": (), "normalize": False}, "axes = []"),
        ("pad", {"padding": ((0, 0), (1, 2)), "border": "it's"}, 'padding = [(0, 0), (1, 2)], border = "it\'s"'),
        ("reshape", {"shape": (0, -1), "axis_start": 0, "axis_count": -1}, "shape = [0, -1]"),
    ],
)
def test_attributes_are_exact(tmp_path, op_type, attributes, expected):
    make = Making()
    y = make(op_type, make.x, out="y", **attributes)
    assert lines(make.done(y), tmp_path)[-1] == f"y = {op_type}(x, {expected});"


def test_data_types_are_written_where_they_are_not_scalar(tmp_path):
    make = Making(dtype=BOOL)
    index = make.graph.add_input("i", TensorFact(DType.INT32, (2,)))
    table = make.constant([1, 2], "t", np.int16)
    a = make("gather", table, index, out="a", dtype=I64, axis=0)
    b = make("cast", make.x, out="b", dtype=DType.FLOAT16)
    for node in make.graph:
        if node.op_type == "cast":
            node.set_attribute("dtype", DType.FLOAT16)
    c = make("not", make.x, out="c", dtype=BOOL)
    assert lines(make.done(a, b, c), tmp_path, strict=False) == [
        "x = external<logical>(shape = [2, 3]);",
        "i = external<integer>(shape = [2]);",
        "t = variable<integer>(shape = [2], label = 't');",
        "a = gather(t, i);",
        "b = cast<scalar>(x);",
        "c = not(x);",
    ]


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_names_that_are_no_identifiers_are_bent_and_kept(tmp_path):
    make = Making("main.graph", input="input.1")
    h = make("relu", make.x, out="true")
    y = make("relu", h, out="9/ü")
    z = make("relu", y, out="graph")
    graph = make.done(z)
    bent = write(graph, tmp_path / "out")
    assert bent == {"input_1": "input.1", "_true": "true", "_9_": "9/ü", "_graph": "graph"}
    again, _ = read(tmp_path / "out")
    noted = {value.name: value.notes["original_name"] for value in again.values() if value.has_notes}
    assert noted == bent
    assert write(again, tmp_path / "again", flatten=True) == {}
    assert (tmp_path / "again" / "graph.nnef").read_text() == (tmp_path / "out" / "graph.nnef").read_text()


def test_a_name_that_is_an_identifier_stays_whoever_comes_first(tmp_path):
    make = Making()
    h = make("relu", make.x, out="a.b")
    i = make("relu", h, out="a b")
    y = make("relu", i, out="a_b")
    write(make.done(y), tmp_path / "out")
    assert [line.partition(" = ")[0] for line in lines(make.graph, tmp_path)] == ["x", "a_b_1", "a_b_2", "a_b"]


def test_names_that_other_readers_take_for_literals_are_bent(tmp_path):
    make = Making()
    y = make("relu", make.x, out="trueness")
    assert lines(make.done(y), tmp_path)[-1].startswith("_trueness = relu(x);")
    assert lines(make.graph, tmp_path, strict=False)[-1] == "trueness = relu(x);"


def test_many_bent_names_of_one_stem_take_linear_time(tmp_path):
    make = Making()
    value = make.x
    for number in range(5_000):
        value = make("relu", value, out="ü" * (number % 7 + 1) + str(number) + "ü")
    names = {line.partition(" = ")[0] for line in lines(make.done(value), tmp_path)}
    assert len(names) == 5_001


def test_an_output_that_is_an_input_or_comes_twice_is_copied(tmp_path):
    make = Making()
    y = make("relu", make.x, out="y")
    text = text_of(make.done(y, make.x, y), tmp_path)
    assert "graph net( x ) -> ( y, x_1, y_1 )" in text
    assert 'x_1 = copy(x);  # originally {"x_1": "x"}' in text
    assert 'y_1 = copy(y);  # originally {"y_1": "y"}' in text


def test_labels_are_their_own_or_the_names_spelled_as_paths(tmp_path):
    make = Making(shape=(2,))
    zeros = np.zeros(2)
    values = [
        make.constant(zeros, "a", label="own/label"),
        make.constant(zeros, "layer/0/weight.1"),
        make.constant(zeros, "Ä ö"),
        make.constant(zeros, "../../etc/passwd"),
        make.constant(zeros, "/root"),
        make.constant(zeros, "b", label="../outside"),
        make.constant(zeros, "OWN/LABEL"),
        make.constant(zeros, "..."),
    ]
    y = make("add_n", make.x, *values, out="y")
    write(make.done(y), tmp_path / "out")
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.dat")}
    assert files == {
        "own/label.dat",
        "layer/0/weight.1.dat",
        "_.dat",
        "etc/passwd.dat",
        "root.dat",
        "b.dat",
        "OWN/LABEL_1.dat",
        "__1.dat",
    }


def test_variables_of_one_label_and_the_same_numbers_share_a_file(tmp_path):
    make = Making(shape=(2,))
    first = make.constant(np.zeros(2), "a", label="w")
    second = make.graph.add_constant("b", first.fact, first.storage)
    second.notes["label"] = "w"
    third = make.constant(np.ones(2), "c", label="w")
    y = make("concat", make.x, first, second, third, out="y", axis=0)
    assert [line.partition("label = ")[2] for line in lines(make.done(y), tmp_path)[1:4]] == [
        "'w');",
        "'w');",
        "'w_1');",
    ]


# ── unsupported graphs ────────────────────────────────────────────────────────────────────────────────────────────────


def unlifted(make: Making) -> Graph:
    h = Value("h", TensorFact(F32, None))
    make.graph.append(Node("Relu", [make.x], [h]))
    return make.done(h)


def with_shape(*shape) -> Graph:
    make = Making(shape=shape)
    return make.done(make("relu", make.x))


def with_dtype(dtype: DType) -> Graph:
    make = Making(dtype=dtype)
    return make.done(make("relu", make.x, dtype=dtype))


def with_call(op_type: str, operands: int = 1, dtype=F32, **attributes) -> Graph:
    make = Making(dtype=dtype)
    return make.done(make(op_type, *[make.x] * operands, **attributes))


def without_rank() -> Graph:
    graph = Graph("net")
    return _returned(graph, graph.add_input("x"))


def _returned(graph: Graph, value: Value) -> Graph:
    graph.add_output(value)
    return graph


def without_numbers() -> Graph:
    make = Making(shape=(2,))
    weight = make.graph.add_constant("w", TensorFact(F32, (2,)))
    return make.done(make("add", make.x, weight))


def without_inputs() -> Graph:
    graph = Graph("net")
    storage = storage_of(np.zeros(2, np.float32))
    return _returned(graph, graph.add_constant("w", TensorFact.of(storage), storage))


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        pytest.param(without_inputs(), "NNEF0760", id="no inputs"),
        pytest.param(without_rank(), "NNEF0761", id="an input of unknown rank"),
        pytest.param(with_shape(Symbol("N"), 3), "NNEF0762", id="an open extent"),
        pytest.param(with_shape(0, 3), "NNEF0763", id="no elements"),
        pytest.param(with_dtype(DType.COMPLEX64), "NNEF0764", id="complex numbers"),
        pytest.param(unlifted(Making()), "NNEF0765", id="a canonical operator"),
        pytest.param(with_call("leaky_relu"), "NNEF0766", id="an attribute that is missing"),
        pytest.param(with_call("relu", alpha=1.0), "NNEF0766", id="an attribute that is none"),
        pytest.param(with_call("leaky_relu", alpha=math.nan), "NNEF0766", id="an attribute that is not a number"),
        pytest.param(with_call("add"), "NNEF0766", id="an operand that is missing"),
        pytest.param(with_call("relu", 2), "NNEF0766", id="an operand too many"),
        pytest.param(with_call("add", 2, dtype=BOOL), "NNEF0766", id="truths where reals are wanted"),
        pytest.param(with_call("nothing"), "NNEF0767", id="no operation"),
        pytest.param(without_numbers(), "NNEF0769", id="numbers that are not at hand"),
    ],
)
def test_what_nnef_cannot_express_is_refused(tmp_path, graph, code):
    assert refused(graph, tmp_path) == [code]


def test_everything_that_cannot_be_expressed_is_reported_at_once(tmp_path):
    make = Making(shape=(Symbol("N"), 0))
    a = make("nothing", make.x)
    b = make("relu", a, alpha=1.0)
    assert refused(make.done(b), tmp_path) == ["NNEF0762", "NNEF0763", "NNEF0767", "NNEF0766"]


def test_a_text_without_numbers_can_be_written_alone(tmp_path):
    assert write(without_numbers(), tmp_path / "model.nnef") == {}
    assert "w = variable(shape = [2], label = 'w');" in (tmp_path / "model.nnef").read_text()


def test_a_dynamic_dim_is_a_symbol_for_lenient_readers(tmp_path):
    text = text_of(with_shape(Symbol("N"), 3), tmp_path, strict=False)
    assert text.startswith("version 1.0;\nextension tract_symbol N;\n\n")
    assert "x = external(shape = [N, 3]);" in text
    graph, _ = read(tmp_path / "out")
    assert str(graph.inputs[0].fact) == "float32[N, 3]"
    assert [node.op for node in graph] == ["tract.relu"]


# ── editions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_provisional_edition_is_written(tmp_path):
    make = Making(shape=(Symbol("N"), 3))
    h = make("mul", make.x, make.constant(0.5, "c"))
    y = make("add", h, make.constant(-0.5, "d"), out="y")
    text = text_of(make.done(y), tmp_path, edition="provisional")
    assert text == (
        "version 1.0\n\ngraph net( x ) -> ( y )\n{\n    x = external(shape = [0, 3])\n    h = mul(x, 0.5)\n"
        "    d = variable(shape = [], label = 'd')\n    y = add(h, d)\n}\n"
    )
    graph, _ = read(tmp_path / "out")
    assert [node.op_type for node in graph] == ["mul", "add"]


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        pytest.param(with_dtype(I64), "NNEF0764", id="integers"),
        pytest.param(with_call("sin"), "NNEF0767", id="a later operation"),
        pytest.param(with_call("leaky_relu", alpha=-1.0), "NNEF0766", id="a negative number"),
    ],
)
def test_features_of_the_final_edition_are_refused(tmp_path, graph, code):
    assert code in refused(graph, tmp_path, edition="provisional")


# ── the text that was read ────────────────────────────────────────────────────────────────────────────────────────────

WITH_COMMENTS = """# By hand.
version 1.0;
extension KHR_enable_fragment_definitions;

fragment twice(x: tensor<scalar>) -> (y: tensor<scalar>) { y = add(x, x); }

graph net(x) -> (y)
{
  x = external(shape = [2]);   # an input
  w = variable(shape = [2], label = 'w');
  h = twice(x); y = mul(h, w);
}
"""


QUANTIZED = '"h": linear_quantize(min = 0.0, max = 2.5, bits = 8);\n'


@pytest.fixture
def commented(tmp_path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "graph.nnef").write_text(WITH_COMMENTS)
    (folder / "graph.quant").write_text(QUANTIZED)
    with (folder / "w.dat").open("wb") as file:
        nnef.write_tensor(file, np.array([1, 2], np.float16))
    return folder


@pytest.mark.parametrize("name", ["out", "out.tgz", "out.tar"])
def test_an_unchanged_graph_is_written_as_the_text_it_was(tmp_path, commented, name):
    graph, _ = read(commented)
    write(rewrite.copy(graph), tmp_path / name)
    written = open_container(tmp_path / name)
    assert written.graph().text == WITH_COMMENTS
    assert written.quantization() is not None
    region = written.tensor("w")
    assert region is not None
    assert region.read(0, 1000) == (commented / "w.dat").read_bytes()


def test_a_text_without_numbers_stays_one(tmp_path):
    (tmp_path / "a.nnef").write_text(WITH_COMMENTS)
    write(read(tmp_path / "a.nnef")[0], tmp_path / "b.nnef")
    assert (tmp_path / "b.nnef").read_text() == WITH_COMMENTS


def renamed(graph: Graph) -> None:
    graph.rename(next(iter(graph)).output, "other")


def with_another_attribute(graph: Graph) -> None:
    next(iter(graph)).set_attribute("k", 1)


def with_another_operand(graph: Graph) -> None:
    next(iter(graph)).set_input(1, next(iter(graph.constants)))


def with_other_numbers(graph: Graph) -> None:
    next(iter(graph.constants)).storage = storage_of(np.zeros(2, np.float32))


def with_another_shape(graph: Graph) -> None:
    graph.inputs[0].fact = TensorFact(F32, (1,))


def with_another_output(graph: Graph) -> None:
    graph.set_output(0, next(iter(graph)).output)


@pytest.mark.parametrize(
    "change",
    [renamed, with_another_operand, with_other_numbers, with_another_shape, with_another_output],
)
def test_a_changed_graph_is_written_flat(tmp_path, commented, change):
    graph, _ = read(commented)
    change(graph)
    assert "fragment" not in text_of(graph, tmp_path).partition("graph net")[0].replace("KHR_enable_fragment", "")


def test_an_unchanged_graph_is_flat_where_that_is_requested(tmp_path, commented):
    graph, _ = read(commented)
    assert lines(graph, tmp_path, flatten=True)[1:] == [
        "h = add(x, x);",
        "w = variable(shape = [2], label = 'w');",
        "y = mul(h, w);",
    ]
    assert (tmp_path / "out" / "graph.quant").read_text() == QUANTIZED


def test_the_widths_of_numbers_are_kept_for_lenient_readers(tmp_path, commented):
    graph, _ = read(commented)
    write(graph, tmp_path / "lenient", flatten=True, strict=False)
    write(graph, tmp_path / "strict", flatten=True)
    assert (tmp_path / "lenient" / "w.dat").stat().st_size == 128 + 4
    assert (tmp_path / "strict" / "w.dat").stat().st_size == 128 + 8


def test_constants_stay_in_the_text_for_lenient_readers(tmp_path):
    make = Making(shape=(2, 2))
    constant = make.constant([[0.1, 1], [2, 3]], "c", constant=True)
    filled = make.graph.add_constant("f", TensorFact(F32, (2, 2)), Fill(0.5, F32, (2, 2)))
    filled.notes["constant"] = True
    graph = make.done(make("concat", make.x, constant, filled, out="y", axis=0))
    assert lines(graph, tmp_path, strict=False)[1:3] == [
        "c = constant(shape = [2, 2], value = [0.1, 1.0, 2.0, 3.0]);",
        "f = constant(shape = [2, 2], value = [0.5]);",
    ]
    assert lines(graph, tmp_path)[1:3] == [
        "c = variable(shape = [2, 2], label = 'c');",
        "f = variable(shape = [2, 2], label = 'f');",
    ]


def test_operations_without_body_are_declared_again(tmp_path):
    text = (
        "version 1.0;\nextension KHR_enable_fragment_definitions;\n"
        "fragment mine( a: tensor<scalar>[], b: tensor<scalar>[], k: integer = 1 )"
        " -> ( y: tensor<logical>, z: tensor<scalar>[] );\n"
        "graph net(x) -> (y, q)\n{\n    x = external(shape = [4]);\n    y, [p, q] = mine([x, x], [x], k = 2);\n}\n"
    )
    (tmp_path / "a.nnef").write_text(text)
    graph, _ = read(tmp_path / "a.nnef")
    write(graph, tmp_path / "b.nnef", flatten=True)
    again, _ = read(tmp_path / "b.nnef")
    assert content(again) == content(graph)
    assert "y, [p, q] = mine([x, x], [x], k = 2);" in (tmp_path / "b.nnef").read_text()


def test_operations_of_vendors_are_written_as_they_were_called(tmp_path):
    text = (
        "version 1.0;\n\nextension vendor_registry vendor_core;\n\ngraph net( x ) -> ( y )\n{\n"
        "    x = external(shape = [4]);\n    y = vendor_core_cast([x, x], [1, 2], to = 'i32');\n}\n"
    )
    (tmp_path / "a.nnef").write_text(text)
    graph, _ = read(tmp_path / "a.nnef")
    write(graph, tmp_path / "b.nnef", flatten=True)
    again, _ = read(tmp_path / "b.nnef")
    assert content(again) == content(graph)
    assert "y = vendor_core_cast([x, x], [1, 2], to = 'i32');" in (tmp_path / "b.nnef").read_text()


# ── laws and other readers ────────────────────────────────────────────────────────────────────────────────────────────

NAMES = st.text(min_size=1, max_size=6) | st.sampled_from(["x", "x_1", "true", "graph", "a.b", "a_b", "ü"])
NUMBERS = st.floats(width=32)


@st.composite
def graphs(draw) -> Graph:
    make = Making(draw(NAMES), shape=(2, 3), input=draw(NAMES))
    values = [make.x]
    shapes = {make.x: (2, 3)}
    for _ in range(draw(st.integers(1, 8))):
        name, first = draw(NAMES), draw(st.sampled_from(values))
        rows, columns = shape = shapes[first]
        second = draw(st.sampled_from([value for value in values if shapes[value] == shape]))
        match draw(st.integers(0, 5)):
            case 0:
                made = [make("relu", first, out=name)]
            case 1:
                made = [make("add", first, second, out=name)]
            case 2:
                own = draw(st.sampled_from([(), (1,), (rows, columns)]))
                data = draw(st.lists(NUMBERS, min_size=math.prod(own), max_size=math.prod(own)))
                made = [make("mul", first, make.constant(np.reshape(data, own), draw(NAMES)), out=name)]
            case 3 if rows % 2 == 0:
                made = make.several("split", first, out=(name, draw(NAMES)), axis=0, ratios=(1, 1))
                shape = (rows // 2, columns)
            case 4 if rows * columns < 100:
                axis = draw(st.integers(0, 1))
                made = [make("concat", first, second, first, out=name, axis=axis)]
                shape = (3 * rows, columns) if axis == 0 else (rows, 3 * columns)
            case _:
                made = [
                    make("leaky_relu", first, out=name, alpha=draw(st.floats(allow_nan=False, allow_infinity=False)))
                ]
        values += made
        shapes |= dict.fromkeys(made, shape)
    outputs = draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=3, unique=True))
    return make.done(*outputs)


@given(graphs(), st.sampled_from(["folder", "a.tgz", "a.tar"]), st.booleans())
@settings(max_examples=times(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reading_undoes_writing(tmp_path_factory, graph, name, strict):
    path = tmp_path_factory.mktemp("law") / name
    bent = write(graph, path, strict=strict)
    again, findings = read(path)
    verify(again)
    assert findings == []
    # Renamed values get their previous names again for the comparison.
    straight = rewrite.copy(again)
    for value in [value for value in straight.values() if not value.is_literal]:
        value.name = bent.get(value.name, value.name)
    assert content(straight) == content(portable(graph, Edition.FINAL) if strict else graph)
    write(again, path.with_name("second"), strict=strict, flatten=True)
    assert open_container(path.with_name("second")).graph().text == open_container(path).graph().text


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    graph, _ = read(DIGITS)
    for name in ("folder", "a.nnef.tgz", "a.tar"):
        write(graph, folder / name, flatten=True)
    return folder


def theirs(path: Path) -> Any:
    return nnef.load_graph(str(path))


def test_the_reference_reader_loads_what_we_write(rewritten):
    before, after = theirs(DIGITS), theirs(rewritten / "folder")
    nnef.infer_shapes(before)
    nnef.infer_shapes(after)
    assert [op.name for op in before.operations if op.name != "variable"] == [
        op.name for op in after.operations if op.name != "variable"
    ]
    assert {name: tensor.shape for name, tensor in before.tensors.items()} == {
        name: tensor.shape for name, tensor in after.tensors.items()
    }
    for name, tensor in before.tensors.items():
        assert np.array_equal(tensor.data, after.tensors[name].data)


@pytest.mark.parametrize("name", ["folder", "a.nnef.tgz", "a.tar"])
def test_tract_runs_what_we_write(rewritten, name):
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    before = tract.nnef().load(DIGITS).into_runnable().run([image])[0].to_numpy()
    after = tract.nnef().load(rewritten / name).into_runnable().run([image])[0].to_numpy()
    assert after.shape == (1, 10)
    assert np.array_equal(before, after)


def test_other_readers_load_bent_names_literals_and_copies(tmp_path):
    make = Making("main.graph", shape=(1, 3, 8, 8), input="input.1")
    weight = make.constant(np.random.default_rng(0).normal(size=(4, 3, 3, 3)), "conv.weight")
    h = make("conv", make.x, weight, out="/conv/out", padding=((1, 1), (1, 1)))
    h = make("mul", h, make.constant(1e-05, "small"), out="true_values")
    h = make("concat", h, h, out="false", axis=1)
    m, v = make.several("moments", h, out=("m", "v"), axes=(2, 3))
    write(make.done(m, v, make.x), tmp_path / "out")
    graph = theirs(tmp_path / "out")
    nnef.infer_shapes(graph)
    assert [graph.tensors[name].shape for name in graph.outputs] == [[1, 8, 1, 1], [1, 8, 1, 1], [1, 3, 8, 8]]
    model = tract.nnef().load(tmp_path / "out")
    assert model.output_count() == 3


# ── cost ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["folder", "a.tar"])
def test_a_large_model_is_rewritten_in_bounded_memory(tmp_path, name):
    count = 16 << 20
    (tmp_path / "numbers").write_bytes(b"")
    os_size = 4 * count
    with (tmp_path / "numbers").open("r+b") as file:
        file.truncate(os_size)
    graph = Graph("net")
    x = graph.add_input("x", TensorFact(F32, (count,)))
    fact = TensorFact(F32, (count,))
    w = graph.add_constant("w", fact, FileStorage(MappedFile(tmp_path / "numbers"), 0, F32, (count,)))
    y = Value("y", fact)
    graph.append(Node("add", [x, w], [y], dialect="nnef"))
    graph.add_output(y)
    tracemalloc.start()
    write(graph, tmp_path / name)
    again, _ = read(tmp_path / name)
    write(again, tmp_path / f"again_{name}", flatten=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    region = open_container(tmp_path / f"again_{name}").tensor("w")
    assert region is not None
    assert region.size == 128 + os_size
    assert peak < 8 << 20


def test_bent_names_are_reported_as_json_in_the_text(tmp_path):
    make = Making(input='quo"te\n')
    (line, *_) = lines(make.done(make("relu", make.x)), tmp_path)
    note = line.partition("# originally ")[2]
    assert json.loads(note) == {"quo_te_": 'quo"te\n'}
