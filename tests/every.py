"""Many cases in one test: what `parametrize` makes a test each costs more than most cases, in every process anew."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

MOST_TOLD = 3
"""Failing cases after which the others are left out."""


def every(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[str] | None = None
):
    """Run a test with all `cases` in turn, like `pytest.mark.parametrize` but in one test.

    Failures are reported with the names of their cases. Each case has a separate `tmp_path` and `monkeypatch`; other
    fixtures are common to all. A skipped case does not affect the others.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    told = ids if ids is None or callable(ids) else list(ids)
    rows = [row(case, index, len(arguments), told) for index, case in enumerate(cases)]

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        @wraps(test)
        def tested(**fixtures: Any) -> None:
            found: list[BaseException | None] = []
            for index, (_, values) in enumerate(rows):
                try:
                    with pytest.MonkeyPatch.context() as patch:
                        test(**own_fixtures(fixtures, index, patch), **dict(zip(arguments, values, strict=True)))
                except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:  # noqa: BLE001  reported with its case
                    found.append(error)
                    if sum(not isinstance(each, pytest.skip.Exception | None) for each in found) == MOST_TOLD:
                        break
                else:
                    found.append(None)
            tell([name for name, _ in rows], found)

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in arguments]
        tested.__signature__ = signature.replace(parameters=kept)  # pyright: ignore[reportAttributeAccessIssue]
        return tested

    return decorate


def tell(names: Sequence[str], found: Sequence[BaseException | None]) -> None:
    """Raise what cases raised, with their names; that they were skipped only where all were."""
    failed: list[BaseException] = []
    for name, error in zip(names, found, strict=False):
        if error is not None and not isinstance(error, pytest.skip.Exception):
            error.add_note(f"of the case {name}")
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} cases or more fail", failed[:MOST_TOLD])
    skipped = next((error for error in found if error is not None), None)
    if skipped is not None and None not in found:
        raise skipped


def row(
    case: Any, index: int, count: int, ids: Callable[[Any], object] | Sequence[str] | None
) -> tuple[str, Sequence[Any]]:
    """The name and the values of a case."""
    given = None
    if hasattr(case, "values") and hasattr(case, "marks"):  # what `pytest.param` makes
        if case.marks:
            raise TypeError("a case has no marks of its own; mark the test")
        given, values = case.id, case.values
    else:
        values = (case,) if count == 1 else tuple(case)
    if given is None and callable(ids):
        given = "-".join(str(ids(value)) for value in values)
    elif given is None and ids is not None:
        given = ids[index]
    return given or f"{index}: {', '.join(map(repr, values))}"[:200], values


def own_fixtures(fixtures: dict[str, Any], index: int, patch: pytest.MonkeyPatch | None) -> dict[str, Any]:
    """Return the fixtures of one case: a separate folder, and `patch`."""
    found = dict(fixtures)
    if "monkeypatch" in found and patch is not None:
        found["monkeypatch"] = patch
    if isinstance(found.get("tmp_path"), Path):
        found["tmp_path"] = fixtures["tmp_path"] / str(index)
        found["tmp_path"].mkdir()
    return found
