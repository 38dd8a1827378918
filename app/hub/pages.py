"""The three lists at the left: pairs for this machine, what a search found, and what is here."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QTabWidget, QWidget

from app.hub.client import HubClient
from app.hub.local_page import LocalPage
from app.hub.pairs_page import PairsPage
from app.hub.row_list import RowList
from app.hub.search_page import SearchPage
from app.language import tr
from app.tab_order import leave_to_bar


class Pages(QTabWidget):
    """What is marked in the list that is seen is what is told of beside it."""

    def __init__(self, client: HubClient, parent: QWidget, loaded_path: Callable[[], str]) -> None:
        super().__init__(parent)
        self.pairs = PairsPage(client, self)
        self.search = SearchPage(client, self)
        self.local = LocalPage(client, self, loaded_path)
        self._chosen_in: RowList | None = None
        self.setDocumentMode(True)
        leave_to_bar(self)
        for page, name in (
            (self.pairs, tr("Hub", "Recommended")),
            (self.search, tr("Hub", "Search the hub")),
            (self.local, tr("Hub", "On this computer")),
        ):
            self.addTab(page, name)
            page.list.chosen.connect(lambda _, rows=page.list: self._choose_in(rows))
        self.setUsesScrollButtons(False)  # all three are in sight: the page is as wide as they are
        self.currentChanged.connect(lambda _: self._on_page())

    def _choose_in(self, rows: RowList) -> None:
        self._chosen_in = rows

    def _on_page(self) -> None:
        page = self.currentWidget()
        assert isinstance(page, PairsPage | SearchPage | LocalPage)
        row = page.list.current()
        if row is not None and page.list is not self._chosen_in:
            page.list.chosen.emit(row)
