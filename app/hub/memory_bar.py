"""What a pair takes of the memory, as one bar: weights, head, context, workspace, and what stays free."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import theme
from app.hub import words
from app.hub.row_list import Tone, ink
from app.language import tr
from app.language.engine_texts import of_engine
from engine.protocol.hub import Fit, Verdict

TONES = {Verdict.FITS: Tone.GOOD, Verdict.TIGHT: Tone.WARN, Verdict.NO: Tone.BAD, Verdict.UNKNOWN: Tone.PLAIN}


class MemoryBar(QWidget):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fit: Fit | None = None
        self.setAccessibleName(tr("Hub", "Memory"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_fit(self, fit: Fit | None) -> None:
        self._fit = fit
        self.setVisible(fit is not None and fit.needed > 0)
        if fit is not None:
            self.setAccessibleDescription(f"{of_engine(fit.words)} {words.memory(fit)}")
            self.setToolTip(words.memory(fit))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(240, max(14, self.fontMetrics().height()))

    def paintEvent(self, _event: QPaintEvent) -> None:
        fit = self._fit
        if fit is None or fit.needed <= 0:
            return
        named = theme.tokens(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        outline = QPainterPath()
        outline.addRoundedRect(area, 6, 6)
        painter.fillPath(outline, named.background_alt)
        room = max(1, fit.needed + fit.left)
        whole = max(room, fit.needed)
        colour = ink(TONES[fit.verdict], self)
        painter.setClipPath(outline)
        at = area.left()
        for part, strength in ((fit.weights, 1.0), (fit.head, 0.75), (fit.cache, 0.5), (fit.workspace, 0.3)):
            width = area.width() * part / whole
            shade = QColor(colour)
            shade.setAlphaF(strength)
            painter.fillRect(QRectF(at, area.top(), width, area.height()), shade)
            at += width
        if fit.left < 0:  # where the memory ends
            end = area.left() + area.width() * room / whole
            painter.fillRect(QRectF(end - 1, area.top(), 2, area.height()), self.palette().text())
        painter.setClipping(False)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(named.edge, 1))
        painter.drawPath(outline)
