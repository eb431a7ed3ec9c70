"""Keras files as raw graphs of the dialect `keras`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.garbage_collection import paused_collection
from graphport.core.regular_files import beginning
from graphport.core.storage import MappedFile
from graphport.formats.keras.container.archive import Archive
from graphport.formats.keras.container.build import GraphBuilder
from graphport.formats.keras.container.config import ConfigReader, config_limit, parse_json
from graphport.formats.keras.container.findings import Findings
from graphport.formats.keras.container.hdf5 import Hdf5
from graphport.formats.keras.container.recognition import HDF5
from graphport.formats.keras.container.weights import ArchiveWeights, assign_legacy
from graphport.formats.keras.rules.binding import DIALECT
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.formats.keras.container.config import LayerConfig
    from graphport.ir.graph import Graph

VERSION = "keras.version"
"""The note of a graph that has the version of Keras that wrote the file."""
_CONFIG, _METADATA, _WEIGHTS = "config.json", "metadata.json", "model.weights.h5"


def versions(graph: Graph) -> dict[str, str]:
    """The version of Keras that wrote the file of a raw graph."""
    found = graph.notes.get(VERSION) if graph.has_notes else None
    return {"keras": str(found)} if found else {}


def read(path: str | os.PathLike[str]) -> tuple[Graph, list[Diagnostic]]:
    """The raw graph of a Keras file, and warnings.

    Raises:
        DiagnosticError: KERAS0101 to KERAS0405 the file is damaged or not supported, IO0006 it cannot be opened.
    """
    name = os.fspath(path)
    source = Source(name)
    findings = Findings(source)
    try:
        file = MappedFile(Path(path))
        head = beginning(Path(path), len(HDF5))
        registry.load(DIALECT)
        with paused_collection():
            graph = _read_hdf5(file, findings) if head == HDF5 else _read_archive(file, findings)
    except OSError as error:
        if isinstance(error, DiagnosticError):
            raise
        message = f"{name} cannot be read: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(source), "check the path")) from error
    graph.opsets[DIALECT] = 1
    return graph, findings.diagnostics


def _read_archive(file: MappedFile, findings: Findings) -> Graph:
    archive = Archive(file, findings.source)
    config = parse_json(archive.read(_CONFIG, config_limit()), findings, _CONFIG)
    metadata: dict[str, Any] = {}
    if _METADATA in archive:
        metadata = parse_json(archive.read(_METADATA, config_limit()), findings, _METADATA)
    version = str(metadata.get("keras_version") or "3")
    model = ConfigReader(findings, _major(version)).read(config)
    found, start, size = archive.locate(_WEIGHTS)
    weights = Hdf5(found, findings.source, start, size)
    ArchiveWeights(weights.root, findings).assign(model, weights.root)
    return _build(model, findings, version)


def _read_hdf5(file: MappedFile, findings: Findings) -> Graph:
    root = Hdf5(file, findings.source).root
    configs = root.strings("model_config")
    if not configs:
        _refuse_without_config(root.links, findings)
    text = "".join(configs)
    if len(text) > config_limit():
        findings.refuse(
            "KERAS0103",
            f"the configuration has {len(text)} bytes, more than the limit",
            "model_config",
            "not a Keras model",
        )
    stated = root.strings("keras_version")
    group = root.find("model_weights")
    if not stated and group is not None:
        stated = group.strings("keras_version")
    version = stated[0] if stated else "2"
    model = ConfigReader(findings, _major(version)).read(parse_json(text, findings, "model_config"))
    assign_legacy(model, root, findings)
    return _build(model, findings, version)


def _refuse_without_config(links: Collection[str], findings: Findings) -> Never:
    """Refuse an HDF5 file that is no Keras model, and name its content."""
    help = "save the complete model with model.save('model.keras'), not only its weights"
    if "layers" in links or "vars" in links or "_layer_checkpoint_dependencies" in links:
        message = (
            "the file has only the weights of a Keras 3 model "
            "(save_weights): the architecture (model_config) is missing"
        )
        findings.refuse("KERAS0106", message, "the root group", help)
    if "layer_names" in links or "top_level_model_weights" in links or "model_weights" in links:
        message = "the file has only the weights of a Keras model: the architecture (model_config) is missing"
        findings.refuse("KERAS0106", message, "the root group", help)
    message = "not a Keras model: the HDF5 file has no architecture (attribute model_config)"
    findings.refuse("KERAS0106", message, "the root group", help)


def _build(model: LayerConfig, findings: Findings, version: str) -> Graph:
    findings.raise_errors()
    graph = GraphBuilder(findings, _major(version)).build(model)
    findings.raise_errors()
    graph.notes[VERSION] = version
    for value in list(graph.constants):
        if not value.uses:
            graph.remove_constant(value)
    return graph


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return 3 if found is None or int(found.group()) >= 3 else 2
