from __future__ import annotations

import numpy as np
import pytest

from graphport.expression.functions import ARITIES, NUMPY_FUNCTIONS, SIGNATURES, function_table
from graphport.expression.kernels import KERNELS

ONE = """abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p neg reciprocal round
    rsqrt sign sin sinh sqrt square tan tanh trunc int torch.float torch.long torch.bool"""
TWO = """add sub mul div floor_divide remainder fmod pow atan2 logaddexp max maximum min minimum and or xor lshift
    rshift"""


def test_the_language_has_the_functions_that_pnnx_writes():
    expected = dict.fromkeys(ONE.split(), (1,)) | dict.fromkeys(TWO.split(), (2,)) | {"size": (1, 2)}
    assert dict(ARITIES) == expected


def test_a_table_has_every_function_with_its_kernel():
    assert NUMPY_FUNCTIONS.keys() == SIGNATURES.keys()
    for name, function in NUMPY_FUNCTIONS.items():
        assert (function.name, function.into) == (name, KERNELS[name])


def test_pages_give_functions_their_meaning_and_keep_the_kernels():
    def add(x, y):
        return x + y

    table = function_table({"add": add})
    assert (table["add"].compute, table["add"].into) == (add, np.add)
    assert table["mul"].compute is np.multiply


def test_a_page_cannot_add_to_the_language():
    with pytest.raises(ValueError, match="unknown expression function sigmoid"):
        function_table({"sigmoid": np.exp})


def test_size_is_no_function_of_values():
    with pytest.raises(TypeError):
        NUMPY_FUNCTIONS["size"].compute(np.ones(3))
