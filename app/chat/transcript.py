"""The messages of one chat, one under the other, following the newest.

Views are made for the last messages only, a few at once and the others when there
is time; older ones appear on demand, and the text of each is built when it comes near to
being seen. Changes of a message mark its view; :meth:`Transcript.flush` draws all marked
views, once per batch of events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QHelpEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QPushButton,
    QScrollArea,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from app.chat.anchor import Anchor
from app.chat.column import MessageColumn
from app.chat.conversation import Chat, ChatMessage
from app.chat.jump_button import JumpButton
from app.chat.link_dialog import LinkDialog
from app.chat.message_text import MessageText
from app.chat.message_view import MessageView
from app.language import numbers, tr, tr_n
from app.markdown import colouring
from app.tab_order import in_order
from app.tool_tip import letter_for_letter

FIRST = 8
"""Messages made at once when a chat is opened."""
CHUNK = 2
"""Messages made at each turn of the event loop after that."""
PAGE = 40
"""Messages shown at once; as many more with each "earlier messages"."""
CALM_SECONDS = 0.35
"""Time between two additions of text with reduced motion."""
MARGIN = 0.6
"""Texts are built that are this many heights of the window from being seen."""
LINE_CHARACTERS = 92
"""Widest line of text, in average characters: longer ones are hard to read."""


class Transcript(QScrollArea):
    """Scrolls a chat's messages."""

    regenerate_requested = Signal(object)
    continue_requested = Signal(object)
    edit_requested = Signal(object)
    version_requested = Signal(object, int)
    """Message, and -1 or +1: the version before or after it is to be shown."""
    step_clicked = Signal(str, int, int)
    """A token was clicked: request id, step, and its place in the step's text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chat: Chat | None = None
        self._first = 0
        self._goal = 0
        self._anchor: Anchor | None = None
        self._views: dict[str, MessageView] = {}
        self._dirty: dict[str, MessageView] = {}
        self._unsubscribe: list[Callable[[], None]] = []
        self._highlight = True
        self._busy = self._writing = False
        self._follow = True
        self._calm = False
        self._drawn = 0.0
        self._calm_timer = QTimer(self)
        self._calm_timer.setSingleShot(True)
        self._calm_timer.timeout.connect(self.flush)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(tr("Reply", "Conversation"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._column = MessageColumn()
        self._layout = QVBoxLayout(self._column)
        self._layout.setSpacing(22)
        self._earlier = QPushButton()
        self._earlier.clicked.connect(self._show_earlier)
        self._layout.addWidget(self._earlier, 0, Qt.AlignmentFlag.AlignHCenter)
        self._layout.addStretch(1)
        self.setWidget(self._column)
        self._builder = QTimer(self)
        self._builder.setInterval(0)
        self._builder.timeout.connect(self._build_more)
        # Loading what colours code takes a moment that the first code would have to wait for.
        threading.Thread(target=colouring.warm_up, name="code-colours", daemon=True).start()
        self._realiser = QTimer(self)
        self._realiser.setSingleShot(True)
        self._realiser.setInterval(0)
        self._realiser.timeout.connect(self.realise)
        self._jump = JumpButton(self)
        self._jump.clicked.connect(self.follow)
        bar = self.verticalScrollBar()
        bar.rangeChanged.connect(self._on_range)
        bar.valueChanged.connect(self._on_value)

    # ------------------------------------------------------------------ content

    @property
    def chat(self) -> Chat | None:
        return self._chat

    def stops(self) -> list[QWidget]:
        """Where Tab stops, but for the messages, which put themselves behind the second."""
        return [self, self._earlier, self._jump]

    def view_of(self, message: ChatMessage) -> MessageView | None:
        return self._views.get(message.id)

    def set_chat(self, chat: Chat) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._clear()
        self._chat = chat
        self._first = max(0, len(chat.messages) - FIRST)
        self._goal = max(0, len(chat.messages) - PAGE)
        self._unsubscribe = [chat.changed.subscribe(lambda _: self._sync())]
        self._sync()
        self._builder.start()
        self.follow()

    def set_highlight(self, visible: bool) -> None:
        self._highlight = visible
        for view in self._views.values():
            view.body.set_highlight(visible)

    def set_busy(self, busy: bool, writing: bool = False) -> None:
        """``busy``: no reply can be asked for. ``writing``: one of this chat grows, so its versions stay."""
        self._busy, self._writing = busy, writing
        self._update_actions()

    def set_calm(self, calm: bool) -> None:
        """Reduced motion: new text appears a few times a second."""
        self._calm = calm

    def flush(self) -> None:
        """Draw every message that has changed."""
        if self._calm and any(view.message.is_running for view in self._dirty.values()):
            wait = CALM_SECONDS - (time.perf_counter() - self._drawn)
            if wait > 0:
                # Nothing may follow to bring the last of it.
                if not self._calm_timer.isActive():
                    self._calm_timer.start(round(wait * 1000) + 1)
                return
        self._drawn = time.perf_counter()
        dirty, self._dirty = self._dirty, {}
        for view in dirty.values():
            view.refresh()
        if dirty:
            self._build_seen()

    def realise(self) -> None:
        """Build the texts that are seen, or nearly."""
        if not self.isVisible():
            return
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        self._build_seen()

    def _build_seen(self) -> None:
        bar, height = self.verticalScrollBar(), self.viewport().height()
        margin = round(height * MARGIN)
        top, bottom = bar.value() - margin, bar.value() + height + margin
        built = False
        for view in reversed(self._views_in_order()):
            body = view.body
            place = body.mapTo(self._column, QPoint(0, 0)).y()
            if place + body.height() < top:
                break
            if place <= bottom and not body.isHidden():
                built = body.realise(top - place, bottom - place) or built
        if built:
            # Heights have changed: stay where we are before anything is painted, and look again.
            QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
            self._stay()
            self._realiser.start()

    def _views_in_order(self) -> list[MessageView]:
        messages = self._chat.messages[self._first :] if self._chat is not None else []
        return [self._views[each.id] for each in messages if each.id in self._views]

    def point_at(self, request_id: str, step: int | None, part: tuple[int, int] | None = None) -> bool:
        """Mark the tokens of a step; ``False`` when that reply is not shown.

        ``part`` is where one of its tokens stands in the step's text; it is marked more strongly.
        """
        found = False
        for view in self._views.values():
            mine = view.message.request_id == request_id and bool(request_id)
            stretch = view.message.step_range(step) if mine and step is not None and part is not None else None
            if stretch is not None and part is not None:
                view.body.point_at(step, (stretch[0] + part[0], stretch[0] + part[1]))
            else:
                view.body.point_at(step if mine else None)
            found = found or mine
        return found

    def _on_token(self, message: ChatMessage, step: int, place: int) -> None:
        stretch = message.step_range(step)
        self.step_clicked.emit(message.request_id, step, place - stretch[0] if stretch is not None else 0)

    def show_message(self, message: ChatMessage) -> None:
        """Scroll to a message of this chat, making the views down to it first."""
        assert self._chat is not None
        if message not in self._chat.messages:
            return
        self._follow = False
        self._first = min(self._first, self._chat.messages.index(message))
        self._goal = min(self._goal, self._first)
        self._sync()
        QTimer.singleShot(0, self, lambda: self._scroll_to(message))

    def _scroll_to(self, message: ChatMessage) -> None:
        view = self._views.get(message.id)
        if view is not None:
            self._column.layout().activate()  # type: ignore[union-attr]
            self._follow = False
            self.verticalScrollBar().setValue(max(0, view.y() - self.viewport().height() // 6))

    def _clear(self) -> None:
        for view in self._views.values():
            view.hide()
            view.deleteLater()
        self._views.clear()
        self._dirty.clear()
        self._anchor = None

    def _sync(self) -> None:
        """Make the views match the chat's messages: some were added or cut off."""
        assert self._chat is not None
        wanted = self._chat.messages[self._first :]
        ids = {message.id for message in wanted}
        for gone in [key for key in self._views if key not in ids]:
            view = self._views.pop(gone)
            self._dirty.pop(gone, None)
            self._anchor = None
            view.hide()
            view.deleteLater()
        for place, message in enumerate(wanted):
            if message.id not in self._views:
                view = self._make_view(message)
                self._layout.insertWidget(place + 1, view)
                before = self._views[wanted[place - 1].id].stops()[-1] if place else self._earlier
                in_order([before, *view.stops()])
            elif message.is_running and not len(message.changed):
                self._watch(message)  # it is being continued
                self._mark(message)
        self._earlier.setVisible(0 < self._first <= self._goal)
        more = min(PAGE, self._first)
        words = tr_n("Reply", "Show {count} earlier message", "Show {count} earlier messages", more)
        self._earlier.setText(words.format(count=numbers.whole(more)))
        self._update_actions()
        self._realiser.start()

    def _make_view(self, message: ChatMessage) -> MessageView:
        view = MessageView(message, self._highlight)
        view.regenerate_requested.connect(self.regenerate_requested)
        view.continue_requested.connect(self.continue_requested)
        view.edit_requested.connect(self.edit_requested)
        view.version_requested.connect(self.version_requested)
        view.body.step_clicked.connect(lambda step, place: self._on_token(message, step, place))
        view.body.position_shown.connect(self._reveal)
        view.body.link_clicked.connect(self._ask_to_open)
        self._views[message.id] = view
        self._watch(message)
        return view

    def _watch(self, message: ChatMessage) -> None:
        if message.is_running:
            self._unsubscribe.append(message.changed.subscribe(self._mark))

    def _mark(self, message: ChatMessage) -> None:
        view = self._views.get(message.id)
        if view is not None:
            self._dirty[message.id] = view

    def _update_actions(self) -> None:
        last = self._chat.messages[-1] if self._chat is not None and self._chat.messages else None
        for view in self._views.values():
            view.set_can_regenerate(view.message is last and not self._busy)
            if self._chat is not None:
                view.set_versions(*self._chat.versions(view.message), not self._writing)

    def _show_earlier(self) -> None:
        self._follow = False
        self._goal = max(0, self._first - PAGE)
        self._builder.start()

    def _build_more(self) -> None:
        """Add a few older messages above, without moving what is in view."""
        if self._first <= self._goal:
            self._builder.stop()
            return
        self._first = max(self._goal, self._first - CHUNK)
        self._sync()

    def _ask_to_open(self, address: str) -> None:
        """Nothing that a model wrote is opened without a question."""
        LinkDialog(address, self.window()).open()

    # ------------------------------------------------------------------ scrolling

    @property
    def follows(self) -> bool:
        """Whether the end stays in view while text comes in."""
        return self._follow

    def follow(self) -> None:
        self._follow = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._place_jump()

    def _on_range(self, _low: int, high: int) -> None:
        if self._follow:
            self.verticalScrollBar().setValue(high)
        else:
            self._stay()
            QTimer.singleShot(0, self, self._stay)
        self._realiser.start()
        self._place_jump()

    def _stay(self) -> None:
        """Keep in place what is read, whatever was made above it."""
        anchor, bar = self._anchor, self.verticalScrollBar()
        widget = anchor.widget if anchor is not None else None
        if self._follow or anchor is None or widget is None:
            return
        value = anchor.value(self._top(widget))
        if value != bar.value():
            bar.setValue(value)
            self._anchor = anchor

    def _on_value(self, value: int) -> None:
        self._follow = self.verticalScrollBar().maximum() - value <= self.fontMetrics().height()
        self._anchor = None
        for view in self._views_in_order():
            if self._top(view) + view.height() > value:
                # A piece of a long text rather than the message: what is above it may change as well.
                piece = next((each for each in view.body.pieces() if self._top(each) + each.height() > value), None)
                held: QWidget = piece if piece is not None else view
                self._anchor = Anchor(held, self._top(held) - value, self.viewport().height())
                break
        self._realiser.start()
        self._place_jump()

    def _top(self, widget: QWidget) -> int:
        return widget.mapTo(self._column, QPoint(0, 0)).y()

    def _reveal(self, piece: QWidget, area: QRect) -> None:
        self._column.layout().activate()  # type: ignore[union-attr]
        top = piece.mapTo(self._column, QPoint(area.topLeft())).y()
        bar = self.verticalScrollBar()
        if not bar.value() <= top <= bar.value() + self.viewport().height() - area.height():
            bar.setValue(top - self.viewport().height() // 3)

    def _place_jump(self) -> None:
        self._jump.place(not self._follow and bool(self._views))

    def event(self, event: QEvent) -> bool:
        """Say of the token under the pointer where it came from; texts pass their tool tips on to here."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            under = QApplication.widgetAt(event.globalPos())
            body = under.parentWidget() if under is not None else None
            if under is not None and isinstance(body, MessageText):
                words = body.explain(under.mapFromGlobal(event.globalPos()))
                if words:
                    QToolTip.showText(event.globalPos(), letter_for_letter(words), under)
                    return True
        return super().event(event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._realiser.start()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        widest = self.fontMetrics().averageCharWidth() * LINE_CHARACTERS
        side = max(22, (self.viewport().width() - widest) // 2)
        self._layout.setContentsMargins(side, 26, side, 26)
        if self._follow:
            self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._realiser.start()
        self._place_jump()
