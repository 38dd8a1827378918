"""The same step as a table: for screen readers, for copying and for whoever prefers words."""

from __future__ import annotations

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from app import theme
from app.language import tr
from app.tree_panel import marks
from app.tree_panel.description import COLUMNS, Row, rows
from app.tree_panel.layout import Kind
from app.tree_panel.token_text import isolated
from engine.protocol import Step

_Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()


_TOKEN, _VERDICT = COLUMNS.index("Token"), COLUMNS.index("Verdict")
_TEXTS = (_TOKEN, COLUMNS.index("Follows"))


def _alignment(column: int) -> int:
    words = column in _TEXTS or column == _VERDICT
    side = Qt.AlignmentFlag.AlignLeft if words else Qt.AlignmentFlag.AlignHCenter
    return int(side | Qt.AlignmentFlag.AlignVCenter)


class StepTableModel(QAbstractTableModel):
    """One row for each node of a step, and the bonus token last."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[Row, ...] = ()
        self._palette_source = parent

    def show_step(self, step: Step | None) -> None:
        self.beginResetModel()
        self._rows = rows(step) if step is not None else ()
        self.endResetModel()

    @property
    def rows(self) -> tuple[Row, ...]:
        return self._rows

    def rowCount(self, parent: _Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: _Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if role == Qt.ItemDataRole.TextAlignmentRole and orientation is Qt.Orientation.Horizontal:
            return _alignment(section)
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        return tr("Panel", COLUMNS[section]) if orientation is Qt.Orientation.Horizontal else str(section)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        cell = row.cells[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{tr('Panel', COLUMNS[index.column()])}: {cell or tr('Panel', 'none')}"
        if role == Qt.ItemDataRole.FontRole and row.kind in (Kind.ACCEPTED, Kind.BONUS, Kind.ROOT):
            font = QGuiApplication.font()
            font.setWeight(font.Weight.DemiBold)
            return font if index.column() in (_TOKEN, _VERDICT) else None
        if role == Qt.ItemDataRole.ForegroundRole and self._palette_source is not None and index.column() == _VERDICT:
            colours = theme.tokens(self._palette_source)
            return colours.muted if row.kind in (Kind.UNREACHED, Kind.WINDOW) else marks.ink(row.kind, colours)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(index.column())
        return None

    def as_text(self, which: list[int] | None = None) -> str:
        """Rows with their header, cells separated by tabs, for the clipboard."""
        chosen = range(len(self._rows)) if which is None else which
        lines = ["\t".join(tr("Panel", column) for column in COLUMNS)]
        for number in chosen:
            cells = self._rows[number].cells
            lines.append(
                "\t".join(isolated(cell) if column in _TEXTS else cell for column, cell in enumerate(cells))
            )
        return "\n".join(lines)


class StepTable(QTableView):
    """The table; copying takes the selected rows, or all of them when none is selected.

    Enter or a double click on a row asks for its token to be shown in the text.
    """

    item_chosen = Signal(int)
    """Number of the item in the row."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.step_model = StepTableModel(self)
        self.setModel(self.step_model)
        self.setAccessibleName(tr("Panel", "Draft tree as a table"))
        self.setToolTip(tr("Panel", "Enter shows a token in the text"))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setFrameShape(QTableView.Shape.NoFrame)
        self.setShowGrid(False)
        self.setAlternatingRowColors(True)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setMinimumHeight(150)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 8)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        wide = self.fontMetrics().horizontalAdvance
        for column, sample in enumerate(
            ("", "m" * 9, ">99 %", "", "Rejected: the target chose “mmmm”", ">99 %", "", "m" * 8, "")
        ):
            name = tr("Panel", COLUMNS[column])
            header.resizeSection(column, max(wide(sample), wide(name)) + 18)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.doubleClicked.connect(self._choose)

    def _choose(self, index: _Index) -> None:
        if index.isValid():
            self.item_chosen.emit(self.step_model.rows[index.row()].item)

    def copy(self) -> None:
        """Put rows on the clipboard as text."""
        selected = sorted({index.row() for index in self.selectionModel().selectedRows()})
        QGuiApplication.clipboard().setText(self.step_model.as_text(selected or None))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self.currentIndex())
        elif event.key() == Qt.Key.Key_Space:
            event.ignore()  # pauses the panel
        else:
            super().keyPressEvent(event)
