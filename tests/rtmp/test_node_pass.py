"""What a relay shows to a relay that it fetches from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.errors import ConfigError
from rtmprelay.rtmp.node_pass import (
    CLOCK_TOLERANCE,
    MOST_NODES,
    NodeIdentity,
    NodeRefusedError,
    random_node_name,
    read_node_name,
)
from rtmprelay.secret import Secret

SECRET = Secret("the secret of the cluster")
ADDRESS = "rtmp://10.0.0.2:1935"


def owner(secret: Secret | None = SECRET, now: float = 1000.0) -> NodeIdentity:
    return NodeIdentity("owner", secret, ADDRESS, lambda: now)


def edge(secret: Secret | None = SECRET, now: float = 1000.0) -> NodeIdentity:
    return NodeIdentity("edge", secret, "rtmp://10.0.0.3:1935", lambda: now)


def refusal(shown: Secret, by: NodeIdentity | None = None) -> str:
    with pytest.raises(NodeRefusedError) as refused:
        (by or owner()).check(shown)
    return str(refused.value)


def test_node_of_the_cluster_is_known() -> None:
    found = owner().check(edge().issue(("first",), ADDRESS, "moved"))
    assert (found.chain, found.is_proved, found.notice) == (("first", "edge"), True, "moved")


def test_relay_without_a_secret_shows_its_chain_alone() -> None:
    found = owner().check(edge(None).issue(("first",), ADDRESS))
    assert (found.chain, found.is_proved) == (("first", "edge"), False)


def test_pass_never_holds_the_secret() -> None:
    assert SECRET.reveal() not in edge().issue((), ADDRESS).reveal()


def test_wrong_secret_is_refused_with_both_names() -> None:
    reason = refusal(edge(Secret("another")).issue((), ADDRESS))
    assert "the cluster secret of edge is not that of owner" in reason


def test_proof_for_another_address_is_refused() -> None:
    assert "cluster secret" in refusal(edge().issue((), "rtmp://10.0.0.9:1935"))


@pytest.mark.parametrize("seconds", [-CLOCK_TOLERANCE - 2, CLOCK_TOLERANCE + 2])
def test_old_proof_is_refused(seconds: float) -> None:
    assert "clocks of edge and owner differ" in refusal(edge(now=1000.0 + seconds).issue((), ADDRESS))


def test_loop_is_refused_with_its_names() -> None:
    assert refusal(edge().issue(("owner",), ADDRESS)) == "a loop: owner -> edge -> owner"


def test_long_chain_is_refused() -> None:
    chain = tuple(f"n{number}" for number in range(MOST_NODES))
    assert refusal(edge().issue(chain, ADDRESS)) == f"more than {MOST_NODES} relays fetch from each other"


def test_every_change_of_a_proof_is_noticed() -> None:
    text = edge().issue(("first",), ADDRESS, "moved").reveal()
    for index in range(text.index(";", 2) + 1, len(text)):
        other = "0" if text[index] != "0" else "1"
        with pytest.raises(NodeRefusedError):
            owner().check(Secret(text[:index] + other + text[index + 1 :]))


@given(st.text(max_size=300))
def test_anything_else_is_refused_or_proves_nothing(text: str) -> None:
    try:
        found = owner().check(Secret(text))
    except NodeRefusedError:
        return
    assert not found.is_proved


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a,b", "x" * 65, "ü"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a name"):
        read_node_name(name)


def test_good_names_are_taken() -> None:
    for name in ("host:1935", "[::1]:1935", "node-1.example", random_node_name()):
        assert read_node_name(name) == name
