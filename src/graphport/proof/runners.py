"""Runners compute one side of a proof: a native runtime on the file, or a backend on its canonical graph."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.backends import BACKENDS, prepare
from graphport.core.diagnostics import DiagnosticError
from graphport.core.facts import TensorFact
from graphport.core.packages import distribution
from graphport.core.version import __version__
from graphport.ir.states import KEPT, is_flag, state_of, waiting
from graphport.proof.process import LackingError, UnansweredError, UnfinishedError, pool
from graphport.proof.run import Configuration, Failure
from graphport.proof.side import paired
from graphport.runtimes.inputs import checked
from graphport.runtimes.run_limits import RunLimitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Value
    from graphport.ir.states import State
    from graphport.proof.process import LoadedFile, Process
    from graphport.proof.runtimes import Runtime
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import TestInput
    from graphport.runtimes.serve import Port


class Runner(ABC):
    """Computes one side of a proof. Separate calls start and finish a run: both sides compute in parallel."""

    def __init__(self, side: Side, runtime: str, title: str, configuration: Configuration) -> None:
        self.side = side
        self.runtime = runtime
        self.title = title
        self.configuration = configuration
        self.version = ""
        self.is_loaded = False
        self.reason: str | None = None
        """Why it did not load the file, or did not compute the last test input."""
        self.failure: Failure | None = None
        """The kind of that reason."""
        self.count = 0
        """Number of test inputs that it computed."""
        self.seconds = 0.0
        """The longest run."""

    @property
    def is_native(self) -> bool:
        """Whether the runner is a native runtime, independent of graphport."""
        return self.configuration is not Configuration.READING

    @property
    def has_process(self) -> bool:
        """Whether the runner has a process with a loaded file."""
        return False

    @property
    def ran(self) -> bool:
        """Whether the runner has computed a test input."""
        return self.count > 0

    @property
    def sentence(self) -> str:
        """Runtime and file, as in `ONNX Runtime on a.onnx`."""
        label = self.side.label
        return f"{self.title} on {label}" if self.is_native else f"{self.title} on {label} as graphport reads it"

    def fail(self, error: UnansweredError) -> None:
        """Record why a file was not loaded or a test input not computed."""
        # The written file has a temporary path, which is another one each time.
        path = self.side.path
        paths = () if path is None else (os.fspath(path.absolute()), os.fspath(path))
        self.reason = str(error)
        for each in paths:
            self.reason = self.reason.replace(each, self.side.label)
        self.failure = next((kind for error_type, kind in _FAILURES.items() if isinstance(error, error_type)), None)

    @abstractmethod
    def load(self) -> None:
        """Load the side.

        Raises:
            UnansweredError: it cannot be loaded.
        """

    def close(self) -> None:  # noqa: B027  the reference holds no file
        """Release the file."""

    @abstractmethod
    def start_run(self, test_input: TestInput, first: Side) -> None:
        """Start to compute a test input, whose arrays have the names of the inputs of `first`."""

    @abstractmethod
    def finish(self) -> list[Any]:
        """Return the outputs by position of the run that was started.

        Raises:
            UnansweredError: there are none.
        """


def process_key(letter: str, configuration: Configuration = Configuration.DEFAULT) -> str:
    """Return the pool key of a process: side and configuration."""
    return f"{letter} {configuration}"


class NativeRunner(Runner):
    """A runner that computes the file in its format's runtime, in a separate process."""

    def __init__(self, side: Side, runtime: Runtime, configuration: Configuration = Configuration.DEFAULT) -> None:
        super().__init__(side, runtime.name, runtime.title, configuration)
        self._runtime = runtime
        self._process: Process | None = None
        self._given: list[Value] = []
        self._kept: list[Value] = []
        self.loaded_file: LoadedFile | None = None

    @property
    def _key(self) -> str:
        """The key of the side's idle process in the pool."""
        return process_key(self.side.letter, self.configuration)

    @property
    def has_process(self) -> bool:
        return self._process is not None

    def start_loading(self, threads: int = 0) -> None:
        """Start to load the file; `load` waits until it is loaded."""
        self._process = pool().acquire(self._runtime, self._key)
        # The process may have been started in another working directory.
        path = os.fspath((self.side.path or Path()).absolute())
        is_strict = self.configuration is Configuration.STRICT
        self._process.ask_to_load(path, threads, is_strict=is_strict, nbytes=self.side.size or 0)

    def load(self) -> None:
        if self._process is None:
            self.start_loading()
        process = self._running()
        try:
            self.loaded_file = process.finish_loading()
        except UnansweredError as error:
            what = "loads it, and" if isinstance(error, UnfinishedError) else "does not load it:"
            raise self._error_type(error)(f"{what} {error}") from error
        self.version = self.loaded_file.version
        self._given = self._inputs(self.loaded_file.inputs)
        kept = [value for value in self.side.graph.inputs if value not in self._given and state_of(value)]
        self._kept = kept if self._runtime.keeps_states else []
        self._more = kept if self._runtime.takes_more else []
        # An input with a default value starts with it, as in the reference interpreter.
        if any(map(is_flag, kept)) and not (self._kept or self._more):
            raise StatesError("has no way to be told that a run is not the first")
        if kept and not self._kept and len(self.loaded_file.outputs) != len(self.side.graph.outputs):
            raise StatesError("has no way to be told the states between runs")
        self.is_loaded = True

    def _error_type(self, error: UnansweredError) -> type[UnansweredError]:
        """A runtime that does not support all files of its format reports a missing feature."""
        is_certain = self._runtime.takes_all or self.side.has_known_reader or isinstance(error, UnfinishedError)
        return type(error) if is_certain else LackingError

    def close(self) -> None:
        if self._process is not None:
            pool().give_back(self._process, self._key)
            self._process = None

    def start_run(self, test_input: TestInput, first: Side) -> None:
        arrays = checked(self.side.graph, paired(test_input.arrays, first.graph, self.side.graph))
        if self._process is not None and not self._process.is_alive:
            # It may have ended at sizes that the second side refuses as well.
            self.close()
            self.load()
        ports = self.loaded_file.inputs if self.loaded_file is not None else []
        inputs = [_as_declared(arrays[v.name], port) for v, port in zip(self._given, ports, strict=True)]
        is_first = any(is_flag(v) and not np.any(arrays[v.name]) for v in self._kept)
        own = {v.name for v in self._kept if is_flag(v)} | (waiting(self.side.graph) if is_first else set[str]())
        begun = [v for v in self._kept if v.name not in own]
        states = {state.variable: arrays[v.name] for v in begun if (state := state_of(v)) is not None}
        # An input with a default value in the file is overridden by name.
        self._running().ask_to_run(inputs, states | {v.name: arrays[v.name] for v in self._more})

    def finish(self) -> list[Any]:
        found = self._running().answer()
        self.count += 1
        self.seconds = max(self.seconds, found.seconds)
        if not self._kept:
            return found.outputs
        states = {state.output: (state, v) for v in self._kept if (state := state_of(v)) is not None}
        own = iter(found.outputs)
        outputs: list[Any] = []
        returned: dict[str, Any] = {}
        for value in self.side.graph.outputs:
            state, _ = states.get(value.name, (None, None))
            if state is None:
                outputs.append(next(own, None))
            elif state.is_returned:
                if value.name not in returned:
                    returned[value.name] = next(own, None)
                outputs.append(returned[value.name])
            else:
                outputs.append(_variable_state(found.states, state, value))
        return [*outputs, *own]

    def _running(self) -> Process:
        if self._process is None:
            raise UnansweredError("has not loaded it")
        return self._process

    def _inputs(self, ports: Sequence[Port]) -> list[Value]:
        """The graph's values for the inputs that the runtime declares, in its order.

        Raises:
            DisagreementError: the runtime declares other inputs than graphport read.
        """
        values = {value.name: value for value in self.side.graph.inputs}
        names = [port.name for port in ports]
        if all(name in values for name in names):
            found = [values[name] for name in names]
        else:
            found = [v for v in self.side.graph.inputs if state_of(v) is None or not self._runtime.keeps_states]
        left = [v.name for v in values.values() if v not in found and v.storage is None and not state_of(v)]
        if len(found) != len(names) or left:
            raise DisagreementError(f"takes the inputs {', '.join(names)}, graphport read {', '.join(values)}")
        return found


class DisagreementError(UnansweredError):
    """The runtime declares other inputs than graphport read."""


class StatesError(UnansweredError):
    """The runtime has no interface for passing states between runs."""


class BudgetError(UnansweredError):
    """The reference interpreter exceeds the proof's time budget."""


_FAILURES: dict[type[UnansweredError], Failure] = {
    UnfinishedError: Failure.LIMIT,
    BudgetError: Failure.LIMIT,
    LackingError: Failure.LACKING,
    StatesError: Failure.STATES,
    UnansweredError: Failure.REJECTED,
}
"""The first that an error is an instance of."""


class BackendRunner(Runner):
    """A backend on the graph that graphport read."""

    def __init__(self, side: Side, backend: str, *, seconds: float | None = None) -> None:
        title = {"reference": "the reference", "onnxruntime": "ONNX Runtime"}.get(backend, backend)
        super().__init__(side, backend, title, Configuration.READING)
        self._backend = backend
        self._session: Any = None
        self._inputs: Any = None
        self.budget = seconds
        """Seconds for all test inputs together; unlimited if `None`."""
        self._spent = 0.0

    def load(self) -> None:
        try:
            self._session = prepare(self.side.graph, self._backend)
        except DiagnosticError as error:
            raise UnansweredError(error.diagnostics[0].message) from error
        self.version = _version(self._backend)
        self.is_loaded = True

    def close(self) -> None:
        self._session = self._inputs = None

    def start_run(self, test_input: TestInput, first: Side) -> None:
        self._inputs = checked(self.side.graph, paired(test_input.arrays, first.graph, self.side.graph))

    def finish(self) -> list[Any]:
        start = time.perf_counter()
        try:
            found = self._session.run(self._inputs, **self._deadline())
        except RunLimitError as error:
            raise UnfinishedError(error.reason) from error
        except DiagnosticError as error:
            raise UnansweredError(error.diagnostics[0].message) from error
        except TimeoutError:
            raise BudgetError(f"takes longer than {self.budget or 0:.1f} s") from None
        finally:
            self._spent += time.perf_counter() - start
        self.count += 1
        self.seconds = max(self.seconds, time.perf_counter() - start)
        return [found[value.name] for value in self.side.graph.outputs]

    def _deadline(self) -> dict[str, float]:
        if self.budget is None or self._backend != "reference":
            return {}
        return {"deadline": time.monotonic() + max(self.budget - self._spent, 0.0)}


def _version(backend: str) -> str:
    if BACKENDS[backend].package == "numpy":
        return __version__
    found = distribution(BACKENDS[backend].package)
    return "" if found is None else found[1]


def _variable_state(states: Mapping[str, Any], state: State, value: Value) -> Any:
    """The value of a variable after a run; OpenVINO stores a scalar as an array of one element.

    `KEPT`, whether the run continues another, is true: the runtime itself starts with initial states.
    """
    if state.variable == KEPT:
        return np.ones((), np.bool_)
    found = states.get(state.variable)
    is_number = isinstance(value.fact, TensorFact) and value.fact.shape == ()
    return found.reshape(()) if is_number and found is not None and found.shape == (1,) else found


def _as_declared(array: Any, port: Port) -> Any:
    """`array` in the element type that the runtime declares for an input."""
    if port.dtype is None or not hasattr(array, "dtype") or array.dtype.kind in "OSU" or array.dtype.name == port.dtype:
        return array
    from graphport.runtimes.wire import dtype_of

    try:
        return array.astype(dtype_of(port.dtype))
    except (TypeError, ValueError):
        return array
