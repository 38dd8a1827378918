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
MOST_WORK = 6000
"""What laying a card out may take, in marks: a line counts as three, a cell and a mark of emphasis as one.

Qt takes time by the square of a list's items and a table's cells: 60,000 characters of them were ten seconds.
"""
_ENCLOSED = (
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<script\b", re.IGNORECASE), re.compile(r"</script\s*>", re.IGNORECASE)),
    (re.compile(r"<style\b", re.IGNORECASE), re.compile(r"</style\s*>", re.IGNORECASE)),
)
"""What is left out with all between: comments, scripts and styles."""
_TAGS = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")
_NESTED = re.compile(r"^(?:[ \t]*(?:>|(?:[*+-]|\d{1,9}[.)])[ \t])){7,}[ \t]*", re.MULTILINE)
"""Quotes in quotes and lists in lists, deeper than anybody writes: laying out thousands holds up the window."""
_PICTURES = re.compile(r"!\[([^\]\n]{0,300})\]\([^)\n]{0,2000}\)")
_PICTURE_REFERENCES = re.compile(r"!\[([^\]\n]{0,300})\]\[[^\]\n]{0,300}\]")
_MARKS = re.compile(r"[|*_~`\[&<]")


def plain_markdown(text: str) -> str:
    """The card without tags and pictures, as they would only be noise: neither is ever acted upon."""
    text = text[: 2 * LONGEST]
    for begin, end in _ENCLOSED:
        text = _without(text, begin, end)
    for pattern in (_PICTURES, _PICTURE_REFERENCES):
        text = pattern.sub(lambda found: f"({found[1]})" if found[1] else "", text)
    text = _NESTED.sub("> ", _TAGS.sub("", text))
    most = _readable(text)
    if len(text) > most:
        rest = tr("Hub", "(The card goes on; its page has the rest.)")
        text = f"{text[:most]}\n\n{rest}"
    return text.strip()


def _without(text: str, begin: re.Pattern[str], end: re.Pattern[str]) -> str:
    """``text`` without what stands between the two, in one pass however often it begins and never ends."""
    kept, at = [], 0
    while (begun := begin.search(text, at)) is not None:
        ended = end.search(text, begun.end())
        if ended is None:
            break
        kept.append(text[at : begun.start()])
        at = ended.end()
    return "".join([*kept, text[at:]])


def _readable(text: str) -> int:
    """How many characters of a card are laid out quickly."""
    work = at = 0
    for line in text[:LONGEST].splitlines(keepends=True):
        marks = [found.start() for found in _MARKS.finditer(line)]
        work += 3
        if work + len(marks) > MOST_WORK:
            return at + (marks[MOST_WORK - work] if work < MOST_WORK else 0)
        work += len(marks)
        at += len(line)
    return min(len(text), LONGEST)


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
