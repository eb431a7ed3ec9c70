"""The formal description of the provisional edition, section by section: its rules and its examples.

Where the text contradicts itself, the test states our decision and names both places.
"""

from __future__ import annotations

import pytest

from graphport.core.dims import Symbol
from graphport.formats.nnef.container.printer import to_text
from graphport.formats.nnef.container.syntax import Edition
from tests.formats.nnef.documents import (
    attributes,
    checked,
    codes,
    evaluated,
    findings,
    operations,
    provisional,
    read,
    tree,
)

Y = "y = relu(x)"


def definition(text: str) -> str:
    """A fragment on lines of its own, in front of the graph."""
    return f"{text}\n"


def tensor_fragment(*body: str, parameters="x: tensor", name="f") -> str:
    lines = "".join(f"    {line}\n" for line in body)
    return f"fragment {name}( {parameters} ) -> ( y: tensor )\n{{\n{lines}}}\n"


def shape(expression: str):
    """What `expression` is worth, as the shape of a reshaped tensor."""
    before = tensor_fragment(f"y = reshape(x, shape = {expression})")
    expansion = evaluated(provisional("y = f(x)", before=before, shape="[1]"))
    return attributes(expansion)["shape"]


def syntax(text: str) -> list[str]:
    parsed = read(text)
    assert parsed.document.edition is Edition.PROVISIONAL
    return codes(parsed.diagnostics)


# ── 3.1 lexical elements ──


@pytest.mark.parametrize("name", ["_", "a", "Z9", "a_b_1", "extension", "integer", "yield"])
def test_3_1_identifiers_are_ascii_letters_digits_and_underscores(name):
    text = provisional(f"{name} = relu(x)", f"y = relu({name})")
    assert codes(read(text, Edition.PROVISIONAL).diagnostics) == []


@pytest.mark.parametrize("name", ["1a", "a-b", "é"])
def test_3_1_other_op_types_are_no_identifiers(name):
    assert syntax(provisional(f"{name} = relu(x)", Y)) != []


KEYWORDS = "graph fragment tensor extent scalar logical string shape_of length_of range_of for in if else"


@pytest.mark.parametrize("keyword", KEYWORDS.split())
def test_3_1_keywords_are_no_identifiers(keyword):
    assert syntax(provisional(f"a = relu(x); {keyword} = relu(x)", Y)) == ["NNEF0202"]


@pytest.mark.parametrize("number", ["0", "42", "3.14", "1e5", "2.5E-3", "1e+2"])
def test_3_1_numbers_have_an_integer_part_a_fraction_and_an_exponent(number):
    assert syntax(provisional(f"a = f(x, k = {number})", Y)) == []


@pytest.mark.parametrize("number", [".5", "1.", "1e", "0x1", "1.2.3"])
def test_3_1_anything_else_is_no_number(number):
    assert syntax(provisional(f"a = f(x, k = {number})", Y)) != []


def test_3_1_logical_literals_are_true_and_false():
    assert syntax(provisional("a = f(x, k = true, m = false)", Y)) == []


def test_3_1_white_space_and_comments_stand_between_any_two_op_types():
    text = "version 1.0 # the version\n\tgraph\n g ( x )\r\n->\f(\vy ) # graph\n{ x=external ( shape=[ 1,\n2 ] ) y=relu(x)}"
    assert syntax(text) == []


# ── 3.2.1 declaration of operations ──


def test_3_2_1_declarations_have_typed_parameters_with_defaults_and_typed_results():
    before = "fragment foo( source: tensor, size: extent[] = [1] ) -> ( target: tensor )\n{\n    target = box(source, size = size)\n}\n"
    before += "fragment bar( source: tensor, alpha: scalar = 0.5 )\n-> ( target: tensor, more: tensor[] )\n"
    before += "{\n    target = source * alpha\n    more = [source]\n}\n"
    first, second = tree(provisional(Y, before=before)).fragments
    assert [parameter.default is None for parameter in first.parameters] == [True, False]
    assert to_text(second.results[1].type, Edition.PROVISIONAL) == "tensor[]"


@pytest.mark.parametrize(
    "kind",
    ["tensor", "extent", "scalar", "logical", "string", "extent[][]", "(extent, tensor)[]", "(scalar[], string)"],
)
def test_3_2_1_types_are_names_arrays_and_tuples(kind):
    assert syntax(provisional(Y, before=f"fragment f( x: {kind} ) -> ( y: tensor )\n{{\n    y = relu(x)\n}}\n")) == []


@pytest.mark.parametrize(
    "default", ["n: extent[][] = [[1,2],[3],[]]", "n: (extent, logical)[] = [(1, true), (2, false)]"]
)
def test_3_2_1_defaults_are_literals_arrays_and_tuples_of_them(default):
    assert syntax(provisional(Y, before=tensor_fragment(Y, parameters=f"x: tensor, {default}"))) == []


@pytest.mark.parametrize("default", ["1 + 1", "m", "[length_of('ab')]", "k(x)"])
def test_3_2_1_defaults_are_nothing_that_is_computed(default):
    assert syntax(provisional(Y, before=tensor_fragment(Y, parameters=f"x: tensor, n: extent = {default}"))) == [
        "NNEF0209"
    ]


def test_3_2_1_an_operation_has_a_parameter():
    before = "fragment f() -> ( y: tensor )\n{\n    y = 1.0\n}\n"
    assert syntax(provisional(Y, before=before)) == ["NNEF0206"]


# ── 3.2.2 definition of graphs ──


def test_3_2_2_a_graph_is_a_list_of_invocations():
    before = "fragment foo( source: tensor, size: extent[] = [1] ) -> ( target: tensor )\n{\n    target = box(source, size = size)\n}\n"
    before += "fragment bar( source: tensor, alpha: scalar = 0.5 ) -> ( target: tensor, more: tensor[] )\n"
    before += "{\n    target = source * alpha\n    more = [source]\n}\n"
    text = (
        "version 1.0\n"
        + before
        + (
            "graph example( source ) -> ( target )\n{\n"
            "    source = external(shape = [1,10])\n"
            "    between, more = bar(source, alpha = 2)\n"
            "    target = foo(between, size = [3,5])\n}\n"
        )
    )
    found = findings(text)
    # 3.3.1 has no arrays among the names of a graph, 3.3.2 no cast from extent to scalar; 3.2.2 shows both.
    assert [(each.code, each.is_error) for each in found] == [("NNEF0309", True), ("NNEF0402", False)]
    assert codes(findings(text.replace("between, more", "between, [more]"))) == ["NNEF0402"]


def test_3_2_2_tuples_and_arrays_stand_on_the_left_side():
    assert syntax(provisional("a, b = f(x)", "(c, d) = f(x)", "[e, g] = h(x)", "[(i, j), k], l = m(x)", Y)) == []


def test_3_2_2_semicolons_may_stand_after_assignments():
    assert syntax(provisional("a = relu(x);", "b = relu(a)", "y = relu(b);")) == []


@pytest.mark.parametrize("parameter", ["x: tensor", "x = 1.0"])
def test_3_2_2_parameters_of_a_graph_have_neither_type_nor_default(parameter):
    assert syntax(provisional(Y).replace("graph main( x )", f"graph main( {parameter} )")) != []


def test_3_2_2_bodies_and_argument_lists_are_not_empty():
    assert syntax("version 1.0\ngraph main( x ) -> ( y )\n{\n}\n") == ["NNEF0206"]
    assert syntax(provisional("y = relu()")) == ["NNEF0206"]


# ── 3.2.3 compositional description ──


def test_3_2_3_fragments_are_defined_by_assignments_of_expressions():
    body = [
        "a = -x + x * 2.0",
        "b = x if n > 0 && n != 3 else a",
        "c = [i * 2 for i in m if i > 0]",
        "y = reshape(b, shape = c[1:])",
    ]
    assert syntax(provisional(Y, before=tensor_fragment(*body, parameters="x: tensor, n: extent, m: extent[]"))) == []


def test_3_2_3_the_if_after_in_is_the_comprehensions():
    assert shape("[i for i in [1,2,3,4] if i > 2 && i < 4]") == (3,)


def test_3_2_3_ranges_are_open_at_either_end():
    assert (
        syntax(
            provisional(
                Y,
                before=tensor_fragment(
                    "y = reshape(x, shape = s[1:] + s[:1] + s[:])", parameters="x: tensor, s: extent[]"
                ),
            )
        )
        == []
    )


def test_3_2_3_operators_have_signs_and_parentheses():
    assert shape("[+2, -(-3), (1 + 2) * 3, 1 if !(!true) else 2]") == (2, 3, 9, 1)


@pytest.mark.parametrize("arguments", ["x = [1]", "[1], [2]"])
def test_3_2_3_a_built_in_function_takes_one_argument_without_a_name(arguments):
    assert syntax(provisional(Y, before=tensor_fragment(f"a = length_of({arguments})", Y))) == ["NNEF0201"]


# ── 3.2.4 whole documents ──


def test_3_2_4_a_document_is_a_version_definitions_and_a_graph():
    before = tensor_fragment("y = select(flag, x, 0.0)", parameters="x: tensor, flag: logical", name="foo")
    before += tensor_fragment("y = x * k", parameters="x: tensor, k: scalar", name="bar")
    text = provisional("hidden = foo(x, flag = true)", "y = bar(hidden, k = 3.14)", before=before, shape="[4,10]")
    assert findings(text) == []
    assert operations(evaluated(text)) == ["external", "select", "mul"]


@pytest.mark.parametrize(
    "text", [provisional(Y).replace("version 1.0\n", ""), "version 1.0\n"], ids=["no version", "no graph"]
)
def test_3_2_4_neither_version_nor_graph_may_be_missing(text):
    assert syntax(text) != []


@pytest.mark.parametrize("statement", ["y = x + x", "y = relu(relu(x))", "y = x", "y = reshape(x, shape = [1 + 1])"])
def test_3_2_4_the_body_of_the_graph_is_flat(statement):
    assert codes(checked(provisional(statement)).diagnostics) == ["NNEF0336"]


@pytest.mark.parametrize("version", ["1", "'1.0'", "1.0.0", "one"])
def test_3_2_4_the_version_is_a_major_and_a_minor_number(version):
    assert codes(read(provisional(Y).replace("1.0", version, 1), Edition.PROVISIONAL).diagnostics) != []


def test_3_2_4_the_graph_is_one_and_comes_last():
    assert syntax(provisional(Y) + tensor_fragment(Y)) == ["NNEF0205"]
    assert syntax(provisional(Y) + provisional(Y).replace("version 1.0\n", "")) == ["NNEF0205"]


# ── 3.3.1 declarations, invocations, assignments ──


@pytest.mark.parametrize(
    ("before", "code"),
    [
        pytest.param(tensor_fragment(Y) * 2, "NNEF0301", id="two fragments of one name"),
        pytest.param(
            tensor_fragment(Y, parameters="x: tensor, x: tensor"), "NNEF0313", id="two parameters of one name"
        ),
        pytest.param(
            "fragment f( x: tensor ) -> ( y: tensor, y: tensor )\n{\n    y = relu(x)\n}\n", "NNEF0314", id="two results"
        ),
        pytest.param(
            tensor_fragment(Y, parameters="x: tensor, n: extent = 'a'"), "NNEF0410", id="a default of another type"
        ),
    ],
)
def test_3_3_1_declarations(before, code):
    assert codes(checked(provisional(Y, before=before)).diagnostics) == [code]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("y = unknown(x)", "NNEF0322", id="an operation that is not declared"),
        pytest.param("y = relu(x, x)", "NNEF0323", id="more arguments than parameters"),
        pytest.param("y = leaky_relu(x)", "NNEF0324", id="a parameter without value"),
        pytest.param("y = add(x = x, x)", "NNEF0325", id="a position behind a name"),
        pytest.param("y = softmax(x, axis = [1])", "NNEF0326", id="a name that is not declared"),
        pytest.param("y = leaky_relu(x, alpha = 0.5, alpha = 0.5)", "NNEF0327", id="a name twice"),
        pytest.param("y = leaky_relu(x, x = x, alpha = 0.5)", "NNEF0328", id="by position and by name"),
        pytest.param("y = leaky_relu(x, 0.5)", "NNEF0329", id="an attribute by position"),
    ],
)
def test_3_3_1_invocations(statement, code):
    assert codes(checked(provisional(statement)).diagnostics) == [code]


def test_3_3_1_named_arguments_stand_in_any_order_and_defaults_fill_in():
    expansion = evaluated(provisional("y = softmax(axes = [2], x = x)", "z = softmax(x)"))
    assert [each.attributes["axes"] for each in expansion.operations[1:]] == [(2,), (1,)]


def test_3_3_1_calls_and_constants_do_not_stand_on_the_left():
    assert syntax(provisional("relu(a) = relu(x)", Y)) == ["NNEF0208"]
    assert syntax(provisional("1.0 = relu(x)", Y)) == ["NNEF0208"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(provisional(Y, before=tensor_fragment("x = relu(x)", Y)), "NNEF0306", id="a parameter assigned"),
        pytest.param(
            provisional(Y).replace("external(shape = [1, 3, 8, 8])", "constant(shape = [1], value = [1.0])"),
            "NNEF0307",
            id="an input that is not external",
        ),
        pytest.param(
            provisional(Y, before=tensor_fragment("y = external(shape = [1])")), "NNEF0308", id="external in a fragment"
        ),
        pytest.param(
            provisional(Y, before=tensor_fragment("z = relu(x)")), "NNEF0305", id="a result that is not assigned"
        ),
        pytest.param(provisional(Y, before=tensor_fragment(Y, Y)), "NNEF0304", id="a result assigned twice"),
        pytest.param(provisional("a = relu(b)", "b = relu(x)", Y), "NNEF0302", id="a name used before it is assigned"),
        pytest.param(provisional("a = relu(x)", "a = relu(x)", Y), "NNEF0304", id="a name assigned twice"),
        pytest.param(
            provisional("a = split(x, axis = 1, ratios = [1, 2])", Y), "NNEF0309", id="an array with one name"
        ),
        pytest.param(provisional("a = moments(x, axes = [1])", Y), "NNEF0309", id="a tuple with one name"),
    ],
)
def test_3_3_1_identifiers(text, code):
    assert codes(checked(text).diagnostics) == [code]


def test_3_3_1_arrays_are_unpacked_into_names():
    assert findings(provisional("[a, b] = split(x, axis = 1, ratios = [1, 2])", "y = concat([b, a], axis = 1)")) == []


def test_3_3_1_names_belong_to_their_fragments():
    before = tensor_fragment("t = relu(x)", "y = tanh(t)") + tensor_fragment("t = tanh(x)", "y = relu(t)", name="g")
    text = provisional("t = f(x)", "y = g(t)", before=before)
    assert findings(text) == []
    assert operations(evaluated(text)) == ["external", "relu", "tanh", "tanh", "relu"]


def test_3_3_1_a_standard_operation_is_declared_already():
    before = tensor_fragment("y = tanh(x)", name="relu")
    assert codes(checked(provisional(Y, before=before)).diagnostics) == ["NNEF0301"]


def test_3_3_1_defaults_may_be_given_other_values():
    before = tensor_fragment("y = leaky_relu(x, alpha = k)", parameters="x: tensor, k: scalar = 0.5")
    expansion = evaluated(provisional("a = f(x)", "y = f(a, k = 3.0)", before=before))
    assert [each.attributes["alpha"] for each in expansion.operations[1:]] == [0.5, 3.0]


def test_3_3_1_names_of_a_fragment_are_assigned_before_they_are_used():
    before = tensor_fragment("a = relu(b)", "b = relu(x)", "y = relu(a)")
    assert codes(checked(provisional(Y, before=before)).diagnostics) == ["NNEF0302"]


def test_3_3_1_arrays_within_tuples_stand_on_the_left():
    before = tensor_fragment("[a, b], c = ([x, 1.0], x)", "y = a + b * c")
    assert findings(provisional("y = f(x)", before=before)) == []


def test_3_3_1_an_operation_may_restrict_its_arguments():
    assert codes(findings(provisional("y = max_pool(x, size = [1,1,2,2], border = 'other')"))) == ["NNEF0603"]


# ── 3.3.2 types ──


def test_3_3_2_data_types_of_tensors_do_not_mix():
    assert codes(checked(provisional("a = lt(x, 0.0)", "y = add(x, a)")).diagnostics) == ["NNEF0401"]
    assert codes(checked(provisional("y = select(x, x, x)")).diagnostics) == ["NNEF0401"]
    assert findings(provisional("a = lt(x, 0.0)", "y = select(a, x, 0.0)")) == []


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("y = add(x, 1.5)", None, id="a scalar for a tensor of scalars"),
        pytest.param("y = select(true, x, x)", None, id="a logical for a tensor of logicals"),
        pytest.param("y = concat([x, 1.0], axis = 0)", None, id="arrays item by item"),
        pytest.param("y = add(x, 1)", "NNEF0401", id="an extent for a tensor"),
        pytest.param("y = add(x, 'a')", "NNEF0401", id="a string for a tensor"),
        pytest.param("y = softmax(x, axes = [1.0])", "NNEF0401", id="scalars for extents"),
        pytest.param("y = leaky_relu(x, alpha = x)", "NNEF0401", id="a tensor for a scalar"),
    ],
)
def test_3_3_2_casts(statement, code):
    assert codes(checked(provisional(statement)).diagnostics) == ([] if code is None else [code])


def test_3_3_2_a_number_is_a_tensor_of_singular_shape():
    assert shape("shape_of(1.0)") == (1, 1)


def test_3_3_2_coordinates_do_not_mix_with_scalars():
    index = "i = argmax_pool(x, size = [1,1,2,2])"
    assert codes(checked(provisional(index, "y = add(x, i)")).diagnostics) == ["NNEF0401"]
    assert codes(checked(provisional("y = sample(x, x, size = [1,1,2,2])")).diagnostics) == ["NNEF0401"]
    assert findings(provisional(index, "y = sample(x, i, size = [1,1,2,2])")) == []


def test_3_3_2_arrays_of_arrays_have_items_of_any_length():
    before = tensor_fragment("y = leaky_relu(x, alpha = k[1][1])", parameters="x: tensor, k: scalar[][]")
    expansion = evaluated(provisional("y = f(x, k = [[1.0], [2.0, 3.0]])", before=before))
    assert attributes(expansion)["alpha"] == 3.0


@pytest.mark.parametrize(("given", "code"), [("(x, 1.0)", None), ("(x, 1.0, x)", "NNEF0401"), ("(x, 'a')", "NNEF0401")])
def test_3_3_2_tuples_are_cast_item_by_item(given, code):
    before = "fragment g( t: (tensor, tensor) ) -> ( y: tensor )\n{\n    a, b = t\n    y = a + b\n}\n"
    before += tensor_fragment(f"y = g({given})")
    assert codes(findings(provisional("y = f(x)", before=before))) == ([] if code is None else [code])


@pytest.mark.parametrize(("value", "code"), [("2.5", None), ("'a'", "NNEF0411"), ("[x]", "NNEF0411")])
def test_3_3_2_what_is_assigned_to_a_result_has_its_type(value, code):
    found = checked(provisional(Y, before=tensor_fragment(f"y = {value}"))).diagnostics
    assert codes(found) == ([] if code is None else [code])


# ── 3.3.3 expressions ──


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[2 + 3 * 4]", (14,)),
        ("[7 / 2, 2 ^ 3, -2 + 8]", (3, 8, 6)),
        ("[1 if 1 < 2 && !(2 <= 1) else 0]", (1,)),
        ("[1 if 'a' == 'a' || false else 0]", (1,)),
    ],
)
def test_3_3_3_operators_compute(expression, value):
    assert shape(expression) == value


def test_3_3_3_operators_on_tensors_are_their_fragments():
    before = tensor_fragment("y = select(-a / b ^ 2.0 < a - b, a + b, a * b)", parameters="a: tensor, b: tensor")
    text = provisional("y = f(x, x)", before=before)
    assert operations(evaluated(text)) == ["external", "neg", "pow", "div", "sub", "lt", "add", "mul", "select"]


@pytest.mark.parametrize("expression", ["1 + 0.5", "1 < 0.5", "1 == '1'", "'a' - 'b'", "!1", "[1] - [1]", "1 && 2"])
def test_3_3_3_operators_do_not_take_other_types(expression):
    before = tensor_fragment(f"a = {expression}", Y)
    assert codes(checked(provisional(Y, before=before)).diagnostics) == ["NNEF0405"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("[1,2] + [3,4]", (1, 2, 3, 4), id="joined"),
        pytest.param("[1,2] * 2", (1, 2, 1, 2), id="repeated"),
        pytest.param("[[1,2,3][1]]", (2,), id="an item"),
        pytest.param("[1,2,3][0:2]", (1, 2), id="a range"),
        pytest.param("[1,2,3][:2]", (1, 2), id="a range from the start"),
        pytest.param("[1,2,3][1:]", (2, 3), id="a range to the end"),
        pytest.param("[1,2,3][2:2]", (), id="a range of nothing"),
        # 3.3.3 says that a range is empty where its start is at most its end, and [1:3] of its own example is not.
        pytest.param("[1,2,3][2:1]", (), id="a range backwards"),
    ],
)
def test_3_3_3_arrays(expression, value):
    assert shape(expression) == value


def test_3_3_3_an_index_beyond_an_array_is_invalid():
    text = provisional("y = f(x)", before=tensor_fragment("y = reshape(x, shape = [[1,2,3][3]])"), shape="[1]")
    assert codes(findings(text)) == ["NNEF0503"]


def test_3_3_3_tuples_are_made_and_unpacked():
    body = ["t = 1, 2, 3", "a, b, c = t", "y = reshape(x, shape = [a + b, t[2]])"]
    text = provisional("y = f(x)", before=tensor_fragment(*body), shape="[9]")
    assert evaluated(text).operations[-1].attributes["shape"] == (3, 3)


@pytest.mark.parametrize(
    ("statement", "code"),
    [("a, b = t", "NNEF0346"), ("a = t[n]", "NNEF0407"), ("a = t[0:1]", "NNEF0407"), ("a = t[3]", "NNEF0407")],
)
def test_3_3_3_tuples_are_split_by_literals(statement, code):
    before = tensor_fragment("n = 1", "t = (1, 2, 3)", statement, Y)
    assert codes(checked(provisional(Y, before=before)).diagnostics) == [code]


def test_3_3_3_strings():
    label = "'ab' + 'c' * 2 + 'xyz'[1] + 'uvw'[:2]"
    before = tensor_fragment(f"y = x + variable(shape = [1], label = {label})")
    (operation,) = [
        each for each in evaluated(provisional("y = f(x)", before=before)).operations if each.name == "variable"
    ]
    assert operation.attributes["label"] == "abccyuv"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        *[
            ("shape_of(x)", (1, 1)),
            ("[length_of([4,5,6]), length_of('ab')]", (3, 2)),
            ("range_of([4,5,6])[1:] + range_of('ab')[1:]", (1, 2, 1)),
        ],
        *[("[extent(true), extent(false) + 1]", (1, 1)), ("[extent('12')]", (12,)), ("[extent(2.7)]", (2,))],
        *[("[extent(scalar(3) * 2.0)]", (6,)), ("[extent(scalar('1.5') * 2.0 + scalar(true))]", (4,))],
        *[("[1 if logical(0) else 2, 1 if logical(0.5) else 2, 1 if logical('') else 2]", (2, 1, 2))],
        *[("[length_of(string(125)), length_of(string(true)), length_of(string(0.5))]", (3, 4, 3))],
    ],
)
def test_3_3_3_built_in_functions(expression, value):
    assert shape(expression) == value


@pytest.mark.parametrize("expression", ["scalar('abc')", "scalar(extent('1.5'))", "scalar(extent(''))"])
def test_3_3_3_a_string_that_is_no_literal_is_not_cast(expression):
    text = provisional("y = f(x)", before=tensor_fragment(f"y = x * {expression}"))
    assert codes(findings(text)) == ["NNEF0505"]


SUM = (
    "fragment total( items: scalar[] ) -> ( sum: scalar )\n{\n"
    "    sum = items[0] + total(items[1:]) if length_of(items) > 0 else 0.0\n}\n"
)


def test_3_3_3_only_the_chosen_branch_is_evaluated():
    before = SUM + tensor_fragment("y = leaky_relu(x, alpha = total(items = [0.5, 1.5, 2.0]))")
    text = provisional("y = f(x)", before=before)
    # 3.3.1 has attributes by name only; the example of 3.3.3 passes one by position.
    assert [(each.code, each.is_error) for each in findings(text)] == [("NNEF0347", False)]
    assert evaluated(text).operations[-1].attributes["alpha"] == 4.0


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[i + 1 for i in [1,2,3]]", (2, 3, 4)),
        ("[[1,2,3][i] * [4,5,6][i] for i in range_of([1,2,3])]", (4, 10, 18)),
        ("[i for i in [1,2,3] if i != 2]", (1, 3)),
    ],
)
def test_3_3_3_comprehensions(expression, value):
    assert shape(expression) == value


def test_3_3_3_chained_calls_are_calls_one_after_the_other():
    before = tensor_fragment("y = add(relu(x), tanh(x))", name="f") + tensor_fragment(
        "t = relu(x)", "y = add(t, tanh(x))", name="g"
    )
    chained, apart = (operations(evaluated(provisional(f"y = {name}(x)", before=before))) for name in "fg")
    assert chained == apart == ["external", "relu", "tanh", "add"]


def test_3_3_3_several_results_feed_a_tuple():
    before = "fragment g( t: (tensor, tensor) ) -> ( y: tensor )\n{\n    a, b = t\n    y = a - b\n}\n"
    before += tensor_fragment("y = g(moments(x, axes = [0]))")
    assert operations(evaluated(provisional("y = f(x)", before=before))) == ["external", "moments", "sub"]


@pytest.mark.parametrize("items", ["1, 'a'", "1, 0.5", "1, [2]"])
def test_3_3_3_items_of_an_array_have_one_type(items):
    before = tensor_fragment(f"a = [{items}]", Y)
    assert codes(checked(provisional(Y, before=before)).diagnostics) == ["NNEF0403"]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        pytest.param("[1,2][0.0]", "NNEF0406", id="an index that is a scalar"),
        pytest.param("[1,2]['a':]", "NNEF0406", id="a range that begins at a string"),
        pytest.param("3[0]", "NNEF0406", id="an item of a number"),
        pytest.param("length_of(3)", "NNEF0409", id="the length of a number"),
        pytest.param("range_of(3)", "NNEF0409", id="the range of a number"),
        pytest.param("extent([1])", "NNEF0409", id="a cast of an array"),
        pytest.param("1 if 2 else 3", "NNEF0408", id="a condition that is not logical"),
        pytest.param("1 if true else 'a'", "NNEF0404", id="branches of two types"),
        pytest.param("[i for i in [1,2] if i]", "NNEF0408", id="a filter that is not logical"),
        pytest.param("[i for i in 3]", "NNEF0412", id="a loop through a number"),
    ],
)
def test_3_3_3_expressions_of_other_types_are_invalid(expression, code):
    before = tensor_fragment(f"a = {expression}", Y)
    assert codes(checked(provisional(Y, before=before)).diagnostics) == [code]


def test_3_3_3_comparisons_compare_values_of_one_type():
    assert shape("[1 if 'a' != 'b' && true == true && 0.5 >= 0.5 && 2 > 1 else 2]") == (1,)


@pytest.mark.parametrize(("given", "found"), [("[7]", (7, 1)), ("[7,2]", (7, 2)), ("[7,2,3]", (7, 2, 3))])
def test_3_3_3_a_shape_has_two_extents_at_least(given, found):
    before = tensor_fragment("y = reshape(x, shape = shape_of(x))")
    assert attributes(evaluated(provisional("y = f(x)", before=before, shape=given)))["shape"] == found


def test_3_3_3_scalars_are_truncated_downwards():
    assert shape("[extent(-1.5) + 3]") == (1,)


def test_3_3_3_operators_are_chained_by_precedence():
    before = tensor_fragment("y = b + c * d", parameters="b: tensor, c: tensor, d: tensor")
    assert operations(evaluated(provisional("y = f(x, x, x)", before=before))) == ["external", "mul", "add"]


def test_3_3_3_of_several_results_one_is_chosen_by_its_subscript():
    chosen = tensor_fragment("y = relu(moments(x, axes = [0])[1])")
    expansion = evaluated(provisional("y = f(x)", before=chosen))
    assert operations(expansion) == ["external", "moments", "relu"]
    (operand,) = expansion.operations[-1].inputs()
    assert operand is [*expansion.operations[1].outputs()][1]
    whole = tensor_fragment("y = relu(moments(x, axes = [0]))")
    assert codes(checked(provisional("y = f(x)", before=whole)).diagnostics) == ["NNEF0401"]


# ── 3.3.4 propagation of shapes ──

LINEAR = "y = linear(x, variable(shape = [5, shape_of(x)[1]], label = 'w'))"


def test_3_3_4_extents_may_stay_open():
    expansion = evaluated(provisional("y = f(x)", before=tensor_fragment("y = relu(x)"), shape="[0, 10]"))
    assert expansion.diagnostics == []
    assert attributes(expansion, 0)["shape"] == (Symbol("x_0", 1), 10)


def test_3_3_4_shapes_of_variables_must_not_depend_on_them():
    assert codes(findings(provisional("y = f(x)", before=tensor_fragment(LINEAR), shape="[10, 0]"))) == ["NNEF0513"]
    assert codes(findings(provisional("y = f(x)", before=tensor_fragment(LINEAR), shape="[0, 10]"))) == []


def test_3_3_4_extents_given_later_count_as_if_they_were_written():
    before = tensor_fragment("y = reshape(x, shape = [shape_of(x)[0] * 10])")
    later = evaluated(provisional("y = f(x)", before=before, shape="[0, 10]"), {"x": [4, 10]})
    at_once = evaluated(provisional("y = f(x)", before=before, shape="[4, 10]"))
    assert attributes(later) == attributes(at_once)
    assert attributes(later)["shape"] == (40,)


# ── 3.3.5 names of tensors ──


def test_3_3_5_variables_have_a_label_and_a_name():
    expansion = evaluated(
        provisional("variable42 = variable(shape = [1], label = 'block1/conv1/weights')", "y = add(x, variable42)")
    )
    (variable,) = [each for each in expansion.operations if each.name == "variable"]
    assert [*variable.outputs()] == [expansion.tensors["variable42"]]
    assert variable.attributes["label"] == "block1/conv1/weights"


def test_3_3_5_only_one_shape_goes_with_a_shared_label():
    shared = ["a = variable(shape = [1], label = 'w')", "b = variable(shape = [{}], label = 'w')", "y = add(a, b)"]
    assert codes(findings(provisional(*[line.format(1) for line in shared]))) == []
    assert codes(findings(provisional(*[line.format(2) for line in shared]))) == ["NNEF0343"]


def test_3_3_5_every_activation_has_a_name_of_its_own():
    expansion = evaluated(provisional("a = relu(x)", "y = relu(a)"))
    assert {name: tensor.name for name, tensor in expansion.tensors.items()} == {"x": "x", "a": "a", "y": "y"}
