"""One step as a picture that speaks for itself: heading, what was emitted, the drawing and its legend.

Needs no widget, so a worker thread can paint with one of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPalette

from app import theme
from app.language import tr
from app.language.engine_texts import of_engine
from app.language.numbers import decimal
from app.tree_panel.description import step_label, summary
from app.tree_panel.explanation import note_of
from app.tree_panel.history import Figures, ReplyHistory
from app.tree_panel.legend import Entry, entries, paint_entries
from app.tree_panel.picture import StepPicture
from engine.protocol import Shape

MARGIN = 20.0
GAP = 10.0
NARROWEST = 520.0
"""Least width, so that headings do not break into many lines."""
_WRAPPED = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop) | int(Qt.TextFlag.TextWordWrap)


@dataclass(frozen=True, slots=True)
class Look:
    """Font and colours of a picture."""

    font: QFont
    palette: QPalette

    @classmethod
    def of(cls, font: QFont, palette: QPalette) -> Look:
        """The same at a size in pixels: points mean something else on every kind of paper."""
        made = QFont(font)
        made.setPixelSize(14)
        return cls(made, QPalette(palette))


class StepFigure:
    """Laid out for one step at a time; ``width`` and ``height`` say how much room that takes."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._picture = StepPicture()
        self._title_font = QFont(look.font)
        self._title_font.setPixelSize(round(look.font.pixelSize() * 1.25))
        self._title_font.setWeight(QFont.Weight.DemiBold)
        self._small_font = QFont(look.font)
        self._small_font.setPixelSize(round(look.font.pixelSize() * 0.88))
        self._texts: list[tuple[QRectF, str, QFont, bool]] = []
        """Where, what, in which font, and whether it stands back."""
        self._scene_top = 0.0
        self._legend: list[Entry] = []
        self._legend_top = 0.0
        self.title = self.words = ""
        self.width = self.height = 0.0

    def lay_out(self, history: ReplyHistory, position: int, method: str) -> None:
        """``method`` is what the method is called, "" where that is not known."""
        step = history.step(position)
        figures = history.figures(position)
        self._picture.lay_out(step, self._look.font, self._look.palette)
        tree = self._picture.tree
        self.width = max(NARROWEST, tree.width + 2 * MARGIN)
        self.title = " · ".join(part for part in (step_label(figures), method) if part)
        self.words = summary(step)
        self._texts = []
        y = self._put(MARGIN, self.title, self._title_font, False)
        y = self._put(y + 2, _figures_words(figures), self._small_font, True)
        y = self._put(y + GAP, self.words, self._look.font, False)
        self._scene_top = y + GAP
        y = self._scene_top + tree.height
        for text in (note_of(history, position, step), _notice(history, position)):
            if text:
                y = self._put(y + GAP, text, self._look.font, True)
        self._legend = entries(self.width - 2 * MARGIN, self._small_font, step.shape is Shape.WINDOW)
        self._legend_top = y + GAP
        self.height = self._legend_top + self._legend[-1].place.bottom() + MARGIN

    def _put(self, y: float, text: str, font: QFont, quiet: bool) -> float:
        """Keep a text for painting; where it ends."""
        room = QRectF(MARGIN, y, self.width - 2 * MARGIN, 10_000)
        taken = QFontMetricsF(font).boundingRect(room, _WRAPPED, text)
        rect = QRectF(MARGIN, y, room.width(), taken.height() + 1)
        self._texts.append((rect, text, font, quiet))
        return rect.bottom()

    def paint(self, painter: QPainter, width: float | None = None, height: float | None = None) -> None:
        """Paint on a ground of this size, or of the figure's own."""
        palette = self._look.palette
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = QRectF(0, 0, width or self.width, height or self.height)
        painter.fillRect(ground, palette.base())
        for rect, text, font, quiet in self._texts:
            painter.setFont(font)
            painter.setPen(theme.tokens(palette).muted if quiet else palette.text().color())
            painter.drawText(rect, _WRAPPED, text)
        painter.save()
        painter.translate(MARGIN, self._scene_top)
        tree = self._picture.tree
        self._picture.paint(painter, QRectF(0, 0, tree.width, tree.height))
        painter.restore()
        painter.save()
        painter.translate(MARGIN, self._legend_top)
        paint_entries(painter, self._legend, self._small_font, palette)
        painter.restore()


def _figures_words(figures: Figures) -> str:
    """The figures so far on one line."""
    parts = []
    if figures.acceptance_length:
        parts.append(f"τ {decimal(figures.acceptance_length, 2)}")
    if figures.tokens_per_second:
        speed = decimal(figures.tokens_per_second, 1)
        parts.append(tr("Panel", "{speed} tokens/s").format(speed=speed))
    if figures.drafted:
        parts.append(
            tr("Panel", "{accepted} of {drafted} guesses accepted so far").format(
                accepted=figures.accepted, drafted=figures.drafted
            )
        )
    return " · ".join(parts) or "–"


def _notice(history: ReplyHistory, position: int) -> str:
    found = history.notice_at(position)
    return of_engine(found[1]) if found is not None else ""
