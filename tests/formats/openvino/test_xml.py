"""Identical port texts are parsed once, with the results of separate parses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.openvino.container.limits import Limits
from graphport.formats.openvino.container.xml_parser import parse

PORT = '<port id="0" precision="FP32"><dim>1</dim> <dim>2</dim></port>'
NAMED = '<port id="1" precision="FP32" names="a,b"><dim>3</dim></port>'
SAME = f"<output>\n{PORT}\n</output>"
PIECES = [
    f"<input>{PORT}</input>",
    SAME,
    f"<input>{PORT}{PORT}</input>\n",
    f"<output>{NAMED}</output>",
    f"<output>{PORT}{NAMED.replace('a,b', 'c')}{NAMED}</output>",
    f"<output>{NAMED.replace('a,b', '')}</output>",
    '<data a="1" b="&amp;"/>',
    '<data a="1" offset="7" />',
    '<data a="2" offset="8"/>',
    "<data a='3' a2=\"4\" />",
    "<output />",
    "<input></input>",
    "<input>text &amp; more<port id='1'/>\n</input>",
    f"<input><input>{PORT}</input></input>",
    f'<input kind="a">{PORT}</input>',
    f"<rt_info> {SAME} <attribute name='ä'>text</attribute></rt_info>",
    '<data shape="1" names="&lt;output>"/>',
    '<data element_type="f32" shape="2" offset="0" size="8" />',
    '<data element_type="f32" shape="2, 1" offset="8" size="8"/>',
    '<data shape="2" element_type="f32" offset="0" size="8" />',
    "  \n",
    "ü",
    f"<body><layers><layer id='7'>{SAME}</layer></layers></body>",
]
HEADS = [
    '<layer id="1">',
    '<layer id="1" name="a" type="T" version="v">',
    '<layer id="2" name="ä b" type="T" version="v">',
    '<layer id="02" name="a" type="T" version="v">',
    '<layer id="2" name="a" type="T" version="w">',
    '<layer id="3" name="c" type="Const" version="v">',
    '<layer id="4" name="d" type="Const" version="v">',
]
layers = st.tuples(st.sampled_from(HEADS), st.lists(st.sampled_from(PIECES), max_size=4)).map(
    lambda found: f"{found[0]}{''.join(found[1])}</layer>\n"
)
networks = st.lists(layers, max_size=6).map(lambda found: f"<net><layers>{''.join(found)}</layers></net>")


def told(element, names=()):
    """Return the content of an element; tensor names are those of its layer, if any."""
    attributes = dict(element.attributes)
    if "names" in attributes and element.tag == "port" and names:
        attributes["names"] = names.pop(0)
    names = list(element.names) or names
    return (
        element.tag,
        attributes,
        element.dims,
        element.text,
        element.at,
        [told(child, names) for child in element.children],
        list(element.ends),
    )


def tree(text):
    root, source = parse(text, "model.xml")
    assert source.text == text
    return told(root)


def plain(text):
    """Return the tree of the text and a comment, which makes the parser visit every element."""
    return tree(f"{text}<!-- -->")


@given(networks)
def test_a_network_is_the_same_as_when_every_element_is_looked_at(text):
    assert tree(text) == plain(text)


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(["c"], id="a name"),
        pytest.param([""], id="none"),
        pytest.param(["c", "d,e"], id="names of two ports"),
        pytest.param(["&amp;", "d"], id="a name with an escape"),
    ],
)
@pytest.mark.parametrize("front", ["", '<data a="1"/>', '<data a="{}"/>', '<data a="1" offset="{}" />'])
def test_names_of_tensors_are_those_of_each_layer(front, others):
    def layer(number, names):
        ports = "".join(NAMED.replace("a,b", name) for name in names)
        head = f'<layer id="{number}" name="n{number}" type="T" version="v">'
        return f"{head}{front.format(number)}<input>{PORT}</input><output>{PORT}{ports}</output></layer>\n"

    alike = [layer(0, ["a", "b"][: len(others)]), layer(1, others), layer(2, others[::-1]), layer(3, others)]
    text = f"<net><layers>{''.join(alike)}{alike[0]}</layers></net>"
    assert tree(text) == plain(text)


CONSTANT = '<data element_type="f32" shape="2" offset="{}" size="8" />'


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([CONSTANT.format(8), CONSTANT.format(16)], id="other places"),
        pytest.param([CONSTANT.format(8), CONSTANT.format(8).replace(" />", "/>")], id="the same place twice"),
        pytest.param([CONSTANT.format(8).replace("offset", "Offset")], id="another attribute"),
        pytest.param([CONSTANT.format(8).replace(" size", ' offset="9" size')], id="an attribute twice"),
        pytest.param([CONSTANT.format(8) + CONSTANT.format(8)], id="data twice"),
        pytest.param(["", CONSTANT.format(8)], id="no data"),
        pytest.param([CONSTANT.format(8) + " a word"], id="text behind it"),
        pytest.param([f"<rt_info/>{CONSTANT.format(8)}"], id="something in front"),
    ],
)
@pytest.mark.parametrize("port", [PORT, NAMED], ids=["without names", "with names"])
def test_constants_are_what_each_states(others, port):
    def layer(number, inside):
        head = f'<layer id="{number}" name="c{number}" type="Const" version="v">'
        return f"{head}{inside}<output>{port}</output></layer>\n"

    layers = [layer(number, inside) for number, inside in enumerate([CONSTANT.format(0), *others, CONSTANT.format(24)])]
    text = f"<net><layers>{''.join(layers)}</layers></net>"
    assert outcome(tree, text) == outcome(plain, text)


def outcome(read, text):
    """Return the result of reading a text, or the codes of its errors."""
    try:
        return read(text)
    except DiagnosticError as error:
        return [(found.code, found.message, found.span and found.span.start) for found in error.diagnostics]


def test_layers_within_another_one_are_what_each_states():
    layers = [f'<layer id="{n}" name="a{n}" type="T" version="v">{SAME}</layer>' for n in range(3)]
    body = f"<body><layers>{''.join(layers)}</layers></body>"
    outer = f'<layer id="9" name="o" type="T" version="v">{body}</layer>'
    text = f"<net><layers>{''.join(layers)}{outer}{''.join(layers)}{outer}</layers><layer/>{layers[0]}</net>"
    assert tree(text) == plain(text)


def test_names_of_what_goes_in_are_those_of_each_layer():
    layers = [
        f'<layer id="{n}" name="a" type="T" version="v"><input>{NAMED.replace("a,b", name)}</input></layer>'
        for n, name in enumerate("xyy")
    ]
    text = f"<net><layers>{''.join(layers)}</layers></net>"
    assert tree(text) == plain(text)


def test_layers_that_differ_in_names_of_tensors_share_what_is_in_them():
    layers = [
        f'<layer id="{n}" name="a" type="T" version="v"><data a="1"/><output>{NAMED.replace("a,b", f"t{n}")}</output></layer>'
        for n in range(3)
    ]
    first, *others = (
        parse(f"<net><layers>{''.join(layers)}</layers></net>", "model.xml")[0].children[0].children[0].children
    )
    assert all(layer.children is first.children for layer in others)
    assert [list(layer.names) for layer in (first, *others)] == [[], ["t1"], ["t2"]]


def test_a_file_that_begins_with_a_declaration_is_the_same_too():
    text = (
        f'<?xml version="1.0"?>\n<net><layers><layer id="0">{SAME}</layer><layer id="1">{SAME}</layer></layers></net>'
    )
    assert tree(text) == plain(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"<net><layer>{SAME}</layer><layer>{SAME}</input></layer></net>", id="a tag that ends nothing"),
        pytest.param(f"<net><layer>{SAME}</layer><layer>{SAME}<output></layer></net>", id="a tag that does not end"),
        pytest.param("<net><layer><output><port></output></port></layer></net>", id="tags that cross"),
        pytest.param(f"<net><layer a='<output></output>'>{SAME}</layer></net>", id="a tag in an attribute"),
        pytest.param(f"<net><layer>{SAME}</layer></net>{SAME}", id="ports behind the end"),
        pytest.param(f"{SAME}{SAME}", id="two roots"),
    ],
)
def test_a_broken_file_is_reported_with_its_location(text):
    found = []
    for spelled in (text, f"{text}<!-- -->"):
        with pytest.raises(DiagnosticError) as error:
            parse(spelled, "model.xml")
        (finding,) = error.value.diagnostics
        found.append((finding.code, finding.message, finding.span.start))
    assert found[0] == found[1]


def test_elements_that_are_not_looked_at_count():
    text = f"<net>{f'<layer>{SAME}</layer>' * 10}</net>"
    with pytest.raises(DiagnosticError, match="OV0004"):
        parse(text, "model.xml", Limits(elements=30))
    assert len(parse(text, "model.xml", Limits(elements=60))[0].children[0].children) == 10
