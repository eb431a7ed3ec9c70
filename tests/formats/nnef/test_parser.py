from __future__ import annotations

import pytest

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.formats.nnef.container.edition_detection import edition_of
from graphport.formats.nnef.container.limits import Limits
from graphport.formats.nnef.container.parser import parse_fragments
from graphport.formats.nnef.container.syntax import Edition, Missing, Name, Tuple
from tests.every import every
from tests.formats.nnef.documents import BOTH, FRAGMENTS, codes, column, final, fragment, line, provisional, read, tree

BODY = "graph g( x ) -> ( y )\n{\n    x = external(shape = [1]);\n    y = relu(x);\n}\n"


def found(text, edition=None):
    return codes(read(text, edition).diagnostics)


# ── editions ──


@pytest.mark.parametrize(
    ("text", "edition"),
    [
        pytest.param("version 1.0;\n" + BODY, Edition.FINAL, id="a semicolon after the version"),
        pytest.param("# c\nversion # 1\n 1.0 # 2\n ;" + BODY, Edition.FINAL, id="comments before the semicolon"),
        pytest.param("version 1.0\n" + BODY, Edition.PROVISIONAL, id="no semicolon after the version"),
        pytest.param("version 1.0\nextension KHR_a;\n" + BODY, Edition.FINAL, id="an extension"),
        pytest.param("version 1.0\nfragment f( x: tensor<scalar> )" + BODY, Edition.FINAL, id="a typed tensor"),
        pytest.param("version 1.0\nfragment f( n: integer )" + BODY, Edition.FINAL, id="an integer"),
        pytest.param("version 1.0\n" + BODY.replace("external", "external<scalar>"), Edition.FINAL, id="a generic"),
        pytest.param("version 1.0\n" + BODY + "yield", Edition.FINAL, id="a yield"),
        pytest.param("version 1.0\n# yield tensor<integer>\n" + BODY, Edition.PROVISIONAL, id="marks in comments"),
        pytest.param("version 1.0\n" + BODY.replace("[1]", "'yield'"), Edition.PROVISIONAL, id="marks in strings"),
        pytest.param("version 1.0\n" + BODY.replace("x", "integers"), Edition.PROVISIONAL, id="marks within words"),
    ],
)
def test_the_edition_follows_from_its_marks(text, edition):
    assert edition_of(text) is edition


def test_conflicting_marks_are_final_and_the_missing_semicolon_is_the_finding():
    assert found("version 1.0\n" + FRAGMENTS + BODY) == ["NNEF0203"]


def test_a_forced_edition_wins_over_the_marks():
    assert found("version 1.0;\n" + BODY, Edition.PROVISIONAL) == ["NNEF0213"]
    assert found("version 1.0\n" + BODY, Edition.FINAL) == ["NNEF0203"]


def test_final_keywords_are_names_in_the_provisional_edition():
    text = provisional("version = relu(x)", "y = relu(version)")
    assert found(text) == []
    assert found(text.replace("version =", "integer =").replace("(version)", "(integer)"), Edition.PROVISIONAL) == []
    assert found(final("version = relu(x);", "y = relu(x);")) == ["NNEF0202"]


# ── one document, many mistakes ──


def test_all_mistakes_are_found_in_one_run_each_at_its_location():
    text = final("a = relu(x", "b = relu(x;", "c = relu(a) relu(b);", "d = f(,);", "y = relu(c);")
    parsed = read(text)
    places = [(line(each), column(each)) for each in parsed.diagnostics if each.span]
    assert places == [(6, 5), (6, 15), (7, 17), (8, 11)]
    graph = parsed.document.graph
    assert graph is not None
    assert not isinstance(graph.body[-1].value, Missing)


def test_a_statement_that_cannot_be_read_still_assigns_its_names():
    graph = read(final("a, b = split(x;", "y = relu(a);")).document.graph
    assert graph is not None
    assert isinstance(graph.body[1].value, Missing)
    assert graph.body[1].target == Tuple((Name("a"), Name("b")))


def test_a_missing_semicolon_costs_nothing_else():
    parsed = read(final("a = relu(x)", "b = relu(a)", "y = relu(b);"))
    assert [(line(each), each.code) for each in parsed.diagnostics] == [(5, "NNEF0203"), (6, "NNEF0203")]
    assert parsed.document.graph is not None
    assert len(parsed.document.graph.body) == 4


def test_after_a_broken_header_the_body_is_read_for_its_own_mistakes():
    text = final("y = relu(x);", before=FRAGMENTS + "fragment f( x ) -> ( y: tensor<scalar> ) { y = relu(x; }\n")
    assert [line(each) for each in read(text).diagnostics] == [3, 3]
    assert read(text).document.unread == {"f"}


def test_findings_beyond_the_limit_are_counted():
    text = final(*["a = relu(;"] * 30)
    diagnostics = read(text, limits=Limits(findings=10)).diagnostics
    assert len(diagnostics) == 11
    assert diagnostics[-1].code == "NNEF0001"
    assert "20 further" in diagnostics[-1].message


# ── rules of grammar ──


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(BODY, "NNEF0204", id="no version"),
        pytest.param("version '1.0';\n" + BODY, "NNEF0201", id="a version that is a string"),
        pytest.param("version 2.0;\n" + BODY, "NNEF0204", id="a version that is not known"),
        pytest.param("version 1;\n" + BODY, "NNEF0204", id="a version of one number"),
        pytest.param("version 1.0;\n", "NNEF0205", id="no graph"),
        pytest.param("version 1.0;\n" + BODY + BODY, "NNEF0205", id="two graphs"),
        pytest.param("version 1.0;\n" + BODY + "more", "NNEF0205", id="something behind the graph"),
        pytest.param(
            "version 1.0;\n" + BODY + "fragment f( x: tensor<> );", "NNEF0205", id="a fragment behind the graph"
        ),
        pytest.param(
            "version 1.0;\n" + fragment("y = relu(x);", extensions="") + BOTH + BODY, "NNEF0212", id="late extension"
        ),
        pytest.param("version 1.0;\ngraph g( ) -> ( y )\n{ y = f(x); }", "NNEF0206", id="no inputs"),
        pytest.param("version 1.0;\ngraph g( x ) -> ( )\n{ y = f(x); }", "NNEF0206", id="no outputs"),
        pytest.param("version 1.0;\ngraph g( x ) -> ( y )\n{ }", "NNEF0206", id="an empty body"),
        pytest.param("version 1.0;\ngraph g( x ) ( y )\n{ y = f(x); }", "NNEF0201", id="no arrow"),
        pytest.param("version 1.0;\ngraph g( x ) - > ( y )\n{ y = f(x); }", "NNEF0201", id="an arrow in two parts"),
        pytest.param(
            "version 1.0;\ngraph g( x: tensor<scalar> ) -> ( y )\n{ y = f(x); }", "NNEF0201", id="a typed input"
        ),
        pytest.param("version 1.0;\ngraph g( x ) -> ( y )\n{ y = f(x);", "NNEF0201", id="an open body"),
        pytest.param("version 1.0;\nextension ;\n" + BODY, "NNEF0201", id="an extension without a name"),
    ],
)
def test_a_document_that_is_not_in_order(text, code):
    assert found(text)[0] == code


@every(
    ("statement", "code"),
    [
        pytest.param("y = relu(x,);", "NNEF0201", id="a comma too many"),
        pytest.param("y = relu(x x);", "NNEF0201", id="a comma too few"),
        pytest.param("y = concat([x,], axis = 0);", "NNEF0201", id="a comma too many in an array"),
        pytest.param("y = f(x, p = (1,));", "NNEF0201", id="a tuple of one"),
        pytest.param("y = f(x, p = ());", "NNEF0201", id="an empty tuple"),
        pytest.param("y = relu();", "NNEF0206", id="no arguments"),
        pytest.param("y == relu(x);", "NNEF0208", id="a comparison for an assignment"),
        pytest.param("y = ;", "NNEF0201", id="no value"),
        pytest.param("= relu(x);", "NNEF0201", id="no name"),
        pytest.param("relu(x);", "NNEF0208", id="no left side"),
        pytest.param("relu(y) = relu(x);", "NNEF0208", id="a call on the left"),
        pytest.param("1 = relu(x);", "NNEF0208", id="a number on the left"),
        pytest.param("y[0] = relu(x);", "NNEF0208", id="a subscript on the left"),
        pytest.param("graph = relu(x);", "NNEF0202", id="a keyword on the left"),
        pytest.param("true = relu(x);", "NNEF0202", id="a literal on the left"),
        pytest.param("y = relu(tensor);", "NNEF0202", id="a keyword for a value"),
        pytest.param("y = relu(shape_of);", "NNEF0202", id="a built-in function for a value"),
        pytest.param("y = f(x, string = 'a');", "NNEF0202", id="a keyword for a parameter"),
        pytest.param("y = x if true;", "NNEF0201", id="an if without else"),
        pytest.param("y = x else x;", "NNEF0201", id="an else without if"),
        pytest.param("y = x ++ ;", "NNEF0201", id="an operator without operand"),
        pytest.param("y = (x;", "NNEF0201", id="an open parenthesis"),
        pytest.param("y = x);", "NNEF0201", id="a parenthesis too many"),
        pytest.param("y = x[1:2:3];", "NNEF0201", id="a range of three"),
        pytest.param("y = x[];", "NNEF0201", id="an empty subscript"),
        pytest.param("y = [for i in x];", "NNEF0201", id="a comprehension without yield"),
        pytest.param("y = [for in x yield x];", "NNEF0202", id="a comprehension without iterator"),
        pytest.param("y = [i for i in x];", "NNEF0201", id="a comprehension of the other edition"),
        pytest.param("y = x, x;", "NNEF0210", id="a tuple without parentheses"),
    ],
)
def test_a_statement_that_is_not_grammatical(statement, code):
    assert found(final(statement)) == [code]


@pytest.mark.parametrize(
    ("signature", "code"),
    [
        pytest.param("( x ) -> ( y: tensor<scalar> )", "NNEF0201", id="a parameter without type"),
        pytest.param("( x: tensor<scalar> ) -> ( y )", "NNEF0201", id="a result without type"),
        pytest.param("( ) -> ( y: tensor<scalar> )", "NNEF0206", id="no parameters"),
        pytest.param("( x: tensor ) -> ( y: tensor<scalar> )", "NNEF0201", id="a tensor of nothing said"),
        pytest.param("( x: tensor<real> ) -> ( y: tensor<scalar> )", "NNEF0201", id="a tensor of an unknown type"),
        pytest.param("( x: real ) -> ( y: tensor<scalar> )", "NNEF0201", id="an unknown type"),
        pytest.param("( x: extent ) -> ( y: tensor<scalar> )", "NNEF0213", id="the provisional name of a type"),
        pytest.param("( x: (integer) ) -> ( y: tensor<scalar> )", "NNEF0201", id="a tuple type of one"),
        pytest.param("( x: integer[2] ) -> ( y: tensor<scalar> )", "NNEF0201", id="an array type of a length"),
        pytest.param("( x: integer = a ) -> ( y: tensor<scalar> )", "NNEF0209", id="a default that is a name"),
        pytest.param("( x: integer = 1 + 1 ) -> ( y: tensor<scalar> )", "NNEF0209", id="a default to compute"),
        pytest.param("( x: integer[] = [-(1)] ) -> ( y: tensor<scalar> )", None, id="a negative default"),
        pytest.param("<?>( x: ? ) -> ( y: tensor<?> )", None, id="a generic fragment"),
        pytest.param("<? = real>( x: ? ) -> ( y: tensor<?> )", "NNEF0201", id="a generic default of no type"),
        pytest.param("<scalar>( x: ? ) -> ( y: tensor<?> )", "NNEF0201", id="a generic fragment without '?'"),
        pytest.param("( x: tensor<scalar>= 1.0 ) -> ( y: tensor<scalar> )", None, id="'>=' where a type ends"),
    ],
)
def test_a_signature(signature, code):
    text = f"version 1.0;\n{BOTH}fragment f{signature} {{ y = g(x); }}\n{BODY}"
    assert found(text) == ([] if code is None else [code])


def test_a_provisional_fragment_has_a_body():
    text = provisional("y = relu(x)", before="fragment f( x: tensor ) -> ( y: tensor );\n")
    assert found(text) == ["NNEF0213"]


def test_a_provisional_type_is_one_of_its_own():
    text = provisional("y = relu(x)", before="fragment f( n: integer ) -> ( y: tensor ) { y = n }\n")
    assert found(text, Edition.PROVISIONAL) == ["NNEF0213"]


def test_provisional_tuples_need_no_parentheses():
    before = "fragment f( x: tensor, t: (extent, extent) = 1, 2, n: extent = 3 ) -> ( y: tensor )\n"
    before += "{\n    t = x, x\n    (a, b) = t\n    y = a\n}\n"
    (definition,) = tree(provisional("y = f(x)", before=before)).fragments
    assert len(definition.parameters) == 3
    assert definition.body is not None
    assert [type(statement.value).__name__ for statement in definition.body] == ["Tuple", "Name", "Name"]


def test_without_semicolons_a_bracket_on_a_new_line_begins_a_statement():
    before = (
        "fragment f( x: tensor ) -> ( y: tensor )\n{\n    t = split(x)\n    [a, b] = t\n    (c, d) = t\n    y = a\n}\n"
    )
    (definition,) = tree(provisional("y = f(x)", before=before)).fragments
    assert definition.body is not None
    assert len(definition.body) == 4


def test_a_list_of_extensions_is_separated_by_spaces_or_commas():
    for separator in (" ", ", ", "\n", ";\nextension "):
        document = tree(f"version 1.0;\nextension A_b{separator}C_d;\n{BODY}")
        assert [word.text for extension in document.extensions for word in extension.names] == ["A_b", "C_d"]


def test_nesting_has_a_limit_that_is_a_setting():
    text = final("y = " + "(" * 50 + "x" + ")" * 50 + ";")
    assert codes(read(text, limits=Limits(nesting=50)).diagnostics) == []
    assert codes(read(text, limits=Limits(nesting=49)).diagnostics) == ["NNEF0207"]
    assert codes(read(final("y = x" + " + (x" * 60 + ")" * 60 + ";"), limits=Limits(nesting=49)).diagnostics) == [
        "NNEF0207"
    ]


def test_types_nest_as_deep_as_their_setting():
    deep = "integer" + "[]" * 70
    assert found(f"version 1.0;\n{BOTH}fragment f( x: {deep} ) -> ( y: tensor<> );\n{BODY}") == ["NNEF0207"]
    pairs = "(" * 70 + "integer" + ",integer)" * 70
    assert found(f"version 1.0;\n{BOTH}fragment f( x: {pairs} ) -> ( y: tensor<> );\n{BODY}") == ["NNEF0207"]


def test_declarations_alone_are_read_or_refused():
    (definition,) = parse_fragments(Source("a", "fragment f( x: tensor<> ) -> ( y: tensor<scalar> );"))
    assert definition.name.text == "f"
    with pytest.raises(DiagnosticError):
        parse_fragments(Source("a", "fragment f( x: tensor<> );"))


def test_the_provisional_edition_has_no_operator_in():
    before = "fragment f( x: tensor ) -> ( y: tensor ) { y = x if 1 in [1] else x }\n"
    (finding,) = read(provisional("y = f(x)", before=before), Edition.PROVISIONAL).diagnostics
    assert (finding.code, column(finding)) == ("NNEF0213", 55)
