"""The wire format of RTMP: handshake, chunks, messages and commands, without input or output."""
