"""The views below `src/graphport/ops/views/`, a module a family, made from the signatures of pages.

python tools/operator_views.py            write them
python tools/operator_views.py --check    say which are out of date; exit code 1
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ops.declare import Page

FOLDER = Path(__file__).parent.parent / "src/graphport/ops/views"
FEWEST = 5
"""Parameters that a page has to have: a lifting names fewer in one line as well as a view does."""

_PACKAGE = '"""Views of the operators with many parameters, made from their pages by `tools/operator_views.py`."""\n'
_MODULES = re.compile(r"\b(?:[a-z_]+\.)+")


def modules() -> dict[str, str]:
    """The text of every module by its name."""
    families: dict[str, list[Page]] = {}
    for page in registry.pages().values():
        if _has_view(page):
            family = page.function.__module__.removeprefix(registry.PAGES_ROOT).partition(".")[0]
            families.setdefault(family, []).append(page)
    return {"__init__": _PACKAGE} | {family: _module(family, of) for family, of in sorted(families.items())}


def _has_view(page: Page) -> bool:
    operands, keywords = page.signature.operands, page.signature.keywords
    return bool(operands) and page.signature.variadic is None and len(operands) + len(keywords) >= FEWEST


def _module(family: str, pages: list[Page]) -> str:
    classes = "\n\n".join("\n".join(_class(page)) + "\n" for page in sorted(pages, key=lambda page: page.name))
    markers = "KW_ONLY, dataclass" if "KW_ONLY" in classes else "dataclass"
    types = "from graphport.core.dtypes import DType\n" if "DType" in classes else ""
    return (
        f'"""Views of the pages of {family}; made by `tools/operator_views.py`."""\n\n'
        "from __future__ import annotations\n\n"
        f"from dataclasses import {markers}\n\n"
        f"{types}"
        "from graphport.ops.view import T, View\n\n\n"
        f"{classes}"
    )


def _class(page: Page) -> Iterator[str]:
    yield "@dataclass(slots=True, eq=False, repr=False)"
    yield f"class {page.name}View(View[T]):"
    yield f'    """A node of `{page.name}`."""'
    yield ""
    yield f'    operator = "{page.name}"'
    yield ""
    for operand in page.signature.operands:
        yield f"    {operand.name}: T{' | None = None' if operand.is_optional else ''}"
    if page.signature.keywords:
        yield "    _: KW_ONLY"
    for keyword in page.signature.keywords.values():
        default = "" if keyword.is_required else f" = {_literal(keyword.default)}"
        yield f"    {keyword.name}: {_type(keyword.annotation)}{default}"


def _type(annotation: object) -> str:
    return _MODULES.sub("", inspect.formatannotation(annotation))


def _literal(value: object) -> str:
    return f"DType.{value.name}" if isinstance(value, DType) else repr(value).replace("'", '"')


def main(argv: list[str] | None = None) -> int:
    """Write the modules, or say which differ."""
    parser = argparse.ArgumentParser(description="views of operators from their pages")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if something is out of date")
    arguments = parser.parse_args(argv)
    stale = {path: text for path, text in _paths().items() if not path.exists() or path.read_text("utf-8") != text}
    extra = set(FOLDER.glob("*.py")) - _paths().keys()
    if arguments.check:
        for path in sorted({*stale, *extra}):
            print(f"{path.name} is not what tools/operator_views.py makes: run it")
        return bool(stale or extra)
    FOLDER.mkdir(exist_ok=True)
    for path, text in stale.items():
        path.write_text(text, "utf-8")
    for path in extra:
        path.unlink()
    return 0


def _paths() -> dict[Path, str]:
    return {FOLDER / f"{name}.py": text for name, text in modules().items()}


if __name__ == "__main__":
    sys.exit(main())
