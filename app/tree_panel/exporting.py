"""The button that saves steps as a file, and the strip that tells how that goes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, Qt, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAction
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QMenu,
    QProgressBar,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from app.job import Job
from app.language import tr, tr_n
from app.tree_panel.exports import MOST_FRAMES, ExportError, Form, Source, free_name, write
from app.whole_files import Cancelled, Progress

log = logging.getLogger(__name__)


class ExportJob(Job):
    """Writes one file. ``ended`` tells the number of steps in it, an `ExportError`, or None."""

    def __init__(self, form: Form, source: Source, path: Path, parent: QObject) -> None:
        super().__init__(self._write, parent)
        self.form = form
        self.path = path
        self.total = len(source.history)
        self._source = source

    def _write(self, progress: Progress) -> int | ExportError:
        try:
            return write(self.form, self._source, self.path, progress)
        except ExportError as error:
            log.warning("not exported: %s", error)
            return error
        except Cancelled:
            raise
        except Exception as error:  # the user must hear of it, whatever it was
            log.exception("not exported")
            return ExportError(
                tr("Panel", "The file could not be made: {reason}.").format(reason=str(error) or type(error).__name__),
                tr("Panel", "Try another format; the log has the details."),
            )


class ExportStrip(QWidget):
    """Progress with a way to end it, then what came of it until that is dismissed."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = QLabel(self)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setWordWrap(True)
        self.label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.bar = QProgressBar(self)
        self.bar.setTextVisible(False)
        self.bar.setMaximumWidth(110)
        self.bar.setAccessibleName(tr("Panel", "Progress of the export"))
        self.button = QToolButton(self)
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.clicked.connect(self._pressed)
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 0, 2, 0)
        row.addWidget(self.label, 1)
        row.addWidget(self.bar)
        row.addWidget(self.button)
        self._running = False
        self._offer(tr("Panel", "Cancel"))
        self.hide()

    def show_running(self, words: str) -> None:
        self._running = True
        self.bar.setRange(0, 0)
        self.bar.show()
        self._say(words, tr("Panel", "Cancel"))

    @Slot(int, int)
    def show_progress(self, done: int, total: int) -> None:
        if self._running:
            self.bar.setRange(0, total)
            self.bar.setValue(done)

    def show_end(self, words: str) -> None:
        self._running = False
        self.bar.hide()
        self._say(words, tr("Panel", "Dismiss"))
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))

    def _say(self, words: str, button: str) -> None:
        self.label.setText(words)
        self.setAccessibleName(words)
        self._offer(button)
        self.show()

    def _offer(self, button: str) -> None:
        self.button.setText(button)
        self.button.setAccessibleName(button)

    def _pressed(self) -> None:
        if self._running:
            self.cancelled.emit()
        else:
            self.hide()


class ExportButton(QToolButton):
    """A menu of what can be saved. One file at a time is written, while everything else goes on."""

    ended = Signal(object)
    """What `ExportJob.ended` said."""

    def __init__(self, source: Callable[[], Source | None], strip: ExportStrip, parent: QWidget | None = None) -> None:
        """``source`` gives what there is to export at the moment it is called."""
        super().__init__(parent)
        self._source = source
        self._strip = strip
        self.job: ExportJob | None = None
        self._folder = Path(QStandardPaths.writableLocation(QStandardPaths.StandardLocation.PicturesLocation) or ".")
        self.setText(tr("Panel", "Export…"))
        self.setProperty("look", "menu")
        words = tr("Panel", "Save this step or all steps as a file")
        self.setAccessibleName(words)
        self.setToolTip(words)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        menu.aboutToShow.connect(lambda: self._name_actions(self._source()))
        self.actions_of: dict[Form, QAction] = {}
        for form in (Form.PNG, Form.SVG, Form.GIF, Form.JSON):
            action = menu.addAction("")
            action.triggered.connect(lambda _=False, form=form: self.ask(form))
            self.actions_of[form] = action
        self.setMenu(menu)
        strip.cancelled.connect(self.cancel)
        self._name_actions(None)

    def _name_actions(self, source: Source | None) -> None:
        steps = len(source.history) if source is not None else 0
        animation = tr("Panel", "All steps as an animated GIF…")
        if steps > MOST_FRAMES:
            animation = tr_n(
                "Panel", "The last %n step up to here as an animated GIF…", "The last %n steps up to here as an animated GIF…", MOST_FRAMES
            )  # fmt: skip
        for form, words in (
            (Form.PNG, tr("Panel", "This step as PNG…")),
            (Form.SVG, tr("Panel", "This step as SVG…")),
            (Form.GIF, animation),
            (Form.JSON, tr("Panel", "All steps as JSON…")),
        ):
            self.actions_of[form].setText(words)
            self.actions_of[form].setEnabled(steps > 0 and self.job is None)

    # ------------------------------------------------------------------ asking and writing

    def ask(self, form: Form) -> QFileDialog | None:
        """Ask where the file is to go, and write it there."""
        source = self._source()
        if source is None or self.job is not None:
            return None
        dialog = QFileDialog(self.window(), tr("Panel", "Export"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilters([f"{form.upper()} (*.{form})"])
        # With its ending the name is complete, so the dialog asks before one that exists is replaced.
        dialog.setDefaultSuffix(form)
        dialog.setDirectory(str(self._folder))
        dialog.selectFile(self.suggested(form, source).name)
        dialog.fileSelected.connect(lambda path: self.start(form, source, Path(path)))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
        return dialog

    def suggested(self, form: Form, source: Source) -> Path:
        """A name that says what is in the file, and that no file has yet."""
        one = form in (Form.PNG, Form.SVG)
        index = source.history.step(source.position).index
        return free_name(self._folder, f"eyrie-step-{index}" if one else "eyrie-steps", form)

    def start(self, form: Form, source: Source, path: Path) -> None:
        """Write a file in the background; the strip tells of it."""
        if self.job is not None:
            return
        self._folder = path.parent
        job = self.job = ExportJob(form, source, path, self)
        job.advanced.connect(self._strip.show_progress)
        job.ended.connect(self._on_ended)
        self._strip.show_running(tr("Panel", "Writing “{name}”…").format(name=path.name))
        job.start()

    @Slot()
    def cancel(self) -> None:
        """End what is being written."""
        if self.job is not None:
            self.job.cancel()

    def close_job(self) -> None:
        """The application ends: nothing unfinished is left on the disk."""
        if self.job is not None:
            self.job.cancel()
            self.job.join()

    @Slot(object)
    def _on_ended(self, outcome: object) -> None:
        job, self.job = self.job, None
        assert job is not None
        if outcome is None:
            self._strip.show_end(tr("Panel", "Cancelled. Nothing was written."))
        elif isinstance(outcome, ExportError):
            self._strip.show_end(f"{outcome.message} {outcome.next_step}")
        else:
            self._strip.show_end(self._done_words(job, int(str(outcome))))
        job.deleteLater()
        self.ended.emit(outcome)

    @staticmethod
    def _done_words(job: ExportJob, steps: int) -> str:
        saved = tr("Panel", "Saved as {path}.").format(path=job.path)
        if job.form is Form.GIF and steps < job.total:
            saved += " " + tr("Panel", "An animation holds {most} steps at most; the reply has {total}.").format(
                most=MOST_FRAMES, total=job.total
            )
        return saved
