"""SavedModel folders and GraphDef files as raw graphs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.garbage_collection import paused_collection
from graphport.core.storage import MappedFile
from graphport.formats.tensorflow.container.build import HANDLES, Building
from graphport.formats.tensorflow.container.bundle import Bundle
from graphport.formats.tensorflow.container.findings import Findings
from graphport.formats.tensorflow.container.initializers import Initializers
from graphport.formats.tensorflow.container.items import ComplexPair, Frame, TensorList, Variable
from graphport.formats.tensorflow.container.recognition import NEAR_MISSES, SAVED_MODEL, is_saved_model
from graphport.formats.tensorflow.container.records import graph_body, graph_ref
from graphport.formats.tensorflow.container.schema import dtype_of
from graphport.formats.tensorflow.container.tensors import shape_of
from graphport.formats.tensorflow.container.wire import Document
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import State, mark

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.tensorflow.container.records import Body, Record, Ref
    from graphport.formats.tensorflow.container.wire import Message

VERSION_NOTE = "tensorflow.version"
_SERVE = "serve"
_DEFAULT = "serving_default"
_INITIALIZE = "__saved_model_init_op"
_FETCH = "fetch the complete model again"
_NO_RESULT = frozenset(
    {
        *("NoOp", "Assert", "Print", "PrintV2", "SaveV2", "MergeV2Checkpoints", "DisableCopyOnRead", "ControlTrigger"),
        *("AssignVariableOp", "Assign", "RestoreV2", "NextIteration", "LookupTableImportV2", "InitializeTableV2"),
    }
)
_LEFT_OVER = "unused_control_flow_input"
"""The name of placeholders that TensorFlow leaves when it lowers functional control flow."""
_SOURCES = frozenset({"Const", "Placeholder", "PlaceholderV2"}) | HANDLES


def versions(graph: Graph) -> dict[str, str]:
    """The version of TensorFlow that wrote the model."""
    version = graph.notes.get(VERSION_NOTE) if graph.has_notes else None
    return {"tensorflow": str(version)} if version else {}


def read(
    path: str | os.PathLike[str], *, program: str | None = None, states: bool = False
) -> tuple[Graph, list[Diagnostic]]:
    """The raw graph of a model, and warnings.

    Args:
        path: the folder of a SavedModel, its `saved_model.pb`, or a GraphDef file.
        program: the signature of a SavedModel; `serving_default` or the only one if it is absent.
        states: whether variables that the model writes become inputs and outputs.

    Raises:
        DiagnosticError: TF0101 to TF0208, IO0006 a file cannot be read.
    """
    findings = Findings(Source(os.fspath(path)))
    with paused_collection():
        try:
            building = _read(Path(path), findings, program)
        except OSError as error:
            message = f"{path} cannot be read: {error.strerror or error}"
            raise DiagnosticError(Diagnostic("IO0006", message, Span(findings.source), "check the path")) from error
        _keep_states(building, states=states)
        rewrite.remove_dead(building.root)
    return building.root, findings.diagnostics


def _read(path: Path, findings: Findings, program: str | None) -> Building:
    folder = path if path.is_dir() else path.parent
    file = folder / SAVED_MODEL if path.is_dir() else path
    if not file.is_file():
        near = next((name for name in NEAR_MISSES if (folder / name).is_file()), "")
        text = f"missing {SAVED_MODEL}: {near} is {NEAR_MISSES.get(near, 'not a model')}"
        findings.refuse("TF0102", text, path.name, "save the model with tf.saved_model.save or model.export")
    document = Document(MappedFile(file), findings.source)
    if not is_saved_model(bytes(document.data[:3])):
        return _frozen(document, findings)
    return _saved(document, folder, findings, program)


def _library(graph: Message | None) -> dict[str, Message]:
    library = None if graph is None else graph.message("library")
    found: dict[str, Message] = {}
    for each in [] if library is None else library.messages("functions"):
        signature = each.message("signature")
        found["" if signature is None else signature.string("name")] = each
    return found


# SavedModel


def _saved(document: Document, folder: Path, findings: Findings, program: str | None) -> Building:
    meta = _meta_graph(document.root("SavedModel"), findings)
    graph = meta.message("graph")
    if graph is None:
        findings.refuse("TF0102", "the SavedModel has no graph", SAVED_MODEL, _FETCH)
    name, signature = _signature(meta, findings, program)
    building = Building(graph_body(graph, findings), _library(graph), findings)
    info = meta.message("info")
    building.root.notes[VERSION_NOTE] = "" if info is None else info.string("version")
    _store_variables(building, meta, folder)
    _store_tables(building)
    frame = Frame(building.main)
    for key, each in sorted(signature.map("inputs").items(), key=lambda item: _natural(item[0])):
        _add_input(building, frame, key, each)
    outputs = sorted(signature.map("outputs").items(), key=lambda item: _natural(item[0]))
    for key, _ in outputs:
        building.root.reserve(key)
    refs = [graph_ref(each.string("name"), findings) for _, each in outputs]
    if not refs:
        findings.refuse("TF0203", f"the signature {name!r} has no outputs", SAVED_MODEL, "choose another signature")
    _check_ends(building, refs)
    items = building.evaluate(frame, refs)
    _set_outputs(building, [key for key, _ in outputs], items)
    return building


def _check_ends(building: Building, refs: list[Ref]) -> None:
    for name, index in refs:
        record = building.main.nodes.get(name)
        if record is not None and index >= max(record.count(building.findings), 1):
            text = f"node {name} has no output {index}"
            building.refuse("TF0201", text, "signature", "write the graph again: it is malformed")


def _meta_graph(saved: Message, findings: Findings) -> Message:
    graphs = saved.messages("meta_graphs")
    if not graphs:
        findings.refuse("TF0102", "the SavedModel has no meta graph", SAVED_MODEL, _FETCH)
    tags = [[] if (info := each.message("info")) is None else info.strings("tags") for each in graphs]
    serving = [each for each, own in zip(graphs, tags, strict=True) if own == [_SERVE]]
    serving = serving or [each for each, own in zip(graphs, tags, strict=True) if _SERVE in own]
    if not serving and len(graphs) > 1:
        text = f"no meta graph has the tag {_SERVE!r}; tags: {tags}"
        findings.refuse("TF0203", text, SAVED_MODEL, "save the model for serving")
    return (serving or graphs)[0]


def _signature(meta: Message, findings: Findings, program: str | None) -> tuple[str, Message]:
    """The name and the message of the signature that is read.

    Raises:
        DiagnosticError: TF0203 it is not there, or there are several and none is chosen.
    """
    found = {key: each for key, each in meta.map("signatures").items() if key != _INITIALIZE}
    names = ", ".join(sorted(found)) or "none"
    if program is not None:
        if program not in found:
            findings.refuse("TF0203", f"unknown signature {program!r}", SAVED_MODEL, f"signatures: {names}")
        return program, found[program]
    if _DEFAULT in found:
        return _DEFAULT, found[_DEFAULT]
    if len(found) == 1:
        return next(iter(found.items()))
    text = f"the model has {len(found)} signatures, none of them called {_DEFAULT}: {names}"
    help = (
        "choose a signature: --program NAME, or load(path, program='NAME')"
        if found
        else "save the model with a signature"
    )
    return findings.refuse("TF0203", text, SAVED_MODEL, help)


def _natural(key: str) -> list[Any]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d{1,9})", key) if part]


def _add_input(building: Building, frame: Frame, key: str, info: Message) -> None:
    place = f"signature input {key}"
    if info.has("sparse") or info.has("composite"):
        help = "export a function that takes dense tensors"
        building.refuse("TF0204", f"the input {key} is a sparse, ragged or composite tensor", place, help)
    shape = shape_of(info.message("shape"), building.findings, place)
    name, index = graph_ref(info.string("name"), building.findings)
    frame.items[name, index] = building.input(key, dtype_of(info.integer("dtype")), shape, place)
    frame.done.add(name)


def _store_variables(building: Building, meta: Message, folder: Path) -> None:
    bundle: list[Bundle] = []
    saver = meta.message("saver")
    restore = "" if saver is None else saver.string("restore")
    keys: dict[str, str] = {}

    def stored(name: str) -> Storage | None:
        if not bundle:
            if not (folder / "variables" / "variables.index").is_file():
                help = "copy the complete model folder"
                building.refuse("TF0103", "missing variables/variables.index", f"node {name}", help)
            bundle.append(Bundle(folder / "variables", building.findings))
            keys.update(Initializers(building).keys_of_variables(restore) if restore else {})
        if name in keys:
            storage = bundle[0].storage(keys[name])
            if storage is None:
                text = f"missing variable {keys[name]}"
                building.refuse(
                    "TF0103", text, f"node {name}", "copy the model again: the variables belong to another model"
                )
            _check_type(building, name, storage)
            return storage
        return None if restore else bundle[0].storage(name)

    building.stored = stored


def _check_type(building: Building, name: str, storage: Storage) -> None:
    record = building.main.nodes.get(name)
    if record is None:
        return
    dtype = record.attribute("dtype", building.findings)
    shape = record.attribute("shape", building.findings)
    fits = shape is None or (
        len(shape) == len(storage.shape) and all(n in (-1, m) for n, m in zip(shape, storage.shape, strict=True))
    )
    if not fits or dtype not in (None, storage.dtype):
        text = (
            f"the variable {name} is {dtype}{list(shape or ())}, but its value is {storage.dtype}{list(storage.shape)}"
        )
        building.refuse("TF0103", text, f"node {name}", "copy the model again: the variables belong to another model")


def _store_tables(building: Building) -> None:
    found: list[dict[str, tuple[Storage, Storage]]] = []

    def stored_table(name: str) -> tuple[Storage, Storage] | None:
        if not found:
            found.append(Initializers(building).tables())
        return found[0].get(name)

    building.fills = stored_table


# Frozen graphs


def _frozen(document: Document, findings: Findings) -> Building:
    graph = document.root("GraphDef")
    main = graph_body(graph, findings)
    building = Building(main, _library(graph), findings)
    if not main.nodes:
        findings.refuse("TF0102", "the graph has no nodes", "graph", _FETCH)
    outputs = _unread(main, building)
    frame = Frame(main)
    names = [name if not index else f"{name}:{index}" for name, index in outputs]
    read = {name for record in main.nodes.values() for name, _ in record.inputs}
    for record in main.nodes.values():
        is_left_over = record.name.startswith(_LEFT_OVER) and record.name not in read
        if record.op_type in ("Placeholder", "PlaceholderV2") and not is_left_over:
            _add_placeholder(building, frame, record)
    for name in names:
        building.root.reserve(name)
    items = building.evaluate(frame, outputs)
    _set_outputs(building, names, items)
    return building


def _add_placeholder(building: Building, frame: Frame, record: Any) -> None:
    dtype = record.attribute("dtype", building.findings)
    shape = record.attribute("shape", building.findings)
    frame.items[record.name, 0] = building.input(record.name, dtype, shape, f"node {record.name}")
    frame.done.add(record.name)


def _unread(main: Body, building: Building) -> list[Ref]:
    """The results that a frozen graph returns: the results of all nodes without consumers.

    Raises:
        DiagnosticError: TF0102 there are none.
    """
    read = {name for record in main.nodes.values() for name, _ in record.inputs}
    found: list[Ref] = []
    for record in main.nodes.values():
        if record.name in read or record.op_type in _NO_RESULT or record.op_type in _SOURCES:
            continue
        if _is_pivot(main, record):
            continue
        found += [(record.name, index) for index in range(record.count(building.findings))]
    if not found:
        text = "the graph has no outputs: every node has a consumer"
        building.refuse("TF0201", text, "graph", "write the graph again: it is cyclic")
    return found


def _is_pivot(main: Body, record: Record) -> bool:
    """Whether a node only marks which branch is executed: it is Switch, or a copy of a result of Switch."""
    for _ in range(len(main.nodes)):
        if record.op_type in ("Switch", "RefSwitch", "_SwitchN"):
            return True
        following = main.nodes.get(record.inputs[0][0]) if record.inputs else None
        if following is None or record.op_type != "Identity":
            return False
        record = following
    return False


# Outputs and states


def _set_outputs(building: Building, names: list[str], items: list[Any]) -> None:
    graph = building.root
    outputs: list[Value] = []
    for name, item in zip(names, items, strict=True):
        if isinstance(item, ComplexPair):
            text, help = f"the output {name} is complex", "return its real and imaginary parts"
            building.refuse("TF0207", text, f"output {name}", help)
        if not isinstance(item, Value | Variable | TensorList):
            text = f"the output {name} is a resource or is not computed"
            building.refuse("TF0207", text, f"output {name}", "choose another output or signature")
        record = next(iter(building.main.nodes.values()))
        value = building.value(item, record)
        result = Value(name)
        node = Node("Identity", [value], [result], {}, dialect="tensorflow", name=name)
        node.origin = building.findings.span(f"output {name}")
        graph.append(node)
        outputs.append(result)
    graph.set_outputs(outputs)


def _keep_states(building: Building, *, states: bool) -> None:
    """Make variables that the model writes inputs and outputs, or warn that they keep their stored value."""
    changed = [each for each in building.variables.values() if each.first is not None and each.value is not each.first]
    if not changed:
        return
    if not states:
        names = ", ".join(each.name for each in changed[:8])
        help = "use --state (states=True) to make them inputs and outputs"
        text = (
            f"the model writes the variables {names}: each run starts "
            "with the stored values, and the updates are discarded"
        )
        building.findings.warn("TF0209", text, "variables", help)
        return
    graph = building.root
    for each in changed:
        if each.first is None or each.value is None or each.storage is None:
            continue
        value = Value(graph.fresh(each.name), each.first.fact, storage=each.storage)
        graph.adopt_input(value)
        each.first.replace_uses(value)
        last = Value(graph.fresh(f"{each.name}.next"))
        graph.append(Node("Identity", [each.value], [last], {}, dialect="tensorflow"))
        mark(value, State(last.name, value.name))
        graph.set_outputs([*graph.outputs, last])
