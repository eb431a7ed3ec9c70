"""Operations that are damaged one at a time: a rule reads them or refuses them, and raises nothing else."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from graphport import DiagnosticError
from graphport.core.storage import Bytes
from graphport.formats.stablehlo import reader
from graphport.formats.stablehlo.container.text import read_text
from graphport.formats.stablehlo.program import Block, Operation, OtherType, Program, TensorType
from tests.every import every
from tests.formats.stablehlo.test_operators import PROGRAMS, ROWS, operator_text, program_text

CASES = Path(__file__).parent / "cases"
VALUES: list[Any] = [None, "text", -1, 0, 7, 1 << 40, 1 << 70, 0.5, True, [], ["a"], [0], [0, 0], [[0, 1], [1]], {}]
"""Values of attributes."""
EVERY = 1 if os.environ.get("CI") else 4
"""One of so many damages is tried."""


def operations(block: Block | None) -> list[Operation]:
    """All operations of a block and of the regions in it."""
    own = [] if block is None else block.operations
    return [each for op in own for each in (op, *(inner for region in op.regions for inner in operations(region)))]


def of_dictionary(value: dict[str, Any]) -> list[dict[str, Any]]:
    """A dictionary with one entry removed or replaced, for each entry and value."""
    removed = [{key: other for key, other in value.items() if key != name} for name in value]
    return removed + [value | {name: new} for name in value for new in VALUES]


def damages(op: Operation) -> list[dict[str, Any]]:
    """Fields of an operation that are replaced, a damage each."""
    found: list[dict[str, Any]] = []
    for name, value in op.attributes.items():
        values = [*VALUES, *(of_dictionary(value) if isinstance(value, dict) else [])]
        values += [value * 2, value[:-1], [*value, 99], [*value[:-1], -1]] if isinstance(value, list) and value else []
        found += [{"attributes": op.attributes | {name: new}} for new in values]
        found.append({"attributes": {key: other for key, other in op.attributes.items() if key != name}})
    found += [{"operands": op.operands[:-1]}, {"operands": []}, {"operands": [*op.operands, *op.operands[:1]]}]
    found += [{"operands": op.operands[::-1]}, {"operands": [*op.operands[:-1], 1 << 20]}]
    found += [{"regions": []}, {"regions": op.regions[:1]}, {"regions": [Block(), *op.regions[1:]]}]
    found += [{"results": [], "result_types": []}, {"result_types": []}, {"result_types": op.result_types * 2}]
    types = [TensorType("f32", ()), TensorType("i1", (3,)), TensorType("complex<f32>", (1,) * 33), OtherType("token")]
    found += [{"result_types": [type] * len(op.result_types)} for type in types]
    return found


def texts() -> dict[str, str]:
    """Programs whose operations are damaged: the cases of JAX, and each operator on constants and on arguments."""
    found = {path.name: path.read_text() for path in sorted(CASES.rglob("*.mlir")) if path.name != "random.mlir"}
    for row in ROWS:
        given = row["name"], row["operands"], row["types"], row.get("attributes", ""), row.get("regions", "")
        for are_constants in (True, False):
            kind = "constants" if are_constants else "arguments"
            found[f"{row['name']} on {kind}"] = operator_text(*given, are_constants=are_constants)
    return found | {row["name"]: program_text(row["text"], row["type"]) for row in PROGRAMS}


def read_damaged(program: Program, monkeypatch: pytest.MonkeyPatch) -> int:
    """Read a program once for each damage of each of its operations.

    Raises:
        AssertionError: reading raised anything but a diagnostic of the format.
    """
    monkeypatch.setattr(reader, "_program", lambda _: (copy.deepcopy(program), None))
    found = [op for function in program.functions.values() for op in operations(function.body)]
    alike = {(op.name, ",".join(sorted(op.attributes))): op for op in found}
    count, codes = 0, {"SH"}
    for op in alike.values():
        for damage in damages(op)[::EVERY]:
            before = {field: getattr(op, field) for field in damage}
            for field, value in damage.items():
                setattr(op, field, value)
            count += 1
            try:
                reader.read_bytes(b"")
            except DiagnosticError as refused:
                codes.add(refused.diagnostics[0].code[:2])
            except Exception as error:
                message = f"{op.name}: {damage}"
                raise AssertionError(message) from error
            finally:
                for field, value in before.items():
                    setattr(op, field, value)
    assert codes == {"SH"}, "a damage is refused by a rule of the format"
    return count


@every("name, text", texts().items(), ids=lambda case: case[0])
def test_a_damaged_operation_is_read_or_refused(name, text, monkeypatch):
    assert read_damaged(read_text(Bytes(text.encode())), monkeypatch) > 5, name
