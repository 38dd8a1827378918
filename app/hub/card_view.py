"""A model card: Markdown of strangers, without HTML, pictures, or anything that loads by itself."""

from __future__ import annotations

import re
from typing import Any

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QImage, QTextDocument
from PySide6.QtWidgets import QTextBrowser, QWidget

from app.language import tr

LONGEST = 60_000
"""Characters shown: a card is for reading, and laying out megabytes would hold up the window."""
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
_SCRIPTS = re.compile(r"<(script|style)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_TAGS = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")
_NESTED = re.compile(r"^(?:[ \t]*(?:>|(?:[*+-]|\d{1,9}[.)])[ \t])){7,}[ \t]*", re.MULTILINE)
"""Quotes in quotes and lists in lists, deeper than anybody writes: laying out thousands holds up the window."""
_PICTURES = re.compile(r"!\[([^\]\n]{0,300})\]\([^)\n]{0,2000}\)")
_PICTURE_REFERENCES = re.compile(r"!\[([^\]\n]{0,300})\]\[[^\]\n]{0,300}\]")


def plain_markdown(text: str) -> str:
    """The card without tags and pictures, as they would only be noise: neither is ever acted upon."""
    text = _COMMENTS.sub("", text[: 2 * LONGEST])
    text = _SCRIPTS.sub("", text)
    for pattern in (_PICTURES, _PICTURE_REFERENCES):
        text = pattern.sub(lambda found: f"({found[1]})" if found[1] else "", text)
    text = _NESTED.sub("> ", _TAGS.sub("", text))
    if len(text) > LONGEST:
        rest = tr("Hub", "(The card goes on; its page has the rest.)")
        text = f"{text[:LONGEST]}\n\n{rest}"
    return text.strip()


class CardView(QTextBrowser):
    """Shows a card. Links are told, never followed by themselves."""

    link_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setOpenLinks(False)
        self.setOpenExternalLinks(False)
        self.setAccessibleName(tr("Hub", "Model card"))
        self.document().setDocumentMargin(10)
        self.anchorClicked.connect(self._on_link)

    def show_card(self, text: str) -> None:
        document = self.document()
        document.clear()
        features = (
            QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML
        )
        document.setMarkdown(plain_markdown(text) or tr("Hub", "There is no model card."), features)
        self.verticalScrollBar().setValue(0)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Nothing is ever loaded, from the network or from the disk."""
        return QImage()

    def _on_link(self, url: QUrl) -> None:
        if url.scheme() in ("http", "https"):
            self.link_chosen.emit(url.toString())
