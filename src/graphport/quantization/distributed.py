"""Observe shards and round layers on the machines of a Ray cluster.

The machines need this package in the same version, and no shared files: the model is sent to each machine once, and
samples while they are read. If a machine fails, another one observes its shard again.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from graphport.conversion.legalize import legalize
from graphport.conversion.unused_constants import remove_unused_constants
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.packages import install
from graphport.quantization.engine import session
from graphport.quantization.layer_tasks import AdjustmentSettings, LayerTask, joined, rounded, rounded_parts
from graphport.quantization.shards import observed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    import numpy as np

    from graphport.backends import Session
    from graphport.ir.graph import Graph, Node
    from graphport.quantization.choices import Choices
    from graphport.quantization.insert_qdq import Weight
    from graphport.quantization.layer import Layer
    from graphport.quantization.layerwise import Follower, LayerNoise
    from graphport.quantization.round import Rows
    from graphport.quantization.samples import Run
    from graphport.quantization.shards import Observer, Plan, States

Array: TypeAlias = "np.ndarray[Any, Any]"

METHODS = ("ray",)
"""Methods of distributed observation."""
_QUEUED_SHARDS = 2
"""Shards queued per worker ahead of merging, which limits how far samples are read ahead."""
_ATTEMPTS = 3


def observer(method: str) -> Observer:
    """Return the observer of shards of that name.

    Raises:
        DiagnosticError: QUANT0011 unknown method, or it is not installed.
    """
    if method not in METHODS:
        message = f"unknown method {method!r} of distributed observation"
        raise DiagnosticError(Diagnostic("QUANT0011", message, None, f"methods: {', '.join(METHODS)}"))
    _ray()
    return on_ray


def on_ray(plan: Plan, shards: Iterable[Iterable[Run]], heard: Callable[[int], None]) -> Iterator[States]:
    """Observe shards on the Ray cluster of this process or of the environment.

    Raises:
        DiagnosticError: QUANT0012 no cluster, a machine has another version of this package, or a shard cannot be
            observed there.
    """
    ray = _ray()
    with _connected(ray), _explained(ray, "a shard was not observed"):
        workers = _workers(ray)
        task = ray.put(files_of(plan.graph)), dict(plan.axes), plan.threads
        pending: deque[tuple[Any, int]] = deque()
        for worker, shard in zip(cycle(workers), shards, strict=False):
            runs = list(shard)
            pending.append((worker.observe.remote([task], ray.put(runs)), sum(count for _, count in runs)))
            if len(pending) >= _QUEUED_SHARDS * len(workers):
                yield _next(ray, pending, heard)
        while pending:
            yield _next(ray, pending, heard)


class LayersElsewhere(Protocol):
    """Rounds layers outside of the process that follows samples; returns `None` for layers that it does not support."""

    def __call__(
        self, choices: Choices, follower: Follower, layer: Layer, real: list[Array], rounded: list[Array]
    ) -> tuple[Weight, LayerNoise] | None: ...


@contextmanager
def layers_elsewhere(method: str) -> Generator[LayersElsewhere]:
    """Return the rounder of layers of that name.

    Raises:
        DiagnosticError: QUANT0011 unknown method, or it is not installed, QUANT0012 no cluster, a machine has another
            version of this package, or a layer cannot be rounded there.
    """
    observer(method)
    ray = _ray()
    with _connected(ray), _explained(ray, "a layer was not rounded"):
        yield LayersOnRay(ray, _workers(ray))


@dataclass(slots=True, eq=False)
class LayersOnRay:
    """Round products on a Ray cluster: each task has the weights of some output channels and the input rows.

    Both are in Ray's object store, which workers map; layers with a common input are rounded in parallel.
    """

    ray: Any
    workers: list[Any]
    _of: Follower | None = None
    _known: dict[Node, tuple[Weight, LayerNoise]] = field(default_factory=dict["Node", "tuple[Weight, LayerNoise]"])

    def __call__(
        self, choices: Choices, follower: Follower, layer: Layer, real: list[Array], rounded: list[Array]
    ) -> tuple[Weight, LayerNoise] | None:
        layers = follower.quantization.placement.layers
        if layer.node not in layers or layer.kind != "product" or not all(x.size for x in real):
            return None
        if self._of is not follower:
            self._of, self._known = follower, {}
        if layer.node not in self._known:
            beside = [x for x in layers.values() if x.input is layer.input and x.kind == "product"]
            self._round(choices, follower, beside, follower.rows_of(layer, real, rounded))
        return self._known.pop(layer.node)

    def _round(self, choices: Choices, follower: Follower, layers: list[Layer], rows: Rows) -> None:
        given = self.ray.put(rows)
        ways = AdjustmentSettings(*(getattr(follower, name) for name in AdjustmentSettings._fields))
        found: dict[Node, list[Any]] = {layer.node: [] for layer in layers}
        pending: deque[tuple[Node, Any]] = deque()
        parts = ((layer, place) for layer in layers for place in rounded_parts(layer, choices))
        for worker, (layer, place) in zip(cycle(self.workers), parts, strict=False):
            task = self.ray.put(LayerTask.of(layer, place))
            pending.append((layer.node, worker.round_layer.remote([task, given], choices, ways)))
            if len(pending) >= _QUEUED_SHARDS * len(self.workers):
                node, part = pending.popleft()
                found[node].append(self.ray.get(part))
        for node, part in pending:
            found[node].append(self.ray.get(part))
        self._known |= {layer.node: joined(layer, found[layer.node]) for layer in layers}


def _next(ray: Any, pending: deque[tuple[Any, int]], heard: Callable[[int], None]) -> States:
    found, count = pending.popleft()
    states: States = ray.get(found)
    heard(count)
    return states


def _workers(ray: Any) -> list[Any]:
    """Start a worker for each free core of the cluster, with the version of this package."""
    made = ray.remote(num_cpus=1, max_restarts=_ATTEMPTS, max_task_retries=_ATTEMPTS)(Worker)
    count = max(int(ray.available_resources().get("CPU", 1)), 1)
    workers = [made.remote() for _ in range(count)]
    found, own = set(ray.get([worker.version.remote() for worker in workers])), _version()
    if found != {own}:
        message = f"graphport versions differ: {', '.join(sorted(found))} on the cluster, {own} here"
        raise DiagnosticError(Diagnostic("QUANT0012", message, None, "install equal versions on all machines"))
    return workers


class Worker:
    """Worker on a core of the cluster, which keeps the model after the first task."""

    def __init__(self) -> None:
        self._session: Session | None = None

    def version(self) -> str:
        """Return the version of this package."""
        return _version()

    def observe(self, tasks: list[tuple[Any, Mapping[str, int | None], int]], runs: Iterable[Run]) -> States:
        """Observe a shard; a task contains references to the model's files, axes and threads.

        The files are a reference inside a list, which Ray does not resolve: a worker with the model does not fetch them
        again.
        """
        files, axes, threads = tasks[0]
        if self._session is None:
            self._session = session(graph_of(_ray().get(files)), threads=threads)
        return observed(self._session, axes, runs, lambda _: None)

    def round_layer(self, task: list[Any], choices: Choices, ways: AdjustmentSettings) -> tuple[Weight, LayerNoise]:
        """Return the codes of some output channels; a task contains references to weights and rows."""
        layer, rows = _ray().get(task)
        return rounded(layer, choices, ways, rows)


def _version() -> str:
    return metadata.version("graphport")


def files_of(graph: Graph) -> dict[str, bytes]:
    """Return the files of an ONNX model of a canonical graph, by name."""
    from graphport.formats.onnx import write

    with TemporaryDirectory(prefix="graphport-") as folder:
        place = Path(folder)
        write(remove_unused_constants(graph), place / "model.onnx", external_data=True)
        return {file.name: file.read_bytes() for file in sorted(place.iterdir())}


def graph_of(files: Mapping[str, bytes]) -> Graph:
    """Read the graph that `files_of` wrote; the weights stay mapped after the files are deleted."""
    from graphport.formats.onnx import read

    with TemporaryDirectory(prefix="graphport-") as folder:
        place = Path(folder)
        for name, content in files.items():
            (place / Path(name).name).write_bytes(content)
        # Mapped files stay accessible after they are unlinked.
        return legalize(read(place / "model.onnx"))[0]


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        message = "distributed observation requires the package ray"
        raise DiagnosticError(Diagnostic("QUANT0011", message, None, install("ray"))) from error
    return ray


@contextmanager
def _connected(ray: Any) -> Generator[None]:
    """Connect to a cluster; disconnect afterwards if this call connected."""
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address="auto", log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        message = f"no Ray cluster found: {_first_line(error)}"
        remedy = "start a cluster with `ray start --head`, or set RAY_ADDRESS"
        raise DiagnosticError(Diagnostic("QUANT0012", message, None, remedy)) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _explained(ray: Any, what: str) -> Generator[None]:
    try:
        yield
    except ray.exceptions.RayError as error:
        message = f"{what} on the cluster: {_first_line(error)}"
        raise DiagnosticError(Diagnostic("QUANT0012", message, None, "check the Ray logs on the machines")) from error


def _first_line(error: Exception) -> str:
    """Return the last nonempty line: Ray puts tracebacks of other processes before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
