"""Chats to files and back: JSON with everything, Markdown for reading."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QFileDialog

from app.chat.conversation import Chat
from app.chat.markdown_export import chat_markdown
from app.job import Job
from app.language import mark, numbers, tr, tr_n
from app.saving import completed, offer
from app.whole_files import Progress, replacing
from app.window_frame import WindowFrame
from engine.protocol import Failed

JSON_FILTER = mark("Chats", "Chats with everything (*.json)")
MARKDOWN_FILTER = mark("Chats", "Markdown to read (*.md)")
ENDINGS = {JSON_FILTER: ".json", MARKDOWN_FILTER: ".md"}
SHOWN_AFTER_MS = 700
"""What takes longer than this is shown with its progress."""


def file_name(title: str) -> str:
    """A chat's title as a file name on every system."""
    name = re.sub(r'[\x00-\x1f<>:"/\\|?*]+', " ", title)
    return " ".join(name.split()).strip(" .")[:80] or "chat"


Act = Callable[[Progress], object]


@dataclass(frozen=True)
class Task:
    """Work on a file, and what is said of it."""

    act: Act
    """Runs in a thread of its own; what it returns is not ``None``."""
    running: str
    failed: str
    """With a place for the ``{reason}``."""
    cancelled: str
    done: Callable[[object], str]
    """Is given what ``act`` returned, in the window's thread."""


def _write(path: Path, text: bytes, _progress: Progress) -> bool:
    with replacing(path) as file:
        file.write(text)
    return True


class ChatExchange(QObject):
    """Asks for files, has them written and read in a thread, and says what came of it. One at a time."""

    ended = Signal(bool)
    """A file was written or read, or not."""

    def __init__(self, frame: WindowFrame) -> None:
        super().__init__(frame)
        self._frame = frame
        self._job: Job | None = None
        self._task: Task | None = None
        self._share: float | None = None
        self._late = QTimer(self)
        self._late.setSingleShot(True)
        self._late.timeout.connect(self._show)
        frame.notices.files.cancelled.connect(self._cancel)

    # ------------------------------------------------------------------ out

    def export(self, chat: Chat) -> None:
        """Ask where one chat is to go."""
        filters = [MARKDOWN_FILTER] if self._frame.chats is None else [JSON_FILTER, MARKDOWN_FILTER]
        dialog = self._dialog(tr("Chats", "Export chat"))
        offer(dialog, file_name(chat.shown_title), {tr("Chats", each): ENDINGS[each] for each in filters})
        dialog.fileSelected.connect(
            lambda path: self.export_to(
                chat, Path(path), dialog.selectedNameFilter() == tr("Chats", MARKDOWN_FILTER)
            )
        )
        dialog.open()

    def export_to(self, chat: Chat, path: Path, markdown: bool) -> bool:
        """Write one chat, as the ending of the name says; false when another file is being written or read."""
        store = self._frame.chats
        path = completed(path, ENDINGS[MARKDOWN_FILTER if markdown else JSON_FILTER], tuple(ENDINGS.values()))
        if path.suffix.lower() == ENDINGS[MARKDOWN_FILTER] or store is None:
            text = chat_markdown(chat).encode("utf-8", "replace")
            act: Act = partial(_write, path, text)
        else:
            act = partial(store.export, path, [chat.id])
        return self._begin(
            Task(
                act,
                tr("Chats", "Exporting “{name}”…").format(name=path.name),
                tr("Chats", "The chat could not be exported: {reason}."),
                tr("Chats", "The export was cancelled; nothing was written."),
                lambda _: tr("Chats", "Exported to {path}").format(path=path),
            )
        )

    def export_all(self) -> None:
        """Ask where all chats are to go."""
        if self._frame.chats is None:
            return
        dialog = self._dialog(tr("Chats", "Export all chats"))
        offer(dialog, "eyrie-chats", {tr("Chats", JSON_FILTER): ENDINGS[JSON_FILTER]})
        dialog.fileSelected.connect(lambda path: self.export_all_to(Path(path)))
        dialog.open()

    def export_all_to(self, path: Path) -> bool:
        """Write all chats; false when another file is being written or read."""
        assert self._frame.chats is not None
        path = completed(path, ENDINGS[JSON_FILTER], (ENDINGS[JSON_FILTER],))

        def words(number: object) -> str:
            count = int(str(number))
            said = tr_n("Chats", "{count} chat exported to {path}", "{count} chats exported to {path}", count)
            return said.format(count=numbers.whole(count), path=path)

        return self._begin(
            Task(
                partial(self._frame.chats.export, path, None),
                tr("Chats", "Exporting “{name}”…").format(name=path.name),
                tr("Chats", "The chats could not be exported: {reason}."),
                tr("Chats", "The export was cancelled; nothing was written."),
                words,
            )
        )

    # ------------------------------------------------------------------ in

    def ask_for_import(self) -> None:
        if self._frame.chats is None:
            return
        dialog = self._dialog(tr("Chats", "Import chats"))
        dialog.setNameFilters([tr("Chats", JSON_FILTER)])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self.import_from(Path(path)))
        dialog.open()

    def import_from(self, path: Path) -> bool:
        """Add the chats of a file; those that are there already come in a second time.

        False when another file is being written or read.
        """
        if self._frame.chats is None or self._frame.book.keeper is None:
            return False
        return self._begin(
            Task(
                partial(self._frame.chats.take_in, path),
                tr("Chats", "Importing “{name}”…").format(name=path.name),
                tr("Chats", "The chats could not be imported: {reason}."),
                tr("Chats", "The import was cancelled; no chat was added."),
                self._take,
            )
        )

    def _take(self, records: object) -> str:
        book = self._frame.book
        assert isinstance(records, list) and book.keeper is not None
        made = [book.keeper.open(record) for record in reversed(records)]
        book.take(made)
        if made:
            book.select(made[-1])
        words = tr_n("Chats", "{count} chat imported", "{count} chats imported", len(made))
        return words.format(count=numbers.whole(len(made)))

    # ------------------------------------------------------------------ the work behind it

    @property
    def is_busy(self) -> bool:
        """Whether a file is being written or read."""
        return self._job is not None

    def close_job(self) -> None:
        """The application ends: nothing unfinished is left on the disk."""
        if self._job is not None:
            self._job.cancel()
            self._job.join()

    def _begin(self, task: Task) -> bool:
        if self._job is not None:
            self._frame.toast.say(tr("Chats", "Another export or import is not finished yet. Wait for it, or cancel it."))
            return False
        self._task, self._share = task, None
        job = self._job = Job(task.act, self)
        job.advanced.connect(self._on_advanced)
        job.ended.connect(self._on_ended)
        job.start()
        self._late.start(SHOWN_AFTER_MS)
        return True

    @Slot()
    def _cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()

    @Slot(int, int)
    def _on_advanced(self, done: int, total: int) -> None:
        if total > 1:
            self._share = done / total
            if not self._late.isActive():
                self._show()

    @Slot()
    def _show(self) -> None:
        if self._job is not None and self._task is not None:
            self._frame.notices.files.show_progress(self._task.running, self._share)

    @Slot(object)
    def _on_ended(self, outcome: object) -> None:
        job, self._job = self._job, None
        task, self._task = self._task, None
        assert job is not None and task is not None
        job.deleteLater()
        self._late.stop()
        self._frame.notices.files.hide()
        if isinstance(outcome, Exception):
            self._fail(task.failed, outcome)
        elif outcome is None:
            self._frame.status.setText(task.cancelled)
        else:
            self._frame.status.setText(task.done(outcome))
        self.ended.emit(outcome is not None and not isinstance(outcome, Exception))

    # ------------------------------------------------------------------ asking and telling

    def _dialog(self, title: str) -> QFileDialog:
        dialog = QFileDialog(self._frame, title)
        dialog.finished.connect(lambda _: dialog.deleteLater())
        return dialog

    def _fail(self, what: str, error: Exception) -> None:
        """``what`` has a place for the ``{reason}``."""
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        self._frame.notices.show_failure(
            Failed(what.format(reason=reason), tr("Chats", "Choose another file or folder."), kind="files")
        )
