"""Remedies that fit what was written, and files that once ended in a traceback."""

from __future__ import annotations

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.nnef.container.reader import read

HEAD = "version 1.0;\nextension vendor_words;\ngraph g( x ) -> ( result )\n{\n    x = external(shape = [1, 3, 8, 8]);\n"


@pytest.mark.parametrize(
    ("statement", "code", "remedy"),
    [
        pytest.param("result = matmul(x, x, transposeA = True);", "NNEF0303", "'true'", id="a literal of Python"),
        pytest.param("result = conv(x, x, padding = 1);", "NNEF0401", "[(1, 1), …]", id="one number for pairs"),
        pytest.param("result = transpose(x, axes = (0,2,3,1));", "NNEF0401", "brackets", id="a tuple for an array"),
        pytest.param("result = relu(x); // done", "NNEF0201", "'#'", id="a comment of C"),
        pytest.param("reslut = relu(x);", "NNEF0305", "'reslut'", id="a misspelt result"),
        pytest.param("result = vendor_f([('a', x, 1)]);", "NNEF0321", "separate arguments", id="a text among tensors"),
    ],
)
def test_the_only_finding_states_what_to_write(tmp_path, statement, code, remedy):
    path = tmp_path / "a.nnef"
    path.write_text(f"{HEAD}    {statement}\n}}\n")
    with pytest.raises(DiagnosticError) as raised:
        read(path)
    (finding,) = [each for each in raised.value.diagnostics if each.is_error]
    assert finding.code == code
    assert remedy in (finding.help or "")


@pytest.mark.parametrize(
    ("shape", "statement"),
    [
        ("[4294967296, 4294967296, 4294967296]", "result = reshape(x, shape = [-1]);"),
        ("[9223372036854775807]", "result = tile(x, repeats = [9223372036854775807]);"),
    ],
)
def test_tensors_of_more_elements_than_64_bits_count_are_refused(tmp_path, shape, statement):
    path = tmp_path / "a.nnef"
    path.write_text(
        f"version 1.0;\ngraph g( x ) -> ( result )\n{{\n    x = external(shape = {shape});\n    {statement}\n}}\n"
    )
    with pytest.raises(DiagnosticError) as raised:
        read(path)
    assert {each.code for each in raised.value.diagnostics} <= {"NNEF0632", "SHAPE0001"}
