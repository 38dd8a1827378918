"""Every window that can stand over the main one, opened one after the other.

For the pictures of ``--screenshots`` and for the walk of the tests, so that a window which one of
them looks at is looked at by both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QDialog, QWidget

from app.chat.instructions import InstructionsDialog
from app.chat.link_dialog import LinkDialog
from app.compare import sample
from app.compare.dialog import CompareDialog
from app.hub.dialog import HubDialog
from app.hub.token_dialog import TokenDialog
from app.licence_dialog import LicenceDialog
from app.main_window import MainWindow
from app.rehearsal import REHEARSAL_MODEL
from app.rehearsal_methods import METHODS
from app.settings.dialog import SettingsDialog
from app.settings.model_dialog import ModelSettingsDialog
from app.shortcut_list import ShortcutList
from app.tour import Tour
from engine.protocol.hub import TokenSource
from engine.protocol.hub_messages import Account

MODEL = replace(REHEARSAL_MODEL, methods=METHODS, method="eagle3", thinking_optional=True)
"""A model for which every part of its dialog is shown."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A window in one state. ``open`` makes it or brings it there; ``ready`` tells when it is."""

    name: str
    open: Callable[[MainWindow], QWidget]
    ready: Callable[[QWidget], bool] = lambda _widget: True


def exhibits() -> Iterator[Exhibit]:
    """All of them, in order. Each is closed by :func:`put_away` before the next is opened."""
    yield Exhibit("settings", lambda window: SettingsDialog(window.store, window))
    for method in ("", *(each.id for each in METHODS)):
        yield Exhibit(f"model-{method or 'automatic'}", lambda window, method=method: _model(window, method))
    yield Exhibit("instructions", _instructions)
    yield Exhibit("commands", _palette)
    yield Exhibit("shortcuts", ShortcutList)
    for stop in range(4):
        yield Exhibit(f"tour-{stop + 1}", lambda window, stop=stop: _tour(window, stop))
    yield Exhibit("compare-setup", _compare)
    yield Exhibit("compare-result", lambda window: _compare(window, prompts=1))
    yield Exhibit("compare-set", lambda window: _compare(window, prompts=3))
    yield Exhibit("licence", lambda window: LicenceDialog(MODEL, window))
    yield Exhibit("about", _about)
    yield Exhibit("link", lambda window: LinkDialog("https://example.invalid/a/page?with=a&query", window))
    yield Exhibit("link-refused", lambda window: LinkDialog("file:///etc/passwd", window))
    yield Exhibit("hub-pairs", _hub, lambda widget: bool(_as_hub(widget).pairs.offers))
    yield Exhibit("hub-pair", lambda window: _hub(window, choose="pairs"), _shows_card)
    yield Exhibit("hub-search", lambda window: _hub(window, choose="search"), _shows_card)
    yield Exhibit("hub-nothing-found", lambda window: _hub(window, search="no such model"), _found_nothing)
    yield Exhibit("hub-local", lambda window: _hub(window, choose="local"), _shows_card)
    yield Exhibit("hub-account", lambda window: TokenDialog(Account("", TokenSource.NONE), window))


def put_away(widget: QWidget) -> None:
    """Close an exhibit; the windows of models and comparisons are only hidden, since the main one keeps them."""
    widget.close()
    if not isinstance(widget, HubDialog | CompareDialog):
        widget.deleteLater()
    # Gone at once, as it is for a user who opens the next one: the look of many widgets takes time to change.
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


# --------------------------------------------------------------------------- how they are opened


def _model(window: MainWindow, method: str) -> QWidget:
    dialog = ModelSettingsDialog(MODEL, window.store, window, loaded_as="rehearsal")
    dialog.method.setCurrentIndex(dialog.method.findData(method))
    return dialog


def _instructions(window: MainWindow) -> QWidget:
    return InstructionsDialog(window.book.current, window.store.current.generation(), window.chats, window)


def _compare(window: MainWindow, prompts: int = 0) -> QWidget:
    window.open_compare()
    dialog = window.compare_dialog
    assert dialog is not None
    if prompts:
        dialog.show_record(sample.record(prompts))
    return dialog


def _palette(window: MainWindow) -> QWidget:
    window.dialogs.open_palette()
    palette = window.dialogs.palette
    assert palette is not None
    return palette


def _about(window: MainWindow) -> QWidget:
    before = set(window.findChildren(QDialog))
    window.dialogs.open_about()
    return next(dialog for dialog in window.findChildren(QDialog) if dialog not in before)


def _tour(window: MainWindow, stop: int) -> QWidget:
    tour = Tour(window, window.tour_stops())
    tour.start()
    for _ in range(stop):
        tour.go_on()
    return tour


def _as_hub(widget: QWidget) -> HubDialog:
    assert isinstance(widget, HubDialog)
    return widget


def _hub(window: MainWindow, choose: str = "pairs", search: str = "") -> QWidget:
    """The models' window on one of its pages, the first row chosen once it is there."""
    window.dialogs.open_hub()
    hub = window.dialogs.hub
    assert hub is not None
    page = {"pairs": hub.pairs, "search": hub.search, "local": hub.local}["search" if search else choose]
    hub.tabs.setCurrentWidget(page)
    if page is hub.search:
        hub.search.field.setText(search)
        hub.search.search()
    return hub


def _found_nothing(widget: QWidget) -> bool:
    hub = _as_hub(widget)
    return not hub.search.list.row_model().rows and bool(hub.search.status.text())


def _shows_card(widget: QWidget) -> bool:
    """Choose the first row as soon as there is one; true when its details have come."""
    hub = _as_hub(widget)
    page = hub.tabs.currentWidget()
    assert page in (hub.pairs, hub.search, hub.local)
    rows = page.list.row_model().rows
    if not rows:
        return False
    if page.list.current() is None:
        page.list.choose(rows[0].key)
    return "strangers" in hub.pane.card.toPlainText()
