"""The configuration of a model: JSON of Keras 2 or Keras 3 as a tree of layers with options by name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from graphport.core import budget
from graphport.core.sequences import is_sequence
from graphport.formats.keras.container.findings import EXPORT
from graphport.formats.keras.rules.activation import ACTIVATIONS, KERAS_2, LAYERS_AS_FUNCTIONS
from graphport.formats.keras.rules.binding import COMPUTE_TYPE, DTYPES, LAYERS
from graphport.formats.keras.rules.functions import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.formats.keras.container.findings import Findings
    from graphport.formats.keras.rules.functions import Function
    from graphport.ir.graph import Attribute

MAX_CONFIG = 1 << 26
"""Bytes of a configuration."""
MAX_NESTING = 64
"""Models and wrappers within each other."""

MODELS = ("Functional", "Sequential", "Model")
INPUT = "InputLayer"
OPERATION, FUNCTION = "ops.", "tf."
"""Prefixes of operations of Keras 3 and of functions of TensorFlow."""
WRAPPERS: Mapping[str, tuple[str, ...]] = {
    "TimeDistributed": ("layer",),
    "Bidirectional": ("forward_layer", "backward_layer"),
    "SpectralNormalization": ("layer",),
    "StackedRNN": (),
}
"""Layers that contain other layers, and the attributes of the class that hold them."""
CELLS: Mapping[str, str] = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "SimpleRNN"}
"""Cells of `RNN`, and the layers that are the same."""
_REFUSED = {
    "Lambda": "its Python code is not executed",
    "TFSMLayer": "it loads a SavedModel from another folder",
    "TorchModuleWrapper": "it contains a PyTorch module",
    "JaxLayer": "it contains a JAX function",
    "FlaxLayer": "it contains a Flax module",
    "TextVectorization": "ONNX has no operators for its strings",
    "StringLookup": "ONNX has no operators for its strings",
    "Hashing": "its hash function has no operator in ONNX",
    "HashedCrossing": "its hash function has no operator in ONNX",
    "TensorFlowOpLayer": "it contains a TensorFlow operation as a protobuf message",
}
_MODULES = ("keras", "tf_keras", "tensorflow", "builtins")
_IGNORED = frozenset(
    (
        *("name", "trainable", "dtype", "seed", "implementation", "batch_input_shape", "batch_shape", "input_shape"),
        *("unroll", "dropout", "recurrent_dropout", "unit_forget_bias", "use_cudnn", "momentum", "synchronized"),
        *("renorm_momentum", "renorm", "renorm_clipping", "fused", "virtual_batch_size", "adjustment", "autocast"),
        *(
            "sparse",
            "ragged",
            "optional",
            "batch_size",
            "input_length",
            "input_dtype",
            "time_major_",
            "flash_attention",
        ),
        *("rate", "noise_shape", "lora_alpha", "power_iterations", "generator", "rng_type", "force_generator"),
        *("convert_dtype", "gptq_unpacked_column_size"),
    )
)
"""Options that change nothing in inference."""
_IGNORED_ENDINGS = ("_initializer", "_regularizer", "_constraint")
_ACTIVATIONS = ("activation", "recurrent_activation")


@dataclass(slots=True, eq=False)
class LayerConfig:
    """A layer, an operation or a model of the configuration."""

    class_name: str
    name: str
    options: dict[str, Any]
    """Options as the file has them; JSON values."""
    inbound: Any = None
    """Calls of the layer in a functional model."""
    is_trainable: bool = True
    saved_class: str = ""
    """The class that the file names, where it is read as another one."""
    function: Function | None = None
    """The function of TensorFlow that the layer calls."""
    attributes: dict[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    layers: list[LayerConfig] = field(default_factory=list["LayerConfig"])
    parts: dict[str, LayerConfig] = field(default_factory=dict[str, "LayerConfig"])
    weights: dict[str, Any] = field(default_factory=dict[str, Any])
    """Storages by role; filled by `container.weights`."""

    @property
    def is_model(self) -> bool:
        """Whether it is a model."""
        return self.class_name in MODELS

    @property
    def is_layer(self) -> bool:
        """Whether Keras counts it as a layer: operations of Keras 3 are none."""
        return bool(self.saved_class) or not self.class_name.startswith(OPERATION)

    @property
    def location(self) -> str:
        """The layer in a message."""
        return f"layer {self.name!r} ({self.class_name})"

    def walk(self) -> Iterator[LayerConfig]:
        """The layer and all nested layers."""
        pending: list[LayerConfig] = [self]
        while pending:
            found = pending.pop()
            yield found
            pending.extend(reversed([*found.layers, *found.parts.values()]))


def parse_json(data: bytes | str, findings: Findings, place: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        DiagnosticError: KERAS0105 it is not JSON, or no object.
    """
    help = "save the model again with Keras"
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        findings.refuse(
            "KERAS0105", f"{place} is not JSON: {str(error)[:200] or 'it is nested too deeply'}", place, help
        )
    if not isinstance(found, dict):
        findings.refuse("KERAS0105", f"{place} is not a JSON object", place, help)
    return cast("dict[str, Any]", found)


def config_limit() -> int:
    """Bytes of a configuration that are read."""
    return budget.limit("keras.config", MAX_CONFIG)


class ConfigReader:
    """Reads the layers of one file."""

    def __init__(self, findings: Findings, version: int) -> None:
        self.findings = findings
        self.version = version
        """The major version of Keras that wrote the file: 2 or 3."""

    def read(self, data: dict[str, Any]) -> LayerConfig:
        """The model of a file.

        Raises:
            DiagnosticError: KERAS0201 to KERAS0204, all layers that cannot be read.
        """
        model = self._layer(data, 0)
        if not model.is_model:
            message = f"unsupported: the class {model.class_name!r} is neither Functional nor Sequential"
            self.findings.refuse("KERAS0201", message, model.location, EXPORT)
        self.findings.raise_errors()
        return model

    def _layer(self, data: Any, depth: int) -> LayerConfig:
        """A layer and its nested layers; a layer that cannot be read is recorded."""
        if depth > MAX_NESTING:
            message = f"layers are nested more than {MAX_NESTING} levels deep"
            self.findings.refuse(
                "KERAS0204", message, "the configuration", "check the file: Keras models are not nested so deeply"
            )
        data = _object(data)
        if not isinstance(data.get("class_name"), str):
            self.findings.refuse("KERAS0105", "a layer has no class_name", "the configuration", "save the model again")
        class_name = str(data["class_name"])
        # Sequential of Keras 2.2 has a list of layers as its configuration.
        config = data.get("config")
        options = {"layers": config} if is_sequence(config) else _object(config)
        name = data.get("name") or options.get("name") or class_name.lower()
        found = LayerConfig(self._op_type(data, class_name, options), str(name), options, data.get("inbound_nodes"))
        found.is_trainable = options.get("trainable") is not False
        self._read_function(found)
        if not self._check_class(found, data):
            return found
        if found.is_model:
            self._model(found, depth)
        elif found.class_name == "RNN":
            self._rnn(found, depth)
        elif found.class_name in WRAPPERS:
            self._wrapper(found, depth)
        if found.class_name in LAYERS:
            found.attributes = self._attributes(found)
        return found

    def _op_type(self, data: dict[str, Any], class_name: str, options: dict[str, Any]) -> str:
        """The op type of a layer: operations of Keras 3 and functions of TensorFlow have a prefix."""
        module = str(data.get("module") or "")
        is_operation = module.startswith(("keras.src.ops", "keras.ops"))
        if not is_operation and not module and self.version >= 3 and class_name not in (*MODELS, INPUT):
            # Legacy files of Keras 3 have no modules; operations have no option `trainable`, which all layers have.
            is_operation = "trainable" not in options and f"{OPERATION}{class_name}" in LAYERS
        if is_operation:
            return f"{OPERATION}{class_name}"
        if class_name == "SlicingOpLambda":
            return f"{FUNCTION}__operators__.getitem"
        if class_name == "TFOpLambda":
            return f"{FUNCTION}{options.get('function')}"
        return {"Model": "Functional"}.get(class_name, class_name)

    def _read_function(self, found: LayerConfig) -> None:
        """Read a layer that calls a function of TensorFlow as the equivalent operation of Keras 3."""
        if not found.class_name.startswith(FUNCTION):
            return
        found.function = FUNCTIONS.get(found.class_name.removeprefix(FUNCTION))
        if found.function is not None:
            found.saved_class = "SlicingOpLambda" if found.class_name.endswith("getitem") else "TFOpLambda"
            found.class_name = f"{OPERATION}{found.function.operation}"
            found.options = dict(found.function.options)

    def _check_class(self, found: LayerConfig, data: dict[str, Any]) -> bool:
        """Record a layer whose class cannot be read."""
        registered, module = str(data.get("registered_name") or ""), data.get("module")
        is_custom = ">" in registered or ">" in found.class_name
        is_custom |= isinstance(module, str) and module.split(".")[0] not in _MODULES
        if found.class_name in _REFUSED and not is_custom:
            message = f"unsupported: the class {found.class_name!r}: {_REFUSED[found.class_name]}"
        elif is_custom or not self._is_supported(found):
            kind = "operation" if "." in found.class_name and not is_custom else "custom class"
            kind = "layer" if kind == "custom class" and not is_custom and isinstance(module, str) else kind
            shown = registered if ">" in registered else found.class_name
            message = f"unsupported: unknown {kind} {shown!r}"
        elif found.is_model and not isinstance(found.options.get("layers"), list):
            message = f"unsupported: {found.name!r} is a subclassed model, whose computation is Python code"
        else:
            return True
        self.findings.error("KERAS0201", message, found.location, EXPORT)
        return False

    def _is_supported(self, found: LayerConfig) -> bool:
        name = found.class_name
        return name in LAYERS or name in WRAPPERS or name in (*MODELS, INPUT, "RNN")

    def _model(self, found: LayerConfig, depth: int) -> None:
        found.layers = [self._layer(each, depth + 1) for each in found.options["layers"]]
        names = [each.name for each in found.layers]
        if len(set(names)) != len(names):
            message = f"duplicate layer name in {found.name!r}"
            self.findings.error("KERAS0204", message, found.location, "save the model again with Keras")

    def _wrapper(self, found: LayerConfig, depth: int) -> None:
        options = found.options
        found.parts["layer"] = inner = self._layer(options.get("layer"), depth + 1)
        if found.class_name == "Bidirectional":
            backward: Any = options.get("backward_layer")
            data = _object(backward) or _reversed(options["layer"])
            found.parts = {"forward_layer": inner, "backward_layer": self._layer(data, depth + 1)}

    def _rnn(self, found: LayerConfig, depth: int) -> None:
        """Read `RNN` as the layer of its cell, or as a stack of layers."""
        cell = found.options.get("cell")
        cell = cast("dict[str, Any]", cell) if isinstance(cell, dict) else {}
        found.saved_class = "RNN"
        outer = {key: value for key, value in found.options.items() if key != "cell"}
        if cell.get("class_name") == "StackedRNNCells":
            cells = cast("dict[str, Any]", cell.get("config") or {}).get("cells")
            found.class_name = "StackedRNN"
            for index, each in enumerate(cast("list[Any]", cells) if isinstance(cells, list) else []):
                data = {"class_name": "RNN", "config": {**outer, "cell": each, "name": f"{found.name}/{index}"}}
                found.parts[str(index)] = self._layer(data, depth + 1)
            return
        class_name = CELLS.get(str(cell.get("class_name")))
        module = cell.get("module")
        is_custom = isinstance(module, str) and module.split(".")[0] not in _MODULES
        if class_name is None or is_custom:
            message = f"unsupported: RNN has a cell of the custom class {str(cell.get('class_name'))!r}"
            self.findings.error("KERAS0201", message, found.location, EXPORT)
            return
        found.class_name = class_name
        found.options = {**cast("dict[str, Any]", cell.get("config") or {}), **outer}

    def _attributes(self, found: LayerConfig) -> dict[str, Attribute]:
        """Return the options that the layer's rule uses as attributes; an unused option must have no effect."""
        known = LAYERS[found.class_name].options
        attributes: dict[str, Attribute] = {}
        compute = "float32" if found.class_name.startswith(OPERATION) else self._compute_type(found)
        if compute != "float32":
            attributes[COMPUTE_TYPE] = compute
        if "keras_version" in known:
            attributes["keras_version"] = self.version
        for key, value in found.options.items():
            if key in known and value is not None:
                is_activation = key in _ACTIVATIONS and not found.class_name.startswith(OPERATION)
                attributes[key] = self._activation(found, value) if is_activation else freeze(value)
            elif key not in known and value and not _is_ignored(found, key):
                message = f"unsupported: unknown option {key!r} of the class {found.class_name!r}"
                self.findings.error("KERAS0203", message, found.location, EXPORT)
        if found.options.get("sparse") is True or found.options.get("ragged") is True:
            message = f"unsupported: {found.name!r} computes sparse or ragged tensors"
            self.findings.error("KERAS0203", message, found.location, "set sparse=False and ragged=False")
        return attributes

    def _compute_type(self, found: LayerConfig) -> str:
        """The compute type of the dtype policy of a layer."""
        policy = found.options.get("dtype")
        if isinstance(policy, dict):
            policy = cast("dict[str, Any]", policy)
            config = policy.get("config")
            name = cast("dict[str, Any]", config).get("name") if isinstance(config, dict) else None
            if policy.get("class_name") not in ("DTypePolicy", "Policy", "FloatDTypePolicy"):
                message = f"unsupported: the dtype policy {str(policy.get('class_name'))!r} of quantized layers"
                self.findings.error("KERAS0203", message, found.location, EXPORT)
            policy = name
        text = str(policy or "float32").removeprefix("mixed_")
        text = {"string": "float32", "float": "float32"}.get(text, text)
        if text not in DTYPES:
            message = f"unsupported: the dtype policy {text!r}"
            self.findings.error("KERAS0203", message, found.location, EXPORT)
            return "float32"
        return text

    def _activation(self, found: LayerConfig, value: Any) -> Attribute:
        """An activation: its name, or pairs of a layer that is used as a function."""
        name, config = value, dict[str, Any]()
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value)
            inner = value.get("config")
            is_custom = ">" in str(value.get("registered_name") or "")
            is_custom |= str(value.get("module") or "keras").split(".")[0] not in _MODULES
            if value.get("class_name") in LAYERS_AS_FUNCTIONS and isinstance(inner, dict) and not is_custom:
                name, config = str(value["class_name"]), cast("dict[str, Any]", inner)
                wanted = LAYERS[name].options
                kept = tuple((key, freeze(each)) for key, each in config.items() if key in wanted and each is not None)
                return (("class_name", name), *kept)
            name = inner if isinstance(inner, str) and not is_custom else value.get("class_name")
            if is_custom or (
                value.get("module") == "builtins" and str(value.get("registered_name")) not in ("function", "None")
            ):
                name = f"{value.get('module')}.{inner if isinstance(inner, str) else value.get('class_name')}"
        if self.version < 3 and name in KERAS_2:
            return KERAS_2[str(name)]
        if not isinstance(name, str) or name not in ACTIVATIONS:
            message = f"unsupported: the activation {str(name)!r} is a custom function"
            self.findings.error("KERAS0202", message, found.location, EXPORT)
            return "linear"
        return name


def _is_ignored(found: LayerConfig, key: str) -> bool:
    """Whether an option has no effect on inference in this class."""
    if key in _IGNORED or key.endswith(_IGNORED_ENDINGS) or (key, found.class_name) == ("weights", "Bidirectional"):
        return True
    return found.class_name.startswith(("Random", "RandAugment", "AugMix", "MixUp", "CutMix"))


def _object(value: Any) -> dict[str, Any]:
    """A JSON object; an empty one for another value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _reversed(data: Any) -> Any:
    """The configuration of a recurrent layer that runs in the opposite direction."""
    data = _object(data)
    config = _object(data.get("config"))
    return {**data, "config": {**config, "go_backwards": not config.get("go_backwards", False)}}


def freeze(value: Any) -> Attribute:
    """A JSON value as an attribute: lists are tuples, objects are tuples of pairs."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value)
        inner = value.get("config")
        if (
            value.get("class_name") in ("__tuple__", "__tensor__", "__numpy__")
            and isinstance(inner, dict)
            and "value" in inner
        ):
            return freeze(cast("dict[str, Any]", inner)["value"])
        return tuple((key, freeze(each)) for key, each in value.items())
    if is_sequence(value):
        return tuple(freeze(each) for each in value)
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
