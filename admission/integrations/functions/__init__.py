"""Functions that say which pod sets a job has where no path of its object leads to them, by the name that a JobKind gives.

Pure, but for objects beside the job that a function reads: `referenced.py` holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from admission.integrations.functions.appwrapper import WrappedObjects
from admission.integrations.functions.base import PodSetFunction
from admission.integrations.functions.sparkapplication import SparkPods
from admission.integrations.functions.trainjob import RuntimePods

FUNCTIONS: Final[Mapping[str, PodSetFunction]] = {
    "RuntimePods": RuntimePods(),
    "SparkPods": SparkPods(),
    "WrappedObjects": WrappedObjects(),
}
