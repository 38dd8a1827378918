"""What the tree panel is made of and how it lies; what it does is in ``panel``."""

from __future__ import annotations

import itertools

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtGui import QKeyEvent, QPalette, QResizeEvent
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

from app.language import tr
from app.tree_panel.calibration_chart import CalibrationChart
from app.tree_panel.charts import DepthChart
from app.tree_panel.exporting import ExportButton, ExportStrip
from app.tree_panel.exports import Source
from app.tree_panel.figures_bar import FiguresBar
from app.tree_panel.glyphs import Glyph, GlyphButton
from app.tree_panel.heading import Heading
from app.tree_panel.legend import Legend
from app.tree_panel.table import StepTable
from app.tree_panel.time_bar import TimeBar
from app.tree_panel.timeline import Timeline
from app.tree_panel.transport_bar import TransportBar
from app.tree_panel.tree_view import TreeView
from app.tree_panel.zoom_area import LEFT_TO_PANEL, Zoom
from engine.protocol import Shape

LEAST_WIDTH, MOST_WIDTH_ASKED = 320, 370
"""Between these lies the least width: more would not leave room for a conversation on a small screen."""
_CHARTS_ABREAST = 640
"""From this width on all charts stand beside each other."""


class _Column(QScrollArea):
    """Scrolls the content where the window is low; leaves the transport keys to the panel."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in LEFT_TO_PANEL:
            event.ignore()
        else:
            super().keyPressEvent(event)

    def minimumSizeHint(self) -> QSize:
        return QSize(300, 200)


class NoticeLine(QLabel):
    """What the engine has to say about the step that is shown; hidden while that is nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setContentsMargins(8, 4, 8, 4)
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.AlternateBase)
        self.hide()

    def say(self, words: str) -> None:
        if words != self.text():
            self.setText(words)
            self.setAccessibleName(words)
        self.setVisible(bool(words))


class PanelFace(QWidget):
    """The widgets of the panel from top to bottom, usable from 320 pixels of width on."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Panel", "Draft tree panel"))
        self.heading = Heading(self)
        self.figures = FiguresBar(self)
        self.times = TimeBar(self)
        self.notice = NoticeLine(self)
        self.view = TreeView(self)
        self.table = StepTable(self)
        self.legend = Legend(self)
        self.heading.shape_changed.connect(lambda shape: self.legend.show_window(shape is Shape.WINDOW))
        self.transport = TransportBar(self)
        self.timeline = Timeline(self)
        self.depths = DepthChart(self)
        self.calibration = CalibrationChart(self)
        tools = self._tools()

        content = QWidget(self)
        column = QVBoxLayout(content)
        column.setContentsMargins(12, 8, 12, 12)
        column.setSpacing(9)
        column.addWidget(self.heading)
        column.addWidget(self.figures)
        column.addWidget(self.times)
        column.addWidget(self.notice)
        column.addLayout(tools)
        column.addWidget(self._card(), 1)
        column.addWidget(self.export_strip)
        column.addWidget(self.transport)
        self._charts = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._charts.setSpacing(14)
        self._charts.addWidget(self.timeline, 3)
        lesser = QHBoxLayout()
        lesser.setSpacing(14)
        lesser.addWidget(self.depths, 1)
        lesser.addWidget(self.calibration, 1)
        self._charts.addLayout(lesser, 4)
        column.addLayout(self._charts)

        self._scroll = _Column(self)
        self._scroll.setWidget(content)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.verticalScrollBar().setAccessibleName(tr("Panel", "Scroll the panel"))
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._scroll)
        self._order()

    def _tools(self) -> QHBoxLayout:
        self.tree_button = _text_button(self, tr("Panel", "Picture"), tr("Panel", "Show the step as a picture"))
        self.table_button = _text_button(self, tr("Panel", "Table"), tr("Panel", "Show the step as a table"))
        group = QButtonGroup(self)
        for button in (self.tree_button, self.table_button):
            button.setCheckable(True)
            group.addButton(button)
        self.tree_button.setChecked(True)
        self.table_button.toggled.connect(self._choose_page)
        self.copy_button = _text_button(
            self, tr("Panel", "Copy"), tr("Panel", "Copy the selected rows, or the whole table")
        )
        self.copy_button.clicked.connect(self.table.copy)
        self.copy_button.hide()
        self.export_strip = ExportStrip(self)
        self.export_button = ExportButton(self.exported, self.export_strip, self)
        self.zoom_out = GlyphButton(Glyph.MINUS, tr("Panel", "Zoom out (Ctrl+−)"), self)
        self.zoom_fit = _text_button(self, tr("Panel", "Fit"), tr("Panel", "Fit the whole tree into the view"))
        self.zoom_fit.setCheckable(True)
        self.zoom_in = GlyphButton(Glyph.PLUS, tr("Panel", "Zoom in (Ctrl++)"), self)
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
        for widget in (self.copy_button, self.zoom_out, self.zoom_fit, self.zoom_in, self.export_button):
            row.addWidget(widget)
        return row

    def exported(self) -> Source | None:
        """What there is to export now; the panel that shows something says it."""
        return None

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
            self.heading.button,
            self.heading.explanation,
            self.tree_button,
            self.table_button,
            self.copy_button,
            self.zoom_out,
            self.zoom_fit,
            self.zoom_in,
            self.export_button,
            self.view,
            self.table,
            self.export_strip.button,
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
        """Wide enough for what is in it in the usual sizes of text; with larger ones it scrolls sideways."""
        bar = self._scroll.verticalScrollBar().sizeHint().width()
        wanted = self._scroll.widget().minimumSizeHint().width() + bar
        return QSize(min(max(wanted, LEAST_WIDTH), MOST_WIDTH_ASKED), 240)

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


def _text_button(parent: QWidget, text: str, name: str) -> QToolButton:
    button = QToolButton(parent)
    button.setText(text)
    button.setAccessibleName(name)
    button.setToolTip(name)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return button
