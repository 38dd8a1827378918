"""Settings of one model: how it drafts, how it samples, and what it is told.

The form of a method's settings is made from what the engine says of them, so that a new
method needs nothing here.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QFrame,
    QLabel,
    QPlainTextEdit,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.language import mark, numbers, tr
from app.language.engine_texts import of_engine
from app.settings.load_form import LoadForm
from app.settings.loading import LoadOptions, options_for, with_options
from app.settings.own_values import OwnValues
from app.settings.per_model import ModelSettings, of_model, with_model
from app.settings.store import SettingsStore
from app.spin_text import indent
from app.wheel import scroll_past
from engine.protocol import MethodInfo, MethodSetting, ModelInfo, SettingKind

LOSSY = mark("Model settings", "Changes the distribution: the reply no longer follows the model's own.")
THINKING = (
    (mark("Model settings", "As the model does"), None),
    (mark("Model settings", "Think first"), True),
    (mark("Model settings", "Answer at once"), False),
)
MOST = 1_000_000
CHOICES = {"lossless": mark("Model settings", "lossless"), "typical": mark("Model settings", "typical")}
"""What the methods let choose among, for people; others are shown as they are called."""


class MethodOption(QWidget):
    """One setting of a method; ``value`` is ``None`` while the default applies."""

    def __init__(self, method_id: str, setting: MethodSetting, value: Any) -> None:
        super().__init__()
        self.method_id = method_id
        self.setting = setting
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        shown = setting.default if value is None else value
        title = of_engine(setting.title)
        if setting.default is None:
            self.own = QCheckBox(tr("Model settings", "Automatic"))
        else:
            default = tr("Model settings", "Default ({value})").format(value=_words(setting.default))
            self.own = QCheckBox(default)
        self.own.setAccessibleName(tr("Model settings", "{setting}: default").format(setting=title))
        self.own.setChecked(value is None)
        self.field = self._make(shown)
        self.field.setAccessibleName(title)
        self.field.setToolTip(of_engine(setting.meaning))
        self.field.setEnabled(value is not None)
        self.own.toggled.connect(self.field.setDisabled)
        self.own.toggled.connect(lambda _: self._warn())
        self.warning = QLabel(tr("Model settings", LOSSY))
        self.warning.setProperty("textRole", "error")
        self.warning.setWordWrap(True)
        for part in (self.own, self.field, self.warning):
            column.addWidget(part)
        self.setFocusProxy(self.own)
        scroll_past(self)
        self._warn()

    def _make(self, shown: Any) -> QWidget:
        setting = self.setting
        if setting.kind is SettingKind.SWITCH:
            switch = QCheckBox(tr("Model settings", "On"))
            switch.setChecked(bool(shown))
            switch.toggled.connect(lambda _: self._warn())
            return switch
        if setting.kind in (SettingKind.INTEGER, SettingKind.NUMBER):
            number: QSpinBox | QDoubleSpinBox
            number = QSpinBox() if setting.kind is SettingKind.INTEGER else QDoubleSpinBox()
            low = 0 if setting.low is None else setting.low
            high = MOST if setting.high is None else setting.high
            if isinstance(number, QSpinBox):
                number.setRange(int(low), int(high))
                number.setValue(int(shown if shown is not None else low))
            else:
                number.setDecimals(3)
                number.setSingleStep(0.05)
                number.setRange(low, high)
                number.setValue(float(shown if shown is not None else low))
            number.valueChanged.connect(lambda _: self._warn())
            indent(number)
            return number
        box = QComboBox()
        box.setEditable(setting.kind is SettingKind.TEXT)
        for choice in setting.choices:
            box.addItem(choice if box.isEditable() else _words(choice), choice)
        text = str(shown if shown is not None else "")
        box.setCurrentText(text if box.isEditable() else _words(text))
        box.currentTextChanged.connect(lambda _: self._warn())
        return box

    def value(self) -> Any:
        """What was chosen; ``None``: the default."""
        if self.own.isChecked():
            return None
        field = self.field
        if isinstance(field, QCheckBox):
            return field.isChecked()
        if isinstance(field, QSpinBox):
            return field.value()
        if isinstance(field, QDoubleSpinBox):
            return round(field.value(), 4)
        assert isinstance(field, QComboBox)
        return field.currentText() if field.isEditable() else field.currentData()

    def _warn(self) -> None:
        value = self.setting.default if self.own.isChecked() else self.value()
        if hasattr(self, "warning"):
            self.warning.setVisible(value in self.setting.lossy)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return tr("Model settings", "on") if value else tr("Model settings", "off")
    if isinstance(value, float):
        return numbers.significant(value, 3)
    return tr("Model settings", CHOICES[value]) if value in CHOICES else str(value)


class ModelSettingsDialog(QDialog):
    """Changes apply with "Save", from the next reply on."""

    reload_wanted = Signal()
    """What was saved needs the model to be loaded again."""

    def __init__(
        self, model: ModelInfo, store: SettingsStore, parent: QWidget | None = None, loaded_as: str = ""
    ) -> None:
        """``loaded_as`` is what ``Load.model`` named; without it nothing of loading is offered."""
        super().__init__(parent)
        self._model = model
        self._loaded_as = loaded_as
        self._store = store
        self._methods = {method.id: method for method in model.methods}
        self._options: dict[str, dict[str, Any]] = {}
        self.options: list[MethodOption] = []
        self.setWindowTitle(tr("Model settings", "Settings for this model"))
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        page = QWidget()
        self._column = QVBoxLayout(page)
        self._column.setContentsMargins(24, 18, 24, 18)
        self._column.setSpacing(10)
        self._heading(model.name)
        self._note(
            tr(
                "Model settings",
                "What is set here wins over the settings; what a chat has its own way wins over this.",
            )
        )
        if self._methods:
            self._build_method()
        self._heading(tr("Model settings", "Replies"))
        if model.thinking_optional:
            self._build_thinking()
        self.values = OwnValues(store.current.generation())
        self._column.addLayout(self.values)
        self._heading(tr("Model settings", "System prompt"))
        self.prompt = QPlainTextEdit()
        self.prompt.setAccessibleName(
            tr("Model settings", "System prompt for chats that have none of their own")
        )
        self.prompt.setPlaceholderText(tr("Model settings", "For chats that have none of their own"))
        self.prompt.setTabChangesFocus(True)
        self.prompt.setMaximumHeight(6 * self.fontMetrics().lineSpacing())
        self._column.addWidget(self.prompt)
        self.load_form = LoadForm()
        if loaded_as:
            self._heading(tr("Loading", "Loading"))
            self._note(tr("Loading", "The model is loaded again when something changes here."))
            self._column.addLayout(self.load_form)
        self._column.addStretch(1)
        scroll.setWidget(page)
        outer.addWidget(scroll, 1)
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel)
        box.setContentsMargins(24, 6, 24, 16)
        self.save_button = box.button(QDialogButtonBox.StandardButton.Save)
        self.restore_button = box.addButton(
            tr("Settings", "Restore defaults"), QDialogButtonBox.ButtonRole.ResetRole
        )
        self.restore_button.clicked.connect(self._restore)
        box.accepted.connect(self._save)
        box.rejected.connect(self.reject)
        outer.addWidget(box)
        self.resize(600, 680)
        self.fill(of_model(store.current, model))
        self.load_form.fill(options_for(store.current, loaded_as))
        scroll_past(self)

    def _heading(self, text: str) -> None:
        label = QLabel(text)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setProperty("textRole", "heading")
        self._column.addWidget(label)

    def _note(self, text: str) -> QLabel:
        label = QLabel(text)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setProperty("textRole", "small")
        label.setWordWrap(True)
        self._column.addWidget(label)
        return label

    def _build_method(self) -> None:
        self._heading(tr("Model settings", "Drafting"))
        own = self._methods.get(self._model.method)
        self.method = QComboBox()
        self.method.setAccessibleName(tr("Model settings", "Drafting method"))
        automatic = tr("Model settings", "Automatic")
        if own is not None:
            automatic = tr("Methods", "Automatic ({method})").format(method=of_engine(own.name))
        self.method.addItem(automatic, "")
        for method in self._methods.values():
            name = of_engine(method.name)
            if method.problem:
                name = tr("Methods", "{method} – not available").format(method=name)
            self.method.addItem(name, method.id)
        self._column.addWidget(self.method)
        self._about = self._note("")
        self._form = QFormLayout()
        self._column.addLayout(self._form)
        self.method.currentIndexChanged.connect(lambda _: self._show_method())

    def _build_thinking(self) -> None:
        self.thinking = QComboBox()
        self.thinking.setAccessibleName(tr("Model settings", "Thinking"))
        for text, value in THINKING:
            self.thinking.addItem(tr("Model settings", text), value)
        form = QFormLayout()
        form.addRow(tr("Model settings", "Thinking"), self.thinking)
        self._column.addLayout(form)

    # ------------------------------------------------------------------ values

    def fill(self, own: ModelSettings) -> None:
        self.options = []  # those that stand there are of no interest any more
        self._options = {method: dict(chosen) for method, chosen in own.options.items()}
        if self._methods:
            self.method.setCurrentIndex(max(0, self.method.findData(own.method)))
            self._show_method()
        if self._model.thinking_optional:
            self.thinking.setCurrentIndex(self.thinking.findData(own.thinking))
        self.values.fill(own.values)
        self.prompt.setPlainText(own.system_prompt)

    def _shown(self) -> MethodInfo | None:
        return self._methods.get(self.method.currentData() or "")

    def _show_method(self) -> None:
        """The form of the method that is chosen."""
        self._keep_options()
        while self._form.rowCount():
            self._form.removeRow(0)
        self.options = []
        method = self._shown()
        if method is None:
            self._about.setText(
                tr("Model settings", "The method that suits this model, with what the engine measured.")
            )
            return
        about = of_engine(method.about)
        if not method.lossless:
            about += " " + tr("Model settings", LOSSY)
        self._about.setText(of_engine(method.problem) or about)
        if method.problem:
            return
        chosen = self._options.get(method.id, {})
        for setting in method.settings:
            option = MethodOption(method.id, setting, chosen.get(setting.name))
            self.options.append(option)
            self._form.addRow(of_engine(setting.title), option)

    def _keep_options(self) -> None:
        for option in self.options:
            table = self._options.setdefault(option.method_id, {})
            value = option.value()
            if value is None:
                table.pop(option.setting.name, None)
            else:
                table[option.setting.name] = value

    def entered(self) -> ModelSettings:
        self._keep_options()
        return ModelSettings(
            self.values.entered(),
            (self.method.currentData() or "") if self._methods else "",
            {method: table for method, table in self._options.items() if table},
            self.thinking.currentData() if self._model.thinking_optional else None,
            self.prompt.toPlainText().strip(),
        )

    def _restore(self) -> None:
        self.fill(ModelSettings())
        self.load_form.fill(LoadOptions())

    def _save(self) -> None:
        settings = self._store.current
        self._store.update(models=with_model(settings, self._model, self.entered()))
        options = self.load_form.entered()
        if self._loaded_as and options != options_for(settings, self._loaded_as):
            self._store.update(loads=with_options(settings, self._loaded_as, options))
            self.reload_wanted.emit()
        self.accept()
