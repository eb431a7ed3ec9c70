"""Measure how fast report pages load and pan, by the number of nodes.

python benchmarks/pages.py [NODES …]    print seconds for the report, its page, and the page in Chromium; ms a frame
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import Graph, Node, Value
from tests.reports.browser import Browser, browser

_FRAMES = 60
_PAN = f"""new Promise(done => {{
  const view = page.views[0], times = []; let last = performance.now(), left = {_FRAMES};
  const step = now => {{
    times.push(now - last); last = now; view.left += 12; view.top -= 9; view.render();
    left-- ? requestAnimationFrame(step) : done(times.slice(3).sort((a, b) => a - b));
  }};
  requestAnimationFrame(step);
}})"""


def network(count: int) -> gp.Model:
    """Return layers of six nodes with two residual sums each, in stages of ten layers, with exporter-style names."""
    graph = Graph("large")
    fact = TensorFact(DType.FLOAT32, (1, 8, 4, 4))
    weight = graph.add_constant(
        "w", TensorFact(DType.FLOAT32, (8, 8, 1, 1)), storage_of(np.ones((8, 8, 1, 1), "float32"))
    )
    x = graph.add_input("x", fact)

    def add(op: str, operands: list[Value], name: str) -> Value:
        return graph.append(Node(op, operands, [Value(graph.fresh(f"{name}_y"), fact)], name=name)).output

    for layer in range(count // 6):
        scope = f"/stage{layer // 60}/block{layer // 6}/layer{layer}"
        h = add("Conv", [x, weight], f"{scope}/conv1/Conv")
        h = add("Relu", [h], f"{scope}/Relu")
        s = add("Add", [h, x], f"{scope}/Add")
        h = add("Conv", [s, weight], f"{scope}/conv2/Conv")
        h = add("Sigmoid", [h], f"{scope}/Sigmoid")
        x = add("Mul", [h, s], f"{scope}/Mul")
    for index in range(count % 6):
        x = add("Relu", [x], f"/tail/Relu{index}")
    graph.add_output(x)
    return gp.Model(graph)


def measured(page: Browser) -> tuple[float, float]:
    """Return the median and the maximum frame time of a pan, in milliseconds."""
    times: list[float] = page(_PAN)
    return times[len(times) // 2], times[-1]


def main(counts: list[int]) -> None:
    """Print a row for each size."""
    print("nodes  report s  page s  KB  opens s  frame ms (worst)  all open s  boxes  frame ms (worst)")  # noqa: T201
    with browser() as page, TemporaryDirectory() as folder:
        for count in counts:
            start = time.perf_counter()
            report = gp.report(network(count))
            made = time.perf_counter()
            target = Path(folder) / f"{count}.html"
            report.save(target)
            written = time.perf_counter()
            opens = min(page.open(target) for _ in range(3))
            folded = measured(page)
            begin = time.perf_counter()
            page("page.views[0].openAll(true)")
            page.frame()
            unfolded = time.perf_counter() - begin
            page("page.views[0].fit()")
            page.frame()
            moved = measured(page)
            boxes = page("page.views[0].drawing.boxes.length")
            print(  # noqa: T201
                f"{count:6}  {made - start:.2f}  {written - made:.2f}  {target.stat().st_size // 1000}  {opens:.2f}  "
                f"{folded[0]:.1f} ({folded[1]:.1f})  {unfolded:.2f}  {boxes}  {moved[0]:.1f} ({moved[1]:.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or [100, 1000, 5000, 100_000])
