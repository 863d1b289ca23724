"""Recordings as playlists and segments. All reading happens in threads, a few files at a time and a bounded piece of each."""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import TypeVar

import attrs
from twisted.internet.defer import DeferredLock, DeferredSemaphore

from rtmprelay.errors import BadRecordingError
from rtmprelay.flv.cut_points import CutPoints, TooLongError, read_tags_at
from rtmprelay.flv.tags import video_content
from rtmprelay.hls.recorded import ByteRange, recorded_playlist
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.mp4.fragments import FragmentEncoder, FragmentPlacer, TimeWentBackError
from rtmprelay.mp4.init_segment import init_segment
from rtmprelay.mp4.tracks import TrackFinder, UnsupportedMediaError
from rtmprelay.web.recordings.folder import Identity, ListedFile, OpenFile, RecordingFolder
from rtmprelay.web.server.responses import HttpError
from rtmprelay.web.server.threads import InThread

_T = TypeVar("_T")

#: Files that are read at the same time, and requests that may wait for it.
_READERS = 4
_MAX_WAITING = 500

#: Recordings whose cut points are remembered.
_REMEMBERED = 64

#: Tags that are looked at in one go, so that other requests get their turn.
_TAGS_AT_ONCE = 20_000

#: Bytes of media in one piece of a segment. Each piece is one fragment.
_PIECE = 512 * 1024

#: Bytes and pieces at the beginning of a file in which its tracks are looked for.
_HEAD_PIECE = 256 * 1024
_MAX_HEAD = 16 * 1024 * 1024

#: There is no such file, or what has the name is no plain file.
_NO_FILE = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.EINVAL})


@attrs.define(eq=False)
class _Known:
    """What is known of a recording.

    Attributes:
        size: The size at which it was looked at up to its end.
    """

    identity: Identity
    points: CutPoints
    tracks: FragmentEncoder
    size: int = -1


@attrs.frozen
class SegmentReader:
    """Reads one segment, piece by piece. `next` is called in a thread."""

    _folder: RecordingFolder
    _name: str
    _known: _Known
    _placer: FragmentPlacer
    _range: ByteRange
    # The position of the next piece; a list, since this is frozen.
    _at: list[int]

    @classmethod
    def of(cls, folder: RecordingFolder, name: str, known: _Known, wanted: ByteRange) -> SegmentReader:
        placer = FragmentPlacer(known.tracks, known.points.begin_ms or 0)
        return cls(folder, name, known, placer, wanted, [wanted.begin])

    def next(self) -> bytes | None:
        """The next piece; None after the last one.

        Raises:
            HttpError: No segment begins there.
            OSError: The file cannot be read any more.
        """
        pieces: list[bytes | memoryview] = []
        while not pieces and self._at[0] < self._range.end:
            begin = self._at[0]
            with self._folder.opened(self._name) as file:
                if file.identity != self._known.identity or file.size < self._range.end:
                    raise FileNotFoundError(self._name)
                tags, self._at[0] = read_tags_at(file.read, begin, _PIECE, self._range.end)
            frames = [frame for tag in tags if (frame := tag.to_frame()) is not None]
            if begin == self._range.begin and not self._can_begin(begin, frames):
                raise HttpError(404, "no segment of the recording begins there: the playlist lists them all")
            if not tags:
                # The rest of this part is damaged.
                break
            pieces += self._fragment(frames)
        return b"".join(pieces) if pieces else None

    def _can_begin(self, begin: int, frames: list[MediaFrame]) -> bool:
        """Whether decoding can start at the first picture."""
        if begin == self._known.points.first_tag or self._known.tracks.video is None:
            return bool(frames)
        for frame in frames:
            content = video_content(frame.payload) if frame.kind is MediaKind.VIDEO else None
            if content is not None:
                return content.keyframe or content.configuration
        return False

    def _fragment(self, frames: list[MediaFrame]) -> list[bytes | memoryview]:
        try:
            fragment = self._known.tracks.encode(frames)
            return list(self._placer.place(fragment)) if fragment else []
        except TimeWentBackError:
            # What comes after it would be shown at another time than the playlist says.
            self._at[0] = self._range.end
            return []


@attrs.define(eq=False)
class FileReader:
    """Reads a recording as it is, piece by piece. `next` is called in a thread.

    Attributes:
        size: The bytes of the file when it was opened; what is written to it later is not read.
    """

    _folder: RecordingFolder
    _name: str
    _identity: Identity
    size: int
    modified: float
    _at: int = 0
    _end: int = 0

    @classmethod
    def of(cls, folder: RecordingFolder, name: str) -> FileReader:
        with folder.opened(name) as file:
            return cls(folder, name, file.identity, file.size, file.modified, 0, file.size)

    @property
    def etag(self) -> bytes:
        """Another one when the file is another one, or has grown."""
        return b'"%x-%x-%x"' % (self._identity.inode, self.size, int(self.modified * 1000))

    def limit(self, begin: int, end: int) -> None:
        """Read these bytes only."""
        self._at, self._end = begin, end

    def next(self) -> bytes | None:
        """The next piece; None after the last one.

        Raises:
            OSError: The file cannot be read any more, or is shorter than it was.
        """
        if self._at >= self._end:
            return None
        with self._folder.opened(self._name) as file:
            if file.identity != self._identity or file.size < self._end:
                raise FileNotFoundError(self._name)
            piece = file.read(self._at, min(_PIECE, self._end - self._at))
        self._at += len(piece)
        return piece


class RecordingLibrary:
    """Lists recordings, and makes playlists and segments of them.

    Args:
        in_thread: Calls a function in a thread.
        growing: The names of the files that are being recorded.
    """

    def __init__(self, path: Path, in_thread: InThread, growing: Callable[[], Collection[str]]) -> None:
        self._folder = RecordingFolder(path)
        self._in_thread = in_thread
        self.growing = growing
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._locks: dict[str, DeferredLock] = {}
        self._readers = DeferredSemaphore(_READERS)
        self._listing = DeferredLock()

    async def list(self) -> tuple[list[ListedFile], int]:
        """The newest recordings, and how many more there are."""
        # One after the other: they share what they know of durations.
        listed: tuple[list[ListedFile], int] = await self._exclusively(
            self._listing, lambda: self.read(self._folder.list)
        )
        return listed

    async def playlist(self, name: str, query: str) -> str:
        """The playlist of a recording, with this query string on each address."""
        known = await self._look(name, to_end=True)
        growing = name in self.growing()
        started = known.points.metadata.get("rtmprelay_started")
        return recorded_playlist(
            known.points.parts(),
            growing=growing,
            started=started if isinstance(started, float) and 0 <= started < 2**32 else None,
            query=query,
        )

    async def init(self, name: str) -> bytes:
        """The beginning that all segments share."""
        tracks = (await self._look(name)).tracks
        return init_segment([track for track in (tracks.video, tracks.audio) if track is not None])

    async def segment(self, name: str, wanted: ByteRange) -> SegmentReader:
        """Reads a segment. Whether there is one at this place turns out with its first piece."""
        known = await self._look(name)
        if wanted.begin < known.points.first_tag:
            raise HttpError(404, "no segment of the recording begins there: the playlist lists them all")
        return SegmentReader.of(self._folder, name, known, wanted)

    async def file(self, name: str) -> FileReader:
        """Reads a recording as it is."""
        return await self.read(FileReader.of, self._folder, name)

    # -- threads ---------------------------------------------------------------------------------------------

    async def read(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Call something that reads files, in a thread.

        Raises:
            HttpError: Why it cannot be read.
        """
        if len(self._readers.waiting) >= _MAX_WAITING:
            raise HttpError(503, "too many recordings are being read: try again", ((b"Retry-After", b"5"),))
        try:
            result: _T = await self._readers.run(self._in_thread, function, *arguments)
        except OSError as error:
            if error.errno is None or error.errno in _NO_FILE:
                raise HttpError(404, "there is no such recording: /recordings lists them") from None
            raise HttpError(503, f"the recording cannot be read now: {error.strerror}") from None
        except BadRecordingError:
            raise HttpError(415, "the file is not FLV, or its beginning is damaged") from None
        except TooLongError:
            raise HttpError(
                409,
                "the recording has no keyframe index and is too long to do without:"
                " python -m rtmprelay.flv repair writes a copy that has one",
            ) from None
        except UnsupportedMediaError as error:
            raise HttpError(415, f"the recording cannot be played here: {error}") from None
        return result

    @staticmethod
    async def _exclusively(lock: DeferredLock, work: Callable[[], Awaitable[_T]]) -> _T:
        await lock.acquire()
        try:
            return await work()
        finally:
            lock.release()

    async def _look(self, name: str, to_end: bool = False) -> _Known:
        """What is known of a recording, after a look at it; requests for the same one share the look."""
        lock = self._locks.setdefault(name, DeferredLock())
        try:
            return await self._exclusively(lock, lambda: self._look_alone(name, to_end))
        finally:
            if not lock.locked and self._locks.get(name) is lock:
                del self._locks[name]

    async def _look_alone(self, name: str, to_end: bool) -> _Known:
        remembered = self._known.get(name)
        while True:
            known, at_end = await self.read(self._look_in_thread, name, remembered)
            remembered = known
            self._known[name] = known
            self._known.move_to_end(name)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            if at_end or not to_end:
                return known

    def _look_in_thread(self, name: str, known: _Known | None) -> tuple[_Known, bool]:
        with self._folder.opened(name) as file:
            if known is None or known.identity != file.identity or file.size < known.points.end:
                known = _open(file)
            if known.size == file.size:
                return known, True
            at_end = known.points.look(file.read, file.size, _TAGS_AT_ONCE)
            if at_end:
                known.size = file.size
            return known, at_end


def _open(file: OpenFile) -> _Known:
    points = CutPoints(file.read)
    points.use_index(file.read, file.size)
    points.metadata = {name: value for name, value in points.metadata.items() if name != "keyframes"}
    return _Known(file.identity, points, _find_tracks(file, points.first_tag))


def _find_tracks(file: OpenFile, first_tag: int) -> FragmentEncoder:
    """The tracks of a file. A kind whose codec an MP4 cannot hold is left out if there is another one."""
    finder = TrackFinder()
    refused: dict[MediaKind, UnsupportedMediaError] = {}
    at, seen = first_tag, 0
    while not finder.is_complete and seen < _MAX_HEAD and len(refused) < 2:
        tags, end = read_tags_at(file.read, at, _HEAD_PIECE, file.size)
        if not tags:
            break
        seen += end - at
        at = end
        for tag in tags:
            frame = tag.to_frame()
            if frame is None or frame.kind in refused or finder.is_complete:
                continue
            try:
                finder.note(frame)
            except UnsupportedMediaError as error:
                refused[frame.kind] = error
    if not finder.has_media:
        raise next(iter(refused.values()), UnsupportedMediaError("there is no media in it yet"))
    return FragmentEncoder(finder.video, finder.audio)
