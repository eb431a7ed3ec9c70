"""Identify stored statistics by model, samples and settings.

Samples are a stream, and so is their digest: it is updated after each shard.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from graphport.core.dtypes import DType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph
    from graphport.quantization.samples import Run, Samples

Array: TypeAlias = "np.ndarray[Any, Any]"

_BYTES = 16


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Everything that statistics depend on, except the sample data.

    `graph` and `weights` are digests of the prepared model; `samples` contains the number and kinds of samples;
    `values` are the observed values with their channel axes; `way` is the assignment of samples to runs; `settings` are
    those of the user, which explain a difference in the other fields.
    """

    graph: str
    weights: str
    samples: Mapping[str, Any]
    values: Mapping[str, int | None]
    way: Mapping[str, int]
    settings: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "graph": self.graph,
            "weights": self.weights,
            "samples": dict(self.samples),
            "values": dict(self.values),
            "way": dict(self.way),
            "settings": dict(self.settings),
        }

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """List the differences from a stored fingerprint as sentences; empty if it matches."""
        own = self.as_json()
        found: list[str] = []
        if own["graph"] != other["graph"]:
            found.append("the graph of the model")
        elif own["weights"] != other["weights"]:
            found.append("the weights of the model")
        if own["samples"] != other["samples"]:
            found += [f"the samples: {stated}" for stated in _changes(other["samples"], own["samples"])]
        if own["graph"] == other["graph"] and (own["values"], own["way"]) != (other["values"], other["way"]):
            stated = _changes(other["settings"], own["settings"]) + _changes(other["way"], own["way"])
            found.append(f"the settings: {', '.join(stated)}" if stated else "the observed values")
        return found


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    names = dict.fromkeys([*old, *new])
    return [f"{name} was {old.get(name)}, is {new.get(name)}" for name in names if old.get(name) != new.get(name)]


def model_digests(graph: Graph) -> tuple[str, str]:
    """Return digests of the graph without constants, and of the constants.

    Graph names and file positions do not count.
    """
    # Not needed unless statistics are stored.
    from graphport.ir.text import to_text

    weights = blake2b(digest_size=_BYTES)

    def refer(storage: Storage) -> str:
        weights.update(f"{storage.dtype}{list(storage.shape)}".encode())
        if storage.dtype is DType.STRING:
            weights.update(repr(storage.numpy().tolist()).encode())
        for piece in storage.chunks():
            weights.update(piece)
        return ""

    text = to_text(graph, inline=0, refer=refer).partition("(")[2]
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES).hexdigest(), weights.hexdigest()


def kinds(samples: Samples) -> dict[str, Any]:
    """Return the number of samples, and type and shape of each input's data."""
    found: dict[str, Any] = {"number": samples.count}
    for name, column in samples.columns.items():
        found[name] = f"{column.dtype}{list(column.shape[1:])}"
    for name, x in samples.fixed.items():
        found[name] = f"{x.dtype}{list(x.shape)}"
    return found


class Trail:
    """Digest of all runs read so far, stored at the end of each shard until it is requested."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=_BYTES)
        self._ends: deque[str] = deque()

    def over(self, shards: Iterable[Iterable[Run]]) -> Iterator[Iterator[Run]]:
        """Yield the shards; each is digested while it is read."""
        for shard in shards:
            yield self._along(shard)

    def next_end(self) -> str:
        """Return and remove the oldest stored digest: that of all runs up to the end of its shard."""
        return self._ends.popleft()

    def _along(self, runs: Iterable[Run]) -> Iterator[Run]:
        for inputs, count in runs:
            for name, x in inputs.items():
                self._add(name, x)
            yield inputs, count
        self._ends.append(self._hash.hexdigest())

    def _add(self, name: str, given: Any) -> None:
        for x in cast("list[Any]", given) if isinstance(given, list) else [given]:
            array: Array = np.asarray(x)
            self._hash.update(f"{name} {array.dtype}{array.shape}".encode())
            if array.dtype.hasobject:
                self._hash.update(repr(array.tolist()).encode())
            else:
                self._hash.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
