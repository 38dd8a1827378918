"""One message on the screen: who, the text, and below a reply what it cost."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app import icons, theme
from app.chat import figures
from app.chat.conversation import ChatMessage
from app.chat.message_body import MessageBody
from app.chat.reply_footer import ReplyFooter
from app.chat.thinking_fold import thought_seconds
from app.chat.version_switch import VersionSwitch
from app.language import numbers, tr, tr_n
from app.language.engine_texts import of_engine
from app.markdown.plain import plain_text
from app.tab_order import insert_before
from engine.protocol import Role

FOLD_LINES = 30
"""A prompt with more lines than this is folded."""
UNFOLD_LINES = 1500
"""Lines shown with every click after that: an attached file may have many."""
BUBBLE_MARGIN = 16


class Bubble(QWidget):
    """The rounded ground under a prompt."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.tokens(self).accent_fill)
        painter.drawRoundedRect(QRectF(self.rect()), 14, 14)


class MessageView(QWidget):
    """Follows a message by appending; ``refresh`` draws what has come since the last time."""

    regenerate_requested = Signal(object)
    continue_requested = Signal(object)
    edit_requested = Signal(object)
    version_requested = Signal(object, int)
    """The version before (-1) or after (+1) this one is to be shown."""
    copied = Signal()

    def __init__(self, message: ChatMessage, highlight: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message = message
        self._last_state: object = None
        self._stops = 0
        self.body = _body_of(message)
        self.body.set_highlight(highlight)
        self.versions = VersionSwitch()
        self.versions.stepped.connect(lambda step: self.version_requested.emit(self.message, step))
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(4)
        if message.role is Role.USER:
            self._build_prompt(outer)
        else:
            self._build_reply(outer)
        self.refresh()

    def _build_prompt(self, outer: QVBoxLayout) -> None:
        bubble = self._bubble = Bubble()
        inner = QVBoxLayout(bubble)
        inner.setContentsMargins(BUBBLE_MARGIN, 11, BUBBLE_MARGIN, 11)
        inner.setSpacing(0)
        inner.addWidget(self.body)
        self._more = QToolButton()
        self._more.setProperty("textRole", "small")
        self._more.setVisible(False)
        self._more.clicked.connect(self._unfold)
        inner.addWidget(self._more, 0, Qt.AlignmentFlag.AlignLeft)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(bubble, 6)
        outer.addLayout(row)
        self._edit = _small_button("edit", tr("Reply", "Edit this prompt"))
        self._edit.clicked.connect(lambda: self.edit_requested.emit(self.message))
        self._copy = _small_button("copy", tr("Reply", "Copy this prompt"))
        self._copy.clicked.connect(lambda: self._copy_text(self._copy, "copy", self.message.text))
        below = QHBoxLayout()
        below.setSpacing(2)
        below.addStretch(1)
        below.addWidget(self.versions)
        below.addWidget(self._copy)
        below.addWidget(self._edit)
        outer.addLayout(below)

    def _build_reply(self, outer: QVBoxLayout) -> None:
        name = self.message.model_name or tr("Reply", "Reply")
        self._name = QLabel(name)
        self._name.setTextFormat(Qt.TextFormat.PlainText)
        self._name.setProperty("textRole", "small")
        self._remarks: dict[str, QLabel] = {}
        outer.addWidget(self._name)
        outer.addWidget(self.body)
        self._remarks_place = QVBoxLayout()
        outer.addLayout(self._remarks_place)
        self._figures = _wrapped_label("small")
        self._footer = ReplyFooter(self._figures)
        self._copy = _small_button("copy", tr("Reply", "Copy this reply"))
        self._copy.clicked.connect(lambda: self._copy_text(self._copy, "copy", plain_text(self.answer)))
        self._copy_source = _small_button("markdown", tr("Reply", "Copy this reply as Markdown"))
        self._copy_source.clicked.connect(
            lambda: self._copy_text(self._copy_source, "markdown", self.answer)
        )
        self._again = _small_button("again", tr("Reply", "Write this reply again"))
        self._again.clicked.connect(lambda: self.regenerate_requested.emit(self.message))
        self._continue = _small_button("continue", tr("Reply", "Continue this reply"))
        self._continue.clicked.connect(lambda: self.continue_requested.emit(self.message))
        self._footer.buttons.add(self._copy, self._copy_source, self._again, self._continue, self.versions)
        outer.addWidget(self._footer)

    # ------------------------------------------------------------------ following the message

    def refresh(self) -> None:
        """Draw what is new, as one edit of the text."""
        message = self.message
        if message.role is Role.USER:
            if self._last_state is None:
                self._show_prompt()
            self._last_state = message.state
            return
        self.body.show_text(message.text, message.runs, message.is_running)
        self._keep_order()
        if self.body.thoughts is not None:
            sections = self.body.sections
            seconds = thought_seconds(message, sections.thought_start, sections.thought_end)
            self.body.thoughts.show_words(sections.thinking and message.is_running, seconds)
        if self._last_state != message.state or not message.text:
            self._last_state = message.state
            self._show_state()
        elif of_engine(message.notice) != self.remark("notice"):
            self._say("notice", "small", of_engine(message.notice))

    def _show_prompt(self, most: int = FOLD_LINES) -> None:
        lines = self.message.text.split("\n")
        folded = len(lines) > most + 5
        self.body.show_text("\n".join(lines[:most]) if folded else self.message.text)
        self._keep_order()
        self._lines = most
        self._more.setText(self._unfold_words(len(lines)))
        self._more.setVisible(folded)
        self._narrow()

    def _unfold_words(self, lines: int) -> str:
        if lines <= self._lines + UNFOLD_LINES:
            return tr_n("Reply", "Show {count} line", "Show all {count} lines", lines).format(
                count=numbers.whole(lines)
            )
        words = tr_n("Reply", "Show {some} of {count} line more", "Show {some} of {count} lines more", lines)
        return words.format(some=numbers.whole(UNFOLD_LINES), count=numbers.whole(lines))

    def _narrow(self) -> None:
        """A bubble no wider than its text."""
        metrics = self.body.fontMetrics()
        lines = self.body.plain_text().split("\n")
        widest = max(metrics.horizontalAdvance(line[:400]) for line in lines)
        self._bubble.setMaximumWidth(max(widest, self._more.sizeHint().width()) + 2 * BUBBLE_MARGIN + 4)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_bubble"):
            self._narrow()

    def _unfold(self) -> None:
        self._show_prompt(self._lines + UNFOLD_LINES)
        self.body.pieces()[0].setFocus()

    def _show_state(self) -> None:
        message = self.message
        problem = message.problem
        self._say(
            "state", "small", figures.progress(message) if message.is_running and not message.text else ""
        )
        said = f"{of_engine(problem.message)} {of_engine(problem.next_step)}".strip() if problem else ""
        self._say("problem", "error", said)
        self._say("notice", "small", of_engine(message.notice))
        self.body.setVisible(bool(message.text))
        self._footer.setVisible(not message.is_running)
        self._copy.setVisible(bool(message.text))
        self._copy_source.setVisible(bool(message.text))
        if message.stats is not None:
            self._figures.setText(figures.line(figures.summary(message.stats, message.reason)))
            self._figures.setToolTip(figures.details(message.stats))
        elif not message.is_running:
            parts = figures.live(message.live) if message.text else []
            reason = [figures.reason(message.reason)] if message.reason is not None else []
            self._figures.setText(figures.line([*parts, *reason]))

    def _say(self, name: str, role: str, text: str) -> None:
        """A remark under the text; its label is made when there is something to say."""
        label = self._remarks.get(name)
        if label is None:
            if not text:
                return
            label = self._remarks[name] = _wrapped_label(role)
            self._remarks_place.addWidget(label)
        label.setText(text)
        label.setVisible(bool(text))

    def remark(self, name: str) -> str:
        """What is said under the text: "state", "problem" or "notice"."""
        label = self._remarks.get(name)
        return label.text() if label is not None and not label.isHidden() else ""

    def set_can_regenerate(self, can: bool) -> None:
        """Only the last reply can be written again, and only while nothing else runs."""
        if self.message.role is not Role.USER:
            self._again.setVisible(can)
            self._continue.setVisible(can and bool(self.message.text))

    def set_versions(self, place: int, count: int, free: bool) -> None:
        """Which version this is; ``free``: nothing is being written, so that it can be changed."""
        self.versions.show_versions(place, count, free)
        if self.message.role is Role.USER:
            self._edit.setEnabled(free)

    def _keep_order(self) -> None:
        """The text is built bit by bit; Tab goes through all of it before what stands below."""
        stops = self.body.stops()
        if len(stops) != self._stops:
            self._stops = len(stops)
            insert_before(self._more if self.message.role is Role.USER else self._copy, stops)

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here, from top to bottom."""
        switch = [self.versions.before, self.versions.after]
        if self.message.role is Role.USER:
            return [*self.body.stops(), self._more, *switch, self._copy, self._edit]
        return [*self.body.stops(), self._copy, self._copy_source, self._again, self._continue, *switch]

    # ------------------------------------------------------------------ actions

    @property
    def answer(self) -> str:
        """The message as written, without the thoughts before it."""
        return self.message.text[self.body.sections.answer_start :].strip()

    def _copy_text(self, button: QToolButton, icon: str, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        icons.dress(button, "check", "accepted", self.palette())
        QTimer.singleShot(1200, button, lambda: icons.dress(button, icon, "muted", self.palette()))
        self.copied.emit()


def _body_of(message: ChatMessage) -> MessageBody:
    if message.role is Role.USER:
        return MessageBody(tr("Reply", "Your prompt"), literal=True)
    model = message.model_name
    if not model:
        return MessageBody(tr("Reply", "Reply of the model"))
    thoughts = tr("Reply", "Thoughts of {model}").format(model=model)
    return MessageBody(tr("Reply", "Reply of {model}").format(model=model), thoughts=thoughts)


def _wrapped_label(role: str) -> QLabel:
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setProperty("textRole", role)
    label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def _small_button(icon: str, name: str) -> QToolButton:
    button = QToolButton()
    button.setProperty("look", "small")
    icons.dress(button, icon, "muted")
    button.setToolTip(name)
    button.setAccessibleName(name)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return button
