"""Evaluates the CEL expressions of a JobKind on one job (api/cel/cel.py). Pure.

A job is untrusted, and its size decides what an expression costs. An expression that fails does not hold, but one that takes
too many steps is an error where it decides what counts: otherwise a tenant could hide pods from quota behind a long list.
"""

from __future__ import annotations

from typing import Any

from admission.integrations.base import Job, has_condition
from admission.integrations.paths import fields, value_at
from api.cel.cel import CelError, compile_cel
from api.cel.cel_budget import MAX_STEPS, CelWorkError, EvaluationBudget
from api.errors import InvalidObject
from api.job_kinds import Test


class JobExpressions:
    """Evaluates each expression once. All of them together have the steps of one evaluation, as a job has many pod sets."""

    def __init__(self, job: Job) -> None:
        self._scope = {"object": job, EvaluationBudget: EvaluationBudget()}
        self._name = str((job.get("metadata") or {}).get("name") or "")
        self._known: dict[str, bool] = {}

    def holds(self, expression: str | None) -> bool:
        """Reports whether the expression yields true; one that is unset does. Raises InvalidObject if it takes too long."""
        if expression is None:
            return True
        if expression not in self._known:
            try:
                self._known[expression] = compile_cel(expression)(self._scope) is True
            except CelWorkError:
                allowed = f"must be so small that this expression of its JobKind takes at most {MAX_STEPS} steps"
                raise InvalidObject("spec", expression, allowed, self._name) from None
            except CelError:
                self._known[expression] = False
        return self._known[expression]


def holds(test: Test, job: Job, *, unless_too_long: bool = False) -> bool:
    """Evaluates the test on the job. A test that fails is False; one that takes too long is `unless_too_long`."""
    if test.condition is not None:
        return has_condition(job, test.condition)
    if test.path is not None:
        return value_at(job, fields(test.path)) in test.values
    try:
        return test.expression is not None and compile_cel(test.expression)({"object": job}) is True
    except CelWorkError:
        return unless_too_long
    except CelError:
        return False


def suspends(value: Any, suspended: Any) -> bool:
    """Reports whether `value`, read from the suspend field, suspends the object."""
    return bool(value) if suspended is True else bool(value == suspended)
