from __future__ import annotations

import sys
import threading
from itertools import product

import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS
from graphport.expression.fused import kernel
from graphport.expression.fused.kernel import LONGEST, FusedProgram, can_compile
from graphport.expression.fused.operators import is_compiled
from graphport.expression.fused.segments import SEGMENT
from graphport.expression.fused.source import Access
from graphport.expression.program import Argument, Builder, Program
from tests.draws import spread
from tests.every import every

pytest.importorskip("llvmlite")

DRAWS = np.random.default_rng(3)


def numbers(*shape, dtype=np.float32):
    return (DRAWS.standard_normal(shape) * 4).astype(dtype)


def both(text, *operands):
    fused, plain = (Expression(text, tier=tier)(*operands) for tier in ("fused", "numpy"))
    assert (fused.dtype, fused.shape) == (plain.dtype, plain.shape)
    # Comparisons of bfloat16 do not know that NaN may equal NaN.
    widened = [result.astype(np.float32) if result.dtype.kind == "V" else result for result in (fused, plain)]
    np.testing.assert_array_equal(*widened)
    return fused


def program_of(text, *arguments):
    expression = Expression(text)
    program = Builder(expression.text, NUMPY_FUNCTIONS, arguments, DType.FLOAT32).build(expression.rpn).value
    assert isinstance(program, Program)
    return program


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 4099])
def test_every_length(length):
    both("add(@0,mul(@1,@1))", numbers(length), numbers(length))


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param(((4, 3, 20, 30), (1, 3, 1, 1)), id="one number a channel"),
        pytest.param(((4, 3, 20, 30), (30,)), id="the last axis"),
        pytest.param(((4, 1, 20, 1), (1, 3, 1, 30)), id="both are repeated"),
        pytest.param(((1000, 3), (3,)), id="a short last axis"),
        pytest.param(((1000, 3), (1000, 1)), id="a short last axis that is repeated"),
        pytest.param(((2, 2, 2, 2, 2, 2), (2, 1, 2, 1, 2, 1)), id="many axes"),
        pytest.param(((5, 7), ()), id="one number"),
        pytest.param(((), ()), id="no axes"),
        pytest.param(((0, 3), (3,)), id="nothing"),
    ],
)
def test_broadcasting(shapes):
    both("sub(mul(@0,@1),@1)", *(numbers(*shape) for shape in shapes))


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda x: x.T, id="transposed"),
        pytest.param(lambda x: x[::-1], id="backwards"),
        pytest.param(lambda x: x[:, ::-1], id="each row backwards"),
        pytest.param(lambda x: x[::2, ::3].repeat(2, 0)[:40, :10], id="a part"),
        pytest.param(lambda x: x[:, ::3], id="with gaps"),
        pytest.param(lambda x: np.broadcast_to(x[:1], x.shape), id="repeated"),
        pytest.param(np.asfortranarray, id="by columns"),
        pytest.param(lambda x: np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(np.float32), id="unaligned"),
        pytest.param(lambda x: x.astype(">f4"), id="other byte order"),
    ],
)
def test_any_memory_layout_is_supported(view):
    x = view(numbers(40, 40))
    both("add(@0,mul(@0,2.5))", x)
    both("add(@0,mul(@1,2.5))", x, numbers(*x.shape))


NAMES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool"]


@every(("other", "name"), spread(list(product(["float32", "float64", "int32", "bool"], NAMES))))
def test_mixed_types(name, other):
    x, y = (np.abs(numbers(333)).astype(dtype) for dtype in (name, other))
    if {name, other} & {"uint16", "uint32"} and "int32" in {name, other}:
        y = x
    both("maximum(add(@0,@1),mul(@1,@0))", x, y)
    both("div(@0,add(@1,1.5))", x, y)


@every("name", NAMES)
@every("cast", ["long", "bool", "float"])
def test_casts_of_any_type(name, cast):
    both(f"torch.{cast}(@0)", np.abs(numbers(333)).astype(name))


def test_bfloat16():
    dtype = DType.BFLOAT16.numpy
    x = np.concatenate([numbers(500), [np.inf, -np.inf, np.nan, 1e-40, 3e38, 1.00390625, 1.01171875]]).astype(dtype)
    assert both("mul(add(@0,0.1),1.7)", x).dtype == dtype


def test_float16_values_are_rounded_after_every_function():
    x = np.linspace(-4, 4, 1001).astype(np.float16)
    both("mul(add(@0,0.1),1.7)", x)


def test_integer_division_matches_numpy():
    extremes = np.array([-128, -127, -7, -1, 0, 1, 2, 7, 126, 127], np.int8)
    x, y = (pair.ravel() for pair in np.meshgrid(extremes, extremes[extremes != 0]))
    for function in ("floor_divide", "remainder", "fmod"):
        both(f"{function}(@0,@1)", x, y)
        both(f"{function}(@0,@1)", np.abs(x).view(np.uint8), np.abs(y).view(np.uint8))


def test_shifts_by_any_count():
    x, counts = (pair.ravel() for pair in np.meshgrid([-128, -1, 0, 1, 77, 127], [-3, 0, 1, 6, 7, 8, 9, 100]))
    for function in ("lshift", "rshift"):
        both(f"{function}(@0,@1)", x.astype(np.int8), counts.astype(np.int8))


def chain(length):
    text = "@0"
    for number in range(length):
        text = f"{('mul', 'add', 'sub')[number % 3]}({text},@{(number + 1) % 4})"
    return text


@pytest.mark.parametrize("length", [SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 5])
def test_a_long_program_is_compiled_in_segments(length):
    operands = [numbers(1000) / 8 for _ in range(4)]
    assert np.isfinite(both(chain(length), *operands)).any()


def test_segments_share_common_values():
    text = "exp(neg(abs(@0)))"
    text = f"add(mul({text},{text}),{chain(2 * SEGMENT).replace('@0', text, 1)})"
    operands = [np.abs(numbers(700)) / 8 for _ in range(4)]
    fused, plain = (Expression(text, tier=tier)(*operands) for tier in ("fused", "numpy"))
    np.testing.assert_allclose(fused, plain, rtol=1e-4)


def test_too_long_programs_and_uncompiled_dtypes_use_numpy():
    single = [Argument(DType.FLOAT32, (2,))] * 4
    assert can_compile(program_of(chain(100), *single))
    assert not can_compile(program_of(chain(LONGEST + 1), *single))
    assert not can_compile(program_of("mul(@0,@0)", Argument(DType.COMPLEX64, (2,))))
    assert not can_compile(program_of("@0", Argument(DType.FLOAT32, (2,))))
    assert not is_compiled("pow", DType.INT32)


@every("length", [1, 5, 16, 33, 64, 1000, 70_001])
@every("start", [0, 1, 3, 5])
def test_stores_that_bypass_the_cache(length, start):
    fused = FusedProgram(program_of("add(@0,mul(@1,2))", *[Argument(DType.FLOAT32, (2,))] * 2), NUMPY_FUNCTIONS)
    plain = fused.kernel
    fused.kernel = lambda access: plain(Access(access.modes, bypasses_cache=True))
    x, y = numbers(length), numbers(length)
    memory = np.full(length + 64, 99, np.float32)
    fused.run([x, y], memory[start : start + length])
    np.testing.assert_array_equal(memory[start : start + length], x + y * 2)
    assert (memory[:start] == 99).all()
    assert (memory[start + length :] == 99).all()


@pytest.mark.parametrize(
    "shapes", [((1_000_003,), (1_000_003,)), ((70, 100, 101), (100, 1)), ((3, 400_000), (3, 1)), ((90_000, 8), (8,))]
)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_the_work(shapes, threads, monkeypatch):
    monkeypatch.setattr(kernel, "_WORTH_THREADS", 0)
    x, y = (numbers(*shape) for shape in shapes)
    out = np.empty(np.broadcast_shapes(*shapes), np.float32)
    arguments = [Argument(DType.FLOAT32, array.shape) for array in (x, y)]
    FusedProgram(program_of("add(@0,mul(@1,2))", *arguments), NUMPY_FUNCTIONS, threads).run([x, y], out)
    np.testing.assert_array_equal(out, x + y * 2)


def test_scalar_division_next_to_an_empty_operand():
    expression = Expression("add(@0, floor_divide(@1, add(@1, @1)))", tier="fused")
    empty = np.zeros(0, np.int8)
    assert expression(empty, np.int8(1)).shape == (0,)
    with pytest.raises(DiagnosticError, match="divides an integer by zero"):
        expression(empty, np.int8(0))


def test_integer_division_by_zero_is_detected_on_any_thread(monkeypatch):
    monkeypatch.setattr(kernel, "_WORTH_THREADS", 0)
    x, y = np.ones(2_000_000, np.int32), np.ones(2_000_000, np.int32)
    y[1_234_567] = 0
    with pytest.raises(DiagnosticError, match="divides an integer by zero"):
        Expression("floor_divide(@0,@1)", tier="fused", threads=3)(x, y)


@pytest.mark.parametrize(
    ("elements", "threads", "parts"), [(1 << 20, 2, 0), ((1 << 20) + 1, 2, 4), ((1 << 20) + 1, 1, 0)]
)
def test_large_operands_are_split_across_threads_in_direct_calls(elements, threads, parts, monkeypatch):
    seen: list[int] = []
    share = kernel.run_parallel

    def counted(task, count, most):
        seen.append(count)
        share(task, count, most)

    monkeypatch.setattr(kernel, "run_parallel", counted)
    x, out = numbers(elements), np.empty(elements, np.float32)
    made = Expression("mul(@0,add(@0,1))", tier="fused", threads=threads)
    for given in ({}, {"out": out}):
        np.testing.assert_array_equal(made(x, **given), x * (x + 1))
    assert seen == [parts] * (2 if parts else 0)


def test_one_expression_is_thread_safe():
    e = Expression("add(mul(@0,@0),@1)", tier="fused")
    failures = []

    def work(seed):
        draws = np.random.default_rng(seed)
        for _ in range(50):
            x, y = (draws.random(draws.integers(1, 40_000), np.float32) for _ in range(2))
            if len(x) == len(y) or len(x) > 1:
                y = np.resize(y, x.shape)
            if not np.array_equal(e(x, y), x * x + y):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_auto_begins_with_numpy_and_compiles_when_it_pays():
    e = Expression("add(@0,exp(@1))")
    x, y = numbers(1000), numbers(1000)
    first = e(x, y)
    tiers = {type(runner.current).__name__ for plan in e._plans.values() for runner in plan.runners.values()}
    assert tiers == {"BlockedProgram"}
    big = numbers(5_000_000)
    for _ in range(3):
        e(big, big)
    tiers = {type(runner.current).__name__ for plan in e._plans.values() for runner in plan.runners.values()}
    assert tiers == {"FusedProgram"}
    np.testing.assert_allclose(e(x, y), first, rtol=1e-6, atol=1e-6)


def test_direct_calls_keep_reference_counts():
    e = Expression("add(@0,@1)", tier="fused")
    x, y, out = numbers(16), numbers(16), numbers(16)
    e(x, y, out=out)
    before = [sys.getrefcount(thing) for thing in (x, y, out, None)]
    for _ in range(1000):
        e(x, y, out=out)
        e(x, y[:1], out=out)
    after = [sys.getrefcount(thing) for thing in (x, y, out, None)]
    assert before[:3] == after[:3]
    assert abs(before[3] - after[3]) < 100


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda x, y, out: (x.astype(np.float64), y, out.astype(np.float64)), id="another type"),
        pytest.param(lambda x, y, out: (x, y[:1], out), id="another shape"),
        pytest.param(lambda x, y, out: (x, y, np.repeat(out, 2)[::2]), id="gaps"),
        pytest.param(lambda x, y, out: (x.reshape(4, 4), y.reshape(4, 4), out.reshape(4, 4)), id="more axes"),
        pytest.param(lambda x, y, out: (x[0], y[0], np.array(out[0])), id="no axes"),
        pytest.param(lambda x, y, out: (x, 2.0, out), id="a number"),
        pytest.param(lambda x, y, out: (list(x), y, out), id="a list"),
        pytest.param(lambda x, y, out: (x[:8], y[:8], x[4:12]), id="overlapping"),
        pytest.param(lambda x, y, out: (x, y, y), id="in place"),
        pytest.param(lambda x, y, out: (np.ma.masked_array(x), y, out), id="a subclass"),
    ],
)
def test_direct_calls_support_other_array_layouts(change):
    e = Expression("sub(mul(@0,2),@1)", tier="fused")
    x, y, out = numbers(16), numbers(16), numbers(16)
    e(x, y, out=out)
    x, y, out = change(x, y, out)
    expected = np.multiply(x, 2) - y
    result = e(x, y, out=out)
    assert result is out
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))


@pytest.mark.parametrize(
    "text", ["maximum(@0,0.5)", "maximum(0.5,@0)", "minimum(@0,-2)", "minimum(2.0,@0)", "max(@0,0)"]
)
def test_clipping_propagates_nan(text):
    x = np.array([np.nan, np.inf, -np.inf, 0.5, -2, -0.0, 0.0, 3, -7] * 5, np.float32)
    fused, plain = (Expression(text, tier=tier)(x) for tier in ("fused", "numpy"))
    np.testing.assert_array_equal(fused, plain)


def test_powers_of_e_are_scaled_once_or_in_two_steps():
    """With and without the instruction for it, where there is one: subnormal and infinite results among them."""
    x = np.concatenate([np.linspace(-110, 92, 4001), [-np.inf, np.inf, np.nan, -87.5, -103.9, 88.72, 88.73]])
    for dtype in (np.float32, np.float64):
        found = Expression("exp(@0)", tier="fused")(x.astype(dtype))
        with np.errstate(over="ignore", under="ignore"):
            expected = np.exp(x.astype(dtype).astype(np.longdouble)).astype(dtype)
        np.testing.assert_allclose(found, expected, rtol=3e-7 if dtype is np.float32 else 1e-15, atol=2e-45)


@pytest.mark.parametrize("function", ["maximum", "minimum"])
@pytest.mark.parametrize("tier", ["numpy", "fused"])
def test_maximum_and_minimum_of_zeros_return_the_second(function, tier):
    zeros = np.zeros(48, np.float32)
    for x, y in ((zeros, -zeros), (-zeros, zeros)):
        found = Expression(f"{function}(@0,@1)", tier=tier)(x, y)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(y))
