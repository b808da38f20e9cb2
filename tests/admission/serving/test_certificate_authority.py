"""What is to be done about the certificates, over their whole life, without any IO."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.serving.certificate_authority import (
    AuthorityState,
    Lifetimes,
    RotationStep,
    ServingCertificate,
    advance,
    expiry,
    from_secret,
    issue,
    plan,
    signed_by,
    split,
    to_secret,
    usable,
)

NAMES = ("hook.ns.svc", "127.0.0.1")
LIFE = Lifetimes(certificate=1000.0, renew_before=300.0, settle=10.0)
BORN = 1_800_000_000.0


def first() -> AuthorityState:
    return advance(AuthorityState(), RotationStep.ISSUE, NAMES, BORN, LIFE)


def next_step(state: AuthorityState, at: float, configured: bytes | None = None) -> RotationStep:
    bundles = [state.bundle if configured is None else configured] * 2
    return plan(state, bundles, NAMES, BORN + at, LIFE)


def test_a_first_certificate_is_good_for_all_names() -> None:
    state = first()
    assert state.serving is not None
    assert usable(state.serving, state.trust, NAMES, BORN)
    assert expiry(state.serving) == BORN + LIFE.certificate
    assert next_step(state, 0) is RotationStep.KEEP
    assert next_step(state, 699) is RotationStep.KEEP


def test_a_whole_life() -> None:
    state = first()
    (old,) = state.trust
    assert next_step(state, 700) is RotationStep.PREPARE
    state = advance(state, RotationStep.PREPARE, NAMES, BORN + 700, LIFE)
    # both are trusted before the successor is served, and for a while no one switches
    assert len(state.trust) == 2
    assert next_step(state, 709) is RotationStep.KEEP
    assert next_step(state, 710, configured=old) is RotationStep.KEEP
    assert next_step(state, 710, configured=b"") is RotationStep.KEEP
    assert next_step(state, 710) is RotationStep.SWITCH
    switched = advance(state, RotationStep.SWITCH, NAMES, BORN + 710, LIFE)
    assert switched.serving == state.successor
    assert switched.trust == state.trust
    # the old CA goes when every replica has had the time to follow
    assert next_step(switched, 719) is RotationStep.KEEP
    assert next_step(switched, 720) is RotationStep.RETIRE
    last = advance(switched, RotationStep.RETIRE, NAMES, BORN + 720, LIFE)
    assert last.trust == state.trust[1:]
    assert next_step(last, 720) is RotationStep.KEEP
    assert next_step(last, 700 + 700) is RotationStep.PREPARE


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(AuthorityState(), id="nothing"),
        pytest.param(replace(first(), trust=()), id="nobody-trusts-it"),
        pytest.param(replace(first(), serving=ServingCertificate(b"garbage", b"garbage")), id="garbage"),
    ],
)
def test_an_unusable_certificate_is_issued_again(broken: AuthorityState) -> None:
    assert next_step(broken, 0) is RotationStep.ISSUE


def test_a_key_of_another_certificate_is_of_no_use() -> None:
    state, other = first(), first()
    assert state.serving is not None
    assert other.serving is not None
    mixed = replace(state, serving=ServingCertificate(state.serving.certificate, other.serving.key))
    assert next_step(mixed, 0) is RotationStep.ISSUE


def test_an_ended_certificate_and_a_new_name_are_issued_at_once() -> None:
    state = first()
    assert next_step(state, 1000) is RotationStep.ISSUE
    assert plan(state, [], (*NAMES, "other.svc"), BORN, LIFE) is RotationStep.ISSUE
    again = advance(state, RotationStep.ISSUE, (*NAMES, "other.svc"), BORN, LIFE)
    assert again.trust[0] == state.trust[0]
    assert len(again.trust) == 2


def test_an_expired_unused_successor_is_issued_again() -> None:
    state = advance(first(), RotationStep.PREPARE, NAMES, BORN + 700, replace(LIFE, certificate=100.0))
    assert next_step(state, 850) is RotationStep.PREPARE
    again = advance(state, RotationStep.PREPARE, NAMES, BORN + 850, LIFE)
    # the CA of the dead successor is gone, that of the one in use is not
    assert len(again.trust) == 2
    assert again.trust[0] == state.trust[0]
    assert again.trust[1] != state.trust[1]


def test_one_ca_never_vouches_for_the_other() -> None:
    (pair, authority), (other, _) = (issue(NAMES, BORN, 60.0) for _ in range(2))
    assert signed_by(pair, authority)
    assert not signed_by(other, authority)


def test_the_secret_keeps_the_state_and_what_others_wrote() -> None:
    state = advance(first(), RotationStep.PREPARE, NAMES, BORN + 700, LIFE)
    before = {"metadata": {"name": "s", "resourceVersion": "7"}, "data": {"theirs": "eA=="}, "type": "Opaque"}
    secret = to_secret(state, before)
    assert from_secret(secret) == state
    assert secret["type"] == "Opaque"
    assert secret["metadata"]["resourceVersion"] == "7"
    assert secret["data"]["theirs"] == "eA=="
    switched = to_secret(advance(state, RotationStep.SWITCH, NAMES, BORN + 710, LIFE), secret)
    assert "next.key" not in switched["data"]


@pytest.mark.parametrize("text", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
def test_a_bundle_that_can_not_be_read_holds_nothing(text: bytes) -> None:
    assert split(text) == ()
