"""The rules by which recordings are judged. Another rule makes another `INDEXER_VERSION`: files are then read anew."""

from __future__ import annotations

#: Which rules these are.
INDEXER_VERSION = 3

#: Milliseconds without any frame that make a gap; without pictures, a freeze; without sound, a silence.
STILL_MS = 1000

#: A file in which frames are always this far apart has no gaps unless they are so many times longer.
USUAL_STEPS = 4

#: Milliseconds by which a timestamp must be before the last one of its kind to be a jump back.
JUMP_MS = 50

#: Milliseconds by which the timestamps of audio must run away from its samples, and in how long a file.
DRIFT_MS = 100
DRIFT_LEAST_MS = 60_000

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
