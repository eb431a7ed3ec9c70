"""Random expressions: a dim, and the integer function that it represents."""

from __future__ import annotations

import pickle
import re
from functools import wraps

from hypothesis import assume
from hypothesis import strategies as st

from graphport.core.dims import Symbol, Symbolic, TooLong, ceil_div, evaluate, maximum, minimum

N, C, H, W = (Symbol(name, 0) for name in "NCHW")
SMALL = Symbol("small", 2, 5)
FREE = Symbol("free axis", None)
BELOW = Symbol("below", None, 3)
ALL = (N, C, H, SMALL, FREE, BELOW)

OPERATIONS = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "//": (lambda a, b: a // b, lambda a, b: a // b),
    "%": (lambda a, b: a % b, lambda a, b: a % b),
    "ceil": (ceil_div, lambda a, b: -(-a // b)),
    "max": (maximum, max),
    "min": (minimum, min),
}

leaves = st.one_of(st.sampled_from(ALL), st.integers(-6, 12))
trees = st.recursive(leaves, lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner), max_leaves=8)


def symbolic_value(tree):
    if not isinstance(tree, tuple):
        return tree
    return OPERATIONS[tree[0]][0](symbolic_value(tree[1]), symbolic_value(tree[2]))


def number_value(tree, numbers):
    if isinstance(tree, Symbolic):
        return numbers[str(tree)]
    if isinstance(tree, int):
        return tree
    return OPERATIONS[tree[0]][1](number_value(tree[1], numbers), number_value(tree[2], numbers))


def dim_of_tree(tree):
    try:
        return symbolic_value(tree)
    except (TooLong, ZeroDivisionError):
        assume(False)


def number_of_tree(tree, numbers):
    try:
        return number_value(tree, numbers)
    except ZeroDivisionError:
        assume(False)  # an expression that no runtime computes is no dim


odd = st.sampled_from([1, 3, 5, 7, 9])
expressions = trees.map(dim_of_tree)
composites = expressions.filter(lambda dim: isinstance(dim, Symbolic))


def admissible(symbol):
    lower, upper = symbol.bounds
    far = st.sampled_from([0, 1, 2, 3, 7, 31, 32, 224, 10**6])
    if lower is None:
        return st.one_of(st.integers(-12, 12 if upper is None else upper), far.map(lambda n: -n))
    return st.one_of(st.integers(lower, lower + 12 if upper is None else upper), *([far] if upper is None else []))


bindings = st.fixed_dictionaries({str(symbol): admissible(symbol) for symbol in ALL})


def within_limits(law):
    """Return the test of a property, which skips expressions that are too long."""

    @wraps(law)
    def tested(**drawn):
        try:
            law(**drawn)
        except TooLong:
            assume(False)

    return tested


def evaluated(dim, numbers):
    """Evaluate a dim; bindings that divide by 0 are skipped, for no runtime computes them."""
    names = {name.replace(" ", "_"): number for name, number in numbers.items()}
    text = re.sub("`?free axis`?", "free_axis", str(dim))
    try:
        eval(text, {"__builtins__": {}, "max": max, "min": min}, names)  # noqa: S307  our own text
    except ZeroDivisionError:
        assume(False)
    return evaluate(dim, numbers)


def roundtrip(dim):
    return pickle.loads(pickle.dumps(dim))  # noqa: S301  our own bytes
