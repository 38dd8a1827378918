"""The part of a model's settings that says how it is loaded."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.language import mark, tr
from app.settings.loading import WEIGHT_FORMATS, LoadOptions
from app.settings.optional_number import OptionalNumber

USUAL_CONTEXT = 4096
NAMES = dict(
    zip(
        WEIGHT_FORMATS,
        (
            mark("Loading", "Automatic"),
            mark("Loading", "4 bits (NF4), on a GPU"),
            mark("Loading", "8 bits, on a processor"),
            "bfloat16",
            "float16",
            "float32",
        ),
        strict=True,
    )
)


class LoadForm(QFormLayout):
    """Context, weights and draft model of :class:`app.settings.loading.LoadOptions`."""

    def __init__(self) -> None:
        super().__init__()
        label = tr("Loading", "Context (tokens)")
        self.context = OptionalNumber("context", label, tr("Loading", "Automatic"), USUAL_CONTEXT)
        self.context.number.setSingleStep(1024)
        self.weights = QComboBox()
        self.weights.setAccessibleName(tr("Loading", "Weights"))
        for name, words in NAMES.items():
            self.weights.addItem(tr("Loading", words), name)
        self.double_quant = QCheckBox(tr("Loading", "Quantise the scales, too"))
        self.double_quant.setToolTip(tr("Loading", "NF4 becomes 8 % smaller and a little slower."))
        self.weights.currentIndexChanged.connect(lambda _: self._show_double())
        self.draft = QLineEdit()
        self.draft.setReadOnly(True)
        self.draft.setAccessibleName(tr("Loading", "Draft model"))
        self.draft.setPlaceholderText(tr("Loading", "None"))
        self.choose = QPushButton(tr("Loading", "Choose…"))
        self.choose.setAccessibleName(tr("Loading", "Choose the folder of a draft model"))
        self.none = QPushButton(tr("Loading", "None"))
        self.none.setAccessibleName(tr("Loading", "No draft model"))
        self.choose.clicked.connect(lambda: self._choose())
        self.none.clicked.connect(self.draft.clear)
        buttons = QHBoxLayout()
        for button in (self.choose, self.none):
            button.setAutoDefault(False)
            buttons.addWidget(button)
        buttons.addStretch(1)
        drafting = QVBoxLayout()
        drafting.addWidget(self.draft)
        drafting.addLayout(buttons)
        for text, tip, part in (
            (
                label,
                tr("Loading", "How long a chat can get. A longer one needs more memory."),
                self.context,
            ),
            (tr("Loading", "Weights"), tr("Loading", "Of files that are not quantised yet."), self.weights),
            ("", "", self.double_quant),
            (
                tr("Loading", "Draft model"),
                tr("Loading", "A smaller model with the same vocabulary, for the method of that name."),
                drafting,
            ),
        ):
            self.addRow(text, part)
            for widget in _widgets(part) if tip else ():
                widget.setToolTip(tip)
        self.fill(LoadOptions())

    def fill(self, options: LoadOptions) -> None:
        self.context.set_value(options.context or None)
        self.weights.setCurrentIndex(WEIGHT_FORMATS.index(options.weight_format))
        self.double_quant.setChecked(options.double_quant)
        self.draft.setText(options.draft)
        self._show_double()

    def entered(self) -> LoadOptions:
        return LoadOptions(
            self.context.value() or 0,
            self.weights.currentData(),
            self.double_quant.isChecked() and self.double_quant.isEnabled(),
            self.draft.text(),
        )

    def _show_double(self) -> None:
        self.double_quant.setEnabled(self.weights.currentData() in ("", "nf4"))

    def _choose(self) -> None:
        begin = str(Path(self.draft.text()).parent) if self.draft.text() else ""
        parent: QWidget | None = self.parentWidget()
        if path := QFileDialog.getExistingDirectory(
            parent, tr("Loading", "Choose the folder of a smaller model"), begin
        ):
            self.draft.setText(path)


def _widgets(part: QWidget | QHBoxLayout | QVBoxLayout) -> list[QWidget]:
    if isinstance(part, QWidget):
        return [part]
    items = [part.itemAt(place) for place in range(part.count())]
    return [widget for item in items if item is not None and (widget := item.widget()) is not None]
