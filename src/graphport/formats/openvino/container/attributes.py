"""Op type and attributes of a layer, from its type, version and `data`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphport.formats.openvino.container import operators
from graphport.ir.attributes import PlainAttributes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats.openvino.container.findings import Findings
    from graphport.formats.openvino.container.operators import Operator
    from graphport.formats.openvino.container.xml import Element
    from graphport.ir.graph import Attribute

_EXACT = {"const": "Const", "constant": "Const"}


class Complaint(NamedTuple):
    """A finding about attributes, reported for each layer that shares them."""

    is_error: bool
    code: str
    message: str
    help: str | None

    def report(self, findings: Findings, layer: Element) -> None:
        """Report the finding at a layer."""
        (findings.error if self.is_error else findings.warning)(self.code, self.message, layer, self.help)


class LayerAttributes(NamedTuple):
    """Op type and attributes of a layer, and the findings about their spelling."""

    op_type: str
    attributes: Mapping[str, Attribute]
    complaints: tuple[Complaint, ...]


def attributes(type: str, version: str, data: Mapping[str, str]) -> LayerAttributes:
    """Read the op type and attributes of a layer of that type and version from `data`."""
    complaints: list[Complaint] = []
    operator = operators.operator(type, version)
    exact = _EXACT.get(type.lower())
    if exact is not None:
        complaints.append(Complaint(True, "OV0201", f"unknown layer type {type!r}", f"write {exact}"))  # noqa: FBT003
    elif type.lower() == "result":
        remedy = "write Result, otherwise the layer is not an output"
        complaints.append(Complaint(False, "OV0201", f"a layer of type {type!r} is not an output", remedy))  # noqa: FBT003
    if operator is None:
        remedy = "correct the type or version; the reader keeps the layer unchanged"
        message = f"unknown operation {type[:60]!r} in {version[:60]}"
        complaints.append(Complaint(False, "OV0201", message, remedy))  # noqa: FBT003
        kept = PlainAttributes({name.replace("-", "_"): text for name, text in data.items()})
        return LayerAttributes(f"{version}.{type}", kept, tuple(complaints))
    number = operators.set_of(version)
    if number is not None and number > operator.last:
        message = f"{version} has no {operator.type}; the reader uses the version of opset{operator.last}"
        complaints.append(Complaint(False, "OV0201", message, f"set version to opset{operator.first}"))  # noqa: FBT003
    return LayerAttributes(operator.op_type, _typed(operator, data, complaints), tuple(complaints))


def _typed(operator: Operator, data: Mapping[str, str], complaints: list[Complaint]) -> PlainAttributes:
    """Return the value of every attribute of the operation: the file's value, else its default."""
    attributes = PlainAttributes(operator.defaults)
    known = {keyword.spelling: keyword for keyword in operator.keywords}
    for spelling, text in data.items():
        keyword = known.get(spelling)
        if keyword is None:
            message = f"unknown attribute {spelling[:60]!r} of {operator.type} is ignored"
            complaints.append(Complaint(False, "OV0205", message, None))  # noqa: FBT003
            continue
        try:
            attributes[keyword.name] = operators.read(keyword, text)
        except operators.UnreadableError as error:
            # OpenVINO ignores a malformed bool and uses the default; of a malformed number it uses the leading digits.
            if error.taken is not None:
                attributes[keyword.name] = error.taken
            is_error = keyword.kind != "bool" and error.taken is None
            taken = keyword.text if error.taken is None else operators.format_attribute(keyword, error.taken)
            remedy = None if is_error else f"correct the value; the reader uses {taken}"
            complaints.append(Complaint(is_error, "OV0203", f"{spelling}: {error}", remedy))
    for keyword in operator.keywords:
        if keyword.spelling in data:
            continue
        if keyword.text is None and not _is_padded(keyword.spelling, attributes):
            message = f"missing required attribute {keyword.spelling} of {operator.type}"
            complaints.append(Complaint(True, "OV0202", message, f"add {keyword.spelling}=…"))  # noqa: FBT003
        elif (operator.type, keyword.spelling) == ("Reshape", "special_zero"):
            message = "missing required attribute special_zero of Reshape"
            complaints.append(Complaint(False, "OV0202", message, "add special_zero; the reader uses false"))  # noqa: FBT003
    rule = attributes.get("auto_broadcast")
    if rule is not None and rule != "pdpd":
        del attributes["auto_broadcast_axis"]
    if rule == "numpy":
        del attributes["auto_broadcast"]
    return attributes


def _is_padded(spelling: str, attributes: PlainAttributes) -> bool:
    """Whether padding amounts may be absent because `auto_pad` computes them."""
    return spelling.startswith("pads_") and attributes.get("auto_pad", "explicit") not in ("explicit", "notset")
