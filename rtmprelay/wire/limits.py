"""What a peer may cost: every bound on sizes, counts and times of one connection, with its reason."""

from __future__ import annotations

import attrs

from rtmprelay.amf.values import MAX_DEPTH, MAX_VALUES

#: The chunk size both sides start with; the specification fixes it.
DEFAULT_CHUNK_SIZE = 128

#: The largest chunk size that means anything: a message is at most this long on the wire.
LARGEST_MESSAGE_LENGTH = 0xFFFFFF

#: The smallest chunk size we send with: SRS closes the connection below it.
SMALLEST_OUTGOING_CHUNK_SIZE = 128

#: The largest chunk size we announce: some servers and players misread anything above it.
LARGEST_OUTGOING_CHUNK_SIZE = 65536

#: How many bytes a peer may send before it must be told that they arrived, and the other way round.
WINDOW_ACKNOWLEDGEMENT_SIZE = 2_500_000

#: The longest `app/name` that is accepted; real keys and tokens stay under 300 characters.
LONGEST_STREAM_KEY = 4096

#: Deeper than this, reading AMF could come to the end of Python's stack.
DEEPEST_AMF = 100


@attrs.frozen
class ConnectionLimits:
    """The limits of one connection. The field names are what a log line calls the limit."""

    #: Seconds from the connection to the end of the handshake; real peers need one round trip.
    handshake_timeout: float = 5.0
    #: Seconds from the handshake to a complete `connect` command.
    connect_timeout: float = 10.0
    #: Seconds without a complete message from a peer that is not playing.
    idle_timeout: float = 60.0
    #: Seconds during which a consumer takes no byte although some wait for it.
    stall_timeout: float = 30.0
    #: Bytes of one message. A 4K keyframe at 100 Mbit/s stays under 4 MiB; the wire ends at 16 MiB.
    message_size: int = LARGEST_MESSAGE_LENGTH + 1
    #: Bytes of one message before `connect` was accepted; real connect commands stay under 2 kB.
    message_size_before_connect: int = 64 * 1024
    #: Bytes of unfinished messages on all chunk streams together.
    assembly_size: int = 32 * 1024 * 1024
    #: Chunk streams in use; encoders use four to six.
    chunk_streams: int = 64
    #: Message streams made by createStream; encoders and players use one.
    message_streams: int = 8
    #: Messages in one aggregate: 16 MiB of empty ones would be over a million.
    aggregate_parts: int = 10_000
    #: Levels of AMF values in a command; real ones have three or four.
    amf_depth: int = attrs.field(
        default=MAX_DEPTH, validator=attrs.validators.le(DEEPEST_AMF), metadata={"most": DEEPEST_AMF}
    )
    #: AMF values in one command; real ones have some twenty.
    amf_values: int = MAX_VALUES
    #: Chunks a second that must be looked at one by one, on average; encoders send some hundred.
    chunk_rate: int = 10_000
    #: Commands a second, on average; clients send ten in all.
    command_rate: int = 20
    #: Bytes of our answers that a peer leaves unread while it goes on asking.
    unread_replies: int = 256 * 1024
