"""Pictures of formulas in one document, in the size and colour of its text."""

from __future__ import annotations

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QFontMetrics, QTextDocument, QTextImageFormat
from PySide6.QtWidgets import QTextEdit

from app.markdown import formulas
from app.markdown.blocks import DISPLAY, Span
from app.markdown.writing import DocumentWriter

SIZE = 0.9
"""An em of the maths font in heights of the text's font."""
_MARKS = (("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$"))


def tex_of(source: str) -> str:
    """A formula without its marks, "" when it is not complete."""
    for opening, closing in _MARKS:
        if source.startswith(opening):
            complete = source.endswith(closing) and len(source) > len(opening) + len(closing)
            return source[len(opening) : -len(closing)].strip() if complete else ""
    return ""


class FormulaPictures(QObject):
    """Gives a document the pictures it asks for, and puts them in when they come later."""

    def __init__(self, edit: QTextEdit) -> None:
        super().__init__(edit)
        self._edit = edit
        self._names: dict[Span, str] = {}
        self._waits = False
        self.writer: DocumentWriter | None = None

    def picture(self, span: Span) -> QTextImageFormat | None:
        """The picture of a formula; ``None`` while there is none: its source stands there."""
        tex = tex_of(span.text)
        setter = formulas.setter()
        formula = setter.formula(tex, bool(span.look & DISPLAY)) if tex else None
        if formula is None:
            if tex and not self._waits and setter.is_busy:
                self._waits = True
                setter.ready.connect(self._on_ready)
            return None
        document = self._edit.document()
        metrics = QFontMetrics(self._edit.font())
        placed = formula.placed(metrics.height() * SIZE, metrics.descent(), metrics.xHeight())
        image = formula.image(
            placed, self._edit.palette().text().color(), max(2.0, self._edit.devicePixelRatioF())
        )
        name = self._names.setdefault(span, f"formula:{len(self._names)}")
        document.addResource(QTextDocument.ResourceType.ImageResource.value, QUrl(name), image)
        room = document.textWidth() - metrics.height() * 2
        shrink = min(1.0, room / placed.width) if room > 50 else 1.0
        made = QTextImageFormat()
        made.setName(name)
        made.setWidth(placed.width * shrink)
        made.setHeight(placed.whole_height * shrink)
        vertical = QTextImageFormat.VerticalAlignment
        made.setVerticalAlignment(vertical.AlignMiddle if placed.middle else vertical.AlignBaseline)
        return made

    def repaint(self) -> None:
        """In the colours of another theme."""
        for span in list(self._names):
            self.picture(span)
        self._edit.viewport().update()

    def clear(self) -> None:
        self._names.clear()

    def _on_ready(self) -> None:
        if self.writer is not None:
            self.writer.refresh_formulas()
        if not formulas.setter().is_busy:
            formulas.setter().ready.disconnect(self._on_ready)
            self._waits = False
