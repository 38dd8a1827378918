"""The panel that shows the draft tree behind every token.

It receives every step of a reply and draws the newest one, at most 60 times a second: frames
are skipped, never queued. While it is hidden it only keeps the steps. Paused, it holds one step
and goes on receiving, and the user walks through what came.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QHideEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from app.tree_panel.description import step_label
from app.tree_panel.face import PanelFace
from app.tree_panel.history import ReplyHistory
from engine.protocol import Finished, Mode, Step

FRAME_MS = 17
"""Shortest time between two frames: just under 60 a second."""
SLOWEST_FRAME_MS = 136
TABLE_FRAME_MS = 250
"""The same while the table is shown: rows that change faster can be neither read nor read out."""
CALM_FRAME_MS = 500
"""The same with reduced motion."""
FRAME_BUDGET = 0.008
"""Seconds. A frame that takes longer doubles the time to the next."""
REPLIES_KEPT = 6
"""Replies whose steps can still be looked at; the oldest is forgotten."""
TREE_BYTES = 32 * 2**20
"""Bound of the trees kept of one reply."""

NO_REPLY = "No reply yet.\nSend a message, and the draft tree behind every token grows here."
READING = "Reading the prompt…"
NOTHING_CAME = "The reply ended before its first token."
PROMPT_NOTE = "The target read the prompt and chose this token by itself. Guessing starts from it."
PLAIN_NOTE = (
    "EAGLE is off: one token per step. Nothing is guessed, so there is no tree; "
    "the timeline below still shows every step."
)
NO_GUESS_NOTE = "Nothing was guessed in this step."
DROPPED_NOTE = "The tree of this early step was given up to save memory; its token and figures are kept."


class TreePanel(PanelFace):
    """Draft tree, figures and charts of one reply at a time."""

    step_selected = Signal(str, int)
    """Request id and step number when the user goes to a step; -1 when the reply is followed again."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._histories: OrderedDict[str, ReplyHistory] = OrderedDict()
        self._shown: ReplyHistory | None = None
        self._position = -1
        self._live = True
        self._ended = False
        self._dirty = False
        self._interval = FRAME_MS
        self._calm = False
        self._last_frame = 0.0
        self._recalling: tuple[ReplyHistory, Iterator[list[Step]]] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._frame)
        self.transport.position_requested.connect(self.go_to)
        self.transport.live_requested.connect(self._live_requested)
        self.timeline.position_clicked.connect(self.go_to)
        self.table_button.toggled.connect(self._table_toggled)
        self._show_empty(NO_REPLY)

    # ------------------------------------------------------------------ what comes in

    @property
    def request_id(self) -> str | None:
        """The reply that is shown."""
        return self._shown.request_id if self._shown is not None else None

    @property
    def history(self) -> ReplyHistory | None:
        return self._shown

    @property
    def is_live(self) -> bool:
        """Whether the newest step is followed."""
        return self._live

    @property
    def position(self) -> int:
        """Position of the step that is shown, -1 while there is none."""
        return self._position

    def begin_reply(self, request_id: str, goes_on: bool = False) -> None:
        """Start to show a new reply and follow it, whatever was looked at before.

        ``goes_on``: it is an earlier one that is continued; its steps stay if they are still there.
        """
        known = self._histories.pop(request_id, None)
        if goes_on and known is not None and len(known):
            known.finished = None
            self._histories[request_id] = known
            self._look_at(known)
            self._live = True
            self._changed(whole=True)
            return
        while len(self._histories) >= REPLIES_KEPT:
            self._histories.popitem(last=False)
        self._histories[request_id] = ReplyHistory(request_id, TREE_BYTES)
        self._look_at(self._histories[request_id])
        self._live = True
        self._show_empty(READING)

    def add_step(self, step: Step) -> None:
        """Keep a step; draw it at the next frame if its reply is followed. Other replies are ignored."""
        history = self._histories.get(step.request_id)
        if history is None or history.finished is not None:
            return
        history.add(step)
        if history is self._shown:
            self._changed()

    def finish_reply(self, finished: Finished) -> None:
        """The reply is complete: its last step and the engine's own figures are shown."""
        history = self._histories.get(finished.request_id)
        if history is None:
            return
        history.finish(finished)
        if history is self._shown:
            self._end()

    def fail_reply(self, request_id: str) -> None:
        """The reply broke off; what came of it can still be walked through."""
        if self.request_id == request_id:
            self._end()

    def clear(self) -> None:
        """Forget every reply, for instance when another chat is opened."""
        self._histories.clear()
        self._look_at(None)
        self._live = True
        self._show_empty(NO_REPLY)

    def show_step(self, request_id: str, index: int | None = None) -> bool:
        """Show a step of a reply that is still kept, the last one by default.

        Returns False when the reply or the step is not known (any more).
        """
        history = self._histories.get(request_id)
        if history is None or not len(history):
            return False
        position = len(history) - 1 if index is None else history.position_of(index)
        if position is None:
            return False
        if history is not self._shown:
            self._look_at(history)
            self._ended = history.finished is not None
        self._live = False
        self._position = position
        self._changed(whole=True)
        return True

    def recall(self, request_id: str, steps: Iterator[list[Step]]) -> bool:
        """Show a stored reply, whose steps :meth:`recall_more` reads some at a time.

        Returns whether there are any.
        """
        history = ReplyHistory(request_id, TREE_BYTES)
        first = next(steps, None)
        if not first:
            return False
        for step in first:
            history.add(step)
        while len(self._histories) >= REPLIES_KEPT:
            self._histories.popitem(last=False)
        self._histories[request_id] = history
        self._recalling = (history, steps)
        return self.show_step(request_id)

    def recall_more(self) -> bool:
        """Read some more of the steps; false when there are no more, or they are not wanted any more."""
        if self._recalling is None:
            return False
        history, steps = self._recalling
        more = next(steps, None) if self._histories.get(history.request_id) is history else None
        if more is None:
            self._recalling = None
            if history is self._shown:
                self._ended = True
                self._changed(whole=True)
            return False
        follow = self._shown is history and self._position == len(history) - 1
        for step in more:
            history.add(step)
        if follow:
            self._position = len(history) - 1
        if self._shown is history:
            self._changed()
        return True

    def set_calm(self, calm: bool) -> None:
        """Reduced motion: draw twice a second at most."""
        self._calm = calm

    def _look_at(self, history: ReplyHistory | None) -> None:
        self._timer.stop()
        self._shown = history
        self._position = -1
        self._ended = False
        self._dirty = False

    def _end(self) -> None:
        self._ended = True
        assert self._shown is not None
        if not len(self._shown):
            self._show_empty(NOTHING_CAME)
        else:
            self._changed(whole=True)

    # ------------------------------------------------------------------ walking through it

    @Slot(int)
    def go_to(self, position: int) -> None:
        """Hold the step at ``position`` (kept within what came); new steps are still received."""
        if self._shown is None or not len(self._shown):
            return
        position = min(max(position, 0), len(self._shown) - 1)
        moved = position != self._position or self._live
        self._live = False
        self._position = position
        self._changed(whole=True)
        if moved:
            self.step_selected.emit(self._shown.request_id, self._shown.step(position).index)

    def pause(self) -> None:
        """Hold the step that is shown."""
        if self._live and self._shown is not None and len(self._shown):
            # What was on screen is held, not a step that came since and was never drawn.
            self.go_to(self._position if self._position >= 0 else len(self._shown) - 1)

    def resume(self) -> None:
        """Follow the reply again."""
        if self._live or self._shown is None:
            return
        self._live = True
        self._changed(whole=True)
        self.step_selected.emit(self._shown.request_id, -1)

    @Slot(bool)
    def _live_requested(self, live: bool) -> None:
        if live:
            self.resume()
        else:
            self.pause()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {
            Qt.Key.Key_Left: self._position - 1,
            Qt.Key.Key_Right: self._position + 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: len(self._shown) - 1 if self._shown is not None else 0,
        }
        plain = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier == Qt.KeyboardModifier.NoModifier
        key = Qt.Key(event.key())
        if plain and key in steps:
            self.go_to(steps[key])
        elif plain and key == Qt.Key.Key_Space:
            if not self._ended:
                self._live_requested(not self._live)
        else:
            super().keyPressEvent(event)

    # ------------------------------------------------------------------ frames

    def _awake(self) -> bool:
        return self.isVisible() and not self.window().isMinimized()

    def _changed(self, whole: bool = False) -> None:
        """Something new is to be drawn; ``whole`` when the user waits for it."""
        self._dirty = True
        if not self._awake():
            return
        if whole:
            self._timer.stop()
            self._frame()
        elif not self._timer.isActive():
            since = (time.perf_counter() - self._last_frame) * 1000
            least = TABLE_FRAME_MS if self.stack.currentWidget() is self.table else 0
            least = max(least, CALM_FRAME_MS) if self._calm else least
            self._timer.start(max(0, round(max(self._interval, least) - since)))

    @Slot()
    def _frame(self) -> None:
        """Draw the newest state."""
        history = self._shown
        if not self._dirty or history is None or not len(history):
            return
        begun = time.perf_counter()
        self._dirty = False
        newest = len(history) - 1
        held = not self._live and self.view.step is not None and self._drawn() == self._position
        if self._live:
            self._position = newest
        if not held or self._ended:
            self._show_step(history, self._position)
        figures = history.figures(self._position)
        self.timeline.show_history(history, self._position)
        self.transport.show_state(
            self._position, newest + 1, live=self._live, finished=self._ended, label=step_label(figures)
        )
        if not self._live or self._ended:
            self._describe()
        self._last_frame = time.perf_counter()
        # Painting comes later, so the last one stands for it. What is spent here the engine may miss.
        cost = self._last_frame - begun + self.view.paint_seconds + self.timeline.paint_seconds
        if cost > FRAME_BUDGET:
            self._interval = min(self._interval * 2, SLOWEST_FRAME_MS)
        elif self._interval > FRAME_MS:
            self._interval = max(self._interval // 2, FRAME_MS)

    def _drawn(self) -> int | None:
        """Position of the step in the view, if it is one of the reply that is shown."""
        step = self.view.step
        if step is None or self._shown is None or step.request_id != self._shown.request_id:
            return None
        return self._shown.position_of(step.index)

    def _show_step(self, history: ReplyHistory, position: int) -> None:
        step = history.step(position)
        figures = history.figures(position)
        self.view.show_step(step, self._note(history, position, step))
        if self.stack.currentWidget() is self.table:
            self.table.step_model.show_step(step)
        self.figures.show_figures(figures)
        self.times.show_times(step.times)
        self.depths.show_levels(history.acceptance_by_depth(position))

    @staticmethod
    def _note(history: ReplyHistory, position: int, step: Step) -> str:
        if step.nodes:
            return ""
        if step.index == 0:
            return PROMPT_NOTE
        if history.dropped_tree(position) and step.mode is not Mode.PLAIN:
            return DROPPED_NOTE
        return PLAIN_NOTE if step.mode is Mode.PLAIN else NO_GUESS_NOTE

    def _describe(self) -> None:
        """Bring the words for screen readers up to date; not done at every live frame."""
        self.view.describe()
        self.depths.describe()
        self.timeline.describe()

    def _show_empty(self, message: str) -> None:
        self.view.show_message(message)
        self.table.step_model.show_step(None)
        self.figures.clear()
        self.times.show_times(None)
        self.depths.show_levels(())
        self.timeline.show_history(None, -1)
        self.transport.show_state(-1, 0, live=True, finished=self._ended, label="")
        self._describe()

    # ------------------------------------------------------------------ showing and hiding

    @Slot(bool)
    def _table_toggled(self, table: bool) -> None:
        if table:
            self.table.step_model.show_step(self.view.step)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._dirty:
            self._changed()

    def hideEvent(self, event: QHideEvent) -> None:
        self._timer.stop()
        super().hideEvent(event)
