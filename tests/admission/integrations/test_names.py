"""Names of Workloads are valid, repeatable and tell owners apart."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.integrations.names import workload_name
from api.kube.resources import JOBS, JOBSETS

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
owners = st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 253)


@given(owner=owners, uid=st.uuids(), short=st.booleans())
def test_every_name_is_a_dns_subdomain_of_the_length_asked(owner: str, uid: object, short: bool) -> None:
    name = workload_name(JOBS, owner, str(uid), short=short)
    assert SUBDOMAIN.fullmatch(name)
    assert len(name) <= (63 if short else 253)


def test_a_cut_next_to_a_dot_leaves_a_valid_name() -> None:
    name = workload_name(JOBS, "a" * 52 + ".b", "u", short=True)
    assert SUBDOMAIN.fullmatch(name)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(workload_name(JOBS, "n", "u1"), workload_name(JOBS, "n", "u2"), id="uid"),
        pytest.param(workload_name(JOBS, "n", "u"), workload_name(JOBS, "n", "u", extra="1"), id="extra"),
        pytest.param(workload_name(JOBS, "n" * 300, "u"), workload_name(JOBS, "n" * 301, "u"), id="long names"),
        pytest.param(workload_name(JOBS, "n", "u")[-5:], workload_name(JOBSETS, "n", "u")[-5:], id="kind"),
    ],
)
def test_what_differs_gets_another_name(first: str, second: str) -> None:
    assert first != second
