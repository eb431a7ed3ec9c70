"""Run E1 to E5 of `benchmarks/test_expressions.py` with graphport, numba, NumPy and other installed libraries.

python -m benchmarks.peers.expressions [ROUNDS]

The order is random in every round. On one thread times are processor time, on two elapsed time; each is the median of
the ten fastest. numba uses `fastmath`, division by zero as in NumPy, and a separate polynomial for `exp`; NumPy writes
to preallocated temporaries.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from benchmarks.test_expressions import SHAPES, TEXTS, folded, peers, turns

from graphport.expression.expression import Expression
from graphport.expression.kernels import KERNELS
from graphport.expression.rpn import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.test_expressions import Array, Run

_COLUMNS = ("compiled", "numba", "NumPy tier", "NumPy", "openvino", "onnxruntime", "numexpr")
_QUICKEST = 10
_FORMULAS = {
    "add": "({}+{})", "mul": "({}*{})", "div": "({}/{})", "exp": "exp({})", "neg": "(-{})", "sqrt": "np.sqrt({})",
    "maximum": "max({},{})", "pow": "({0}*{0})",
}  # fmt: skip
_EXP = """
def exp(x):
    x = min(max(x, f(-87.3)), f(88.3))
    k = np.floor(x * f(1.44269504) + f(0.5))
    r = x - k * f(0.693359375) + k * f(2.12194440e-4)
    p = f(1.9875691500e-4) * r + f(1.3981999507e-3)
    p = p * r + f(8.3334519073e-3)
    p = p * r + f(4.1665795894e-2)
    p = p * r + f(1.6666665459e-1)
    p = p * r + f(5.0000001201e-1)
    return (p * r * r + r + f(1.0)) * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(f)
"""


def plain(expression: Expression, operands: Sequence[Array], out: Array) -> Run:
    """Run NumPy's functions in order; a temporary is reused after its last read."""
    calls: list[tuple[Callable[..., object], list[Any], Array]] = []
    stack: list[Any] = []
    free: list[Array] = []
    last = len(expression.rpn) - 1
    for place, step in enumerate(expression.rpn):
        match step.action:
            case Action.LOAD:
                stack.append(operands[step.index])
            case Action.PUSH:
                stack.append(np.float32(cast("float", step.value)))
            case _:
                taken = stack[len(stack) - step.arity :]
                del stack[len(stack) - step.arity :]
                free.extend(each for each in taken if np.ndim(each) and not any(each is x for x in operands))
                target = out if place == last else free.pop() if free else np.empty_like(out)
                calls.append((KERNELS[step.function], taken, target))
                stack.append(target)

    def run() -> None:
        for function, taken, target in calls:
            function(*taken, out=target)

    return run


def numba_run(expression: Expression, operands: Sequence[Array], out: Array, threads: int) -> Run:
    """Compile one loop with numba."""
    import numba  # pyright: ignore[reportMissingImports]

    made: Any = numba
    made.set_num_threads(threads)
    names = [f"x{index}" for index in range(expression.operand_count)]
    formula = folded(expression, lambda name, given: _FORMULAS[name].format(*given), lambda value: f"f({value})")
    for name in names:
        formula = formula.replace(name, f"{name}[i]")
    loop = f"def loop({', '.join(names)}, out):\n    for i in made.prange(out.size):\n        out[i] = {formula}\n"
    home: dict[str, Any] = {"np": np, "f": np.float32, "made": made}
    exec(_EXP + loop, home)  # noqa: S102  our own source text
    home["exp"] = made.njit(home["exp"], fastmath=True, error_model="numpy")
    compiled = made.njit(home["loop"], fastmath=True, error_model="numpy", parallel=threads > 1)
    flat = [operand.reshape(-1) for operand in (*operands, out)]
    return lambda: compiled(*flat)


def times(runs: dict[str, Run], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the milliseconds of each run."""
    return {
        name: 1e3 * statistics.median(sorted(each)[:_QUICKEST]) for name, each in turns(runs, rounds, clock).items()
    }


def row(name: str, size: str, threads: int, rounds: int) -> str:
    """Return a line of the table."""
    expression, tier = (Expression(TEXTS[name], tier=tier, threads=threads) for tier in ("fused", "numpy"))
    shape = SHAPES[size]
    draws = (np.random.default_rng(index).random(shape, np.float32) / 2 + 0.25 for index in range(6))
    operands = [next(draws) for _ in range(expression.operand_count)]
    out = np.empty(shape, np.float32)
    runs: dict[str, Run] = {
        "compiled": lambda: expression(*operands, out=out),
        "numba": numba_run(expression, operands, out, threads),
        "NumPy tier": lambda: tier(*operands, out=out),
        "NumPy": plain(expression, operands, out),
        **peers(expression, operands, out, threads),
    }
    want = tier(*operands)
    for kind in ("compiled", "numba", "NumPy"):
        runs[kind]()
        np.testing.assert_allclose(out, want, rtol=2e-5, err_msg=kind)
    found = times(runs, rounds, time.process_time if threads == 1 else time.perf_counter)
    ratios = [found["compiled"] / found["numba"], found["NumPy tier"] / found["NumPy"]]
    cells = [
        *(f"{found[each]:.2f}" if each in found else "–" for each in _COLUMNS),
        *(f"{each:.2f}" for each in ratios),
    ]
    return f"| {name} | {size} | {threads} | {' | '.join(cells)} |"


def main(rounds: int = 100) -> None:
    heads = ["", "elements", "threads", *_COLUMNS, "compiled / numba", "tier / NumPy"]
    sys.stdout.write(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n")
    for threads in (1, 2):
        for size in list(SHAPES)[:2]:
            for name in TEXTS:
                sys.stdout.write(row(name, size, threads, rounds) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
