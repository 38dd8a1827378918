"""The window: chats at the left, the conversation in the middle, the draft tree at the right.

It only puts the parts together and passes on what each of them says. Nothing here
blocks: the engine is spoken to through :class:`app.client.EngineClient`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QCloseEvent, QGuiApplication
from PySide6.QtWidgets import QMessageBox, QWidget

from app import icons, style
from app.chat import figures
from app.chat.book import Removed
from app.chat.conversation import Chat, ChatMessage
from app.chat.replies import Replies
from app.client import EngineClient, EngineState
from app.compare.dialog import CompareDialog
from app.diagnostics import about_text, diagnostics
from app.licence_dialog import LicenceDialog
from app.settings.dialog import SettingsDialog
from app.settings.store import LIMITS, Settings, SettingsStore
from app.window_frame import WindowFrame
from engine.protocol import Failed, Load, Loaded, Message, Role

SAVE_MS = 400
"""Settings are written this long after the last change."""


class MainWindow(WindowFrame):
    """Owns the chats and the widgets; the client and the settings are handed in."""

    gone = Signal()
    """The window is closed and the engine has ended: the application may quit."""

    def __init__(
        self,
        client: EngineClient,
        store: SettingsStore,
        folder: Path,
        load: Load | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(client, store, folder, parent)
        self.replies = Replies(client, self)
        self._load = load or Load()
        self._closing = False
        self._unwatch: Callable[[], None] = lambda: None
        self._settings_dialog: SettingsDialog | None = None
        self._licence_dialog: LicenceDialog | None = None
        self.compare_dialog: CompareDialog | None = None
        self._saver = QTimer(self)
        self._saver.setSingleShot(True)
        self._saver.setInterval(SAVE_MS)
        self._saver.timeout.connect(self._save_settings)
        self._connect()
        self._show_chat(self.book.current)
        self._apply_settings(store.current)
        self._update_state()
        self.composer.setFocus()

    def _connect(self) -> None:
        do = self.commands
        for action, act in (
            (do.new_chat, self._new_chat),
            (do.settings, self.open_settings),
            (do.quit, self.close),
            (do.stop, self.replies.stop),
            (do.again, self._regenerate_last),
            (do.copy_reply, self._copy_last),
            (do.compare, self.open_compare),
            (do.previous_chat, lambda: self._step_chat(-1)),
            (do.next_chat, lambda: self._step_chat(1)),
            (do.write, self.composer.setFocus),
            (do.larger, lambda: self._zoom(1)),
            (do.smaller, lambda: self._zoom(-1)),
            (do.normal_size, lambda: self.store.update(font_size=None)),
            (do.licence, self._open_licence),
            (do.diagnostics, self._copy_diagnostics),
            (do.about, self._open_about),
        ):
            action.triggered.connect(lambda _=False, act=act: act())
        do.eagle.toggled.connect(self._on_eagle)
        do.chats.toggled.connect(self.chat_list.setVisible)
        do.panel.toggled.connect(self.panel.setVisible)
        do.highlight.toggled.connect(lambda on: self.store.update(highlight=on))
        self.composer.submitted.connect(self.send_prompt)
        self.composer.stop_requested.connect(self.replies.stop)
        self.composer.text_changed.connect(self._on_typed)
        self.empty.chosen.connect(self._on_example)
        self.transcript.regenerate_requested.connect(self._regenerate)
        self.transcript.step_clicked.connect(self._on_token_clicked)
        self.chat_list.delete_requested.connect(self.delete_chat)
        self.chat_list.chat_opened.connect(self.composer.setFocus)
        self.panel.step_selected.connect(self._on_step_selected)
        self.replies.changed.connect(self._on_replies_changed)
        self.replies.failed.connect(self._on_reply_failed)
        self.replies.ended.connect(self._on_reply_ended)
        client = self.client
        client.ready.connect(lambda _: client.send(self._load))
        client.loaded.connect(self._on_loaded)
        client.step.connect(self.panel.add_step)
        client.finished.connect(self.panel.finish_reply)
        client.failed.connect(lambda event: self.panel.fail_reply(event.request_id or ""))
        client.flushed.connect(self._on_flushed)
        client.state_changed.connect(self._update_state)
        client.closed.connect(self._on_client_closed)
        self.notices.restart_requested.connect(self.restart_engine)
        self.notices.reload_requested.connect(lambda: client.send(self._load))
        self.book.current_changed.subscribe(self._show_chat)
        self.store.changed.subscribe(self._apply_settings)

    # ------------------------------------------------------------------ engine

    def start(self) -> None:
        """Start the engine; the model loads once it is there."""
        self.notices.starting()
        self.client.start()

    def restart_engine(self) -> None:
        self.notices.starting()
        self.client.restart()

    @Slot(object)
    def _on_loaded(self, event: Loaded) -> None:
        model = event.model
        if model.licence_text and model.licence_name not in self.store.current.licences_seen:
            self._open_licence()

    @Slot()
    def _on_flushed(self) -> None:
        self.transcript.flush()
        if self.replies.running is not None:
            self._update_numbers()

    # ------------------------------------------------------------------ replies

    @Slot(str)
    def send_prompt(self, prompt: str) -> None:
        chat = self.book.current
        if self.replies.ask(chat, prompt, self.store.current.generation()) is not None:
            chat.draft = ""
            self.composer.set_text("")
            self.transcript.follow()

    def _on_example(self, prompt: str) -> None:
        if self._obstacle():
            self.composer.set_text(prompt)
            self.composer.setFocus()
        else:
            self.send_prompt(prompt)

    def _regenerate(self, reply: ChatMessage) -> None:
        if self.replies.regenerate(self.book.current, reply, self.store.current.generation()) is not None:
            self.transcript.follow()

    def _last_reply(self) -> ChatMessage | None:
        messages = self.book.current.messages
        return messages[-1] if messages and messages[-1].role is Role.ASSISTANT else None

    def _regenerate_last(self) -> None:
        if (reply := self._last_reply()) is not None:
            self._regenerate(reply)

    def _copy_last(self) -> None:
        if (reply := self._last_reply()) is not None:
            QGuiApplication.clipboard().setText(reply.text)

    @Slot()
    def _on_replies_changed(self) -> None:
        running = self.replies.running
        if running is not None:
            self.panel.begin_reply(running.request_id)
        self._update_state()

    @Slot(object, object)
    def _on_reply_failed(self, chat: Chat, failure: Failed) -> None:
        if failure.kind == "worker":
            return  # the notice that the engine died says it, and offers the restart
        self.notices.show_failure(failure, lambda: self._retry(chat))

    def _retry(self, chat: Chat) -> None:
        self.book.select(chat)
        self._regenerate_last()

    @Slot(object, object)
    def _on_reply_ended(self, _chat: Chat, reply: ChatMessage) -> None:
        stats = reply.stats
        if stats is not None and QAccessible.isActive():
            words = f"Reply finished, {figures.count(stats.new_tokens, 'token')}."
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))

    @Slot(bool)
    def _on_eagle(self, enabled: bool) -> None:
        self.store.update(eagle=enabled)
        self.replies.set_eagle(enabled)

    @Slot(str, int)
    def _on_token_clicked(self, request_id: str, step: int) -> None:
        if self.panel.show_step(request_id, step):
            self.transcript.point_at(request_id, step)

    @Slot(str, int)
    def _on_step_selected(self, request_id: str, step: int) -> None:
        self.transcript.point_at(request_id, step if step >= 0 else None)

    # ------------------------------------------------------------------ chats

    def _show_chat(self, chat: Chat) -> None:
        self.transcript.set_chat(chat)
        self.composer.set_text(chat.draft)
        self._watch_emptiness(chat)
        reply = next((message for message in reversed(chat.messages) if message.request_id), None)
        if reply is not None and self.panel.request_id != reply.request_id:
            self.panel.show_step(reply.request_id)
            if reply.is_running:
                self.panel.resume()
        self._update_state()

    def _watch_emptiness(self, chat: Chat) -> None:
        self._unwatch()
        self._unwatch = chat.changed.subscribe(lambda _: self._show_emptiness())
        self._show_emptiness()

    def _show_emptiness(self) -> None:
        self.stack.setCurrentWidget(self.empty if self.book.current.is_empty else self.transcript)

    def _new_chat(self) -> None:
        self.book.new()
        self.composer.setFocus()

    def _step_chat(self, step: int) -> None:
        chats = self.book.chats
        self.book.select(chats[(chats.index(self.book.current) + step) % len(chats)])

    def delete_chat(self, chat: Chat) -> None:
        """Take a chat out of the list; the toast can bring it back."""
        if chat.is_empty and not chat.draft and len(self.book.chats) == 1:
            return
        if self.replies.chat is chat:
            self.replies.stop()
        removed = self.book.remove(chat)
        self.toast.say(f"“{chat.title}” deleted", "Undo", lambda: self._undo_delete(removed))

    def _undo_delete(self, removed: Removed) -> None:
        self.book.restore(removed)
        self.book.select(removed.chat)

    def _on_typed(self, text: str) -> None:
        self.book.current.draft = text
        self._update_compare()

    # ------------------------------------------------------------------ state in words

    def _obstacle(self) -> str:
        """Why nothing can be sent now, or ""."""
        client = self.client
        if client.state is EngineState.DEAD:
            return "The engine has stopped. Restart it to send."
        if client.state is EngineState.STARTING:
            return "The engine is starting. You can write already."
        if client.is_loading:
            return "The model is loading. You can write already."
        if client.model is None:
            return "No model is loaded, so nothing can be sent."
        if client.active and self.replies.running is None:
            return "The engine is busy with a comparison."
        return ""

    @Slot()
    def _update_state(self) -> None:
        running, obstacle = self.replies.running, self._obstacle()
        elsewhere = self.replies.chat is not None and self.replies.chat is not self.book.current
        where = f" in “{self.replies.chat.title}”" if elsewhere and self.replies.chat else ""
        self.composer.set_state("" if running else obstacle, running is not None, where)
        self.transcript.set_busy(running is not None or bool(obstacle))
        do = self.commands
        do.stop.setEnabled(running is not None)
        do.again.setEnabled(not running and not obstacle and self._last_reply() is not None)
        do.copy_reply.setEnabled(self._last_reply() is not None)
        do.licence.setEnabled(self.client.model is not None and bool(self.client.model.licence_text))
        loading = self.client.is_loading or self.client.state is EngineState.STARTING
        self.top_bar.show_model(self.client.model, "Loading…" if loading else "No model")
        self.top_bar.show_eagle(self.client.model, self.store.current.eagle)
        self._update_compare()
        self._update_numbers()

    def _update_numbers(self) -> None:
        running = self.replies.running
        if running is None:
            self.status.setText(self._obstacle() or "Ready")
            self.numbers.clear()
        else:
            self.status.setText(figures.progress(running) or "Writing")
            self.numbers.setText(figures.line(figures.live(running.live)) if running.text else "")

    # ------------------------------------------------------------------ compare

    def _comparison(self) -> tuple[Message, ...]:
        """The conversation up to what is typed, or else up to the last prompt."""
        chat = self.book.current
        if typed := self.composer.text.strip():
            return (*chat.request(), Message(Role.USER, typed))
        messages = chat.request()
        while messages and messages[-1].role is not Role.USER:
            messages = messages[:-1]
        return messages

    def _update_compare(self) -> None:
        do, model = self.commands.compare, self.client.model
        if self._obstacle() or self.replies.running is not None or model is None:
            why = "A comparison needs a loaded model that is not busy."
        elif model.head_name is None:
            why = model.head_problem or "A comparison needs a model with an EAGLE head."
        elif not self.composer.text.strip() and self.book.current.last_prompt is None:
            why = "Write a prompt first: it is answered with and without EAGLE."
        else:
            why = ""
        do.setEnabled(not why)
        do.setToolTip(why or "Answer this prompt with and without EAGLE, side by side (Ctrl+Shift+E)")

    def open_compare(self) -> None:
        """Run the typed text, or the last prompt, with and without EAGLE."""
        messages = self._comparison()
        if not messages:
            return
        if self.compare_dialog is None:
            self.compare_dialog = CompareDialog(self.client, self)
        self.compare_dialog.show()
        self.compare_dialog.raise_()
        self.compare_dialog.start(messages, self.store.current.generation())

    # ------------------------------------------------------------------ settings and dialogs

    def _apply_settings(self, settings: Settings) -> None:
        self.commands.highlight.setChecked(settings.highlight)
        self.transcript.set_highlight(settings.highlight)
        self.top_bar.show_eagle(self.client.model, settings.eagle)
        self._saver.start()

    def _save_settings(self) -> None:
        if not self.store.save():
            self.notices.settings.say(self.store.problem)

    def open_settings(self) -> None:
        self._settings_dialog = SettingsDialog(self.store, self)
        self._settings_dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._settings_dialog.open()

    def _zoom(self, step: int) -> None:
        low, high = LIMITS["font_size"]
        size = (self.store.current.font_size or round(style.system_point_size())) + step
        self.store.update(font_size=int(min(max(size, low), high)))

    def _open_licence(self) -> None:
        model = self.client.model
        if model is None or not model.licence_text:
            return
        dialog = LicenceDialog(model, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.accepted.connect(lambda: self._licence_read(model.licence_name))
        self._licence_dialog = dialog
        dialog.open()

    def _licence_read(self, name: str) -> None:
        seen = self.store.current.licences_seen
        if name not in seen:
            self.store.update(licences_seen=(*seen, name))

    def _copy_diagnostics(self) -> None:
        QGuiApplication.clipboard().setText(diagnostics(self.client, self.store, self.folder))
        self.status.setText("Diagnostics copied")

    def _open_about(self) -> None:
        box = QMessageBox(QMessageBox.Icon.NoIcon, "About Eyrie", about_text(), parent=self)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setIconPixmap(icons.application_icon().pixmap(64, 64))
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()

    # ------------------------------------------------------------------ window

    def closeEvent(self, event: QCloseEvent) -> None:
        """Go at once from the screen; quit when the engine has ended, within 2 seconds."""
        event.ignore()
        if not self._closing:
            self._closing = True
            self.save_window()
            self.store.save()
            self.hide()
            self.client.shutdown()

    @Slot()
    def _on_client_closed(self) -> None:
        self.gone.emit()
