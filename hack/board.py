"""`python -m hack.board [--check]`: writes the Grafana board config/prometheus/board.json, or reports drift (exit code 1).

tests/e2e/test_alerts.py evaluates every expression on the metrics of running processes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

FILE: Final = Path(__file__).resolve().parents[1] / "config" / "prometheus" / "board.json"
_ACROSS, _WIDTH, _HEIGHT = 3, 8, 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_OF_FLAVOR: Final = 'flavor=~"$flavor", resource=~"$resource"'
_OF_QUEUE: Final = 'cluster_queue=~"$cluster_queue"'


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: its title, its unit, and expressions with the legend of their series. `text` explains it to its reader."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    text: str = ""
    stacked: bool = False


def quantile(share: float, histogram: str, by: str = "", where: str = "") -> str:
    """Returns the expression of a quantile of a histogram over five minutes."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}_bucket{{{where}}}[$__rate_interval])))"


def rate(counter: str, by: str, where: str = "") -> str:
    """Returns the expression of a counter's rate, summed by labels."""
    return f"sum by ({by}) (rate({counter}{{{where}}}[$__rate_interval]))"


ROWS: Final[Sequence[tuple[str, Sequence[Panel]]]] = (
    (
        "Capacity",
        (
            Panel(
                "Capacity by state",
                [(f"sum by (state) (stowage_flavor_capacity{{{_OF_FLAVOR}}})", "{{state}}")],
                text="What the nodes of the chosen flavors offer of the chosen resource, and what becomes of it.",
                stacked=True,
            ),
            Panel(
                "Largest gang that fits in one domain",
                [('max by (level, pod) (stowage_largest_gang_pods{flavor=~"$flavor"})', "{{pod}} in a {{level}}")],
                text="Pods of a whole host, or of one unit of a resource. Taints and pod terms are not considered.",
            ),
            Panel(
                "Fragmentation by level",
                [
                    (
                        '1 - max by (flavor, level) (stowage_largest_gang_pods{flavor=~"$flavor", pod=~"1 ($resource)"})'
                        f' / on (flavor) group_left () sum by (flavor) (stowage_flavor_capacity{{state="free", {_OF_FLAVOR}}})',
                        "{{flavor}} {{level}}",
                    )
                ],
                "percentunit",
                "The part of the free capacity that is outside of the domain with the largest gang.",
            ),
            Panel(
                "Used part of each domain",
                [
                    (
                        f'stowage_domain_capacity{{state="used", {_OF_FLAVOR}}}'
                        f" / ignoring (state) sum without (state) (stowage_domain_capacity{{{_OF_FLAVOR}}})",
                        "{{domain}}",
                    )
                ],
                "percentunit",
                "Levels with more domains than metrics.domainLimit have no series.",
            ),
            Panel(
                "Spare hosts",
                [
                    ("sum by (state) (stowage_spare_hosts)", "of workloads, {{state}}"),
                    ('sum by (flavor, state) (stowage_flavor_spare_hosts{flavor=~"$flavor"})', "{{flavor}}, {{state}}"),
                ],
            ),
            Panel(
                "Domains without series",
                [("max by (flavor, level) (stowage_domains_without_series)", "{{flavor}} {{level}}")],
            ),
        ),
    ),
    (
        "Queues",
        (
            Panel(
                "Pending workloads",
                [
                    (
                        f"sum by (cluster_queue, status) (kueue_pending_workloads{{{_OF_QUEUE}}})",
                        "{{cluster_queue}} {{status}}",
                    )
                ],
            ),
            Panel(
                "Admitted workloads",
                [(f"sum by (cluster_queue) (kueue_admitted_active_workloads{{{_OF_QUEUE}}})", "{{cluster_queue}}")],
            ),
            Panel(
                "Admissions per second",
                [(rate("kueue_admitted_workloads_total", "cluster_queue", _OF_QUEUE), "{{cluster_queue}}")],
            ),
            Panel(
                "Wait for quota",
                [
                    (quantile(share, "kueue_quota_reserved_wait_time_seconds", where=_OF_QUEUE), f"{share:.0%}")
                    for share in (0.5, 0.95)
                ],
                "s",
            ),
            Panel(
                "Why workloads wait",
                [(f"sum by (underlying_cause) (kueue_unadmitted_workloads{{{_OF_QUEUE}}})", "{{underlying_cause}}")],
                stacked=True,
            ),
            Panel(
                "Evictions per second",
                [(rate("kueue_evicted_workloads_total", "reason", _OF_QUEUE), "{{reason}}")],
            ),
        ),
    ),
    (
        "Decisions and gates",
        (
            Panel(
                "Time of a cycle",
                [
                    (quantile(share, "kueue_admission_attempt_duration_seconds"), f"{share:.0%}")
                    for share in (0.5, 0.99)
                ],
                "s",
            ),
            Panel(
                "Time of a decision",
                [(quantile(share, "stowage_decision_seconds"), f"{share:.0%}") for share in (0.5, 0.99)],
                "s",
            ),
            Panel("Decisions per second", [(rate("stowage_decisions_total", "kind"), "{{kind}}")]),
            Panel(
                "Time until a gate is removed",
                [
                    (quantile(share, "kueue_pod_scheduling_gate_removal_seconds", where=_OF_QUEUE), f"{share:.0%}")
                    for share in (0.5, 0.95)
                ],
                "s",
            ),
            Panel("Gates removed per second", [(rate("stowage_ungater_openings_total", "outcome"), "{{outcome}}")]),
            Panel(
                "Pods refused by kube-scheduler",
                [
                    (
                        "sum by (cluster_queue) (increase(stowage_pods_unschedulable_after_gate_total[1h]))",
                        "{{cluster_queue}}",
                    )
                ],
                text="After their gate was removed, in an hour.",
            ),
            Panel(
                "Workloads whose pods the API server refuses",
                [("sum by (cluster_queue) (increase(stowage_workloads_not_created_total[1h]))", "{{cluster_queue}}")],
                text="A ResourceQuota, Pod Security or another webhook refused pods of an admitted workload, in an hour.",
            ),
        ),
    ),
    (
        "Moves",
        (
            Panel(
                "Moves in an hour",
                [
                    (
                        "sum by (cluster_queue, outcome) (increase(stowage_moves_total[1h]))",
                        "{{cluster_queue}} {{outcome}}",
                    )
                ],
            ),
            Panel(
                "Work lost by moves in an hour",
                [
                    (
                        "sum by (cluster_queue) (increase(stowage_move_lost_device_seconds_total[1h])) / 3600",
                        "{{cluster_queue}}",
                    )
                ],
                text="Device-hours since the last checkpoint of each workload that moved.",
            ),
            Panel(
                "Plans of moves in an hour",
                [("sum by (result) (increase(stowage_move_plans_total[1h]))", "{{result}}")],
                text="Started or done, or why there was none.",
            ),
            Panel(
                "Time of a plan",
                [(quantile(share, "stowage_move_plan_seconds"), f"{share:.0%}") for share in (0.5, 0.99)],
                "s",
            ),
        ),
    ),
    (
        "Processes and the API server",
        (
            Panel("Leaders", [("sum by (lease) (stowage_leader)", "{{lease}}")], text="1 for each lease."),
            Panel("Differences in the ledger", [("max(stowage_ledger_differences)", "differences")], text="Must be 0."),
            Panel(
                "Workloads that a fresh look had to wake",
                [("sum(increase(stowage_lost_wake_ups_total[1h]))", "workloads")],
                text="Must be 0.",
            ),
            Panel(
                "Event loop held by the process itself",
                [(quantile(0.99, "stowage_loop_held_seconds", "pod"), "{{pod}}")],
                "s",
            ),
            Panel(
                "Lag of watches",
                [(quantile(0.99, "stowage_watch_lag_seconds", "resource"), "{{resource}}")],
                "s",
                "From the response to one of our own writes until the watch delivers it.",
            ),
            Panel(
                "Since a watch was last heard of",
                [
                    (
                        "max by (resource) (time() - (stowage_informer_last_event_timestamp_seconds > 0))",
                        "{{resource}}",
                    )
                ],
                "s",
                "A bookmark comes each minute.",
            ),
            Panel("Requests per second by code", [(rate("stowage_api_requests_total", "code"), "{{code}}")]),
            Panel(
                "Time of a request",
                [(quantile(0.99, "stowage_api_request_seconds", "verb"), "{{verb}}")],
                "s",
            ),
            Panel("Reviews per second", [(rate("stowage_reviews_total", "outcome"), "{{outcome}}")]),
            Panel("Failed reconciles per second", [(rate("stowage_reconcile_errors_total", "queue"), "{{queue}}")]),
            Panel("Keys that wait for a worker", [("sum by (queue) (stowage_queue_depth)", "{{queue}}")]),
            Panel("Memory", [('process_resident_memory_bytes{namespace="$namespace"}', "{{pod}}")], "bytes"),
            Panel(
                "Processor",
                [('rate(process_cpu_seconds_total{namespace="$namespace"}[$__rate_interval])', "{{pod}}")],
                text="Cores.",
            ),
        ),
    ),
)

VARIABLES: Final = (
    ("flavor", "stowage_flavor_capacity", "flavor"),
    ("resource", "stowage_flavor_capacity", "resource"),
    ("cluster_queue", "kueue_cluster_queue_info", "cluster_queue"),
)


def expressions() -> Iterator[tuple[str, str]]:
    """Yields each panel's title and expressions."""
    for _, panels in ROWS:
        for panel in panels:
            yield from ((panel.title, expression) for expression, _ in panel.queries)


def board() -> dict[str, Any]:
    """Returns the board as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        panels.append({"type": "row", "title": title, "gridPos": {"h": 1, "w": 24, "x": 0, "y": top}, "panels": []})
        for number, panel in enumerate(row):
            across, down = number % _ACROSS, number // _ACROSS
            place = {"h": _HEIGHT, "w": _WIDTH, "x": across * _WIDTH, "y": top + 1 + down * _HEIGHT}
            panels.append(_panel(panel, place))
        top += 1 + -(-len(row) // _ACROSS) * _HEIGHT
    for number, panel_made in enumerate(panels, 1):
        panel_made["id"] = number
    return {
        "title": "Stowage",
        "uid": "stowage",
        "tags": ["stowage"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }


def text() -> str:
    """Returns the file's content."""
    return json.dumps(board(), indent=1) + "\n"


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    custom: dict[str, Any] = {"fillOpacity": 10}
    if panel.stacked:
        custom = {"fillOpacity": 60, "stacking": {"mode": "normal", "group": "A"}}
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
        for number, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "type": "timeseries",
        "title": panel.title,
        **({"description": panel.text} if panel.text else {}),
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]}},
        "targets": targets,
    }


def _variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    namespace = {"name": "namespace", "label": "Namespace", "type": "textbox", "query": "stowage-system"}
    return [source, namespace, *(_chosen(name, metric, label) for name, metric, label in VARIABLES)]


def _chosen(name: str, metric: str, label: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.replace("_", " "),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({metric}, {label})", "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def main(check: Annotated[bool, typer.Option(help="Only report whether the file differs.")] = False) -> None:
    """Writes the board."""
    if check and (not FILE.exists() or FILE.read_text() != text()):
        sys.exit(f"{FILE.name} differs: run `make board`")
    if not check:
        FILE.write_text(text())


if __name__ == "__main__":
    typer.run(main)
