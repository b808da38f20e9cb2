"""Functions that compute the pod sets of jobs whose kind has no path to them, keyed by their name in a JobKind.

base               their interface
appwrapper         AppWrapper
sparkapplication   SparkApplication
trainjob           TrainJob

Pure, except that a function may read objects that the job refers to; `referenced.py` holds these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from admission.integrations.declared.functions.appwrapper import WrappedObjects
from admission.integrations.declared.functions.base import PodSetFunction
from admission.integrations.declared.functions.sparkapplication import SparkPods
from admission.integrations.declared.functions.trainjob import RuntimePods

FUNCTIONS: Final[Mapping[str, PodSetFunction]] = {
    "RuntimePods": RuntimePods(),
    "SparkPods": SparkPods(),
    "WrappedObjects": WrappedObjects(),
}
