from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphport.core.budget import OverBudgetError
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbolic, bounds
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import FileStorage, storage_of
from graphport.formats.nnef import read
from graphport.formats.nnef.container.build import call_form
from graphport.formats.nnef.container.limits import Limits
from graphport.formats.nnef.container.packaging import write_container
from graphport.formats.nnef.container.tensors import Payload, tensor_file
from graphport.ir.verify import verify

DIGITS = Path(__file__).parents[3] / "src" / "graphport" / "examples" / "digits"
F32 = DType.FLOAT32


def document(*statements: str, inputs="x", outputs="y", version="version 1.0;", end=";", before="") -> str:
    body = "".join(f"    {statement}{end}\n" for statement in statements)
    return f"{version}\n{before}graph net({inputs}) -> ({outputs})\n{{\n{body}}}\n"


def saved(folder: Path, text: str, name="model.nnef") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def graph_of(folder: Path, *statements: str, options=None, **parts):
    graph, _ = read(saved(folder, document(*statements, **parts)), **(options or {}))
    verify(graph)
    return graph


def model(folder: Path, text: str, **arrays) -> Path:
    files = {"graph.nnef": Payload(len(text), lambda: iter([text.encode()]))}
    for label, array in arrays.items():
        files[f"{label}.dat"] = array if isinstance(array, Payload) else tensor_file(storage_of(array), label)
    write_container(folder / "model", files)
    return folder / "model"


def raw(content: bytes) -> Payload:
    return Payload(len(content), lambda: iter([content]))


def refused(*args, **options) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        read(*args, **options)
    return [finding.code for finding in caught.value.diagnostics]


def value_of(graph, name: str) -> Any:
    return next(value for value in graph.values() if value.name == name)


# ── the shipped model ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_shipped_model_is_read():
    graph, findings = read(DIGITS)
    verify(graph)
    assert findings == []
    assert graph.name == "digits"
    assert [(value.name, str(value.fact)) for value in graph.inputs] == [("image", "float32[1, 1, 8, 8]")]
    assert [value.name for value in graph.outputs] == ["probability"]
    assert [node.op for node in graph][:3] == ["nnef.conv", "nnef.batch_normalization", "nnef.relu"]
    filters = value_of(graph, "conv1_filter")
    assert isinstance(filters.storage, FileStorage)
    assert filters.notes["label"] == "conv1/filter"
    assert filters.fact == TensorFact(F32, (16, 1, 3, 3))


# ── operations ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_has_every_parameter(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [1, 2, 8, 8])",
        "w = variable(shape = [4, 2, 3, 3], label = 'w')",
        "y = conv(x, w, padding = [(1, 1), (0, 2)])",
    )
    (node,) = graph
    assert (node.dialect, node.op_type) == ("nnef", "conv")
    assert [value.name for value in node.operands] == ["x", "w", "0.0"]
    assert node.attributes == {
        "border": "constant",
        "padding": ((1, 1), (0, 2)),
        "stride": (),
        "dilation": (),
        "groups": 1,
    }
    assert node.output.fact == TensorFact(DType.FLOAT32, (1, 4, 8, 8))
    assert not node.has_notes


def test_a_literal_operand_is_a_constant_marked_inline(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [3])",
        "c = gt(x, 0.1)",
        "s = select(c, -2.0, 0.1)",
        "b = and(c, true)",
        "i = argmax_reduce(x, axes = [0])",
        "y = select(b, i, 3)",
        outputs="s, y",
    )
    literals: dict[str, Any] = {value.name: value for value in graph.constants}
    assert all(value.is_literal and value.producer is None for value in literals.values())
    assert {name: (str(value.fact), value.storage.numpy().item()) for name, value in literals.items()} == {
        "0.1": ("float32[]", np.float32(0.1)),
        "-2.0": ("float32[]", -2.0),
        "`true`": ("bool[]", True),
        "3": ("int64[]", 3),
    }


def test_equal_literals_are_one_value(tmp_path):
    graph = graph_of(tmp_path, "x = external(shape = [3])", "a = mul(x, 0.5)", "y = add(a, 0.5)")
    assert len(graph.constants) == 1
    graph = graph_of(tmp_path, "x = external(shape = [3])", "a = mul(x, 0.0)", "y = add(a, -0.0)")
    assert len(graph.constants) == 2


def test_a_list_of_operands_is_a_flat_run(tmp_path):
    graph = graph_of(tmp_path, "x = external(shape = [1, 4])", "y = concat([x, x, x], axis = 1)")
    (node,) = graph
    assert [value.name for value in node.operands] == ["x", "x", "x"]
    assert node.attributes == {"axis": 1}
    assert call_form(node) is None


def test_results_of_arrays_and_tuples_are_a_flat_run(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [1, 4])",
        "[a, b] = split(x, axis = 1, ratios = [1, 1])",
        "m, v = moments(a, axes = [1])",
        outputs="b, m, v",
    )
    split, moments = graph
    assert [value.name for value in split.results] == ["a", "b"]
    assert [value.name for value in moments.results] == ["m", "v"]
    assert [value.name for value in graph.outputs] == ["b", "m", "v"]


def test_attributes_have_their_declared_types(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [1, 4])",
        "a = pad(x, padding = [(0, 0), (1, 2)], border = 'constant', value = -0.5)",
        "y = sum_reduce(a, axes = [1], normalize = true)",
    )
    pad, reduce = graph
    assert pad.attributes == {"padding": ((0, 0), (1, 2)), "border": "constant", "value": -0.5}
    assert reduce.attributes == {"axes": (1,), "normalize": True}


def test_the_element_type_that_no_argument_shows_is_an_attribute(tmp_path):
    graph = graph_of(tmp_path, "x = external(shape = [4])", "c = copy(x)", "y = cast<integer>(c)")
    copy, cast = graph
    assert copy.attributes == {}
    assert cast.attributes == {"dtype": DType.INT64}


def test_a_node_knows_its_place(tmp_path):
    text = document("x = external(shape = [4])", "y = relu(x)")
    graph, _ = read(saved(tmp_path, text))
    (node,) = graph
    assert node.origin is not None
    assert (node.origin.line, node.origin.column) == (5, 9)
    assert text[node.origin.start : node.origin.stop] == "relu(x)"
    assert graph.inputs[0].origin is not None
    assert graph.inputs[0].origin.line == 4


def test_fragments_are_expanded_and_nodes_say_from_where(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [4])",
        "y = twice(x)",
        before="extension KHR_enable_fragment_definitions;\n"
        "fragment twice(x: tensor<scalar>) -> (y: tensor<scalar>) { h = relu(x); y = add(h, h); }\n",
    )
    relu, add = graph
    assert (relu.op_type, add.op_type) == ("relu", "add")
    assert add.output.name == "y"
    assert "in fragment 'twice', called from line 7" in str(relu.origin)


def test_shapes_are_known_while_a_document_is_evaluated(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [2, 3, 4])",
        "y = flat(x)",
        before="extension KHR_enable_fragment_definitions;\nextension KHR_enable_operator_expressions;\n"
        "fragment flat(x: tensor<scalar>) -> (y: tensor<scalar>)\n"
        "{ h = relu(x); y = reshape(h, shape = [shape_of(h)[0] * shape_of(h)[1], -1]); }\n",
    )
    *_, reshape = graph
    assert reshape.attributes["shape"] == (6, -1)


def test_an_operation_without_body_stays_opaque(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [4])",
        "y = mine([x, x], [x], k = 2)",
        before="extension KHR_enable_fragment_definitions;\n"
        "fragment mine(a: tensor<scalar>[], b: tensor<scalar>[], k: integer) -> (y: tensor<logical>);\n",
    )
    (node,) = graph
    assert node.op == "nnef.mine"
    assert [value.name for value in node.operands] == ["x", "x", "x"]
    assert node.output.fact == TensorFact(DType.BOOL, None)
    form = call_form(node)
    assert form is not None
    assert form.operands == {"a": (None, None), "b": (None,)}


def test_an_operation_of_a_vendor_stays_opaque(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [4])",
        "y = vendor_cast(x, [1, 2], to = 'i32')",
        before="extension vendor_words;\n",
    )
    (node,) = graph
    assert (node.op, [value.name for value in node.operands]) == ("nnef.vendor_cast", ["x"])
    assert node.attributes == {"1": (1, 2), "to": "i32"}
    assert node.output.fact == UNKNOWN


# ── inputs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_inputs_stand_in_the_order_of_the_graph(tmp_path):
    graph = graph_of(
        tmp_path,
        "b = external<integer>(shape = [2])",
        "a = external(shape = [3, 1])",
        "c = external<logical>(shape = [1])",
        "y = copy(a)",
        inputs="a, b, c",
    )
    assert [(value.name, str(value.fact)) for value in graph.inputs] == [
        ("a", "float32[3, 1]"),
        ("b", "int64[2]"),
        ("c", "bool[1]"),
    ]


def test_dynamic_dims_of_the_provisional_edition_are_symbols(tmp_path):
    parts = {"version": "version 1.0", "end": ""}
    statements = ("x = external(shape = [0, 3, 0])", "y = relu(x)")
    graph = graph_of(tmp_path, *statements, **parts)
    fact = graph.inputs[0].fact
    assert isinstance(fact, TensorFact)
    assert fact.shape is not None
    first, channels, last = fact.shape
    assert (str(first), channels, str(last)) == ("x_0", 3, "x_2")
    assert isinstance(first, Symbolic)
    assert bounds(first)[0] == 1
    graph = graph_of(tmp_path, *statements, options={"shapes": {"x": (5, 3, "N")}}, **parts)
    assert str(graph.inputs[0].fact) == "float32[5, 3, N]"


def test_a_shape_for_no_input_is_a_finding(tmp_path):
    path = saved(tmp_path, document("x = external(shape = [4])", "y = relu(x)"))
    assert refused(path, shapes={"z": (4,)}) == ["NNEF0517"]
    assert refused(path, shapes={"x": (5,)}) == ["NNEF0517"]


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

ONE_VARIABLE = document("x = external(shape = [2])", "w = variable(shape = [2], label = 'w')", "y = add(x, w)")


def with_variable(data: str) -> str:
    return document(
        f"x = external<{data}>(shape = [2])",
        f"w = variable<{data}>(shape = [2], label = 'w')",
        "c = true" if data == "" else "y = select(true, x, w)",
    )


@pytest.mark.parametrize(
    ("data", "array", "expected"),
    [
        pytest.param("scalar", np.array([1, 2], np.float32), np.float32, id="floats"),
        pytest.param("scalar", np.array([1, 2], np.float16), np.float32, id="half floats"),
        pytest.param("integer", np.array([1, -2], np.int64), np.int64, id="integers"),
        pytest.param("integer", np.array([1, -2], np.int8), np.int64, id="bytes"),
        pytest.param("integer", np.array([1, 2], np.uint32), np.int64, id="unsigned"),
        pytest.param("logical", np.array([True, False]), np.bool_, id="logical"),
    ],
)
def test_numbers_have_the_element_type_of_their_data_type(tmp_path, data, array, expected):
    graph, findings = read(model(tmp_path, with_variable(data), w=array))
    weight = value_of(graph, "w")
    assert findings == []
    assert weight.storage is not None
    assert weight.storage.numpy().dtype == expected
    assert weight.storage.dtype is weight.fact.dtype
    assert weight.storage.numpy().tolist() == array.tolist()


@pytest.mark.parametrize(
    ("data", "array", "code"),
    [
        pytest.param("scalar", np.array([1, 2], np.float64), "NNEF0755", id="doubles are rounded"),
        pytest.param("scalar", np.array([1, 2], np.int32), "NNEF0752", id="integers for reals"),
    ],
)
def test_numbers_of_another_type_are_converted_with_a_warning(tmp_path, data, array, code):
    graph, findings = read(model(tmp_path, with_variable(data), w=array))
    assert [(finding.code, finding.severity) for finding in findings] == [(code, "warning")]
    weight = value_of(graph, "w").storage
    assert weight is not None
    assert (weight.dtype, weight.numpy().tolist()) == (F32, [1, 2])


@pytest.mark.parametrize(
    ("data", "array"),
    [
        ("scalar", np.array([True, False])),
        ("integer", np.array([1, 2], np.float32)),
        ("integer", np.array([True, False])),
        ("logical", np.array([1, 2], np.float32)),
        ("logical", np.array([1, 2], np.int32)),
    ],
)
def test_numbers_that_are_something_else_are_refused(tmp_path, data, array):
    assert refused(model(tmp_path, with_variable(data), w=array)) == ["NNEF0751"]


def codes_file(params: bytes) -> Payload:
    head = b"\x4e\xef\x01\x00" + struct.pack("<II8IIHH", 2, 1, 2, *[0] * 7, 8, 2, 0)
    return raw((head + params).ljust(128, b"\0") + b"\x00\xff")


def test_codes_with_a_range_are_decoded(tmp_path):
    graph, _ = read(model(tmp_path, ONE_VARIABLE, w=codes_file(struct.pack("<ff", -1, 1))))
    weight = value_of(graph, "w").storage
    assert weight is not None
    assert weight.numpy().tolist() == [-1, 1]


def test_codes_of_unknown_numbers_are_refused(tmp_path):
    assert refused(model(tmp_path, ONE_VARIABLE, w=codes_file(b""))) == ["NNEF0753"]


def test_codes_for_integers_are_integers(tmp_path):
    graph, _ = read(model(tmp_path, with_variable("integer"), w=codes_file(b"")))
    weight = value_of(graph, "w")
    assert weight.storage is not None
    assert weight.storage.numpy().tolist() == [0, 255]
    assert weight.notes["quantized"] is True


def test_a_file_of_another_shape_is_refused_at_the_declaration(tmp_path):
    path = model(tmp_path, ONE_VARIABLE, w=np.zeros((1, 2), np.float32))
    with pytest.raises(DiagnosticError) as caught:
        read(path)
    (finding,) = caught.value.diagnostics
    assert finding.code == "NNEF0750"
    assert finding.message == "'w' has shape [2] in the document, but [1, 2] in its file"
    assert finding.span is not None
    assert finding.span.line == 5


def test_a_missing_file_is_a_finding_and_a_text_alone_has_no_numbers(tmp_path):
    path = model(tmp_path, ONE_VARIABLE)
    assert refused(path) == ["NNEF0754"]
    graph, findings = read(path / "graph.nnef")
    assert findings == []
    weight = value_of(graph, "w")
    assert weight.is_constant
    assert weight.storage is None
    assert weight.fact == TensorFact(F32, (2,))


def test_every_fault_of_every_file_is_reported_at_once(tmp_path):
    text = document(
        "x = external(shape = [2])",
        "a = variable(shape = [2], label = 'a')",
        "b = variable(shape = [2], label = 'b')",
        "c = variable(shape = [2], label = '../c')",
        "d = variable(shape = [2], label = 'd')",
        "y = add_n([x, a, b, c, d])",
    )
    path = model(tmp_path, text, a=raw(b"not a tensor"), b=np.zeros(3, np.float32))
    assert refused(path) == ["NNEF0702", "NNEF0750", "NNEF0740", "NNEF0754"]


def test_variables_of_one_label_share_their_numbers(tmp_path):
    text = document(
        "x = external(shape = [2])",
        "a = variable(shape = [2], label = 'w')",
        "b = variable(shape = [2], label = 'w')",
        "y = add_n([x, a, b])",
    )
    graph, _ = read(model(tmp_path, text, w=np.ones(2, np.float32)))
    assert value_of(graph, "a").storage is value_of(graph, "b").storage


def test_an_unsigned_integer_beyond_the_signed_ones_is_a_finding(tmp_path):
    assert refused(model(tmp_path, with_variable("integer"), w=np.array([0, 2**63], np.uint64))) == ["NNEF0714"]


def test_short_integers_are_known_element_by_element(tmp_path):
    graph, _ = read(model(tmp_path, with_variable("integer"), w=np.array([3, -4], np.int32)))
    assert value_of(graph, "w").fact == TensorFact(DType.INT64, (2,), (3, -4))


def test_a_constant_holds_the_numbers_in_the_text(tmp_path):
    graph = graph_of(
        tmp_path,
        "x = external(shape = [2, 2])",
        "c = constant(shape = [2, 2], value = [0.1, 1.0, -2.0, 1e30])",
        "f = constant<integer>(shape = [3], value = [7])",
        "y = add(x, c)",
        outputs="y, f",
    )
    constant, filled = value_of(graph, "c"), value_of(graph, "f")
    assert constant.storage is not None
    assert constant.storage.numpy().tolist() == np.array([[0.1, 1], [-2, 1e30]], np.float32).tolist()
    assert not constant.is_literal
    assert filled.storage is not None
    assert filled.storage.numpy().tolist() == [7, 7, 7]
    assert filled.fact == TensorFact(DType.INT64, (3,), (7, 7, 7))


@pytest.mark.parametrize("arguments", ["shape = [2, 2], value = [1.0, 2.0]", "shape = [2], value = []"])
def test_a_constant_of_another_count_is_a_finding(tmp_path, arguments):
    path = saved(tmp_path, document("x = external(shape = [2])", f"c = constant({arguments})", "y = add(x, c)"))
    assert len(refused(path)) == 1


def test_a_constant_of_astronomical_size_takes_no_memory(tmp_path):
    statement = "c = constant(shape = [1000000, 1000000, 1000000], value = [0.0])"
    graph = graph_of(tmp_path, "x = external(shape = [1])", statement, "y = add(x, c)")
    storage = value_of(graph, "c").storage
    assert storage is not None
    assert storage.numpy().shape == (10**6, 10**6, 10**6)
    with pytest.raises(OverBudgetError, match=r"10000000+ times the same value"):
        next(iter(storage.chunks()))


# ── findings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_mistakes_of_grammar_and_rules_are_reported_together(tmp_path):
    path = saved(tmp_path, document("x = external(shape = [2])", "h = relu(x, x)", "y = add(h h)", "z = nothing(x)"))
    assert len(refused(path)) == 3


def test_the_edition_can_be_given(tmp_path):
    path = saved(tmp_path, document("x = external(shape = [2])", "y = relu(x)", version="version 1.0"))
    assert read(path)[1] == []
    assert refused(path, edition="final") != []


def test_limits_are_kept(tmp_path):
    text = document(
        "x = external(shape = [4])",
        "y = endless(x)",
        before="extension KHR_enable_fragment_definitions;\n"
        "fragment endless(x: tensor<scalar>) -> (y: tensor<scalar>) { y = endless(x); }\n",
    )
    assert len(refused(saved(tmp_path, text), limits=Limits(depth=50))) == 1


def test_what_other_tools_write_is_a_warning_for_a_tolerant_reader(tmp_path):
    text = document("x = external(shape = [2])", "h = x + x", "y = relu(h)")
    path = saved(tmp_path, text)
    (code,) = refused(path)
    graph, findings = read(path, tolerant=True)
    assert [(finding.code, finding.severity) for finding in findings] == [(code, "warning")]
    assert [node.op_type for node in graph] == ["add", "relu"]


MISFITS = [
    pytest.param("y = softmax(x, axes = 1);", "axes", (1,), id="an integer for an array"),
    pytest.param(
        "e = constant(shape = [], value = [0.5]); y = l2_normalization(x, axes = [1], epsilon = e);",
        "epsilon",
        0.5,
        id="a constant for a scalar",
    ),
    pytest.param(
        "e = constant(shape = [1], value = [0.5]); y = l2_normalization(x, axes = [1], epsilon = e);",
        "epsilon",
        0.5,
        id="a constant of rank 1 for a scalar",
    ),
    pytest.param(
        "y = l2_normalization(x, axes = [1], epsilon = [0.5]);",
        "epsilon",
        0.5,
        id="an array of one number for a scalar",
    ),
]


@pytest.mark.parametrize(("statements", "attribute", "value"), MISFITS)
def test_arguments_that_other_tools_misfit_are_warnings_for_a_tolerant_reader(tmp_path, statements, attribute, value):
    path = saved(tmp_path, document("x = external(shape = [2, 3])", *statements.rstrip(";").split("; ")))
    assert refused(path) == ["NNEF0401"]
    graph, findings = read(path, tolerant=True)
    assert [(finding.code, finding.severity) for finding in findings] == [("NNEF0401", "warning")]
    assert graph.outputs[0].producer is not None
    assert graph.outputs[0].producer.attributes[attribute] == value


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(["y = softmax(x, axes = 1.0)"], id="a real for an array of integers"),
        pytest.param(["y = l2_normalization(x, axes = [1], epsilon = [0.5, 0.5])"], id="two numbers for a scalar"),
        pytest.param(["y = l2_normalization(x, axes = [1], epsilon = x)"], id="a tensor of the run for a scalar"),
        pytest.param(
            ["e = constant(shape = [2], value = [0.5, 0.1])", "y = l2_normalization(x, axes = [1], epsilon = e)"],
            id="a constant of two numbers for a scalar",
        ),
    ],
)
def test_a_tolerant_reader_does_not_guess_what_an_argument_means(tmp_path, statements):
    path = saved(tmp_path, document("x = external(shape = [2, 3])", *statements))
    with pytest.raises(DiagnosticError) as caught:
        read(path, tolerant=True)
    assert {finding.code for finding in caught.value.diagnostics} == {"NNEF0401"}


def test_an_integer_for_an_array_goes_into_fragments_too(tmp_path):
    text = document(
        "x = external(shape = [2, 3])",
        "y = mine(x, axes = 1)",
        before="extension KHR_enable_fragment_definitions;\n"
        "fragment mine(x: tensor<scalar>, axes: integer[]) -> (y: tensor<scalar>)\n{\n"
        "    y = softmax(x, axes = axes);\n}\n",
    )
    graph, _ = read(saved(tmp_path, text), tolerant=True)
    assert graph.outputs[0].producer is not None
    assert graph.outputs[0].producer.attributes["axes"] == (1,)


def test_names_before_they_became_identifiers_are_noted(tmp_path):
    text = document(
        "x = external(shape = [2])", '# originally {"y_1": "y.1", "x": "a b"}\n    y_1 = relu(x)', outputs="y_1"
    )
    graph, _ = read(saved(tmp_path, text))
    assert graph.outputs[0].notes["original_name"] == "y.1"
    assert graph.inputs[0].notes["original_name"] == "a b"


@pytest.mark.parametrize("note", ["{", "[1]", '{"y": 1}', "[" * 5000, ""])
def test_a_comment_that_only_looks_so_is_passed_over(tmp_path, note):
    text = document("x = external(shape = [2])", f"# originally {note}\n    y = relu(x)")
    graph, _ = read(saved(tmp_path, text))
    assert not graph.outputs[0].has_notes


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        pytest.param("v = variable(shape = [2], label = 'v'); y = update(v, x);", "NNEF06", id="update"),
        pytest.param(
            "j = argmax_pool(x, size = [2], stride = [2]); y = sample(x, j, size = [2]);", "SHAPE0001", id="sample"
        ),
        pytest.param("y = max_pool(x, size = [2, 2]);", "NNEF06", id="a window of another rank"),
    ],
)
def test_flat_texts_are_held_to_their_shapes_too(tmp_path, statements, code):
    text = f"version 1.0;\ngraph g( x ) -> ( y )\n{{\n    x = external(shape = [4]);\n    {statements}\n}}\n"
    (tmp_path / "a.nnef").write_text(text)
    with pytest.raises(DiagnosticError) as caught:
        read(tmp_path / "a.nnef")
    (finding,) = [finding for finding in caught.value.diagnostics if finding.is_error]
    assert finding.code.startswith(code)
    assert finding.span is not None
    assert finding.span.line == 5
