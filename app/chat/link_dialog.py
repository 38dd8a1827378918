"""Asks before an address from a model's text is opened, and shows where it really goes."""

from __future__ import annotations

from urllib.parse import urlsplit

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget

from app.language import mark, numbers, tr

SCHEMES = ("http", "https", "mailto")
"""Everything else is never opened."""
LONGEST = 600

WARNING = mark("Link", "The model wrote this address. Open it only if you trust where it goes.")
REFUSED = mark("Link", "Eyrie opens web pages and mail addresses only. You can copy the address.")


def may_be_opened(address: str) -> bool:
    """Whether an address is one of the web or of mail, and says where it goes."""
    try:
        parts = urlsplit(address.strip())
        host = parts.hostname
    except ValueError:
        return False
    if parts.scheme.lower() not in SCHEMES or any(ord(letter) < 33 for letter in address):
        return False
    return bool(host) if parts.scheme.lower() != "mailto" else bool(parts.path)


def spelled_out(address: str) -> str:
    """An address so that none of its letters can pass for another: foreign ones as their codes."""
    url = QUrl(address)
    shown = bytes(url.toEncoded().data()).decode("ascii", "replace") if url.isValid() else ""
    shown = shown or address.encode("ascii", "backslashreplace").decode("ascii")
    if len(shown) <= LONGEST:
        return shown
    words = tr("Link", "{beginning}… ({count} characters)")
    return words.format(beginning=shown[:LONGEST], count=numbers.whole(len(shown)))


class LinkDialog(QMessageBox):
    """Open, copy or leave it. Nothing is opened before the user says so."""

    def __init__(self, address: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._address = address.strip()
        allowed = may_be_opened(self._address)
        self.setWindowTitle(
            tr("Link", "Open this address?") if allowed else tr("Link", "This address is not opened")
        )
        self.setIcon(QMessageBox.Icon.NoIcon)
        self.setTextFormat(Qt.TextFormat.PlainText)
        # Broken where it can be: a box cannot scroll sideways.
        shown = spelled_out(self._address)
        self.setText("\n".join(shown[place : place + 70] for place in range(0, len(shown), 70)))
        self.setInformativeText(tr("Link", WARNING) if allowed else tr("Link", REFUSED))
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.open_button: QPushButton | None = None
        if allowed:
            self.open_button = self.addButton(tr("Link", "Open"), QMessageBox.ButtonRole.AcceptRole)
        self.copy_button = self.addButton(tr("Link", "Copy the address"), QMessageBox.ButtonRole.ActionRole)
        self.cancel_button = self.addButton(QMessageBox.StandardButton.Cancel)
        self.setDefaultButton(self.cancel_button)
        self.setEscapeButton(self.cancel_button)
        self.buttonClicked.connect(self._on_clicked)

    def _on_clicked(self, button: object) -> None:
        if button is self.open_button and self.open_button is not None:
            QDesktopServices.openUrl(QUrl(self._address))
        elif button is self.copy_button:
            QGuiApplication.clipboard().setText(self._address)
