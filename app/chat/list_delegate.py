"""Draws the rows of the chat list: headings, titles, and what a search found.

All texts are plain: titles and snippets come from prompts and models.
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetrics,
    QPainter,
    QPalette,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app import icons, theme
from app.chat.list_model import Part
from app.storage.words import Snippet

SIDE = 18
"""Pixels left and right of a row's text."""
LEADING = 14
"""Pixels that a row is higher than its lines."""


class ChatRowDelegate(QStyledItemDelegate):
    """Rows of one height: one line, or two while a search shows snippets.

    Colours come from the panel: a view with a transparent ground has no palette to go by.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.two_lines = False
        self._panel = parent

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        small = QFontMetrics(_small(option.font)).lineSpacing()
        height = option.fontMetrics.lineSpacing() + (small + 2 if self.two_lines else 0) + LEADING
        return QSize(80, height)

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """The row: the place that Qt keeps for the text alone is lower than the field with its margins."""
        editor.setGeometry(option.rect.adjusted(SIDE // 2, 1, -SIDE // 2, -1))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        if index.data(Part.HEADING):
            self._paint_heading(painter, option, index)
            return
        shown = QStyleOptionViewItem(option)
        self.initStyleOption(shown, index)
        shown.text = ""
        widget = option.widget
        style = widget.style() if widget is not None else None
        if style is not None:
            style.drawControl(QStyle.ControlElement.CE_ItemViewItem, shown, painter, widget)
        named = theme.tokens(self._panel)
        ink = self._panel.palette().color(QPalette.ColorRole.WindowText)
        area = option.rect.adjusted(SIDE, LEADING // 2, -SIDE, -LEADING // 2)
        title = QRect(area.x(), area.y(), area.width(), option.fontMetrics.lineSpacing())
        if not self.two_lines:
            title.moveTop(option.rect.y() + (option.rect.height() - title.height()) // 2)
        _draw(
            painter, title, str(index.data()), index.data(Part.HITS) or [], option.font, ink, named.step_fill
        )
        if self.two_lines:
            snippet = index.data(Part.SNIPPET)
            if isinstance(snippet, Snippet) and snippet.text:
                below = QRect(area.x(), title.bottom() + 2, area.width(), area.bottom() - title.bottom())
                _draw(
                    painter, below, snippet.text, list(snippet.hits), _small(option.font), named.muted,
                    named.step_fill,
                )  # fmt: skip

    def _paint_heading(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        named = theme.tokens(self._panel)
        if option.state & QStyle.StateFlag.State_HasFocus:  # reached with the keys: Enter folds it
            painter.setPen(named.accent)
            painter.drawRoundedRect(option.rect.adjusted(8, 2, -9, -2), 8, 8)
        font = _small(option.font)
        font.setWeight(QFont.Weight.DemiBold)
        height = QFontMetrics(font).lineSpacing()
        area = option.rect.adjusted(SIDE, 0, -SIDE, 0)
        area.setTop(area.bottom() - height - 3)
        if index.data(Part.FOLDER):
            scale = max(1.0, painter.device().devicePixelRatioF())
            size = max(10, height - 4)
            name = "chevron-right" if index.data(Part.FOLDED) else "chevron-down"
            mark = icons.pixmap(name, named.muted, size, scale)
            painter.drawPixmap(area.x() - 2, area.y() + (height - size) // 2, mark)
            area.setLeft(area.x() + size + 4)
        _draw(painter, area, str(index.data()), [], font, named.muted, named.step_fill)


def _small(font: QFont) -> QFont:
    small = QFont(font)
    if font.pointSizeF() > 0:
        small.setPointSizeF(font.pointSizeF() * 0.88)
    return small


def _draw(
    painter: QPainter,
    area: QRect,
    text: str,
    spans: list[tuple[int, int]],
    font: QFont,
    ink: QColor,
    fill: QColor,
) -> None:
    """One line of plain text, cut with an ellipsis; the spans stand on a ground of their own."""
    cut = QFontMetrics(font).elidedText(text.replace("\n", " "), Qt.TextElideMode.ElideRight, area.width())
    layout = QTextLayout(cut, font)
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.NoWrap)
    layout.setTextOption(option)
    formats = []
    for start, end in spans:
        # Positions count characters; Qt counts UTF-16 units.
        begin = len(text[:start].encode("utf-16-le", "surrogatepass")) // 2
        length = len(text[start:end].encode("utf-16-le", "surrogatepass")) // 2
        marked = QTextLayout.FormatRange()
        marked.start, marked.length = begin, length
        look = QTextCharFormat()
        look.setBackground(QBrush(fill))
        look.setFontWeight(QFont.Weight.DemiBold)
        marked.format = look
        formats.append(marked)
    layout.setFormats(formats)
    layout.beginLayout()
    line = layout.createLine()
    if line.isValid():
        line.setLineWidth(max(1, area.width()))
    layout.endLayout()
    painter.save()
    painter.setPen(ink)
    painter.setClipRect(area)
    layout.draw(painter, QPointF(area.x(), area.y()))
    painter.restore()
