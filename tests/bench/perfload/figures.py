"""What a run of the load is told as: phases by class, requests by verb and resource, processor by process. Prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from prometheus_client.parser import text_string_to_metric_families

from tests.bench.measure import ProcessCost
from tests.bench.perfload.driver import Life

_PHASES = (
    ("posted to quota reserved", lambda life: (life.reserved or 0.0) - life.posted),
    ("posted to admitted", lambda life: (life.admitted or 0.0) - life.posted),
    ("admitted to finished, beyond the run time", lambda life: _beyond(life)),
    ("posted to finished", lambda life: (life.finished or 0.0) - life.posted),
)


def _beyond(life: Life) -> float:
    return (life.finished or 0.0) - (life.admitted or 0.0) - life.arrival.seconds


def phases(lives: Iterable[Life]) -> None:
    """One line a phase and class: mean and percentiles in seconds."""
    every = list(lives)
    for name, seconds in _PHASES:
        for size in ("large", "medium", "small", "all"):
            found = sorted(seconds(life) for life in every if size in (life.arrival.size, "all"))
            if found:
                p50, p90, p99 = (found[min(len(found) - 1, int(len(found) * share))] for share in (0.5, 0.9, 0.99))
                print(f"{name:>42} {size:>6}: mean {fmean(found):7.2f} p50 {p50:7.2f} p90 {p90:7.2f} p99 {p99:7.2f} s")
    print(f"evictions: {sum(life.evictions for life in every)}")


@dataclass(frozen=True, slots=True)
class Scrape:
    """The samples of a process's metrics page by name, labels sorted into the name."""

    samples: Mapping[tuple[str, tuple[tuple[str, str], ...]], float]

    @classmethod
    def of(cls, text: str) -> Scrape:
        """Reads a page."""
        families = text_string_to_metric_families(text)
        return cls({(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples})

    def total(self, name: str) -> float:
        """The sum over all labels."""
        return sum(value for (found, _), value in self.samples.items() if found == name)

    def by(self, name: str, *labels: str) -> Counter[str]:
        """Sums by the values of these labels."""
        sums: Counter[str] = Counter()
        for (found, given), value in self.samples.items():
            if found == name:
                sums[" ".join(dict(given)[label] for label in labels)] += int(value)
        return sums


def requests(page: Scrape, workloads: int) -> None:
    """API requests of the controller for each Workload."""
    counts = page.by("stowage_api_requests_total", "verb", "resource", "code")
    told = ", ".join(f"{what} {count / workloads:.3f}" for what, count in counts.most_common(14))
    print(f"requests per workload, controller: all {counts.total() / workloads:.3f}: {told}")


def decisions(page: Scrape, workloads: int) -> None:
    """How long cycles and decisions took."""
    seconds, wall = (
        page.total("stowage_cycle_cpu_seconds_total"),
        page.total("kueue_admission_attempt_duration_seconds_sum"),
    )
    cycles = page.total("kueue_admission_attempt_duration_seconds_count")
    made = page.by("stowage_decisions_total", "kind")
    count = made.total() or 1
    print(
        f"decisions: {seconds:.2f} CPU s ({wall:.2f} s) in {cycles:.0f} cycles; {count} decisions {dict(made)}: "
        f"{seconds / count * 1e3:.3f} ms each, {seconds / workloads * 1e3:.3f} ms a workload; "
        f"written: {dict(page.by('stowage_admission_writes_total', 'outcome'))}"
    )


def costs(
    before: Mapping[str, ProcessCost], after: Mapping[str, ProcessCost], wall: float, busy: float, cores: int
) -> None:
    """Seconds of processor and the highest memory by process; `busy`: seconds that the machine worked meanwhile."""
    spent = {name: after[name].cpu - before[name].cpu for name in after}
    told = ", ".join(f"{name} {spent[name]:.1f} s / {after[name].highest:.0f} MiB" for name in after)
    others = (busy - sum(spent.values())) / (wall * cores)
    print(f"CPU / highest resident: {told}; all {sum(spent.values()):.1f} s; others {others:.0%} of the machine")


def busy_seconds() -> float:
    """Seconds of work of all cores since the machine started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / 100


def slowest(lives: Iterable[Life]) -> Sequence[Life]:
    """Those that never finished, for the message of a run that did not end."""
    return [life for life in lives if life.finished is None][:5]
