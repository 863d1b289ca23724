"""Fragmented MP4 (ISO base media file format) made from the frames of a live stream. No Twisted: frames in, bytes out.

`tracks` looks at the first frames until it is known which tracks there are; `init_segment` describes them;
`fragments` turns frames into fragments that all readers of a stream share, and puts a fragment on the timeline of
one reader. Payloads are neither transcoded nor changed: only their FLV header is taken off.
"""
