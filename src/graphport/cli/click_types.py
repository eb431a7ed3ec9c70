"""Base classes of click; click 8.2.0 to 8.3.1 cannot subscript `ParamType`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
    StringChoice = click.Choice[str]
else:
    ParamType = click.ParamType
    StringChoice = click.Choice
