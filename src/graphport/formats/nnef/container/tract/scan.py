"""Import of `tract_core_scan`, a loop over slices with a fragment as body, as ONNX Scan.

A slice of tract keeps the scanned axis with `chunk` entries; ONNX removes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.facts import UNKNOWN
from graphport.formats.nnef.container.tract.argument_values import rows
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.formats.nnef.container.syntax import Call
    from graphport.formats.nnef.container.tract.node_builder import GraphBuilder
    from graphport.formats.nnef.container.tract.parser import Fragment

_OTHER = re.compile(r"[^A-Za-z0-9_]")


class _Scanned(NamedTuple):
    parameter: str
    value: Any
    axis: int
    chunk: int


class _State(NamedTuple):
    parameter: str
    initial: Any
    result: str


class _Output(NamedTuple):
    result: str
    kind: str
    axis: int
    chunk: int


def scanned(at: GraphBuilder, given: Mapping[str, Any], node: Call, depth: int) -> list[Value]:
    """Import a scan with evaluated arguments, in a fragment of nesting `depth`.

    Raises:
        DiagnosticError: NNEF0904, its body is not a fragment, or ONNX has no equivalent.
    """
    fragment = at.document.fragments.get(str(given.get("body")))
    if fragment is None or fragment.body is None:
        raise at.fault(
            "NNEF0904",
            f"body '{given.get('body')}' is not a fragment with a body",
            node,
            "set body to the name of a fragment",
        )
    unsupported = [name for name in ("skip", "reset_every_turn") if given.get(name)]
    if unsupported:
        raise at.fault("NNEF0904", f"unsupported scan attribute {unsupported[0]} = {given[unsupported[0]]}", node)

    def of(name: str, kinds: Sequence[type], least: int) -> list[tuple[Any, ...]]:
        return at.checked(lambda: rows(given.get(name, []), kinds, least, name), node)

    scans = [_Scanned(*row) for row in of("scan", (str, object, int, int), 2)]
    states = [_State(*row) for row in of("state", (str, object, str), 3)]
    outputs = [_Output(*row) for row in of("output", (str, str, int, int), 2)]
    full = [(name, at.tensor(value)) for name, value in of("full", (str, object), 2)]
    if not all(each.chunk for each in (*scans, *outputs)):
        raise at.fault(
            "NNEF0904",
            "the chunk size of a scan is 0",
            node,
            "set the last item of the tuple, the chunk size, to a nonzero value",
        )
    if not scans:
        raise at.fault("NNEF0904", "a scan without scanned tensors", node, "list at least one tensor in scan")
    return _Builder(at, fragment, scans, states, outputs, node, depth).results(full)


def _are_equal(one: str, other: str) -> bool:
    return one == other or _OTHER.sub("_", one) == _OTHER.sub("_", other)


class _Builder:
    def __init__(
        self,
        at: GraphBuilder,
        fragment: Fragment,
        scans: Sequence[_Scanned],
        states: Sequence[_State],
        outputs: Sequence[_Output],
        node: Call,
        depth: int,
    ) -> None:
        self._at = at
        self._fragment = fragment
        self._scans = scans
        self._states = states
        self._outputs = outputs
        self._node = node
        self._depth = depth

    def results(self, full: Sequence[tuple[str, Value]]) -> list[Value]:
        at = self._at
        initial = [at.tensor(state.initial) for state in self._states]
        entries = [self._scan_operand(scan) for scan in self._scans]
        body, stacked = self._body(full)
        chunks = [self._outputs[place].chunk for place in stacked]
        attributes: dict[str, Any] = {
            "body": body,
            "num_scan_inputs": len(self._scans),
            "scan_input_axes": tuple(scan.axis for scan in self._scans),
            "scan_input_directions": tuple(int(scan.chunk < 0) for scan in self._scans),
            "scan_output_axes": tuple(self._outputs[place].axis for place in stacked),
            "scan_output_directions": tuple(int(chunk < 0) for chunk in chunks),
        }
        count = len(self._states) + len(stacked)
        values = at.node("Scan", [*initial, *entries], count, dialect="", **attributes)
        return [self._output(place, values, stacked) for place in range(len(self._outputs))]

    def _scan_operand(self, scan: _Scanned) -> Value:
        """The operand of ONNX's Scan, whose entries along the axis are the slices."""
        value = self._at.tensor(scan.value)
        if abs(scan.chunk) == 1:
            return value
        return self._at.node("chunked", [value], 1, dialect="tract", axis=scan.axis, chunk=abs(scan.chunk))[0]

    def _body(self, full: Sequence[tuple[str, Value]]) -> tuple[Graph, list[int]]:
        """Return the body, and the indices of its results after the states."""
        at, outer = self._at, self._at.graph
        body = Graph(self._fragment.name)
        outer.share_names(body)
        names: dict[str, Any] = {}
        for state in self._states:
            names[self._formal(state.parameter)] = self._input(body, state.parameter)
        slices = [(scan, self._input(body, scan.parameter)) for scan in self._scans]
        for parameter, value in full:
            names[self._formal(parameter)] = value
        body.parent = None
        at.graph, before = body, outer
        try:
            for scan, entry in slices:
                is_one = abs(scan.chunk) == 1
                axes = at.tensor([scan.axis])
                names[self._formal(scan.parameter)] = (
                    at.node("Unsqueeze", [entry, axes], 1, dialect="")[0] if is_one else entry
                )
            found = at.expanded(self._fragment, names, self._depth + 1, self._node)
            several = found if len(self._fragment.results) > 1 else [found]
            results = dict(zip(self._fragment.results, several, strict=True))
            carried = [at.tensor(self._result(results, state.result)) for state in self._states]
            stacked = [place for place, output in enumerate(self._outputs) if not self._is_state(output)]
            ends = [self._stacked(self._result(results, self._outputs[place].result), place) for place in stacked]
        finally:
            at.graph = before
        body.set_outputs([self._body_output(body, value) for value in [*carried, *ends]])
        return body, stacked

    def _body_output(self, body: Graph, value: Value) -> Value:
        """Copy a body output that is an input or an outer value."""
        copy = Value(self._at.graph.fresh(value.name), UNKNOWN)
        body.append(Node("Identity", [value], [copy]))
        return copy

    def _input(self, body: Graph, name: str) -> Value:
        return body.adopt_input(Value(self._at.graph.fresh(name), UNKNOWN))

    def _formal(self, parameter: str) -> str:
        for formal in self._fragment.formals:
            if _are_equal(formal.name, parameter):
                return formal.name
        message = f"unknown parameter '{parameter}' of '{self._fragment.name}'"
        raise self._at.fault("NNEF0326", message, self._node)

    def _result(self, results: Mapping[str, Any], name: str) -> Any:
        for result, value in results.items():
            if _are_equal(result, name):
                return value
        raise self._at.fault("NNEF0904", f"unknown result '{name}' of '{self._fragment.name}'", self._node)

    def _is_state(self, output: _Output) -> bool:
        return output.kind == "last" and self._state_of(output) is not None

    def _state_of(self, output: _Output) -> int | None:
        return next((i for i, state in enumerate(self._states) if _are_equal(state.result, output.result)), None)

    def _stacked(self, value: Any, place: int) -> Value:
        output = self._outputs[place]
        tensor = self._at.tensor(value)
        if abs(output.chunk) != 1 or output.kind == "last":
            return tensor
        return self._at.node("Squeeze", [tensor, self._at.tensor([output.axis])], 1, dialect="")[0]

    def _output(self, place: int, values: Sequence[Value], stacked: Sequence[int]) -> Value:
        at, output = self._at, self._outputs[place]
        state = self._state_of(output)
        if output.kind == "last" and state is not None:
            return values[state]
        value = values[len(self._states) + list(stacked).index(place)]
        if output.kind == "last":
            end = 0 if output.chunk < 0 else -1
            return at.node("Gather", [value, at.tensor(end)], 1, dialect="", axis=output.axis)[0]
        if abs(output.chunk) == 1:
            return value
        return at.node("joined", [value], 1, dialect="tract", axis=output.axis)[0]
