"""Every rule of types, each with an expression that breaks it alone."""

from __future__ import annotations

import pytest

from graphport.formats.nnef.container.limits import Limits
from tests import deep
from tests.every import every
from tests.formats.nnef.documents import checked, codes, final, fragment, probed, provisional, read

PARAMETERS = (
    "x: tensor<scalar>, l: tensor<logical>, i: tensor<integer>, xs: tensor<scalar>[] = [1.0], n: integer = 1, "
    "a: scalar = 1.0, s: string = 'a', c: logical = true, ns: integer[] = [1], ss: scalar[] = [1.0], "
    "t: (integer, scalar) = (1, 1.0)"
)


def body(statement: str) -> str:
    """A document whose fragment consists of `statement`, with a parameter of every kind."""
    return final("y = relu(x);", before=fragment(f"{statement} y = relu(x);", parameters=PARAMETERS))


def found(text: str) -> list[str]:
    assert read(text).diagnostics == []
    return codes(checked(text).diagnostics, warnings=False)


@every(
    ("expression", "code"),
    [
        pytest.param("leaky_relu(x, alpha = 2)", "NNEF0402", id="an integer literal for a scalar"),
        pytest.param("leaky_relu(x, alpha = -2)", "NNEF0402", id="a negative one"),
        pytest.param("constant(shape = [2], value = [1, 2])", "NNEF0402", id="an array of them"),
        pytest.param("leaky_relu(x, alpha = n)", "NNEF0401", id="an integer for a scalar"),
        pytest.param("add(x, 1)", "NNEF0401", id="an integer for a tensor of scalars"),
        pytest.param("add(x, l)", "NNEF0401", id="a tensor of logicals for one of scalars"),
        pytest.param("add(x, i)", "NNEF0401", id="a tensor of integers for one of scalars"),
        pytest.param("select(1.0, x, x)", "NNEF0401", id="a scalar for a condition"),
        pytest.param("add(x, [])", "NNEF0401", id="an empty array for a tensor"),
        pytest.param("add(x, xs)", "NNEF0401", id="an array for a tensor"),
        pytest.param("concat(x, axis = 0)", "NNEF0401", id="a tensor for an array"),
        pytest.param("softmax(x, axes = 1)", "NNEF0401", id="an integer for an array"),
        pytest.param("softmax(x, axes = [1.0])", "NNEF0401", id="scalars for integers"),
        pytest.param("concat([x], axis = '1')", "NNEF0401", id="a string for an integer"),
        pytest.param("leaky_relu(x, alpha = x)", "NNEF0401", id="a tensor for an attribute"),
        pytest.param("pad(x, padding = [(1, 2, 3)])", "NNEF0401", id="a tuple of the wrong length"),
        pytest.param("[1, 2.0]", "NNEF0403", id="items of two types"),
        pytest.param("[x, 'a']", "NNEF0403", id="a tensor and a string"),
        pytest.param("[[1], 2]", "NNEF0403", id="an array and an integer"),
        pytest.param("1 if c else 'a'", "NNEF0404", id="branches of two types"),
        pytest.param("x if c else l", "NNEF0404", id="branches of two tensors"),
        pytest.param("1 + 2.0", "NNEF0405", id="integer and scalar"),
        pytest.param("n * a", "NNEF0405", id="integer and scalar by name"),
        pytest.param("'a' - 'b'", "NNEF0405", id="minus on strings"),
        pytest.param("'a' + 1", "NNEF0405", id="a string and a number"),
        pytest.param("ns - ns", "NNEF0405", id="minus on arrays"),
        pytest.param("ns + 1", "NNEF0405", id="an array and an item"),
        pytest.param("ns + ss", "NNEF0405", id="arrays of two types"),
        pytest.param("ns * 1.5", "NNEF0405", id="an array a scalar times"),
        pytest.param("2 * ns", "NNEF0405", id="a number an array times"),
        pytest.param("1 == '1'", "NNEF0405", id="a number equal to a string"),
        pytest.param("ns == ns", "NNEF0405", id="arrays equal"),
        pytest.param("'a' < 'b'", "NNEF0405", id="an order of strings"),
        pytest.param("true < false", "NNEF0405", id="an order of logicals"),
        pytest.param("1 && 2", "NNEF0405", id="and of numbers"),
        pytest.param("!n", "NNEF0405", id="not of a number"),
        pytest.param("-s", "NNEF0405", id="minus of a string"),
        pytest.param("-c", "NNEF0405", id="minus of a logical"),
        pytest.param("x + ns", "NNEF0405", id="a tensor and an array"),
        pytest.param("x && x", "NNEF0401", id="and of tensors of scalars"),
        pytest.param("x + 1", "NNEF0401", id="a tensor and an integer"),
        pytest.param("!x", "NNEF0401", id="not of a tensor of scalars"),
        pytest.param("-l", "NNEF0401", id="minus of a tensor of logicals"),
        pytest.param("n[0]", "NNEF0406", id="a subscript of a number"),
        pytest.param("x[0]", "NNEF0406", id="a subscript of a tensor"),
        pytest.param("x[0:1]", "NNEF0406", id="a range of a tensor"),
        pytest.param("ns[1.0]", "NNEF0406", id="a subscript that is a scalar"),
        pytest.param("ns['a':]", "NNEF0406", id="a range that begins with a string"),
        pytest.param("t[n]", "NNEF0407", id="a subscript of a tuple that is computed"),
        pytest.param("t[2]", "NNEF0407", id="a subscript beyond a tuple"),
        pytest.param("t[-1]", "NNEF0407", id="a negative subscript of a tuple"),
        pytest.param("t[0:1]", "NNEF0407", id="a range of a tuple"),
        pytest.param("1 if n else 2", "NNEF0408", id="a condition that is a number"),
        pytest.param("x if l else x", "NNEF0408", id="a condition that is a tensor"),
        pytest.param("[for k in ns if k yield k]", "NNEF0408", id="a condition of a comprehension"),
        pytest.param("range_of(3)", "NNEF0409", id="the range of a number"),
        pytest.param("length_of(x)", "NNEF0409", id="the length of a tensor"),
        pytest.param("shape_of(ns)", "NNEF0409", id="the shape of an array"),
        pytest.param("integer(x)", "NNEF0409", id="a cast of a tensor"),
        pytest.param("string(ns)", "NNEF0409", id="a cast of an array"),
        pytest.param("[for k in n yield k]", "NNEF0412", id="a comprehension through a number"),
        pytest.param("[for k in s yield k]", "NNEF0412", id="a comprehension through a string"),
        pytest.param("relu(moments(x, axes = [0]))", "NNEF0413", id="two results for one operand"),
        pytest.param("moments(x, axes = [0])[0]", "NNEF0413", id="two results under a subscript"),
        pytest.param("1 in 2", "NNEF0414", id="in a number"),
        pytest.param("1 in ss", "NNEF0414", id="a number in an array of another type"),
        pytest.param("x in xs", "NNEF0414", id="in an array of tensors"),
        pytest.param("[" * 70 + "1" + "]" * 70, "NNEF0415", id="arrays nested too deep"),
    ],
)
def test_a_rule_that_is_broken_is_the_only_finding(expression, code):
    assert found(body(f"r = {expression};")) == [code]


@every(
    "expression",
    [
        *(
            "1 + 2",
            "1.0 + 2.0",
            "n ^ n",
            "a / 2.0",
            "-n",
            "+a",
            "- - n",
            "'a' + s",
            "s * 3",
            "ns + [1]",
            "ns + []",
            "[] + ns",
        ),
        *(
            "ns * 2",
            "1 < n",
            "a >= 1.0",
            "1 == n",
            "s != 'a'",
            "c == true",
            "!c && true || c",
            "n in ns",
            "(1, 2.0) in [t]",
        ),
        *("x + x", "x + 1.0", "1.0 - x", "x ^ 2.0", "-x", "+x", "+l", "+i", "x < 0.0", "l && true", "!l", "x == x"),
        *(
            "[x, 1.0]",
            "[1.0, x]",
            "xs + [x]",
            "xs[0] + x",
            "ns[0]",
            "ns[n:]",
            "ns[:]",
            "s[0]",
            "s[1:2]",
            "t[0] + 1",
            "t[1] + 1.0",
        ),
        *("x if c else 1.0", "1 if c else 2", "[] if c else ns", "length_of(ns)", "length_of(s)", "range_of(xs)"),
        *("integer('1') + 1", "scalar(n) + 1.0", "logical(s) && c", "string(n) + s", "string(c) + s", "integer(c) + 1"),
        *(
            "[for k in ns yield k + 1]",
            "[for k in ns, z in xs if k > 1 yield relu(z)]",
            "[for k in ns yield [for m in ns yield k * m]]",
        ),
        *("split(x, axis = 0, ratios = [1])[0] + x", "concat(copy_n(x, times = 2), axis = 0)", "shape_of(1.0)[0]"),
        *("[for k in [] yield k]", "cast<integer>(x)", "cast<scalar>(1.0)", "select(l, 1.0, x)", "select(true, i, 1)"),
    ],
)
def test_what_is_right_has_no_findings(expression):
    assert found(body(f"r = {expression};")) == []


@pytest.mark.parametrize(
    ("expression", "help"),
    [
        pytest.param("leaky_relu(x, alpha = 2)", "write '2.0'", id="an integer literal for a scalar"),
        pytest.param("leaky_relu(x, alpha = -2)", "write '-2.0'", id="a negative one"),
        pytest.param("add(x, 1)", "write '1.0'", id="for a tensor"),
        pytest.param("softmax(x, axes = 1)", "write it as an array: […]", id="a number for an array"),
        pytest.param("x[0]", "use slice(…) for tensors", id="a subscript of a tensor"),
        pytest.param(
            "x if l else x", "use select(condition, a, b) for a tensor condition", id="a tensor for a condition"
        ),
        pytest.param(
            "add(x, l)", "convert logical values to numbers: select(condition, 1.0, 0.0)", id="truth for numbers"
        ),
    ],
)
def test_a_finding_states_the_remedy(expression, help):
    (finding,) = [each for each in checked(body(f"r = {expression};")).diagnostics if each.is_error]
    assert finding.help == help


@pytest.mark.parametrize(
    ("default", "code"),
    [
        pytest.param("a: integer[] = [1, 2.0]", "NNEF0403", id="items of two types"),
        pytest.param("a: (integer, integer) = (1, 2, 3)", "NNEF0410", id="a tuple of another length"),
        pytest.param("a: integer = 1.0", "NNEF0410", id="a scalar for an integer"),
        pytest.param("a: scalar = 1", "NNEF0402", id="an integer literal for a scalar"),
        pytest.param("a: string = true", "NNEF0410", id="a logical for a string"),
        pytest.param("a: integer[] = []", None, id="no items"),
        pytest.param("a: tensor<scalar> = 1.0", None, id="a number for a tensor"),
    ],
)
def test_a_default_is_of_its_parameters_type(default, code):
    text = final("y = f(x);", before=fragment("y = relu(x);", parameters=f"x: tensor<scalar>, {default}"))
    assert found(text) == ([] if code is None else [code])


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("y = l;", "NNEF0411", id="logicals"),
        pytest.param("y = ns;", "NNEF0411", id="an array"),
        pytest.param("y = n;", "NNEF0411", id="an integer"),
        pytest.param("y = 1;", "NNEF0411", id="an integer literal"),
        pytest.param("y = a;", None, id="a scalar, as a constant"),
        pytest.param("y = 1.5;", None, id="a literal, as a constant"),
    ],
)
def test_a_result_is_of_its_declared_type(statement, code):
    text = final("y = relu(x);", before=fragment(statement, parameters=PARAMETERS))
    assert found(text) == ([] if code is None else [code])


def test_tensors_of_a_provisional_fragment_are_of_any_data():
    before = "fragment f( x: tensor, c: tensor ) -> ( y: tensor ) { y = select(c, x, 0.0) + x }\n"
    assert found(provisional("y = f(x, lt(x, 0.0))".replace("lt(x, 0.0)", "c"), "c = lt(x, 0.0)", before=before)) == [
        "NNEF0302"
    ]
    assert found(provisional("c = lt(x, 0.0)", "y = f(x, c)", before=before)) == []


def test_data_types_of_a_provisional_graph_do_not_mix():
    assert found(provisional("a = lt(x, 0.0)", "y = add(x, a)")) == ["NNEF0401"]
    assert found(provisional("a = argmax_pool(x, size = [1,1,2,2])", "y = add(x, a)")) == ["NNEF0401"]


def test_a_provisional_integer_literal_for_a_scalar_is_a_warning():
    (finding,) = checked(provisional("y = leaky_relu(x, alpha = 2)")).diagnostics
    assert (finding.code, finding.is_error, finding.help) == ("NNEF0402", False, "write '2.0'")
    assert found(provisional("y = add(x, 1)")) == ["NNEF0401"]


def test_a_provisional_tuple_of_results_feeds_a_tuple_parameter():
    before = "fragment f( t: (tensor, tensor) ) -> ( y: tensor ) { a, b = t; y = a + b }\n"
    before += "fragment g( x: tensor ) -> ( y: tensor ) { y = f(moments(x, axes = [0])) }\n"
    assert found(provisional("y = g(x)", before=before)) == []


def test_iterators_are_names_of_their_comprehension_only():
    assert found(probed("[for k in [3, 4] yield k] + [k]")) == ["NNEF0303"]
    assert found(probed("[for n in [3, 4] yield n] + [n]", parameters="n: integer = 1")) == []


def test_deep_expressions_are_typed():
    levels = deep.LEVELS
    assert found(probed("[" + "1 + " * 3 * levels + "1]")) == []
    assert found(body("r = " + "relu(" * levels + "x" + ")" * levels + ";")) == []
    assert found(body("r = " + "1 if c else " * levels + "1;")) == []


def test_the_depth_of_types_is_a_setting():
    text = body("r = [[[1]]];")
    assert codes(checked(text, limits=Limits(type_nesting=2)).diagnostics) == ["NNEF0415"]
    assert codes(checked(text, limits=Limits(type_nesting=3)).diagnostics) == []
