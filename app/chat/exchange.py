"""Chats to files and back: JSON with everything, Markdown for reading."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog

from app.chat.conversation import Chat
from app.chat.markdown_export import chat_markdown
from app.language import mark, numbers, tr, tr_n
from app.storage.archive import ArchiveError
from app.window_frame import WindowFrame
from engine.protocol import Failed

JSON_FILTER = mark("Chats", "Chats with everything (*.json)")
MARKDOWN_FILTER = mark("Chats", "Markdown to read (*.md)")


def file_name(title: str) -> str:
    """A chat's title as a file name on every system."""
    name = re.sub(r'[\x00-\x1f<>:"/\\|?*]+', " ", title)
    return " ".join(name.split()).strip(" .")[:80] or "chat"


class ChatExchange(QObject):
    """Asks for files and says what came of it."""

    def __init__(self, frame: WindowFrame) -> None:
        super().__init__(frame)
        self._frame = frame

    # ------------------------------------------------------------------ out

    def export(self, chat: Chat) -> None:
        """Ask where one chat is to go."""
        filters = [MARKDOWN_FILTER] if self._frame.chats is None else [JSON_FILTER, MARKDOWN_FILTER]
        dialog = self._dialog(tr("Chats", "Export chat"), filters, saving=True)
        dialog.selectFile(file_name(chat.shown_title))
        dialog.fileSelected.connect(
            lambda path: self.export_to(
                chat, Path(path), dialog.selectedNameFilter() == tr("Chats", MARKDOWN_FILTER)
            )
        )
        dialog.open()

    def export_to(self, chat: Chat, path: Path, markdown: bool) -> bool:
        path = path.with_name(path.name + (".md" if markdown else ".json")) if not path.suffix else path
        try:
            if markdown or path.suffix == ".md" or self._frame.chats is None:
                path.write_text(chat_markdown(chat), encoding="utf-8", errors="replace")
            elif not self._frame.chats.export(path, [chat.id]):
                raise OSError(tr("Chats", "it has no messages yet"))
        except (OSError, sqlite3.Error) as error:
            self._fail(tr("Chats", "The chat could not be exported: {reason}."), error)
            return False
        self._frame.status.setText(tr("Chats", "Exported to {path}").format(path=path))
        return True

    def export_all(self) -> None:
        """Ask where all chats are to go."""
        if self._frame.chats is None:
            return
        dialog = self._dialog(tr("Chats", "Export all chats"), [JSON_FILTER], saving=True)
        dialog.selectFile("eyrie-chats.json")
        dialog.fileSelected.connect(lambda path: self.export_all_to(Path(path)))
        dialog.open()

    def export_all_to(self, path: Path) -> bool:
        assert self._frame.chats is not None
        try:
            number = self._frame.chats.export(path)
        except (OSError, sqlite3.Error) as error:
            self._fail(tr("Chats", "The chats could not be exported: {reason}."), error)
            return False
        words = tr_n("Chats", "{count} chat exported to {path}", "{count} chats exported to {path}", number)
        self._frame.status.setText(words.format(count=numbers.whole(number), path=path))
        return True

    # ------------------------------------------------------------------ in

    def ask_for_import(self) -> None:
        if self._frame.chats is None:
            return
        dialog = self._dialog(tr("Chats", "Import chats"), [JSON_FILTER], saving=False)
        dialog.fileSelected.connect(lambda path: self.import_from(Path(path)))
        dialog.open()

    def import_from(self, path: Path) -> bool:
        """Add the chats of a file; those that are there already come in a second time."""
        frame = self._frame
        if frame.chats is None or frame.book.keeper is None:
            return False
        try:
            taken = frame.chats.take_in(path)
        except (OSError, ArchiveError, sqlite3.Error) as error:
            self._fail(tr("Chats", "The chats could not be imported: {reason}."), error)
            return False
        made = [frame.book.keeper.open(record) for record in reversed(taken)]
        frame.book.take(made)
        if made:
            frame.book.select(made[-1])
        words = tr_n("Chats", "{count} chat imported", "{count} chats imported", len(made))
        frame.status.setText(words.format(count=numbers.whole(len(made))))
        return True

    # ------------------------------------------------------------------ asking and telling

    def _dialog(self, title: str, filters: list[str], saving: bool) -> QFileDialog:
        dialog = QFileDialog(self._frame, title)
        dialog.setNameFilters([tr("Chats", each) for each in filters])
        mode = QFileDialog.AcceptMode.AcceptSave if saving else QFileDialog.AcceptMode.AcceptOpen
        dialog.setAcceptMode(mode)
        if not saving:
            dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.finished.connect(lambda _: dialog.deleteLater())
        return dialog

    def _fail(self, what: str, error: Exception) -> None:
        """``what`` has a place for the ``{reason}``."""
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        self._frame.notices.show_failure(
            Failed(what.format(reason=reason), tr("Chats", "Choose another file or folder."), kind="files")
        )
