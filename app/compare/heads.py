"""Which heads on this computer a side can draft with: those the hub's process knows, or any folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.compare.side_editor import SideEditor
from app.compare.states import Client
from app.hub.client import HubClient
from app.language import tr, tr_n
from engine.protocol.hub import PairVerdict
from engine.protocol.hub_messages import FindHeads, Heads, HubFailed

ASKER = "compare"


class HeadFinder(QObject):
    said = Signal(str)
    """How the search goes, for people."""

    def __init__(self, client: Client, hub: HubClient | None, sides: Sequence[SideEditor], parent: QWidget) -> None:
        super().__init__(parent)
        self._client = client
        self._hub = hub
        self._sides = sides
        self._asked = 0
        self._window = parent
        for side in sides:
            side.look_requested.connect(self.look)
            side.folder_requested.connect(lambda side=side: self._ask_for_folder(side))
        if hub is not None:
            hub.heads.connect(self._on_heads)
            hub.failed.connect(self._on_failed)

    @Slot()
    def look(self) -> None:
        """Ask for the heads of the model that is loaded."""
        model = self._client.model
        if model is None or self._hub is None:
            self.said.emit(tr("Compare", "Load a model first, or choose a head's folder."))
            return
        self._asked = self._hub.next_id()
        self._hub.send(FindHeads(self._asked, model.path, ASKER))
        self.said.emit(tr("Compare", "Looking for heads on this computer…"))

    @Slot(object)
    def _on_heads(self, event: Heads) -> None:
        if not self._asked or event.request_id != self._asked:
            return
        fitting = [head for head in event.heads if head.report.verdict is not PairVerdict.NOT]
        here = [(head.folder, head.repo_id or Path(head.folder).name) for head in fitting if head.folder]
        for side in self._sides:
            side.offer_heads(here)
        if not event.is_complete:
            return
        self._asked = 0
        if here:
            text = tr_n("Compare", "%n head is on this computer.", "%n heads are on this computer.", len(here))
        else:
            text = tr("Compare", "No other head of this model is on this computer.")
        if elsewhere := len(fitting) - len(here):
            text += " " + tr_n(
                "Compare", "%n more can be downloaded in Models.", "%n more can be downloaded in Models.", elsewhere
            )
        self.said.emit(text)

    @Slot(object)
    def _on_failed(self, event: HubFailed) -> None:
        if self._asked and event.request_id in (0, self._asked):
            self._asked = 0
            self.said.emit(f"{event.problem.message} {event.problem.next_step}".strip())

    def _ask_for_folder(self, side: SideEditor) -> None:
        dialog = QFileDialog(self._window, tr("Compare", "Folder of a head"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(lambda path: side.choose_head(path, Path(path).name))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()
