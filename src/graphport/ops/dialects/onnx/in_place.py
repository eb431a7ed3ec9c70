"""The oldest form of many operators, which allowed a runtime to compute in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.declare import lower

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


def allowed_in_place(page: Page, until: int) -> None:
    """Register the form with `consumed_inputs`, which never changed a result."""

    @lower("onnx", page.name, until=until)
    def lowered(
        b: Builder, *operands: Value, consumed_inputs: tuple[int, ...] | None = None, **attributes: float
    ) -> Value:
        del consumed_inputs
        return b(page, *operands, **attributes)
