"""The limits on what one peer may send: sizes, counts and times, each with its reason."""

from __future__ import annotations

import attrs

from rtmprelay.amf.values import MAX_DEPTH, MAX_VALUES

#: The chunk size with which both sides start; the specification prescribes it.
DEFAULT_CHUNK_SIZE = 128

#: The length field of a message has 24 bits. Chunks larger than that make no difference.
LARGEST_MESSAGE_LENGTH = 0xFFFFFF

#: The smallest size of outgoing chunks: SRS closes the connection if they are smaller.
SMALLEST_OUTGOING_CHUNK_SIZE = 128

#: The largest size of outgoing chunks: some servers and players misread a larger one.
LARGEST_OUTGOING_CHUNK_SIZE = 65536

#: After how many bytes each side acknowledges them.
WINDOW_ACKNOWLEDGEMENT_SIZE = 2_500_000

#: Bytes of UTF-8 in `app/name`, as in the name of a file. Tokens are in the query, which does not count.
LONGEST_STREAM_NAME = 255

#: Bytes of UTF-8 in the keys and tokens that a client brings along; a signed token has some hundred.
LONGEST_CREDENTIALS = 4096

#: What a connection that does not publish may always have in unfinished messages, however much others have: a `connect`.
FAIR_SHARE = 3 * 1024

#: Decoding AMF values that are nested deeper could exceed Python's recursion limit.
DEEPEST_AMF = 100


@attrs.frozen
class ConnectionLimits:
    """The limits of one connection. Log lines and options use the names of these fields."""

    #: Seconds from the connection to the end of the handshake, which takes one round trip.
    handshake_timeout: float = 5.0
    #: Seconds from the handshake to a complete `connect` command.
    connect_timeout: float = 10.0
    #: Seconds without a complete message of a peer that is not playing.
    idle_timeout: float = 60.0
    #: Seconds during which a consumer takes no byte although some are waiting for it.
    stall_timeout: float = 30.0
    #: Bytes of one message. A 4K keyframe at 100 Mbit/s is smaller than 4 MiB; the length field ends at 16 MiB.
    message_size: int = LARGEST_MESSAGE_LENGTH + 1
    #: Bytes of one message before `connect` is accepted; real connect commands are shorter than 2 kB.
    message_size_before_connect: int = 64 * 1024
    #: Bytes of one message before a publish is accepted; only media is larger, and it may not be sent yet.
    message_size_before_publish: int = 64 * 1024
    #: Bytes of unfinished messages on all chunk streams together.
    assembly_size: int = 32 * 1024 * 1024
    #: The same before a publish is accepted, including what waits for the answer to it.
    assembly_size_before_publish: int = 256 * 1024
    #: The same of all connections together that do not publish. Beyond it each may have `FAIR_SHARE` bytes.
    memory_before_publish: int = 32 * 1024 * 1024
    #: Seconds until a message that has begun is complete, before a publish is accepted: commands take one round trip.
    message_timeout: float = 10.0
    #: Bytes of UTF-8 in the name of a stream, `app/name`. Tokens are in the query, which does not count.
    stream_name_size: int = LONGEST_STREAM_NAME
    #: Bytes of UTF-8 in the queries of application and stream, which hold keys and tokens.
    credentials_size: int = LONGEST_CREDENTIALS
    #: Chunk streams; encoders use four to six.
    chunk_streams: int = 64
    #: Message streams; encoders and players use one.
    message_streams: int = 8
    #: Messages in one aggregate: 16 MiB have room for over a million empty ones.
    aggregate_parts: int = 10_000
    #: Levels of AMF values in a command; real ones have three or four.
    amf_depth: int = attrs.field(
        default=MAX_DEPTH, validator=attrs.validators.le(DEEPEST_AMF), metadata={"most": DEEPEST_AMF}
    )
    #: AMF values in one command; real ones have some twenty.
    amf_values: int = MAX_VALUES
    #: AMF values in one command before a publish is accepted; a large `connect` has some fifty.
    amf_values_before_publish: int = 1_000
    #: AMF values a second in all commands before a publish is accepted, on average.
    amf_value_rate_before_publish: int = 1_000
    #: Chunks a second whose headers are read one by one, on average; encoders send some hundred.
    chunk_rate: int = 10_000
    #: The same before a publish is accepted; a player sends an acknowledgement now and then.
    chunk_rate_before_publish: int = 500
    #: Commands a second, on average; clients send ten in all.
    command_rate: int = 20
    #: Bytes of our answers that a peer leaves unread while it sends more commands.
    unread_replies: int = 256 * 1024
    #: The same before a publish is accepted; all the answers to a client have some 4 kB.
    unread_replies_before_publish: int = 16 * 1024

    @property
    def name_sizes(self) -> tuple[int, int]:
        """Bytes of the name of a stream, and of what comes with it."""
        return self.stream_name_size, self.credentials_size
