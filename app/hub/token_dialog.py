"""Entering an access token: what it is for, and where it will be kept."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.hub.details_pane import label
from engine.protocol.hub import TokenSource
from engine.protocol.hub_messages import Account

SOURCES = {
    TokenSource.NONE: "No token is set. Free models need none; gated ones need the token of an account that may read them.",
    TokenSource.SESSION: "The token that you entered is used until Eyrie ends. No keyring could keep it.",
    TokenSource.KEYRING: "The token that you entered is used. The system's keyring keeps it.",
    TokenSource.ENVIRONMENT: "The token of the variable HF_TOKEN is used.",
    TokenSource.STORED: "The token that “hf auth login” stored is used.",
}
WHERE = (
    "An entered token goes into the system's keyring, or stays until Eyrie ends where there is none. "
    "It is sent to the hub alone."
)


def account_words(account: Account | None) -> str:
    """The account in a few words, for a button."""
    if account is None:
        return "Account"
    if account.is_offline:
        return "Offline"
    if account.problem is not None:
        return "Token refused" if account.problem.kind == "hub-token" else "Account not reached"
    if account.name:
        return account.name
    return "Not logged in" if account.source is TokenSource.NONE else "Token set"


class TokenDialog(QDialog):
    entered = Signal(str)
    """A token; "" forgets the one that was entered."""
    page_requested = Signal()

    def __init__(self, account: Account | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Hub account")
        self.setMinimumWidth(420)
        now = label(self)
        if account is not None:
            who = f"Account: {account.name}. " if account.name else ""
            trouble = f" {account.problem.message} {account.problem.next_step}" if account.problem else ""
            now.setText(f"{who}{SOURCES[account.source]}{trouble}")
        self.field = QLineEdit(self)
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setPlaceholderText("hf_…")
        self.field.setAccessibleName("Access token")
        self.field.setInputMethodHints(
            Qt.InputMethodHint.ImhSensitiveData | Qt.InputMethodHint.ImhNoPredictiveText
        )
        where = label(self, "small")
        where.setText(WHERE)
        self.use_button = QPushButton("Use this token", self)
        self.use_button.setProperty("look", "primary")
        self.use_button.setEnabled(False)
        self.forget_button = QPushButton("Forget it", self)
        own = account is not None and account.source in (TokenSource.SESSION, TokenSource.KEYRING)
        self.forget_button.setVisible(own)
        make = QPushButton("Make a token…", self)
        close = QPushButton("Close", self)
        self.field.textChanged.connect(lambda text: self.use_button.setEnabled(bool(text.strip())))
        self.use_button.clicked.connect(self._on_use)
        self.forget_button.clicked.connect(self._on_forget)
        make.clicked.connect(self.page_requested)
        close.clicked.connect(self.reject)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        for button in (make, self.forget_button):
            buttons.addWidget(button)
        buttons.addStretch(1)
        for button in (close, self.use_button):
            buttons.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(10)
        for widget in (now, self.field, where):
            column.addWidget(widget)
        column.addLayout(buttons)

    def _on_use(self) -> None:
        token = self.field.text().strip()
        self.field.clear()
        self.entered.emit(token)
        self.accept()

    def _on_forget(self) -> None:
        self.entered.emit("")
        self.accept()
