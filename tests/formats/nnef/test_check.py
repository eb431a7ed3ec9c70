"""Every rule of names, declarations, invocations and assignments, each with a document that breaks it alone."""

from __future__ import annotations

import pytest

from graphport.core.diagnostics import Severity
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.limits import Limits
from graphport.formats.nnef.container.syntax import Document, Edition
from tests.every import every
from tests.formats.nnef.documents import (
    BOTH,
    FRAGMENTS,
    OPERATORS,
    checked,
    codes,
    column,
    final,
    findings,
    fragment,
    line,
    probed,
    provisional,
    read,
    remedy,
)

Y = "y = relu(x);"


def broken(text, **options):
    return codes(checked(text, **options).diagnostics, warnings=False)


def with_fragment(signature, body="y = relu(x);", call="y = relu(x);"):
    return final(call, before=f"{BOTH}fragment f{signature}\n{{\n    {body}\n}}\n")


RULES = [
    pytest.param(
        final(Y, before=fragment(Y) + fragment(Y, extensions="")), "NNEF0301", id="fragments have unique names"
    ),
    pytest.param(final(Y, before=fragment(Y, name="sqrt")), "NNEF0301", id="standard operations count as declared"),
    pytest.param(final("a = relu(b);", "b = relu(x);", "y = relu(a);"), "NNEF0302", id="assigned before use"),
    pytest.param(final("y = relu(z);"), "NNEF0303", id="a name that is not there"),
    pytest.param(
        with_fragment("( x: tensor<scalar> ) -> ( y: tensor<scalar> )", "y = x + z;"), "NNEF0303", id="in a fragment"
    ),
    pytest.param(final(Y, Y), "NNEF0304", id="assigned once"),
    pytest.param(final("x = relu(x);", Y), "NNEF0304", id="an input is assigned once"),
    pytest.param(final("z = relu(x);"), "NNEF0305", id="every output is assigned"),
    pytest.param(
        with_fragment("( x: tensor<scalar> ) -> ( y: tensor<scalar> )", "z = relu(x);"),
        "NNEF0305",
        id="every result is",
    ),
    pytest.param(
        with_fragment("( x: tensor<scalar>, n: integer ) -> ( y: tensor<scalar> )", "n = 2; y = relu(x);"),
        "NNEF0306",
        id="parameters are not assigned",
    ),
    pytest.param(
        "version 1.0;\ngraph g( x ) -> ( y )\n{ y = constant(shape = [1], value = [1.0]); }",
        "NNEF0307",
        id="no external",
    ),
    pytest.param(
        "version 1.0;\ngraph g( x ) -> ( y )\n{ x = constant(shape = [1], value = [1.0]); y = relu(x); }",
        "NNEF0307",
        id="an input is external",
    ),
    pytest.param(final("z = external(shape = [1]);", Y), "NNEF0308", id="what is external is an input"),
    pytest.param(
        final("y = add(x, external(shape = [1]));", before=OPERATORS), "NNEF0308", id="external inside an expression"
    ),
    pytest.param(
        with_fragment("( x: tensor<scalar> ) -> ( y: tensor<scalar> )", "y = external(shape = [1]);"),
        "NNEF0308",
        id="external inside a fragment",
    ),
    pytest.param(
        with_fragment("( x: tensor<scalar> ) -> ( y: tensor<scalar> )", "y = x + external(shape = [1]);"),
        "NNEF0308",
        id="external inside an expression of a fragment",
    ),
    pytest.param(final("y = [x, x];", before=OPERATORS), "NNEF0309", id="the graph names no arrays"),
    pytest.param(final("y = (x, x);", before=OPERATORS), "NNEF0309", id="the graph names no tuples"),
    pytest.param(final("a = [1, 2];", Y, before=OPERATORS), "NNEF0309", id="the graph names no attributes"),
    pytest.param(final("y = split(x, axis = 1, ratios = [1, 2]);"), "NNEF0309", id="an array result is unpacked"),
    pytest.param(final("y = moments(x, axes = [0]);"), "NNEF0309", id="two results are unpacked"),
    pytest.param(
        with_fragment("( x: tensor<scalar> ) -> ( y: tensor<scalar> )", "y = variable(shape = [1], label = 'a');"),
        "NNEF0310",
        id="no variables in fragments",
    ),
    pytest.param(
        with_fragment("( x: tensor<scalar> ) -> ( y: tensor<scalar> )", "y = update(x, x);"),
        "NNEF0310",
        id="nor updates",
    ),
    pytest.param(final("y = update(x, x);"), "NNEF0311", id="what is updated is a variable"),
    pytest.param(
        final("v = variable(shape = [1], label = 'v');", "a = update(v, x);", "y = update(v, a);"),
        "NNEF0312",
        id="a variable is updated once",
    ),
    pytest.param(
        with_fragment("( x: tensor<scalar>, x: tensor<scalar> ) -> ( y: tensor<scalar> )"),
        "NNEF0313",
        id="parameters have unique names",
    ),
    pytest.param(
        with_fragment("( x: tensor<scalar> ) -> ( y: tensor<scalar>, y: tensor<scalar> )"),
        "NNEF0314",
        id="results have unique names",
    ),
    pytest.param(final(Y, outputs="y, y"), "NNEF0314", id="outputs have unique names"),
    pytest.param(
        "version 1.0;\ngraph g( x, x ) -> ( y )\n{ x = external(shape = [1]); y = relu(x); }",
        "NNEF0313",
        id="inputs too",
    ),
    pytest.param(final(Y, outputs="x, y"), "NNEF0315", id="an input is no output"),
    pytest.param(
        with_fragment("( n: integer, x: tensor<scalar> ) -> ( y: tensor<scalar> )"), "NNEF0316", id="tensors come first"
    ),
    pytest.param(
        with_fragment("( x: tensor<scalar> ) -> ( y: tensor<scalar>, n: integer )", "y = relu(x); n = 1;"),
        "NNEF0317",
        id="results are tensors",
    ),
    pytest.param(
        with_fragment("( x: tensor<?> ) -> ( y: tensor<?> )", "y = copy(x);"),
        "NNEF0318",
        id="'?' makes a fragment generic",
    ),
    pytest.param(
        with_fragment("<?>( x: tensor<scalar> ) -> ( y: tensor<scalar> )"), "NNEF0319", id="a generic fragment uses '?'"
    ),
    pytest.param(
        final(Y, before=f"{BOTH}fragment f( x: tensor<> ) -> ( y: tensor<> );\n"),
        "NNEF0320",
        id="results are of a data-type",
    ),
    pytest.param(
        with_fragment("( x: tensor<scalar>, t: (tensor<scalar>, integer) ) -> ( y: tensor<scalar> )"),
        "NNEF0321",
        id="tuples do not mix tensors and attributes",
    ),
    pytest.param(final("y = rleu(x);"), "NNEF0322", id="operations are declared"),
    pytest.param(final("y = relu(x, x);"), "NNEF0323", id="not more arguments than parameters"),
    pytest.param(final("y = leaky_relu(x);"), "NNEF0324", id="a parameter without default is given"),
    pytest.param(final("y = add(y = x, x);"), "NNEF0325", id="place positional arguments first"),
    pytest.param(final("y = softmax(x, axis = [1]);"), "NNEF0326", id="a named parameter is there"),
    pytest.param(final("y = softmax(x, axes = [1], axes = [2]);"), "NNEF0327", id="a parameter is named once"),
    pytest.param(final("y = softmax(x, x = x);"), "NNEF0328", id="a parameter is not given twice"),
    pytest.param(final("y = softmax(x, [1]);"), "NNEF0329", id="attributes go by name"),
    pytest.param(final("y = cast(x);"), "NNEF0330", id="a generic type that follows from nothing is named"),
    pytest.param(final("y = relu<scalar>(x);"), "NNEF0331", id="only generic operations take a type"),
    pytest.param(final("y = copy<?>(x);"), "NNEF0332", id="'?' is a type in generic fragments only"),
    pytest.param(
        final("i = argmax_reduce(x, axes = [1]);", "y = select(true, x, i);"),
        "NNEF0333",
        id="a generic type is one type",
    ),
    pytest.param(final(Y, before=fragment(Y, extensions="")), "NNEF0334", id="fragments need their extension"),
    pytest.param(final("y = x + x;"), "NNEF0335", id="operators need their extension"),
    pytest.param(final("y = relu(relu(x));"), "NNEF0335", id="so do calls in calls"),
    pytest.param(final("y = x;"), "NNEF0335", id="so do plain assignments"),
    pytest.param(final("y = reshape(x, shape = [for i in [1,192] yield i]);"), "NNEF0335", id="so do comprehensions"),
    pytest.param(final(Y, before=fragment("y = x * x;", extensions=FRAGMENTS)), "NNEF0335", id="in fragments, too"),
    pytest.param(provisional("y = x + x"), "NNEF0336", id="a provisional graph is flat"),
    pytest.param(provisional("y = leaky_relu(x, alpha = -0.5)"), "NNEF0336", id="and has no negative numbers"),
    pytest.param(
        final(Y, before="extension KHR_enable_wonders;\n"), "NNEF0337", id="extensions of the standard are known"
    ),
    pytest.param(final("[a, y] = relu(x);"), "NNEF0346", id="an array on the left takes an array"),
    pytest.param(final("a, y = relu(x);"), "NNEF0346", id="a tuple on the left takes a tuple"),
    pytest.param(final("a, b, y = moments(x, axes = [0]);"), "NNEF0346", id="of as many items"),
]


@every(("text", "code"), RULES)
def test_a_rule_that_is_broken_is_the_only_finding(text, code):
    assert read(text).diagnostics == []
    assert set(broken(text)) == {code}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            final(
                "g = f(x);", "y = relu(g);", before=fragment("y = g(x);") + fragment("y = x;", name="g", extensions="")
            ),
            id="fragments in any order",
        ),
        pytest.param(
            final(
                "y = f<integer>(i);",
                "i2 = copy(x);",
                before=fragment("y = copy<?>(x);", parameters="x: tensor<?>", results="y: tensor<?>", name="f<?>"),
                shape="[1]",
            ).replace("y = f<integer>(i);", "i = argmax_reduce(x, axes = [0]); y = f<integer>(i);"),
            id="generics through fragments",
        ),
        pytest.param(final("y = copy_n(x, times = 3)[1];", before=OPERATORS), id="an item of an array result"),
        pytest.param(
            final("y = f(x);", before=fragment("t = split(x, axis = 1, ratios = [1, 2]); y = t[0];")),
            id="an array in one name",
        ),
        pytest.param(
            final("y = f(x);", before=f"{FRAGMENTS}fragment f( x: tensor<> ) -> ( y: tensor<scalar> );\n"),
            id="a fragment without a body",
        ),
        pytest.param(
            final(
                "y = f(x, n = 1);",
                before=fragment("y = f(x, n = n - 1) if n > 0 else x;", parameters="x: tensor<scalar>, n: integer"),
            ),
            id="recursion",
        ),
        pytest.param(
            final("v = variable<integer>(shape = [3], label = 'v');", "y = gather(x, v);"), id="a variable of integers"
        ),
        pytest.param(final("v = variable(shape = [1], label = 'v');", "y = update(v, x);"), id="an update"),
        pytest.param(provisional("a, b = moments(x, axes = [0])", "y = add(a, b)"), id="provisional: two results"),
        pytest.param(
            provisional(
                "y = f(n = 2, x = x)", before="fragment f( n: extent, x: tensor ) -> ( y: tensor ) { y = x }\n"
            ),
            id="provisional: parameters in any order",
        ),
        pytest.param(
            provisional(
                "y = f(x)",
                before="fragment f( x: tensor ) -> ( y: tensor ) { y = update(variable(shape = [1], label = 'a'), x) }\n",
            ),
            id="provisional: variables in fragments",
        ),
        pytest.param(
            provisional(
                "y = g(x)",
                before="fragment f( n: extent[] ) -> ( m: extent[] ) { m = n + [1] }\nfragment g( x: tensor ) -> ( y: tensor ) { y = reshape(x, shape = f(n = [3])) }\n",
            ),
            id="provisional: results that are attributes",
        ),
    ],
)
def test_what_is_right_has_no_findings(text):
    assert read(text).diagnostics == []
    assert checked(text).diagnostics == []


def test_a_finding_states_location_and_remedy():
    (found,) = checked(final("hidden = relu(x);", "y = relu(hiden);")).diagnostics
    assert (line(found), column(found), remedy(found)) == (6, 14, "did you mean 'hidden'?")
    (found,) = checked(final("y = relu(a);", "a = relu(x);")).diagnostics
    assert "line 6" in remedy(found)
    (found,) = checked(final("y = rleu(x);")).diagnostics
    assert remedy(found) == "did you mean 'relu'?"
    (found,) = checked(final("y = softmax(x, axis = [1]);")).diagnostics
    assert remedy(found) == "did you mean 'axes'?"
    (found,) = checked(final(Y, Y)).diagnostics
    assert "line 5" in remedy(found)


def test_an_undefined_name_is_reported_once():
    assert len(checked(final("a = relu(z);", "b = relu(z);", Y)).diagnostics) == 1


def test_an_unreadable_part_is_reported_once():
    parsed = read(
        final("a, b = split(x;", "y = add(a, b);", before=FRAGMENTS + "fragment f( x ) -> ( y: tensor<> );\n")
    )
    assert check(parsed.document).diagnostics == []
    assert codes(read(final("y = f(x);", before=FRAGMENTS + "fragment f( x ) -> ( y: tensor<> );\n")).diagnostics) == [
        "NNEF0201"
    ]
    assert broken(final("y = f(x);", before=FRAGMENTS + "fragment f( x ) -> ( y: tensor<> );\n")) == []


def test_a_result_stays_of_its_type_even_where_its_call_is_wrong():
    assert broken(final("a = softmax(x, axis = [1]);", "y = not(a);")) == ["NNEF0326", "NNEF0401"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(
            final("y = f(x);", before=fragment("y = reshape(x, shape = shape_of(x));")), "NNEF0344", id="shape_of"
        ),
        pytest.param(final("y = add(x = x, y = x);"), "NNEF0345", id="tensors by name"),
        pytest.param(final(Y, before="extension tract_registry tract_core;\n"), "NNEF0338", id="vendors' extensions"),
        pytest.param(
            final(Y, before="extension KHR_enable_fragment_definitions KHR_enable_operator_expressions;\n"),
            "NNEF0339",
            id="extensions without a comma",
        ),
        pytest.param(
            provisional(
                "y = g(x)",
                before="fragment f( n: extent ) -> ( m: extent ) { m = n }\nfragment g( x: tensor ) -> ( y: tensor ) { y = reshape(x, shape = [f(2)]) }\n",
            ),
            "NNEF0347",
            id="provisional: an attribute by position to a fragment without tensors",
        ),
    ],
)
def test_what_is_only_deprecated_is_a_warning(text, code):
    found = checked(text).diagnostics
    assert [(each.code, each.severity) for each in found] == [(code, Severity.WARNING)]


def test_many_uses_of_a_deprecated_form_are_one_warning():
    (found,) = checked(final("a = add(x = x, y = x);", "y = add(x = a, y = a);")).diagnostics
    assert "4 uses" in found.message


def test_provisional_tensors_go_by_name_freely():
    assert checked(provisional("y = add(x = x, y = x)")).diagnostics == []


def test_provisional_attributes_by_position_to_standard_operations_are_errors():
    assert broken(provisional("y = leaky_relu(x, 0.5)")) == ["NNEF0329"]


def test_operations_of_a_vendors_extension_are_opaque():
    text = final("a = tract_core_cast(x, to = 'f32');", "y = relu(a);", before="extension tract_core;\n")
    assert broken(text) == []
    assert broken(text.replace("tract_core_cast", "acme_cast")) == ["NNEF0322"]


def test_operations_of_a_vendor_make_no_inputs():
    text = final("y = relu(x);", before="extension tract_core;\n")
    assert broken(text) == []
    assert broken(text.replace("external", "tract_core_external")) == ["NNEF0307"]


def test_symbols_of_a_vendors_extension_are_integers():
    text = (
        "version 1.0;\nextension tract_symbol S;\ngraph g( x ) -> ( y )\n{ x = external(shape = [S, 3]); y = relu(x); }"
    )
    assert broken(text) == []
    assert checked(text).symbols == ("S",)


def test_tolerance_makes_warnings_of_what_other_tools_write():
    for text in (final("y = gelu(x);", before=fragment("y = x * x;", name="gelu", extensions="")),):
        assert broken(text) == ["NNEF0334", "NNEF0301", "NNEF0335"]
        found = checked(text, tolerant=True)
        assert not any(each.is_error for each in found.diagnostics)
        assert found.operations.find("gelu") is found.operations.own["gelu"]


def test_findings_stand_in_the_order_of_the_text():
    found = checked(final("a = f(x);", "b = relu(c);", "y = x;")).diagnostics
    assert [line(each) for each in found] == [5, 6, 7]


def test_findings_beyond_the_limit_are_counted():
    text = final(*[f"a{index} = relu(b{index});" for index in range(50)], Y)
    assert len(checked(text, limits=Limits(findings=5)).diagnostics) == 6


def test_only_a_document_with_a_source_is_checked():
    with pytest.raises(ValueError, match="read"):
        check(Document(Edition.FINAL, None, (), (), None))


def test_large_documents_with_a_mistake_in_every_line_are_checked_quickly():
    text = final(*[f"a{index} = relu(b{index});" for index in range(20_000)], Y)
    assert len(findings(text)) == 101


@pytest.mark.parametrize("value", ["relu((x))", "(relu(x))", "leaky_relu(x, alpha = (0.5))", "add(x, -(1.0))"])
def test_a_flat_statement_has_no_parentheses_around_one_expression(value):
    assert codes(findings(final(f"y = {value};"))) == ["NNEF0335"]
    assert codes(findings(final(f"y = {value};", before=OPERATORS))) == []


@pytest.mark.parametrize("target", ["(y)", "[(y)]", "(y), z", "((y, z))"])
def test_parentheses_on_the_left_hold_several_names(target):
    assert codes(findings(final(f"{target} = relu(x);"))) == ["NNEF0208"]


def test_iterators_of_one_comprehension_have_names_of_their_own():
    (finding,) = findings(probed("[for i in [1], i in [2] yield i]"))
    assert (finding.code, column(finding)) == ("NNEF0304", 42)
