"""What a relay shows to a relay that it fetches from: which nodes are waiting, and proof that it belongs to the cluster.

It travels as one text in the `connect` command. The secret of the cluster is never sent: the proof is a keyed hash that
holds for one address and a few minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable

import attrs

from rtmprelay.errors import ConfigError, RtmpRelayError
from rtmprelay.quantities import quoted
from rtmprelay.secret import Secret

#: Characters of a pass: 16 nodes with names of 64 characters, a notice about a stream, and the proof.
LONGEST_PASS = 16_384

#: Nodes between a viewer and the source. A longer chain is a mistake, even if no node comes twice.
MOST_NODES = 16

#: Seconds that the clocks of two nodes may differ.
CLOCK_TOLERANCE = 300.0

_NODE_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,64}")

_SEPARATOR = ";"


#: What a relay answers to a stream that it has sent out itself. The relay that asked reads it, too.
COMES_FROM_HERE = "the stream comes from this relay"


class NodeRefusedError(RtmpRelayError):
    """The pass of another relay is not accepted; the text says why."""


class OwnStreamError(NodeRefusedError):
    """A stream that this relay sends to a destination has come back to it."""


@attrs.frozen
class NodePass:
    """The pass of a relay that asks for a stream."""

    #: The nodes that wait for the stream: the first one has the viewer, the last one asks.
    chain: tuple[str, ...]
    #: Whether it has proved that it knows the secret of the cluster.
    is_proved: bool = False
    #: A notice, such as that a stream has moved; empty for a request to play.
    notice: str = ""


def read_node_name(text: str) -> str:
    """The name that an operator gave to a node.

    Raises:
        ConfigError: A node cannot have this name.
    """
    if _NODE_NAME.fullmatch(text) is None:
        raise ConfigError(f"{quoted(text)} is not a name: 1 to 64 letters, digits, dots, colons and dashes")
    return text


def random_node_name() -> str:
    """The name of a relay that was not given one: enough to notice a loop of pulls."""
    return f"rtmprelay-{secrets.token_hex(4)}"


class NodeIdentity:
    """The name of this relay among others, and the secret that it shares with its cluster.

    Args:
        address: Where other nodes reach this one; a proof holds for this address only.
    """

    def __init__(
        self,
        name: str,
        secret: Secret | None = None,
        address: str = "",
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.address = address
        # What destinations are shown: anybody may be one, and the name of a node tells of its network.
        self._alias = random_node_name()
        self._secret = secret
        self._wall_clock = wall_clock

    def issue(self, chain: tuple[str, ...] = (), address: str = "", notice: str = "") -> Secret:
        """The pass to show to the node at an address, on behalf of the nodes in `chain`."""
        nodes = ",".join((*chain, self.name))
        if self._secret is None or not address:
            return Secret(_SEPARATOR.join(("1", nodes)))
        signed = _SEPARATOR.join(("1", nodes, f"{self._wall_clock():.0f}", secrets.token_hex(8), notice))
        return Secret(_SEPARATOR.join((signed, self._proof(signed, address))))

    def issue_for_destination(self, chain: tuple[str, ...]) -> Secret:
        """What a destination is shown, so that a stream which comes back is recognised.

        Args:
            chain: The relays that the stream has come through.
        """
        return Secret(_SEPARATOR.join(("1", ",".join((*chain[-MOST_NODES + 1 :], self._alias)))))

    def check(self, shown: Secret) -> NodePass:
        """Read the pass of another node.

        Raises:
            NodeRefusedError: It is no pass, it has come round in a loop, or its proof is wrong.
        """
        text = shown.reveal()
        version, _, rest = text.partition(_SEPARATOR)
        if version != "1" or len(text) > LONGEST_PASS:
            raise NodeRefusedError("the pass of the asking relay is of another version")
        fields = rest.split(_SEPARATOR)
        chain = tuple(fields[0].split(","))
        if not all(map(_NODE_NAME.fullmatch, chain)):
            raise NodeRefusedError("the pass of the asking relay cannot be read")
        if self._alias in chain:
            raise OwnStreamError(COMES_FROM_HERE)
        if len(chain) > MOST_NODES:
            raise NodeRefusedError(f"more than {MOST_NODES} relays fetch from each other")
        if self.name in chain:
            raise NodeRefusedError(f"a loop: {' -> '.join((*chain, self.name))}")
        if len(fields) == 1 or self._secret is None:
            return NodePass(chain)
        return self._check_proof(text, fields, chain)

    def _check_proof(self, text: str, fields: list[str], chain: tuple[str, ...]) -> NodePass:
        if len(fields) != 5:
            raise NodeRefusedError("the pass of the asking relay cannot be read")
        _, made_at, _, notice, proof = fields
        signed = text.rpartition(_SEPARATOR)[0]
        if not hmac.compare_digest(proof.encode(), self._proof(signed, self.address).encode()):
            raise NodeRefusedError(
                f"the cluster secret of {chain[-1]} is not that of {self.name}, or {self.name} has another --node-url"
            )
        if not made_at.isdecimal() or abs(int(made_at) - self._wall_clock()) > CLOCK_TOLERANCE:
            raise NodeRefusedError(
                f"the clocks of {chain[-1]} and {self.name} differ by more than {CLOCK_TOLERANCE:.0f} s"
            )
        return NodePass(chain, is_proved=True, notice=notice)

    def _proof(self, signed: str, address: str) -> str:
        assert self._secret is not None
        text = f"{signed}{_SEPARATOR}{address}"
        return hmac.new(self._secret.reveal().encode(), text.encode(), hashlib.sha256).hexdigest()
