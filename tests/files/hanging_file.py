"""A file on a disk that hangs."""

from __future__ import annotations

import threading

from typing_extensions import override

from rtmprelay.files.disk import OsFile


class HangingFile(OsFile):
    """Takes no data until the gate is opened."""

    def __init__(self, file: OsFile, gate: threading.Event) -> None:
        super().__init__(file.descriptor, file.path)
        self._gate = gate

    @override
    def append(self, data: bytes | memoryview) -> int:
        self._gate.wait(20)
        return super().append(data)
