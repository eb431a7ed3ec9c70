"""Compile-time evaluation: values, fragments, names, origins and limits."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.dims import Symbol, symbols
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.limits import Limits
from graphport.formats.nnef.container.operation import Tensor
from graphport.formats.nnef.container.syntax import Edition
from tests import deep
from tests.draws import spread, times
from tests.every import every
from tests.formats.nnef.documents import (
    BOTH,
    OPERATORS,
    attributes,
    checked,
    codes,
    evaluated,
    final,
    fragment,
    line,
    operations,
    probed,
    provisional,
    remedy,
)


def items(expression: str, **parts):
    """The value of an array of integers as expansion computes it."""
    expansion = evaluated(probed(expression, **parts))
    assert expansion.diagnostics == []
    return list(attributes(expansion)["values"])


def faults(text: str, shapes=None, *, limits=None, edition=None) -> list[str]:
    return codes(evaluated(text, shapes, limits=limits or Limits(), edition=edition).diagnostics)


# ── values ──


@every(
    ("expression", "value"),
    [
        pytest.param("[-2 + 8, 2]", [6, 2], id="a minus applies to its operand only"),
        pytest.param("[-2 * -3, 2]", [6, 2], id="also before times"),
        pytest.param("[2 ^ 3, (2 + 3) * 4]", [8, 20], id="power and parentheses"),
        pytest.param("[7 / 2, -7 / 2]", [3, -3], id="integer division"),
        pytest.param("[] + [2, 3] + [5] * 0", [2, 3], id="empty arrays"),
        pytest.param("[2, 3] * 2", [2, 3, 2, 3], id="repetition"),
        pytest.param("[1, 2, 3, 4][1:3]", [2, 3], id="a range"),
        pytest.param("[1, 2, 3][1:] + [1, 2, 3][:1]", [2, 3, 1], id="open ranges"),
        pytest.param("[1, 2, 3][2:1] + [9]", [9], id="a range from end to start"),
        pytest.param("[length_of([7, 8]), length_of('abc')]", [2, 3], id="lengths"),
        pytest.param("[3] + range_of('abcd')[1:]", [3, 1, 2, 3], id="a range of positions"),
        pytest.param("[integer('12'), integer(2.7), integer(true)]", [12, 2, 1], id="casts"),
        pytest.param("[integer('1234'[1:3])]", [23], id="a part of a string"),
        pytest.param("[length_of(string(3) + 'ab' * 2)]", [5], id="strings"),
        pytest.param("[1 if true else 2, 1 if 2 < 1 else 3 if false else 4]", [1, 4], id="selections"),
        pytest.param("[6 if (1, 2) in [(2, 1), (1, 2)] else 1]", [6], id="membership"),
        pytest.param("[for i in [1, 2, 3] yield i * i]", [1, 4, 9], id="a comprehension"),
        pytest.param("[for i in [1, 2, 3, 4] if i > 1 && i < 4 yield i]", [2, 3], id="a condition"),
        pytest.param("[for i in [1, 2], j in [10, 20] yield i + j]", [11, 22], id="parallel iterators"),
        pytest.param("[for i in [[1, 2], [3]] yield length_of(i)]", [2, 1], id="items that are arrays"),
        pytest.param(
            "[for i in [2, 3] yield [for i in [10] yield i][0] + i]", [12, 13], id="an inner iterator of one name"
        ),
        pytest.param("[(4, 5.0)[0], [(1, 2), (3, 4)][1][0]]", [4, 3], id="tuples"),
        pytest.param(
            "[length_of([for i in [1] if i == 2 && 1 / 0 == 1 yield i])]", [0], id="and stops at the first false"
        ),
        pytest.param("[1 if true || 1 / 0 == 1 else 2]", [1], id="or stops at the first true"),
    ],
)
def test_expressions_are_evaluated(expression, value):
    assert items(expression) == value


def test_only_the_chosen_branch_is_evaluated():
    parameters, call = "s: integer[], n: integer", "y = f(x, s = [], n = 0);"
    chosen = "[s[0] if length_of(s) > 0 else 6, 1 / n if n != 0 else 2]"
    assert items(chosen, parameters=parameters, call=call) == [6, 2]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        pytest.param("[1 / 0]", "NNEF0501", id="division by zero"),
        pytest.param("[9223372036854775807 + 1]", "NNEF0502", id="beyond 64 bits"),
        pytest.param("[[1, 2][2]]", "NNEF0503", id="an index beyond the length"),
        pytest.param("[length_of('abc'[5])]", "NNEF0503", id="of a string"),
        pytest.param("[1, 2][0:3]", "NNEF0504", id="a range beyond the length"),
        pytest.param("[integer('a')]", "NNEF0505", id="a string that is no literal"),
        pytest.param("[integer('-3')]", "NNEF0505", id="a literal has no sign"),
        pytest.param("[1] * -1", "NNEF0509", id="less often than never"),
        pytest.param("[1] * 2000000000", "NNEF0510", id="an array of two milliards"),
        pytest.param("[length_of('ab' * 2000000000)]", "NNEF0510", id="a string of four"),
        pytest.param("[2 ^ -1]", "NNEF0511", id="an integer to a negative power"),
        pytest.param("[integer(1.0 / 0.0)]", "NNEF0501", id="a scalar by zero"),
        pytest.param("[for i in [1, 2], j in [1] yield i]", "NNEF0520", id="iterators of two lengths"),
    ],
)
def test_an_expression_without_a_value_is_a_finding(expression, code):
    assert faults(probed(expression)) == [code]


def test_a_cast_that_others_round_differently_is_a_warning():
    (finding,) = evaluated(probed("[integer(-1.5) + 5]")).diagnostics
    assert (finding.code, finding.is_error) == ("NNEF0519", False)
    assert evaluated(probed("[integer(-2.0) + 5]")).diagnostics == []


def test_every_faulty_statement_is_a_finding_and_its_uses_are_not():
    text = final(
        "a = reshape(x, shape = [1 / 0]);",
        "b = relu(a);",
        "c = reshape(x, shape = [[1][7]]);",
        "y = add(b, c);",
        before=OPERATORS,
    )
    assert faults(text) == ["NNEF0501", "NNEF0503"]


# ── fragments ──


def test_fragments_become_the_operations_of_their_bodies():
    text = final(
        "m, d = stats(x, axes = [1]);",
        "y = relu(d);",
        before=fragment(
            "m = mean_reduce(x, axes = axes); d = x - m;",
            name="stats",
            parameters="x: tensor<scalar>, axes: integer[]",
            results="m: tensor<scalar>, d: tensor<scalar>",
        ),
    )
    expansion = evaluated(text)
    assert operations(expansion) == ["external", "mean_reduce", "sub", "relu"]
    assert [tensor.name for each in expansion.operations for tensor in each.outputs()] == ["x", "m", "d", "y"]


def test_recursion_ends_by_a_selection():
    text = fragment(
        "y = f(x, s = s[1:], acc = acc + s[0]) if length_of(s) > 0 else reshape(x, shape = [acc]);",
        parameters="x: tensor<scalar>, s: integer[], acc: integer = 0",
    )
    assert evaluated(final("y = f(x, s = [2, 3, 4]);", before=text)).operations[-1].attributes["shape"] == (9,)


def test_recursion_may_return_an_array_of_tensors():
    text = fragment(
        "h = relu(x); y = [h] + chain(h, n = n - 1) if n > 1 else [h];",
        name="chain",
        parameters="x: tensor<scalar>, n: integer",
        results="y: tensor<scalar>[]",
    )
    expansion = evaluated(final("[a, b, c] = chain(x, n = 3);", "y = concat([a, b, c], axis = 0);", before=text))
    assert operations(expansion) == ["external", "relu", "relu", "relu", "concat"]
    assert {"a", "b", "c"} < {*expansion.tensors}


def test_defaults_are_filled_in():
    expansion = evaluated(final("w = variable(shape = [4, 3, 3, 3], label = 'w');", "y = conv(x, w);"))
    conv = expansion.operations[-1]
    assert conv.attributes == {"border": "constant", "padding": (), "stride": (), "dilation": (), "groups": 1}
    bias = conv.operands["bias"]
    assert isinstance(bias, Tensor)
    assert (bias.literal, bias.data, bias.name) == (0.0, "scalar", "")
    assert [*conv.operands] == ["input", "filter", "bias"]
    assert conv.argument_of("filter") is not None
    assert conv.argument_of("bias") is None


def test_a_fragments_own_defaults_are_filled_in():
    text = fragment("y = reshape(x, shape = s);", parameters="x: tensor<scalar>, s: integer[] = [2, 6]")
    assert evaluated(final("y = f(x);", before=text)).operations[-1].attributes["shape"] == (2, 6)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        *[("x + x", ["add"]), ("x - 1.0", ["sub"]), ("2.0 * x", ["mul"]), ("x / x", ["div"]), ("x ^ 2.0", ["pow"])],
        *[
            ("-x", ["neg"]),
            ("+x", ["copy"]),
            ("select(x < x, x, x)", ["lt", "select"]),
            ("select(!(x >= x), x, x)", ["ge", "not", "select"]),
        ],
        *[("select(x == x && x != x, x, x)", ["eq", "ne", "and", "select"]), ("x * (2.0 * 3.0 + 1.0)", ["mul"])],
        *[("select(x <= x || x > x, x, x)", ["le", "gt", "or", "select"]), ("relu(relu(x))", ["relu", "relu"])],
    ],
)
def test_operators_on_tensors_become_operations(expression, expected):
    assert operations(evaluated(final("y = f(x);", before=fragment(f"y = {expression};")))) == ["external", *expected]


def test_constants_are_evaluated_and_passed_as_literals():
    multiplied = evaluated(final("y = x * (2.0 * 3.0 + 1.0);", before=OPERATORS)).operations[-1]
    (_, literal) = multiplied.inputs()
    assert (literal.literal, literal.data) == (7.0, "scalar")


def test_a_tensor_parameter_that_is_given_a_number_stays_a_tensor():
    text = fragment("y = x * s + s * s;", parameters="x: tensor<scalar>, s: tensor<scalar>")
    assert operations(evaluated(final("y = f(x, 2.0);", before=text))) == ["external", "mul", "mul", "add"]


def test_plain_assignments_copy():
    assert operations(evaluated(final("a = x;", "y = a;", before=OPERATORS))) == ["external", "copy", "copy"]
    assert operations(evaluated(final("y = f(x);", before=fragment("y = x;")))) == ["external", "copy"]
    text = provisional("y = f(x)", before="fragment f( x: tensor ) -> ( y: tensor ) { y = x }\n")
    assert operations(evaluated(text)) == ["external", "idn"]


def test_a_result_that_is_a_number_becomes_a_constant():
    expansion = evaluated(final("a = f(x);", "y = add(a, x);", before=fragment("y = 1.5;")))
    assert operations(expansion) == ["external", "constant", "add"]
    assert expansion.operations[1].attributes == {"shape": (), "value": (1.5,)}
    text = provisional("a = f(x)", "y = add(a, x)", before="fragment f( x: tensor ) -> ( y: tensor ) { y = 1.5 }\n")
    assert evaluated(text).operations[1].attributes == {"shape": (1,), "value": (1.5,)}


def test_fragments_without_a_body_stay_whole():
    text = f"{BOTH}fragment f( x: tensor<scalar>, n: integer = 3 ) -> ( y: tensor<scalar>, z: tensor<scalar>[] );\n"
    expansion = evaluated(final("y, [a, b] = f(x);", before=text))
    last = expansion.operations[-1]
    assert (last.name, last.attributes) == ("f", {"n": 3})
    assert [tensor.name for tensor in last.outputs()] == ["y", "a", "b"]


def test_an_array_result_of_unknown_length_must_be_unpacked():
    text = f"{BOTH}fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar>[] );\n"
    assert faults(final("y = concat(f(x), axis = 0);", before=text)) == ["NNEF0514"]


@pytest.mark.parametrize(
    ("call", "count"),
    [("split(x, axis = 1, ratios = [1, 1, 1])", 3), ("copy_n(x, times = 2)", 2), ("unstack(x, axis = 1)", 3)],
)
def test_array_results_have_the_length_that_follows_from_their_arguments(call, count):
    names = ", ".join("abc"[:count])
    assert len([*evaluated(final(f"[{names}] = {call};", f"y = add_n([{names}]);")).operations[1].outputs()]) == count
    assert faults(final(f"[{names}, d] = {call};", "y = relu(x);")) == ["NNEF0515"]


def test_generic_fragments_know_their_type():
    before = fragment(
        "y = cast<?>(z);", name="f<?>", parameters="x: tensor<?>, z: tensor<scalar>", results="y: tensor<?>"
    )
    text = final(
        "i = argmax_reduce(x, axes = [1]);",
        "j = f(i, x);",
        "k = f<logical>(lt(x, x), x);",
        "y = relu(x);",
        before=before,
    )
    expansion = evaluated(text)
    assert [expansion.tensors[name].data for name in ("i", "j", "k")] == ["integer", "integer", "logical"]
    assert [each.generic for each in expansion.operations if each.name == "cast"] == ["integer", "logical"]


def test_operations_of_vendors_are_taken_as_they_are():
    text = final(
        "a = tract_core_cast(x, to = 'f32', at = [1, 2]);",
        "b, [c] = tract_x(a);",
        "y = relu(a);",
        before="extension tract_core;\n",
    )
    first, second = evaluated(text).operations[1:3]
    assert (first.declaration, [each.name for each in first.inputs()]) == (None, ["x"])
    assert first.attributes == {"to": "f32", "at": (1, 2)}
    assert [tensor.name for tensor in second.outputs()] == ["b", "c"]


# ── names and origins ──


def test_names_of_inlined_values_are_unique_and_say_where_they_are_from():
    text = final("a = f(x);", "f_t = f(a);", "y = add(a, f_t);", before=fragment("t = relu(x); y = relu(t + 1.0);"))
    names = [tensor.name for each in evaluated(text).operations for tensor in each.outputs()]
    assert names == ["x", "a_t", "a_add", "a", "f_t_t", "f_t_add", "f_t", "y"]
    assert names == [tensor.name for each in evaluated(text).operations for tensor in each.outputs()]


def test_names_stay_short_in_deep_recursion():
    text = fragment("t = relu(x); y = f(t, n = n - 1) if n > 0 else t;", parameters="x: tensor<scalar>, n: integer")
    expansion = evaluated(final(f"{'long' * 1000} = f(x, n = 50);", "y = f(x, n = 50);", before=text))
    names = [tensor.name for each in expansion.operations for tensor in each.outputs()]
    assert len(set(names)) == len(names)
    assert max(len(name) for name in names if name != "long" * 1000) < 100


def test_every_operation_knows_the_calls_that_led_to_it():
    before = fragment("y = relu(x);", name="inner") + fragment("y = inner(x);", name="outer", extensions="")
    operation = evaluated(final("y = outer(x);", before=before)).operations[-1]
    assert [span.line for span in operation.origin.spans()] == [6, 10, 15]
    assert (
        operation.origin.route() == "in fragment 'inner', called from line 10, in fragment 'outer', called from line 15"
    )


def test_findings_in_fragments_name_the_calls():
    before = fragment("y = reshape(x, shape = [s[0] / s[1]]);", parameters="x: tensor<scalar>, s: integer[]")
    expansion = evaluated(
        final("a = f(x, s = [6, 0]);", "b = f(x, s = [6]);", "c = f(x, s = [4, 0]);", "y = relu(x);", before=before)
    )
    assert [(each.code, line(each)) for each in expansion.diagnostics] == [("NNEF0501", 6), ("NNEF0503", 6)]
    assert remedy(expansion.diagnostics[0]).endswith("in fragment 'f', called from line 11")


def test_an_argument_has_a_place():
    operation = evaluated(final("y = softmax(x, axes = [1]);")).operations[-1]
    assert (operation.span_of("axes").column, operation.span_of("x").column, operation.span_of("nothing").column) == (
        27,
        17,
        9,
    )


# ── shapes ──


def test_shape_of_asks_for_the_shape():
    expansion = evaluated(
        final("y = f(x);", before=fragment("y = reshape(x, shape = shape_of(relu(x)));"), shape="[5, 7]")
    )
    assert expansion.operations[-1].attributes["shape"] == (5, 7)


@pytest.mark.parametrize(
    ("shape", "expected"), [("[6]", (6, 1)), ("[6, 2]", (6, 2)), ("[6, 2, 3]", (6, 2, 3))], ids=["one", "two", "three"]
)
def test_a_provisional_shape_has_two_extents_at_least(shape, expected):
    text = provisional(
        "y = f(x)",
        before="fragment f( x: tensor ) -> ( y: tensor ) { y = reshape(x, shape = shape_of(x)) }\n",
        shape=shape,
    )
    assert evaluated(text).operations[-1].attributes["shape"] == expected


@pytest.mark.parametrize("edition", [*Edition])
def test_the_shape_of_a_number(edition):
    build = final if edition is Edition.FINAL else provisional
    end = ";" if edition is Edition.FINAL else ""
    kind, extensions = ("tensor<scalar>", BOTH) if edition is Edition.FINAL else ("tensor", "")
    before = (
        f"{extensions}fragment f( x: {kind} ) -> ( y: {kind} ) {{ y = reshape(x, shape = shape_of(1.0) + [7]){end} }}\n"
    )
    shape = evaluated(build(f"y = f(x){end}", before=before)).operations[-1].attributes["shape"]
    assert shape == ((7,) if edition is Edition.FINAL else (1, 1, 7))


def test_a_shape_that_is_unknown_is_a_finding():
    before = fragment("y = reshape(x, shape = shape_of(cast<scalar>(x)));")
    assert "NNEF0516" in faults(final("y = f(x);", before=before))


def test_what_a_page_refuses_is_a_finding_and_what_depends_on_it_is_not():
    text = final(
        "a = softplus(x);", "b = relu(a);", "y = f(b);", before=fragment("y = reshape(x, shape = shape_of(x));")
    )
    assert codes(each for each in evaluated(text).diagnostics if each.is_error) == ["SHAPE0001"]


def test_without_inference_the_document_states_what_it_can():
    text = final("y = f(x);", before=fragment("y = reshape(x, shape = shape_of(x));"))
    assert evaluated(text, infers=False).operations[-1].attributes["shape"] == (1, 3, 8, 8)


# ── extents left open ──

OPEN = "fragment f( x: tensor ) -> ( y: tensor ) {{ y = {} }}\n"


def opened(expression: str, shapes=None):
    return evaluated(provisional("y = f(x)", before=OPEN.format(expression), shape="[0, 3]"), shapes)


def test_an_extent_of_zero_becomes_a_symbol():
    expansion = opened("reshape(x, shape = [shape_of(x)[0] * 3 + 1, 1])")
    assert expansion.diagnostics == []
    assert expansion.operations[0].attributes["shape"] == (Symbol("x_0", 1), 3)
    assert expansion.operations[-1].attributes["shape"] == (Symbol("x_0", 1) * 3 + 1, 1)


def test_shapes_bind_dynamic_dims_before_anything_is_evaluated():
    expansion = opened("reshape(x, shape = [shape_of(x)[0] * 3, 1] if shape_of(x)[0] > 3 else [1])", {"x": (5, 3)})
    assert expansion.operations[-1].attributes["shape"] == (15, 1)
    symbol = Symbol("batch", 1)
    assert opened("reshape(x, shape = shape_of(x))", {"x": (symbol, 3)}).operations[-1].attributes["shape"] == (
        symbol,
        3,
    )


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("relu(x) if shape_of(x)[0] > 3 else x", id="a branch"),
        pytest.param("reshape(x, shape = [1] * shape_of(x)[0])", id="the length of an array"),
        pytest.param("softmax(x, axes = [shape_of(x)[0]])", id="an argument that must be a number"),
        pytest.param("leaky_relu(x, alpha = scalar(shape_of(x)[0]))", id="a scalar"),
        pytest.param("reshape(x, shape = [[1, 2][shape_of(x)[0]]])", id="an index"),
    ],
)
def test_where_the_number_is_needed_the_finding_names_the_axis_to_bind(expression):
    (finding,) = opened(expression).diagnostics
    assert finding.code == "NNEF0512"
    assert "axis 0 of input 'x'" in finding.message
    assert remedy(finding).startswith("set the shape of x: --input x=")


def test_a_variable_does_not_depend_on_a_dynamic_dim():
    expression = "linear(x, variable(shape = [4, shape_of(x)[0]], label = 'w'))"
    assert codes(opened(expression).diagnostics) == ["NNEF0513"]
    assert opened(expression.replace("[0]], l", "[1]], l")).diagnostics == []


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        pytest.param({"x": (2, 4)}, "axis 1 of input 'x' is 3", id="another extent than declared"),
        pytest.param({"x": (2,)}, "has rank 2", id="another rank"),
        pytest.param({"z": (2, 3)}, "is not an input", id="another input"),
    ],
)
def test_a_shape_that_does_not_go_with_its_input_is_a_finding(shapes, reason):
    (finding,) = opened("relu(x)", shapes).diagnostics
    assert finding.code == "NNEF0517"
    assert reason in finding.message


def test_shapes_given_for_final_inputs_must_agree():
    assert faults(final("y = relu(x);", shape="[2, 3]"), {"x": (2, 3)}) == []
    assert faults(final("y = relu(x);", shape="[2, 3]"), {"x": (4, 3)}) == ["NNEF0517"]


def test_symbols_of_an_extension_are_dynamic_dims():
    text = (
        "version 1.0;\nextension tract_symbol S;\ngraph g( x ) -> ( y )\n{ x = external(shape = [S, 3]); y = relu(x); }"
    )
    (symbol, _) = attributes(evaluated(text), 0)["shape"]
    assert set(symbols(symbol)) == {"S"}


# ── variables ──


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        pytest.param(["v = variable(shape = [1], label = '');"], "NNEF0340", id="an empty label"),
        pytest.param(["v = variable(shape = [1], label = 'a b');"], "NNEF0341", id="a label with a space"),
        pytest.param(["v = variable(shape = [1], label = 'a:b');"], "NNEF0341", id="a label with a colon"),
        pytest.param(
            ["v = variable(shape = [1], label = 'w');", "w = variable(shape = [1], label = 'W');"],
            "NNEF0342",
            id="labels that differ in case",
        ),
        pytest.param(
            ["v = variable(shape = [1], label = 'w');", "w = variable(shape = [2], label = 'w');"],
            "NNEF0343",
            id="a shared label of two shapes",
        ),
        pytest.param(
            ["v = variable(shape = [1], label = 'w');", "w = variable<integer>(shape = [1], label = 'w');"],
            "NNEF0343",
            id="a shared label of two types",
        ),
        pytest.param(
            ["v = variable(shape = [1], label = 'w');", "w = variable(shape = [1], label = 'w');"],
            None,
            id="a shared label",
        ),
        pytest.param([r"v = variable(shape = [1], label = 'a/b-c_d.e\\f');"], None, id="all that a label may hold"),
    ],
)
def test_labels(statements, code):
    assert faults(final(*statements, "y = relu(x);")) == ([] if code is None else [code])


def test_provisional_labels_hold_anything():
    assert faults(provisional("v = variable(shape = [1], label = 'a\\'b ?*')", "y = add(x, v)")) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param("y = update(x, x)", "NNEF0311", id="no variable"),
        pytest.param(
            "v = variable(shape = [1], label = 'v'); a = update(v, x); y = update(v, a)", "NNEF0312", id="twice"
        ),
        pytest.param("v = variable(shape = [1], label = 'v'); y = update(v, x)", None, id="once"),
    ],
)
def test_updates_in_provisional_fragments(body, code):
    text = provisional("y = f(x)", before=f"fragment f( x: tensor ) -> ( y: tensor ) {{ {body} }}\n", shape="[1]")
    assert faults(text) == ([] if code is None else [code])


def test_a_fragment_that_is_called_twice_updates_two_variables():
    body = "v = variable(shape = [1], label = l); y = update(v, x)"
    before = f"fragment f( x: tensor, l: string ) -> ( y: tensor ) {{ {body} }}\n"
    assert faults(provisional("a = f(x, l = 'a')", "y = f(a, l = 'b')", before=before, shape="[1]")) == []


def test_data_types_of_provisional_fragments_are_checked_where_they_are_known():
    before = OPEN.format("x + x")
    assert faults(provisional("c = lt(x, 0.0)", "y = f(c)", before=before)) == ["NNEF0401"]
    assert faults(provisional("y = f(x)", before=before)) == []


# ── limits ──

BOMB = fragment("y = relu(x);", name="f0") + "".join(
    fragment(f"y = f{level}(f{level}(x));", name=f"f{level + 1}", extensions="") for level in range(28)
)


def doubling(end):
    body = f"y = f(f(x, n = n - 1), n = n - 1) if n > 0 else {end};"
    return fragment(body, parameters="x: tensor<scalar>, n: integer")


@pytest.mark.parametrize(
    ("text", "code"),
    spread(
        [
            pytest.param(final("y = f(x);", before=fragment("y = f(x);")), "NNEF0506", id="a recursion without end"),
            pytest.param(
                final("y = f(x);", before=fragment("y = f(relu(x));")), "NNEF0506", id="that makes operations"
            ),
            pytest.param(final("y = f28(x);", before=BOMB), "NNEF0507", id="fragments that double"),
            pytest.param(
                final("y = f(x, n = 28);", before=doubling("relu(x)")), "NNEF0508", id="a recursion that doubles"
            ),
            pytest.param(final("y = f(x, n = 28);", before=doubling("x")), "NNEF0508", id="that makes nothing"),
            pytest.param(probed("[for i in [1] * 1000000 yield i]"), "NNEF0508", id="a long comprehension"),
            pytest.param(
                probed("[for i in [1] * 1000 yield length_of([1] * 100000)]"), "NNEF0510", id="many long arrays"
            ),
        ]
    ),
)
def test_hostile_documents_stop_at_a_limit_and_soon(text, code):
    begin = time.process_time()
    assert faults(text) == [code]
    assert time.process_time() - begin < 10  # about one on an idle machine


def test_limits_are_settings():
    text = final("y = f(x, n = 5);", before=doubling("relu(x)"))
    assert faults(text) == []
    assert faults(text, limits=Limits(depth=4)) == ["NNEF0506"]
    long = final(
        "y = f(x, n = 30);",
        before=fragment("y = f(relu(x), n = n - 1) if n > 0 else x;", parameters="x: tensor<scalar>, n: integer"),
    )
    assert faults(long, limits=Limits(operations=-len(long) + 30)) == ["NNEF0507"]
    assert faults(long, limits=Limits(steps=-10 * len(long) + 30)) == ["NNEF0508"]
    assert faults(probed("[1] * 100"), limits=Limits(items=50)) == ["NNEF0510"]


def test_large_valid_files_are_accepted():
    levels, links = deep.LEVELS, 3 * deep.LEVELS
    assert len(evaluated(final("y = " + "x" + " + x" * links + ";", before=OPERATORS)).operations) == links + 1
    assert items("[" + "1 + " * links + "1]") == [links + 1]
    nested = final("y = " + "relu(" * levels + "x" + ")" * levels + ";", before=OPERATORS)
    assert len(evaluated(nested).operations) == levels + 1
    text = fragment("y = f(relu(x), n = n - 1) if n > 0 else x;", parameters="x: tensor<scalar>, n: integer")
    assert len(evaluated(final("y = f(x, n = 5000);", before=text)).operations) == 5_001


def test_only_a_document_with_a_graph_is_expanded():
    with pytest.raises(ValueError, match="graph"):
        expand(checked("version 1.0;\n"))


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=4), st.integers(1, 3))
@settings(max_examples=times(50))
def test_arrays_are_evaluated_as_python_evaluates_lists(numbers, times):
    literal = str(numbers)
    assert items(f"{literal} * {times} + [for i in {literal} if i > 0 yield i * i]") == numbers * times + [
        number * number for number in numbers if number > 0
    ]


def test_results_of_arrays_count_as_operations():
    text = final("y = f(x);", before=fragment("y = add_n(copy_n(x, times = 1000000));"))
    begin = time.process_time()
    assert faults(text) == ["NNEF0507"]
    assert time.process_time() - begin < 5
