"""The comparison window, played by a scripted client and once by the scripted engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.chat.conversation import Chat
from app.compare.comparison import Which
from app.compare.dialog import CompareDialog
from app.compare.plan import Plan
from app.compare.prompt_editor import Source
from app.compare.run_page import time_left
from app.compare.sides import PLAIN
from app.compare.states import Phase
from engine.protocol import FinishReason, Load, Message, Mode, Role, Started
from engine.protocol.hub import HeadChoice, PairReport, PairVerdict, Problem
from engine.protocol.hub_messages import FindHeads, Heads, HubFailed
from tests.app.compare_replies import (
    MESSAGES,
    MODEL,
    PLAYED,
    SETTINGS,
    TOKENS,
    TREE,
    ScriptedClient,
    chat,
    client,
    dialog,
    plan,
    play_all,
    unrolled,
)
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import Script, say
from tests.app.tree_panel_steps import finished, plain_steps

__all__ = ["chat", "client", "dialog"]  # fixtures


def text_of(dialog: CompareDialog, which: Which) -> str:
    dialog.run_page.panes[which].flush()
    return dialog.run_page.panes[which].view.toPlainText()


# --------------------------------------------------------------------------- putting it together


def test_it_opens_with_the_chat_s_settings_against_plain_decoding(dialog: CompareDialog, client: ScriptedClient) -> None:
    setup = dialog.setup
    chosen = setup.plan(Load("tiny"))
    assert chosen.a.drafting and chosen.a.method == "" and chosen.b == PLAIN
    assert [prompt.messages for prompt in chosen.prompts] == [MESSAGES] and chosen.repeats == 2
    assert chosen.shared == SETTINGS and setup.problem() == ""
    assert "1 prompt × 2 repeats: 4 replies." in setup.summary.text()
    assert "<i>hi</i>" in setup.prompts.one.text()
    assert dialog.start_button.isDefault() and dialog.start_button.isVisible() and not dialog.stop_button.isVisible()
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    assert len(client.asked) == 1 and dialog.stack.currentIndex() == 1 and dialog.stop_button.hasFocus()


def test_methods_and_their_settings_come_from_the_engine(dialog: CompareDialog, client: ScriptedClient) -> None:
    side = dialog.setup.sides[Which.A]
    texts = [side.method.itemText(place) for place in range(side.method.count())]
    assert texts == ["Plain decoding (EAGLE off)", "Automatic (Dynamic tree)", "Dynamic tree", "Prompt lookup",
                     "Medusa – not with what is loaded"]  # fmt: skip
    side.method.setCurrentIndex(2)
    nodes, accept = side.options
    nodes.own.setChecked(False)
    nodes.field.setValue(12)  # type: ignore[attr-defined]
    accept.own.setChecked(False)
    accept.field.setCurrentText("typical")  # type: ignore[attr-defined]
    assert not accept.warning.isHidden()
    assert dict(side.choice().options) == {"nodes": 12, "accept": "typical"}
    dialog.setup.swap_button.click()
    other = dialog.setup.sides[Which.B]
    assert other.choice().method == "tree" and dict(other.choice().options)["nodes"] == 12
    assert side.choice() == PLAIN and not side.form.isRowVisible(side.head)
    other.method.setCurrentIndex(4)
    assert "No Medusa heads" in dialog.setup.trouble.text() and not dialog.start_button.isEnabled()
    other.method.setCurrentIndex(0)
    assert "Both sides are the same" in dialog.setup.summary.text() and dialog.start_button.isEnabled()


def test_prompts_come_from_lines_a_file_or_the_whole_chat(dialog: CompareDialog, tmp_path: Path) -> None:
    editor = dialog.setup.prompts
    told = MESSAGES[0]
    editor.buttons[Source.TYPED].setChecked(True)
    assert "Write a prompt" in dialog.setup.problem() and not dialog.start_button.isEnabled()
    editor.edit.setPlainText("one\n\ntwo")
    assert [prompt.messages for prompt in editor.prompts()] == [
        (told, Message(Role.USER, "one")), (told, Message(Role.USER, "two")),
    ]  # fmt: skip
    editor.buttons[Source.FILE].setChecked(True)
    assert "Choose a file" in dialog.setup.problem()
    path = tmp_path / "set.jsonl"
    path.write_text('{"turns": ["a"]}\n{oops\n', encoding="utf-8")
    assert editor.take_file(path)
    assert editor.file_words.text() == "1 prompt from set.jsonl. Line 2 is no JSON."
    assert not editor.take_file(tmp_path / "missing.txt") and "cannot be read" in editor.file_words.text()
    assert editor.prompts() == ()
    history = (told, Message(Role.USER, "q1"), Message(Role.ASSISTANT, "a1"), Message(Role.USER, "q2"))
    editor.fill(history, history)
    editor.buttons[Source.CHAT].setChecked(True)
    assert [prompt.text for prompt in editor.prompts()] == ["q1", "q2"]
    assert editor.buttons[Source.CHAT].text() == "All 2 prompts of this chat"
    editor.fill((), ())
    assert editor.source is Source.TYPED and not editor.buttons[Source.ONE].isEnabled()


def test_another_model_keeps_what_fits(dialog: CompareDialog, client: ScriptedClient) -> None:
    side = dialog.setup.sides[Which.A]
    side.method.setCurrentIndex(side.method.findData("lookup"))
    client.model = replace(MODEL, head_name="another")
    client.load_ends(client.model)
    assert side.choice().method == "lookup" and "another" in side.head.itemText(0)
    client.model = replace(MODEL, path="other", methods=(), method="")
    client.load_ends(client.model)
    assert side.choice().drafting and side.choice().method == "" and side.method.count() == 2
    client.model = MODEL
    client.load_ends(client.model)
    side.method.setCurrentIndex(side.method.findData("tree"))
    client.model = None
    dialog.open_for(Chat(), SETTINGS, MESSAGES, ())
    assert "No model is loaded" in dialog.setup.trouble.text() and not dialog.start_button.isEnabled()
    assert side.choice().method == "tree", "what was chosen is there when the model is"
    client.model = MODEL
    client.load_ends(client.model)
    assert side.choice().method == "tree" and dialog.start_button.isEnabled()


class ScriptedHub(QObject):
    heads = Signal(object)
    failed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[object] = []

    def next_id(self) -> int:
        return 7

    def send(self, command: object) -> None:
        self.sent.append(command)


def test_heads_of_the_model_are_looked_for_when_asked(qtbot: QtBot, client: ScriptedClient) -> None:
    hub = ScriptedHub()
    dialog = CompareDialog(client, lambda: Load("tiny"), None, hub)  # type: ignore[arg-type]
    qtbot.addWidget(dialog)
    dialog.open_for(None, SETTINGS, MESSAGES, ())
    side = dialog.setup.sides[Which.A]
    assert hub.sent == []
    side.head.activated.emit(side.head.count() - 2)
    assert hub.sent == [FindHeads(7, "tiny", "compare")] and "Looking" in dialog.said.text()
    found = (
        HeadChoice("me/new", PairReport(PairVerdict.FITS), "this computer", folder="/heads/new"),
        HeadChoice("me/far", PairReport(PairVerdict.FITS), "catalogue"),
        HeadChoice("me/not", PairReport(PairVerdict.NOT), "this computer", folder="/heads/not"),
    )
    hub.heads.emit(Heads(6, "tiny", found))
    hub.heads.emit(Heads(7, "tiny", found))
    assert dialog.said.text() == "1 head is on this computer. 1 more can be downloaded in Models."
    assert [side.head.itemData(place) for place in range(2)] == ["", "/heads/new"]
    side.head.setCurrentIndex(1)
    side.head.activated.emit(1)
    assert (side.choice().head, side.choice().head_name) == ("/heads/new", "me/new")
    assert "loaded again 1 time" in dialog.setup.summary.text()
    side.head.activated.emit(side.head.count() - 2)
    hub.failed.emit(HubFailed(7, Problem("hub", "No network.", "Try again.")))
    assert dialog.said.text() == "No network. Try again."
    dialog.setup.sides[Which.B].choose_head("/mine/x", "x")
    assert dialog.setup.sides[Which.B].choice().drafting is False


# --------------------------------------------------------------------------- watching it


def test_text_streams_into_its_own_side_with_progress(
    dialog: CompareDialog, client: ScriptedClient, qtbot: QtBot
) -> None:
    dialog.start(plan(prompts=["one", "two"], repeats=2))
    page = dialog.run_page
    assert "Waiting" in page.panes[Which.A].status.text()
    client.started.emit(Started(client.asked[0].request_id, 10, 0))
    assert "Reading" in page.panes[Which.A].status.text()
    client.play(PLAYED[:5], end=False)
    written = "".join(one.text for one in PLAYED[:5])
    view = page.panes[Which.A].view
    qtbot.waitUntil(lambda: view.toPlainText() == written, timeout=20000)
    assert text_of(dialog, Which.B) == "" and page.panes[Which.A].speed.value != "–"
    assert 0 < page.progress.value() < 125 and page.progress.isVisible()
    assert page.state.text() == "Reply 1 of 8: side A, prompt 1 of 2, repeat 1 of 2"
    client.play(PLAYED)
    whole = text_of(dialog, Which.A)
    client.play(unrolled(PLAYED)[:3], end=False)
    assert text_of(dialog, Which.A) == whole != "", "it stays beside the other side"
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    assert "repeat 2 of 2" in page.state.text() and "left" in page.state.text()
    assert page.table.isVisible() and page.table.item(0, 6).text() == "identical"
    assert not page.card.isVisible() and not dialog.share_button.isEnabled()
    play_all(dialog, client)
    assert page.card.isVisible() and not page.progress.isVisible() and dialog.share_button.isEnabled()
    assert dialog.change_button.hasFocus()
    assert [time_left(seconds) for seconds in (3, 41, 100, 700)] == [
        "a few seconds left", "about 40 seconds left", "about 2 minutes left", "about 12 minutes left",
    ]  # fmt: skip


def test_many_small_steps_are_written_together(dialog: CompareDialog, client: ScriptedClient, qtbot: QtBot) -> None:
    view = dialog.run_page.panes[Which.A].view
    dialog.start(plan())
    changes: list[int] = []
    view.document().contentsChange.connect(lambda *_: changes.append(1))
    client.play(plain_steps(["x"] * 300), end=False)
    qtbot.waitUntil(lambda: view.toPlainText() == "x" * 300, timeout=20000)
    assert len(changes) <= 3


def test_identical_replies_show_speed_up_spread_and_figures(dialog: CompareDialog, client: ScriptedClient) -> None:
    dialog.start(plan(repeats=2))
    for seconds in (1.0, 2.5, 2.0, 1.0):  # A, B, B, A
        client.play_side(decode_seconds=seconds)
    card, panes = dialog.run_page.card, dialog.run_page.panes
    assert card.factor.text() == "2.25×" and card.factor_words.text().startswith("A is faster")
    assert "Median of 2 repeats, which lie between 2.00× and 2.50×." in card.spread.text()
    assert card.verdict.text() == f"Identical: all {TOKENS} tokens are the same"
    assert panes[Which.A].speed.value == f"{TOKENS - 1:.1f}" and panes[Which.B].tau.value == "1.00"
    assert panes[Which.A].first.value == "250 ms" and panes[Which.A].view.extraSelections() == []
    assert "2.25×" in card.accessibleDescription() and "Identical" in card.accessibleDescription()
    dialog.again_button.click()
    assert not card.isVisible() and text_of(dialog, Which.A) == ""
    assert client.asked[-1].settings.seed == client.asked[0].settings.seed, "a repeat takes the same seed"


def test_the_first_difference_is_marked_and_its_margin_told(dialog: CompareDialog, client: ScriptedClient) -> None:
    a = plain_steps(["🦅🦅", " <b>bold</b>", "\r\n", " cat", " sat"])
    dialog.start(plan())
    client.play(a)
    client.play(unrolled(a, {3: (777, " <i>dog</i>")}), mode=Mode.PLAIN)
    client.measure(0.01, 0.05)
    card, panes = dialog.run_page.card, dialog.run_page.panes
    assert card.verdict.text() == "First difference at token 4"
    said = card.detail.text()
    assert "␣cat" in said and "(id 3" in said and "␣<i>dog</i>" in said and "(id 777" in said
    assert "␣<b>bold</b>" in said and "A tie within rounding" in said
    assert panes[Which.A].marked_text == " cat" and panes[Which.B].marked_text == " <i>dog</i>"
    # The mark is a layer: the text itself is as it came.
    assert text_of(dialog, Which.B) == "🦅🦅 <b>bold</b>\n <i>dog</i> sat"
    cursor = QTextCursor(panes[Which.B].view.document())
    cursor.setPosition(20)
    assert cursor.charFormat().background().style() is Qt.BrushStyle.NoBrush
    for label in dialog.findChildren(QLabel):
        assert label.textFormat() is Qt.TextFormat.PlainText or "<" not in label.text()


def test_a_prompt_of_a_set_is_chosen_in_the_table(dialog: CompareDialog, client: ScriptedClient) -> None:
    dialog.start(plan(prompts=["one", "two"]))
    play_all_of_first = [client.play_side(), client.play_side(), client.play_side({5: (777, " dog")})]
    assert play_all_of_first == [Which.A, Which.B, Which.B]
    client.play_side()
    client.measure(-2.0, 0.0)
    page = dialog.run_page
    assert page.card.verdict.text() == "1 of 2 texts differs"
    assert page.prompt_at == 1 and "Prompt 2: First difference at token 6" in page.card.detail.text()
    assert page.table.item(1, 6).text() == "differ at 6" and page.table.currentRow() == 1
    page.table.setCurrentCell(0, 0)
    assert page.prompt_at == 0 and "one" in page.prompt.text() and page.card.detail.text() == ""
    assert page.panes[Which.A].marked_text == ""


def test_stopping_keeps_and_closing_abandons(dialog: CompareDialog, client: ScriptedClient, chat: Chat) -> None:
    dialog.start(plan(repeats=2))
    client.play_side()
    client.play_side()
    client.play(PLAYED[:4], end=False)
    dialog.stop_button.click()
    assert not dialog.stop_button.isEnabled() and not dialog.change_button.isEnabled()
    stopped = [replace(one, request_id=client.asked[-1].request_id) for one in PLAYED[:4]]
    client.finished.emit(finished(stopped, reason=FinishReason.STOPPED))
    card = dialog.run_page.card
    assert card.factor.isVisible() and "It was stopped" in card.caveats.text()
    assert len(dialog._shelf.of_chat(chat)) == 1  # type: ignore[union-attr]
    dialog.again_button.click()
    client.play(PLAYED[:2], end=False)
    dialog.reject()
    assert client.stopped[-1] == client.asked[-1].request_id and not dialog.isVisible()
    assert dialog.runner.phase is Phase.STOPPED
    asked = len(client.asked)
    client.finished.emit(finished([replace(PLAYED[0], request_id=client.asked[-1].request_id)]))
    assert len(client.asked) == asked


def test_a_trouble_without_a_reply_is_said_in_the_card(dialog: CompareDialog, client: ScriptedClient) -> None:
    client.alive = False
    dialog.start(plan())
    card = dialog.run_page.card
    assert card.verdict.text() == "The engine is not running." and "Restart" in card.detail.text()
    assert not card.factor.isVisible() and not dialog.share_button.isEnabled() and dialog.change_button.isEnabled()


# --------------------------------------------------------------------------- the whole window


def test_a_comparison_from_the_chat_to_the_list(
    qtbot: QtBot, open_window: OpenWindow, look: QApplication
) -> None:
    window = open_window(Script(say("The same words on both sides. " * 3), tokens_per_second=5000.0, chunk_seconds=0.0))
    assert not window.commands.comparisons.isEnabled()
    qtbot.keyClicks(window.composer.edit, "typed")
    window.commands.compare.trigger()
    dialog = window.compare_dialog
    assert dialog is not None and dialog.isVisible() and dialog.setup.prompts.one.text() == "typed"
    dialog.start_button.click()
    qtbot.waitUntil(lambda: dialog.runner.phase is Phase.DONE, timeout=20000)
    assert "Identical" in dialog.run_page.card.verdict.text()
    assert window.commands.comparisons.isEnabled()
    dialog.close()
    window.commands.comparisons.trigger()
    assert dialog.isVisible() and dialog.setup.saved.list.count() == 1


@pytest.mark.parametrize("width", [480, 940])
def test_narrow_windows_put_the_sides_below_each_other(
    dialog: CompareDialog, client: ScriptedClient, width: int, qtbot: QtBot
) -> None:
    dialog.resize(width, 700 if width == 940 else 480)
    a, b = dialog.setup.sides[Which.A], dialog.setup.sides[Which.B]
    below: Callable[[], bool] = lambda: a.x() == b.x() and b.y() >= a.y() + a.height()  # noqa: E731
    beside: Callable[[], bool] = lambda: a.y() == b.y() and b.x() > a.x()  # noqa: E731
    qtbot.waitUntil(beside if width == 940 else below, timeout=20000)
    one: Plan = plan(TREE)
    dialog.start(one)
    play_all(dialog, client)
    if width == 480:
        # The result lies below the fold and is brought into view.
        bar = dialog.run_page._scroll.verticalScrollBar()
        qtbot.waitUntil(lambda: bar.value() > 0, timeout=20000)
        assert not dialog.run_page.card.factor.visibleRegion().isEmpty()
