"""Faults put into code: each differs from the code, in one place, and the same ones every time."""

from __future__ import annotations

import ast
import gc
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.every import every

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
mutations = pytest.importorskip("mutations")
mutate = pytest.importorskip("mutate")

TEXT = '''"""A module."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
LIMIT = 4

@dataclass(frozen=True)
class C:
    def f(self, x: int = 1) -> "1":
        """A text."""
        if x < LIMIT and not self.y:
            self.y = x % 2
        for n in zip(a, b, strict=True):
            break
        return min(x, 2), g(x, -1), f"{x + 1}"
'''


def faults(text):
    tree = ast.parse(text)
    return [mutations.faulty(text, number) for number in range(len(mutations.sites(tree)))]


def test_each_fault_is_another_text_than_the_code_and_than_the_others():
    texts = [ast.unparse(tree) for tree, _, _ in faults(TEXT)]
    assert ast.unparse(ast.parse(TEXT)) not in texts
    assert len(set(texts)) == len(texts)
    for text in texts:
        compile(text, "text", "exec")


@every(
    "before, after",
    [
        ("x < LIMIT", "x <= LIMIT"),
        ("x < LIMIT and (not self.y)", "x < LIMIT or not self.y"),
        ("x % 2", "x // 2"),
        ("not self.y", "not not self.y"),
        ("self.y = x % 2", ""),
        ("break", ""),
        ("g(x, -1)", "g(-1, x)"),
        ("-1", "+1"),
        ("4", "5"),
        ("4", "3"),
    ],
)
def test_faults_are_of_these_kinds(before, after):
    assert (before, after) in [(one, two) for _, one, two in faults(TEXT)]


def test_mutations_without_effect_are_omitted():
    texts = [ast.unparse(tree) for tree, before, _ in faults(TEXT) if not before.startswith("return")]
    for kept in ("frozen=True", "strict=True", "{x + 1}", "A text.", "-> '1'", "min(x,", "import os"):
        assert all(kept in text for text in texts), kept


@every(
    "text, count",
    [
        ("MOST_ELEMENTS = 256", 0),
        ("_MOST = 64", 0),
        ("MOST_RANK = 63", 2),
        ("MOST_BYTES = 1 << 30", 5),
        ("MOSTLY = 256", 2),
        ("LIMIT = 256", 2),
        ("MOST_ELEMENTS = -256", 3),
        ("if n > 256: pass", 4),
    ],
)
def test_large_bounds_are_not_changed_by_one(text, count):
    assert len(faults(text)) == count


def test_removal_of_a_final_return_none_is_omitted():
    text = "def f(x):\n    if x:\n        return None\n    {}\n    return {}\n"
    for returned in ("None", ""):
        removed = [before for _, before, after in faults(text.format("g(x)", returned)) if not after]
        assert removed == ["return None", "g(x)"]
    assert [before for _, before, after in faults(text.format("g(x)", "0")) if not after][2:] == ["return 0"]


def test_removal_of_a_redundant_return_is_omitted():
    text = "def f(x):\n    match x:\n        case 1:\n            {}\n        case _:\n            return None\n{}"
    assert not [one for _, one, two in faults(text.format("return", "")) if not two]
    assert [one for _, one, two in faults(text.format("return 1", "")) if not two] == ["return 1"]
    assert [one for _, one, two in faults(text.format("return", "    return 2")) if not two][:2] == [
        "return",
        "return None",
    ]
    text = "for x in y:\n    if x:\n        with x:\n            {}\n    else:\n        {}\n{}"
    assert not [one for _, one, two in faults(text.format("continue", "continue", "")) if not two]
    assert [one for _, one, two in faults(text.format("break", "pass", "")) if not two] == ["break"]
    assert [one for _, one, two in faults(text.format("continue", "pass", "    x = 1")) if not two] == ["continue"]


def test_large_floats_are_scaled():
    for number in ("3.4e38", "1e300"):
        found = [float(after) for _, _, after in faults(f"x = {number}")]
        assert found == [1.5 * float(number), 0.5 * float(number)]


def test_sites_distinguish_import_time_from_call_time():
    sites = mutations.sites(ast.parse(TEXT))
    lines = {site.node.lineno: site.in_function for site in sites}
    assert (lines[6], lines[10], lines[12], lines[16]) == (False, False, True, True)


def test_statement_counters_record_executed_statements():
    tree, count = mutate.counted(TEXT.replace("@dataclass(frozen=True)\n", ""), 3)
    hits = bytearray(3 + count)
    names: dict[str, Any] = {mutate.HITS: hits}
    exec(compile(tree, "text", "exec"), names)  # noqa: S102  the text above
    done = hits.count(1)
    names.update(a=(), b=(), g=max)
    names["C"].y = True
    assert names["C"]().f() == (1, 1, "2")
    assert done < hits.count(1) < len(hits)


def test_tests_of_a_module_are_those_of_its_folder_and_format():
    assert mutate.tests_of("core/dims/text.py") == ("tests/core",)
    assert mutate.tests_of("formats/ncnn/graph_passes/hooks.py") == (
        "tests/formats/ncnn/graph_passes",
        "tests/formats/ncnn",
    )
    assert mutate.tests_of("formats/tflite/graph_passes/views.py")[1:] == ("tests/formats/tflite",)
    assert mutate.tests_of("formats/pytorch/graph_passes/vmap.py")[1:] == ("tests/formats/pytorch/pt2",)
    assert mutate.tests_of("formats/nnef/container/tract/cache.py") == (
        "tests/formats/nnef/tract",
        "tests/formats/nnef",
    )
    assert mutate.tests_of("formats/caffe/rules/reshape.py") == ("tests/formats/caffe",)


def test_the_same_faults_are_drawn_every_time():
    one, two, other = (mutate.draw("comparison", 9, seed) for seed in (1, 1, 2))
    assert one == two != other
    assert len(set(one)) == 9


def test_functions_are_found_after_gc_freeze():
    """Otherwise each fault takes a process that imports and collects everything anew: seconds in the place of few."""
    from graphport.core import names

    gc.freeze()
    try:
        (found,) = mutate.functions_of(["core/names.py"]).values()
    finally:
        gc.freeze()  # as the suite has it
    assert names.unique in found
    assert all(each.__module__ == "graphport.core.names" for each in found)
