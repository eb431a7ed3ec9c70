"""Checkpoints as canonical graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Source
from graphport.formats.checkpoint.architecture.declaration import resolve
from graphport.formats.checkpoint.architecture.decoder import DecoderNet
from graphport.formats.checkpoint.architecture.encoder import TASKS, EncoderNet
from graphport.formats.checkpoint.architecture.encoder_families import ENCODERS
from graphport.formats.checkpoint.architecture.families import FAMILIES
from graphport.formats.checkpoint.architecture.names import canonical_names
from graphport.formats.checkpoint.architecture.net import ACTIVATIONS, Net
from graphport.formats.checkpoint.architecture.weights import Weights
from graphport.formats.checkpoint.container.config import Config
from graphport.formats.checkpoint.container.faults import note
from graphport.formats.checkpoint.container.folder import read_config, read_pooling, read_tensors
from graphport.formats.checkpoint.container.quantized import dequantized_tensors, read_method
from graphport.formats.checkpoint.generation import NOTE, generation_settings
from graphport.formats.checkpoint.gguf_reader import read_file
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    import os

    from graphport.core.diagnostics import Diagnostic
    from graphport.core.storage import Storage
    from graphport.formats.checkpoint.architecture.declaration import Decoder
    from graphport.ir.graph import Graph

_OUTER = ("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "quantization_config")
"""Keys that a configuration with several modalities has outside of its text_config."""

TYPE = "checkpoint.type"
"""The note of a graph with the model type."""


def read(path: str | os.PathLike[str]) -> tuple[Graph, list[Diagnostic]]:
    """Return the graph of a checkpoint and warnings.

    Raises:
        DiagnosticError: CKPT0001 to CKPT0008.
    """
    place = Path(path)
    return _read_file(place) if place.is_file() else _read_folder(place, read_config(place))


def versions(graph: Graph) -> dict[str, str]:
    """Return the model type."""
    kind = graph.notes.get(TYPE) if graph.has_notes else None
    return {} if kind is None else {"model_type": str(kind)}


def has_facts(graph: Graph) -> bool:
    """Return True: inference ran while the graph was built."""
    del graph
    return True


def _read_folder(folder: Path, config: Config) -> tuple[Graph, list[Diagnostic]]:
    config, findings = _text_part(config)
    method = read_method(config)
    kind = config.text("model_type", default="")
    if not kind:
        raise config.fault("model_type", "model_type is missing", "see docs/checkpoint.md for supported model types")
    if kind in ENCODERS:
        return _encoder(kind, folder, config)
    if kind not in FAMILIES:
        architecture = (config.list_value("architectures") or ["without an architecture"])[0]
        message = f"models of the type {kind[:60]!r} ({str(architecture)[:80]})"
        known = ", ".join(sorted([*FAMILIES, *ENCODERS]))
        command = f"optimum-cli export onnx --model {folder} model_onnx, and give model_onnx"
        remedy = f"{command}; supported types: {known}"
        raise config.unsupported("model_type", message, remedy)
    _refuse_bidirectional(config)
    family = FAMILIES[kind]
    decoder = resolve(family, config)
    if decoder.in_by_out and method is not None:
        message = f"quantized models of the type {kind!r}"
        raise config.unsupported("quantization_config", message, "use the checkpoint in float16 or bfloat16")
    tensors = _tensors(folder, config)
    weights = Weights(tensors, Source(str(folder)), canonical_names(tensors, decoder, family))
    graph, found = _decoder(kind, decoder, config, weights)
    graph.notes[NOTE] = generation_settings(config, decoder, folder)
    return graph, [*findings, *found]


def _text_part(config: Config) -> tuple[Config, list[Diagnostic]]:
    """Return the configuration of the language model in one with several modalities, and a warning."""
    section = config.section("text_config")
    if section is None:
        return config, []
    kind = config.text("model_type", default="")
    outer = {name: config.values[name] for name in _OUTER if config.has(name)}
    values = {"model_type": f"{kind}_text", **outer, **section.values}
    message = f"the reader uses only the language model of the {kind[:60]} model, without image and audio encoders"
    return Config(values, config.source, "text_config."), [note("CKPT0010", message, config.source)]


def _tensors(folder: Path, config: Config) -> dict[str, Storage]:
    """Return the tensors of a folder, with matrices for the codes and scales of a quantized one."""
    tensors, method = read_tensors(folder), read_method(config)
    return tensors if method is None else dequantized_tensors(tensors, method)


def _refuse_bidirectional(config: Config) -> None:
    name = "use_bidirectional_attention"
    if config.values.get(name) not in {None, False}:
        raise config.unsupported(name, "attention to later tokens in a decoder", "use a causal decoder")


def _encoder(kind: str, folder: Path, config: Config) -> tuple[Graph, list[Diagnostic]]:
    family = ENCODERS[kind]
    encoder = resolve(family, config)
    for activation in (encoder.act, encoder.mlm_act):
        _check_activation(activation, config)
    for name in ("num_hidden_groups", "inner_group_num"):
        if config.integer(name, default=1, low=0) != 1:
            raise config.unsupported(name, f"{name} {config.values[name]}: layer groups with separate weights")
    architecture = str((config.list_value("architectures") or ["Model"])[0])
    task = next((each for each in TASKS if architecture.endswith(each)), None)
    if task is None:
        message = f"models of the architecture {architecture[:80]!r} ({kind})"
        raise config.unsupported(
            "architectures", message, f"use an architecture whose name ends with {', '.join(TASKS)}"
        )
    tensors = _tensors(folder, config)
    weights = Weights(tensors, Source(str(folder)), canonical_names(tensors, encoder, family))
    net = EncoderNet(Net(kind, OPSET), encoder, config, weights)
    graph = net.encoder_graph(task, _label_count(config), read_pooling(folder) if task == "Model" else None)
    graph.notes[TYPE] = kind
    return graph, weights.findings(has_other_tasks=True)


def _label_count(config: Config) -> int:
    labels = config.section("id2label")
    return config.integer("num_labels", default=2 if labels is None else max(len(labels.values), 1))


def _check_activation(name: str, config: Config) -> None:
    if name not in ACTIVATIONS:
        raise config.unsupported("hidden_act", f"the activation {name[:60]!r}", f"known: {', '.join(ACTIVATIONS)}")


def _read_file(path: Path) -> tuple[Graph, list[Diagnostic]]:
    architecture, found, config, tensors = read_file(path)
    decoder = resolve(found.family(), config)
    graph, findings = _decoder(architecture, decoder, config, Weights(tensors, Source(str(path))))
    graph.notes[NOTE] = generation_settings(config, decoder, None)
    return graph, findings


def _decoder(kind: str, decoder: Decoder, config: Config, weights: Weights) -> tuple[Graph, list[Diagnostic]]:
    _check_activation(decoder.act, config)
    graph = DecoderNet(Net(kind, OPSET), decoder, config, weights).graph()
    graph.notes[TYPE] = kind
    return graph, weights.findings(has_other_tasks=False)
