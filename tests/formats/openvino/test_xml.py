"""Ports that are spelled alike are parsed once, and nothing of a file is read otherwise for that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.openvino.limits import Limits
from graphport.formats.openvino.xml import parse

PORT = '<port id="0" precision="FP32"><dim>1</dim> <dim>2</dim></port>'
SAME = f"<output>\n{PORT}\n</output>"
PIECES = [
    f"<input>{PORT}</input>",
    SAME,
    f"<input>{PORT}{PORT}</input>\n",
    "<output />",
    "<input></input>",
    "<input>text &amp; more<port id='1'/>\n</input>",
    f"<input><input>{PORT}</input></input>",
    f'<input kind="a">{PORT}</input>',
    f"<rt_info> {SAME} <attribute name='ä'>text</attribute></rt_info>",
    '<data shape="1" names="&lt;output>"/>',
    "  \n",
    "ü",
    f"<body><layers><layer id='7'>{SAME}</layer></layers></body>",
]
layers = st.lists(st.sampled_from(PIECES), max_size=6).map(lambda pieces: f'<layer id="1">{"".join(pieces)}</layer>\n')
networks = st.lists(layers, max_size=6).map(lambda found: f"<net><layers>{''.join(found)}</layers></net>")


def told(element):
    return (element.tag, element.attributes, element.dims, element.text, element.at, list(map(told, element.children)))


def tree(text):
    root, source = parse(text, "model.xml")
    assert source.text == text
    return told(root)


def plain(text):
    """The same with a comment behind it, which makes the parser look at every element."""
    return tree(f"{text}<!-- -->")


@given(networks)
def test_a_network_is_the_same_as_when_every_element_is_looked_at(text):
    assert tree(text) == plain(text)


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
def test_a_broken_file_is_told_with_its_place(text):
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
