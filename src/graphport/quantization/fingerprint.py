"""By what statistics are known again: the model, the samples and the settings that they were collected with.

Samples are read as a stream, and so is what tells them apart: a digest of all runs so far, taken after every shard.
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
    """What statistics depend on, but for the numbers of the samples.

    `graph` and `weights` are digests of the prepared model; `samples` tells how many there are and of which kind;
    `values` are the values that are observed, with the axis that each is counted along; `way` is how samples are
    shared out to runs; `settings` are those of the user, which explain a difference in the others.
    """

    graph: str
    weights: str
    samples: Mapping[str, Any]
    values: Mapping[str, int | None]
    way: Mapping[str, int]
    settings: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "graph": self.graph,
            "weights": self.weights,
            "samples": dict(self.samples),
            "values": dict(self.values),
            "way": dict(self.way),
            "settings": dict(self.settings),
        }

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """What is different from a fingerprint as plain data, in words; nothing where statistics are the same."""
        own = self.as_json()
        found: list[str] = []
        if own["graph"] != other["graph"]:
            found.append("the model: its graph is another one")
        elif own["weights"] != other["weights"]:
            found.append("the weights of the model")
        if own["samples"] != other["samples"]:
            found += [f"the samples: {stated}" for stated in _changes(other["samples"], own["samples"])]
        if own["graph"] == other["graph"] and (own["values"], own["way"]) != (other["values"], other["way"]):
            stated = _changes(other["settings"], own["settings"]) + _changes(other["way"], own["way"])
            found.append(f"the settings: {', '.join(stated)}" if stated else "the values that are observed")
        return found


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    names = dict.fromkeys([*old, *new])
    return [f"{name} was {old.get(name)}, is {new.get(name)}" for name in names if old.get(name) != new.get(name)]


def model_digests(graph: Graph) -> tuple[str, str]:
    """Digests of a graph without its numbers, and of these; names of graphs and places in files do not count."""
    # Not needed unless statistics are kept.
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
    """How many samples there are, and for each input the type and the shape of its data."""
    found: dict[str, Any] = {"number": samples.count}
    for name, column in samples.columns.items():
        found[name] = f"{column.dtype}{list(column.shape[1:])}"
    for name, x in samples.fixed.items():
        found[name] = f"{x.dtype}{list(x.shape)}"
    return found


class Trail:
    """The digest of all runs that were read so far, remembered at the end of each shard until somebody asks."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=_BYTES)
        self._ends: deque[str] = deque()

    def over(self, shards: Iterable[Iterable[Run]]) -> Iterator[Iterator[Run]]:
        """The same shards; each is digested as it is read."""
        for shard in shards:
            yield self._along(shard)

    def next_end(self) -> str:
        """The digest at the end of the next shard; shards are told in order, each once."""
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
