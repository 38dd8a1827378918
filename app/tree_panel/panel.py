"""The panel that shows the draft tree behind every token.

It receives every step of a reply and draws the newest one, at most 60 times a second: frames
are skipped, never queued. While it is hidden it only keeps the steps. Paused, it holds one step
and goes on receiving, and the user walks through what came.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QHideEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.language.engine_texts import of_engine
from app.tree_panel.description import step_label
from app.tree_panel.explanation import NO_REPLY, NOTHING_CAME, READING, note_of
from app.tree_panel.exports import Source
from app.tree_panel.face import PanelFace
from app.tree_panel.figure import Look
from app.tree_panel.history import Figures, ReplyHistory
from app.tree_panel.jumps import item_in_picture, place_in_text
from app.tree_panel.pacer import FramePacer
from app.tree_panel.shelf import ReplyShelf
from engine.protocol import Calibration, Finished, MethodInfo, Step

TABLE_FRAME_MS = 250
"""Shortest time between two frames while the table is shown: rows that change faster can be neither
read nor read out."""
CALM_FRAME_MS = 500
"""The same with reduced motion."""
FIGURES_MS = 120
"""Shortest time between two changes of the numbers and charts of a live reply: they can be read no faster, and
cost more than the tree."""


class TreePanel(PanelFace):
    """Draft tree, figures and charts of one reply at a time."""

    step_selected = Signal(str, int)
    """Request id and step number when the user goes to a step; -1 when the reply is followed again."""
    token_selected = Signal(str, int, int, int)
    """Request id, step number, and where in that step's text the token stands that was clicked."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shelf = ReplyShelf()
        self._shown: ReplyHistory | None = None
        self._position = -1
        self._live = True
        self._ended = False
        self._dirty = False
        self._calm = False
        self._whole = True
        """Everything is drawn at the next frame, whenever the figures were drawn last."""
        self._told = 0.0
        self.pacer = FramePacer(self._frame, self)
        self.transport.position_requested.connect(self.go_to)
        self.transport.live_requested.connect(self._live_requested)
        self.timeline.position_clicked.connect(self.go_to)
        self.table_button.toggled.connect(self._table_toggled)
        self.view.token_clicked.connect(self._token_clicked)
        self.table.item_chosen.connect(self._token_clicked)
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
        history = self._shelf.begin(request_id, goes_on)
        self._look_at(history)
        self._live = True
        if len(history):
            self._changed(whole=True)
        else:
            self._show_empty(READING)

    def add_step(self, step: Step) -> None:
        """Keep a step; draw it at the next frame if its reply is followed. Other replies are ignored."""
        history = self._shelf.get(step.request_id)
        if history is None or history.finished is not None:
            return
        history.add(step)
        if history is self._shown:
            self._changed()

    def finish_reply(self, finished: Finished) -> None:
        """The reply is complete: its last step and the engine's own figures are shown."""
        history = self._shelf.get(finished.request_id)
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
        self._shelf.clear()
        self._look_at(None)
        self._live = True
        self._show_empty(NO_REPLY)

    def show_step(self, request_id: str, index: int | None = None, offset: int | None = None) -> bool:
        """Show a step of a reply that is still kept, the last one by default.

        ``offset`` marks the token with that character of the step's text. Returns False when the
        reply or the step is not known (any more).
        """
        history = self._shelf.get(request_id)
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
        if offset is not None:
            self._mark(item_in_picture(history.step(position), offset))
        return True

    def recall(self, request_id: str, steps: Iterator[list[Step]]) -> bool:
        """Show a stored reply, whose steps :meth:`recall_more` reads some at a time.

        Returns whether there are any.
        """
        return self._shelf.recall(request_id, steps) and self.show_step(request_id)

    def recall_more(self) -> bool:
        """Read some more of the steps; false when there are no more, or they are not wanted any more."""
        history = self._shelf.reading
        follow = history is not None and self._shown is history and self._position == len(history) - 1
        if not self._shelf.read_more():
            if history is not None and history is self._shown:
                self._ended = True
                self._changed(whole=True)
            return False
        if history is not None and history is self._shown:
            if follow:
                self._position = len(history) - 1
            self._changed()
        return True

    def set_methods(self, methods: Sequence[MethodInfo]) -> None:
        """The methods of the loaded model: what they are called and how they explain themselves."""
        self.heading.set_methods(methods)

    def show_calibration(self, calibration: Calibration | None) -> None:
        """What was measured on this machine, and which size of draft was chosen; None: nothing is."""
        self.calibration.show_calibration(calibration)

    def set_calm(self, calm: bool) -> None:
        """Reduced motion: draw twice a second at most."""
        self._calm = calm

    def _look_at(self, history: ReplyHistory | None) -> None:
        self.pacer.stop()
        self._shown = history
        self._position = -1
        self._ended = False
        self._dirty = False
        self._whole = True
        self.heading.show_step(None)

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
        self._whole = self._whole or whole
        if not self._awake():
            return
        if whole:
            self.pacer.now()
        else:
            least = TABLE_FRAME_MS if self.stack.currentWidget() is self.table else 0
            self.pacer.soon(max(least, CALM_FRAME_MS) if self._calm else least)

    @Slot()
    def _frame(self) -> None:
        """Draw the newest state."""
        history = self._shown
        if not self._dirty or history is None or not len(history):
            return
        begun = time.perf_counter()
        held = not self._live and self.view.step is not None and self._drawn() == self._position
        if self._live:
            self._position = len(history) - 1
        step = self.view.step
        if not held or self._ended:
            step = history.step(self._position)
            if self._whole or step != self.view.step:
                self.view.show_step(step, note_of(history, self._position, step))
                if self.stack.currentWidget() is self.table:
                    self.table.step_model.show_step(step)
        painted = self.view.paint_seconds
        tell = self._whole or not self._live or (begun - self._told) * 1000 >= FIGURES_MS
        self._dirty = not tell
        if tell:
            self._told, self._whole = begun, False
            self._tell(history, None if held and not self._ended else step)
            painted += self.timeline.paint_seconds
        # Painting comes later, so the last one stands for it. What is spent here the engine may miss.
        self.pacer.drew(time.perf_counter() - begun + painted)
        if not tell:
            self.pacer.soon(FIGURES_MS)

    def _tell(self, history: ReplyHistory, step: Step | None) -> None:
        """Bring numbers and charts up to date; ``step`` is ``None`` where the one that is shown stays."""
        position = self._position
        figures = history.figures(position)
        if step is not None:
            self._show_figures(history, step, figures)
        else:
            self.figures.show_figures(figures)  # of the same step, but the reply has more by now
        self.timeline.show_history(history, position)
        self.transport.show_state(
            position, len(history), live=self._live, finished=self._ended, label=step_label(figures)
        )
        if not self._live or self._ended:
            self._describe()

    def _drawn(self) -> int | None:
        """Position of the step in the view, if it is one of the reply that is shown."""
        step = self.view.step
        if step is None or self._shown is None or step.request_id != self._shown.request_id:
            return None
        return self._shown.position_of(step.index)

    def _show_figures(self, history: ReplyHistory, step: Step, figures: Figures) -> None:
        position = self._position
        self.figures.show_figures(figures)
        self.times.show_times(step.times)
        self.depths.show_levels(history.acceptance_by_depth(position))
        self.heading.show_step(step)
        notice = history.notice_at(position)
        self.notice.say(
            tr("Panel", "Since step {step}: {notice}").format(step=notice[0], notice=of_engine(notice[1]))
            if notice is not None
            else ""
        )

    def _describe(self) -> None:
        """Bring the words for screen readers up to date; not done at every live frame."""
        self.view.describe()
        self.depths.describe()
        self.timeline.describe()

    def _show_empty(self, message: str) -> None:
        self.view.show_message(tr("Panel", message))
        self.notice.say("")
        self.table.step_model.show_step(None)
        self.figures.clear()
        self.times.show_times(None)
        self.depths.show_levels(())
        self.timeline.show_history(None, -1)
        self.transport.show_state(-1, 0, live=True, finished=self._ended, label="")
        self._describe()

    @Slot(bool)
    def _table_toggled(self, table: bool) -> None:
        if table:
            self.table.step_model.show_step(self.view.step)

    # ------------------------------------------------------------------ tokens and files

    def exported(self) -> Source | None:
        """The reply that is shown, as it is now."""
        if self._shown is None or not len(self._shown):
            return None
        position = self._position if self._position >= 0 else len(self._shown) - 1
        look = Look.of(self.font(), self.palette())
        return Source(self._shown.frozen(), position, look, self.heading.method_name)

    @Slot(int)
    def _token_clicked(self, number: int) -> None:
        """Mark a token here and ask for it to be shown in the text."""
        history, position = self._shown, self._drawn()
        if history is None or position is None:
            return
        place = place_in_text(history, position, number)
        if self._live:
            self.pause()
        self._mark(number)
        if place is not None:
            self.token_selected.emit(history.request_id, place.index, place.begin, place.end)

    def _mark(self, number: int | None) -> None:
        self.view.point_at(number)
        if self.stack.currentWidget() is self.table and number is not None:
            self.table.selectRow(number)

    # ------------------------------------------------------------------ showing and hiding

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._dirty:
            self._changed()

    def hideEvent(self, event: QHideEvent) -> None:
        self.pacer.stop()
        super().hideEvent(event)
