"""The picker when the hub's process dies, hangs, or tells things in another order than they happened."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from app.hub import client as hub_client
from app.hub import queue_panel as hub_queue
from app.hub.client import HubClient
from app.hub.dialog import HubDialog
from app.hub.rehearsal import CARD, GB, HEADS, MACHINE, MODELS, OFFERS
from app.transport import CommandSource, ThreadTransport
from engine.protocol import Event, Ready, Shutdown
from engine.protocol.hub import (
    DownloadState,
    HubModel,
    LocalEntry,
    ModelDetails,
    Phase,
    Problem,
    TokenSource,
)
from engine.protocol.hub_messages import (
    Account,
    Browse,
    Catalogue,
    Delete,
    Details,
    FindHeads,
    Forget,
    Found,
    Heads,
    HubEvent,
    Import,
    Imported,
    Local,
    LookAt,
    Queue,
    Search,
)

WAIT = 20_000
QWEN = next(offer for offer in OFFERS if offer.pair.target == "Qwen/Qwen3-8B")
TARGET = LocalEntry(QWEN.pair.target, "/cache/qwen", 16 * GB, False, "Qwen3", QWEN.pair.target, "01")
HEAD = LocalEntry(QWEN.pair.head, "/cache/head", GB, True, "", QWEN.pair.head, "02")
LONG = f"{'o' * 96}/{'m' * 96}"


class Scripted:
    """A hub's process that says what the test tells it to."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.say: Callable[[HubEvent], None] = lambda _event: None
        self._dead = threading.Event()

    def run(self, commands: CommandSource, emit: Callable[[Event], None]) -> None:
        self.say = emit  # type: ignore[assignment]
        emit(Ready("https://hub.test"))
        while not self._dead.is_set():
            try:
                command = commands.get(0.01)
            except queue.Empty:
                continue
            if isinstance(command, Shutdown):
                return
            self.asked.append(command)

    def die(self) -> None:
        self._dead.set()

    def last(self, kind: type) -> object:
        return next((each for each in reversed(self.asked) if isinstance(each, kind)), None)


class Hub:
    """All processes that were started, and the window."""

    def __init__(self, qtbot: QtBot) -> None:
        self.processes: list[Scripted] = []
        self.client = HubClient(self._start)
        self.loaded = ""
        self.window = HubDialog(self.client, loaded_path=lambda: self.loaded)
        self._qtbot = qtbot
        qtbot.addWidget(self.window)
        self.window.show()
        qtbot.waitExposed(self.window)
        self.wait(lambda: self.asked(Browse))

    def _start(self) -> ThreadTransport:
        self.processes.append(Scripted())
        return ThreadTransport(self.processes[-1].run)

    def wait(self, what: Callable[[], object]) -> None:
        self._qtbot.waitUntil(lambda: bool(what()), timeout=WAIT)

    def asked(self, kind: type) -> object:
        return self.processes[-1].last(kind)

    def tell(self, *events: HubEvent) -> None:
        """And wait until the window has heard it."""
        heard: list[object] = []
        self.client.account.connect(heard.append)
        mark = Account(str(time.monotonic_ns()), TokenSource.SESSION)
        for event in (*events, mark):
            self.processes[-1].say(event)
        self.wait(lambda: mark in heard)
        self.client.account.disconnect(heard.append)


@pytest.fixture
def hub(qtbot: QtBot, look: QApplication) -> Iterator[Hub]:
    made = Hub(qtbot)
    yield made
    made.client.close()
    for thread in threading.enumerate():
        if thread.name.startswith("eyrie-"):
            thread.join(5)
            assert not thread.is_alive(), thread.name


def details(hub: Hub) -> Details:
    asked = hub.asked(LookAt)
    assert isinstance(asked, LookAt)
    model = replace(MODELS[0], repo_id=asked.repo_id)
    return Details(asked.request_id, ModelDetails(model, "01", (("a", GB),), GB, QWEN.fit, CARD))


def heads(hub: Hub) -> Heads:
    asked = hub.asked(FindHeads)
    assert isinstance(asked, FindHeads)
    return Heads(asked.request_id, asked.target, HEADS)


def start_again(hub: Hub) -> None:
    (button,) = hub.window.trouble.offers()
    button.click()


def running(name: str = "org/model", speed: float = 1e6, phase: Phase = Phase.RUNNING) -> DownloadState:
    return DownloadState(name, name, phase, GB, 4 * GB, speed, 100.0)


# --------------------------------------------------------------------------- a process that dies or hangs


def test_nobody_waits_for_a_process_that_died(hub: Hub) -> None:
    window, pane = hub.window, hub.window.pane
    hub.tell(Local(()), Catalogue(MACHINE, OFFERS))
    window.search.field.setText("qwen")
    window.search.search()
    window.local.import_path("/a/folder")
    hub.wait(lambda: hub.asked(Search) and hub.asked(Import) and hub.asked(FindHeads))
    assert window.search.status.text() == "Searching…" and "looking" in pane.heads_title.text()
    hub.processes[-1].die()
    hub.wait(window.trouble.isVisible)
    for said in (window.search.status.text(), window.local.status.text(), pane.problem.text.text()):
        assert "stopped unexpectedly" in said
    assert pane.problem.offered() == ["Try again"] and pane.heads_title.text() == "EAGLE head"
    assert not pane.card.toPlainText(), "nobody knows whether there is one"
    assert len(hub.processes) == 1, "what dies at once is not started again by itself"
    # The same words are asked for again; the new process is told all that the old one knew.
    window.search.search()
    hub.wait(lambda: len(hub.processes) == 2 and hub.asked(Search) and hub.asked(Browse))
    assert not window.trouble.isVisible()


def test_two_windows_that_wait_are_both_answered(hub: Hub) -> None:
    failed: list[int] = []
    hub.client.failed.connect(lambda event: failed.append(event.request_id))
    hub.client.send(FindHeads(7001, "a"))
    hub.client.send(FindHeads(7002, "b", "compare"))
    hub.wait(lambda: hub.asked(FindHeads) == FindHeads(7002, "b", "compare"))
    hub.processes[-1].die()
    hub.wait(lambda: {7001, 7002} <= set(failed))


def test_downloads_go_on_when_the_process_died_at_night(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_client, "LIVED", 1e9)
    hub.tell(Queue((running(),)))
    hub.processes[-1].die()
    hub.wait(hub.window.trouble.isVisible)
    assert len(hub.processes) == 1 and hub.window.queue.states[0].phase is Phase.PAUSED
    start_again(hub)
    hub.wait(lambda: len(hub.processes) == 2 and hub.asked(Browse))
    monkeypatch.setattr(hub_client, "LIVED", 0.0)
    hub.tell(Queue((running(phase=Phase.PAUSED),)))
    hub.processes[-1].die()
    hub.wait(hub.window.trouble.isVisible)
    assert len(hub.processes) == 2, "nothing ran, so nothing is to go on"
    start_again(hub)
    hub.wait(lambda: len(hub.processes) == 3 and hub.asked(Browse))
    hub.tell(Queue((running(),)))
    hub.processes[-1].die()
    hub.wait(lambda: len(hub.processes) == 4 and hub.asked(Browse))
    hub.wait(lambda: not hub.window.trouble.isVisible())


def test_a_speed_does_not_stay_when_nothing_is_told_any_more(hub: Hub) -> None:
    hub.tell(Queue((running(),)))
    (row,) = hub.window.queue.rows.values()
    assert "1.0 MB/s" in row.line.whole and "left" in row.line.whole
    hub.window.queue._silence.setInterval(0)
    hub.window.queue._silence.start()
    hub.wait(lambda: "nothing arrives" in row.line.whole)
    assert "left" not in row.line.whole
    hub.window.queue._silence.setInterval(hub_queue.SILENT_MS)
    hub.tell(Queue((running(),)))
    assert "1.0 MB/s" in row.line.whole


def test_an_account_that_comes_late_is_shown_where_a_token_is_entered(hub: Hub) -> None:
    hub.window.ask_token()
    entering = hub.window.token_dialog
    assert entering is not None
    assert entering.forget_button.isHidden() and not entering.now.text()
    hub.tell()  # an account, at the end of whatever is told
    assert not entering.forget_button.isHidden(), "what was entered can be forgotten"
    assert "that you entered is used" in entering.now.text()


@pytest.mark.parametrize(
    ("kind", "again"), [("hub-login", True), ("hub-licence", True), ("unsupported", False)]
)
def test_a_gated_model_is_looked_at_again_with_another_account(hub: Hub, kind: str, again: bool) -> None:
    hub.tell(Local(()), Catalogue(MACHINE, OFFERS))
    hub.wait(lambda: hub.asked(LookAt))
    shut = details(hub)
    shut = Details(shut.request_id, replace(shut.details, problem=Problem(kind, "It is shut.")))
    hub.tell(shut)  # and an account, at the end of whatever is told
    assert "It is shut." in hub.window.pane.problem.text.text()
    assert (hub.window._looking > shut.request_id) is again


# --------------------------------------------------------------------------- in any order


def test_the_same_is_offered_in_whatever_order_things_are_told(hub: Hub) -> None:
    """An offer may be older than the list of what is here; details and heads come when they come."""
    stale = Catalogue(MACHINE, OFFERS)  # says that the target lies elsewhere, and the head not at all
    hub.tell(Local(()), stale)
    pairs, pane = hub.window.pairs.list, hub.window.pane
    key = f"{QWEN.pair.target} {QWEN.pair.head}"
    told: list[Callable[[], HubEvent]] = [
        lambda: Local((TARGET, HEAD)),
        lambda: stale,
        lambda: details(hub),
        lambda: heads(hub),
    ]
    for order in permutations(told):
        hub.tell(Local(()))
        pairs.choose(pairs.row_model().rows[0].key)
        pairs.choose(key)
        request = hub.window._finding
        hub.wait(lambda request=request: getattr(hub.asked(FindHeads), "request_id", 0) == request)
        assert not pane.load_button.isVisible() and pane.fetch_button.isVisible()
        hub.tell(*(event() for event in order))
        assert pane.load_button.isVisible() and not pane.fetch_button.isVisible()
        assert (hub.window.choice.target_path, hub.window.choice.head_path) == (TARGET.path, HEAD.path)
        shown = pane.heads.current()
        assert shown is not None and shown.key == QWEN.pair.head


def test_what_is_marked_in_the_list_is_what_is_told_of_beside_it(hub: Hub) -> None:
    window = hub.window
    window.tabs.setCurrentWidget(window.local)
    hub.tell(Local((TARGET,)))
    window.local.list.choose(TARGET.path)
    hub.tell(Catalogue(MACHINE, OFFERS))
    assert window.choice.target_path == TARGET.path, "an offer does not take the place of what was chosen"
    window.tabs.setCurrentWidget(window.pairs)
    window.pairs.list.choose(window.pairs.list.row_model().rows[0].key)
    assert window.pane.title.text() == OFFERS[0].pair.target
    window.tabs.setCurrentWidget(window.local)
    assert window.pane.title.text() == TARGET.name
    window.tabs.setCurrentWidget(window.pairs)
    assert window.pane.title.text() == OFFERS[0].pair.target


def test_what_was_offered_before_is_here_now_and_what_was_here_is_gone(hub: Hub) -> None:
    hub.tell(Local(()), Catalogue(MACHINE, OFFERS))
    pairs, pane = hub.window.pairs.list, hub.window.pane
    first, key = pairs.row_model().rows[0].key, f"{QWEN.pair.target} {QWEN.pair.head}"
    pairs.choose(key)
    hub.tell(Local((TARGET, HEAD)))
    assert "on this computer" in next(row.subtitle for row in pairs.row_model().rows if row.key == key)
    pairs.choose(first)
    pairs.choose(key)
    assert pane.load_button.isVisible() and not pane.fetch_button.isVisible()
    hub.tell(Local((TARGET,)))
    assert hub.window.choice.absent == (QWEN.pair.head,), "its head was deleted"
    assert not pane.load_button.isVisible() and pane.fetch_button.isVisible()
    hub.tell(Local(()))
    assert hub.window.choice.absent == (QWEN.pair.target, QWEN.pair.head)
    assert "on this computer" not in next(row.subtitle for row in pairs.row_model().rows if row.key == key)


def test_what_only_this_computer_knows_is_not_told_as_the_hubs(hub: Hub) -> None:
    hub.tell(Local((TARGET,)))
    hub.window.tabs.setCurrentWidget(hub.window.local)
    hub.window.local.list.choose(TARGET.path)
    hub.wait(lambda: hub.asked(LookAt))
    offline = replace(details(hub).details, model=HubModel(TARGET.repo_id), commit="", folder=TARGET.path)
    hub.tell(Details(hub.window._looking, offline))
    assert "strangers" in hub.window.pane.card.toPlainText(), "the details were shown"
    assert TARGET.path in hub.window.pane.line.text() and "download" not in hub.window.pane.line.text()


def test_an_import_is_chosen_in_the_list_and_can_be_taken_off(hub: Hub) -> None:
    page = hub.window.local
    mine = LocalEntry("mine", "/home/me/<b>mine</b>", GB)
    hub.window.tabs.setCurrentWidget(page)
    hub.tell(Local((TARGET,)))
    page.list.choose(TARGET.path)
    assert page.delete_button.text() == "Delete…"
    page.import_path(mine.path)
    hub.wait(lambda: hub.asked(Import))
    asked = hub.asked(Import)
    assert isinstance(asked, Import)
    hub.tell(Imported(asked.request_id, mine), Local((TARGET, mine)))
    current = page.list.current()
    assert current is not None and current.key == mine.path and hub.window.choice.target == mine.path
    assert page.delete_button.text() == "Take off the list"
    page.delete_button.click()
    hub.wait(lambda: hub.asked(Forget) == Forget(mine.path))


def test_deleting_what_is_loaded_says_so(hub: Hub) -> None:
    page = hub.window.local
    hub.window.tabs.setCurrentWidget(page)
    hub.tell(Local((TARGET, HEAD)))
    for loaded in ("", TARGET.path):
        hub.loaded = loaded
        page.list.choose(TARGET.path)
        page.delete_button.click()
        box = page.findChildren(QMessageBox)[-1]
        assert ("loaded now" in box.informativeText()) is bool(loaded)
        box.close()
    assert hub.asked(Delete) is None


# --------------------------------------------------------------------------- a queue in a low window


def test_many_downloads_scroll_in_a_low_window(hub: Hub) -> None:
    window, panel = hub.window, hub.window.queue
    window.resize(900, 600)
    hub.tell(Queue(tuple(running(f"org/model-{number}") for number in range(20))))
    hub.wait(lambda: panel.area.verticalScrollBar().maximum() > 0)
    assert window.height() == 600 and window.minimumSizeHint().height() <= 600
    first = panel.rows["org/model-0"]
    hub.wait(lambda: panel.area.viewport().height() >= first.sizeHint().height())
    window.resize(900, 900)
    hub.wait(lambda: panel.area.height() > 250)
    hub.tell(Queue((running("org/model-0"),)))
    hub.wait(lambda: panel.area.height() < 110 and panel.area.verticalScrollBar().maximum() == 0)


def test_one_question_at_a_time(hub: Hub) -> None:
    hub.tell(Queue((running(),)))
    (row,) = hub.window.queue.rows.values()
    row.cancel.click()
    row.cancel.click()
    (box,) = row.findChildren(QMessageBox)
    box.close()
    hub.wait(lambda: not row.findChildren(QMessageBox))
    row.cancel.click()
    assert len(row.findChildren(QMessageBox)) == 1


def test_a_name_without_end_does_not_widen_the_details(qtbot: QtBot, hub: Hub) -> None:
    window, pane = hub.window, hub.window.pane
    hub.tell(Local(()), Catalogue(MACHINE, OFFERS))
    window.tabs.setCurrentWidget(window.search)
    window.search.field.setFocus()
    window.search.field.setText("x")
    window.search.search()
    hub.wait(lambda: hub.asked(Search))
    asked = hub.asked(Search)
    assert isinstance(asked, Search)
    model = replace(MODELS[2], repo_id=LONG, base_models=(LONG,))
    hub.tell(Found(asked.request_id, (model,)))
    qtbot.keyClick(window.search.field, Qt.Key.Key_Down)
    assert window.choice.target == LONG and window.focusWidget() is window.search.list
    pane.show_problem(Problem("hub-right", f"{LONG} is gated.", "Ask.", "https://hub.test/page"))
    hub.wait(lambda: pane.problem.isVisible())
    for width in (760, 1000):
        window.resize(width, 700)
        hub.wait(lambda: (body := pane.area.widget()) and body.width() <= pane.area.viewport().width())
        assert window.width() == width
