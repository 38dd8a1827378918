"""The catalogue's pairs as this machine sees them, the best first."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.hub import words
from app.hub.client import HubClient
from app.hub.memory_bar import TONES
from app.hub.row_list import Row, RowList
from app.language import tr
from app.language.engine_texts import of_engine
from engine.protocol.hub import Machine, PairOffer, Verdict
from engine.protocol.hub_messages import Catalogue, HubFailed, Local


class PairsPage(QWidget):
    chosen = Signal(object)
    """A :class:`PairOffer`."""

    def __init__(self, client: HubClient, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.machine: Machine | None = None
        self.offers: tuple[PairOffer, ...] = ()
        self.about = QLabel(tr("Hub", "Looking at this machine…"), self)
        """What this machine is; the dialog shows it above all pages."""
        self.about.setTextFormat(Qt.TextFormat.PlainText)
        self.about.setProperty("textRole", "small")
        self.about.setWordWrap(True)
        self.list = RowList(tr("Hub", "Recommended pairs"), self)
        self.list.chosen.connect(lambda row: self.chosen.emit(row.value))
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 6)
        column.setSpacing(8)
        column.addWidget(self.list, 1)
        self._folders: dict[str, str] | None = None
        """By repository, where it lies; None until that is told."""
        client.catalogue.connect(self._on_catalogue)
        client.local.connect(self._on_local)
        client.failed.connect(self._on_failed)

    def _on_catalogue(self, event: Catalogue) -> None:
        self.machine, self.offers = event.machine, event.offers
        here = event.machine
        about = tr(
            "Hub",
            "No NVIDIA GPU was found, so models run on the processor: {free} of {total} memory are free.",
        )
        if here.is_gpu:
            about = tr("Hub", "{device}: {free} of {total} memory are free.")
        about = about.format(device=here.device, free=words.size(here.free), total=words.size(here.total))
        self.about.setText(f"{about} {of_engine(event.problem)}".strip())
        self._show()

    def _on_local(self, event: Local) -> None:
        """Something came here or went: the pairs that were offered before are told anew."""
        self._folders = {
            entry.repo_id: entry.path for entry in event.entries if entry.repo_id and not entry.file
        }
        self._show()

    def _on_failed(self, event: HubFailed) -> None:
        if not event.request_id and self.machine is None:
            self.about.setText("")  # the reason stands below it

    def _show(self) -> None:
        if (here := self._folders) is not None:
            self.offers = tuple(
                replace(
                    each,
                    target_folder=here.get(each.pair.target, ""),
                    head_folder=here.get(each.pair.head, ""),
                )
                for each in self.offers
            )
        rows, group = [], ""
        for offer in self.offers:
            at = _group(offer)
            rows.append(_row(offer, at if at != group else ""))
            group = at
        first = self.list.current() is None
        self.list.show_rows(rows)
        if first and rows and self.isVisible():  # and not over what was found in the meantime
            self.list.choose(rows[0].key)


def _group(offer: PairOffer) -> str:
    if offer.fit.verdict is Verdict.NO:
        return tr("Hub", "Too large for this machine")
    return tr("Hub", "Recommended for this machine") if offer.is_recommended else tr("Hub", "More pairs")


def _row(offer: PairOffer, heading: str) -> Row:
    pair = offer.pair
    here = offer.target_folder and offer.head_folder
    badge = tr("Hub", words.FIT_WORDS[offer.fit.verdict])
    title = f"{pair.target.rpartition('/')[2]}  +  {pair.head.rpartition('/')[2]}"
    line = words.joined(tr("Hub", "on this computer") if here else "", words.pair_line(offer))
    return Row(f"{pair.target} {pair.head}", title, line, badge, TONES[offer.fit.verdict], offer, heading)
