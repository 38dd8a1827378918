"""Entering an access token: what it is for, and where it will be kept."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.hub.details_pane import label
from app.hub.words import problem
from app.language import mark, tr
from engine.protocol.hub import TokenSource
from engine.protocol.hub_messages import Account

SOURCES = {
    TokenSource.NONE: mark(
        "Hub",
        "No token is set. Free models need none; gated ones need the token of an account that may read them.",
    ),
    TokenSource.SESSION: mark(
        "Hub", "The token that you entered is used until Eyrie ends. No keyring could keep it."
    ),
    TokenSource.KEYRING: mark("Hub", "The token that you entered is used. The system's keyring keeps it."),
    TokenSource.ENVIRONMENT: mark("Hub", "The token of the variable HF_TOKEN is used."),
    TokenSource.STORED: mark("Hub", "The token that “hf auth login” stored is used."),
}
WHERE = mark(
    "Hub",
    "An entered token goes into the system's keyring, or stays until Eyrie ends where there is none. "
    "It is sent to the hub alone.",
)


def account_words(account: Account | None) -> str:
    """The account in a few words, for a button."""
    if account is None:
        return tr("Hub", "Account")
    if account.is_offline:
        return tr("Hub", "Offline")
    if account.problem is not None:
        refused = account.problem.kind == "hub-token"
        return tr("Hub", "Token refused") if refused else tr("Hub", "Account not reached")
    if account.name:
        return account.name
    return tr("Hub", "Not logged in") if account.source is TokenSource.NONE else tr("Hub", "Token set")


class TokenDialog(QDialog):
    entered = Signal(str)
    """A token; "" forgets the one that was entered."""
    page_requested = Signal()

    def __init__(self, account: Account | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Hub", "Hub account"))
        self.now = label(self)
        self.field = QLineEdit(self)
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setPlaceholderText("hf_…")
        self.field.setMinimumWidth(380)  # and not the dialog's, which would let its buttons be cut
        self.field.setAccessibleName(tr("Hub", "Access token"))
        self.field.setInputMethodHints(
            Qt.InputMethodHint.ImhSensitiveData | Qt.InputMethodHint.ImhNoPredictiveText
        )
        where = label(self, "small")
        where.setText(tr("Hub", WHERE))
        self.use_button = QPushButton(tr("Hub", "Use this token"), self)
        self.use_button.setProperty("look", "primary")
        self.use_button.setEnabled(False)
        self.forget_button = QPushButton(tr("Hub", "Forget it"), self)
        make = QPushButton(tr("Hub", "Make a token…"), self)
        close = QPushButton(tr("Hub", "Close"), self)
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
        for widget in (self.now, self.field, where):
            column.addWidget(widget)
        column.addLayout(buttons)
        self.show_account(account)

    def show_account(self, account: Account | None) -> None:
        """What is known of the account now; it may come while the dialog is open."""
        sentences: list[str] = []
        if account is not None:
            who = tr("Hub", "Account: {name}.").format(name=account.name) if account.name else ""
            trouble = problem(account.problem) if account.problem else ""
            sentences = [who, tr("Hub", SOURCES[account.source]), trouble]
        self.now.setText(" ".join(each for each in sentences if each))
        own = account is not None and account.source in (TokenSource.SESSION, TokenSource.KEYRING)
        self.forget_button.setVisible(own)

    def _on_use(self) -> None:
        token = self.field.text().strip()
        self.field.clear()
        self.entered.emit(token)
        self.accept()

    def _on_forget(self) -> None:
        self.entered.emit("")
        self.accept()
