"""Ports of layers: numbers, tensor names, and claims (declared dtype and shape)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.dims import Symbol, bounds
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.openvino.container import elements
from graphport.formats.openvino.container.shapes import leading_int

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.formats.openvino.container.findings import Findings
    from graphport.formats.openvino.container.xml import Element
    from graphport.ir.graph import Value

_PLAIN = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
_NUMBER = re.compile(r"\s*\+?0*(\d{1,19})", re.ASCII)
_LARGEST = (1 << 63) - 1
_ESCAPED_COMMA = re.compile(r"(?<!\\),")


class Claim(NamedTuple):
    """Declared dtype and shape of a port; open dims are -1 until the tensor has a name."""

    fact: TensorFact
    is_open: bool

    def of(self, name: str) -> TensorFact:
        """Return the declared fact; each open dim is the symbol `name.axis`."""
        fact = self.fact
        if not self.is_open or fact.shape is None:
            return fact
        shape = tuple(Symbol(f"{name}.{axis}") if dim == -1 else dim for axis, dim in enumerate(fact.shape))
        return TensorFact(fact.dtype, shape)


class Output(NamedTuple):
    """An output port: tensor names, claim, and its index among the ports with names, or -1."""

    names: tuple[str, ...]
    claim: Claim
    place: int


class Ports(NamedTuple):
    """The ports of a layer: index of each port number among operands or results, and the claims of outputs."""

    inputs: dict[str, int]
    operands: tuple[Claim | None, ...]
    """Claim of each input port; `None` if it cannot be read."""
    results: dict[str, int]
    outputs: tuple[Output, ...]


class PortReader:
    """Reads the ports of layers; ports with equal text are parsed once."""

    def __init__(self, findings: Findings, *, names_tensors: bool) -> None:
        self._findings = findings
        self._names_tensors = names_tensors
        self._inputs: dict[Element, tuple[dict[str, int], tuple[Claim | None, ...]]] = {}
        self._outputs: dict[Element, tuple[dict[str, int], tuple[Output, ...]]] = {}
        self._ports: dict[tuple[int, ...], Ports] = {}
        self._claims: dict[tuple[str, tuple[str, ...]], Claim] = {}
        # Equal ports are one object.
        self._claimed: dict[Element, Claim] = {}
        self._numbers: dict[Element, str] = {}
        self._known_dims: set[str] = set()
        self._known_ports: dict[str, str] = {}

    def ports(self, layer: Element) -> Ports:
        """Return the ports of a layer; outputs are those of its last element `output`."""
        children = layer.children
        key = tuple(map(id, children[1:] if children and children[0].tag == "data" else children))
        found = self._ports.get(key)
        if found is None:
            found = self._ports[key] = self._read(layer)
        return found

    def _read(self, layer: Element) -> Ports:
        inputs, operands = dict[str, int](), tuple[Claim | None, ...]()
        positions, outputs = dict[str, int](), tuple[Output, ...]()
        for child in layer.children:
            if child.tag == "input":
                found, claims = self._numbered(layer, child)
                inputs = {**inputs, **{port: len(operands) + place for port, place in found.items()}}
                operands += claims
            elif child.tag == "output":
                positions, outputs = self._read_groups(layer, child)
        return Ports(inputs, operands, positions, outputs)

    def _numbered(self, layer: Element, element: Element) -> tuple[dict[str, int], tuple[Claim | None, ...]]:
        found = self._inputs.get(element)
        if found is None:
            positions = {self._port_number(layer, port): place for place, port in enumerate(element.children)}
            found = self._inputs[element] = positions, tuple(self._operand(layer, port) for port in element.children)
        return found

    def _read_groups(self, layer: Element, element: Element) -> tuple[dict[str, int], tuple[Output, ...]]:
        found = self._outputs.get(element)
        if found is None:
            positions = {self._port_number(layer, port): place for place, port in enumerate(element.children)}
            named = [port for port in element.children if self._names_tensors and "names" in port.attributes]
            order = {port: place for place, port in enumerate(named)}
            outputs = tuple(self._output(layer, port, order.get(port, -1)) for port in element.children)
            found = self._outputs[element] = positions, outputs
        return found

    def _port_number(self, layer: Element, port: Element) -> str:
        """Return the number of a port. Checks its dims, too, because the runtime refuses dims that are not numbers."""
        same = self._numbers.get(port)
        if same is not None:
            return same
        number = port.attributes.get("id", "")
        known = self._known_ports.get(number)
        if known is None:
            known = normalize_integer(number)
            if known is None:
                self._findings.error(
                    "OV0102",
                    f"port id {number[:60]!r} is not an integer of 0 or more",
                    layer,
                    "set the id to an integer",
                )
                known = number
            self._known_ports[number] = known
        for dim in port.dims or ():
            if dim not in self._known_dims:
                self._known_dims.add(dim)
                extent = leading_int(dim)
                if extent is None or not -1 <= extent <= _LARGEST:
                    message = f"{dim[:60]!r} is not a dim"
                    self._findings.error(
                        "OV0108", message, layer, "write an integer of 0 or more, or -1 for a dynamic dim"
                    )
        self._numbers[port] = known
        return known

    def _operand(self, layer: Element, port: Element) -> Claim | None:
        # Claims of input ports are optional, so unreadable ones are not reported.
        known = elements.is_element_type(elements.name_of(port.attributes.get("precision", "")))
        return self._read_claim(layer, port) if known else None

    def _output(self, layer: Element, port: Element, place: int) -> Output:
        names = split(port.attributes["names"]) if place >= 0 else ()
        return Output(names, self._read_claim(layer, port), place)

    def _read_claim(self, layer: Element, port: Element) -> Claim:
        claim = self._claimed.get(port)
        if claim is not None:
            return claim
        key = port.attributes.get("precision", ""), () if port.dims is None else tuple(port.dims)
        claim = self._claims.get(key)
        if claim is None:
            claim = self._claims[key] = self._claim(layer, *key)
        self._claimed[port] = claim
        return claim

    def _claim(self, layer: Element, precision: str, dims: tuple[str, ...]) -> Claim:
        name = elements.name_of(precision)
        if not precision:
            self._findings.error("OV0107", "missing precision of a port", layer, "set precision to FP32, I64, …")
        elif not elements.is_element_type(name):
            self._findings.error(
                "OV0107", f"unknown precision {precision[:60]!r} of a port", layer, "set precision to FP32, I64, …"
            )
        elif not elements.is_precision(precision):
            message = f"{precision!r} is not an OpenVINO precision"
            self._findings.warning("OV0107", message, layer, f"set precision to {elements.precision_of(name)}")
        dtype = elements.storage_dtype(name)
        if not dims:
            # A scalar has no dims, and neither has what may be of any rank.
            return Claim(UNKNOWN if dtype is None else TensorFact(dtype, None), is_open=False)
        shape = tuple(max(-1, leading_int(dim) or 0) for dim in dims)
        return Claim(TensorFact(dtype, shape), is_open=-1 in shape)

    def hold_together(self, layer: Element, port: str, claim: Claim, value: Value) -> None:
        """Report a difference between the claim of an input port and the tensor that it is connected to."""
        shape, fact = claim.fact.shape, value.fact
        if not isinstance(fact, TensorFact) or shape is None or fact.shape is None or shape == fact.shape:
            return
        if not _agrees(shape, fact.shape):
            message = f"input port {port[:60]} declares {claim.of(value.name)}, but {value.name} is {fact}"
            self._findings.warning("OV0112", message, layer, "correct the port; the reader ignores its declaration")

    def hold_against(self, layer: Element, output: Output, value: Value) -> None:
        """Report a difference between the port and the `data` of a Parameter or Const."""
        claim, fact = output.claim.fact, value.fact
        if claim == fact or not isinstance(fact, TensorFact) or fact.dtype is None:
            return
        if claim.dtype not in (None, fact.dtype):
            message = f"the output port declares {claim.dtype}, but the data is {fact.dtype}"
            self._findings.warning("OV0112", message, layer, "correct the port; the reader ignores its declaration")
        if claim.shape is not None and fact.shape is not None and not _agrees(claim.shape, fact.shape):
            declared = TensorFact(fact.dtype, output.claim.of(value.name).shape)
            message = f"the output port declares {declared}, but the data is {fact}"
            self._findings.warning("OV0112", message, layer, "correct the port; the reader ignores its declaration")


def normalize_integer(text: str) -> str | None:
    """Return the canonical spelling of a decimal integer (no blanks, sign or leading zeros), or `None`."""
    if _PLAIN.fullmatch(text):
        return text
    match = _NUMBER.fullmatch(text)
    return None if match is None or int(match[1]) > _LARGEST else str(int(match[1]))


def _agrees(claim: tuple[Dim, ...], shape: tuple[Dim, ...]) -> bool:
    """Whether a shape is compatible with a claim."""
    if len(claim) != len(shape):
        return False
    for stated, dim in zip(claim, shape, strict=True):
        low, high = bounds(dim)
        if not isinstance(stated, int) or -1 in (stated, dim):
            continue
        if stated < (low or 0) or (high is not None and stated > high):
            return False
    return True


def split(names: str) -> tuple[str, ...]:
    """Split tensor names at commas; a comma that belongs to a name is escaped by a backslash."""
    if "," not in names:
        return (names,) if names else ()
    found = (name.replace("\\,", ",") for name in _ESCAPED_COMMA.split(names))
    return tuple(name for name in found if name)
