"""Run the cases of one test concurrently and batch their requests to an oracle with a high fixed cost.

Each case is a thread, and one runs at a time until it makes a request or ends. Then all pending requests are processed
in one batch, and each case continues with its result.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import wraps
from typing import Any

from tests.every import own_fixtures, row, tell

_here = threading.local()


class _Case(threading.Thread):
    """A case that pauses at each request."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._context = copy_context()
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.asked: Any = None
        self.answer: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        self._go.acquire()
        _here.case = self
        try:
            self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001  re-raised by the waiting thread
            self.error = error
        self.asked = None
        self._stopped.release()

    def go_on(self) -> None:
        """Run to the next question, or the end."""
        self.asked = None
        self._go.release()
        self._stopped.acquire()

    def ask(self, question: Any) -> Any:
        self.asked = question
        self._stopped.release()
        self._go.acquire()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def ask(question: Any, answers: Callable[[list[Any]], list[Any]]) -> Any:
    """Return the result of a request, batched with those of the other cases; raise it if it is an exception."""
    case = getattr(_here, "case", None)
    if case is not None:
        return case.ask((question, answers))
    answer = answers([question])[0]
    if isinstance(answer, BaseException):
        raise answer
    return answer


def together(works: Sequence[Callable[[], object]]) -> list[BaseException | None]:
    """Run all `works` with batched requests and return their exceptions."""
    cases = [_Case(work) for work in works]
    for case in cases:
        case.start()
        case.go_on()
    while waiting := [case for case in cases if case.asked is not None]:
        for answers in dict.fromkeys(case.asked[1] for case in waiting):
            these = [case for case in waiting if case.asked[1] is answers]
            for case, answer in zip(these, answers([case.asked[0] for case in these]), strict=True):
                case.answer = answer
        for case in waiting:
            case.go_on()
    return [case.error for case in cases]


def at_once(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[str] | None = None
):
    """Run a test with all `cases`, like `pytest.mark.parametrize` but in one test; several decorators multiply."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    told = ids if ids is None or callable(ids) else list(ids)
    rows = [row(case, index, len(arguments), told) for index, case in enumerate(cases)]
    outer = [(name, dict(zip(arguments, values, strict=True))) for name, values in rows]

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        plain, inner = getattr(test, "plain_and_cases", (test, [("", {})]))
        every = [(f"{a}, {b}" if b else a, {**x, **y}) for a, x in outer for b, y in inner]

        @wraps(plain)
        def tested(**fixtures: Any) -> None:
            def work(index: int, given: dict[str, Any]) -> None:
                plain(**own_fixtures(fixtures, index, None), **given)

            works = [lambda index=index, given=given: work(index, given) for index, (_, given) in enumerate(every)]
            tell([name for name, _ in every], together(works))

        signature = inspect.signature(plain)
        used = {name for _, given in every for name in given}
        kept = [each for name, each in signature.parameters.items() if name not in used]
        if any(each.name == "monkeypatch" for each in kept):
            raise TypeError("what one case patches, the others would see: use `every`")
        tested.__signature__ = signature.replace(parameters=kept)  # pyright: ignore[reportAttributeAccessIssue]
        tested.plain_and_cases = plain, every  # pyright: ignore[reportAttributeAccessIssue]
        return tested

    return decorate
