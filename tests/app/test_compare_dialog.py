"""The comparison window, played by a scripted client."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QAbstractButton, QLabel, QPlainTextEdit, QProgressBar

from app.compare.dialog import CompareDialog
from app.compare.runner import Phase, Which
from engine.protocol import (
    Command,
    Failed,
    FinishReason,
    Generate,
    GenerationSettings,
    Message,
    Mode,
    ModelInfo,
    Role,
    Started,
    Stop,
)
from tests.app.tree_panel_steps import finished, plain_steps, steps

MODEL = ModelInfo(
    name="Tiny",
    path="tiny",
    architecture="Tiny",
    weight_format="float32",
    device="CPU",
    context_length=512,
    vocabulary=1000,
    memory_bytes=1,
    head_name="head",
)
MESSAGES = (Message(Role.SYSTEM, "Be <b>brief</b>."), Message(Role.USER, "Say <i>hi</i>\nplease"))
SETTINGS = GenerationSettings(max_new_tokens=64)


class ScriptedClient(QObject):
    """Records commands; the test emits the events."""

    started = Signal(object)
    step = Signal(object)
    finished = Signal(object)
    failed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.model: ModelInfo | None = MODEL
        self.sent: list[Command] = []
        self.alive = True

    def send(self, command: Command) -> bool:
        self.sent.append(command)
        return self.alive

    @property
    def asked(self) -> list[Generate]:
        return [command for command in self.sent if isinstance(command, Generate)]

    @property
    def stopped(self) -> list[str]:
        return [command.request_id for command in self.sent if isinstance(command, Stop)]

    def play(self, played, end: bool = True, **options) -> None:
        """Play steps as the answer to the last request."""
        request = self.asked[-1].request_id
        self.started.emit(Started(request, 10, 0))
        played = [replace(one, request_id=request) for one in played]
        for one in played:
            self.step.emit(one)
        if end:
            self.finished.emit(finished(played, **options))


def unrolled(played, alter: dict[int, tuple[int, str]] | None = None):
    """The same tokens, one a step, as plain decoding gives them; some of them altered."""
    pieces = [piece for one in played for piece in one.pieces]
    plain = plain_steps([piece.text for piece in pieces])
    made = []
    for number, (one, piece) in enumerate(zip(plain, pieces, strict=True)):
        token, text = (alter or {}).get(number, (piece.token_id, piece.text))
        made.append(replace(one, pieces=(replace(one.pieces[0], token_id=token, text=text),)))
    return made


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def dialog(qtbot, client) -> CompareDialog:
    made = CompareDialog(client)
    qtbot.addWidget(made)
    made.show()
    return made


PLAYED = steps(24, nodes=10, seed=1)


def text_of(dialog: CompareDialog, which: Which) -> str:
    dialog.panes[which].flush()
    return dialog.panes[which].view.toPlainText()


def test_both_runs_get_the_same_prompt_and_seed_one_after_the_other(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    assert len(client.asked) == 1 and dialog.runner.phase is Phase.RUNNING
    first = client.asked[0]
    assert first.settings.eagle and first.messages == MESSAGES and first.settings.seed is not None
    client.play(PLAYED)
    second = client.asked[1]
    assert second.settings == replace(first.settings, eagle=False)
    assert second.messages == MESSAGES and second.request_id != first.request_id
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    assert len(client.asked) == 2 and dialog.runner.phase is Phase.DONE
    assert client.stopped == []


def test_the_user_s_own_seed_is_kept(dialog, client) -> None:
    dialog.start(MESSAGES, replace(SETTINGS, seed=5, temperature=0.8))
    client.play(PLAYED)
    assert [command.settings.seed for command in client.asked] == [5, 5]
    assert [command.settings.temperature for command in client.asked] == [0.8, 0.8]


def test_the_order_can_be_swapped_and_the_run_repeated(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    client.play(PLAYED)
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    dialog.plain_first.setChecked(True)
    dialog.again_button.click()
    assert not dialog.result_card.isVisible() and text_of(dialog, Which.EAGLE) == ""
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    client.play(PLAYED)
    assert [command.settings.eagle for command in client.asked] == [True, False, False, True]
    assert len({command.settings.seed for command in client.asked}) == 1
    assert len({command.request_id for command in client.asked}) == 4
    assert dialog.runner.phase is Phase.DONE


def test_identical_replies_show_speed_up_and_figures(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    tokens = sum(len(one.pieces) for one in PLAYED)
    client.play(PLAYED, decode_seconds=1.0)
    client.play(unrolled(PLAYED), mode=Mode.PLAIN, decode_seconds=2.5)
    assert dialog.result_card.isVisible()
    assert dialog.result_card.factor.text() == "2.50×"
    assert dialog.result_card.verdict.text() == f"Identical: all {tokens} tokens are the same"
    eagle, plain = dialog.panes[Which.EAGLE], dialog.panes[Which.PLAIN]
    assert eagle.speed.value == f"{(tokens - 1) / 1.0:.1f}" and plain.speed.value == f"{(tokens - 1) / 2.5:.1f}"
    assert eagle.tau.value == f"{(tokens - 1) / 23:.2f}" and plain.tau.value == "1.00"
    assert eagle.first.value == plain.first.value == "250 ms"
    assert eagle.tokens.value == str(tokens)
    assert eagle.view.extraSelections() == []
    assert "seed" not in dialog.result_card.caveats.text()


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "as fast"), (1.0, "about as fast"), (2.0, "slower with EAGLE")]
)
def test_a_slower_eagle_is_said_to_be_slower(dialog, client, seconds: float, words: str) -> None:
    dialog.start(MESSAGES, SETTINGS)
    client.play(PLAYED, decode_seconds=seconds)
    client.play(unrolled(PLAYED), mode=Mode.PLAIN, decode_seconds=1.0)
    assert dialog.result_card.factor_words.text().startswith(words)


def test_the_first_difference_is_marked_in_both_texts(dialog, client) -> None:
    texts = ["🦅🦅", " <b>bold</b>", "\r\n", " cat", " sat"]
    eagle = plain_steps(texts)
    plain = unrolled(eagle, {3: (777, " <i>dog</i>")})
    dialog.start(MESSAGES, SETTINGS)
    client.play(eagle)
    client.play(plain, mode=Mode.PLAIN)
    assert dialog.result_card.verdict.text() == "First difference at token 4"
    said = dialog.result_card.detail.text()
    assert "␣cat" in said and "(id 3)" in said and "␣<i>dog</i>" in said and "(id 777)" in said
    assert "␣<b>bold</b>" in said  # the context
    assert dialog.panes[Which.EAGLE].marked_text == " cat"
    assert dialog.panes[Which.PLAIN].marked_text == " <i>dog</i>"
    # The mark is a layer: the text itself is as it came.
    assert text_of(dialog, Which.PLAIN) == "🦅🦅 <b>bold</b>\n <i>dog</i> sat"
    cursor = QTextCursor(dialog.panes[Which.PLAIN].view.document())
    cursor.setPosition(20)
    assert cursor.charFormat().background().style() is Qt.BrushStyle.NoBrush


def test_a_reply_that_ended_earlier_is_said_to_have_ended(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    client.play(plain_steps(["a", "b"]))
    client.play(plain_steps(["a", "b", "c"]), mode=Mode.PLAIN)
    assert "With EAGLE: the reply had ended" in dialog.result_card.detail.text()
    assert "2 and 3 tokens" in dialog.result_card.caveats.text()
    assert dialog.panes[Which.PLAIN].marked_text == "c"


def test_sampling_is_explained(dialog, client) -> None:
    dialog.start(MESSAGES, replace(SETTINGS, temperature=0.7))
    client.play(PLAYED)
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    assert "different samples of the same distribution unless seeded" in dialog.result_card.caveats.text()


def test_text_streams_into_its_own_side(dialog, client, qtbot) -> None:
    dialog.start(MESSAGES, SETTINGS)
    assert "Waiting" in dialog.panes[Which.EAGLE].status.text()
    request = client.asked[0].request_id
    client.started.emit(Started(request, 10, 0))
    assert "Reading" in dialog.panes[Which.EAGLE].status.text()
    client.play(PLAYED[:5], end=False)
    written = "".join(one.text for one in PLAYED[:5])
    view = dialog.panes[Which.EAGLE].view
    qtbot.waitUntil(lambda: view.toPlainText() == written)
    assert text_of(dialog, Which.PLAIN) == ""
    assert 0 < dialog.progress.value() < 500 and dialog.progress.isVisible()
    assert dialog.state.text() == "Run 1 of 2: with EAGLE"
    assert dialog.panes[Which.EAGLE].speed.value != "–"


def test_many_small_steps_are_written_together(dialog, client, qtbot) -> None:
    view = dialog.panes[Which.EAGLE].view
    changes = []
    view.document().contentsChange.connect(lambda *_: changes.append(1))
    dialog.start(MESSAGES, SETTINGS)
    del changes[:]
    client.play(plain_steps(["x"] * 300), end=False)
    qtbot.waitUntil(lambda: view.toPlainText() == "x" * 300)
    assert len(changes) <= 3


def test_events_of_other_requests_are_ignored(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    other = steps(4, request_id="chat")
    for one in other:
        client.step.emit(one)
    client.finished.emit(finished(other))
    client.failed.emit(Failed("no", request_id="chat"))
    client.failed.emit(Failed("a load failed"))
    assert text_of(dialog, Which.EAGLE) == "" and dialog.runner.phase is Phase.RUNNING
    assert len(client.asked) == 1


@pytest.mark.parametrize("runs_before", [0, 1])
def test_cancelling_stops_the_run_and_starts_no_other(dialog, client, runs_before: int) -> None:
    dialog.start(MESSAGES, SETTINGS)
    if runs_before:
        client.play(PLAYED)
    client.play(PLAYED[:4], end=False)
    dialog.cancel_button.click()
    request = client.asked[-1].request_id
    assert client.stopped == [request]
    assert not dialog.cancel_button.isEnabled() and not dialog.again_button.isEnabled()
    stopped = [replace(one, request_id=request) for one in PLAYED[:4]]
    client.finished.emit(finished(stopped, reason=FinishReason.STOPPED))
    assert dialog.runner.phase is Phase.CANCELLED
    assert len(client.asked) == 1 + runs_before
    assert "Cancelled" in dialog.result_card.verdict.text() and not dialog.result_card.factor.isVisible()
    assert dialog.again_button.isEnabled()
    dialog.again_button.click()
    assert len(client.asked) == 2 + runs_before


@pytest.mark.parametrize("how", ["close", "reject", "button"])
def test_closing_stops_what_runs_and_hears_no_more(dialog, client, how: str) -> None:
    dialog.start(MESSAGES, SETTINGS)
    client.play(PLAYED[:4], end=False)
    {"close": dialog.close, "reject": dialog.reject, "button": dialog.close_button.click}[how]()
    request = client.asked[0].request_id
    assert client.stopped == [request] and not dialog.isVisible()
    client.finished.emit(finished([replace(one, request_id=request) for one in PLAYED[:4]]))
    assert len(client.asked) == 1 and dialog.runner.comparison is None


def test_closing_an_idle_window_stops_nothing(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    client.play(PLAYED)
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    dialog.close()
    assert client.stopped == []


def test_starting_again_while_running_gives_the_old_run_up(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    old = client.asked[0].request_id
    dialog.start(MESSAGES[:1], SETTINGS)
    assert client.stopped == [old]
    client.step.emit(replace(PLAYED[0], request_id=old))
    assert text_of(dialog, Which.EAGLE) == ""


def test_a_model_without_a_head_is_explained_and_nothing_runs(dialog, client) -> None:
    client.model = replace(MODEL, head_name=None, head_problem="The head fits <b>another</b> model. Choose its own.")
    dialog.start(MESSAGES, SETTINGS)
    assert client.asked == [] and dialog.runner.phase is Phase.FAILED
    assert dialog.result_card.verdict.text() == "EAGLE is not available for Tiny."
    assert "The head fits <b>another</b> model" in dialog.result_card.detail.text()
    assert not dialog.result_card.factor.isVisible()
    client.model = None
    dialog.again_button.click()
    assert "No model is loaded" in dialog.result_card.verdict.text() and "Load a model" in dialog.result_card.detail.text()
    client.model = MODEL
    dialog.again_button.click()
    assert len(client.asked) == 1 and not dialog.result_card.isVisible()


def test_an_eagle_run_that_was_plain_is_not_passed_off_as_eagle(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    client.play(unrolled(PLAYED), mode=Mode.PLAIN, notice="EAGLE is slower here, so it was switched off.")
    assert dialog.runner.phase is Phase.FAILED and len(client.asked) == 1
    assert "EAGLE did not run" in dialog.result_card.verdict.text()
    assert "slower here" in dialog.result_card.verdict.text() and dialog.result_card.detail.text()


@pytest.mark.parametrize("second", [False, True])
def test_a_failure_is_shown_with_what_to_do(dialog, client, second: bool) -> None:
    dialog.start(MESSAGES, SETTINGS)
    if second:
        client.play(PLAYED)
    client.failed.emit(Failed("Out of memory.", "Choose a smaller model.", request_id=client.asked[-1].request_id))
    assert dialog.runner.phase is Phase.FAILED
    assert dialog.result_card.verdict.text() == "Out of memory."
    assert dialog.result_card.detail.text() == "Choose a smaller model."
    assert dialog.again_button.isEnabled() and not dialog.progress.isVisible()


def test_a_dead_engine_is_said_to_be_dead(dialog, client) -> None:
    client.alive = False
    dialog.start(MESSAGES, SETTINGS)
    assert dialog.runner.phase is Phase.FAILED
    assert "not running" in dialog.result_card.verdict.text() and "Restart" in dialog.result_card.detail.text()


def test_a_failure_while_cancelling_is_a_cancellation(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    dialog.cancel_button.click()
    client.failed.emit(Failed("The engine stopped.", request_id=client.asked[0].request_id))
    assert dialog.runner.phase is Phase.CANCELLED


def test_the_window_is_not_modal_and_everything_has_a_name(dialog) -> None:
    assert not dialog.isModal() and dialog.windowTitle()
    for button in dialog.findChildren(QAbstractButton):
        assert button.accessibleName() or button.text()
    for kind in (QPlainTextEdit, QProgressBar):
        assert all(widget.accessibleName() for widget in dialog.findChildren(kind))


def test_no_label_reads_markup(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    client.play(plain_steps(["<b>x</b>"]))
    client.play(plain_steps(["<u>y</u>"], first_id=5), mode=Mode.PLAIN)
    assert "<i>hi</i>" in dialog.prompt.text()
    own = {"The same prompt, with EAGLE and without", "With EAGLE", "Without EAGLE"}
    for label in dialog.findChildren(QLabel):
        assert label.textFormat() is Qt.TextFormat.PlainText or label.text() in own
    assert text_of(dialog, Which.EAGLE) == "<b>x</b>"


def test_the_result_is_one_text_for_screen_readers(dialog, client) -> None:
    dialog.start(MESSAGES, SETTINGS)
    client.play(PLAYED, decode_seconds=1.0)
    client.play(unrolled(PLAYED), mode=Mode.PLAIN, decode_seconds=2.0)
    spoken = dialog.result_card.accessibleDescription()
    assert "2.00×" in spoken and "Identical" in spoken


@pytest.mark.parametrize("width", [380, 900])
def test_narrow_windows_put_the_replies_below_each_other(dialog, client, width: int, qtbot) -> None:
    dialog.resize(width, 700 if width == 900 else 480)
    dialog.start(MESSAGES, SETTINGS)
    client.play(PLAYED)
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    eagle, plain = dialog.panes[Which.EAGLE], dialog.panes[Which.PLAIN]
    if width == 900:
        qtbot.waitUntil(lambda: eagle.y() == plain.y() and plain.x() > eagle.x())
    else:
        qtbot.waitUntil(lambda: eagle.x() == plain.x() and plain.y() >= eagle.y() + eagle.height())
        # The result lies below the fold and is brought into view.
        qtbot.waitUntil(lambda: dialog._scroll.verticalScrollBar().value() > 0)
        assert not dialog.result_card.factor.visibleRegion().isEmpty()
