"""How a kind is declared that the controller, the dashboard and simulations keep a copy of.

`kinds.py` and the features of the view (`cluster_view.py`) declare them. Informers, permissions (hack/kinds.py) and the parts
of a world follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, overload

from admission.controllers.watch.local_copies import Copy
from api.kube.client import Kube
from api.kube.decode import Decoder, decoder_for
from api.kube.informers.informer import Informer
from api.kube.resources import Resource

T = TypeVar("T")


class View:
    """What has a copy of each kind that its class declares."""

    @classmethod
    def kinds(cls) -> list[Watched[Any]]:
        """Returns the declarations, in their order."""
        return [kind for each in reversed(cls.__mro__) for kind in vars(each).values() if isinstance(kind, Watched)]

    def keep(self, copies: Mapping[Resource, Copy[Any]]) -> None:
        """Keeps the copies of the declared kinds."""
        vars(self).update({kind.name: copies[kind.resource] for kind in self.kinds()})


class InformedView(View):
    """A view whose copies are informers."""


def item(kind: type[T]) -> Callable[[], Decoder[T]]:
    """Returns what makes decoders of a type."""
    return lambda: decoder_for(kind)


class Watched(Generic[T]):
    """A watched kind, as an attribute of a view that holds the copy of that name."""

    def __init__(
        self,
        resource: Resource,
        decoder: Callable[[], Decoder[T]],
        *,
        whole: Callable[[], Decoder[T]] | None = None,
        informer: type[Informer[Any]] = Informer,
        without: str = "",
        of_topologies: bool = False,
        label_selector: str | None = None,
        field_selector: str | None = None,
        check: Callable[[T], object] | None = None,
    ) -> None:
        """`whole` makes the decoder of objects of files, of which more fields matter.

        `without` completes "... are not known" where a user may not read the kind; empty if nothing works without it.
        `of_topologies` limits the kind to the namespace of topologies. `check` raises InvalidObject for an
        object of a file that the engine would not take.
        """
        self.resource, self.decoder, self.whole, self.without = resource, decoder, whole or decoder, without
        self.of_topologies, self.informer, self.check = of_topologies, informer, check
        self.label_selector, self.field_selector = label_selector, field_selector
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, view: InformedView, owner: type[Any]) -> Informer[T]: ...
    @overload
    def __get__(self, view: View, owner: type[Any]) -> Copy[T]: ...
    def __get__(self, view: View, owner: type[Any]) -> Copy[T]:
        """Never called for a view that is built: the copy in its dict is found first, as fast as any attribute."""
        raise AttributeError(self.name)

    def selection(self, topology_namespace: str) -> Mapping[str, str]:
        """Returns the arguments of a list or watch that select the objects."""
        selectors = {
            "namespace": topology_namespace if self.of_topologies else None,
            "label_selector": self.label_selector,
            "field_selector": self.field_selector,
        }
        return {name: value for name, value in selectors.items() if value is not None}

    def watch(self, kube: Kube, topology_namespace: str) -> Informer[T]:
        """Returns the informer, not yet running."""
        selection: Mapping[str, Any] = self.selection(topology_namespace)
        return self.informer(kube, self.resource, self.decoder(), **selection)
