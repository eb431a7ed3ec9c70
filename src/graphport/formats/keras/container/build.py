"""Calls of layers as nodes: models inside of models are inlined, masks are made where a layer reads them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from graphport.core import budget
from graphport.core.dims import Symbol
from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.formats.keras.container.arguments import (
    Call,
    Reference,
    Slice,
    flatten,
    map_leaves,
    read_calls,
    read_ports,
)
from graphport.formats.keras.container.config import INPUT, OPERATION, LayerConfig, freeze
from graphport.formats.keras.container.findings import EXPORT
from graphport.formats.keras.rules.binding import DIALECT, DTYPES, LAYERS, OPERANDS, X
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.formats.keras.container.findings import Findings
    from graphport.formats.keras.rules.binding import LayerType
    from graphport.ir.graph import Attribute

MAX_NODES = 100_000
"""Nodes of one graph; models that call a model several times multiply its nodes."""
_MAX_DIM = 1 << 40
"""Largest dim of an input."""
_HELP = "save the model again with Keras"
_IDENTITY = "Identity"
_ATTENDED = ("query", "value", "key")
"""Operands of attention, whose masks are operands of their own."""
_UNUSED = ("name", "training", "mask", "dtype", "out", "given_masks", "validate_indices", "preserve_aspect_ratio")
"""Arguments of calls that change nothing."""
_TRAINS = ("Dropout", "SpatialDropout", "Gaussian", "AlphaDropout", "BatchNormalization", "Random")
"""How the names of classes begin that compute something else in training."""


class Mask:
    """A mask of a tensor; its node is created when a layer reads it."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._value: Value | None = None

    @classmethod
    def of(cls, value: Value) -> Mask:
        """A mask that is in the graph."""
        return cls(lambda: value)

    @property
    def value(self) -> Value:
        """The mask as a value of the graph."""
        if self._value is None:
            self._value = self._make()
        return self._value


@dataclass(slots=True)
class Tensor:
    """A tensor of the model: a value of the graph and its mask, which attention removes in Keras 3."""

    value: Value
    mask: Mask | None = None


@dataclass(slots=True)
class _Bound:
    """Arguments of a call by the parameters of the layer."""

    tensors: list[tuple[str, Tensor]] = field(default_factory=list["tuple[str, Tensor]"])
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def of(self, role: str) -> list[Tensor]:
        """The tensors of a role."""
        return [tensor for name, tensor in self.tensors if name == role]


class GraphBuilder:
    """Builds the graph of one file."""

    def __init__(self, findings: Findings, version: int) -> None:
        self.graph = Graph()
        self._findings = findings
        self._version = version
        self._constants: dict[tuple[int, str], Value] = {}

    def build(self, model: LayerConfig) -> Graph:
        """The graph of a model.

        Raises:
            DiagnosticError: KERAS0401 to KERAS0405, the calls of its layers are invalid.
        """
        self.graph.name = model.name
        inputs = [self._input(each) for each in self._input_layers(model)]
        outputs = self._run_model(model, inputs, "")
        named = self._output_names(model, len(outputs))
        for tensor, name in zip(outputs, named, strict=True):
            value = tensor.value
            if value.is_output or value.producer is None:
                value = self.emit(_IDENTITY, [(X, value)], {}, name, model.location)[0]
            if value.name != name:
                self.graph.rename(value, self.graph.fresh(name))
            self.graph.add_output(value)
        return self.graph

    # Inputs and outputs

    def _input_layers(self, model: LayerConfig) -> list[LayerConfig]:
        """The inputs of a model in order; the first layer of a `Sequential` may declare it."""
        if model.class_name != "Sequential":
            by_name = {each.name: each for each in model.layers}
            found = [by_name.get(each.layer) for each in self._ports(model, "input_layers")]
            if not found or any(each is None for each in found):
                self._findings.refuse("KERAS0401", f"{model.name!r} has no inputs", model.location, _HELP)
            return [each for each in found if each is not None]
        first = model.layers[0] if model.layers else None
        if first is not None and first.class_name == INPUT:
            return [first]
        shape = model.options.get("build_input_shape")
        options: Mapping[str, Any] = {} if first is None else first.options
        shape = options.get("batch_input_shape") or options.get("batch_shape") or shape
        if first is not None and shape is None and first.is_model:
            return self._input_layers(first)
        if shape is None:
            message = f"{model.name!r} does not declare the shape of its input"
            self._findings.refuse(
                "KERAS0401", message, model.location, "call the model once on data before you save it"
            )
        dtype = options.get("dtype") if isinstance(options.get("dtype"), str) else "float32"
        if first is not None and first.class_name == "Embedding":
            dtype = "float32" if self._version < 3 else "int32"
        name = f"{first.name if first is not None else model.name}_input"
        return [LayerConfig(INPUT, name, {"batch_shape": shape, "dtype": dtype})]

    def _input(self, layer: LayerConfig) -> Tensor:
        options = layer.options
        shape = options.get("batch_shape", options.get("batch_input_shape"))
        dtype = options.get("dtype") or "float32"
        if options.get("sparse") or options.get("ragged"):
            message = f"unsupported: the input {layer.name!r} is sparse or ragged"
            self._findings.refuse("KERAS0402", message, layer.location, "save the model with dense inputs")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            message = f"unsupported: the input {layer.name!r} is of type {dtype!r}"
            self._findings.refuse("KERAS0402", message, layer.location, EXPORT)
        if not is_sequence(shape):
            self._findings.refuse("KERAS0402", f"the input {layer.name!r} has no shape", layer.location, _HELP)
        dims: list[Dim] = []
        for axis, dim in enumerate(shape):
            if dim is None:
                dims.append(Symbol("batch" if axis == 0 else f"{layer.name}_{axis}"))
            elif isinstance(dim, int) and not isinstance(dim, bool) and 0 < dim <= _MAX_DIM:
                dims.append(dim)
            else:
                message = f"dim {axis} of the input {layer.name!r} is {str(dim)[:40]}"
                self._findings.refuse("KERAS0402", message, layer.location, f"use dims from 1 to {_MAX_DIM}")
        fact = TensorFact(DTYPES[dtype], tuple(dims))
        return Tensor(self.graph.add_input(layer.name, fact, origin=self._findings.span(layer.location)))

    def _ports(self, model: LayerConfig, key: str) -> list[Reference]:
        return [each for each in flatten(read_ports(model.options.get(key))) if isinstance(each, Reference)]

    def _output_names(self, model: LayerConfig, count: int) -> list[str]:
        if model.class_name != "Sequential":
            return [each.layer for each in self._ports(model, "output_layers")]
        last = model.layers[-1].name if model.layers else model.name
        return [last] * count

    # Models

    def _run_model(self, model: LayerConfig, inputs: Sequence[Tensor], scope: str) -> list[Tensor]:
        """The outputs of a model for its inputs."""
        if model.class_name == "Sequential":
            found = list(inputs)
            for each in model.layers:
                if each.class_name != INPUT:
                    found = self.call(each, Call((found[0] if len(found) == 1 else found,), {}), scope)
            return found
        return self._run_functional(model, inputs, scope)

    def _run_functional(self, model: LayerConfig, inputs: Sequence[Tensor], scope: str) -> list[Tensor]:
        names = {each.name: each for each in model.layers}
        ports = self._ports(model, "input_layers")
        if len(ports) != len(inputs):
            message = f"{model.name!r} has {len(ports)} inputs, but the call passes {len(inputs)}"
            self._findings.refuse("KERAS0403", message, model.location, _HELP)
        results: dict[tuple[str, int], list[Tensor]] = {}
        for port, tensor in zip(ports, inputs, strict=True):
            results[port.layer, 0] = [tensor]
        calls = {each.name: read_calls(each.inbound, names) for each in model.layers}
        outputs = self._ports(model, "output_layers")
        for each in outputs:
            self._check_name(model, each, names)
        references = [each for listed in calls.values() for call in listed for each in call.references]
        _count_slices(names, [*references, *outputs])
        shifts = self._shifts(model, calls)
        order = self._order(model, calls, shifts, set(results))
        if self._version >= 3:
            needed = self._needed(names, calls, shifts)
            order = execution_order([self._key(names, each, shifts, is_port=True) for each in outputs], needed, order)

        def resolve(reference: Reference, *, is_port: bool = False) -> Tensor:
            found = results.get(self._key(names, reference, shifts, is_port=is_port), [])
            if not 0 <= reference.index < len(found):
                message = f"call {reference.node} of {reference.layer!r} has no output {reference.index}"
                self._findings.refuse("KERAS0403", message, model.location, _HELP)
            return found[reference.index]

        for name, node in order:
            call = calls[name][node]
            args, kwargs = (
                map_leaves(each, lambda leaf: resolve(leaf) if isinstance(leaf, Reference) else leaf)
                for each in (call.args, call.kwargs)
            )
            results[name, node] = self.call(names[name], Call(tuple(args), kwargs), scope)
        return [resolve(each, is_port=True) for each in outputs]

    def _check_name(self, model: LayerConfig, reference: Reference, names: Mapping[str, LayerConfig]) -> None:
        if reference.layer not in names:
            message = f"{model.name!r} uses the undefined layer {reference.layer!r}"
            self._findings.refuse("KERAS0403", message, model.location, _HELP)

    def _shifts(self, model: LayerConfig, calls: Mapping[str, list[Call]]) -> dict[str, int]:
        """Return 1 for each nested model whose first use is call 1: Keras 2 counts its construction as call 0."""
        names = {each.name: each for each in model.layers}
        used: dict[str, set[int]] = {}
        for each in calls.values():
            for call in each:
                for reference in call.references:
                    self._check_name(model, reference, names)
                    used.setdefault(reference.layer, set()).add(reference.node)
        if self._version < 3:
            for reference in self._ports(model, "output_layers"):
                used.setdefault(reference.layer, set()).add(reference.node)
        return {
            name: 1
            for name, nodes in used.items()
            if name in names and names[name].is_model and 0 not in nodes and max(nodes) == len(calls[name])
        }

    def _node_index(self, layer: LayerConfig, reference: Reference, shifts: Mapping[str, int], *, is_port: bool) -> int:
        if is_port and self._version >= 3:
            return max(reference.node - (layer.class_name == "Functional"), 0)
        return reference.node - shifts.get(reference.layer, 0)

    def _key(
        self, names: Mapping[str, LayerConfig], reference: Reference, shifts: Mapping[str, int], *, is_port: bool
    ) -> tuple[str, int]:
        """The layer and the index of the call that computes a tensor."""
        return reference.layer, self._node_index(names[reference.layer], reference, shifts, is_port=is_port)

    def _needed(
        self, names: Mapping[str, LayerConfig], calls: Mapping[str, list[Call]], shifts: Mapping[str, int]
    ) -> dict[tuple[str, int], list[tuple[str, int]]]:
        """The calls whose results each call reads, in the order of its arguments."""
        return {
            (name, node): [self._key(names, each, shifts, is_port=False) for each in call.references]
            for name, listed in calls.items()
            for node, call in enumerate(listed)
        }

    def _order(
        self,
        model: LayerConfig,
        calls: Mapping[str, list[Call]],
        shifts: Mapping[str, int],
        given: set[tuple[str, int]],
    ) -> list[tuple[str, int]]:
        """The calls of a model in topological order."""
        names = {each.name: each for each in model.layers}
        waiting: dict[tuple[str, int], set[tuple[str, int]]] = {}
        readers: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for name, each in calls.items():
            for node, call in enumerate(each):
                needed = {self._key(names, each, shifts, is_port=False) for each in call.references}
                key = (name, node)
                if key in given:
                    continue
                waiting[key] = needed - given
                for one in waiting[key]:
                    readers.setdefault(one, []).append(key)
        ready = deque(key for key, needed in waiting.items() if not needed)
        order: list[tuple[str, int]] = []
        while ready:
            key = ready.popleft()
            order.append(key)
            for reader in readers.get(key, ()):
                waiting[reader].discard(key)
                if not waiting[reader]:
                    ready.append(reader)
        if len(order) < len(waiting):
            name = next(key for key, needed in waiting.items() if needed)[0]
            message = f"cyclic or undefined input of the call of {name!r} in {model.name!r}"
            self._findings.refuse("KERAS0403", message, names[name].location, _HELP)
        return order

    # Layers

    def call(self, layer: LayerConfig, call: Call, scope: str) -> list[Tensor]:
        """The results of a layer."""
        inner = f"{scope}{layer.name}/"
        if layer.is_model:
            return self._run_model(layer, self._model_inputs(layer, call), inner)
        match layer.class_name:
            case "SpectralNormalization":
                return self.call(layer.parts["layer"], call, inner)
            case "TimeDistributed":
                return self._time_distributed(layer, call, inner)
            case "Bidirectional":
                return self._bidirectional(layer, call, inner)
            case "StackedRNN":
                return self._stacked(layer, call, inner)
            case _:
                return self._layer(layer, call, scope)

    def _model_inputs(self, model: LayerConfig, call: Call) -> list[Tensor]:
        """The arguments of a model in the order of its inputs; a dictionary has them by name."""
        given = call.args[0] if len(call.args) == 1 else call.args
        if not call.args and call.kwargs.get("inputs") is not None:
            given = call.kwargs["inputs"]
        if isinstance(given, dict):
            given = cast("dict[str, Any]", given)
            ports = read_ports(model.options.get("input_layers"))
            keys = (
                list(cast("dict[str, Any]", ports))
                if isinstance(ports, dict)
                else [each.layer for each in flatten(ports)]
            )
            if set(keys) <= set(given):
                given = [given[key] for key in keys]
        found = [each for each in flatten(given) if isinstance(each, Tensor)]
        for tensor, mask in zip(found, flatten(call.kwargs.get("mask")), strict=False):
            if isinstance(mask, Tensor):
                tensor.mask = Mask.of(mask.value)
        return found

    def _layer(self, layer: LayerConfig, call: Call, scope: str) -> list[Tensor]:
        """A layer as a node."""
        known = LAYERS[layer.class_name]
        bound = self._bind(layer, known, call)
        options = {**layer.attributes}
        options.update({key: freeze_argument(value) for key, value in bound.options.items() if value is not None})
        operands = [(role, tensor.value) for role, tensor in bound.tensors]
        if known.takes_mask:
            operands += self._masks(bound)
        operands += [(role, self._constant(layer, role)) for role in layer.weights]
        effective = {**known.options, **options}
        count = known.count(effective)
        if count < 1 or (known.mask == "make" and not bound.tensors):
            message = f"{layer.name!r} has {len(bound.tensors)} inputs and {count} results"
            self._findings.refuse("KERAS0403", message, layer.location, _HELP)
        values = self.emit(layer.class_name, operands, options, f"{scope}{layer.name}", layer.location, count)
        results = self._with_masks(layer, known, bound, values, effective)
        if layer.class_name == "MultiHeadAttention" and self._version >= 3:
            # Keras removes the masks of the operands: residual connections do not propagate them.
            for role, tensor in bound.tensors:
                if role in _ATTENDED:
                    tensor.mask = None
        return results

    def _bind(self, layer: LayerConfig, known: LayerType, call: Call) -> _Bound:
        """The arguments of a call by name: tensors, and options of the call."""
        if len(call.args) > len(known.call) and not layer.class_name.startswith(OPERATION):
            # A merge of Keras 3 in a legacy file passes each operand as a separate argument.
            call = Call(([*call.args],), call.kwargs)
        if layer.class_name == f"{OPERATION}Einsum" and layer.function is None:
            # Each operand is a separate argument.
            call = Call(([each for each in flatten(call.args) if isinstance(each, Tensor)],), call.kwargs)
        bound = _Bound()
        function = layer.function
        parameters = known.call if function is None else function.parameters
        given = dict(zip(parameters, call.args, strict=False))
        for key, value in call.kwargs.items():
            name = key if function is None else function.renames.get(key, key)
            given[parameters[0] if name in ("inputs", "sequences") and name not in known.call else name] = value
        for name, value in given.items():
            tensors = [each for each in flatten(value) if isinstance(each, Tensor)]
            if name == "training":
                self._check_training(layer, value)
            elif name == "mask" and not known.takes_mask:
                continue
            elif not tensors:
                bound.options[name] = value
            elif name in known.call or name in known.options or name == "mask":
                bound.tensors += [(name, each) for each in tensors]
                if is_sequence(value) and len(tensors) < len(value) and name != "mask":
                    bound.options[name] = _pattern(value)
                elif name == "mask" and is_sequence(value):
                    bound.options["given_masks"] = tuple(isinstance(each, Tensor) for each in value)
            else:
                message = f"unsupported: the argument {name!r} of the class {layer.class_name!r}"
                self._findings.refuse("KERAS0404", message, layer.location, EXPORT)
        bound.options = {
            key: value for key, value in bound.options.items() if self._is_known_option(layer, known, key, value)
        }
        return bound

    def _is_known_option(self, layer: LayerConfig, known: LayerType, key: str, value: Any) -> bool:
        if key in known.options:
            return True
        if value is None or value is False or key in _UNUSED:
            return False
        message = f"unsupported: the argument {key!r} of the class {layer.class_name!r}"
        return self._findings.refuse("KERAS0404", message, layer.location, EXPORT)

    def _check_training(self, layer: LayerConfig, value: Any) -> None:
        """Refuse a call that always trains: in Keras 3 the mode of the model prevails over that of the call."""
        if self._version >= 3 or value not in (True, 1) or not layer.class_name.startswith(_TRAINS):
            return
        message = f"unsupported: {layer.name!r} is called with training=True, as in training"
        self._findings.refuse("KERAS0404", message, layer.location, "call the layer without training=True")

    def _constant(self, layer: LayerConfig, role: str) -> Value:
        key = (id(layer), role)
        if key not in self._constants:
            storage = layer.weights[role]
            name = f"{layer.name}.{role.replace('/', '.')}"
            origin = self._findings.span(layer.location)
            self._constants[key] = self.graph.add_constant(name, TensorFact.of(storage), storage, origin=origin)
        return self._constants[key]

    def emit(
        self,
        op_type: str,
        operands: Iterable[tuple[str, Value]],
        options: Mapping[str, Attribute],
        name: str,
        place: str,
        count: int = 1,
    ) -> list[Value]:
        """The results of a new node.

        Raises:
            DiagnosticError: KERAS0405 there are too many nodes.
        """
        limit = budget.limit("keras.nodes", MAX_NODES)
        if len(self.graph) >= limit or count > limit:
            help = "set GRAPHPORT_LIMITS=keras.nodes=N to allow N nodes"
            self._findings.refuse("KERAS0405", f"the model has more than {limit} nodes", place, help)
        found = list(operands)
        attributes = {OPERANDS: tuple(role for role, _ in found), **options}
        results = [Value(self.graph.fresh(name)) for _ in range(count)]
        values = [value for _, value in found]
        origin = self._findings.span(place)
        self.graph.append(Node(op_type, values, results, attributes, dialect=DIALECT, name=name, origin=origin))
        return results

    # Masks

    def _masks(self, bound: _Bound) -> list[tuple[str, Value]]:
        """The masks of the inputs that are not given explicitly: `mask` of one input, `mask:1` of the second."""
        if bound.of("mask"):
            return []
        inputs = [tensor for role, tensor in bound.tensors if role == X]
        if not inputs:
            given = {role for role, _ in bound.tensors}
            named = [(f"{role}_mask", tensor.mask) for role, tensor in bound.tensors if role in _ATTENDED]
            return [(role, mask.value) for role, mask in named if mask is not None and role not in given]
        names = ("mask", *(f"mask:{index}" for index in range(1, len(inputs))))
        return [(name, each.mask.value) for name, each in zip(names, inputs, strict=True) if each.mask is not None]

    def _with_masks(
        self, layer: LayerConfig, known: LayerType, bound: _Bound, values: Sequence[Value], options: Mapping[str, Any]
    ) -> list[Tensor]:
        """The results of a layer with their masks."""
        inputs = [tensor for _, tensor in bound.tensors]
        masks = [tensor.mask for role, tensor in bound.tensors if role == known.call[0]] if known.call else []
        explicit = bound.of("mask")
        first = masks[0] if masks else None
        if explicit and len(explicit) == 1:
            first = Mask.of(explicit[0].value)
        mask: Mask | None = None
        match known.mask:
            case "keep":
                mask = first
            case "sequence":
                mask = first if options.get("return_sequences") else None
            case "merge":
                mask = self._merged(layer, masks)
            case "concatenate":
                mask = self._concatenated(layer, inputs, options)
            case "make":
                mask = self._source_mask(layer, inputs[0], options)
            case _:
                pass
        return [Tensor(values[0], mask), *(Tensor(value) for value in values[1:])]

    def _source_mask(self, layer: LayerConfig, x: Tensor, options: Mapping[str, Any]) -> Mask | None:
        """The mask that `Masking` and `Embedding` compute from their input."""
        if layer.class_name.endswith("Embedding") and (not options["mask_zero"] or options.get("reverse")):
            return None
        kept = {key: options[key] for key in ("mask_value",) if key in options}
        return self._mask(f"{layer.class_name}.mask", [(X, x.value)], kept, layer)

    def _merged(self, layer: LayerConfig, masks: Sequence[Mask | None]) -> Mask | None:
        """The mask of a merge: Keras 3 joins masks with OR if all inputs have one, Keras 2 joins those with AND."""
        found = [each for each in masks if each is not None]
        if not found or (self._version >= 3 and len(found) < len(masks)):
            return None
        if len(found) == 1:
            return found[0]
        op_type = "masks.or" if self._version >= 3 else "masks.and"
        return self._mask(op_type, lambda: [(X, each.value) for each in found], {}, layer)

    def _concatenated(self, layer: LayerConfig, inputs: Sequence[Tensor], options: Mapping[str, Any]) -> Mask | None:
        if all(each.mask is None for each in inputs):
            return None

        def operands() -> list[tuple[str, Value]]:
            values = [(X, each.value) for each in inputs]
            names = [f"mask:{index}" for index in range(len(inputs))]
            return values + [
                (n, each.mask.value) for n, each in zip(names, inputs, strict=True) if each.mask is not None
            ]

        return self._mask(
            "Concatenate.mask", operands, {"axis": options["axis"], "requires_all": self._version < 3}, layer
        )

    def _mask(
        self,
        op_type: str,
        operands: Sequence[tuple[str, Value]] | Callable[[], Sequence[tuple[str, Value]]],
        options: Mapping[str, Attribute],
        layer: LayerConfig,
    ) -> Mask:
        def make() -> Value:
            given = operands() if callable(operands) else operands
            return self.emit(op_type, given, options, f"{layer.name}/mask", layer.location)[0]

        return Mask(make)

    # Wrappers

    def _time_distributed(self, layer: LayerConfig, call: Call, scope: str) -> list[Tensor]:
        """The wrapped layer, with the time dim folded into the batch."""
        x = next((each for each in flatten(call.args) if isinstance(each, Tensor)), None)
        if x is None:
            self._findings.refuse("KERAS0403", f"{layer.name!r} has no input", layer.location, _HELP)
        folded = self.emit("TimeDistributed.fold", [(X, x.value)], {}, f"{scope}fold", layer.location)[0]
        results = self.call(layer.parts["layer"], Call((Tensor(folded),), {}), scope)
        found = [
            self.emit(
                "TimeDistributed.unfold", [(X, each.value), ("like", x.value)], {}, f"{scope}unfold", layer.location
            )[0]
            for each in results
        ]
        return [Tensor(value, x.mask) for value in found]

    def _bidirectional(self, layer: LayerConfig, call: Call, scope: str) -> list[Tensor]:
        """Both directions of a recurrent layer, merged."""
        forward, backward = layer.parts["forward_layer"], layer.parts["backward_layer"]
        x, state = self._sequences(layer, call)
        half = len(state) // 2
        results: list[list[Tensor]] = []
        # Sequences of the second direction are returned in the order of the input.
        backward.attributes["keep_order"] = True
        for part in (forward, backward):
            if "zero_output_for_mask" in LAYERS[part.class_name].options:
                part.attributes["zero_output_for_mask"] = bool(part.options.get("return_sequences"))
        for part, given in ((forward, state[:half]), (backward, state[half:])):
            kwargs = {**call.kwargs, "initial_state": given or None}
            kwargs.pop("sequences", None)
            results.append(self.call(part, Call((x,), kwargs), scope))
        first = results[1][0]
        states = [*results[0][1:], *results[1][1:]]
        mode = layer.options.get("merge_mode", "concat")
        if mode is None:
            return [results[0][0], first, *states]
        operands = [(X, results[0][0].value), (X, first.value)]
        value = self.emit(
            "Bidirectional.merge", operands, {"merge_mode": freeze(mode)}, scope.rstrip("/"), layer.location
        )[0]
        return [Tensor(value, results[0][0].mask), *states]

    def _sequences(self, layer: LayerConfig, call: Call) -> tuple[Tensor, list[Tensor]]:
        """The sequences and the initial states of a recurrent layer; Keras 2 passes both in one list.

        Raises:
            DiagnosticError: KERAS0403 the call has no sequences.
        """
        given = [*call.args, call.kwargs.get("sequences")]
        found = [each for each in flatten(given) if isinstance(each, Tensor)]
        states = [each for each in flatten(call.kwargs.get("initial_state")) if isinstance(each, Tensor)]
        if not found:
            self._findings.refuse("KERAS0403", f"{layer.name!r} has no input", layer.location, _HELP)
        return found[0], [*found[1:], *states]

    def _stacked(self, layer: LayerConfig, call: Call, scope: str) -> list[Tensor]:
        """The cells of `StackedRNNCells` as layers one after another; all but the last one return sequences."""
        x, state = self._sequences(layer, call)
        parts = list(layer.parts.values())
        sizes = [2 if part.class_name == "LSTM" else 1 for part in parts]
        found: list[Tensor] = [x]
        states: list[Tensor] = []
        mask = call.kwargs.get("mask")
        for index, part in enumerate(parts):
            given, state = state[: sizes[index]], state[sizes[index] :]
            is_last = index == len(parts) - 1
            changed = {"return_state": True}
            if not is_last:
                changed |= {"return_sequences": True, "go_backwards": False}
            elif index:
                changed |= {"go_backwards": False}
            before = dict(part.attributes)
            part.attributes = {**before, **changed}
            if index == 0 and layer.options.get("go_backwards"):
                part.attributes["go_backwards"] = True
            kwargs = {"initial_state": given or None, "mask": mask}
            found = self.call(part, Call((found[0],), kwargs), scope)
            part.attributes = before
            states += found[1:]
        return [found[0], *(states if layer.options.get("return_state") else [])]


def execution_order(
    outputs: Sequence[tuple[str, int]],
    needed: Mapping[tuple[str, int], Sequence[tuple[str, int]]],
    order: Sequence[tuple[str, int]],
) -> list[tuple[str, int]]:
    """The calls of a topological order in the order in which Keras 3 runs them: by depth, the deepest first.

    The order matters where a call removes the masks of its operands. Source: `map_graph` of keras/src/ops/function.py.
    """
    depths: dict[tuple[str, int], int] = {}
    of_layer: dict[str, int] = {}
    for key in reversed(_post_order(outputs, needed)):
        depth = depths[key] = of_layer[key[0]] = max(depths.setdefault(key, 0), of_layer.get(key[0], 0))
        for each in needed.get(key, ()):
            depths[each] = max(depths.get(each, 0), depth + 1)
    known = set(order)
    found = [key for key in depths if key in known]
    # `sorted` is stable: calls of one depth keep the order in which they were found.
    return sorted(found, key=lambda key: -depths[key])


def _post_order(
    outputs: Sequence[tuple[str, int]], needed: Mapping[tuple[str, int], Sequence[tuple[str, int]]]
) -> list[tuple[str, int]]:
    """The calls that outputs depend on, each one after the calls that it reads."""
    found: dict[tuple[str, int], None] = {}
    seen: set[tuple[str, int]] = set()
    stack = [(key, False) for key in reversed(outputs)]
    while stack:
        key, is_left = stack.pop()
        if is_left:
            found[key] = None
        elif key not in seen:
            seen.add(key)
            stack.append((key, True))
            stack += [(each, False) for each in reversed(needed.get(key, ()))]
    return list(found)


def _count_slices(layers: Mapping[str, LayerConfig], references: Sequence[Reference]) -> None:
    """Set the number of slices of each `Unstack` without one to the number that the model reads."""
    for reference in references:
        layer = layers.get(reference.layer)
        if layer is not None and layer.class_name == "ops.Unstack" and not layer.options.get("num"):
            count = layer.attributes.get("num")
            layer.attributes["num"] = max(reference.index + 1, count if isinstance(count, int) else 1)


def _pattern(value: Any) -> Any:
    """Return a list of arguments with `None` in place of each tensor; Python scalars remain."""
    return [None if isinstance(each, Tensor) else each for each in value]


def freeze_argument(value: Any) -> Attribute:
    """A Python argument as an attribute; a slice is a tuple that begins with `slice`."""
    if isinstance(value, Slice):
        return ("slice", *(freeze_argument(each) for each in (value.start, value.stop, value.step)))
    if isinstance(value, Tensor):
        return "tensor"
    if value is ...:
        return "..."
    if is_sequence(value):
        return tuple(freeze_argument(each) for each in value)
    return freeze(value)
