"""The window: chats at the left, the conversation in the middle, the draft tree at the right.

It only brings the parts together: :class:`app.chat.desk.ChatDesk` acts on chats,
:class:`app.engine_control.EngineControl` on the engine and
:class:`app.window_dialogs.WindowDialogs` opens the rest. Nothing here
blocks: the engine is spoken to through :class:`app.client.EngineClient`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QCloseEvent
from PySide6.QtWidgets import QWidget

from app import style
from app.chat import figures
from app.chat.conversation import Chat, ChatMessage
from app.chat.desk import ChatDesk
from app.chat.exchange import ChatExchange
from app.chat.replies import Replies
from app.client import EngineClient
from app.compare.dialog import CompareDialog
from app.engine_control import EngineControl
from app.language import numbers, tr, tr_n
from app.settings.per_model import of_model, with_model
from app.settings.store import LIMITS, Settings, SettingsStore
from app.transport import Transport
from app.window_dialogs import WindowDialogs
from app.window_frame import WindowFrame
from engine.protocol import Failed, Load, Loaded, Message

SAVE_MS = 400
"""Settings are written this long after the last change,"""
RETRY_MS = 5000
"""and again this long after that was not possible."""


class MainWindow(WindowFrame):
    """Owns the chats and the widgets; the client and the settings are handed in."""

    gone = Signal()
    """The window is closed and the engine has ended: the application may quit."""
    _trouble = Signal(str)
    """From the thread that writes the chats to this one."""

    def __init__(
        self,
        client: EngineClient,
        store: SettingsStore,
        folder: Path,
        load: Load | None = None,
        parent: QWidget | None = None,
        hub: Callable[[], Transport] | None = None,
    ) -> None:
        """``hub`` stands in for the hub's process."""
        super().__init__(client, store, folder, parent)
        self.replies = Replies(client, self)
        self.engine = EngineControl(client, store, self.notices, load or Load(), self)
        self.desk = ChatDesk(self, self.replies, self.engine)
        self.exchange = ChatExchange(self)
        self.dialogs = WindowDialogs(self, lambda: self.engine.command, hub)
        self._closing = False
        self._saver = QTimer(self)
        self._saver.setSingleShot(True)
        self._unsaved_settings = False
        self._saver.timeout.connect(self._save_settings)
        self._connect()
        self._connect_actions()
        if self.unsaved:
            self.notices.say_unsaved(self.unsaved)
        self.desk.show(self.book.current)
        self._apply_settings(store.current)
        self._update_state()
        self.composer.setFocus()

    def _connect(self) -> None:
        client, replies = self.client, self.replies
        self.composer.stop_requested.connect(replies.stop)
        self.desk.changed.connect(self._update_state)
        self.transcript.step_clicked.connect(self._on_token_clicked)
        self.chat_list.export_requested.connect(self.exchange.export)
        self.panel.step_selected.connect(self._on_step_selected)
        self.panel.token_selected.connect(self._on_token_selected)
        replies.changed.connect(self._on_replies_changed)
        replies.failed.connect(self._on_reply_failed)
        replies.ended.connect(self._on_reply_ended)
        replies.stepped.connect(self.panel.add_step)
        client.loaded.connect(self._on_loaded)
        client.calibrated.connect(lambda event: self.panel.show_calibration(event.calibration))
        client.unloaded.connect(lambda _: self.panel.show_calibration(None))
        client.finished.connect(self.panel.finish_reply)
        client.failed.connect(lambda event: self.panel.fail_reply(event.request_id or ""))
        client.flushed.connect(self._on_flushed)
        client.state_changed.connect(self._update_state)
        client.closed.connect(self.gone)
        self.engine.unloaded.connect(self.notices.say_unloaded)
        self._unsubscribe = self.store.changed.subscribe(self._apply_settings)
        self._trouble.connect(self.notices.say_unsaved)
        if self.chats is not None:
            self.chats.watch(self._trouble.emit)

    def _connect_actions(self) -> None:
        do, desk, dialogs = self.commands, self.desk, self.dialogs
        for action, act in (
            (do.new_chat, desk.new),
            (do.search, self._search),
            (do.undo_delete, desk.undo_delete),
            (do.import_chats, self.exchange.ask_for_import),
            (do.export_all, self.exchange.export_all),
            (do.settings, dialogs.open_settings),
            (do.quit, self.close),
            (do.stop, self._stop),
            (do.again, desk.regenerate_last),
            (do.resume, desk.resume_last),
            (do.edit_prompt, desk.edit_last),
            (do.version_before, lambda: desk.step_version(-1)),
            (do.version_after, lambda: desk.step_version(1)),
            (do.copy_reply, desk.copy_last),
            (do.copy_chat, desk.copy_chat),
            (do.hub, dialogs.open_hub),
            (do.compare, dialogs.open_compare),
            (do.comparisons, dialogs.open_comparisons),
            (do.previous_chat, lambda: desk.step(-1)),
            (do.next_chat, lambda: desk.step(1)),
            (do.write, self.composer.setFocus),
            (do.free, self.engine.free),
            (do.cancel_load, self.engine.cancel),
            (do.reload, self.engine.reload),
            (do.restart, self.engine.restart),
            (do.larger, lambda: self._zoom(1)),
            (do.smaller, lambda: self._zoom(-1)),
            (do.normal_size, lambda: self.store.update(font_size=None)),
            (do.palette, dialogs.open_palette),
            (do.shortcuts, dialogs.open_shortcuts),
            (do.tour, dialogs.start_tour),
            (do.model_settings, dialogs.open_model_settings),
            (do.licence, dialogs.open_licence),
            (do.diagnostics, dialogs.copy_diagnostics),
            (do.about, dialogs.open_about),
        ):
            action.triggered.connect(lambda _=False, act=act: act())
        dialogs.comparisons_changed.connect(self._update_compare)
        dialogs.load_requested.connect(self.engine.load)
        dialogs.draft_requested.connect(self.engine.draft_with)
        dialogs.reload_requested.connect(self.engine.reload)
        do.eagle.toggled.connect(self._on_eagle)
        do.methods.method_chosen.connect(self._on_method)
        do.chats.toggled.connect(self.chat_list.setVisible)
        self.chat_list.room_wanted.connect(lambda: do.chats.setChecked(True))
        do.panel.toggled.connect(self.panel.setVisible)
        do.highlight.toggled.connect(lambda on: self.store.update(highlight=on))

    # ------------------------------------------------------------------ what others ask of the window

    def start(self) -> None:
        """Start the engine; the model loads once it is there."""
        self.engine.start()

    def load(self, command: Load) -> None:
        """Load another model or head."""
        self.engine.load(command)

    @Slot(str)
    def send_prompt(self, prompt: str) -> None:
        self.desk.send(prompt)

    def delete_chat(self, chat: Chat) -> None:
        self.desk.delete(chat)

    def open_compare(self) -> None:
        self.dialogs.open_compare()

    def comparison(self) -> tuple[Message, ...]:
        return self.dialogs.comparison()

    @property
    def compare_dialog(self) -> CompareDialog | None:
        return self.dialogs.compare

    # ------------------------------------------------------------------ replies

    def _stop(self) -> None:
        """Escape: end what runs, or leave what was begun."""
        if self.replies.running is not None:
            self.replies.stop()
        elif self.desk.waits:
            self.desk.wait_no_more()
        elif self.desk.is_editing:
            self.desk.cancel_edit()

    @Slot(object)
    def _on_loaded(self, event: Loaded) -> None:
        self.panel.set_methods(event.model.methods)
        self.panel.show_calibration(None)  # that of this model follows, if there is any

    @Slot()
    def _on_flushed(self) -> None:
        self.transcript.flush()
        if self.replies.running is not None:
            self._update_numbers()

    @Slot()
    def _on_replies_changed(self) -> None:
        running = self.replies.running
        if running is not None:
            self.notices.reply_began()
            self.panel.begin_reply(running.request_id, goes_on=running.first_step > 0)
        self._update_state()

    @Slot(object, object)
    def _on_reply_failed(self, chat: Chat, failure: Failed) -> None:
        if failure.kind == "worker":
            return  # the notice that the engine died says it, and offers the restart
        self.notices.show_failure(failure, lambda: self.desk.retry(chat))

    @Slot(object, object)
    def _on_reply_ended(self, _chat: Chat, reply: ChatMessage) -> None:
        stats = reply.stats
        if stats is not None and QAccessible.isActive():
            words = tr_n("Window", "Reply finished, {count} token.", "Reply finished, {count} tokens.", stats.new_tokens)
            words = words.format(count=numbers.whole(stats.new_tokens))
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))

    @Slot(bool)
    def _on_eagle(self, enabled: bool) -> None:
        self.store.update(eagle=enabled)
        self.replies.set_eagle(enabled)

    def _show_drafting(self) -> None:
        model, settings = self.client.model, self.store.current
        self.top_bar.show_eagle(model, settings.eagle, of_model(settings, model))

    @Slot(str)
    def _on_method(self, method: str) -> None:
        """From the next reply on; what was set for the method stays."""
        model, settings = self.client.model, self.store.current
        if model is None:
            return
        own = replace(of_model(settings, model), method=method)
        self.store.update(models=with_model(settings, model, own), eagle=True)
        self.replies.set_eagle(True)
        if self.replies.running is not None:
            self.toast.say(tr("Window", "The next reply is drafted that way; this one goes on as it began."))

    @Slot(str, int, int)
    def _on_token_clicked(self, request_id: str, step: int, offset: int) -> None:
        """A token in the text leads to its place in the picture."""
        if self.panel.show_step(request_id, step, offset):
            self.transcript.point_at(request_id, step)

    @Slot(str, int, int, int)
    def _on_token_selected(self, request_id: str, step: int, begin: int, end: int) -> None:
        """And back."""
        self.transcript.point_at(request_id, step, (begin, end))

    @Slot(str, int)
    def _on_step_selected(self, request_id: str, step: int) -> None:
        self.transcript.point_at(request_id, step if step >= 0 else None)

    # ------------------------------------------------------------------ state in words

    def _obstacle(self) -> str:
        return self.engine.obstacle(self.replies.running is not None)

    @Slot()
    def _update_state(self) -> None:
        running, obstacle = self.replies.running, self._obstacle()
        loading, now, later = self.engine.is_busy_loading, obstacle, ""
        if obstacle and self.desk.waits:
            now = tr("Window", "Your prompt is sent as soon as the model is loaded. Esc takes it back.")
        elif loading:  # what is sent waits for it
            now, later = "", obstacle
        chat = self.replies.chat
        elsewhere = chat.shown_title if chat is not None and chat is not self.book.current else ""
        free = running is None and not obstacle
        self.composer.set_state("" if running else now, running is not None, elsewhere, later)
        self.transcript.set_busy(not free, writing=chat is self.book.current)
        do, last = self.commands, self.desk.last_reply()
        do.stop.setEnabled(running is not None or self.desk.is_editing or self.desk.waits)
        do.again.setEnabled(free and last is not None)
        do.resume.setEnabled(free and last is not None and bool(last.text))
        do.edit_prompt.setEnabled(free and self.book.current.last_prompt is not None)
        do.undo_delete.setEnabled(self.desk.can_undo_delete)
        do.copy_reply.setEnabled(last is not None)
        do.copy_chat.setEnabled(not self.book.current.is_empty)
        do.model_settings.setEnabled(self.client.model is not None)
        do.licence.setEnabled(self.client.model is not None and bool(self.client.model.licence_text))
        do.cancel_load.setEnabled(loading)
        do.reload.setEnabled(self.client.model is None and not loading)
        do.free.setEnabled(not self.engine.is_off)
        if loading:
            words = tr("Window", "Loading…")
        else:
            words = tr("Window", "Unloaded") if self.engine.is_off else tr("Window", "No model")
        self.top_bar.show_model(self.client.model, words)
        self._show_drafting()
        self._update_compare()
        self._update_numbers()

    def _update_numbers(self) -> None:
        running = self.replies.running
        if running is None:
            idle = tr("Window", "Model unloaded") if self.engine.is_off else tr("Window", "Ready")
            self.status.setText(self._obstacle() or idle)
            self.numbers.clear()
        else:
            self.status.setText(figures.progress(running) or tr("Window", "Writing"))
            self.numbers.setText(figures.line(figures.live(running.live)) if running.text else "")

    def _update_compare(self) -> None:
        kept = self.dialogs.shelf.of_chat(self.book.current)
        self.commands.comparisons.setEnabled(bool(kept))

    # ------------------------------------------------------------------ settings

    def _apply_settings(self, settings: Settings) -> None:
        self.commands.highlight.setChecked(settings.highlight)
        self.transcript.set_highlight(settings.highlight)
        self.transcript.set_calm(settings.reduced_motion)
        self.panel.set_calm(settings.reduced_motion)
        self._show_drafting()
        self._saver.start(SAVE_MS)

    def _save_settings(self) -> None:
        if not self.store.save():
            self._unsaved_settings = True
            self.notices.settings.say(self.store.problem)
            self._saver.start(RETRY_MS)
        elif self._unsaved_settings:
            self._unsaved_settings = False
            self.notices.settings.hide()

    def _zoom(self, step: int) -> None:
        low, high = LIMITS["font_size"]
        size = (self.store.current.font_size or round(style.system_point_size())) + step
        self.store.update(font_size=int(min(max(size, low), high)))

    def _search(self) -> None:
        self.commands.chats.setChecked(True)
        self.chat_list.focus_search()

    # ------------------------------------------------------------------ window

    def come_forward(self) -> None:
        """Somebody started the application again: show this window."""
        if not self._closing:
            if self.isMinimized():
                self.showNormal()
            self.show()
            self.raise_()
            self.activateWindow()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Go at once from the screen; quit when the engine has ended, within 2 seconds."""
        event.ignore()
        if not self._closing:
            self._closing = True
            self.save_window()
            self.hide()
            self.panel.export_button.close_job()
            self.exchange.close_job()
            self.client.shutdown()  # in a thread of its own, while the rest is written
            self._keep()

    def retire(self) -> EngineClient:
        """Make room for another window; the client that is returned has the engine, which goes on.

        So does the hub's process, until the other window takes it over from ``dialogs.hub_client``.
        """
        self._closing = True
        self.save_window()
        self.panel.export_button.close_job()
        self.exchange.close_job()
        self._unsubscribe()
        self.engine.retire()
        self._keep()
        return self.client.hand_over()

    def _keep(self) -> None:
        self._saver.stop()
        self.store.save()
        self.replies.close()
        if self.chats is not None:
            self.chats.close()
