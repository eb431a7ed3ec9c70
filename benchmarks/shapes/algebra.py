"""Compare graphport's dim arithmetic with SymPy's integers: cost of import and comparison, and results.

python -m benchmarks.shapes.algebra
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import sympy

from graphport.core.dims import Symbol, decide_equal, decide_less, maximum

ROUNDS = 5


def microseconds(work: Callable[[], object], times: int) -> float:
    """Return the minimum processor time of one call, in rounds of `times` calls, in microseconds."""
    found: list[float] = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - begin) / times * 1e6)
    return min(found)


def importing(module: str) -> float:
    """Return the processor seconds that importing a module takes after NumPy."""
    text = f"import numpy, time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    runs = [subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def halved(extent, floor):
    """Return a dim after five convolutions with stride 2."""
    for _ in range(5):
        extent = floor(extent - 1, 2) + 1
    return extent


def main() -> None:
    """Print a row for each expression: graphport's time and result, SymPy's time and result."""
    h, w, b = (Symbol(name) for name in "HWB")
    x, y, z = (sympy.Symbol(name, integer=True, positive=True) for name in "HWB")

    def floor(a, n):
        return sympy.floor(a / sympy.Integer(n))

    ours, theirs = halved(h, lambda a, n: a // n), halved(x, floor)
    rows = [
        ("five strides of 2", lambda: halved(h, lambda a, n: a // n), lambda: halved(x, floor)),
        ("12*B*H*W // (12*B)", lambda: (12 * b * h * w) // (12 * b), lambda: sympy.floor((12 * z * x * y) / (12 * z))),
        (
            "H*(W+1) = H*W+H?",
            lambda: decide_equal(h * (w + 1), h * w + h),
            lambda: sympy.expand(x * (y + 1) - x * y - x) == 0,
        ),
        (
            "H//2//3 = H//6?",
            lambda: decide_equal(h // 2 // 3, h // 6),
            lambda: sympy.simplify(floor(floor(x, 2), 3) - floor(x, 6)) == 0,
        ),
        (
            "-(-H//4) = (H+3)//4?",
            lambda: decide_equal(-(-h // 4), (h + 3) // 4),
            lambda: sympy.simplify(-floor(-x, 4) - floor(x + 3, 4)) == 0,
        ),
        ("five strides of 2 < H+1?", lambda: decide_less(ours, h + 1), lambda: (theirs - x - 1).is_negative),
        ("max(H//2+1, 1)", lambda: maximum(h // 2 + 1, 1), lambda: sympy.Max(floor(x, 2) + 1, 1)),
    ]
    sys.stdout.write(f"import, in seconds: {importing('graphport.core.dims'):.3f}, sympy {importing('sympy'):.3f}\n")
    for what, our, their in rows:
        sys.stdout.write(
            f"{what:26} {microseconds(our, 50):8.1f} us  {our()!s:16}  sympy {microseconds(their, 10):8.1f} us  {their()}\n"
        )


if __name__ == "__main__":
    main()
