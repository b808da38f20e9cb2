"""A pod's required affinity and anti-affinity to other pods, as values that compare and hash.

As in kube-scheduler, a term selects pods by labels and namespaces, and applies to the domain of a node that its label with the
term's topology key names. Any user who creates a pod writes its terms, so their size is bounded. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from api.pod.pods import PodAffinityTerm, PodSpec, SpreadConstraint

Labels = tuple[tuple[str, str], ...]
"""Labels as pairs sorted by key."""

_MOST: Final = 64
"""Most terms of one pod, and most expressions of one selector."""
_MOST_VALUES: Final = 256
"""Most values of one expression, and most namespaces of one term."""
_MOST_PARTS: Final = 512
"""Most terms, expressions, values and namespaces of one field together, because they stay in memory with the pod."""
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class SelectorRequirement:
    """One expression of a label selector, with sorted `values`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Reports whether the labels satisfy it. A missing key satisfies NotIn, as in Kubernetes."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


Selector = tuple[SelectorRequirement, ...]
"""A conjunction of requirements; an empty one selects everything."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """The pods that a term selects."""

    key: str
    """The topology key of its domains."""
    selector: Selector | None
    """None selects nothing."""
    namespaces: tuple[str, ...] = ()
    """The namespaces whose pods it selects."""
    by_labels: Selector | None = None
    """Selects further namespaces by their labels; None selects no others."""

    def looks_into(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Reports whether the term applies to pods of the namespace with these labels."""
        return namespace in self.namespaces or (self.by_labels is not None and holds(self.by_labels, labels))

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Reports whether the term selects a pod with these labels in a namespace to which it applies."""
        return self.selector is not None and holds(self.selector, labels)

    @property
    def parts(self) -> int:
        """Number of strings in the term whose number users choose."""
        expressions = (*(self.selector or ()), *(self.by_labels or ()))
        return 1 + len(self.namespaces) + sum(1 + len(one.values) for one in expressions)

    def pairs(self) -> list[tuple[str, str]] | None:
        """Returns labels of which each selected pod has one, or None if the selector implies none."""
        required = [one for one in self.selector or () if one.operator == "In"]
        if not required:
            return None
        least = min(required, key=lambda requirement: len(requirement.values))
        return [(least.key, value) for value in least.values]


@dataclass(frozen=True, slots=True)
class SpreadTerm:
    """A topology spread constraint with DoNotSchedule. Its domains are those of nodes that the pod's node selector and affinity
    match.
    """

    term: PodTerm
    max_skew: int = 1
    """How many more selected pods a domain may have than the domain with the fewest."""
    min_domains: int = 1
    """With fewer domains than this, the fewest count as 0."""
    taints: bool = False
    """Whether the domains are only those of nodes whose taints the pod tolerates."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodFacts:
    """A pod as terms see it, and its own terms.

    A domain satisfies required affinity if it has pods that all affinity terms select, so the terms of required affinity differ
    in their topology key only.
    """

    namespace: str
    labels: Labels = ()
    apart: tuple[PodTerm, ...] = ()
    """Required anti-affinity."""
    together: tuple[PodTerm, ...] = ()
    """Required affinity."""
    even: tuple[SpreadTerm, ...] = ()
    """The spread constraints of a pod that is not placed yet."""
    problem: str = field(default="", compare=False)
    """Why the terms cannot be counted; empty if they can."""

    def __hash__(self) -> int:
        """Hashes only the fields that differ most, because each change of a pod computes it."""
        return hash((self.namespace, self.labels))

    @property
    def has_terms(self) -> bool:
        """Reports whether the pod has terms about other pods."""
        return bool(self.apart or self.together or self.even or self.problem)


class TooLarge(ValueError):
    """A term is malformed or exceeds a limit."""


def holds(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Reports whether the labels satisfy all requirements."""
    return all(one.holds(labels) for one in selector)


def pod_facts(spec: PodSpec, namespace: str, labels: Mapping[str, str]) -> PodFacts:
    """Returns the facts of a pod with this namespace and these labels; `problem` explains terms that cannot be counted."""
    given, terms, near = sorted_labels(labels), _anti_affinity(spec), _affinity(spec)
    if not terms and not near:
        return PodFacts(namespace, given)
    apart: Iterable[PodTerm]
    together: tuple[PodTerm, ...] = ()
    problem = ""
    try:
        apart = _terms(terms, namespace, labels, "podAntiAffinity")
    except TooLarge as bad:
        apart, problem = _all_pods(terms, namespace), str(bad)
    try:
        together = _joined(_terms(near, namespace, labels, "podAffinity"))
    except TooLarge as bad:
        problem = problem or str(bad)
    return PodFacts(namespace, given, tuple(dict.fromkeys(apart)), together, problem=problem)


def with_spread(facts: PodFacts, spec: PodSpec) -> PodFacts:
    """Returns the facts with the spread constraints of a pod to place; `problem` explains one that cannot be counted."""
    required = [one for one in spec.topology_spread_constraints if one.when_unsatisfiable == "DoNotSchedule"]
    if not required or facts.problem:
        return facts
    if len(required) > _MOST:
        return replace(facts, problem=f"{len(required)} topologySpreadConstraints; at most {_MOST} are counted")
    spreads: list[SpreadTerm] = []
    for index, one in enumerate(required):
        where = f"topologySpreadConstraints[{index}] (DoNotSchedule by {one.topology_key[:80]})"
        try:
            spread = _spread(one, facts)
        except (AttributeError, KeyError, TypeError):
            return replace(facts, problem=f"{where} cannot be read: it has no label selector")
        except TooLarge as bad:
            return replace(facts, problem=f"{where} {bad}")
        if spread.term.selector is not None:  # one without a selector counts no pods
            spreads.append(spread)
    return replace(facts, even=tuple(dict.fromkeys(spreads)))


def keys_of(facts: PodFacts) -> frozenset[str]:
    """Returns the keys of labels by which the pod's own terms select pods."""
    terms = (*facts.apart, *facts.together, *(spread.term for spread in facts.even))
    return frozenset(one.key for term in terms for one in term.selector or ())


def _spread(constraint: SpreadConstraint, facts: PodFacts) -> SpreadTerm:
    if constraint.node_affinity_policy == "Ignore":
        raise TooLarge("with nodeAffinityPolicy Ignore is not counted, so its pods might never be bound")
    labels, selector = dict(facts.labels), _selector(constraint.label_selector)
    added = [SelectorRequirement(key, "In", (labels[key],)) for key in constraint.match_label_keys if key in labels]
    term = PodTerm(
        key=constraint.topology_key,
        selector=None if selector is None else _canonical([*selector, *added]),
        namespaces=(facts.namespace,),
    )
    return SpreadTerm(
        term, max(1, constraint.max_skew), constraint.min_domains or 1, taints=constraint.node_taints_policy == "Honor"
    )


def _joined(terms: Sequence[PodTerm]) -> tuple[PodTerm, ...]:
    """Returns the terms of required affinity with a common selector, the conjunction of theirs."""
    if len({(term.namespaces, term.by_labels) for term in terms}) > 1:
        raise TooLarge("required podAffinity has terms that look into different namespaces, which are not counted")
    selector: Selector | None = (
        None
        if any(term.selector is None for term in terms)
        else _canonical([one for term in terms for one in term.selector or ()])
    )
    return tuple(replace(term, selector=selector) for term in {term.key: term for term in terms}.values())


def sorted_labels(labels: Mapping[str, str]) -> Labels:
    """Returns the labels sorted by key, as a value that compares."""
    return tuple(sorted(labels.items()))


def _anti_affinity(spec: PodSpec) -> Sequence[PodAffinityTerm]:
    anti = spec.affinity.pod_anti_affinity if spec.affinity else None
    return anti.required_during_scheduling_ignored_during_execution if anti else ()


def _affinity(spec: PodSpec) -> Sequence[PodAffinityTerm]:
    near = spec.affinity.pod_affinity if spec.affinity else None
    return near.required_during_scheduling_ignored_during_execution if near else ()


def _all_pods(terms: Sequence[PodAffinityTerm], namespace: str) -> Iterator[PodTerm]:
    """Yields terms that keep all pods of their namespaces away, in place of a placed pod's terms that cannot be counted.

    They never admit a pod wrongly. They cover other namespaces only if the user may name these (ResourceQuota with the scope
    CrossNamespacePodAffinity).
    """
    named = {name for term in terms if term.namespace_selector is None for name in term.namespaces or (namespace,)}
    everywhere = any(term.namespace_selector is not None for term in terms) or len(named) > _MOST_VALUES
    scope: tuple[tuple[str, ...], Selector | None] = ((), ()) if everywhere else (tuple(sorted(named)), None)
    for key in sorted({term.topology_key for term in terms})[:_MOST]:
        yield PodTerm(key, (), *scope)


def _terms(
    terms: Sequence[PodAffinityTerm], namespace: str, labels: Mapping[str, str], field_name: str
) -> list[PodTerm]:
    if len(terms) > _MOST:
        raise TooLarge(f"{field_name} has {len(terms)} required terms; at most {_MOST} are counted")
    values: list[PodTerm] = []
    for index, term in enumerate(terms):
        where = f"required {field_name} term {index}"
        try:
            values.append(_term(term, namespace, labels))
        except (AttributeError, KeyError, TypeError):
            raise TooLarge(f"{where} cannot be read: it is not a label selector") from None
        except TooLarge as bad:
            raise TooLarge(f"{where} {bad}") from None
    if (parts := sum(term.parts for term in values)) > _MOST_PARTS:
        size = f"required {field_name} has {parts} terms, expressions, values and namespaces"
        raise TooLarge(f"{size}; at most {_MOST_PARTS} are counted")
    return values


def _term(term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    if len(term.namespaces) > _MOST_VALUES:
        raise TooLarge(f"names {len(term.namespaces)} namespaces; at most {_MOST_VALUES} are counted")
    own = () if term.namespaces or term.namespace_selector is not None else (namespace,)
    added = [
        SelectorRequirement(key, operator, (str(labels[key]),))
        for keys, operator in ((term.match_label_keys, "In"), (term.mismatch_label_keys, "NotIn"))
        for key in keys
        if key in labels
    ]
    selector = _selector(term.label_selector)
    return PodTerm(
        key=term.topology_key,
        selector=None if selector is None else _canonical([*selector, *added]),
        namespaces=tuple(sorted({*term.namespaces, *own})),
        by_labels=_selector(term.namespace_selector),
    )


def _selector(label_selector: Mapping[str, Any] | None) -> Selector | None:
    if label_selector is None:
        return None
    requirements = [
        SelectorRequirement(str(key), "In", (str(value),))
        for key, value in (label_selector.get("matchLabels") or {}).items()
    ]
    requirements += map(_requirement, label_selector.get("matchExpressions") or ())
    return _canonical(requirements)


def _requirement(expression: Mapping[str, Any]) -> SelectorRequirement:
    values, operator = expression.get("values") or (), expression["operator"]
    if operator not in _OPERATORS:
        raise TooLarge(f"has the operator {str(operator)[:20]}; allowed are {', '.join(_OPERATORS)}")
    if len(values) > _MOST_VALUES:
        raise TooLarge(f"has {len(values)} values for one key; at most {_MOST_VALUES} are counted")
    return SelectorRequirement(str(expression["key"]), operator, tuple(sorted({str(value) for value in values})))


def _canonical(requirements: Sequence[SelectorRequirement]) -> Selector:
    """Returns the same selector for the same requirements in any order. Raises TooLarge."""
    if len(requirements) > _MOST:
        raise TooLarge(f"has {len(requirements)} expressions; at most {_MOST} are counted")
    return tuple(
        sorted(set(requirements), key=lambda requirement: (requirement.key, requirement.operator, requirement.values))
    )
