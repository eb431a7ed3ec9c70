"""Compiled expressions compared with the memory bandwidth and with other libraries.

The limit is a loop with an equal number of memory streams and little arithmetic: the sum of the operands, with regular
stores. Times are the minimum of many rounds in which all run in random order; on one thread they are processor time, so
that other load on the machine has little effect.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from graphport.expression.expression import Expression
from graphport.expression.fused.kernel import FusedProgram
from graphport.expression.fused.source import Access
from graphport.expression.rpn import Action

pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]
Run = Callable[[], object]


def alternating(length: int) -> str:
    text = "@0"
    for number in range(length):
        text = f"{('mul', 'add')[number % 2]}({text},@{(number + 1) % 4})"
    return text


TEXTS = {
    "E1": "add(@0,@1)",
    "E2": "add(@0,mul(@1,@2))",
    "E3": "add(add(mul(@0,@1),mul(@2,add(add(add(@0,@2),@3),@4))),@5)",
    "E4": "add(mul(div(1.0,add(1.0,exp(neg(@0)))),@1),div(sqrt(add(mul(@2,@2),0.001)),maximum(pow(@1,2),0.5)))",
    "E5": alternating(40),
}
SHAPES = {"0.6 M": (4, 3, 224, 224), "1.6 M": (8, 64, 56, 56), "16 M": (16, 1000, 1000)}
OPERATORS = {
    "add": "Add", "mul": "Mul", "div": "Div", "exp": "Exp",
    "neg": "Neg", "sqrt": "Sqrt", "maximum": "Max", "pow": "Pow",
}  # fmt: skip
FORMULAS = {
    "add": "({}+{})", "mul": "({}*{})", "div": "({}/{})", "exp": "exp({})", "neg": "(-{})", "sqrt": "sqrt({})",
    "maximum": "where({0}>{1},{0},{1})", "pow": "({}**{})",
}  # fmt: skip


def folded(expression: Expression, apply: Callable[[str, list[str]], str], constant: Callable[[Any], str]) -> str:
    """Evaluate an expression's RPN symbolically on the names `x0`, `x1`, …"""
    stack: list[str] = []
    for step in expression.rpn:
        match step.action:
            case Action.LOAD:
                stack.append(f"x{step.index}")
            case Action.PUSH:
                stack.append(constant(step.value))
            case _:
                taken = stack[len(stack) - step.arity :]
                del stack[len(stack) - step.arity :]
                stack.append(apply(step.function, taken))
    return stack[0]


def onnx_model(expression: Expression, shape: Sequence[int]) -> bytes:
    """Return the expression as a serialized ONNX model."""
    from onnx import TensorProto, helper

    nodes: list[Any] = []
    constants: list[Any] = []

    def apply(function: str, arguments: list[str]) -> str:
        nodes.append(helper.make_node(OPERATORS[function], arguments, [f"t{len(nodes)}"]))
        return f"t{len(nodes) - 1}"

    def constant(value: Any) -> str:
        constants.append(helper.make_tensor(f"c{len(constants)}", TensorProto.FLOAT, [], [float(value)]))
        return f"c{len(constants) - 1}"

    result = folded(expression, apply, constant)
    inputs = [
        helper.make_tensor_value_info(f"x{index}", TensorProto.FLOAT, shape)
        for index in range(expression.operand_count)
    ]
    outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)]
    model = helper.make_model(
        helper.make_graph(nodes, "e", inputs, outputs, constants), opset_imports=[helper.make_opsetid("", 21)]
    )
    model.ir_version = 10
    return model.SerializeToString()


def peers(expression: Expression, operands: Sequence[Array], out: Array, threads: int) -> dict[str, Run]:
    """Return a run function for each installed library."""
    runs: dict[str, Run] = {}
    named = {f"x{index}": operand for index, operand in enumerate(operands)}
    import onnxruntime as ort

    options: Any = ort.SessionOptions()
    options.intra_op_num_threads = threads
    model = onnx_model(expression, out.shape)
    session: Any = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    runs["onnxruntime"] = lambda: session.run(None, named)
    if importlib.util.find_spec("openvino"):
        runs["openvino"] = openvino_run(model, named, out, threads)
    if importlib.util.find_spec("numexpr"):
        numexpr: Any = __import__("numexpr")
        numexpr.set_num_threads(threads)
        formula = folded(expression, lambda name, given: FORMULAS[name].format(*given), str)
        runs["numexpr"] = lambda: numexpr.evaluate(formula, named, out=out, casting="same_kind")
    return runs


def openvino_run(model: bytes, named: Mapping[str, Array], out: Array, threads: int) -> Run:
    import openvino

    core: Any = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()
    for name, operand in named.items():
        request.set_tensor(name, openvino.Tensor(operand, shared_memory=True))
    request.set_output_tensor(openvino.Tensor(out, shared_memory=True))
    return request.infer


def turns(runs: Mapping[str, Run], rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Return the seconds of each run; the order is random in every round.

    With a fixed order, the run after one that evicts the caches would always be slower.
    """
    taken: dict[str, list[float]] = {name: [] for name in runs}
    order = random.Random(0)
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in order.sample(list(runs.items()), len(runs)):
            start = clock()
            run()
            taken[name].append(clock() - start)
    return taken


def best_times(runs: Mapping[str, Run], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the minimum time of each run in milliseconds; see `turns`."""
    return {name: 1e3 * min(each) for name, each in turns(runs, rounds, clock).items()}


def with_ordinary_stores(text: str, threads: int) -> Expression:
    """Return an expression that stores results through the cache (no non-temporal stores)."""
    expression = Expression(text, tier="fused", threads=threads)
    expression(*[np.ones(3, np.float32)] * expression.operand_count)
    for plan in expression._plans.values():
        for runner in plan.runners.values():
            fused = runner.current
            assert isinstance(fused, FusedProgram)
            compiled = fused.kernel
            fused.kernel = lambda access, compiled=compiled: compiled(Access(access.modes))
    return expression


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("name", TEXTS)
def test_speed(name, size, threads, figure):
    shape = SHAPES[size]
    operands = [np.random.default_rng(index).random(shape, np.float32) / 2 + 0.25 for index in range(6)]
    expression = Expression(TEXTS[name], tier="fused", threads=threads)
    operands = operands[: expression.operand_count]
    out = np.empty(shape, np.float32)
    streams = "@0"
    for index in range(1, len(operands)):
        streams = f"add({streams},@{index})"
    limit, plain = with_ordinary_stores(streams, threads), Expression(TEXTS[name], tier="numpy")
    runs: dict[str, Run] = {
        "fused": lambda: expression(*operands, out=out),
        "limit": lambda: limit(*operands, out=out),
        "numpy": lambda: plain(*operands, out=out),
        **peers(expression, operands, out, threads),
    }
    rounds = 7 if prod(shape) > 5_000_000 else 40
    times = best_times(runs, rounds, time.process_time if threads == 1 else time.perf_counter)
    fastest = min(times[peer] for peer in runs.keys() - {"fused", "limit", "numpy"})
    goal = "0.75" if name == "E5" and size == "0.6 M" else "0.95"
    label = f"{name}, {size}, {threads} thread{'s'[: threads - 1]}"
    if name != "E4":
        figure(f"{label}: part of the limit reached", times["limit"] / times["fused"], f">= {goal}")
    figure(f"{label}: time, fastest peer is 1", times["fused"] / fastest, "<= 0.70" if name == "E4" else "< 1")
    figure(f"{label}: time, the NumPy tier is 1", times["fused"] / times["numpy"], "< 1")


@pytest.mark.parametrize("name", TEXTS)
def test_small_calls(name, figure):
    draws = np.random.default_rng(0)
    a, b, c, d, e, f, out = (draws.random((1, 16), np.float32) for _ in range(7))
    expression = Expression(TEXTS[name], tier="fused")
    operands = (a, b, c, d, e, f)[: expression.operand_count]

    def many(run: Run) -> Run:
        def repeat() -> None:
            for _ in range(2000):
                run()

        return repeat

    runs = {
        "fused": many(lambda: expression(*operands, out=out)),
        "np.add": many(lambda: np.add(a, b, out=out)),
    }
    times = best_times(runs, 20, time.process_time)
    figure(f"{name}, (1, 16): time of a call, np.add is 1", times["fused"] / times["np.add"], "<= 3")


@pytest.mark.parametrize(("tier", "goal"), [("numpy", "<= 0.3"), ("fused", "<= 1.0")])
def test_first_result(tier, goal, figure, tmp_path):
    import subprocess

    code = (
        "import time, numpy as np; from graphport.expression.expression import Expression;"
        f"a = np.ones((4, 3, 224, 224), np.float32); Expression('add(@0,mul(@1,@2))', tier='{tier}')(a, a, a);"
        "print(time.process_time())"
    )
    environment = {"GRAPHPORT_KERNELS": "", "PATH": "", "HOME": str(tmp_path)}
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment).stdout)
        for _ in range(3)
    ]
    figure(f"first result of a process, tier {tier}: seconds of processor time", min(seconds), goal)
