"""Made-up replies and a client that plays them, for the tests of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.book import ChatBook
from app.chat.conversation import Chat
from app.compare.comparison import Run, Which
from app.compare.dialog import CompareDialog
from app.compare.plan import Plan
from app.compare.prompts import Prompt
from app.compare.shelf import Shelf
from app.compare.sides import PLAIN, SideChoice
from engine.protocol import (
    Command,
    Failed,
    Generate,
    GenerationSettings,
    Load,
    Loaded,
    MarginMeasured,
    MeasureMargin,
    Message,
    MethodInfo,
    MethodSetting,
    Mode,
    ModelInfo,
    Needs,
    Role,
    SettingKind,
    Shape,
    Started,
    Step,
    Stop,
)
from tests.app.tree_panel_steps import finished, plain_steps, steps

METHODS = (
    MethodInfo("plain", "Plain", "One at a time.", Needs.NOTHING, Shape.CHAIN, drafts=False),
    MethodInfo(
        "tree", "Dynamic tree", "Guesses a tree.", Needs.HEAD, Shape.TREE,
        (
            MethodSetting("nodes", "Nodes", "Rows of a pass.", SettingKind.INTEGER, None, 2, 64),
            MethodSetting(
                "accept", "Acceptance", "Which guesses are kept.", SettingKind.CHOICE, "exact",
                choices=("exact", "typical"), lossy=("typical",),
            ),
        ),
    ),
    MethodInfo("lookup", "Prompt lookup", "Looks back.", Needs.NOTHING, Shape.CHAIN),
    MethodInfo("medusa", "Medusa", "Heads.", Needs.MEDUSA_HEADS, Shape.TREE, problem="No Medusa heads are loaded."),
)  # fmt: skip
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
    methods=METHODS,
    method="tree",
)
MESSAGES = (Message(Role.SYSTEM, "Be <b>brief</b>."), Message(Role.USER, "Say <i>hi</i>\nplease"))
SETTINGS = GenerationSettings(max_new_tokens=64)
TREE = SideChoice(method="tree")
PLAYED = steps(24, nodes=10, seed=1)
TOKENS = sum(len(one.pieces) for one in PLAYED)


def plan(
    a: SideChoice = TREE,
    b: SideChoice = PLAIN,
    prompts: Sequence[str] = (),
    repeats: int = 1,
    load: Load | None = None,
    **settings: object,
) -> Plan:
    """Without ``prompts`` on :data:`MESSAGES`."""
    asked = tuple(Prompt((Message(Role.USER, text),)) for text in prompts) or (Prompt(MESSAGES),)
    return Plan(a, b, asked, replace(SETTINGS, **settings), repeats, load or Load("tiny"))  # type: ignore[arg-type]


def unrolled(played: Sequence[Step], alter: dict[int, tuple[int, str]] | None = None) -> list[Step]:
    """The same tokens, one a step, as plain decoding gives them; some of them altered."""
    pieces = [piece for one in played for piece in one.pieces]
    plain = plain_steps([piece.text for piece in pieces])
    made = []
    for number, (one, piece) in enumerate(zip(plain, pieces, strict=True)):
        token, text = (alter or {}).get(number, (piece.token_id, piece.text))
        made.append(replace(one, pieces=(replace(one.pieces[0], token_id=token, text=text),)))
    return made


def run(texts: Sequence[str], ids: Sequence[int] | None = None, **options: object) -> Run:
    played = plain_steps(texts)
    if ids is not None:
        played = [
            replace(one, pieces=(replace(one.pieces[0], token_id=token),))
            for one, token in zip(played, ids, strict=True)
        ]
    return Run(
        tuple(piece for one in played for piece in one.pieces),
        finished(played, **options),  # type: ignore[arg-type]
    )


class ScriptedClient(QObject):
    """Records commands; the test emits the events."""

    started = Signal(object)
    step = Signal(object)
    finished = Signal(object)
    failed = Signal(object)
    loaded = Signal(object)
    margin_measured = Signal(object)
    state_changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.model: ModelInfo | None = MODEL
        self.is_loading = False
        self.sent: list[Command] = []
        self.alive = True

    def send(self, command: Command) -> bool:
        self.sent.append(command)
        if self.alive and isinstance(command, Load):
            self.model, self.is_loading = None, True
        return self.alive

    def all_sent(self, kind: type) -> list[Command]:
        return [command for command in self.sent if isinstance(command, kind)]

    @property
    def asked(self) -> list[Generate]:
        return [command for command in self.sent if isinstance(command, Generate)]

    @property
    def stopped(self) -> list[str]:
        return [command.request_id for command in self.sent if isinstance(command, Stop)]

    def play(self, played: Sequence[Step], end: bool = True, **options: object) -> None:
        """Play steps as the answer to the last request."""
        request = self.asked[-1].request_id
        self.started.emit(Started(request, 10, 0))
        played = [replace(one, request_id=request) for one in played]
        for one in played:
            self.step.emit(one)
        if end:
            self.finished.emit(finished(played, **options))  # type: ignore[arg-type]

    def play_side(self, alter: dict[int, tuple[int, str]] | None = None, **options: object) -> Which:
        """Answer the last request as its side would: trees with drafting, one token a step without."""
        if self.asked[-1].settings.eagle:
            self.play(PLAYED, **options)
            return Which.A
        self.play(unrolled(PLAYED, alter), mode=Mode.PLAIN, **options)
        return Which.B

    def measure(self, apart: float, noise: float, best: int | None = None) -> None:
        """Answer the last question for a margin."""
        asked = self.sent[-1]
        assert isinstance(asked, MeasureMargin)
        a, b = asked.candidates
        top = max(4.0 + apart, 4.0)
        self.margin_measured.emit(
            MarginMeasured(
                asked.request_id, (4.0 + apart, 4.0), (0.4, 0.3), ("a", "b"), noise,
                (a if apart >= 0 else b) if best is None else best, " best", top,
            )
        )  # fmt: skip

    def load_ends(self, model: ModelInfo | None = MODEL) -> None:
        """The load that was asked for last is over; ``None``: it failed."""
        self.is_loading, self.model = False, model
        self.state_changed.emit()
        if model is not None:
            self.loaded.emit(Loaded(model))
        else:
            self.failed.emit(Failed("The GPU's memory is full.", "Choose a smaller head.", kind="resource"))


# --------------------------------------------------------------------------- fixtures


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def chat() -> Chat:
    return Chat()


@pytest.fixture
def dialog(qtbot: QtBot, look: QApplication, client: ScriptedClient, chat: Chat) -> CompareDialog:
    book = ChatBook()
    made = CompareDialog(client, lambda: Load("tiny"), Shelf(book))
    qtbot.addWidget(made)
    made.open_for(chat, SETTINGS, MESSAGES, MESSAGES)
    made.show()
    return made


def play_all(dialog: CompareDialog, client: ScriptedClient, **altered: object) -> None:
    while dialog.runner.busy:
        client.play_side(**altered)  # type: ignore[arg-type]
