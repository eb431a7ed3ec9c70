"""One run of a file in a runtime: a row of the matrix that a verdict is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any


class Configuration(StrEnum):
    """How a runtime was started."""

    DEFAULT = "default"
    """As users start it: default delegates, default hints, all optimizations."""
    STRICT = "strict"
    """Every operator computed as the file states it, in its own element types. Used for the tight comparison."""
    READING = "our reading"
    """A backend on the graph that graphport read. It shares code with graphport."""


class Failure(StrEnum):
    """The kind of failure to load a file or to compute a test input."""

    REJECTED = "rejected"
    """The runtime refuses the file or the test input, or its process ended."""
    LACKING = "lacking"
    """The runtime has no kernel for an operator, or is older than the file."""
    LIMIT = "limit"
    """A deadline passed, or memory ran out."""
    STATES = "states"
    """The proof cannot give the runtime the states between runs."""
    MISSING = "missing"
    """The runtime is not installed."""
    KNOWN_FAULT = "known fault"
    """The runtime is not used: it is known to compute an operator of the file incorrectly."""


@dataclass(frozen=True, slots=True)
class Run:
    """One test input, computed from one file by one runtime in one configuration.

    A file that was not loaded has one record, with an empty `input`.
    """

    side: str
    """`a` for the source file, `b` for the written file."""
    runtime: str
    """`onnxruntime`, `openvino`, `litert`, `ncnn`, `tract`, `torch`; `reference` or a backend for our reading."""
    version: str
    configuration: Configuration
    input: str = ""
    """Label of the test input."""
    loaded: bool = False
    ran: bool = False
    agrees: bool | None = None
    """Whether its outputs equal those that they were compared with; `None` if they were not compared.

    Side `b` is compared with side `a` by the runtime that represents each side. Another runtime of a side, or another
    configuration, is compared with the one that represents that side.
    """
    max_abs: float | None = None
    """Largest absolute difference over all outputs."""
    snr_db: float | None = None
    """Smallest signal-to-noise ratio over all outputs, in decibels."""
    reason: str | None = None
    """What was refused, or which output differs, for people."""
    failure: Failure | None = None
    """Why it was not loaded or did not run."""
    is_known_reader: bool = False
    """Whether the file is of no use if this runtime rejects it: its flavour is written for this runtime."""
    is_excused: bool = False
    """Whether its outputs differ because the default configuration rounds a quantized model elsewhere than any file of
    it states. Such a run neither refutes the file nor computes it as users start the runtime.
    """

    @property
    def compared(self) -> bool:
        """Whether its outputs were compared with others."""
        return self.agrees is not None

    @property
    def is_native(self) -> bool:
        """Whether an independent runtime computed the file."""
        return self.configuration is not Configuration.READING

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON-compatible data; an infinite SNR (no difference) is `None`."""
        ratio = self.snr_db
        return {
            "side": self.side,
            "runtime": self.runtime,
            "version": self.version,
            "configuration": str(self.configuration),
            "input": self.input,
            "loaded": self.loaded,
            "ran": self.ran,
            "agrees": self.agrees,
            "max_abs": self.max_abs,
            "snr_db": ratio if ratio is not None and isfinite(ratio) else None,
            "reason": self.reason,
            "failure": None if self.failure is None else str(self.failure),
        }
