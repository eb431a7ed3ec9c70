"""Graphs as folders of onnxruntime-genai."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.facts import TensorFact
from graphport.core.regular_files import regular_status
from graphport.formats.registered import registered

if TYPE_CHECKING:
    import os

    from graphport.ir.graph import Graph

NOTE = "genai"
"""The note of a graph with its generation settings, as JSON: see docs/checkpoint.md."""

FILE = "model.onnx"
_PAST = re.compile(r"past_key_values\.(\d+)\.key")
_CHUNK = 1 << 20


def write(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a decoder with caches as a new folder; the configuration is written last and marks it complete.

    Raises:
        DiagnosticError: GENAI0002 the graph has no caches or no generation settings; GENAI0003 a file cannot be copied,
            or the folder has files; errors of the ONNX writer.
    """
    folder = Path(path)
    config, files = _config(graph, Source(str(path)))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        message = f"{folder.name} contains files that could be mixed with new ones if the write is interrupted"
        raise DiagnosticError(Diagnostic("GENAI0003", message, Span(Source(str(path))), "choose an empty folder"))
    registered("onnx").write(graph, folder / FILE)
    for file in files:
        _copy(file, folder / file.name)
    (folder / "genai_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _config(graph: Graph, source: Source) -> tuple[dict[str, Any], list[Path]]:
    inputs = {value.name: value for value in graph.inputs}
    layers = [int(match[1]) for name in inputs if (match := _PAST.fullmatch(name))]
    note = graph.notes.get(NOTE) if graph.has_notes else None
    fact = inputs[f"past_key_values.{layers[0]}.key"].fact if layers else None
    shape = fact.shape if isinstance(fact, TensorFact) else None
    if not isinstance(note, str) or shape is None or len(shape) != 4:
        message = "the model has no key-value caches (past_key_values.N.key) or no generation settings"
        help_ = "convert a checkpoint of a decoder (docs/checkpoint.md)"
        raise DiagnosticError(Diagnostic("GENAI0002", message, Span(source), help_))
    settings: dict[str, Any] = json.loads(note)
    ordinary = [name for name in ("input_ids", "attention_mask", "position_ids") if name in inputs]
    decoder: dict[str, Any] = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": FILE,
        "head_size": shape[3],
        "hidden_size": settings["hidden_size"],
        "inputs": {
            **{name: name for name in ordinary},
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
        "num_attention_heads": settings["num_attention_heads"],
        "num_hidden_layers": len(layers),
        "num_key_value_heads": shape[1],
    }
    return {"model": {**settings["model"], "decoder": decoder}, "search": _search(settings)}, [
        Path(name) for name in settings["files"]
    ]


def _search(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of sampling; greedy search without a generation configuration."""
    return {
        "diversity_penalty": 0.0,
        "do_sample": False,
        "early_stopping": True,
        "length_penalty": 1.0,
        "max_length": settings["model"]["context_length"],
        "min_length": 0,
        "no_repeat_ngram_size": 0,
        "num_beams": 1,
        "num_return_sequences": 1,
        "past_present_share_buffer": False,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_k": 1,
        "top_p": 1.0,
        **settings["search"],
    }


def _copy(file: Path, target: Path) -> None:
    """Copy a file byte for byte.

    Raises:
        DiagnosticError: GENAI0003 it is absent or not a regular file.
    """
    try:
        regular_status(file)
        with file.open("rb") as read, target.open("wb") as written:
            while piece := read.read(_CHUNK):
                written.write(piece)
    except OSError as error:
        message = f"{file.name} cannot be copied: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("GENAI0003", message, Span(Source(str(file))), "check the file")) from error
