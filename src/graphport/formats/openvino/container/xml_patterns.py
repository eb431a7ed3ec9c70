"""The plainest spelling of layers and edges, in which all of OpenVINO's writers write: read without a parser."""

from __future__ import annotations

import re

from graphport.formats.openvino.container.xml import PLAIN, Element

BLANK = " \t\r\n"
_LAYER = rf'<layer id="(0|[1-9]\d{{0,17}})" name="({PLAIN.pattern})" type="(\w{{1,64}})" version="(\w{{1,64}})">'
LAYER = re.compile(_LAYER, re.ASCII)
NEXT_LAYER = re.compile(rf"[{BLANK}]*+{_LAYER}", re.ASCII)
"""A layer at exactly the current position."""
LAYER_TAG = len('<layer id="')
"""Number of characters before a layer's id."""
LAYER_END = "</layer>"
STATED = re.compile(rf' ([A-Za-z_][\w.-]*+)="({PLAIN.pattern})"', re.ASCII)
DATA = re.compile(rf"[{BLANK}]*+<data((?:{STATED.pattern})++) ?/>", re.ASCII)
CONSTANT = re.compile(
    rf'[{BLANK}]*+<data element_type="(\w{{1,64}})" shape="([\d, ]*+)" offset="(\d{{1,18}})" size="(\d{{1,18}})" ?/>',
    re.ASCII,
)
"""The `data` of a constant as OpenVINO writes it."""
EDGE = re.compile(
    r'<edge from-layer="(\d{1,18})" from-port="(\d{1,18})" to-layer="(\d{1,18})" to-port="(\d{1,18})" ?/>', re.ASCII
)
EDGES = re.compile(rf"<edges>(?:[{BLANK}]*+{EDGE.pattern})++[{BLANK}]*+</edges>", re.ASCII)

_DIM = re.compile(r"(?<=<dim>)-?\d{1,19}(?=</dim>)", re.ASCII)
_PORT = re.compile(
    rf'<port id="(\d{{1,18}})" precision="(\w{{1,64}})"(?: names="(?!")({PLAIN.pattern})")?'
    rf"(?: ?/>|>((?:[{BLANK}]*+<dim>-?\d{{1,19}}</dim>)*+)[{BLANK}]*+</port>)",
    re.ASCII,
)
_GROUP = re.compile(rf"[{BLANK}]*+(<(input|output)>((?:[{BLANK}]*+{_PORT.pattern})*+)[{BLANK}]*+</\2>)", re.ASCII)

MOST_KNOWN = 4096
"""Spellings that are remembered."""

Known = dict[str, tuple[Element, int]]
"""Groups of ports by their text, and the number of elements in each."""


Ports = dict[tuple[str, str, str, str], Element]
"""Ports by number, precision, names and the text of their dims."""


def children(text: str, begin: int, end: int, known: Known, ports: Ports) -> tuple[list[Element], int] | None:
    """Return the children of a layer and the number of elements, if they are `data` and ports in standard form.

    `known` and `ports` are shared by all layers and grow up to `MOST_KNOWN` groups.
    """
    found: list[Element] = []
    count = 0
    data = DATA.match(text, begin, end)
    if data is not None:
        stated = STATED.findall(data[1])
        element = Element("data", dict(stated))
        if len(element.attributes) < len(stated):
            return None
        found.append(element)
        count, begin = 1, data.end()
    while True:
        group = _GROUP.match(text, begin, end)
        if group is None:
            break
        begin = group.end()
        text_of_group = group[1]
        same = known.get(text_of_group)
        if same is None:
            same = _group(group[2], group[3], ports), text_of_group.count("<") - text_of_group.count("</")
            if len(known) < MOST_KNOWN:
                known[text_of_group] = same
        found.append(same[0])
        count += same[1]
    return None if text[begin:end].strip(BLANK) else (found, count)


def _group(tag: str, ports_text: str, ports: Ports) -> Element:
    group = Element(tag)
    for stated in _PORT.findall(ports_text):
        port = ports.get(stated)
        if port is None:
            number, precision, names, dims = stated
            port = Element("port", {"id": number, "precision": precision})
            if names:
                port.attributes["names"] = names
            else:
                # Most ports without names are equal to an earlier one.
                ports[stated] = port
            if dims:
                port.dims = _DIM.findall(dims)
        group.children.append(port)
    return group
