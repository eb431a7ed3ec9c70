"""Variables that live inside one statement of a function."""

import ast

import pytest

from graphport.formats.pytorch.torchscript.liveness import Liveness

FUNCTION = """
n = 0
while True:
    if c:
        t = torch.mul(x, 2)
        y = torch.add(t, n)
        n = torch.add(n, 1)
    else:
        y = x
    x = y
"""


@pytest.mark.parametrize(
    ("find", "expected"),
    [
        pytest.param(lambda body: body[1].body[0], {"t"}, id="a branch: y is read after it, n before it is set"),
        pytest.param(lambda body: body[1], {"t", "y"}, id="the loop: n and x are carried"),
        pytest.param(lambda body: body[1].body[1], set(), id="an assignment that an earlier statement reads"),
    ],
)
def test_temporaries_are_set_before_they_are_read(find, expected):
    body = ast.parse(FUNCTION).body
    assert Liveness(body).temporaries(find(body)) == expected
