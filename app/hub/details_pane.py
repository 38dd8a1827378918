"""The chosen model at the right: memory, heads with verdicts, facts, card and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.hub import words
from app.hub.card_view import CardView
from app.hub.memory_bar import MemoryBar
from app.hub.quant_picker import QuantPicker
from app.hub.row_list import Row, RowList, Tone
from app.language import tr
from app.language.engine_texts import of_engine
from app.tab_order import insert_before, leave_to_bar
from app.wrapping_row import WrappingRow
from engine.protocol.hub import Fit, HeadChoice, PairVerdict, Problem

NO_HEAD = "no head"
TONES = {
    PairVerdict.FITS: Tone.GOOD,
    PairVerdict.CAVEAT: Tone.WARN,
    PairVerdict.NOT: Tone.BAD,
    PairVerdict.UNKNOWN: Tone.PLAIN,
}
LONGEST_WORD = 24
"""Letters; what is longer is cut where the window is narrow."""
ACCOUNT_KINDS = ("hub-login", "hub-token", "hub-right")


class _Text(QLabel):
    """Asks for no more width than a long word: a name of 200 letters would widen the whole window."""

    def minimumSizeHint(self) -> QSize:
        size = super().minimumSizeHint()
        return QSize(min(size.width(), LONGEST_WORD * self.fontMetrics().averageCharWidth()), size.height())


def label(parent: QWidget, role: str = "") -> QLabel:
    made = _Text(parent)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(True)
    made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if role:
        made.setProperty("textRole", role)
    return made


class ProblemStrip(QWidget):
    """What stands in the way, and under it the buttons that help."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = label(self, "error")
        self._buttons = WrappingRow(self)
        self._column = column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 12, 8)
        column.setSpacing(6)
        column.addWidget(self.text)
        column.addWidget(self._buttons)
        self.hide()

    def say(self, text: str, offers: Sequence[tuple[str, Callable[[], object]]]) -> None:
        self.text.setText(text)
        self.setAccessibleName(text)
        before, self._buttons = self._buttons, WrappingRow(self)
        for name, act in offers:
            button = QPushButton(name, self)
            button.setAutoDefault(False)
            button.clicked.connect(lambda _=False, act=act: act())
            self._buttons.add(button)
        self._column.replaceWidget(before, self._buttons)
        before.hide()
        before.deleteLater()
        self._buttons.setVisible(bool(offers))
        self.show()

    def buttons(self) -> list[QPushButton]:
        """Those that help now; what was offered before may still be on its way out."""
        return self._buttons.findChildren(QPushButton)

    def offered(self) -> list[str]:
        """The texts of the buttons."""
        return [button.text() for button in self.buttons()]

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.tokens(self).error_fill)
        painter.drawRoundedRect(self.rect(), 8, 8)


class DetailsPane(QWidget):
    """Shows what it is told; the dialog knows what is chosen."""

    head_chosen = Signal(str)
    """The repository or folder of a head; "" for none."""
    page_requested = Signal()
    link_chosen = Signal(str)
    token_requested = Signal()
    retry_requested = Signal()
    quant_chosen = Signal(str)
    """The first file of a GGUF quantisation."""
    fetch_requested = Signal()
    load_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = label(self, "heading")
        self.line = label(self, "small")
        self.problem = ProblemStrip(self)
        self.waits_for_account = False
        """What stands in the way may be gone with another token."""
        self.quants = QuantPicker(self)
        self.quants.chosen.connect(self.quant_chosen)
        self.memory = MemoryBar(self)
        self.memory_words = label(self)
        self.heads_title = label(self, "label")
        self.heads_title.setText(tr("Hub", "EAGLE head"))
        self.heads = RowList(tr("Hub", "Heads for this model"), self)
        self.heads.setMinimumHeight(90)
        self.heads.chosen.connect(lambda row: self._on_head(row))
        self.verdict = label(self, "small")
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        leave_to_bar(self.tabs)
        self.facts = label(self)
        self.facts.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.facts.setContentsMargins(10, 10, 10, 10)
        self.card = CardView(self)
        self.card.link_chosen.connect(self.link_chosen)
        self.files = QPlainTextEdit(self)
        self.files.setReadOnly(True)
        self.files.setAccessibleName(tr("Hub", "Files that are downloaded"))
        for widget, name in (
            (self.facts, tr("Hub", "About")),
            (self.card, tr("Hub", "Model card")),
            (self.files, tr("Hub", "Files")),
        ):
            self.tabs.addTab(widget, name)
        self.page_button = QPushButton(tr("Hub", "Open its page"), self)
        self.fetch_button = QPushButton(tr("Hub", "Download"), self)
        self.load_button = QPushButton(tr("Hub", "Load"), self)
        self.fetch_button.setProperty("look", "primary")
        self.load_button.setProperty("look", "primary")
        self.page_button.clicked.connect(self.page_requested)
        self.fetch_button.clicked.connect(self.fetch_requested)
        self.load_button.clicked.connect(self.load_requested)
        self.state = label(self, "small")
        self._build()
        self._heads: dict[str, HeadChoice] = {}
        self.clear(tr("Hub", "Choose a model at the left."))

    def _build(self) -> None:
        buttons = WrappingRow(self)
        buttons.add(self.page_button)
        buttons.add(self.fetch_button, self.load_button, to_right=True)
        for button in (self.page_button, self.fetch_button, self.load_button):
            button.setAutoDefault(False)
        body = QWidget(self)
        column = QVBoxLayout(body)
        column.setContentsMargins(16, 12, 16, 4)
        column.setSpacing(6)
        for widget in (
            self.title, self.line, self.problem, self.quants, self.memory, self.memory_words, self.heads_title,
        ):  # fmt: skip
            column.addWidget(widget)
        column.addWidget(self.heads, 2)
        column.addWidget(self.verdict)
        column.addWidget(self.tabs, 3)
        self.tabs.setMinimumHeight(8 * self.fontMetrics().lineSpacing())
        # Large text in a low window scrolls; the buttons stay in sight.
        self.area = QScrollArea(self)
        self.area.setWidget(body)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QScrollArea.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        below = QVBoxLayout()
        below.setContentsMargins(16, 4, 16, 12)
        below.setSpacing(6)
        below.addWidget(self.state)
        below.addWidget(buttons)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self.area, 1)
        outer.addLayout(below)

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        inside = (
            *self.problem.buttons(),
            self.quants.box,
            self.heads,
            self.tabs.tabBar(),
            self.card,
            self.files,
        )
        return [*inside, self.page_button, self.fetch_button, self.load_button]

    # ------------------------------------------------------------------ what is shown

    def clear(self, text: str) -> None:
        self.begin(text, "", has_page=False)
        self.show_heads((), (), complete=True)
        self.heads_title.hide()
        self.heads.hide()
        self.show_buttons("", can_load=False)
        self.tabs.hide()

    def begin(self, title: str, line: str, has_page: bool = True) -> None:
        """Another model: what is known of it comes step by step."""
        self.title.setText(title)
        self.line.setText(line)
        self.line.setVisible(bool(line))
        self.show_problem(None)
        self.quants.hide()
        self.show_fit(None)
        self.facts.setText("")
        self.card.show_card(tr("Hub", "The card is being read…") if has_page else "")
        self.files.setPlainText("")
        self.tabs.show()
        self.page_button.setVisible(has_page)
        self.verdict.setText("")
        self._heads = {}

    def show_fit(self, fit: Fit | None) -> None:
        self.memory.show_fit(fit)
        self.memory_words.setVisible(fit is not None)
        if fit is not None:
            self.memory_words.setText(
                " ".join(part for part in (of_engine(fit.words), words.memory(fit)) if part)
            )

    def show_facts(self, facts: Sequence[tuple[str, str]]) -> None:
        line = tr("Hub", "{name}:  {value}")
        self.facts.setText("\n".join(line.format(name=name, value=value) for name, value in facts if value))

    def show_files(self, files: Sequence[tuple[str, int]], total: int) -> None:
        lines = [f"{words.size(size):>10}   {path}" for path, size in files]
        whole = tr("Hub", "{size}   in all").format(size=f"{words.size(total):>10}")
        self.files.setPlainText("\n".join([*lines, "", whole]))

    def show_problem(self, problem: Problem | None) -> None:
        """What stands in the way, with the cure that its kind has."""
        self.waits_for_account = problem is not None and problem.kind in (*ACCOUNT_KINDS, "hub-licence")
        if problem is None:
            self.problem.hide()
            return
        offers: list[tuple[str, Callable[[], object]]] = []
        if problem.link:
            offers.append((tr("Hub", "Open the page"), lambda: self.link_chosen.emit(problem.link)))
        if problem.kind in ACCOUNT_KINDS:
            offers.append((tr("Hub", "Enter a token…"), self.token_requested.emit))
        if problem.kind != "unsupported":
            offers.append((tr("Hub", "Try again"), self.retry_requested.emit))
        self.problem.say(words.problem(problem), offers)
        insert_before(self.quants.box, self.problem.buttons())

    def show_heads(self, heads: Sequence[HeadChoice], chosen: Sequence[str], complete: bool) -> None:
        """Heads for the model; ``chosen`` are the names that the current one may have, empty for none."""
        self.heads_title.show()
        self.heads.show()
        self._heads = {_key(head): head for head in heads}
        rows = [_row(head) for head in heads]
        rows.append(Row(NO_HEAD, tr("Hub", "No head"), tr("Hub", "plain decoding, one token at a time")))
        self.heads.show_rows(rows)
        self.heads_title.setText(
            tr("Hub", "EAGLE head") if complete else tr("Hub", "EAGLE head, looking for more…")
        )
        self.choose_head(*chosen)

    def choose_head(self, *names: str) -> None:
        """Show the head as the chosen one; none where the list has none that is called so."""
        known = self.head(*names)
        self.heads.point_at(_key(known) if known else NO_HEAD)
        self._show_verdict(known)

    def head(self, *names: str) -> HeadChoice | None:
        """The head of a folder or a repository; it may have come here, or gone, since the list was made."""
        by_repository = {head.repo_id: head for head in self._heads.values()}
        found = (self._heads.get(name) or by_repository.get(name) for name in names)
        return next((head for head in found if head is not None), None)

    def _on_head(self, row: Row) -> None:
        key = "" if row.key == NO_HEAD else row.key
        self._show_verdict(self._heads.get(key))
        self.head_chosen.emit(key)

    def _show_verdict(self, head: HeadChoice | None) -> None:
        text = words.verdict(head.report) + (f" {of_engine(head.note)}" if head.note else "") if head else ""
        self.verdict.setText(text)
        self.verdict.setVisible(bool(text))

    def show_buttons(self, fetch: str, can_load: bool, state: str = "") -> None:
        """``fetch`` is the text of the download button, "" where nothing is to be downloaded."""
        self.fetch_button.setText(fetch or tr("Hub", "Download"))
        self.fetch_button.setVisible(bool(fetch))
        self.load_button.setVisible(can_load)
        self.state.setText(state)
        self.state.setVisible(bool(state))


def _key(head: HeadChoice) -> str:
    return head.folder or head.repo_id


def _row(head: HeadChoice) -> Row:
    line = words.joined(
        head.format,
        words.size(head.size) if head.size else "",
        words.downloads(head.downloads) if head.downloads else "",
        words.licence(head.licence, head.is_gated) if head.licence else "",
        {"this computer": tr("Hub", "on this computer"), "catalogue": tr("Hub", "in the catalogue")}.get(
            head.source, ""
        ),
    )
    return Row(
        _key(head),
        head.repo_id,
        line,
        tr("Hub", words.PAIR_BADGES[head.report.verdict]),
        TONES[head.report.verdict],
        head,
    )
