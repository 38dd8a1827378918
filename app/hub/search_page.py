"""Searching the hub: a field that waits until typing pauses, filters, and the hits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.hub import words
from app.hub.client import HubClient
from app.hub.memory_bar import TONES
from app.hub.row_list import Row, RowList, Tone
from app.language import mark, numbers, tr, tr_n
from app.wrapping_row import WrappingRow
from engine.protocol.hub import HubModel, Sort
from engine.protocol.hub_messages import Found, HubFailed, Search

DEBOUNCE_MS = 350
FAMILIES = ("Llama", "Qwen2", "Qwen3", "Gemma", "Mistral", "Mixtral", "Phi")
LICENCES = ("apache-2.0", "mit", "llama3.1", "llama3.2", "gemma")
SIZES = (1, 2, 4, 9, 15, 35)
"""Billions of parameters."""
_SORTS = (
    (Sort.DOWNLOADS, mark("Hub", "Most downloaded")),
    (Sort.LIKES, mark("Hub", "Most liked")),
    (Sort.UPDATED, mark("Hub", "Last updated")),
)


class SearchPage(QWidget):
    chosen = Signal(object)
    """A :class:`HubModel`."""

    def __init__(self, client: HubClient, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._request = 0
        self._asked: Search | None = None
        self.field = QLineEdit(self)
        self.field.setPlaceholderText(tr("Hub", "Name, or the address of a model's page"))
        self.field.setAccessibleName(tr("Hub", "Search the hub"))
        self.field.setClearButtonEnabled(True)
        self.sort = self._box(tr("Hub", "Sort by"), [tr("Hub", text) for _, text in _SORTS])
        self.family = self._box(tr("Hub", "Family"), (tr("Hub", "Any family"), *FAMILIES))
        self.licence = self._box(tr("Hub", "Licence"), (tr("Hub", "Any licence"), *LICENCES))
        sizes = [tr("Hub", "Up to {size} B").format(size=numbers.whole(size)) for size in SIZES]
        self.largest = self._box(tr("Hub", "Size"), (tr("Hub", "Any size"), *sizes))
        self.with_head = QCheckBox(tr("Hub", "Has an EAGLE head"), self)
        self.with_head.setToolTip(
            tr("Hub", "Only models for which the catalogue or the hub has a head that fits")
        )
        self.fitting = QCheckBox(tr("Hub", "Fits this machine"), self)
        self.status = QLabel(self)
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setProperty("textRole", "small")
        self.status.setWordWrap(True)
        self.list = RowList(tr("Hub", "Search results"), self)
        self.list.chosen.connect(lambda row: self.chosen.emit(row.value))
        self.more = QPushButton(tr("Hub", "Show more"), self)
        self.more.setAutoDefault(False)
        self.more.setAccessibleName(tr("Hub", "Show more search results"))
        self.more.clicked.connect(lambda _=False: self.show_more())
        self.more.hide()
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(6)
        for place, widget in enumerate((self.sort, self.family, self.licence, self.largest)):
            grid.addWidget(widget, place // 2, place % 2)
        ticks = WrappingRow(self)
        ticks.add(self.with_head, self.fitting)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 6)
        column.setSpacing(8)
        column.addWidget(self.field)
        column.addLayout(grid)
        column.addWidget(ticks)
        column.addWidget(self.status)
        column.addWidget(self.list, 1)
        column.addWidget(self.more)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(DEBOUNCE_MS)
        self._timer.timeout.connect(self.search)
        self.field.textChanged.connect(lambda _: self._timer.start())
        self.field.returnPressed.connect(self.search)
        for box in (self.sort, self.family, self.licence, self.largest):
            box.currentIndexChanged.connect(lambda _: self._timer.start())
        for tick in (self.with_head, self.fitting):
            tick.toggled.connect(lambda _: self._timer.start())
        client.found.connect(self._on_found)
        client.failed.connect(self._on_failed)
        self._say(tr("Hub", "Type to search. With an empty field the most downloaded models are listed."))

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        boxes = (self.sort, self.family, self.licence, self.largest)
        return [self.field, *boxes, self.with_head, self.fitting, self.list, self.more]

    def _box(self, name: str, choices: Iterable[str]) -> QComboBox:
        box = QComboBox(self)
        box.setAccessibleName(name)
        box.setAccessibleDescription(name)  # on Linux the name of a box is what is chosen in it
        box.setToolTip(name)
        box.addItems(list(choices))
        return box

    def _say(self, text: str) -> None:
        self.status.setText(text)
        self.status.setVisible(bool(text))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Down leads from the field, which has no use for it, to what was found."""
        rows = self.list.row_model().rows
        if event.key() == Qt.Key.Key_Down and rows:
            self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)
            if self.list.current() is None:
                self.list.choose(rows[0].key)
        else:
            super().keyPressEvent(event)

    def search(self) -> None:
        """Ask the hub, unless the same question was asked last."""
        self._timer.stop()
        largest = self.largest.currentIndex()
        query = Search(
            0,
            self.field.text().strip(),
            _SORTS[self.sort.currentIndex()][0],
            self.family.currentText() if self.family.currentIndex() else "",
            self.licence.currentText() if self.licence.currentIndex() else "",
            self.with_head.isChecked(),
            self.fitting.isChecked(),
            float(SIZES[largest - 1]) if largest else 0.0,
        )
        if self._asked is None or query != replace(self._asked, pages=1):
            self._ask(query)

    def show_more(self) -> None:
        """Ask the same question for another page."""
        if self._asked is not None:
            self._ask(replace(self._asked, pages=self._asked.pages + 1))

    def _ask(self, query: Search) -> None:
        self._asked = query
        self._request = self._client.next_id()
        self._say(tr("Hub", "Searching…"))
        self._client.send(replace(query, request_id=self._request))

    def _on_found(self, event: Found) -> None:
        if event.request_id != self._request:
            return
        self.list.show_rows([_row(model) for model in event.models])
        more = event.has_more and not event.unchecked
        if self.more.hasFocus() and not (more or event.unchecked):
            self.list.setFocus()  # the button goes
        self.more.setVisible(more or (bool(event.unchecked) and self.more.isVisible()))
        if event.unchecked:
            asked = tr_n(
                "Hub",
                "Looking for heads of %n more model…",
                "Looking for heads of %n more models…",
                event.unchecked,
            )
            self._say(asked)
        elif event.models:
            self._say("")
        elif more:
            nothing = tr(
                "Hub", "None of the first {count} hits passes the filters. Show more, or filter less."
            )
            self._say(nothing.format(count=numbers.whole(event.looked_at)))
        else:
            self._say(tr("Hub", "Nothing was found. Try fewer words, or fewer filters."))

    def _on_failed(self, event: HubFailed) -> None:
        if event.request_id == self._request and self._request:
            # The same can be asked again: all of it, or the page that is missing.
            pages = self._asked.pages - 1 if self._asked is not None else 0
            self._asked = replace(self._asked, pages=pages) if self._asked is not None and pages else None
            if self._asked is None:
                self.more.hide()
            self._say(words.problem(event.problem))


def _row(model: HubModel) -> Row:
    if model.is_head:
        badge, tone = tr("Hub", "EAGLE head"), Tone.PLAIN
    elif model.fit is not None:
        badge, tone = tr("Hub", words.FIT_WORDS[model.fit.verdict]), TONES[model.fit.verdict]
    else:
        badge, tone = "", Tone.PLAIN
    title = model.repo_id
    if model.has_known_head:
        title = tr("Hub", "{model}  (has a head)").format(model=title)
    return Row(model.repo_id, title, words.model_line(model), badge, tone, model)
