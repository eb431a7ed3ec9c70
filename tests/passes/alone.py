"""Run one pass on a model and check that the results are unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

import graphport as gp
from graphport.core.facts import UNKNOWN, Fact, TensorFact
from graphport.ir.graph import Graph
from graphport.ir.verify import verify
from graphport.passes.journal import Journal
from graphport.passes.remove_dead import remove_dead
from tests.laws import canonical
from tests.passes.cases import B, F, info, model, some

X = (2, 3, 4)


def applied(
    proto: ModelProto, work: Callable[[Graph, Journal], None], feeds: Mapping[str, Any], *, exact: bool = True
) -> tuple[list[str], Journal]:
    """Return the remaining operators after `work`, and its journal.

    Checks that the outputs are unchanged, bit for bit if `exact`, and that their facts are at least as precise.
    """
    model = gp.from_onnx(proto)
    before = gp.run(model, feeds, backend="reference").ordered
    graph, journal = model.graph, Journal(room=1 << 30)
    facts = [value.fact for value in graph.outputs]
    work(graph, journal)
    verify(graph)
    for was, value in zip(facts, graph.outputs, strict=True):
        assert is_still_known(was, value.fact), f"{value.name}: {was} became {value.fact}"
    remove_dead(graph, Journal())
    after = gp.run(gp.Model(canonical(graph)), feeds, backend="reference").ordered
    for one, other in zip(before, after, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if exact:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return [node.op for node in graph], journal


def is_still_known(was: Fact, now: Fact) -> bool:
    """Return whether a fact is at least as precise as another one, except for the names of symbols."""
    if not isinstance(was, TensorFact) or not isinstance(now, TensorFact):
        return now == was or was is UNKNOWN
    if was.dtype not in (None, now.dtype) or was.shape is None or now.shape is None:
        return was.dtype in (None, now.dtype) and was.shape is None
    return len(was.shape) == len(now.shape) and all(
        n == m or not isinstance(n, int) for n, m in zip(was.shape, now.shape, strict=True)
    )


def done(
    work: Callable[[Graph, Journal], None],
    nodes: Sequence[Any],
    inputs: Any = (("x", X),),
    *,
    outputs: Any = ("y",),
    dtypes: Any = None,
    opset: Any = 18,
    exact: Any = True,
    **constants: Any,
) -> tuple[list[str], Journal]:
    """Call `applied` with nodes on float inputs (`c` is a condition, `dtypes` overrides) and constants."""
    kinds = {"c": B, **(dtypes or {})}
    infos = [info(name, shape, kinds.get(name, F)) for name, shape in inputs]
    results = [info(name, None, kinds.get(name, F)) for name in outputs]
    feeds: dict[str, Any] = {}
    for name, shape in inputs:
        sizes = [2 if isinstance(each, str) else each for each in shape]
        match kinds.get(name, F):
            case 9:
                feeds[name] = np.ones(sizes, bool)
            case 7:
                feeds[name] = np.arange(int(np.prod(sizes))).reshape(sizes)
            case _:
                feeds[name] = some(*sizes)
    proto = model(nodes, infos, results, {name: np.asarray(each) for name, each in constants.items()}, opset=opset)
    return applied(proto, work, feeds, exact=exact)


def read(
    nodes: Sequence[Any],
    inputs: Any = (("x", X),),
    outputs: Any = ("y",),
    opset: Any = 18,
    **constants: Any,
) -> Any:
    """Return the graph of nodes on float inputs and constants."""
    infos = [info(name, shape) for name, shape in inputs]
    return gp.from_onnx(model(nodes, infos, [info(name, None) for name in outputs], constants, opset=opset)).graph


def reasons(journal: Journal) -> list[str]:
    """Return the reasons for unchanged nodes."""
    return [note.text for note in journal.left]
