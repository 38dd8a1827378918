"""The choice of one side: a method and its settings, or plain decoding, and the head it drafts with.

The form is made from what the engine says of its methods, as in the settings of a model.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QFormLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.compare.comparison import Which
from app.compare.sides import SideChoice, method_of
from app.compare.words import letter
from app.language import tr
from app.language.engine_texts import of_engine
from app.settings.model_dialog import LOSSY, MethodOption
from engine.protocol import MethodInfo, ModelInfo

PLAIN = "-"
"""Stands for plain decoding among the ids of methods."""
LOOK, FOLDER = "?look", "?folder"
"""Entries of the heads' list that do something."""


class SideEditor(QWidget):
    changed = Signal()
    look_requested = Signal()
    """Heads of this model are to be looked for."""
    folder_requested = Signal()
    """A head's folder is to be chosen."""

    def __init__(self, which: Which, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.which = which
        self._model: ModelInfo | None = None
        self._heads: dict[str, str] = {}
        self._head: str | None = None
        self._kept: dict[str, dict[str, object]] = {}
        self.options: list[MethodOption] = []
        side = tr("Compare", "Side {letter}").format(letter=letter(which))
        title = QLabel(side, self)
        title.setProperty("textRole", "label")
        self.method = QComboBox(self)
        self.method.setAccessibleName(tr("Compare", "{side}: method").format(side=side))
        self.head = QComboBox(self)
        self.head.setAccessibleName(tr("Compare", "{side}: head").format(side=side))
        for box in (self.method, self.head):
            box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            box.setMinimumContentsLength(16)
            box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.about = QLabel(self)
        self.about.setTextFormat(Qt.TextFormat.PlainText)
        self.about.setWordWrap(True)
        self.about.setProperty("textRole", "small")
        self.form = QFormLayout()
        self.form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        self.form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        self.form.addRow(tr("Compare", "Method"), self.method)
        self.form.addRow(tr("Compare", "Head"), self.head)
        self._own = QFormLayout()
        self._own.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(title)
        column.addLayout(self.form)
        column.addWidget(self.about)
        column.addLayout(self._own)
        column.addStretch(1)
        self.method.currentIndexChanged.connect(lambda _: self._show_method())
        self.head.activated.connect(self._on_head)

    # ------------------------------------------------------------------ filling

    def fill(self, model: ModelInfo | None, choice: SideChoice) -> None:
        """Offer what this model has, with a choice made."""
        self._model, self._head = model, choice.head
        if choice.head is not None:
            self._heads.setdefault(choice.head, choice.head_name or choice.head)
        self.options = []
        self._kept = {choice.method or (model.method if model else ""): dict(choice.options)}
        self.method.blockSignals(True)
        self.method.clear()
        self.method.addItem(tr("Compare", "Plain decoding (EAGLE off)"), PLAIN)
        methods = [each for each in model.methods if each.drafts] if model is not None else []
        own = next((of_engine(each.name) for each in methods if model and each.id == model.method), "")
        if methods or (model is not None and model.head_name is not None):
            self.method.addItem(
                tr("Compare", "Automatic ({method})").format(method=own) if own else tr("Compare", "EAGLE"), ""
            )
        for each in methods:
            name = of_engine(each.name)
            if each.problem:
                name = tr("Compare", "{method} – not with what is loaded").format(method=name)
            self.method.addItem(name, each.id)
        wanted = self.method.findData(choice.method if choice.drafting else PLAIN)
        self.method.setCurrentIndex(max(0, wanted))
        self.method.blockSignals(False)
        self._fill_heads()
        self._show_method()

    def offer_heads(self, heads: Sequence[tuple[str, str]]) -> None:
        """Add heads that are on this computer: (folder, name)."""
        self._heads.update(heads)
        self._fill_heads()

    def choose_head(self, folder: str | None, name: str = "") -> None:
        if folder is not None:
            self._heads.setdefault(folder, name or folder)
        self._head = folder
        self._fill_heads()
        self._show_method()

    def _fill_heads(self) -> None:
        name = self._model.head_name if self._model is not None else None
        self.head.clear()
        self.head.addItem(
            tr("Compare", "As loaded ({head})").format(head=name) if name else tr("Compare", "As loaded (none)"), ""
        )
        for folder, text in self._heads.items():
            self.head.addItem(text, folder)
        self.head.addItem(tr("Compare", "Look for other heads on this computer…"), LOOK)
        self.head.addItem(tr("Compare", "Another folder…"), FOLDER)
        self.head.setCurrentIndex(max(0, self.head.findData(self._head or "")))

    def _on_head(self, index: int) -> None:
        key = self.head.itemData(index)
        if key in (LOOK, FOLDER):
            self.head.setCurrentIndex(max(0, self.head.findData(self._head or "")))
            (self.look_requested if key == LOOK else self.folder_requested).emit()
            return
        self._head = key or None
        self._show_method()

    # ------------------------------------------------------------------ the method

    def _method(self) -> MethodInfo | None:
        return method_of(SideChoice(method=self.method.currentData() or ""), self._model)

    def _show_method(self) -> None:
        self._keep_options()
        while self._own.rowCount():
            self._own.removeRow(0)
        self.options = []
        key = self.method.currentData()
        drafting = key != PLAIN
        self.form.setRowVisible(self.head, drafting)
        method = self._method() if drafting else None
        if not drafting:
            self.about.setText(tr("Compare", "One token for each pass of the target: what speed is measured against."))
        elif method is None:
            self.about.setText("")
        else:
            lossless = "" if method.lossless else f" {tr('Model settings', LOSSY)}"
            problem = of_engine(method.problem) if self._head is None else ""
            self.about.setText(problem or f"{of_engine(method.about)}{lossless}")
            chosen = self._kept.get(method.id, {})
            for setting in method.settings:
                option = MethodOption(method.id, setting, chosen.get(setting.name))
                option.own.setAccessibleName(f"{letter(self.which)}: {option.own.accessibleName()}")
                option.field.setAccessibleName(f"{letter(self.which)}: {option.field.accessibleName()}")
                self.options.append(option)
                self._own.addRow(of_engine(setting.title), option)
        self.about.setVisible(bool(self.about.text()))
        self.changed.emit()

    def _keep_options(self) -> None:
        for option in self.options:
            table = self._kept.setdefault(option.method_id, {})
            value = option.value()
            if value is None:
                table.pop(option.setting.name, None)
            else:
                table[option.setting.name] = value

    def choice(self) -> SideChoice:
        key = self.method.currentData()
        if key in (PLAIN, None):
            return SideChoice(drafting=False)
        values = tuple(
            (option.setting.name, value) for option in self.options if (value := option.value()) is not None
        )
        name = self._heads.get(self._head, "") if self._head is not None else ""
        return SideChoice(True, key, values, self._head, name)

    def problem(self) -> str:
        """Why this cannot be run, as far as it can be told before a head is loaded."""
        choice = self.choice()
        method = method_of(choice, self._model)
        return of_engine(method.problem) if choice.drafting and choice.head is None and method is not None else ""
