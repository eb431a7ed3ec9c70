"""What is known of models, comparisons and quantizations as one document, and what is drawn from it alone."""

from typing import TYPE_CHECKING

from graphport.core.lazy import first_used

if TYPE_CHECKING:
    from graphport.reports.report import Report

__all__ = ["Report"]

__getattr__ = first_used(__name__, {"Report": "graphport.reports.report"})
