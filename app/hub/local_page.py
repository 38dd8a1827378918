"""What is on this computer: the hub cache, imported folders and GGUF files. Nothing is copied."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QLabel, QMessageBox, QPushButton, QVBoxLayout, QWidget

from app.hub import words
from app.hub.client import HubClient
from app.hub.row_list import Row, RowList, Tone
from app.language import tr
from app.wrapping_row import WrappingRow
from engine.protocol.hub import LocalEntry
from engine.protocol.hub_messages import Delete, Forget, HubFailed, Import, Imported, Local


class LocalPage(QWidget):
    chosen = Signal(object)
    """A :class:`LocalEntry`."""
    draft_requested = Signal(str)
    """The path of a model that is to draft for the one that is loaded."""

    def __init__(
        self, client: HubClient, parent: QWidget | None = None, loaded: Callable[[], str] = lambda: ""
    ) -> None:
        """``loaded`` tells the path of the model that the engine holds."""
        super().__init__(parent)
        self._client = client
        self._loaded = loaded
        self._request = 0
        self._imported = ""
        self._listed = False
        self.entries: tuple[LocalEntry, ...] = ()
        self.list = RowList(tr("Hub", "Models on this computer"), self)
        self.list.chosen.connect(self._on_chosen)
        self.status = QLabel(tr("Hub", "Looking…"), self)
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setProperty("textRole", "small")
        self.status.setWordWrap(True)
        self.folder_button = QPushButton(tr("Hub", "Add a folder…"), self)
        self.file_button = QPushButton(tr("Hub", "Add a GGUF file…"), self)
        self.delete_button = QPushButton(tr("Hub", "Delete…"), self)
        self.draft_button = QPushButton(tr("Hub", "Draft with it"), self)
        self.draft_button.setToolTip(
            tr("Hub", "Use the chosen model as draft model for the loaded one; both need the same vocabulary")
        )
        adding, acting = WrappingRow(self), WrappingRow(self)
        for row, button, act in (
            (adding, self.folder_button, self._choose_folder),
            (adding, self.file_button, self._choose_file),
            (acting, self.draft_button, self._draft),
            (acting, self.delete_button, self._ask_delete),
        ):
            button.setAutoDefault(False)
            button.clicked.connect(lambda _=False, act=act: act())
            row.add(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 6)
        column.setSpacing(8)
        column.addWidget(adding)
        column.addWidget(self.status)
        column.addWidget(self.list, 1)
        column.addWidget(acting)
        self._show_buttons()
        client.local.connect(self._on_local)
        client.imported.connect(self._on_imported)
        client.failed.connect(self._on_failed)

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        return [self.folder_button, self.file_button, self.list, self.draft_button, self.delete_button]

    def import_path(self, path: str) -> None:
        """Add a folder or GGUF file to the list, where it is."""
        self._request = self._client.next_id()
        self._say(tr("Hub", "Looking at it…"))
        self._client.send(Import(self._request, path))

    def _choose_folder(self) -> None:
        if path := QFileDialog.getExistingDirectory(
            self, tr("Hub", "Choose the folder of a model or a head")
        ):
            self.import_path(path)

    def _choose_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, tr("Hub", "Choose a GGUF file"), "", "GGUF (*.gguf)")
        if path:
            self.import_path(path)

    def _draft(self) -> None:
        row = self.list.current()
        if row is not None and not row.value.is_head:
            self.draft_requested.emit(row.value.path)

    def _ask_delete(self) -> None:
        row = self.list.current()
        if row is None:
            return
        entry: LocalEntry = row.value
        if not entry.repo_id:  # the user's own files: they are only taken off the list
            self._client.send(Forget(entry.path))
            return
        box = QMessageBox(QMessageBox.Icon.Question, tr("Hub", "Delete a model"), "", parent=self)
        box.setText(tr("Hub", "Delete {name} from this computer?").format(name=entry.name))
        # The cache's own tools delete a whole repository, with every GGUF file that is here of it.
        together = [
            each for each in self.entries if (each.repo_id, each.commit) == (entry.repo_id, entry.commit)
        ]
        told = tr("Hub", "This frees up to {size}. Other programs that use the hub cache lose it, too.")
        told = told.format(size=words.size(sum(each.size for each in together)))
        if others := [each.name for each in together if each.path != entry.path]:
            told += " " + tr("Hub", "Deleted with it: {names}.").format(names=", ".join(others))
        if self._loaded() in (each.path for each in together):
            told += " " + tr("Hub", "It is loaded now: it goes on until it is unloaded, and then it is gone.")
        box.setInformativeText(told)
        box.setTextFormat(Qt.TextFormat.PlainText)
        yes = box.addButton(tr("Hub", "Delete"), QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(tr("Hub", "Keep it"), QMessageBox.ButtonRole.RejectRole)
        yes.clicked.connect(lambda: self._client.send(Delete(entry.repo_id, entry.commit)))
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()

    def _say(self, text: str) -> None:
        self.status.setText(text)
        self.status.setVisible(bool(text))

    def _on_chosen(self, row: Row) -> None:
        self._show_buttons()
        self.chosen.emit(row.value)

    def _show_buttons(self) -> None:
        """What can be done with the row that is chosen."""
        row = self.list.current()
        entry: LocalEntry | None = row.value if row else None
        imported = entry is not None and not entry.repo_id
        self.delete_button.setEnabled(entry is not None)
        self.delete_button.setText(tr("Hub", "Take off the list") if imported else tr("Hub", "Delete…"))
        self.delete_button.setToolTip(
            tr("Hub", "The files stay where they are")
            if imported
            else tr("Hub", "Delete the chosen model from the hub cache")
        )
        self.draft_button.setEnabled(entry is not None and not entry.is_head)

    def _on_local(self, event: Local) -> None:
        self.entries, self._listed = event.entries, True
        models = [entry for entry in event.entries if not entry.is_head]
        heads = [entry for entry in event.entries if entry.is_head]
        rows = [_row(entry, tr("Hub", "Models") if not place else "") for place, entry in enumerate(models)]
        rows += [
            _row(entry, tr("Hub", "EAGLE heads") if not place else "") for place, entry in enumerate(heads)
        ]
        self.list.show_rows(rows)
        if self._imported and self.list.point_at(self._imported):
            self._imported = ""
        self._show_buttons()
        self._say(
            ""
            if rows
            else tr(
                "Hub",
                "No model is here yet. Download one, or add a folder or a GGUF file that you have already.",
            )
        )

    def _on_imported(self, event: Imported) -> None:
        if event.request_id == self._request:
            self._say("")
            self._imported = "" if self.list.point_at(event.entry.path) else event.entry.path
            self._show_buttons()
            self.chosen.emit(event.entry)

    def _on_failed(self, event: HubFailed) -> None:
        if self._request and event.request_id == self._request:
            self._say(words.problem(event.problem))
        elif not event.request_id and not self._listed:
            self._say("")  # the reason stands above


def _row(entry: LocalEntry, heading: str) -> Row:
    where = tr("Hub", "hub cache") if entry.repo_id else entry.path
    made_for = tr("Hub", "made for {model}").format(model=entry.target_name) if entry.target_name else ""
    kind = "GGUF" if entry.path.endswith(".gguf") else entry.family
    line = words.joined(words.size(entry.size), kind, made_for, where)
    return Row(entry.path, entry.name, line, "", Tone.PLAIN, entry, heading)
