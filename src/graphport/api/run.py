"""Running models."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from graphport.api.dialect_graphs import exact_dialect_graph
from graphport.api.load import as_model
from graphport.api.model import QuantizedModel
from graphport.backends import prepare as prepare_session
from graphport.conversion.legalize import is_canonical, legalize
from graphport.core.argument_types import check_arguments
from graphport.core.diagnostics import DiagnosticError, raise_errors
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.results import Outputs
from graphport.ir.states import is_flag, state_pairs, waiting
from graphport.ops.bind import bind_inputs
from graphport.runtimes.inputs import checked, named_inputs, other_random_inputs, random_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.api.model import Inputs, Model, ModelSource
    from graphport.backends import Session
    from graphport.ir.graph import Graph


MOST_TRIED = 8
"""How many sizes of inputs a model is run with until it runs, when inputs are generated."""


@check_arguments
def run(
    model: ModelSource,
    inputs: Inputs,
    *,
    backend: str = "auto",
    every_value: bool = False,
    threads: int = 0,
) -> Outputs:
    """Run a model once, and return arrays by output name, and by position in `.ordered`.

    Args:
        model: a raw model is legalized first.
        inputs: arrays by input name, a list or tuple in the order of the inputs, or the only array; arrays of NumPy,
            torch, jax and others with `__array__` or DLPack. Converted to the declared element types if that is
            lossless.
        backend: `auto` or one of `graphport.backends.BACKENDS`. The reference interpreter computes the integer
            operators
            of an unchanged TFLite file bit-exactly as LiteRT's reference kernels.
        every_value: return all computed values, not only the outputs.
        threads: number of threads, if the backend supports it; the backend's default if 0.

    Raises:
        DiagnosticError: inputs do not fit, the backend is not installed, or it cannot run the model.
    """
    model = as_model(model)
    return _runner(model, backend, threads, once=True).run(inputs, every_value=every_value)


class Runner:
    """A model that is ready to be run many times."""

    def __init__(self, graph: Graph, backend: str, threads: int = 0, exact: Graph | None = None, **flags: bool) -> None:
        self._graph = graph
        self._prepare = partial(prepare_session, backend=backend, threads=threads, **flags)
        self._of_shapes: dict[tuple[tuple[int, ...], ...], Session] = {}
        self._session = None if _waits_for_shapes(graph) else self._prepare(graph)
        # Between integer kernels there are fewer values than in the canonical graph.
        self._outputs = self._session if exact is None or self._session is None else self._prepare(exact)
        self._kept = [(value.name, last.name) for value, last, _ in state_pairs(graph)]
        self._states: dict[str, Any] = {}
        self._flags = [value.name for value in graph.inputs if is_flag(value)]
        self._waiting = waiting(graph) if self._flags else set[str]()

    def run(self, inputs: Inputs, *, every_value: bool = False) -> Outputs:
        """Run once, as `graphport.run`; states keep their values from the previous run, unless they are passed."""
        named = named_inputs(self._graph, inputs)
        given = self._states | named
        if not self._waiting.isdisjoint(named):  # explicitly passed states replace the initial states
            given = dict.fromkeys(self._flags, True) | given
        arrays = checked(self._graph, given)
        session = self._session if every_value else self._outputs
        found = (session or self._bound(arrays)).run(arrays, every_value=every_value)
        self._states = {name: found[last] for name, last in self._kept if last in found}
        return Outputs(found, self._graph.outputs)

    def _bound(self, arrays: Mapping[str, Any]) -> Session:
        """Return the model with the shapes of the arrays, which some operators need."""
        shapes = {value.name: tuple(arrays[value.name].shape) for value in self._graph.inputs}
        key = tuple(shapes.values())
        if key not in self._of_shapes:
            twin = rewrite.copy(self._graph)
            bind_inputs(twin, shapes)
            graph, findings = legalize(twin, in_place=True)
            raise_errors(findings)
            self._of_shapes[key] = self._prepare(graph)
        return self._of_shapes[key]


def _waits_for_shapes(graph: Graph) -> bool:
    """Whether some operators are undefined while the shapes of inputs are open: ncnn files declare no shapes."""
    if is_canonical(graph) or not all(isinstance(value.fact, TensorFact) for value in graph.inputs):
        return False
    return any(isinstance(value.fact, TensorFact) and not value.fact.is_static for value in graph.inputs)


@check_arguments
def session(model: ModelSource, backend: str = "auto", *, threads: int = 0) -> Runner:
    """`model` loaded into a backend once, for many runs; see `run`."""
    model = as_model(model)
    return _runner(model, backend, threads)


def timed_session(model: Model, backend: str, *, threads: int = 0) -> Runner:
    """Create a session with the runtime's default settings, as users run it, to measure time.

    A model quantized for a runtime has operators of that runtime there.
    """
    graph = runnable(model)
    if isinstance(model, QuantizedModel) and model.report is not None and model.report.settings.target == backend:
        from graphport.quantization.export_form import to_export_form

        graph = to_export_form(graph, model.report.settings, model.exact)
    return Runner(graph, backend, threads, quick=True)


def _runner(model: Model, backend: str, threads: int, **flags: bool) -> Runner:
    exact = _exact(model) if backend == "reference" else None
    return Runner(runnable(model), backend, threads, exact, **flags)


def _exact(model: Model) -> Graph | None:
    """Return the dialect graph of `model`, if the reference interpreter computes its operators bit-exactly."""
    graph = exact_dialect_graph(model)
    return None if graph is None else legalize(graph, check_declared=False, exact=True)[0]


def runnable(model: Model) -> Graph:
    """Return the canonical graph of `model`, which backends run.

    Raises:
        DiagnosticError: errors of `legalize`.
    """
    graph, findings = legalize(model.graph)
    raise_errors(findings)
    return graph


def first_run(
    model: Model, backend: str = "auto", *, every_value: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return random inputs on which a model runs, and its results.

    Raises:
        DiagnosticError: no inputs can be generated, or the model rejects all of them.
    """
    graph = runnable(model)
    given, runner = random_inputs(graph), Runner(graph, backend, once=True)
    try:
        return given, runner.run(given, every_value=every_value)
    except DiagnosticError as error:
        for other in islice(other_random_inputs(graph), MOST_TRIED):
            with suppress(DiagnosticError):
                return other, runner.run(other, every_value=every_value)
        raise error from None
