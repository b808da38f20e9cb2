"""The search budget of the exact algorithms."""

from __future__ import annotations


class BudgetSpent(Exception):
    """The search has examined as much as it may."""
