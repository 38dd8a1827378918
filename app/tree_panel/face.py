"""What the tree panel is made of and how it lies; what it does is in ``panel``."""

from __future__ import annotations

import itertools

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.tree_panel.charts import DepthChart, Timeline
from app.tree_panel.description import EXPLANATION
from app.tree_panel.figures_bar import FiguresBar
from app.tree_panel.glyphs import Glyph, GlyphButton
from app.tree_panel.legend import Legend
from app.tree_panel.table import StepTable
from app.tree_panel.time_bar import TimeBar
from app.tree_panel.transport_bar import TransportBar
from app.tree_panel.tree_view import TreeView
from app.tree_panel.zoom_area import LEFT_TO_PANEL, Zoom

_CHARTS_ABREAST = 400
"""From this width on the two charts stand beside each other."""


class _Column(QScrollArea):
    """Scrolls the content where the window is low; leaves the transport keys to the panel."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in LEFT_TO_PANEL:
            event.ignore()
        else:
            super().keyPressEvent(event)

    def minimumSizeHint(self) -> QSize:
        return QSize(300, 200)


class PanelFace(QWidget):
    """The widgets of the panel from top to bottom, usable from 320 pixels of width on."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Draft tree panel")
        self.figures = FiguresBar(self)
        self.times = TimeBar(self)
        self.view = TreeView(self)
        self.table = StepTable(self)
        self.legend = Legend(self)
        self.transport = TransportBar(self)
        self.timeline = Timeline(self)
        self.depths = DepthChart(self)
        heading = self._heading()
        tools = self._tools()

        content = QWidget(self)
        column = QVBoxLayout(content)
        column.setContentsMargins(12, 8, 12, 12)
        column.setSpacing(9)
        column.addLayout(heading)
        column.addWidget(self.explanation)
        column.addWidget(self.figures)
        column.addWidget(self.times)
        column.addLayout(tools)
        column.addWidget(self._card(), 1)
        column.addWidget(self.transport)
        self._charts = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._charts.setSpacing(14)
        self._charts.addWidget(self.timeline, 3)
        self._charts.addWidget(self.depths, 2)
        column.addLayout(self._charts)

        self._scroll = _Column(self)
        self._scroll.setWidget(content)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.verticalScrollBar().setAccessibleName("Scroll the panel")
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._scroll)
        self._order()

    def _heading(self) -> QHBoxLayout:
        title = QLabel("Draft tree", self)
        title.setProperty("textRole", "heading")
        words = "What am I looking at?"
        self.explain_button = GlyphButton(Glyph.CLOSED, words, self, words)
        self.explain_button.setCheckable(True)
        self.explain_button.toggled.connect(self._explain)
        self.explanation = QLabel(EXPLANATION, self)
        self.explanation.setTextFormat(Qt.TextFormat.PlainText)
        self.explanation.setWordWrap(True)
        self.explanation.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.explanation.setAccessibleName(words)
        self.explanation.setContentsMargins(2, 0, 2, 6)
        self.explanation.hide()
        row = QHBoxLayout()
        row.addWidget(title)
        row.addStretch(1)
        row.addWidget(self.explain_button)
        return row

    def _tools(self) -> QHBoxLayout:
        self.tree_button = _text_button(self, "Tree", "Show the step as a tree")
        self.table_button = _text_button(self, "Table", "Show the step as a table")
        group = QButtonGroup(self)
        for button in (self.tree_button, self.table_button):
            button.setCheckable(True)
            group.addButton(button)
        self.tree_button.setChecked(True)
        self.table_button.toggled.connect(self._choose_page)
        self.copy_button = _text_button(self, "Copy", "Copy the selected rows, or the whole table")
        self.copy_button.clicked.connect(self.table.copy)
        self.copy_button.hide()
        self.zoom_out = GlyphButton(Glyph.MINUS, "Zoom out (Ctrl+−)", self)
        self.zoom_fit = _text_button(self, "Fit", "Fit the whole tree into the view")
        self.zoom_fit.setCheckable(True)
        self.zoom_in = GlyphButton(Glyph.PLUS, "Zoom in (Ctrl++)", self)
        self.zoom_out.clicked.connect(self.view.zoom_out)
        self.zoom_fit.clicked.connect(lambda on: self.view.set_zoom_mode(Zoom.FIT if on else Zoom.AUTO))
        self.zoom_in.clicked.connect(self.view.zoom_in)
        self.view.zoom_changed.connect(
            lambda: self.zoom_fit.setChecked(self.view.zoom_mode is Zoom.FIT)
        )
        row = QHBoxLayout()
        row.setSpacing(4)
        for widget in (self.tree_button, self.table_button):
            row.addWidget(widget)
        row.addStretch(1)
        for widget in (self.copy_button, self.zoom_out, self.zoom_fit, self.zoom_in):
            row.addWidget(widget)
        return row

    def _card(self) -> QFrame:
        """Tree or table, and below it what the shapes mean."""
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.view)
        self.stack.addWidget(self.table)
        card = QFrame(self)
        card.setProperty("look", "surface")
        card.setFrameShape(QFrame.Shape.StyledPanel)
        inside = QVBoxLayout(card)
        inside.setContentsMargins(1, 1, 1, 1)
        inside.setSpacing(0)
        inside.addWidget(self.stack, 1)
        key = QVBoxLayout()
        key.setContentsMargins(9, 5, 9, 5)
        key.addWidget(self.legend)
        inside.addLayout(key)
        return card

    def _order(self) -> None:
        """Tab goes from top to bottom."""
        bar = self.transport
        stops = (
            self.explain_button,
            self.explanation,
            self.tree_button,
            self.table_button,
            self.copy_button,
            self.zoom_out,
            self.zoom_fit,
            self.zoom_in,
            self.view,
            self.table,
            bar.slider,
            bar.first,
            bar.back,
            bar.pause,
            bar.forward,
            bar.last,
        )
        for before, after in itertools.pairwise(stops):
            self.setTabOrder(before, after)
        self.setFocusProxy(self.view)

    def sizeHint(self) -> QSize:
        return QSize(440, 780)

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 240)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        abreast = event.size().width() >= _CHARTS_ABREAST
        direction = QBoxLayout.Direction.LeftToRight if abreast else QBoxLayout.Direction.TopToBottom
        if self._charts.direction() != direction:
            self._charts.setDirection(direction)

    @Slot(bool)
    def _choose_page(self, table: bool) -> None:
        self.stack.setCurrentWidget(self.table if table else self.view)
        self.copy_button.setVisible(table)
        self.legend.setVisible(not table)
        for widget in (self.zoom_out, self.zoom_fit, self.zoom_in):
            widget.setVisible(not table)
        self.setFocusProxy(self.table if table else self.view)

    @Slot(bool)
    def _explain(self, shown: bool) -> None:
        self.explanation.setVisible(shown)
        self.explain_button.set_glyph(Glyph.OPEN if shown else Glyph.CLOSED)


def _text_button(parent: QWidget, text: str, name: str) -> QToolButton:
    button = QToolButton(parent)
    button.setText(text)
    button.setAccessibleName(name)
    button.setToolTip(name)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return button
