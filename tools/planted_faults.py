"""Replace operators in models by wrong ones; count how often `find_difference` finds them and how far it reduces."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import graphport as gp
from graphport.api.compare import compare, find_difference
from graphport.api.run import first_run
from graphport.core.diagnostics import DiagnosticError
from graphport.core.storage import ArrayStorage
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, walk

if TYPE_CHECKING:
    from collections.abc import Callable

OTHERS = {
    "Relu": "Sigmoid",
    "Sigmoid": "Tanh",
    "Tanh": "Sigmoid",
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Div": "Mul",
    "Sqrt": "Abs",
    "Exp": "Abs",
    "HardSigmoid": "Sigmoid",
    "MaxPool": "AveragePool",
    "GlobalAveragePool": "GlobalMaxPool",
}


def change_attribute(graph: Graph, random: Random) -> Node | None:
    """Change a float attribute, an integer flag, or move a padding element from the end to the begin of an axis."""
    choices: list[tuple[Node, str, Any]] = []
    for inner in walk(graph):
        for node in inner:
            attributes: dict[str, Any] = dict(node.attributes)
            for name, value in attributes.items():
                if isinstance(value, float):
                    choices.append((node, name, value * 1.5 + 0.1))
                elif name == "pads" and len(value) == 4 and value[2]:
                    choices.append((node, name, (value[0] + 1, value[1], value[2] - 1, value[3])))
                elif name in ("transA", "transB", "count_include_pad", "keepdims") and value in (0, 1):
                    choices.append((node, name, 1 - int(bool(value))))
    if not choices:
        return None
    node, name, value = random.choice(choices)
    node.set_attribute(name, value)
    return node


def scale_weight(graph: Graph, random: Random) -> Node | None:
    """Multiply a weight by 1.1."""
    weights = [
        value
        for inner in walk(graph)
        for value in inner.constants
        if value.users and value.storage is not None and value.storage.dtype.is_floating and value.storage.count > 1
    ]
    if not weights:
        return None
    weight = random.choice(weights)
    if weight.storage is None:
        return None
    numbers = weight.storage.numpy()
    weight.storage = ArrayStorage((numbers * 1.1).astype(numbers.dtype))
    return weight.users[0]


def replace_node(graph: Graph, random: Random) -> Node | None:
    """Change the op type of a node."""
    nodes = [node for inner in walk(graph) for node in inner if node.op in OTHERS]
    if not nodes:
        return None
    node = random.choice(nodes)
    node.op_type = OTHERS[node.op_type]
    return node


KINDS: tuple[Callable[[Graph, Random], Node | None], ...] = (change_attribute, scale_weight, replace_node)


def main() -> None:
    """Plant changes and search for each with `find_difference`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random = Random(options.seed)  # noqa: S311
    seen: Counter[str] = Counter()
    loaded: dict[str, tuple[gp.Model, dict[str, object]]] = {}
    tries = 0
    while sum(seen.values()) < options.count and tries < options.count * 8:
        path, plant = options.models[tries % len(options.models)], KINDS[tries % len(KINDS)]
        tries += 1
        if path not in loaded:
            model = gp.load(path)
            loaded[path] = model, first_run(model)[0]
        model, given = loaded[path]
        twin = rewrite.copy(model.graph)
        node = plant(twin, random)
        if node is None:
            continue
        other = gp.Model(twin, model.format)
        try:
            if compare(model, other, given).passed:
                continue
        except DiagnosticError:
            pass  # the changed model does not run: a difference as well
        begin = time.perf_counter()
        found = find_difference(model, other, given)
        verdict = "not found"
        if found is not None:
            names = {value.name for value in node.results} | {node.name}
            is_right = found.node in names or found.value in names
            size = max(len(found.a.graph), len(found.b.graph))
            verdict = ("right" if is_right else "another node") + (", small" if size <= 3 else f", {size} nodes")
            verdict += "" if found.is_beyond else ", by guess"
        seen[verdict] += 1
        name = node.name or node.results[0].name
        what = f"{path.rpartition('/')[2]}  {plant.__name__} {node.op} {name}"
        print(f"{time.perf_counter() - begin:6.1f} s  {what}: {verdict}  {found}", flush=True)
    for verdict, count in seen.most_common():
        print(f"{count:4}  {verdict}")


if __name__ == "__main__":
    main()
