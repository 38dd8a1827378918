"""Every command with its keys, as "?" shows them: made from the menus, so that none is forgotten."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
)

from app.command_palette import commands_of, keys_of, native
from app.language import mark, tr
from app.language.mnemonics import plain
from app.window_frame import WindowFrame

BESIDES = (
    (mark("Shortcuts", "Send the prompt"), "Return"),
    (mark("Shortcuts", "New line in the prompt"), "Shift+Return"),
    (mark("Shortcuts", "Draft tree: step before, step after"), "Left, Right"),
    (mark("Shortcuts", "Draft tree: first and last step"), "Home, End"),
    (mark("Shortcuts", "Draft tree: hold and follow"), "Space"),
    (mark("Shortcuts", "List of chats: delete"), "Del"),
)
"""Keys of single widgets, which no menu shows."""


WIDTH = 70
"""In average characters."""


class ShortcutList(QDialog):
    """A table of commands and keys, in the order of the menus."""

    def __init__(self, frame: WindowFrame) -> None:
        super().__init__(frame)
        self.setWindowTitle(tr("Shortcuts", "Keyboard shortcuts"))
        column = QVBoxLayout(self)
        self.table = QTreeWidget()
        self.table.setAccessibleName(tr("Shortcuts", "Keyboard shortcuts"))
        self.table.setColumnCount(2)
        self.table.setHeaderLabels([tr("Shortcuts", "Command"), tr("Shortcuts", "Keys")])
        self.table.setRootIsDecorated(False)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        for title, actions in commands_of(frame):
            rows = [(plain(action.text()), keys_of(action)) for action in actions]
            self._add(title, [row for row in rows if row[1]])
        besides = [(tr("Shortcuts", text), native(keys)) for text, keys in BESIDES]
        self._add(tr("Shortcuts", "In the parts of the window"), besides)
        self.table.expandAll()
        header = self.table.header()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(False)
        column.addWidget(self.table)
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        box.rejected.connect(self.reject)
        column.addWidget(box)
        wide = max(560, WIDTH * self.fontMetrics().averageCharWidth())
        self.resize(min(wide, frame.width() - 40), min(640, frame.height() - 40))

    def _add(self, title: str, rows: list[tuple[str, str]]) -> None:
        group = QTreeWidgetItem([title])
        font = group.font(0)
        font.setBold(True)
        group.setFont(0, font)
        group.setFlags(Qt.ItemFlag.ItemIsEnabled)
        self.table.addTopLevelItem(group)
        group.setFirstColumnSpanned(True)
        height = self.fontMetrics().lineSpacing() + 7
        for row in rows:
            item = QTreeWidgetItem(list(row))
            item.setSizeHint(0, QSize(0, height))
            group.addChild(item)
