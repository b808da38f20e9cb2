"""Free loopback ports for servers that are started as children: in the demo, the test suites and the benchmarks."""

from __future__ import annotations

import itertools
import random
import socket
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


_KEPT_SECONDS: Final = 300
"""How long a port is kept from other processes: longer than a server takes from its start to its listening socket."""
_given: set[int] = set()
_kept: deque[tuple[float, socket.socket]] = deque()

# Not the module's own generator: property tests seed that, so that two test processes would draw the same port.
_RANDOM = random.SystemRandom()


def free_port() -> int:
    """Returns one free port, like `free_ports`."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Returns distinct free loopback ports below the kernel's range for outgoing connections.

    A port from that range could be taken by an outgoing connection before its server binds it. No port is returned twice
    until all others were, because its server may not have bound it yet. For the same reason the UDP port of that number is kept
    for a while: processes that ask at the same time, such as the workers of a test suite, get different ports. Raises OSError
    if there are too few.
    """
    _give_up_old()
    first_ephemeral = _first_ephemeral()
    candidates = range(max(1024, first_ephemeral // 2), first_ephemeral) or range(1024, 65536)
    fresh = _in_random_order([port for port in candidates if port not in _given])
    again = _in_random_order([port for port in candidates if port in _given])
    ports = list(itertools.islice(filter(_is_free, itertools.chain(fresh, again)), count))
    _given.update(ports)
    if len(ports) < count:
        raise OSError(f"fewer than {count} free ports below {first_ephemeral}")
    return ports


def _in_random_order(ports: list[int]) -> Iterator[int]:
    """Yields the ports in random order. Shuffles lazily: there are thousands of ports, and one or two are needed."""
    for left in range(len(ports), 0, -1):
        chosen = _RANDOM.randrange(left)
        ports[chosen], ports[left - 1] = ports[left - 1], ports[chosen]
        yield ports[left - 1]


def _first_ephemeral() -> int:
    """Returns the first port of the kernel's range, or that of RFC 6335 if the kernel does not tell it."""
    return int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 49152


def _is_free(port: int) -> bool:
    """Reports whether no server has the TCP port and no other process was given it; keeps the UDP port if so."""
    kept = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
        kept.bind(("127.0.0.1", port))
    except OSError:
        kept.close()
        return False
    _kept.append((time.monotonic(), kept))
    return True


def _give_up_old() -> None:
    while _kept and time.monotonic() - _kept[0][0] > _KEPT_SECONDS:
        _kept.popleft()[1].close()
