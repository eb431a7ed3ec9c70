"""Names of a model are text in pages and drawings: no element, attribute or reference comes from them."""

from __future__ import annotations

import random
import re
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from tests.draws import times
from tests.models import model, node

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src="http://example.org/x" onerror="alert(1)">',
    "'><a href='javascript:alert(1)'>",
    "<svg onload=alert(1)>",
    "]]><!--",
    "&#x3c;script&#x3e;",
    "<foreignObject><iframe src=//example.org>",
)


class Elements(HTMLParser):
    """The names of elements and attributes, and the references, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.references: set[str] = set()
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.names |= {tag, *(name for name, _ in attrs)}
        self.references |= {value or "" for name, value in attrs if name in {"src", "href", "xlink:href", "action"}}


def report(name: str) -> gp.Report:
    nodes = [
        node("MatMul", [f"x{name}", "w"], [f"h{name}"], name=name),
        node("Relu", [f"h{name}"], [f"y{name}"], name=f"{name}2"),
    ]
    made = model(nodes, [(f"x{name}", [2, 3])], [(f"y{name}", [2, 3])], {"w": np.eye(3, dtype=np.float32)})
    made.graph.name = made.doc_string = name
    return gp.report(gp.from_onnx(made))


@pytest.mark.parametrize("name", ["\x1b[2J", "\x00", "\x85\u202e", "\ud800", "a&<b>\n"])
def test_svg_is_well_formed_xml(name):
    graph = Graph(name)
    x = graph.add_input(f"x{name}", TensorFact(DType.FLOAT32, (2,)))
    y = Value(f"y{name}", x.fact)
    graph.append(Node("Relu", [x], [y], name=name))
    graph.add_output(y)
    drawing = gp.report(gp.Model(graph, format="onnx")).svg()
    assert ET.fromstring(drawing).tag.endswith("svg")  # noqa: S314  a drawing of ours


@pytest.mark.parametrize("view", ["html", "svg"])
def test_names_add_no_element_attribute_or_reference(view):
    plain = Elements(report("plain").text(view))
    # A slash opens a scope, which is drawn.
    usual = plain.names | Elements(report("scope/plain").text(view)).names
    for name in HOSTILE:
        found = Elements(report(name).text(view))
        assert found.names <= usual, name
        assert found.scripts == plain.scripts, name
        assert all(each.startswith("#") for each in found.references), found.references


PIECES = (
    *HOSTILE,
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\u009b",
    "\ud800",
    "\ufffe",
    "&",
    "<",
    ">",
    '"',
    "'",
    "-->",
    "\n",
    "\t",
    "%s",
)


def drawing(name: str) -> str:
    """A drawing of one node in which all names are `name`."""
    graph = Graph(name)
    x = graph.add_input(f"x{name}", TensorFact(DType.FLOAT32, (2,)))
    y = Value(f"y{name}", x.fact)
    graph.append(Node("Relu", [x], [y], name=name))
    graph.add_output(y)
    return gp.report(gp.Model(graph, format="onnx")).svg()


def elements(text: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """How often each element occurs, with the names of its attributes."""
    return Counter((each.tag, tuple(sorted(each.attrib))) for each in ET.fromstring(text).iter())  # noqa: S314


def test_random_names_add_no_element_or_attribute_to_a_drawing():
    draw = random.Random(40)
    usual = elements(drawing("plain"))
    for _ in range(times(100)):
        name = "".join(draw.choices(PIECES, k=draw.randint(1, 5)))
        name = re.sub("/", "|", name)  # a slash opens a scope, which is drawn
        assert elements(drawing(name)) == usual, name
