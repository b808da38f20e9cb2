"""Names of the APIs, of Kueue, other gang schedulers and Stowage, each declared once.

labels        labels, annotations, scheduling gates, finalizers, and names of objects
conditions    types of conditions, and the reasons of each
"""

from api.names.conditions import *  # noqa: F403
from api.names.labels import *  # noqa: F403
