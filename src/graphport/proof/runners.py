"""Witnesses: who computes a side of a proof.

Asking one and hearing its answer are two steps, so that all compute at the same time.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.backends import BACKENDS, prepare
from graphport.backends.inputs import checked
from graphport.backends.run_limits import RunLimitError
from graphport.core.diagnostics import DiagnosticError
from graphport.core.facts import TensorFact
from graphport.core.packages import distribution
from graphport.core.version import __version__
from graphport.ir.states import KEPT, is_flag, state_of, waiting
from graphport.proof.process import LackingError, UnansweredError, UnfinishedError, pool
from graphport.proof.side import paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Value
    from graphport.ir.states import State
    from graphport.proof.process import Opened, Process
    from graphport.proof.runtimes import Runtime
    from graphport.proof.runtimes.serve import Port
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import TestInput


class Runner(ABC):
    """Somebody who computes a side, from the file itself (`is_own`) or from what we have read."""

    def __init__(self, side: Side, runtime: str, title: str, *, is_own: bool) -> None:
        self.side = side
        self.runtime = runtime
        self.title = title
        self.is_own = is_own
        self.version = ""
        self.reason: str | None = None
        """Why it did not run, as far as it did not."""
        self.answered = 0
        """How many draws it has computed."""
        self.seconds = 0.0
        """The longest that one draw took."""

    @property
    def ran(self) -> bool:
        """Whether it has computed anything."""
        return self.answered > 0

    @property
    def sentence(self) -> str:
        """Who computes what."""
        return (
            f"{self.title} on {self.side.label}" if self.is_own else f"{self.title} on {self.side.label} as we read it"
        )

    def open(self) -> None:  # noqa: B027  the reference has nothing to load
        """Load the side.

        Raises:
            UnansweredError: it cannot be loaded.
        """

    def close(self) -> None:  # noqa: B027  nor to let go of
        """Let go of the side."""

    @abstractmethod
    def ask(self, draw: TestInput, first: Side) -> None:
        """Begin to compute a draw of numbers for the inputs of the side `first`."""

    @abstractmethod
    def answer(self) -> list[Any]:
        """Outputs by position of what was asked last.

        Raises:
            UnansweredError: there are none.
        """


class NativeRunner(Runner):
    """The runtime of a format on a file as it lies on disk, in a process of its own."""

    def __init__(self, side: Side, runtime: Runtime) -> None:
        super().__init__(side, runtime.name, runtime.title, is_own=True)
        self._runtime = runtime
        self._process: Process | None = None
        self._given: list[Value] = []
        self._kept: list[Value] = []
        self.opened: Opened | None = None

    def begin(self, threads: int) -> None:
        """Let it begin to load the file; `open` waits until it has."""
        self._process = pool().take(self._runtime, self.side.letter)
        # The process may have been started in another folder.
        self._process.ask_to_load(os.fspath((self.side.path or Path()).absolute()), threads)

    def open(self) -> None:
        if self._process is None:
            self.begin(0)
        process = self._asked()
        try:
            self.opened = process.opened()
        except UnansweredError as error:
            what = "loads it, and" if isinstance(error, UnfinishedError) else "does not load it:"
            raise type(error)(f"{what} {error}") from error
        self.version = self.opened.version
        self._given = self._inputs(self.opened.inputs)
        kept = [value for value in self.side.graph.inputs if value not in self._given and state_of(value)]
        self._kept = kept if self._runtime.keeps_states else []
        self._more = kept if self._runtime.takes_more else []
        # An input that has numbers of its own begins with them, as it does with us.
        if any(map(is_flag, kept)) and not (self._kept or self._more):
            raise LackingError("cannot be told that a run is not the first")
        if kept and not self._kept and len(self.opened.outputs) != len(self.side.graph.outputs):
            raise LackingError("cannot be told what the model keeps from run to run")

    def close(self) -> None:
        if self._process is not None:
            pool().give_back(self._process, self.side.letter)
            self._process = None

    def ask(self, draw: TestInput, first: Side) -> None:
        arrays = checked(self.side.graph, paired(draw.arrays, first.graph, self.side.graph))
        if self._process is not None and not self._process.is_alive:
            # It may have ended over lengths that the other side refuses as well.
            self.close()
            self.open()
        ports = self.opened.inputs if self.opened is not None else []
        inputs = [_as_declared(arrays[v.name], port) for v, port in zip(self._given, ports, strict=True)]
        is_first = any(is_flag(v) and not np.any(arrays[v.name]) for v in self._kept)
        own = {v.name for v in self._kept if is_flag(v)} | (waiting(self.side.graph) if is_first else set[str]())
        begun = [v for v in self._kept if v.name not in own]
        states = {state.variable: arrays[v.name] for v in begun if (state := state_of(v)) is not None}
        # What a file has numbers for it is told by the name of its input.
        self._asked().ask_to_run(inputs, states | {v.name: arrays[v.name] for v in self._more})

    def answer(self) -> list[Any]:
        found = self._asked().answer()
        self.answered += 1
        self.seconds = max(self.seconds, found.seconds)
        if not self._kept:
            return found.outputs
        states = {state.output: (state, v) for v in self._kept if (state := state_of(v)) is not None}
        own = iter(found.outputs)
        outputs: list[Any] = []
        for value in self.side.graph.outputs:
            state, _ = states.get(value.name, (None, None))
            if state is None or state.is_returned:
                outputs.append(next(own, None))
            else:
                outputs.append(_as_kept(found.states, state, value))
        return [*outputs, *own]

    def _asked(self) -> Process:
        if self._process is None:
            raise UnansweredError("was not asked to load it")
        return self._process

    def _inputs(self, ports: Sequence[Port]) -> list[Value]:
        """Our values of the inputs that the runtime declares, in its order.

        Raises:
            DisagreementError: it takes other inputs than we have read.
        """
        values = {value.name: value for value in self.side.graph.inputs}
        names = [port.name for port in ports]
        if all(name in values for name in names):
            found = [values[name] for name in names]
        else:
            found = [v for v in self.side.graph.inputs if state_of(v) is None or not self._runtime.keeps_states]
        left = [v.name for v in values.values() if v not in found and v.storage is None and not state_of(v)]
        if len(found) != len(names) or left:
            raise DisagreementError(f"takes the inputs {', '.join(names)}, we read {', '.join(values)}")
        return found


class DisagreementError(UnansweredError):
    """What the runtime says of the file is not what we have read."""


class BackendRunner(Runner):
    """A backend on the graph that we have read."""

    def __init__(self, side: Side, backend: str, *, seconds: float | None = None) -> None:
        title = {"reference": "the reference", "onnxruntime": "ONNX Runtime"}.get(backend, backend)
        super().__init__(side, backend, title, is_own=False)
        self._backend = backend
        self._session: Any = None
        self._asked: Any = None
        self.budget = seconds
        """Seconds that it may take for all draws together; as many as it takes if `None`."""
        self._spent = 0.0

    def open(self) -> None:
        try:
            self._session = prepare(self.side.graph, self._backend)
        except DiagnosticError as error:
            raise UnansweredError(error.diagnostics[0].message) from error
        self.version = _version(self._backend)

    def close(self) -> None:
        self._session = self._asked = None

    def ask(self, draw: TestInput, first: Side) -> None:
        self._asked = checked(self.side.graph, paired(draw.arrays, first.graph, self.side.graph))

    def answer(self) -> list[Any]:
        start = time.perf_counter()
        try:
            found = self._session.run(self._asked, **self._deadline())
        except RunLimitError as error:
            raise UnfinishedError(error.reason) from error
        except DiagnosticError as error:
            raise UnansweredError(error.diagnostics[0].message) from error
        except TimeoutError:
            raise UnansweredError(f"would take longer than {self.budget or 0:.1f} s") from None
        finally:
            self._spent += time.perf_counter() - start
        self.answered += 1
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


def _as_kept(states: Mapping[str, Any], state: State, value: Value) -> Any:
    """What a variable is behind a run; OpenVINO keeps a number without axes as an array of one.

    That it is not the first run is told by the runtime itself, which begins anew where it is not told.
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
    from graphport.proof.wire import dtype_of

    try:
        return array.astype(dtype_of(port.dtype))
    except (TypeError, ValueError):
        return array


def declared_dtype(value: Value) -> str | None:
    """The element type that we have read of a value."""
    return str(value.fact.dtype) if isinstance(value.fact, TensorFact) and value.fact.dtype is not None else None
