"""Numbers in forms: what is typed stays as it is typed, and the wheel scrolls past."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QDialog, QWidget
from pytestqt.qtbot import QtBot

from app.chat.conversation import Chat
from app.chat.instructions import InstructionsDialog
from app.compare.dialog import CompareDialog
from app.rehearsal import REHEARSAL_MODEL
from app.settings.dialog import SettingsDialog
from app.settings.model_dialog import ModelSettingsDialog
from app.settings.store import SettingsStore
from engine.protocol import GenerationSettings
from tests.app.conftest import OpenWindow

DOWN = -120


def type_anew(qtbot: QtBot, box: QAbstractSpinBox, text: str) -> None:
    box.setFocus()
    box.selectAll()
    qtbot.keyClicks(box, text)


def roll(widget: QWidget, angle: int = DOWN) -> bool:
    """One notch of the wheel over the middle of a widget; whether it took it. If not, what it stands in gets it."""
    at = QPointF(widget.rect().center())
    over = QPointF(widget.mapToGlobal(widget.rect().center()))
    buttons, keys = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    wheel = QWheelEvent(at, over, QPoint(), QPoint(0, angle), buttons, keys, Qt.ScrollPhase.NoScrollPhase, False)
    QApplication.sendEvent(widget, wheel)
    return wheel.isAccepted()


def test_a_number_is_not_rewritten_while_it_is_typed(
    qtbot: QtBot, look: QApplication, store: SettingsStore
) -> None:
    """Every key changes the settings, which the dialog shows: "0.8" must not become "0.80" before the 5."""
    dialog = SettingsDialog(store)
    qtbot.addWidget(dialog)
    dialog.show()
    type_anew(qtbot, dialog.top_p, "0.85")
    type_anew(qtbot, dialog.temperature, "1.2")
    type_anew(qtbot, dialog.temperature, "0.75")
    type_anew(qtbot, dialog.max_new_tokens, "1024")
    dialog.seed.automatic.setChecked(False)
    type_anew(qtbot, dialog.seed.number, "77")
    now = store.current
    assert (now.top_p, now.temperature, now.max_new_tokens, now.seed) == (0.85, 0.75, 1024, 77)


@pytest.mark.parametrize("kind", ["settings", "model", "chat", "compare"])
def test_the_wheel_changes_nothing_on_its_way(
    qtbot: QtBot, look: QApplication, store: SettingsStore, open_window: OpenWindow, kind: str
) -> None:
    dialog: QDialog
    if kind == "settings":
        dialog = SettingsDialog(store)
    elif kind == "model":
        dialog = ModelSettingsDialog(REHEARSAL_MODEL, store, None, "demo")
    elif kind == "chat":
        dialog = InstructionsDialog(Chat(), GenerationSettings(), None)
    else:
        dialog = CompareDialog(open_window().client)
    qtbot.addWidget(dialog)
    dialog.show()
    dialog.resize(dialog.minimumSizeHint().width() + 200, 420)
    qtbot.waitExposed(dialog)
    boxes = [*dialog.findChildren(QAbstractSpinBox), *dialog.findChildren(QComboBox)]
    shown = [box for box in boxes if box.isVisible()]
    assert shown
    for box in shown:
        box.clearFocus()
        box.setEnabled(True)
        before = box.text() if isinstance(box, QAbstractSpinBox) else box.currentText()
        assert not roll(box) and not roll(box, -DOWN) and not roll(box)
        after = box.text() if isinstance(box, QAbstractSpinBox) else box.currentText()
        assert after == before, f"the wheel changed {box.accessibleName()}"


def test_the_wheel_changes_what_has_the_focus(qtbot: QtBot, look: QApplication, store: SettingsStore) -> None:
    dialog = SettingsDialog(store)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitExposed(dialog)
    dialog.activateWindow()
    dialog.max_new_tokens.setFocus()
    qtbot.waitUntil(dialog.max_new_tokens.hasFocus, timeout=20000)
    before = store.current.max_new_tokens
    assert roll(dialog.max_new_tokens) and store.current.max_new_tokens == before - 64
