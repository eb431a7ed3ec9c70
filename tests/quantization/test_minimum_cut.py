"""The cheapest way to part nodes, against trying every way."""

from __future__ import annotations

from itertools import chain, combinations
from math import inf

import numpy as np
import pytest

from graphport.quantization.minimum_cut import Cut


def test_no_way_is_cheaper():
    r = np.random.default_rng(0)
    for _ in range(150):
        count = int(r.integers(1, 8))
        costs = r.uniform(0, 5, size=(count, 2))
        links = [
            (*r.choice(count, 2, replace=False), r.uniform(0, 4)) for _ in range(r.integers(0, 12) if count > 1 else 0)
        ]

        def cost(first, costs=costs, links=links):
            own = sum(costs[i][0] if i in first else costs[i][1] for i in range(len(costs)))
            return own + sum(size for a, b, size in links if a in first and b not in first)

        problem = Cut()
        items = [problem.add(*pair) for pair in costs]
        for a, b, size in links:
            problem.link(items[a], items[b], size)
        found = problem.solve()
        ways = chain.from_iterable(combinations(range(count), size) for size in range(count + 1))
        assert cost({i for i in range(count) if items[i] in found}) == pytest.approx(min(map(cost, map(set, ways))))


def test_infinite_edges_are_not_cut():
    problem = Cut()
    a, b = problem.add(0, 10), problem.add(3, 0)
    problem.link(a, b, inf)
    assert problem.solve() == {a, b}
