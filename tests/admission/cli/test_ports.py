"""Ports for children: free, distinct, and never one that an outgoing connection may get meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from admission.cli.local_cluster import ports
from admission.cli.local_cluster.ports import free_port, free_ports


def test_ports_are_distinct_and_never_those_of_outgoing_connections() -> None:
    ports = free_ports(8)
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports)) == 8
    assert max(ports) < first_ephemeral


def test_a_port_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        number = taken.getsockname()[1]
        narrow = tmp_path / "range"
        narrow.write_text(f"{number + 1} 60999")
        monkeypatch.setattr(ports, "_RANGE", narrow)
        assert number not in free_ports(50)


def test_too_few_ports_is_an_error_with_the_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    narrow = tmp_path / "range"
    narrow.write_text("1025 60999")
    monkeypatch.setattr(ports, "_RANGE", narrow)
    with pytest.raises(OSError, match="fewer than 3 free ports below 1025"):
        free_ports(3)


def test_a_port_that_was_given_and_is_not_bound_yet_is_not_given_again() -> None:
    given = [free_port() for _ in range(200)]
    assert len(set(given)) == len(given)


def test_another_process_is_not_given_the_same_port_before_it_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers of a test suite drew one port at the same time, and the second server did not start."""
    mine = free_ports(3)
    monkeypatch.setattr(ports, "_given", set())
    monkeypatch.setattr(ports, "_in_random_order", lambda candidates: iter([*mine, *candidates]))
    assert not set(mine) & set(free_ports(3))
