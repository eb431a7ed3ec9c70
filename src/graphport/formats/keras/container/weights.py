"""Weights of layers: datasets of HDF5 by the paths of `.keras` files, or by the order of `.h5` files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from graphport.core.sequences import is_sequence
from graphport.formats.keras.container.config import WRAPPERS, LayerConfig
from graphport.formats.keras.container.hdf5_datasets import storage_of
from graphport.formats.keras.rules.binding import LAYERS, Weight

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.keras.container.findings import Findings
    from graphport.formats.keras.container.hdf5 import Object

_HELP = "save the model again with Keras"
_CONTAINERS = ("layers", "_layer_checkpoint_dependencies")
"""Groups of the layers of a model; the second one is that of Keras 2.12."""
_STATES = ("StateVar", "seed_generator_state", "vector_u", "count", "kernel_normalized")
"""Names of variables that inference does not use."""
_CELLS = {"LSTM": "lstm_cell", "GRU": "gru_cell", "SimpleRNN": "simple_rnn_cell"}


def snake_case(name: str) -> str:
    """The name of a class as Keras writes it in paths."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def weights_of(layer: LayerConfig) -> list[Weight]:
    """The weights that a layer has itself, in the order of creation."""
    known = LAYERS.get(layer.class_name)
    if known is None:
        return []
    return [each for each in known.weights if not each.option or _has(layer, each.option)]


def _has(layer: LayerConfig, condition: str) -> bool:
    """Whether the options are as a weight needs them: `a` is set, `!a` is not, `a=text` is equal, `a&b` both hold."""
    known = LAYERS[layer.class_name].options
    for part in condition.split("&"):
        name, _, wanted = part.lstrip("!").partition("=")
        value = layer.options.get(name, known.get(name))
        is_set = value == wanted if wanted else bool(value)
        if is_set is part.startswith("!"):
            return False
    return True


class ArchiveWeights:
    """Weights of a `.keras` file, found by the paths of `keras.src.saving.saving_lib`.

    An object that several layers share is saved where it is visited first: a layer whose path is absent takes the
    weights of an equal layer that was visited before.
    """

    def __init__(self, root: Object, findings: Findings) -> None:
        self._root = root
        self._findings = findings
        self._visited: dict[str, LayerConfig] = {}

    def assign(self, layer: LayerConfig, group: Object | None) -> None:
        """Assign the weights of a layer and its nested layers."""
        key = self._key(layer)
        if group is None and key in self._visited:
            copy_weights(self._visited[key], layer)
            return
        expected = weights_of(layer)
        for folder in dict.fromkeys(each.folder for each in expected):
            self._folder(layer, group, folder, [each for each in expected if each.folder == folder])
        for name, inner in self._children(layer, group):
            self.assign(inner, group.find(name) if group is not None else None)
        self._visited.setdefault(key, layer)

    def _children(self, layer: LayerConfig, group: Object | None) -> list[tuple[str, LayerConfig]]:
        """The layers inside of a layer with their relative paths."""
        if layer.class_name == "StackedRNN":
            used: dict[str, int] = {}
            return [(f"cell/cells/{_unique(_CELLS[each.class_name], used)}", each) for each in layer.parts.values()]
        if layer.class_name in WRAPPERS:
            return list(layer.parts.items())
        found = [each for each in _CONTAINERS if group is not None and group.find(each) is not None]
        container, used = (found or ["layers"])[0], dict[str, int]()
        return [
            (f"{container}/{_unique(snake_case(_saved_class(each)), used)}", each)
            for each in layer.layers
            if each.is_layer
        ]

    def _folder(self, layer: LayerConfig, group: Object | None, folder: str, expected: list[Weight]) -> None:
        # The layers of StackedRNNCells are cells themselves; some layers have no property for their parts.
        path = f"{folder}/vars" if folder else "vars"
        found = None if group is None else group.find(path)
        if found is None and group is not None and folder:
            found = group.find(f"_{path}") or (group.find("vars") if folder == "cell" else None)
        names = [] if found is None else sorted((each for each in found.links if each.isdecimal()), key=int)
        if found is None or len(names) < len(expected):
            message = f"the file has {len(names)} weights of {layer.name!r}, expected {len(expected)}"
            wanted = ", ".join(each.role for each in expected)
            self._findings.error("KERAS0301", message, layer.location, f"needed: {wanted}; {_HELP}")
            return
        for weight, name in zip(expected, names, strict=False):
            dataset = found.find(name)
            if dataset is None or not dataset.is_dataset:
                message = f"the weight {weight.role!r} of {layer.name!r} is not a dataset"
                self._findings.error("KERAS0301", message, layer.location, _HELP)
                return
            layer.weights[weight.role] = storage_of(dataset)

    @staticmethod
    def _key(layer: LayerConfig) -> str:
        return f"{layer.class_name} {layer.name} {json.dumps(_without_ids(layer.options), sort_keys=True)}"


def _saved_class(layer: LayerConfig) -> str:
    """The class by which Keras names a layer in the paths of weights."""
    name = layer.saved_class or layer.class_name
    return "GroupedQueryAttention" if name == "GroupQueryAttention" else name


def _without_ids(value: Any) -> Any:
    """A JSON value without the identities of shared objects, which may differ between two copies of a layer."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _without_ids(each) for key, each in items if key != "shared_object_id"}
    return [_without_ids(each) for each in value] if is_sequence(value) else value


def _unique(name: str, used: dict[str, int]) -> str:
    count = used.get(name)
    used[name] = 0 if count is None else count + 1
    return name if count is None else f"{name}_{count + 1}"


def copy_weights(source: LayerConfig, target: LayerConfig) -> None:
    """Assign the weights of a layer to an equal layer."""
    for one, other in zip(source.walk(), target.walk(), strict=True):
        other.weights = dict(one.weights)


def assign_legacy(model: LayerConfig, root: Object, findings: Findings) -> None:
    """Assign the weights of a `.h5` file: of each layer of the model, in the order trained, then not trained."""
    group = root.find("model_weights") or root
    for layer in model.layers:
        expected = [*_flat(layer, is_trainable=True, above=True), *_flat(layer, is_trainable=False, above=True)]
        if not expected:
            continue
        found = group.find(layer.name)
        names = None if found is None else found.strings("weight_names")
        if found is None or names is None:
            message = f"the file has no weights of {layer.name!r}, expected {len(expected)}"
            findings.error("KERAS0301", message, layer.location, _HELP)
            continue
        if len(names) != len(expected):
            names = [each for each in names if not _variable_name(each).startswith(_STATES)]
        if len(names) != len(expected):
            message = f"the file has {len(names)} weights of {layer.name!r}, expected {len(expected)}"
            findings.error("KERAS0301", message, layer.location, _HELP)
            continue
        for (owner, weight), name in zip(expected, names, strict=True):
            storage = _dataset(found, name, owner, weight, findings)
            if storage is not None:
                owner.weights[weight.role] = storage


def _dataset(group: Object, name: str, owner: LayerConfig, weight: Weight, findings: Findings) -> Storage | None:
    role = weight.role.rpartition("/")[2]
    if not _variable_name(name).endswith(role) and _variable_name(name) in _known_roles():
        message = f"found the weight {name!r}, expected {role!r} of {owner.name!r}"
        findings.error("KERAS0302", message, owner.location, _HELP)
        return None
    dataset = group.find(name)
    if dataset is None or not dataset.is_dataset:
        findings.error("KERAS0301", f"missing dataset {name!r} of {owner.name!r}", owner.location, _HELP)
        return None
    return storage_of(dataset)


def _known_roles() -> frozenset[str]:
    return frozenset(each.role.rpartition("/")[2] for known in LAYERS.values() for each in known.weights)


def _variable_name(name: str) -> str:
    return name.rpartition("/")[2].partition(":")[0]


def _flat(layer: LayerConfig, *, is_trainable: bool, above: bool) -> list[tuple[LayerConfig, Weight]]:
    """The weights of a layer and its nested layers, either the trainable or the non-trainable ones."""
    trains = above and layer.is_trainable
    own = [(layer, each) for each in weights_of(layer) if (each.is_trainable and trains) is is_trainable]
    inner = [*layer.layers, *layer.parts.values()]
    return [*own, *(found for each in inner for found in _flat(each, is_trainable=is_trainable, above=trains))]
