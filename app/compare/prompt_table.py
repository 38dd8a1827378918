"""The prompts of a set with what came of each; the chosen one is shown above."""

from __future__ import annotations

from statistics import median

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from app.compare.comparison import Outcome, Which
from app.compare.record import Record
from app.compare.spread import ratios_of, speed, tau
from app.compare.words import times
from app.language import tr
from app.language.numbers import decimal, whole
from app.tool_tip import letter_for_letter
from app.tree_panel.token_text import visible

NUMBERS = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class PromptTable(QTableWidget):
    """Hidden for a single prompt."""

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 7, parent)
        self.setAccessibleName(tr("Compare", "Results by prompt"))
        self.setHorizontalHeaderLabels(
            [
                tr("Compare", "Prompt"),
                tr("Compare", "A, tokens/s"),
                tr("Compare", "B, tokens/s"),
                tr("Compare", "A over B"),
                tr("Compare", "A, τ"),
                tr("Compare", "B, τ"),
                tr("Compare", "Texts"),
            ]
        )
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setShowGrid(False)
        self.verticalHeader().setVisible(False)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(60)
        header.setHighlightSections(False)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.currentCellChanged.connect(self._on_current)
        self.hide()

    def begin(self, record: Record) -> None:
        """Show the prompts of a record."""
        self.blockSignals(True)
        self.setRowCount(len(record.answers))
        for row, answers in enumerate(record.answers):
            for column in range(self.columnCount()):
                item = QTableWidgetItem()
                if 0 < column < 6:
                    item.setTextAlignment(NUMBERS)
                self.setItem(row, column, item)
            text = visible(answers.prompt, 200).replace("␣", " ")
            self._write(row, 0, f"{row + 1}. {text}")
            self.update_row(record, row)
        self.blockSignals(False)
        rows = min(8, max(2, len(record.answers)))
        # Room for the rows, the header and a scroll bar below.
        self.setFixedHeight((rows + 1) * self.verticalHeader().defaultSectionSize() + 18)
        self.setVisible(len(record.answers) > 1)

    def update_row(self, record: Record, row: int) -> None:
        ratios = ratios_of(record, row)
        speeds = [speed(record, which, row) for which in Which]
        lengths = [tau(record, which, row) for which in Which]
        texts = [decimal(each.median, 1) if each is not None else "" for each in speeds]
        texts.append(times(median(ratios)) if ratios else "")
        texts += [decimal(each, 2) if each else "" for each in lengths]
        texts.append(_text_words(record, row))
        for column, text in enumerate(texts, 1):
            self._write(row, column, text)

    def _write(self, row: int, column: int, text: str) -> None:
        item = self.item(row, column)
        if item is not None and item.text() != text:
            item.setText(text)
            item.setToolTip(letter_for_letter(text))

    def choose(self, row: int) -> None:
        """Mark a row without telling."""
        self.blockSignals(True)
        self.selectRow(row)
        self.blockSignals(False)
        if (item := self.item(row, 0)) is not None:
            self.scrollToItem(item)

    def _on_current(self, row: int, _column: int, before: int, _before: int) -> None:
        if row != before and row >= 0:
            self.chosen.emit(row)


def _text_words(record: Record, row: int) -> str:
    answers = record.answers[row]
    if answers.outcome is Outcome.IDENTICAL:
        return tr("Compare", "identical")
    if answers.outcome is Outcome.PREFIX:
        return tr("Compare", "not complete")
    if answers.difference is None:
        return ""
    where = tr("Compare", "differ at {number}").format(number=whole(answers.difference.index + 1))
    if record.temperature == 0 and answers.margin is not None and answers.margin.is_tie:
        return tr("Compare", "{where}, a tie").format(where=where)
    return where
