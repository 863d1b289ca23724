"""A look inside Twisted's transports: how much of what was written is still here.

Everything that depends on how Twisted keeps its buffers is in this file.
"""

from __future__ import annotations

from twisted.internet.abstract import FileDescriptor
from twisted.protocols.policies import ProtocolWrapper


def unsent_bytes(transport: object) -> int | None:
    """How many written bytes the kernel has not taken yet; None if this kind of transport does not tell."""
    while isinstance(transport, ProtocolWrapper):
        # TLS and the like hand on what they are given at once; it waits in the transport below.
        transport = transport.transport
    if isinstance(transport, FileDescriptor):
        return len(transport.dataBuffer) - transport.offset + transport._tempDataLen
    return None
