"""What the user does with chats: write, edit, write again, go on, look through versions, delete.

Stands between the widgets of one window and the chats; the window hands both in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QInputDialog

from app.chat.book import Removed
from app.chat.conversation import Chat, ChatMessage
from app.chat.edits import Edits
from app.chat.markdown_export import chat_markdown
from app.chat.replies import Replies
from app.engine_control import EngineControl
from app.language import mark, tr
from app.settings.per_model import of_model, resolve
from app.window_frame import WindowFrame
from engine.protocol import GenerationSettings, Role

EDITING = mark("Chats", "You are editing an earlier prompt. What followed it stays as another version.")
RECALL_MS = 0


class ChatDesk(QObject):
    """Everything that acts on the chat that is shown."""

    changed = Signal()
    """What can be done with the chat may have changed."""

    def __init__(self, frame: WindowFrame, replies: Replies, engine: EngineControl) -> None:
        super().__init__(frame)
        self._frame = frame
        self._book = frame.book
        self._replies = replies
        self._engine = engine
        self._editing: ChatMessage | None = None
        self._edits = Edits(frame.book.keeper)
        self._draft_before_edit = ""
        self._deleted: list[Removed] = []
        self._waiting: Callable[[], object] | None = None
        """What is done as soon as the model is there."""
        self._unwatch: Callable[[], None] = lambda: None
        self._recall = QTimer(self)
        self._recall.setInterval(RECALL_MS)
        self._recall.timeout.connect(self._recall_more)
        self._recalled: object = None
        frame.composer.submitted.connect(self.send)
        frame.composer.text_changed.connect(self._on_typed)
        frame.empty.chosen.connect(self._on_example)
        frame.editing.dismissed.connect(self.cancel_edit)
        frame.transcript.regenerate_requested.connect(self.regenerate)
        frame.transcript.edit_requested.connect(self.edit)
        frame.transcript.continue_requested.connect(self.resume)
        frame.transcript.version_requested.connect(self.show_version)
        frame.chat_list.delete_requested.connect(self.delete)
        frame.chat_list.folder_requested.connect(self.ask_for_folder)
        frame.chat_list.message_found.connect(self.show_message)
        frame.chat_list.chat_opened.connect(frame.composer.setFocus)
        frame.client.loaded.connect(lambda _: self._send_waiting())
        # What was asked for belongs to this load: a later one must not send what is half written by then.
        engine.unloaded.connect(self.wait_no_more)
        frame.client.engine_died.connect(self.wait_no_more)
        frame.client.failed.connect(lambda event: event.request_id is None and self.wait_no_more())
        self._book.current_changed.subscribe(self.show)

    # ------------------------------------------------------------------ which chat

    def show(self, chat: Chat) -> None:
        frame = self._frame
        self._editing = None
        frame.editing.hide()
        frame.transcript.set_chat(chat)
        frame.composer.set_text(chat.draft)
        if (begun := self._edits.of(chat)) is not None:
            self._edit(*begun)
        self._unwatch()
        self._unwatch = chat.changed.subscribe(lambda _: self._show_emptiness())
        self._show_emptiness()
        self._show_history(chat)
        self.changed.emit()

    def _show_emptiness(self) -> None:
        frame = self._frame
        frame.stack.setCurrentWidget(frame.empty if self._book.current.is_empty else frame.transcript)

    def new(self) -> None:
        self._frame.chat_list.drop_search()  # a new chat is among no hits
        self._book.new()
        self._frame.composer.setFocus()

    def step(self, step: int) -> None:
        """Go to the chat before (-1) or after (+1) in the list."""
        self._book.select(self._frame.chat_list.model.neighbour(self._book.current, step))

    def delete(self, chat: Chat) -> None:
        """Take a chat out of the list; the toast can bring it back."""
        if chat.is_untouched and len(self._book.chats) == 1:
            return
        if self._replies.chat is chat:
            self._replies.stop()
        self._deleted.append(self._book.remove(chat))
        words = tr("Chats", "“{chat}” deleted").format(chat=chat.shown_title)
        self._frame.toast.say(words, tr("Chats", "Undo"), self.undo_delete)
        self.changed.emit()

    def undo_delete(self) -> None:
        """Bring back the chat that was deleted last, then the one before it, and so on."""
        if self._deleted:
            removed = self._deleted.pop()
            self._frame.toast.hide()
            self._book.restore(removed)
            self._book.select(removed.chat)
            self.changed.emit()

    @property
    def can_undo_delete(self) -> bool:
        return bool(self._deleted)

    def ask_for_folder(self, chat: Chat) -> None:
        dialog = QInputDialog(self._frame)
        dialog.setWindowTitle(tr("Chats", "New folder"))
        dialog.setLabelText(tr("Chats", "Name of the folder:"))
        dialog.textValueSelected.connect(chat.move)
        dialog.open()

    # ------------------------------------------------------------------ writing

    def _settings(self, chat: Chat) -> GenerationSettings:
        settings, model = self._frame.store.current, self._frame.client.model
        self._replies.system_prompt = of_model(settings, model).system_prompt
        # What the target gives the guesses costs a little time, and only the panel shows it.
        return replace(resolve(settings, model, chat), explain=self._frame.panel.isVisible())

    @Slot(str)
    def send(self, prompt: str) -> None:
        """Send what was typed: as a new prompt, or in the place of the one that is edited."""
        frame, chat = self._frame, self._book.current
        if self._wake(lambda: self._send_typed(chat)):
            return
        if self._editing is not None:
            chat.reveal(self._editing)  # another version may have been looked at meanwhile
            sent = self._replies.edit(chat, self._editing, prompt, self._settings(chat))
        else:
            sent = self._replies.ask(chat, prompt, self._settings(chat))
        if sent is None:
            return
        if self._editing is not None:
            self._end_edit()
        else:
            chat.draft = ""
            frame.composer.set_text("")
        frame.transcript.follow()

    def _wake(self, act: Callable[[], object]) -> bool:
        """Do something once the model is there, which is loaded where it was given back; ``False``: it is there."""
        if not self._engine.is_off and not self._engine.is_busy_loading:
            return False
        self._waiting = act
        if self._engine.is_off:
            self._engine.reload()
        self.changed.emit()
        return True

    def _send_waiting(self) -> None:
        """The model is there: do what was asked for while there was none."""
        act, self._waiting = self._waiting, None
        if act is not None:
            # Behind the other slots of the same event, so that all know of the model.
            QTimer.singleShot(0, self, act)

    @Slot()
    def wait_no_more(self) -> None:
        """Send nothing when the model is there; what was typed stays."""
        if self._waiting is not None:
            self._waiting = None
            self.changed.emit()

    def _send_typed(self, chat: Chat) -> None:
        text = self._frame.composer.text.strip()
        if chat is self._book.current and text:
            self.send(text)

    @property
    def waits(self) -> bool:
        """Whether a prompt is sent as soon as the model is loaded."""
        return self._waiting is not None

    def _on_example(self, prompt: str) -> None:
        if self._engine.obstacle(self._replies.running is not None) or self._engine.is_off:
            self._frame.composer.set_text(prompt)
            self._frame.composer.setFocus()
        else:
            self.send(prompt)

    def _on_typed(self, text: str) -> None:
        if self._editing is None:
            self._book.current.draft = text
        else:
            self._edits.put(self._book.current, self._editing, text)
        self._engine.used()
        self.changed.emit()

    def regenerate(self, reply: ChatMessage) -> None:
        chat = self._book.current
        if self._wake(lambda: self.regenerate(reply)):
            return
        if self._replies.regenerate(chat, reply, self._settings(chat)) is not None:
            self._frame.transcript.follow()

    def resume(self, reply: ChatMessage) -> None:
        chat = self._book.current
        if self._wake(lambda: self.resume(reply)):
            return
        if self._replies.resume(chat, reply, self._settings(chat)) is not None:
            self._frame.transcript.follow()

    def edit(self, prompt: ChatMessage) -> None:
        """Put an earlier prompt into the field; sending makes a new version of it."""
        if prompt.role is not Role.USER or prompt not in self._book.current.messages:
            return
        self._edit(prompt, prompt.text)
        self._frame.composer.setFocus()

    def _edit(self, prompt: ChatMessage, text: str) -> None:
        frame = self._frame
        if self._editing is None:
            self._draft_before_edit = frame.composer.text
        self._editing = prompt
        frame.composer.set_text(text)
        frame.editing.say(tr("Chats", EDITING))

    @Slot()
    def cancel_edit(self) -> None:
        if self._editing is not None:
            self._end_edit()
            self._frame.composer.setFocus()

    def _end_edit(self) -> None:
        self._editing = None
        self._edits.drop(self._book.current)
        self._frame.editing.hide()
        self._frame.composer.set_text(self._draft_before_edit)

    @property
    def is_editing(self) -> bool:
        return self._editing is not None

    def show_version(self, message: ChatMessage, step: int) -> None:
        """Show the version before (-1) or after (+1) a message."""
        if self._replies.chat is self._book.current:
            return
        self._book.current.show_version(message, step)
        self._show_history(self._book.current)
        self.changed.emit()

    def step_version(self, step: int) -> None:
        """The same for the last message that has versions."""
        chat = self._book.current
        for message in reversed(chat.messages):
            if chat.versions(message)[1] > 1:
                self.show_version(message, step)
                return

    def show_message(self, chat: Chat, message_id: str) -> None:
        """Show a message that was found, in whichever version it is."""
        message = chat.message(message_id)
        if message is None:
            return
        if self._replies.chat is not chat:
            chat.reveal(message)
        self._frame.transcript.show_message(message)

    # ------------------------------------------------------------------ the last messages

    def last_reply(self) -> ChatMessage | None:
        messages = self._book.current.messages
        return messages[-1] if messages and messages[-1].role is Role.ASSISTANT else None

    def regenerate_last(self) -> None:
        if (reply := self.last_reply()) is not None:
            self.regenerate(reply)

    def resume_last(self) -> None:
        if (reply := self.last_reply()) is not None:
            self.resume(reply)

    def edit_last(self) -> None:
        if (prompt := self._book.current.last_prompt) is not None:
            self.edit(prompt)

    def copy_last(self) -> None:
        if (reply := self.last_reply()) is not None:
            QGuiApplication.clipboard().setText(reply.text)

    def copy_chat(self) -> None:
        """The whole chat, as it is shown, as Markdown."""
        QGuiApplication.clipboard().setText(chat_markdown(self._book.current))

    def retry(self, chat: Chat) -> None:
        self._book.select(chat)
        self.regenerate_last()

    # ------------------------------------------------------------------ steps of stored replies

    def _show_history(self, chat: Chat) -> None:
        """Let the panel show the newest reply of the chat, from memory or from the database."""
        self._recall.stop()
        panel = self._frame.panel
        reply = next((message for message in reversed(chat.messages) if message.request_id), None)
        if reply is None or panel.request_id == reply.request_id:
            return
        if panel.show_step(reply.request_id):
            if reply.is_running:
                panel.resume()
        elif self._book.keeper is not None and not reply.is_running:
            steps = self._book.keeper.steps(reply)
            if panel.recall(reply.request_id, steps):
                self._recall.start()

    @Slot()
    def _recall_more(self) -> None:
        if not self._frame.panel.recall_more():
            self._recall.stop()
