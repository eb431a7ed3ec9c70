"""Calls that are written alike but for the tensors that they name first: nearly all of a large text are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.nnef.container.syntax import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.nnef.container.syntax import Argument


class CallText:
    """Shared part of calls: the operation, the number of leading tensors, and the exact text after them.

    Forms are compared by identity.
    """

    __slots__ = ("count", "generic", "name")

    def __init__(self, name: str, generic: str | None, count: int) -> None:
        self.name = name
        self.generic = generic
        self.count = count


class FlatCall(Call):
    """A call in a known form, whose arguments are parsed on demand."""

    __slots__ = ("_at", "_read", "_reader", "form", "tensors")
    __match_args__ = Call.__match_args__

    def __init__(
        self,
        form: CallText,
        tensors: list[str],
        reader: Callable[[int], tuple[Argument, ...]],
        at: int,
        start: int,
        stop: int,
    ) -> None:
        self.form = form
        self.tensors = tensors
        """The names of the tensors in front."""
        self.name = form.name
        self.generic = form.generic
        self.start = start
        self.stop = stop
        self._reader = reader
        self._at = at
        self._read: tuple[Argument, ...] | None = None

    @property
    def arguments(self) -> tuple[Argument, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All arguments, with their locations."""
        if self._read is None:
            self._read = self._reader(self._at)
        return self._read
