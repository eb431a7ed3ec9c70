from __future__ import annotations

import pytest

from graphport.core.dtypes import DType
from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS
from graphport.expression.fused.arguments import ENTRY
from graphport.expression.fused.entry import object_layout
from graphport.expression.fused.operators import ELEMENTS, convert, divides_integers, is_compiled
from graphport.expression.fused.segments import SEGMENT, slot_count
from graphport.expression.fused.source import KERNEL, Access, module
from graphport.expression.fused.vector import Block, Vector, literal
from graphport.expression.program import Argument, Builder, Program


def program_of(text, count=1):
    expression = Expression(text)
    arguments = [Argument(DType.FLOAT32, (2,))] * count
    program = Builder(expression.text, NUMPY_FUNCTIONS, arguments, DType.FLOAT32).build(expression.rpn).value
    assert isinstance(program, Program)
    return program


def text_of(program, modes, **options):
    return module(program, Access(modes, **options), 16, x86=True)


def chain(length):
    text = "@0"
    for number in range(length):
        text = f"{('mul', 'add')[number % 2]}({text},{number}.5)"
    return text


def test_kernel_source_is_independent_of_constants():
    assert text_of(program_of("mul(@0,2)"), "cc") == text_of(program_of("mul(@0,-7.25)"), "cc")


@pytest.mark.parametrize("modes", ["cc", "sc", "gc", "cg"])
def test_kernel_is_the_only_exported_function(modes):
    text = text_of(program_of("exp(@0)"), modes)
    visible = [line for line in text.splitlines() if line.startswith("define ") and " internal " not in line]
    assert len(visible) == 1
    assert f"@{KERNEL}(" in visible[0]
    assert ENTRY not in text


def test_arithmetic_is_not_contracted():
    text = text_of(program_of("add(@0,mul(@0,@0))"), "cc")
    assert "fmul <16 x float>" in text
    assert "fmuladd" not in text
    assert "contract" not in text
    assert "fast" not in text


def test_nontemporal_stores_are_optional():
    program = program_of("neg(@0)")
    assert "!nontemporal" not in text_of(program, "cc")
    assert text_of(program, "cc", bypasses_cache=True).count("!nontemporal") == 1


def test_the_text_grows_in_proportion_to_the_length():
    short, long = (len(text_of(program_of(chain(length)), "cc")) for length in (4 * SEGMENT, 16 * SEGMENT))
    assert long < 4.5 * short


def test_segments_use_slots_again():
    assert slot_count(program_of(chain(SEGMENT))) == 0
    assert slot_count(program_of(chain(20 * SEGMENT))) <= 2


def test_python_object_layout_is_recognized():
    assert object_layout() is not None


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_every_function_of_floats_is_compiled(dtype):
    others = {"and", "or", "xor", "lshift", "rshift", "size", "int", "torch.float", "torch.long", "torch.bool"}
    for name in NUMPY_FUNCTIONS.keys() - others - {"max", "min"}:
        assert is_compiled(name, dtype), name


def test_divides_integers_for_integer_division_functions():
    assert divides_integers("remainder", DType.INT8)
    assert not divides_integers("remainder", DType.FLOAT32)
    assert not divides_integers("add", DType.INT8)


def test_conversion_to_the_same_dtype_emits_no_code():
    block, x = Block(8), Vector("%x", "float")
    assert convert(block, x, DType.FLOAT32, DType.FLOAT32) is x
    assert not block.lines
    for source in ELEMENTS:
        for target in ELEMENTS:
            converted = convert(block, Vector("%x", ELEMENTS[source]), source, target)
            assert converted.element == ELEMENTS[target]


@pytest.mark.parametrize(
    ("value", "element", "expected"),
    [
        (1.0, "float", "0x3FF0000000000000"),
        (0.1, "float", "0x3FB99999A0000000"),
        (0.1, "double", "0x3FB999999999999A"),
        (float("-inf"), "double", "0xFFF0000000000000"),
        (-3, "i8", "-3"),
        (1, "i1", "true"),
    ],
)
def test_numbers_are_spelled_by_their_bits(value, element, expected):
    assert literal(value, element) == expected
