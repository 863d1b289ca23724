"""The rules by which recordings are judged. Another rule makes another `INDEXER_VERSION`: files are then read anew."""

from __future__ import annotations

#: Which rules these are.
INDEXER_VERSION = 4

#: Milliseconds without any frame that make a gap; without pictures, a freeze; without sound, a silence.
STILL_MS = 1000

#: A gap is measured from the latest of so many frames before it. Sound and pictures need not be in the order of their
#: timestamps, and the one before a frame may be a second older than the frames around it. Timestamps that went back to an
#: earlier time count from there again after so many frames.
RECENT_FRAMES = 256

#: A file in which frames are always this far apart has no gaps unless they are so many times longer.
USUAL_STEPS = 4

#: Milliseconds by which a timestamp must be before the last one of its kind to be a jump back.
JUMP_MS = 50

#: Milliseconds by which the timestamps of audio must run away from its samples, and in how long a file.
DRIFT_MS = 100
DRIFT_LEAST_MS = 60_000

#: When more than one audio frame of so many comes so early that its step rounds to no frame at all, the timestamps jitter:
#: single steps then say nothing about missing frames, and the drift is measured from second to second.
JITTER_ONE_OF = 200

#: How much before its first frame a frame of the same file can be. The rest of the circle of 32 bits is after it: a
#: file has at most 46 days.
BEFORE_START_MS = 1 << 28

#: Seconds between two files of one broadcast.
SESSION_HOLE = 5.0

#: Seconds since the last change during which a file that was not finished may still be written.
SETTLED_AFTER = 60.0

#: Seconds by which the clock of a disk may be ahead, such as one that keeps the time of another zone. What is said to
#: have been written even later than that has a wrong time.
CLOCKS_DIFFER_BY = 86_400.0
