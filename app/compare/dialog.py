"""The comparison window: put two settings together, watch both, see what came of it, share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QEvent, QMetaObject, Qt, Signal, Slot
from PySide6.QtGui import QCloseEvent, QGuiApplication, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.conversation import Chat
from app.compare import picture, words
from app.compare.comparison import Which
from app.compare.heads import HeadFinder
from app.compare.plan import Plan
from app.compare.record import Record
from app.compare.run_page import RunPage
from app.compare.runner import CompareRunner
from app.compare.setup_page import SetupPage
from app.compare.shelf import Shelf
from app.compare.states import Client
from app.hub.client import HubClient
from app.language import tr
from app.saving import completed, offer
from app.wrapping_row import WrappingRow
from engine.protocol import GenerationSettings, Load, Message

ABREAST = 90
"""From so many average characters of width on the sides stand beside each other."""
KEEP_MS = 2000
"""Between two times at which a comparison that runs is kept."""
ENDINGS = {"PNG (*.png)": ".png", "SVG (*.svg)": ".svg"}


class CompareDialog(QDialog):
    """Not modal, so the chat stays in reach. Closing it stops what it started; what is complete is kept."""

    kept_changed = Signal()
    """A chat has other comparisons than before."""

    def __init__(
        self,
        client: Client,
        load: Callable[[], Load] = Load,
        shelf: Shelf | None = None,
        hub: HubClient | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """``load`` tells what is loaded, or would be."""
        super().__init__(parent)
        self._client = client
        self._load = load
        self._shelf = shelf
        self._chat: Chat | None = None
        self._running_chat: Chat | None = None
        """The chat with which the comparison that runs is kept."""
        self._kept = QElapsedTimer()
        self._plan: Plan | None = None
        """Of what is shown, if it was started here."""
        self.runner = CompareRunner(client, self)
        self.setWindowTitle(tr("Compare", "Compare two settings"))
        self.setModal(False)
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self._build()
        self.heads = HeadFinder(client, hub, list(self.setup.sides.values()), self)
        self.heads.said.connect(self._say)
        self.setup.changed.connect(self._show_buttons)
        self.setup.saved.opened.connect(self.open_saved)
        self.setup.saved.delete_requested.connect(self._delete)
        self.setup.saved.restore_requested.connect(self._restore)
        self.runner.phase_changed.connect(self._on_phase)
        self.runner.recorded.connect(self._keep_soon)
        client.state_changed.connect(self._on_state)
        self._show_buttons()

    # ------------------------------------------------------------------ building

    def _build(self) -> None:
        self.stack = QStackedWidget(self)
        self.setup = SetupPage()
        self._setup_scroll, run_scroll = QScrollArea(), QScrollArea()
        self.run_page = RunPage(self.runner, run_scroll)
        for scroll, page in ((self._setup_scroll, self.setup), (run_scroll, self.run_page)):
            scroll.setWidget(page)
            scroll.setWidgetResizable(True)
            scroll.setFrameShape(QScrollArea.Shape.NoFrame)
            scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
            scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            scroll.verticalScrollBar().setAccessibleName(tr("Compare", "Scroll the comparison"))
            self.stack.addWidget(scroll)
        self.said = QLabel(self)
        self.said.setTextFormat(Qt.TextFormat.PlainText)
        self.said.setWordWrap(True)
        self.said.setProperty("textRole", "small")
        self.said.hide()
        self.start_button = self._button(tr("Compare", "&Start"), self.start_chosen)
        self.start_button.setProperty("look", "primary")
        self.start_button.setDefault(True)
        self.change_button = self._button(tr("Compare", "&New comparison"), self.show_setup)
        self.again_button = self._button(tr("Compare", "Run &again"), self.run_again)
        self.stop_button = self._button(tr("Compare", "S&top"), self.runner.stop)
        self.stop_button.setAccessibleName(tr("Compare", "Stop the comparison"))
        self.share_button = self._button(tr("Compare", "S&hare"), None)
        menu = QMenu(self.share_button)
        self.copy_picture = menu.addAction(tr("Compare", "&Copy the picture"), self._copy_picture)
        self.save_picture = menu.addAction(tr("Compare", "&Save the picture…"), self._ask_for_file)
        self.copy_text = menu.addAction(tr("Compare", "Copy as &text"), self._copy_text)
        self.copy_picture.setShortcut(QKeySequence("Ctrl+Shift+C"))
        self.save_picture.setShortcut(QKeySequence("Ctrl+S"))
        for action in (self.copy_picture, self.save_picture):
            self.addAction(action)
        self.share_button.setMenu(menu)
        self.close_button = self._button(tr("Compare", "Close"), self.close)
        buttons = WrappingRow(self)
        buttons.add(self.share_button)
        buttons.add(
            self.stop_button, self.again_button, self.change_button, self.start_button, self.close_button, to_right=True
        )
        row = QHBoxLayout()
        row.setContentsMargins(20, 8, 20, 14)
        row.addWidget(buttons)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        # Not the dialog's own minimum, which would let what is in it be cut.
        outer.addStrut(480)
        self.stack.setMinimumHeight(320)
        outer.addWidget(self.stack, 1)
        for label in (self.setup.summary, self.setup.trouble, self.said):
            label.setContentsMargins(20, 4, 20, 0)
            outer.addWidget(label)
        outer.addLayout(row)
        self.resize(940, 760)

    def _button(self, text: str, act: Callable[[], object] | None) -> QPushButton:
        button = QPushButton(text, self)
        button.setAutoDefault(False)
        if act is not None:
            button.clicked.connect(lambda _=False: act())
        return button

    # ------------------------------------------------------------------ opening

    def open_for(
        self,
        chat: Chat | None,
        settings: GenerationSettings,
        messages: Sequence[Message],
        conversation: Sequence[Message],
    ) -> None:
        """Offer a comparison for a chat. One that runs goes on and stays in view."""
        if chat is not self._chat:
            self.setup.saved.forget()
        self._chat = chat
        self._show_saved()
        if not self.runner.busy:
            self.setup.fill(self._client.model, settings, messages, conversation)
            self.show_setup()

    def show_setup(self) -> None:
        if not self.runner.busy:
            self.stack.setCurrentIndex(0)
            self._say("")
            self._show_buttons()
            self.start_button.setDefault(True)
            self.setup.sides[Which.A].method.setFocus()

    def show_saved(self) -> None:
        """The list of what is kept with the chat, in view and ready for the keys."""
        self.show_setup()
        self.setup.saved.list.setFocus()
        # After the layout has made room for the list.
        QMetaObject.invokeMethod(self, "_reveal_saved", Qt.ConnectionType.QueuedConnection)

    @Slot()
    def _reveal_saved(self) -> None:
        self._setup_scroll.ensureWidgetVisible(self.setup.saved)

    def start_chosen(self) -> None:
        """Run what was put together."""
        if not self.setup.problem():
            self.start(self.setup.plan(self._load()))

    def start(self, plan: Plan) -> None:
        self._plan = plan
        self._running_chat = self._chat
        self._say("")
        self.stack.setCurrentIndex(1)
        self.run_page.begin()
        self.runner.start(plan)
        if plan.shared.seed is None:
            self._plan = self.runner.plan  # repeats take the seed of the first time
        self._show_buttons()
        self.stop_button.setFocus()

    def run_again(self) -> None:
        if self._plan is not None and not self.runner.busy:
            self.start(self._plan)

    @Slot(str)
    def open_saved(self, comparison_id: str) -> None:
        """Show one that was kept."""
        if self._shelf is None or self.runner.busy:
            return
        try:
            record = self._shelf.read(comparison_id)
        except ValueError as error:
            self._say(str(error))
            return
        self.show_record(record)
        self.change_button.setFocus()

    def show_record(self, record: Record) -> None:
        """Show a comparison that is complete."""
        self._plan = None
        self._say("")
        self.stack.setCurrentIndex(1)
        place = next((place for place, each in enumerate(record.answers) if each.difference is not None), 0)
        self.run_page.show_record(record, place)
        self._show_buttons()

    # ------------------------------------------------------------------ keeping

    @Slot()
    def _keep_soon(self) -> None:
        """Keep what has come so far, unless that was done a moment ago: a large set takes its time."""
        if not self._kept.isValid() or self._kept.elapsed() >= KEEP_MS:
            self._keep()

    def _keep(self) -> None:
        self._kept.start()
        record = self.runner.record
        if self._shelf is not None and self._running_chat is not None and record is not None and record.replies:
            self._shelf.put(self._running_chat, record)
            if self._running_chat is self._chat:
                self._show_saved()

    def _show_saved(self) -> None:
        kept = self._shelf.of_chat(self._chat) if self._shelf is not None and self._chat is not None else []
        self.setup.saved.show_saved(kept)
        self.kept_changed.emit()

    @Slot(str)
    def _delete(self, comparison_id: str) -> None:
        if self._shelf is not None and self._chat is not None:
            self._shelf.delete(self._chat, comparison_id)
            self._show_saved()

    @Slot(str)
    def _restore(self, comparison_id: str) -> None:
        if self._shelf is not None and self._chat is not None:
            self._shelf.restore(self._chat, comparison_id)
            self._show_saved()

    # ------------------------------------------------------------------ sharing

    def _shown(self) -> Record | None:
        record = self.run_page.record
        return record if self.stack.currentIndex() == 1 and not self.runner.busy else None

    def _copy_picture(self) -> None:
        if (record := self._shown()) is not None:
            image = picture.as_image(record, self.palette(), self.run_page.prompt_at)
            QGuiApplication.clipboard().setImage(image)
            self._say(tr("Compare", "The picture is in the clipboard."))

    def _copy_text(self) -> None:
        if (record := self._shown()) is not None:
            QGuiApplication.clipboard().setText(words.as_text(record))
            self._say(tr("Compare", "The figures are in the clipboard."))

    def _ask_for_file(self) -> None:
        if self._shown() is None:
            return
        dialog = QFileDialog(self, tr("Compare", "Save the picture"))
        offer(dialog, "eyrie-comparison", ENDINGS)
        dialog.fileSelected.connect(
            lambda path: self.save_picture_to(Path(path), ENDINGS[dialog.selectedNameFilter()])
        )
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()

    def save_picture_to(self, path: Path, ending: str = ".png") -> bool:
        """Write the picture; ``ending`` is added where the name has none."""
        record = self._shown()
        if record is None:
            return False
        path = completed(path, ending, tuple(ENDINGS.values()))
        try:
            picture.save_picture(record, self.palette(), path, self.run_page.prompt_at)
        except OSError as error:
            self._say(
                tr("Compare", "The picture could not be saved ({reason}). Choose another folder.").format(
                    reason=str(error).rstrip(".")
                )
            )
            return False
        self._say(tr("Compare", "Saved as {path}").format(path=path))
        return True

    # ------------------------------------------------------------------ state

    @Slot(str)
    def _say(self, text: str) -> None:
        self.said.setText(text)
        self.said.setVisible(bool(text))

    @Slot()
    def _on_state(self) -> None:
        """A model came or went."""
        if not self.runner.busy:
            self.setup.show_model(self._client.model)

    @Slot()
    def _on_phase(self) -> None:
        watched = self.stop_button.hasFocus()
        if not self.runner.busy:
            self._keep()
        self._show_buttons()
        if watched and not self.runner.busy:
            self.change_button.setFocus()

    @Slot()
    def _show_buttons(self) -> None:
        running, busy = self.stack.currentIndex() == 1, self.runner.busy
        self.start_button.setVisible(not running)
        self.setup.summary.setVisible(not running)
        self.setup.trouble.setVisible(not running and bool(self.setup.trouble.text()))
        self.start_button.setEnabled(not self.setup.problem())
        for button in (self.stop_button, self.again_button, self.change_button, self.share_button):
            button.setVisible(running)
        self.stop_button.setEnabled(busy and self.runner.phase.value != "stopping")
        self.again_button.setEnabled(not busy and self._plan is not None)
        self.change_button.setEnabled(not busy)
        shown = self._shown()
        self.share_button.setEnabled(shown is not None and bool(shown.replies))
        for action in (self.copy_picture, self.save_picture, self.copy_text):
            action.setEnabled(self.share_button.isEnabled())

    def closeEvent(self, event: QCloseEvent) -> None:
        self.runner.abandon()
        super().closeEvent(event)

    def done(self, code: int) -> None:
        """Also reached by the Escape key, which sends no close event."""
        self.runner.abandon()
        super().done(code)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "close_button"):
            self._arrange()

    def _arrange(self) -> None:
        wide = self.width() >= ABREAST * self.fontMetrics().averageCharWidth()
        direction = QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom
        self.setup.set_direction(direction)
        self.run_page.set_direction(direction)
