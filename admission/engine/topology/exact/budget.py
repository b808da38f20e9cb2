"""The search budget of the exact algorithms."""

from __future__ import annotations


class BudgetSpent(Exception):
    """Raised when a search has used up its budget."""
