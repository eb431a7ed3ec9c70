"""Perplexity of a language model, as a metric for `quantize`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.corrupt_files import CORRUPT
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.regular_files import open_regular
from graphport.quantization.decoder import decoder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Graph
    from graphport.quantization.decoder import Decoder

Array: TypeAlias = "np.ndarray[Any, Any]"
Run: TypeAlias = "Callable[[dict[str, Any]], dict[str, Any]]"

_BATCH = 8


def perplexity(graph: Graph, tokens: Array) -> Callable[[Run], float]:
    """Return a metric for `quantize`: minus the perplexity on `tokens`, as larger is better.

    The exponential of the mean of -log p(next token). Other inputs are derived from the tokens (`decoder_of`): masks of
    ones, consecutive positions, empty caches of keys and values.

    Args:
        graph: its inputs: one of integers [batch, length], and those.
        tokens: [sequences, length + 1]; each token is predicted from the previous ones in its row.

    Raises:
        DiagnosticError: QUANT0031 the tokens are no rows of at least two integers, or the model has other inputs.
    """
    if tokens.ndim != 2 or tokens.shape[1] < 2 or tokens.dtype.kind not in "iu" or not len(tokens):
        stated = f"invalid tokens: {tokens.dtype}{list(tokens.shape)}, expected integers [rows, tokens]"
        raise DiagnosticError(Diagnostic("QUANT0031", stated, None, "pass an .npy with rows of at least two integers"))
    return Perplexity(_require_decoder(graph), tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Perplexity:
    """The metric: a function of a model runner."""

    reader: Decoder
    tokens: Array

    def __call__(self, run: Run) -> float:
        spent, count = 0.0, 0
        for start in range(0, len(self.tokens), _BATCH):
            rows = self.tokens[start : start + _BATCH].astype(np.int64)
            found = _logits(run(self.reader.inputs(rows[:, :-1])))
            if found is None or found.shape[:2] != (rows.shape[0], rows.shape[1] - 1):
                message = "no output contains logits [batch, length, tokens]"
                raise DiagnosticError(
                    Diagnostic("QUANT0031", message, None, "use a model with a float output of rank 3")
                )
            spent += _surprise(found, rows[:, 1:])
            count += rows[:, 1:].size
        return -float(np.exp(spent / count))

    def worded(self, number: float) -> str:
        """Format the metric as a perplexity."""
        return f"a perplexity of {-number:g}"


def tokens_of(given: object) -> Array:
    """Return an array, or read it from a `.npy` file.

    Raises:
        DiagnosticError: QUANT0031 it cannot be read.
    """
    if not isinstance(given, str | Path):
        return np.asarray(given)
    try:
        with open_regular(given) as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except CORRUPT as error:
        message = f"the tokens in {given} cannot be read: {error}"
        raise DiagnosticError(
            Diagnostic("QUANT0031", message, None, "write the file with np.save(path, tokens)")
        ) from error


def _surprise(logits: Array, following: Array) -> float:
    """Return the sum of -log p of the next tokens."""
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    x -= np.log(np.exp(x).sum(axis=-1, keepdims=True))
    return -float(np.take_along_axis(x, following[..., None], axis=2).sum())


def _logits(outputs: Mapping[str, Any]) -> Array | None:
    """Return the first float output of rank 3."""
    found = (np.asarray(x) for x in outputs.values() if np.ndim(x) == 3)
    return next((x for x in found if x.dtype.kind == "f"), None)


def _require_decoder(graph: Graph) -> Decoder:
    found = decoder_of(graph)
    if found is None:
        names = ", ".join(value.name for value in graph.inputs)
        message = f"the model has inputs other than tokens: {names}"
        raise DiagnosticError(Diagnostic("QUANT0031", message, None, "use --metric MODULE:FUNCTION instead"))
    return found
