"""One window per data folder: a second start shows the first one's window and ends.

A lock file says who is there (and is taken over when its owner is gone); a local
socket, named after the folder, is where the second start knocks.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

log = logging.getLogger(__name__)

LOCK_NAME = "eyrie.lock"
KNOCK_MS = 1500
KNOCK = b"show\n"


def _address(folder: Path) -> str:
    """A name for the socket that no other user and no other data folder has."""
    who = f"{os.environ.get('USERNAME') or os.environ.get('USER') or ''}:{folder.resolve()}"
    return "eyrie-" + hashlib.sha256(who.encode("utf-8", "surrogateescape")).hexdigest()[:24]


class SingleInstance(QObject):
    """Holds the data folder. ``taken`` tells whether somebody else has it."""

    asked_to_show = Signal()
    """Another start knocked."""

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = _address(folder)
        self._lock = QLockFile(str(folder / LOCK_NAME))
        # A lock is stale only when its process is gone, however long that one has run.
        self._lock.setStaleLockTime(0)
        self._server: QLocalServer | None = None
        self.taken = not self._lock.tryLock(0) and self._lock.error() is QLockFile.LockError.LockFailedError
        if not self.taken:
            self._listen()

    def _listen(self) -> None:
        server = QLocalServer(self)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        server.newConnection.connect(self._on_knock)
        if not server.listen(self._name):
            # What a killed session has left: the lock is ours, so nobody listens there.
            QLocalServer.removeServer(self._name)
            if not server.listen(self._name):
                log.warning("a second start will not find this window: %s", server.errorString())
        self._server = server

    def _on_knock(self) -> None:
        assert self._server is not None
        while (connection := self._server.nextPendingConnection()) is not None:
            connection.disconnected.connect(connection.deleteLater)
            self.asked_to_show.emit()
            connection.disconnectFromServer()

    def knock(self) -> bool:
        """Ask the window that has the folder to come forward; ``False`` when it does not answer."""
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(KNOCK_MS):
            return False
        socket.write(KNOCK)
        socket.waitForBytesWritten(KNOCK_MS)
        answered = socket.state() is QLocalSocket.LocalSocketState.UnconnectedState
        return answered or socket.waitForDisconnected(KNOCK_MS)

    def release(self) -> None:
        """Give the folder back."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._lock.unlock()
