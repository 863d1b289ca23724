"""Which codec and which decoder configuration a recording has, and where they change."""

from __future__ import annotations

import attrs


@attrs.frozen
class Seen:
    """A codec, or a decoder configuration, at its place.

    Attributes:
        digest: Of the configuration; empty if it is only the codec.
        text: For people: the size of the picture, or how the sound is sampled.
    """

    codec: str
    time_ms: int
    offset: int
    digest: str = ""
    text: str = ""


@attrs.frozen
class CodecChange:
    """Another codec or configuration begins here."""

    time_ms: int
    offset: int
    detail: str


@attrs.frozen
class Track:
    """The codecs, or the configurations, of a part of a file: what it begins and ends with.

    Attributes:
        has_changed: Whether there is another one anywhere.
    """

    first: Seen | None = None
    last: Seen | None = None
    has_changed: bool = False

    def then(self, following: Track) -> tuple[Track, list[CodecChange]]:
        """What both parts are together, and what changes where they meet."""
        has_changed = self.has_changed or following.has_changed or _differ(self.last, following.first)
        joined = Track(self.first or following.first, following.last or self.last, has_changed)
        return joined, _change(self.last, following.first)

    def see(self, seen: Seen) -> tuple[Track, list[CodecChange]]:
        """The next one."""
        return self.then(Track(seen, seen))


def _differ(before: Seen | None, after: Seen | None) -> bool:
    if before is None or after is None:
        return False
    return (before.codec, before.digest) != (after.codec, after.digest)


def _change(before: Seen | None, after: Seen | None) -> list[CodecChange]:
    """What it means that one follows the other. A configuration of another codec is told by the codecs themselves."""
    if before is None or after is None or not _differ(before, after):
        return []
    if before.digest and before.codec != after.codec:
        return []
    if not before.digest:
        detail = f"{before.codec} -> {after.codec}"
    elif before.text != after.text:
        detail = f"{after.codec}: {before.text or 'unknown'} -> {after.text or 'unknown'}"
    else:
        detail = f"{after.codec}: another decoder configuration"
    return [CodecChange(after.time_ms, after.offset, detail)]
