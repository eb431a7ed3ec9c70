"""Change models and files: names, batches and shapes, outputs, attributes, weights, preprocessing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from graphport import formats
from graphport.api.load import as_model, load
from graphport.api.model import Model
from graphport.api.proven_write import Checking, verdict_of, write_proven
from graphport.api.run import Runner, runnable
from graphport.api.save import export
from graphport.api.verify import side
from graphport.comparison.limits import Limits
from graphport.comparison.precision import least_snr
from graphport.conversion.legalize import legalize
from graphport.core import budget
from graphport.core.argument_types import raise_mismatches
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, raise_errors
from graphport.core.dims import Symbolic, parse_dim
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.short_repr import short_repr
from graphport.core.storage import ArrayStorage, Storage
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ir.lookup import Names
from graphport.ir.notes import METADATA
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.passes.open_axes import set_input_shapes
from graphport.passes.preprocess import (
    NCHW_TO_NHWC,
    NHWC_TO_NCHW,
    Preprocess,
    permute_axes,
    postprocess,
    preprocess,
    set_element_type,
)
from graphport.proof.interface import ASPECTS
from graphport.runtimes import memory
from graphport.runtimes.inputs import open_axes, random_inputs
from graphport.runtimes.run_limits import limits_runs
from graphport.runtimes.work import endless_loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphport.api.model import ModelSource
    from graphport.core.dims import Dim
    from graphport.formats.options import FileOptions
    from graphport.ir.graph import Graph, Node, Value
    from graphport.proof.document import Proof
    from graphport.proof.verdict import Verdict

_MOST_DRAWN = 1 << 28
"""Bytes of generated inputs at most to hold the samples of a batch against each alone."""

_SEVERAL = 3
"""Number of samples in a test batch if the batch size is open."""


@short_repr
@dataclass(frozen=True)
class Edit:
    """Changes of a model, by the names before the change.

    `rename` maps names of values and nodes to new names. `batch` is the new first dim of all inputs: an integer, or a
    symbol that makes it open. `shapes` sets shapes of inputs, including static dims. `attributes` has values by node
    and name, `weights` arrays by constant. `layout` sets the layout of inputs and outputs of rank 4, by name or, under
    the empty name, of all: `nhwc` or `nchw`. `types` sets element types of inputs and outputs, with a Cast.
    `postprocess` appends `softmax`, `sigmoid`, `argmax` or `topk=K` to outputs, by name or, under the empty name, to
    the first. `metadata` sets texts by key in the file's metadata; other keys remain. `inference` ends the training
    mode of BatchNormalization, which then uses the stored mean and variance, and of Dropout.
    """

    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    batch: int | str | None = None
    shapes: Mapping[str, Sequence[int | str]] = field(default_factory=dict[str, "Sequence[int | str]"])
    add_outputs: Sequence[str] = ()
    remove_outputs: Sequence[str] = ()
    attributes: Mapping[tuple[str, str], Any] = field(default_factory=dict["tuple[str, str]", Any])
    weights: Mapping[str, Any] = field(default_factory=dict[str, Any])
    preprocess: Mapping[str, Preprocess] = field(default_factory=dict[str, Preprocess])
    layout: Mapping[str, str] = field(default_factory=dict[str, str])
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    postprocess: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    inference: bool = False

    @property
    def keeps_meaning(self) -> bool:
        """Whether the edit preserves the results of a run."""
        others = (self.remove_outputs, self.add_outputs, self.attributes, self.weights, self.preprocess, self.layout)
        others = (*others, self.types, self.postprocess, self.inference)
        return not any(others) and not isinstance(self.batch, int)


@short_repr
@dataclass(frozen=True)
class EditReport:
    """The result of `edit_file`, and the model that the file was compared with: the source, or the edited model."""

    model: Model
    against: str
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    proof: Proof | None = None
    skipped: str | None = None
    written: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the proof; `not verified` if there is none."""
        return verdict_of(self.proof)

    @property
    def passed(self) -> bool:
        """Whether nothing was refuted."""
        return self.proof is None or self.skipped is not None or self.proof.passed


def edit(model: ModelSource, changes: Edit | None = None, **keywords: Any) -> Model:
    """Return a changed copy of a model; unchanged weights are shared.

    Args:
        model: not changed.
        changes: an `Edit`; its fields can also be passed as keywords.
        **keywords: fields of `Edit`.

    Raises:
        DiagnosticError: EDIT0001 and EDIT0002 a name is unknown or ambiguous, EDIT0008 a new name is in use, EDIT0009
            an attribute, weight or shape does not fit, EDIT0010 a batch does not compute the same as its single
                samples;
            errors of shape inference.
    """
    model = as_model(model)
    raise_mismatches("edit", {name: str(each) for name, each in Edit.__annotations__.items()}, keywords)
    changes = replace(changes, **keywords) if changes is not None else Edit(**keywords)
    return _edited(model, changes)


def edit_file(  # noqa: PLR0913  keywords, each documented
    source: str | Path,
    target: str | Path,
    changes: Edit,
    *,
    format: str | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    edition: str | None = None,
    program: str | None = None,
    states: bool = False,
    checking: Checking | None = None,
    **options: Unpack[FileOptions],
) -> EditReport:
    """Read `source`, change it, write `target`, and prove as much as possible.

    The file is compared with the source if the changes keep its semantics, else with the edited model in memory. If the
    batch size changes, each sample of a batch is compared with a run on that sample.

    Args:
        source: a model in any format.
        target: the file to write.
        changes: the changes.
        format: the target's format, if it does not follow from the file name.
        shapes: dims of inputs of the source, see `load`.
        edition: of an NNEF source.
        program: of a PyTorch package, see `load`.
        states: of a PyTorch program, see `load`.
        checking: options of the proof.
        **options: of the writer.

    Raises:
        DiagnosticError: errors of `load` and `edit`; operators that the target does not support; RUN0010, a proof was
            required and is not possible.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    model = load(source, shapes=shapes, edition=edition, program=program, states=states)
    result = edit(model, changes)
    name = Path(source).name
    is_same = changes.keeps_meaning and _accepts_same_arrays(model, result)
    against = side("a", model) if is_same else side("a", result, label=f"{name} with the changes", made_of=[model])
    became = write_proven(
        export(result, kind, options),
        target,
        kind,
        source=model,
        against=against,
        checking=checking or Checking(),
        allowed=ASPECTS,
        least_snr=kind.least_snr(**options),
    )
    findings = [*result.findings, *became.findings]
    return EditReport(result, against.label, findings, became.proof, became.skipped, became.written)


def _accepts_same_arrays(model: Model, result: Model) -> bool:
    """Whether arrays that fit the inputs of `model` fit those of `result`, in order."""
    for value, other in zip(model.graph.inputs, result.graph.inputs, strict=True):
        old = value.shape
        new = other.shape
        pairs = zip(old or (), new or (), strict=False)
        if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
            return False
    return True


@budget.fresh()
def _edited(model: Model, changes: Edit) -> Model:
    legal, found = legalize(model.graph)
    raise_errors(found)
    graph = rewrite.copy(legal)
    names = Names(graph)
    findings: list[Diagnostic] = []
    if changes.inference:
        _end_training(graph)
    for (name, attribute), value in changes.attributes.items():
        _set_attribute(names, name, attribute, value, findings)
    for name, array in changes.weights.items():
        _set_weight(names, name, array, findings)
    _set_outputs(graph, names, changes, findings)
    raise_errors(findings)
    shapes, sizes = _requested_shapes(graph, changes, findings)
    raise_errors(findings)
    alone = rewrite.copy(graph) if changes.batch is not None else None
    findings += _reshaped(graph, shapes, sizes)
    raise_errors(findings)
    if alone is not None:
        # Compare before values are renamed and preprocessing is added: only the batch size differs here.
        findings += _check_samples(Model(alone, model.format, model.path), Model(graph, model.format), changes.batch)
        raise_errors(findings)
    for name, steps in changes.preprocess.items():
        _preprocess(graph, name, steps, findings)
    _change_layouts(graph, changes.layout, findings)
    for name, step in changes.postprocess.items():
        _postprocess(graph, name, step, findings)
    for name, dtype in changes.types.items():
        _set_type(graph, name, dtype, findings)
    _rename(graph, changes.rename, findings)
    raise_errors(findings)
    if changes.metadata:
        graph.notes[METADATA] = cast("dict[str, str]", graph.note(METADATA) or {}) | dict(changes.metadata)
    retyped = (changes.attributes, changes.weights, changes.preprocess, changes.layout, changes.types)
    if any((*retyped, changes.postprocess, changes.inference)):
        inference = Inference()
        inference.graph(graph)
        findings += inference.findings
        raise_errors(findings)
    return Model(graph, model.format, None, [*model.findings, *findings], model.versions)


def _end_training(graph: Graph) -> None:
    """End the training mode of BatchNormalization and Dropout in a graph and its bodies.

    Before  y, m, v = BatchNormalization(x, scale, bias, mean, var, training_mode=1);  d = Dropout(y, ratio, true)
    After   y = BatchNormalization(x, scale, bias, mean, var);  d = Dropout(y, ratio)            m = mean, v = var
    """
    for node in [node for inner in walk(graph) for node in inner if not node.dialect]:
        if node.op_type == "BatchNormalization" and node.attributes.get("training_mode"):
            node.set_attribute("training_mode", 0)
            for index in range(len(node.outputs) - 1, 0, -1):
                value, unchanged = node.outputs[index], node.operand(index + 2)
                if value is not None and unchanged is not None:
                    rewrite.replace(value, unchanged)
                node.drop_output(index)
        elif node.op_type == "Dropout" and node.operand(2) is not None:
            node.inputs = node.inputs[:2]


def _set_attribute(names: Names, name: str, attribute: str, value: Any, findings: list[Diagnostic]) -> None:
    node = _node(names, name, findings)
    if node is None:
        return
    old: Any = node.attributes.get(attribute)
    converted: Any = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
    if isinstance(old, float) and isinstance(converted, int):
        converted = float(converted)
    is_alike = old is None or type(converted) is type(old) or (isinstance(old, int) and isinstance(converted, int))
    if not is_alike:
        message = f"the attribute {attribute} of {name} is {old!r}, but {value!r} has another type"
        findings.append(Diagnostic("EDIT0009", message, node.origin, f"pass a value of type {type(old).__name__}"))
        return
    node.set_attribute(attribute, converted)


def _set_weight(names: Names, name: str, array: Any, findings: list[Diagnostic]) -> None:
    value = names.value(name)
    held = None if value is None else _constant_storage(value)
    if value is None or held is None:
        constants = [each for each, values in names.values.items() if _constant_storage(values[0]) is not None]
        findings.append(names.missing(name, "constant", constants))
        return
    storage, owner = held
    values = np.asarray(array)
    if tuple(values.shape) != tuple(storage.shape):
        message = f"the constant {name} has shape {list(storage.shape)}, but the array has shape {list(values.shape)}"
        findings.append(Diagnostic("EDIT0009", message, value.origin, f"pass an array of shape {list(storage.shape)}"))
        return
    made = ArrayStorage(values.astype(storage.dtype.numpy), storage.dtype)
    if isinstance(owner, tuple):
        owner[0].set_attribute(owner[1], made)
    else:
        owner.storage = made
        owner.fact = TensorFact.of(made)


def _constant_storage(value: Value) -> tuple[Storage, Value | tuple[Node, str]] | None:
    """Return the storage of a constant, and its owner: the value, or an attribute of a node without operands."""
    if value.storage is not None and value.is_constant:
        return value.storage, value
    node = value.producer
    if node is None or node.inputs:
        return None
    storages = [(name, each) for name, each in node.attributes.items() if isinstance(each, Storage)]
    return (storages[0][1], (node, storages[0][0])) if len(storages) == 1 and len(node.attributes) == 1 else None


def _set_outputs(graph: Graph, names: Names, changes: Edit, findings: list[Diagnostic]) -> None:
    for name in names.split(changes.remove_outputs):
        outputs = {value.name: value for value in graph.outputs}
        if name not in outputs:
            findings.append(names.missing(name, "output", outputs))
            continue
        graph.set_outputs(value for value in graph.outputs if value.name != name)
    for name in names.split(changes.add_outputs):
        value = names.value(name)
        node = names.node(name) if value is None else None
        found = [value] if value is not None else [] if node is None else node.results
        if not found:
            findings.append(names.missing(name, "value or node", [*names.values, *names.nodes]))
        for each in found:
            if each.graph is not graph:
                message = (
                    f"{each.name} is computed in a subgraph (If, Loop or Scan), so it may have several values or none"
                )
                findings.append(
                    Diagnostic("EDIT0011", message, each.origin, "add it to the outputs of the subgraph first")
                )
            elif each not in graph.outputs:
                graph.add_output(each)
    if changes.remove_outputs:
        if not graph.outputs:
            findings.append(Diagnostic("EDIT0011", "all outputs are removed", graph.origin, "keep at least one output"))
        rewrite.remove_dead(graph)


def _requested_shapes(
    graph: Graph, changes: Edit, findings: list[Diagnostic]
) -> tuple[dict[Value, list[Dim]], dict[str, list[int | str]]]:
    """Return the requested shapes of inputs: changes of static dims, and bindings of open dims."""
    asked = {name: list(shape) for name, shape in changes.shapes.items()}
    inputs = {value.name: value for value in graph.inputs}
    batched = _batched(graph)
    for value in batched if changes.batch is not None else ():
        fact = value.fact
        if isinstance(fact, TensorFact) and changes.batch is not None:
            rest: list[int | str] = [dim if isinstance(dim, int) else str(dim) for dim in fact.dims[1:]]
            asked.setdefault(value.name, [changes.batch, *rest])
    changed: dict[Value, list[Dim]] = {}
    bound: dict[str, list[int | str]] = {}
    for name, given in asked.items():
        value, shape = inputs.get(name), given
        if value is None or not isinstance(value.fact, TensorFact):
            findings.append(Names(graph).missing(name, "input", inputs))
            continue
        old = value.fact.shape
        if len(shape) == 1 and old is not None and len(old) > 1:
            # One extent is that of the first axis.
            shape = [*shape, *(dim if isinstance(dim, int) else str(dim) for dim in old[1:])]
        try:
            dims = [each if isinstance(each, int) else parse_dim(each) for each in shape]
        except ValueError as error:
            findings.append(Diagnostic("EDIT0009", str(error), value.origin, "pass an integer or a symbol per axis"))
            continue
        if old is None or len(old) != len(dims):
            bound[name] = shape
        elif any(isinstance(was, int) and was != dim for was, dim in zip(old, dims, strict=True)):
            changed[value] = dims
        else:
            bound[name] = shape
    return changed, bound


def _batched(graph: Graph) -> list[Value]:
    """The inputs whose first axis is that of the first input of several axes."""
    inputs = [value for value in graph.inputs if isinstance(value.fact, TensorFact) and len(value.fact.shape or ()) > 1]
    if not inputs or not isinstance(inputs[0].fact, TensorFact):
        return []
    first = inputs[0].fact.dims[0]
    return [value for value in inputs if isinstance(value.fact, TensorFact) and value.fact.dims[0] == first]


def _reshaped(graph: Graph, shapes: dict[Value, list[Dim]], bound: dict[str, list[int | str]]) -> list[Diagnostic]:
    if bound:
        bind_inputs(graph, bound)
    if not shapes and not bound:
        return []
    before = {finding.message for finding in _infer_findings(graph)} if shapes else set[str]()
    found = set_input_shapes(graph, shapes)
    return [each for each in found if each.message not in before]


def _infer_findings(graph: Graph) -> list[Diagnostic]:
    inference = Inference()
    inference.graph(rewrite.copy(graph))
    return list(inference.findings)


def _preprocess(graph: Graph, name: str, steps: Preprocess, findings: list[Diagnostic]) -> None:
    inputs = {value.name: value for value in graph.inputs}
    value = inputs.get(name) if name else next(iter(inputs.values()), None)
    if value is None:
        findings.append(Names(graph).missing(name, "input", inputs))
        return
    try:
        preprocess(graph, value, steps)
    except ValueError as error:
        findings.append(Diagnostic("EDIT0009", str(error), value.origin, "pass parameters that fit the input"))


def _postprocess(graph: Graph, name: str, step: str, findings: list[Diagnostic]) -> None:
    outputs = {value.name: value for value in graph.outputs}
    value = outputs.get(name) if name else next(iter(outputs.values()), None)
    if value is None:
        findings.append(Names(graph).missing(name, "output", outputs))
        return
    try:
        postprocess(graph, value, step)
    except ValueError as error:
        findings.append(Diagnostic("EDIT0009", str(error), value.origin, "pass a step that fits the output"))


def _set_type(graph: Graph, name: str, dtype: str, findings: list[Diagnostic]) -> None:
    ends = {value.name: value for value in [*graph.outputs, *graph.inputs]}
    value = ends.get(name)
    if value is None:
        findings.append(Names(graph).missing(name, "input or output", ends))
        return
    try:
        set_element_type(graph, value, DType.of(dtype), is_input=value in graph.inputs)
    except ValueError as error:
        remedy = "pass an element type such as int32 or float16"
        findings.append(Diagnostic("EDIT0009", str(error), value.origin, remedy))


def _change_layouts(graph: Graph, layout: Mapping[str, str], findings: list[Diagnostic]) -> None:
    if not layout:
        return
    ends = {value.name: value for value in [*graph.outputs, *graph.inputs]}
    unknown = [name for name in layout if name and name not in ends]
    findings += [Names(graph).missing(name, "input or output", ends) for name in unknown]
    for is_input, values in ((True, graph.inputs), (False, list(dict.fromkeys(graph.outputs)))):
        for value in values:
            wanted = layout.get(value.name) or layout.get("")
            if wanted and isinstance(value.fact, TensorFact) and len(value.fact.shape or ()) == 4:
                order = NCHW_TO_NHWC if wanted == "nhwc" else NHWC_TO_NCHW
                permute_axes(graph, value, order, is_input=is_input)


def _rename(graph: Graph, names: Mapping[str, str], findings: list[Diagnostic]) -> None:
    known = Names(graph)
    chosen = [(new, known.value(old), known.node(old), old) for old, new in names.items()]
    for new, value, node, old in chosen:
        if value is None and node is None:
            findings.append(known.missing(old, "value or node", [*known.values, *known.nodes]))
        elif value is not None and new in known.values and new not in names:
            message = f"{old} cannot be renamed to {new}: the name is in use"
            findings.append(
                Diagnostic(
                    "EDIT0008",
                    message,
                    value.origin,
                    "rename the value that has this name as well, or choose another name",
                )
            )
        elif value is not None:
            graph.rename(value, new)
        if node is not None:
            node.name = new


def _node(names: Names, name: str, findings: list[Diagnostic]) -> Node | None:
    """A node by its name, or by that of a result."""
    node = names.node(name)
    value = names.value(name) if node is None else None
    node = node or (None if value is None else value.producer)
    if node is None:
        findings.append(names.missing(name, "node", [*names.nodes, *names.values]))
    return node


@limits_runs
def _check_samples(model: Model, result: Model, batch: int | str | None) -> list[Diagnostic]:
    """Compare a batch with runs on its single samples; return a diagnostic if they differ."""
    old = {value.name: value.fact for value in model.graph.inputs}
    one = next((fact.dims[0] for fact in old.values() if isinstance(fact, TensorFact) and len(fact.shape or ()) > 1), 1)
    step = one if isinstance(one, int) else 1
    count = batch if isinstance(batch, int) else step * _SEVERAL
    if isinstance(one, Symbolic) or count % max(step, 1) or count <= step:
        return []
    batched = [value.name for value in _batched(model.graph)]
    try:
        twin = rewrite.copy(result.graph)
        sizes: dict[str, list[int | str]] = {}
        for value in twin.inputs:
            if value.name in batched and isinstance(value.fact, TensorFact):
                sizes[value.name] = [count, *(d if isinstance(d, int) else str(d) for d in value.fact.dims[1:])]
        bind_inputs(twin, sizes)
        Inference().graph(twin)
        ones, others = open_axes(twin)
        # The lengths of others are drawn: no less than this is needed.
        ones |= dict.fromkeys(others, 1)
        drawn = sum(memory.nbytes(value, ones) for value in twin.inputs)
        size = memory.size_of(model.graph, model.path)
        reason = endless_loop(twin) or memory.shortage(memory.needed(twin, ones)) or memory.excess(twin, ones, size)
        if reason is not None or drawn > _MOST_DRAWN:
            return [_unproven(reason or f"the inputs take {drawn >> 20} MiB")]
        given = random_inputs(twin)
        together = Runner(runnable(Model(twin, result.format)), "auto").run(given)
        runner = Runner(runnable(model), "auto")
        alone = _concatenate_runs(
            (
                runner.run({n: x[i : i + step] if n in batched else x for n, x in given.items()})
                for i in range(0, count, step)
            ),
            step,
            count,
        )
    except DiagnosticError as error:
        return [_unproven(error.diagnostics[0].message)]
    limits = Limits(least_snr=least_snr(model.graph))
    for name in model.outputs:
        rows = alone.get(name)
        whole = together.get(name)
        if rows is None or whole is None:
            continue
        found = limits.difference(name, rows, whole)
        if not found.passed:
            by = found.reason or f"by {found.max_abs:.3g}"
            message = f"{name} of a batch of {count} samples differs from runs on single samples: {by}"
            remedy = "check the model: a node mixes samples, or a constant contains the old batch size"
            return [Diagnostic("EDIT0010", message, None, remedy)]
    return []


def _concatenate_runs(runs: Iterable[Mapping[str, Any]], step: int, count: int) -> dict[str, Any]:
    """Concatenate the outputs of runs of `step` samples each into arrays of `count` samples.

    Outputs without a batch axis are omitted: other shapes, sequences, and optionals.
    """
    found: dict[str, Any] = {}
    for place, outputs in enumerate(runs):
        if not place:
            begun: dict[str, Any] = {
                name: rows for name, rows in outputs.items() if type(rows) is np.ndarray and rows.shape[:1] == (step,)
            }
            found = {name: np.empty((count, *rows.shape[1:]), rows.dtype) for name, rows in begun.items()}
        for name in list(found):
            if np.shape(outputs[name]) == (step, *found[name].shape[1:]):
                found[name][place * step : (place + 1) * step] = outputs[name]
            else:
                del found[name]
    return found


def _unproven(reason: str) -> Diagnostic:
    message = f"batch results were not compared with single-sample results: {reason}"
    return Diagnostic("EDIT0012", message, None, None, Severity.WARNING)
