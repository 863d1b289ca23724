"""The video tracks of Enhanced RTMP apart: each as frames that have no other track."""

from __future__ import annotations

from rtmprelay.flv.enhanced_header import frame_type_of, read_video_header, track_data
from rtmprelay.flv.tags import describe_video
from rtmprelay.media import MediaFrame

#: Tracks that become renditions. OBS makes up to five.
MOST_TRACKS = 8

_ENHANCED = 0x80


def tracks_of_video(frame: MediaFrame) -> list[tuple[int, MediaFrame]]:
    """The tracks in a video frame, with their numbers. A frame without track numbers is track 0."""
    payload = frame.payload
    if not describe_video(payload).tracks:
        return [(0, frame)]
    header = read_video_header(payload)
    if header is None:
        return []
    found = []
    first = bytes([_ENHANCED | frame_type_of(payload) << 4 | header.packet_type])
    for track in header.tracks:
        data = track_data(payload, header, track)
        if data is not None and track < MOST_TRACKS:
            fourcc, begin, end = data
            found.append(
                (track, MediaFrame(frame.kind, frame.timestamp_ms, first + fourcc + payload[begin:end]))
            )
    return found
