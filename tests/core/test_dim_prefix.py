"""Lengths as nested calls: whoever computes the text gets the number that the dim is."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphport.core.dims import Functions, Symbol, Symbolic, evaluate, maximum, minimum, prefixed, symbols
from tests.core.dim_samples import dim_of_tree, trees
from tests.draws import times

N, C, H = (Symbol(name, 0) for name in "NCH")
FREE = Symbol("free", None)
WORDS = Functions("add", "sub", "mul", "floor_divide", "maximum", "minimum")
COMPUTED = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "maximum": max,
    "minimum": min,
}


def text_of(dim, *unknown):
    """The text, in which a length is `s("N")`; `unknown` symbols are lengths of no tensor."""

    def length(part: Symbolic):
        names = symbols(part)
        (name,) = names if len(names) == 1 else (None,)
        return None if name is None or name in unknown or part != names[name] else f's("{name}")'

    return prefixed(dim, WORDS, length)


@settings(max_examples=times(150))
@given(trees, st.data())
def test_the_text_computes_the_number(tree, data):
    dim = dim_of_tree(tree)
    text = text_of(dim)
    assume(text is not None)
    assert text is not None
    numbers = {
        name: data.draw(st.integers(max(-5, symbol.bounds[0] or 0), min(9, symbol.bounds[1] or 9)))
        for name, symbol in ({} if isinstance(dim, int) else symbols(dim)).items()
    }
    found = eval(text, {"__builtins__": {}}, {**COMPUTED, "s": numbers.get})  # noqa: S307  our own text
    assert found == evaluate(dim, numbers)


def test_sums_products_and_quotients_are_spelled():
    assert text_of(7) == "7"
    assert text_of(N) == 's("N")'
    assert text_of(N * C) in ('mul(s("N"),s("C"))', 'mul(s("C"),s("N"))')
    assert text_of(3 * N + 1) in ('add(mul(3,s("N")),1)', 'add(1,mul(3,s("N")))')
    assert text_of(N - 1) == 'sub(s("N"),1)'
    assert text_of(-N) == 'sub(0,s("N"))'
    assert text_of(-2 * N - 1) in ('sub(sub(0,mul(2,s("N"))),1)', 'sub(sub(0,1),mul(2,s("N")))')
    assert text_of(N // 2) == 'floor_divide(s("N"),2)'
    assert text_of(maximum(N, C)).startswith("maximum(")
    assert text_of(minimum(N, 4)).startswith("minimum(")


def test_a_length_that_a_tensor_has_is_not_split():
    assert prefixed(2 * N + 1, WORDS, lambda part: "known" if part == 2 * N + 1 else None) == "known"
    half = N // 2
    assert prefixed(half + 1, WORDS, lambda part: "half" if part == half else None) in ("add(half,1)", "add(1,half)")


def test_dims_of_unavailable_symbols_have_no_prefix_text():
    for dim in (C, N + C, 2 * N * C, (N + C) // 2, N // maximum(C, 1), maximum(N, C), minimum(C, 5), N - C):
        assert text_of(dim, "C") is None
        assert text_of(dim) is not None


def test_quotient_with_negative_numerator_has_no_prefix_text():
    assert text_of(FREE // 2) is None
    assert text_of(N // C) is None
    assert text_of((Symbol("M") - 1) // Symbol("K")) == 'floor_divide(sub(s("M"),1),s("K"))'


def test_quotient_text_needs_nonnegative_numerator_and_positive_denominator():
    for low, least in ((low, least) for low in (None, -1, 0, 1) for least in (None, -1, 0, 1, 2)):
        numerator, denominator = Symbol("n", low), Symbol("d", least)
        text = text_of(numerator // denominator)
        is_known = low is not None and low >= 0 and least is not None and least >= 1
        assert text == ('floor_divide(s("n"),s("d"))' if is_known else None)


def test_prefix_text_subtracts_after_adding():
    assert text_of(3 - N) == 'sub(3,s("N"))'
    assert text_of(N * C - 2 * N - 3) == 'sub(sub(mul(s("C"),s("N")),mul(2,s("N"))),3)'
    assert text_of(-N * C) == 'sub(0,mul(s("C"),s("N")))'
    assert text_of(maximum(maximum(N, C), 7)) == 'maximum(maximum(s("C"),s("N")),7)'
    assert text_of(minimum(N, C) + 1) == 'add(minimum(s("C"),s("N")),1)'
