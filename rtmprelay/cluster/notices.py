"""What nodes tell each other directly, without the directory: over RTMP, as the `connect` of a pass with a notice.

- `has KEY`: accepted if the node has a publisher for the stream.
- `moved EPOCH KEY`: accepted when the node has ended what it did as the owner of the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, unquote

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from typing_extensions import override

from rtmprelay.cluster.directory import NodeRecord
from rtmprelay.errors import DestinationRefusedError
from rtmprelay.rtmp.client import ClientSettings, RtmpClientProtocol
from rtmprelay.rtmp.endpoint import negotiate
from rtmprelay.rtmp.node_pass import NodeIdentity
from rtmprelay.wire.url import RtmpUrl

#: Seconds that another node has to answer. One that is frozen must not keep an encoder waiting for long.
NOTICE_TIMEOUT = 2.0

#: Makes the endpoint of a connection to another node; tests make one without a network.
NodeEndpoint = Callable[[RtmpUrl], IStreamClientEndpoint]


@attrs.frozen
class Has:
    """A question: do you have a publisher for this stream?"""

    key: str

    def __str__(self) -> str:
        return f"has {quote(self.key, safe='/')}"


@attrs.frozen
class Moved:
    """A notice: the stream is mine now, with this epoch."""

    key: str
    epoch: int

    def __str__(self) -> str:
        return f"moved {self.epoch} {quote(self.key, safe='/')}"


def read_notice(text: str) -> Has | Moved | None:
    """What a notice says; None if it is not understood."""
    kind, *rest = text.split(" ")
    if kind == "has" and len(rest) == 1:
        return Has(unquote(rest[0]))
    if kind == "moved" and len(rest) == 2 and rest[0].isdecimal() and len(rest[0]) < 20:
        return Moved(unquote(rest[1]), int(rest[0]))
    return None


class _NoticeProtocol(RtmpClientProtocol):
    """A connection whose `connect` is all that it says."""

    purpose = "notice"

    @override
    def _request(self) -> None:
        self._accepted = True
        self._cancel_deadline()
        self.when_accepted.callback(self)
        self.close_politely("the notice was taken")


@attrs.define(eq=False)
class Messenger:
    """Tells other nodes something."""

    _identity: NodeIdentity
    _clock: IReactorTime
    _endpoint_for: NodeEndpoint

    def tell(self, node: NodeRecord, notice: Has | Moved) -> Deferred[bool | None]:
        """Fires with whether the node accepted; None if it could not be reached."""
        told = Deferred.fromCoroutine(self._tell(node, notice))
        return told.addErrback(lambda failure: None)

    async def _tell(self, node: NodeRecord, notice: Has | Moved) -> bool:
        url = RtmpUrl.parse(f"{node.url}/cluster/notice")
        shown = self._identity.issue((), node.url, str(notice))
        settings = ClientSettings(negotiation_timeout=NOTICE_TIMEOUT, node_pass=shown)
        connecting = Deferred.fromCoroutine(
            negotiate(_NoticeProtocol, url, self._endpoint_for(url), self._clock, settings)
        )
        connecting.addTimeout(NOTICE_TIMEOUT, self._clock)
        try:
            await connecting
        except DestinationRefusedError:
            return False
        return True
