from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from graphport.core.dims import (
    Symbol,
    Symbolic,
    bounds,
    ceil_div,
    decide_equal,
    decide_less,
    evaluate,
    maximum,
    minimum,
    parse_dim,
    product,
    substitute,
    symbols,
)
from tests.core.dim_samples import (
    FREE,
    SMALL,
    C,
    H,
    N,
    W,
    bindings,
    composites,
    dim_of_tree,
    evaluated,
    expressions,
    number_of_tree,
    odd,
    roundtrip,
    trees,
    within_limits,
)
from tests.every import every


@given(trees, bindings)
@within_limits
def test_dim_expressions_match_python(tree, numbers):
    assert evaluated(dim_of_tree(tree), numbers) == number_of_tree(tree, numbers)


@given(expressions, expressions, expressions)
@within_limits
def test_sums_are_canonical(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a - a == 0
    assert a + a == 2 * a
    assert -(a - b) == b - a
    assert hash(a + b) == hash(b + a)


@given(expressions, expressions, expressions)
@within_limits
def test_products_are_canonical(a, b, c):
    assert a * b == b * a
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a * 0 == 0


@given(expressions, expressions, st.integers(1, 40))
@within_limits
def test_multiples_leave_a_floor_division(a, b, n):
    assert (n * a) // n == a
    assert (n * a + b) // n == a + b // n
    assert (n * a + b) % n == b % n
    assert (n * a) // (n * n) == a // n


@given(composites, expressions)
@within_limits
def test_exact_factors_cancel(divisor, a):
    assert (a * divisor) // divisor == a


@given(st.dictionaries(st.sampled_from([1, N, C * H, FREE, N * N]), st.integers(-30, 30)), odd, odd)
@within_limits
def test_divisions_by_odd_numbers_nest(terms, n, m):
    a = sum(term * coefficient for term, coefficient in terms.items())
    assert (a // n) // m == a // (n * m)


@given(expressions, expressions)
@within_limits
def test_quotient_and_remainder_restore_the_dividend(a, b):
    assume(b != 0)
    assert b * (a // b) + a % b == a


@given(expressions, expressions)
@within_limits
def test_extremes_are_symmetric_and_idempotent(a, b):
    assert maximum(a, b) == maximum(b, a)
    assert minimum(a, b) == minimum(b, a)
    assert maximum(a, a) == minimum(a, a) == a


@given(trees, bindings)
@within_limits
def test_bounds_hold_the_value(tree, numbers):
    lower, upper = bounds(dim_of_tree(tree))
    value = number_of_tree(tree, numbers)
    assert lower is None or lower <= value
    assert upper is None or value <= upper


@given(st.integers(-4, 4), st.integers(0, 6), st.integers(1, 6), st.integers(-3, 3))
def test_bounds_of_a_power_contain_all_its_values(low, reach, power, factor):
    x = Symbol("x", low, low + reach)
    values = [factor * number**power for number in range(low, low + reach + 1)]
    lower, upper = bounds(factor * product([x] * power))
    assert lower <= min(values) <= max(values) <= upper


@given(trees, trees, bindings)
@within_limits
def test_decisions_agree_with_numbers(a, b, numbers):
    x, y = number_of_tree(a, numbers), number_of_tree(b, numbers)
    assert decide_equal(dim_of_tree(a), dim_of_tree(b)) in (None, x == y)
    assert decide_less(dim_of_tree(a), dim_of_tree(b)) in (None, x < y)


@given(expressions, expressions, bindings)
@within_limits
def test_equal_expressions_are_decided_equal(a, b, numbers):
    assume(b != 0)
    assert decide_equal(a % b, a - b * (a // b)) is True
    assert decide_less(a, a) is False


@given(expressions.filter(lambda dim: isinstance(dim, Symbolic) or dim >= 0))
@within_limits
def test_text_reads_back(dim):
    assert parse_dim(str(dim), symbols(dim)) == dim


texts = st.text(alphabet="NHmaxin+-*/%()0123 ,`é?:_\n", min_size=1, max_size=24) | st.text(min_size=1)


@given(texts)
@within_limits
def test_parse_dim_round_trips_any_text(text):
    assert str(parse_dim(text)) == text


@given(texts, texts)
@example("0%0", "a//(a-a)")
@within_limits
def test_every_text_is_a_name(name, other):
    a, b = Symbol(name), Symbol(other)
    assert symbols(a) == {name: a}
    for dim in (a, a + 1, 2 * a, a // 3 + b, maximum(a * b, a - b - 2)):
        assert parse_dim(str(dim)) == dim


@given(expressions, expressions, bindings)
@within_limits
def test_substitution_commutes_with_evaluation(dim, replacement, numbers):
    value = evaluated(replacement, numbers)
    assume(value >= 0)
    replaced = substitute(dim, {"N": replacement})
    assert evaluated(replaced, numbers) == evaluated(dim, {**numbers, "N": value})


@given(expressions, bindings)
@within_limits
def test_substituting_all_symbols_gives_an_integer(dim, numbers):
    value = evaluated(dim, numbers)
    assert substitute(dim, numbers) == value


@given(composites)
@within_limits
def test_copies_are_equal(dim):
    for other in (copy.deepcopy(dim), roundtrip(dim), substitute(dim, symbols(dim))):
        assert other == dim
        assert hash(other) == hash(dim)


# --- canonical form and text ------------------------------------------------------------------------------------------


@every(
    ("dim", "text"),
    [
        pytest.param(N + 1, "N+1", id="sum"),
        pytest.param(H + H, "2*H", id="multiple"),
        pytest.param(H // 2, "H//2", id="quotient"),
        pytest.param((W + 1) // 2, "(W+1)//2", id="quotient of a sum"),
        pytest.param((H + 2 * 1 - 3) // 2 + 1, "(H+1)//2", id="length after a strided convolution"),
        pytest.param(((H + 1) // 2 + 1) // 2, "(H+3)//4", id="two strides are one"),
        pytest.param((4 * H + 2 * W + 1) // 4, "H+W//2", id="divisible terms leave the division"),
        pytest.param((2 * W) // 4, "W//2", id="common factor"),
        pytest.param((3 * H) // 4, "H-((H+3)//4)", id="scaled by three quarters"),
        pytest.param(H - H // 2, "H-(H//2)", id="the other half"),
        pytest.param(-(-H // 4), "(H+3)//4", id="ceiling by two signs"),
        pytest.param(ceil_div(H, 32), "(H+31)//32", id="ceiling"),
        pytest.param(H // -4, "-((H+3)//4)", id="negative divisor"),
        pytest.param((N * C * H) // (N * C), "H", id="exact by a monomial"),
        pytest.param((N * N + N) // (N + 1), "N", id="exact by a polynomial"),
        pytest.param((N * N + N + 1) // (N + 1), "N+1//(N+1)", id="polynomial with a rest"),
        pytest.param((N * H + C) // N, "H+C//N", id="divisible term by a symbol"),
        pytest.param((H * W) // (H + W), "(H*W)//(H+W)", id="no division that makes it longer"),
        pytest.param((2 * N * H) // (4 * N * C), "H//(2*C)", id="common monomial"),
        pytest.param((H // N) // 3, "H//(3*N)", id="nested with a symbol"),
        pytest.param(C // N, "C//N", id="symbol by symbol"),
        pytest.param(3 // SMALL, "3//small", id="number by symbol"),
        pytest.param(H - 32 * (H // 32), "H%32", id="remainder"),
        pytest.param((-H) % 32, "31-((H+31)%32)", id="padding to a multiple"),
        pytest.param(C * (H % 32) + N, "C*(H%32)+N", id="remainder with a factor"),
        pytest.param(1 - H % 32, "1-(H%32)", id="negative remainder"),
        pytest.param(H % N, "H%N", id="remainder by a symbol"),
        pytest.param(3 - H, "3-H", id="positive terms first"),
        pytest.param(-H - 1, "-H-1", id="no positive term"),
        pytest.param(2 * (H // 2) * (W // 3), "2*(H//2)*(W//3)", id="product of quotients"),
        pytest.param(maximum(1, N), "max(N,1)", id="max"),
        pytest.param(minimum(H, minimum(N, 4)), "min(H,N,4)", id="nested min"),
        pytest.param(maximum(N, 1) * maximum(N, 1), "max(N,1)*max(N,1)", id="power"),
        pytest.param(N - minimum(N, 1), "N-min(N,1)", id="negative min"),
        pytest.param(Symbol("batch size"), "batch size", id="any name alone"),
        pytest.param(Symbol("361.0"), "`361.0`", id="no name alone that is a real number"),
        pytest.param(Symbol("1e5"), "`1e5`", id="no name alone that is a power of ten"),
        pytest.param(Symbol("batch size") + 1, "`batch size`+1", id="any name in an expression"),
        pytest.param(Symbol("a`b") * 2, "2*`a``b`", id="quote in a name"),
        pytest.param(Symbol("N+1"), "`N+1`", id="name that reads as an expression"),
        pytest.param(Symbol("7"), "`7`", id="name that reads as a number"),
        pytest.param(Symbol("-1"), "-1", id="negative number as a name"),
        pytest.param(Symbol("max") + 1, "`max`+1", id="name of a function"),
        pytest.param(Symbol("größe") + 1, "größe+1", id="unicode identifier"),
    ],
)
def test_text_of_canonical_form(dim, text):
    assert str(dim) == text
    assert parse_dim(text, symbols(dim)) == dim


def test_a_named_axis_is_not_empty():
    batch, seq = Symbol("batch"), Symbol("seq")
    assert maximum(batch, 1) == batch
    assert (12 * batch * seq) // (seq + 12 * maximum(1 - seq, 0)) == 12 * batch
    assert maximum(1 - Symbol("rows", 0), 0) != 0


@every(
    "text",
    [
        *("?", "unk:0", "-1", "-0", "batch size", "N*", "N + 1", "1+N", "007", "N//0", "N%0", "()", "(N)", "max(N)"),
        *("N N", "2N", "N+N", "`N`", "``", "`", "N-N", "+N", "--N", "min(,)", "max(N,0", "٣", "1" * 5000),
        "N+" + "1" * 500,
    ],
)
def test_other_texts_are_names(text):
    assert parse_dim(text) == Symbol(text)


def test_parse_dim_reads_integers():
    assert parse_dim("7") == 7
    assert parse_dim("0") == 0


def test_names_are_looked_up():
    narrow = Symbol("N", 1, 8)
    assert parse_dim("N+1", {"N": narrow}) == narrow + 1
    assert bounds(parse_dim("2*N", {"N": narrow})) == (2, 16)
    assert parse_dim("max(N,1)", {"N": narrow}) == narrow


@pytest.mark.parametrize("text", ["(" * 100_000 + "N", "-" * 70_000, "max(" * 5000 + "N", "(" * 300 + "N" + ")" * 300])
def test_deep_texts_are_names(text):
    assert parse_dim(text) == Symbol(text)


def test_empty_name_is_refused():
    with pytest.raises(ValueError, match="needs a name"):
        parse_dim("")


def test_bounds_without_an_integer_are_refused():
    with pytest.raises(ValueError, match="the bounds 3 and 2 of 'N'"):
        Symbol("N", 3, 2)


def test_equality_is_structural():
    assert Symbol("N", 0) != Symbol("N")
    assert Symbol("N", 1) == Symbol("N")
    assert Symbol("N", 4, 4) != 4
    assert decide_equal(Symbol("N", 4, 4), 4) is True
    assert N != "N"


def test_dims_do_not_change():
    with pytest.raises(AttributeError):
        N.terms = ()  # pyright: ignore[reportAttributeAccessIssue]


def test_division_is_total():
    assert N // 0 == 0
    assert N % 0 == N
    assert 7 % N - 7 == -N * (7 // N)
    assert ceil_div(N, 0) == 0
    assert evaluate(H // N, {"H": 3, "N": 0}) == 0


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_numbers_of_numpy_take_part(kind):
    assert N + kind(1) == kind(1) + N == N + 1
    assert kind(3) - N == 3 - N
    assert kind(6) * N // kind(3) == 2 * N
    assert type(N * kind(2) - 2 * N) is int


@pytest.mark.parametrize("operation", [lambda a: a + 0.5, lambda a: "x" * a, lambda a: a // None, lambda a: 1.5 % a])
def test_other_operands_are_refused(operation):
    with pytest.raises(TypeError):
        operation(N)


def test_product_of_no_dims_is_1():
    assert product([]) == 1
    assert product([N, 2, C, 3]) == 6 * C * N


# --- bounds, decisions, substitution ----------------------------------------------------------------------------------

BOUNDED = Symbol("B", 0, 10)


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        pytest.param(5, (5, 5), id="number"),
        pytest.param(Symbol("N"), (1, None), id="default"),
        pytest.param(FREE, (None, None), id="unbounded"),
        pytest.param(3 * SMALL - 7, (-1, 8), id="linear"),
        pytest.param(1 - 2 * SMALL, (-9, -3), id="linear, falling"),
        pytest.param(SMALL * BOUNDED, (0, 50), id="product"),
        pytest.param(FREE * FREE * FREE, (None, None), id="cube"),
        pytest.param(BOUNDED % 4, (0, 3), id="remainder"),
        pytest.param(BOUNDED % 100, (0, 10), id="remainder of less than the divisor"),
        pytest.param(BOUNDED - BOUNDED // 2, (0, 5), id="the other half"),
        pytest.param((H + 1) // 2 + H // 2 - H, (0, 0), id="two halves"),
        pytest.param(N - minimum(N, 1), (0, None), id="difference to a minimum"),
        pytest.param(maximum(BOUNDED, 3), (3, 10), id="maximum"),
        pytest.param(100 // SMALL, (20, 50), id="falling quotient"),
        pytest.param(FREE // SMALL, (None, None), id="unbounded quotient"),
    ],
)
def test_bounds(dim, expected):
    assert bounds(dim) == expected


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        pytest.param(maximum(SMALL, 2), SMALL, id="never below"),
        pytest.param(minimum(SMALL, 5), SMALL, id="never above"),
        pytest.param(maximum(N, N + 1), N + 1, id="shifted"),
        pytest.param(maximum(maximum(N, 3), 7), maximum(N, 7), id="dominated number"),
        pytest.param(maximum(N - minimum(N, 1), 0), N - minimum(N, 1), id="length of a slice"),
        pytest.param(SMALL // 6, 0, id="quotient below one"),
        pytest.param(ceil_div(N * C, C), N, id="exact ceiling"),
    ],
)
def test_bounds_simplify(dim, expected):
    assert dim == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param(N, N, True, id="same"),
        pytest.param(N, N + 1, False, id="shifted"),
        pytest.param(N, 0, None, id="may be"),
        pytest.param(N, -1, False, id="out of bounds"),
        pytest.param(2 * N, 2 * C + 1, False, id="even and odd"),
        pytest.param(H // 2 + (H + 1) // 2, H, True, id="two halves"),
        pytest.param(-(-H // 2), (H + 1) // 2, True, id="ceiling"),
        pytest.param((H // 2 + W // 2) // 2, (W // 2 + H // 2) // 2, True, id="symmetric"),
        pytest.param(H // 2, (H + 1) // 2, None, id="depends on parity"),
        pytest.param(3, 3, True, id="numbers"),
    ],
)
def test_decide_equal(a, b, expected):
    assert decide_equal(a, b) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param(N, N + 1, True, id="shifted"),
        pytest.param(N, N, False, id="same"),
        pytest.param(N, 0, False, id="never negative"),
        pytest.param(N, 1, None, id="may be"),
        pytest.param(H // 2, H + 1, True, id="half"),
        pytest.param(maximum(N, 1), N, False, id="maximum"),
        pytest.param(SMALL * SMALL - SMALL, 20, None, id="polynomial up to its maximum"),
        pytest.param(3, 4, True, id="numbers"),
    ],
)
def test_decide_less(a, b, expected):
    assert decide_less(a, b) is expected


def test_substitution_is_simultaneous():
    assert substitute(N - 2 * C, {"N": C, "C": N}) == C - 2 * N


def test_substitution_reaches_inside_and_simplifies():
    dim = maximum((H + 1) // 2, N) + N * (H % 4)
    assert substitute(dim, {"H": 7, "N": 2 * W}) == maximum(2 * W, 4) + 6 * W
    assert substitute(dim, {"H": 7, "N": 3}) == 13
    assert substitute(5, {"H": 7}) == 5
    assert substitute(dim, {}) is dim


def test_symbols_are_sorted_by_name():
    assert symbols(maximum(H // N, C) + SMALL) == {"C": C, "H": H, "N": N, "small": SMALL}
    assert list(symbols(W + C)) == ["C", "W"]
    assert symbols(3) == {}


def test_evaluation_names_the_missing_symbol():
    with pytest.raises(KeyError, match="H"):
        evaluate(N + H, {"N": 1})


def test_decisions_on_a_symbol_hold_for_all_its_values():
    """Divisions, remainders and products of a symbol with few values, tried out: no claim is wrong."""
    forms = (
        lambda x, m: x // m,
        lambda x, m: x % m,
        lambda x, m: (x + 1) // m - x // m,
        lambda x, m: ceil_div(x, m) * m - x,
        lambda x, m: x // 2 + x // m,
    )
    for low, reach, m in itertools.product(range(4), range(4), (2, 3, 4)):
        x, values = Symbol("x", low, low + reach), range(low, low + reach + 1)
        for form, number in itertools.product(forms, range(3)):
            found = [form(value, m) for value in values]
            equal, less = decide_equal(form(x, m), number), decide_less(form(x, m), number)
            assert equal in (
                None,
                *({value == number for value in found} if len({v == number for v in found}) == 1 else ()),
            )
            assert less in (
                None,
                *({value < number for value in found} if len({v < number for v in found}) == 1 else ()),
            )


def test_dim_texts_evaluate_in_python():
    """Also where a text is put together otherwise than the dim: remainders, mirrored quotients, factors."""
    a, b = Symbol("a"), Symbol("b")
    dims = [
        *(a - (a + m - 1) // m for m in (2, 3, 4)),
        *(m - 1 - (c * a + k) % m for m in (2, 3, 4, 32) for c in (1, 2) for k in (0, 1, m - 1)),
        *(b * (a % m) + c - 3 * (a // m) for m in (2, 5) for c in (-1, 0, 1)),
        *(maximum(minimum(a, b), c) * a - c for c in (2, 7)),
        *((a * b) % m - (a // 2) * (b // 3) for m in (2, 3)),
        *(-k * (a // 2) - b for k in (1, 2)),
    ]
    for dim in dims:
        for numbers in ({"a": x, "b": y} for x, y in itertools.product(range(1, 9), range(1, 4))):
            assert eval(str(dim), {"max": max, "min": min} | numbers) == evaluate(dim, numbers), str(dim)  # noqa: S307
        assert parse_dim(str(dim), symbols(dim)) == dim
