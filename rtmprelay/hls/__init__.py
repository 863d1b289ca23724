"""HTTP Live Streaming without input or output: frames and times go in, segments, parts and playlists come out."""
