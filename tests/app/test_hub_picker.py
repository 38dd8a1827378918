"""The picker against the test hub: verdicts, gates, downloads and their buttons, and inert cards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QImage, QTextDocument
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.hub.card_view import CardView, plain_markdown
from app.hub.client import DIED
from app.hub.dialog import HubDialog
from app.hub.row_list import ROW
from engine.protocol import Load
from engine.protocol.hub import Phase
from engine.protocol.hub_messages import HubFailed
from tests.app.hub_in_thread import hub_client
from tests.hub.tiny_repositories import CARD, HEAD, OTHER_HEAD, TARGET, repositories
from tests.hub_server import Account, Fault, Faults, HubServer, Kind, Repository

WAIT = 30_000
QUANTISED = "tests/tiny-model-GGUF"


@pytest.fixture
def hub(tiny_pair: Path) -> Iterator[HubServer]:
    gated = Repository(
        "tests/gated", {"config.json": b"{}", "model.safetensors": b"x" * 9, "README.md": b"# Hi"}, gated=True
    )
    accounts = {
        "hf_good12345": Account("ann", accepted=frozenset({"tests/gated"})),
        "hf_new12345": Account("bob"),
    }
    with HubServer([*repositories(tiny_pair), gated], accounts) as server:
        yield server


@pytest.fixture
def picker(
    qtbot: QtBot, look: QApplication, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubDialog]:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    client = hub_client(hub.endpoint, tmp_path)
    dialog = HubDialog(client)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitExposed(dialog)
    yield dialog
    client.close()
    for thread in threading.enumerate():
        if thread.name.startswith("eyrie-"):
            thread.join(5)
            assert not thread.is_alive(), thread.name


def find(qtbot: QtBot, picker: HubDialog, repo_id: str) -> None:
    """Search for a repository and choose it."""
    picker.tabs.setCurrentWidget(picker.search)
    picker.search.field.setText(repo_id)
    qtbot.waitUntil(lambda: picker.search.list.choose(repo_id), timeout=WAIT)


def press(dialog: QMessageBox, text: str) -> None:
    (button,) = [each for each in dialog.findChildren(QPushButton) if each.text() == text]
    button.click()


def phases(picker: HubDialog) -> dict[str, Phase]:
    return {state.repo_id: state.phase for state in picker.queue.states}


def test_it_opens_on_pairs_for_this_machine(qtbot: QtBot, picker: HubDialog) -> None:
    qtbot.waitUntil(lambda: bool(picker.pairs.offers), timeout=WAIT)
    rows = picker.pairs.list.row_model().rows
    assert rows[0].heading == "Recommended for this machine"
    assert rows[0].badge in ("fits", "tight")
    assert "GB on disk" in rows[0].subtitle and "× published" in rows[0].subtitle
    assert len([row.heading for row in rows if row.heading]) == len(
        {row.heading for row in rows if row.heading}
    )
    assert picker.pane.title.text() == picker.pairs.offers[0].pair.target
    assert "Expected speed-up" in picker.pane.facts.text()
    assert rows[0].badge in picker.pairs.list.model().index(0, 0).data(11)  # Qt.AccessibleTextRole
    assert picker.pairs.list.model().index(0, 0).data(ROW) is rows[0]


def test_tab_goes_round_through_the_whole_window(qtbot: QtBot, picker: HubDialog) -> None:
    """By the key itself: a widget that hands its focus on would jump over what stands between the two."""
    qtbot.waitUntil(lambda: bool(picker.pairs.offers), timeout=WAIT)
    seen: list[QWidget] = []
    picker.pairs.list.setFocus()
    while (at := picker.focusWidget()) not in seen:
        seen.append(at)
        qtbot.keyClick(at, Qt.Key.Key_Tab)
    pane = picker.pane
    assert {
        picker.account_button,
        picker.tabs.tabBar(),
        picker.pairs.list,
        pane.heads,
        pane.tabs.tabBar(),
    } <= set(seen)


def test_heads_come_with_reasons_and_a_wrong_one_cannot_be_taken(qtbot: QtBot, picker: HubDialog) -> None:
    find(qtbot, picker, TARGET)
    pane = picker.pane
    qtbot.waitUntil(lambda: picker.choice.head == HEAD, timeout=WAIT)
    assert "The head fits" in pane.verdict.text()
    qtbot.waitUntil(lambda: "head +" in pane.memory_words.text(), timeout=WAIT)
    assert pane.fetch_button.isVisible() and pane.fetch_button.text().startswith("Download ")
    qtbot.waitUntil(lambda: pane.heads.choose(OTHER_HEAD), timeout=WAIT)
    assert "vocabulary" in pane.verdict.text()
    assert not pane.fetch_button.isVisible() and not pane.load_button.isVisible()
    assert "does not fit" in pane.state.text()
    # The card of a stranger: no script, no tag, no picture, nothing that loads.
    text = pane.card.toPlainText()
    assert "Tiny" in text and "alert" not in text and "<" not in text
    assert pane.card.loadResource(2, QUrl("file:///etc/hostname")).isNull()


def test_what_ran_can_be_resumed_when_the_hubs_process_has_ended(
    qtbot: QtBot, picker: HubDialog, hub: HubServer
) -> None:
    find(qtbot, picker, TARGET)
    qtbot.waitUntil(lambda: picker.choice.head == HEAD, timeout=WAIT)
    hub.faults = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.2)] * 30})
    picker.pane.fetch_button.click()
    qtbot.waitUntil(lambda: Phase.RUNNING in phases(picker).values(), timeout=WAIT)
    picker.client.close()
    picker.client.failed.emit(HubFailed(0, DIED))
    assert Phase.RUNNING not in phases(picker).values() and Phase.PAUSED in phases(picker).values()
    row = next(row for row in picker.queue.rows.values() if row.state and row.state.phase is Phase.PAUSED)
    assert row.pause.text() == "Resume" and "paused" in row.line.text()
    assert "stopped unexpectedly" in picker.trouble.label.text() and picker.queue.isVisible()


@pytest.mark.parametrize("marker", [">", "> ", "- ", "1. "])
def test_a_card_nested_without_end_is_made_flat(marker: str) -> None:
    card = plain_markdown(f"{marker * 5000}x\n\n> > quoted\n\n- - - -\n")
    assert card == "> x\n\n> > quoted\n\n- - - -"


def test_a_pair_is_downloaded_paused_and_loaded(qtbot: QtBot, picker: HubDialog, hub: HubServer) -> None:
    loads: list[Load] = []
    picker.load_requested.connect(loads.append)
    find(qtbot, picker, TARGET)
    qtbot.waitUntil(lambda: picker.choice.head == HEAD, timeout=WAIT)
    hub.faults = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.2)] * 30})
    picker.pane.fetch_button.click()
    qtbot.waitUntil(lambda: Phase.RUNNING in phases(picker).values(), timeout=WAIT)
    assert "being downloaded" in picker.pane.state.text()
    (running,) = [row for row in picker.queue.rows.values() if row.state and row.state.phase is Phase.RUNNING]
    assert running.pause.text() == "Pause"
    running.pause.click()
    qtbot.waitUntil(lambda: running.pause.text() == "Resume", timeout=WAIT)
    hub.faults = Faults()
    running.pause.click()
    qtbot.waitUntil(lambda: set(phases(picker).values()) == {Phase.DONE}, timeout=WAIT)
    qtbot.waitUntil(picker.pane.load_button.isVisible, timeout=WAIT)
    picker.pane.load_button.click()
    assert [
        (Path(load.model).parent.parent.name, Path(load.head or "").parent.parent.name) for load in loads
    ] == [("models--tests--tiny-gemma", "models--tests--tiny-gemma-eagle3")]
    qtbot.waitUntil(lambda: len(picker.local.entries) == 2, timeout=WAIT)
    assert [row.heading for row in picker.local.list.row_model().rows] == ["Models", "EAGLE heads"]


def test_one_of_many_quantisations_is_chosen_and_loaded(
    qtbot: QtBot, picker: HubDialog, hub: HubServer, tmp_path: Path
) -> None:
    files: dict[str, bytes | Path] = {
        f"{QUANTISED.rpartition('/')[2]}-{label}{part}.gguf": b"GGUF" + bytes(size)
        for label, part, size in (
            ("Q4_K_M", "", 5000),
            ("Q8_0", "-00001-of-00002", 6000),
            ("Q8_0", "-00002-of-00002", 7000),
        )
    }
    hub.add(Repository(QUANTISED, files, parameters=10_000_000))
    loads: list[Load] = []
    picker.load_requested.connect(loads.append)
    find(qtbot, picker, QUANTISED)
    quants = picker.pane.quants
    qtbot.waitUntil(quants.isVisible, timeout=WAIT)
    assert [quants.box.itemText(place) for place in range(quants.box.count())] == [
        "Q4_K_M  ·  5.0 kB  ·  fits",
        "Q8_0  ·  13.0 kB  ·  fits",
    ]
    assert "usual choice" in quants.reason.text() and "5.0 kB" in picker.pane.fetch_button.text()
    quants.box.setCurrentIndex(1)
    quants.box.activated.emit(1)
    qtbot.waitUntil(lambda: picker.pane.fetch_button.text() == "Download 13.0 kB", timeout=WAIT)
    assert not quants.reason.isVisible(), "it was chosen, not suggested"
    picker.pane.fetch_button.click()
    qtbot.waitUntil(picker.pane.load_button.isVisible, timeout=WAIT)
    assert {each.path for each in hub.log} == {name for name in files if "Q8_0" in name}
    picker.pane.load_button.click()
    assert Path(loads[0].model).name.endswith("Q8_0-00001-of-00002.gguf") and Path(loads[0].model).is_file()
    # The other one is still to be had, and the local list has the one that is here.
    quants.box.activated.emit(0)
    qtbot.waitUntil(picker.pane.fetch_button.isVisible, timeout=WAIT)
    assert not picker.pane.load_button.isVisible()
    qtbot.waitUntil(lambda: len(picker.local.entries) == 1, timeout=WAIT)
    picker.tabs.setCurrentWidget(picker.local)
    assert picker.local.list.choose(picker.local.entries[0].path)
    qtbot.waitUntil(lambda: quants.isVisible() and quants.box.currentIndex() == 1, timeout=WAIT)
    assert picker.pane.load_button.isVisible()


def test_models_with_a_head_appear_while_the_hub_is_asked(qtbot: QtBot, picker: HubDialog) -> None:
    picker.tabs.setCurrentWidget(picker.search)
    said: list[str] = []
    picker.client.found.connect(lambda _: said.append(picker.search.status.text()))
    picker.search.with_head.setChecked(True)
    picker.search.field.setText("gemma")
    qtbot.waitUntil(lambda: picker.search.list.choose(TARGET), timeout=WAIT)
    qtbot.waitUntil(lambda: not picker.search.status.isVisible(), timeout=WAIT)
    assert "Looking for heads of 1 more model…" in said
    assert "has a head" in picker.search.list.row_model().rows[0].title


def test_cancelling_asks_before_it_deletes(
    qtbot: QtBot, picker: HubDialog, hub: HubServer, tmp_path: Path
) -> None:
    hub.faults = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.3)] * 30})
    find(qtbot, picker, TARGET)
    qtbot.waitUntil(lambda: picker.choice.head == HEAD, timeout=WAIT)
    picker.pane.heads.choose("no head")
    picker.pane.fetch_button.click()
    qtbot.waitUntil(lambda: any(state.done for state in picker.queue.states), timeout=WAIT)
    (row,) = picker.queue.rows.values()
    row.cancel.click()
    box = row.findChild(QMessageBox)
    assert box is not None and "have arrived" in box.informativeText()
    press(box, "Go on downloading")
    assert len(picker.queue.rows) == 1
    row.cancel.click()
    press(row.findChildren(QMessageBox)[-1], "Cancel and delete")
    qtbot.waitUntil(lambda: not picker.queue.rows, timeout=WAIT)
    assert not list((tmp_path / "hub").rglob("*.eyrie.*"))


def test_a_gated_model_leads_through_account_and_licence(qtbot: QtBot, picker: HubDialog) -> None:
    opened: list[str] = []
    picker.open_url = opened.append
    find(qtbot, picker, "tests/gated")
    strip = picker.pane.problem
    qtbot.waitUntil(lambda: "Enter a token…" in strip.offered(), timeout=WAIT)
    assert strip.offered() == ["Open the page", "Enter a token…", "Try again"]

    def enter(token: str, then: Callable[[], bool]) -> None:
        picker.ask_token()
        assert picker.token_dialog is not None
        picker.token_dialog.field.setText(token)
        picker.token_dialog.use_button.click()
        qtbot.waitUntil(then, timeout=WAIT)

    enter("hf_new12345", lambda: "has not been let in" in strip.text.text())
    qtbot.waitUntil(lambda: strip.offered() == ["Open the page", "Try again"], timeout=WAIT)
    qtbot.waitUntil(lambda: picker.account_button.text() == "bob", timeout=WAIT)
    picker.pane.link_chosen.emit(f"{picker.client.endpoint}/tests/gated")
    assert opened == [f"{picker.client.endpoint}/tests/gated"]
    picker.pane.link_chosen.emit("file:///etc/passwd")
    assert len(opened) == 1
    enter("hf_good12345", lambda: picker.account_button.text() == "ann")
    qtbot.waitUntil(lambda: "has not been let in" not in strip.text.text() or strip.isHidden(), timeout=WAIT)


def test_cards_are_inert(qtbot: QtBot) -> None:
    plain = plain_markdown(CARD + "<!-- x --> ![p][1] <style>b {}</style> a < b")
    assert "<" not in plain.replace("a < b", "") and "203.0.113.7" not in plain
    view = CardView()
    qtbot.addWidget(view)
    view.show_card("![x](http://203.0.113.7/x.png) <b>bold</b> [l](javascript:alert(1)) ![y](/etc/hostname)")
    view.show()
    assert "bold" in view.toPlainText()
    resource = view.document().resource(QTextDocument.ResourceType.ImageResource.value, QUrl("/etc/hostname"))
    assert resource is None or (isinstance(resource, QImage) and resource.isNull())
    followed: list[str] = []
    view.link_chosen.connect(followed.append)
    view.anchorClicked.emit(QUrl("javascript:alert(1)"))
    assert followed == []
