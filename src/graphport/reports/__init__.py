"""One document of facts about models, comparisons and quantizations, and its views."""

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used

if TYPE_CHECKING:
    from graphport.reports.report import Report

__all__ = ["Report"]

__getattr__ = first_used(__name__, {"Report": "graphport.reports.report"})
