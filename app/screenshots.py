"""``--screenshots DIR``: pictures of the windows in both themes, at 100 % and 150 %, in English or ``--language``.

A scripted engine plays written replies through the same client, transcript and
panel as a real one. Each scale runs in a process of its own, because Qt takes the
scale from the environment when it starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QDeadlineTimer, QEventLoop, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from app import style
from app.client import EngineClient
from app.gallery import exhibits, put_away
from app.hub.rehearsal import RehearsalHub
from app.language import installing
from app.language.choice import Language
from app.main_window import MainWindow
from app.markdown import formulas, sample
from app.rehearsal import REHEARSAL_MODEL, RehearsalEngine, Script
from app.rehearsal_methods import LOOKAHEAD, LOOKUP, METHODS, TREE
from app.settings.store import SettingsStore
from app.theme import ThemeChoice
from app.tour import Tour
from app.transport import PROJECT_ROOT, ThreadTransport
from engine.protocol import Failed, Generate, Step

SCALES = (1.0, 1.5)
SIZE = (1320, 860)

SHORT = (
    "What is the capital of Peru?",
    "The capital of Peru is Lima. It lies on the coast of the Pacific Ocean.",
)
CODE = (
    "Write a Python function that adds two numbers.",
    "Here is a function that adds two numbers:\n\n```python\ndef add(first, second):\n"
    "    # Works for whole numbers and for fractions.\n    return first + second\n```\n\n"
    "Call it with `add(2, 3)` and it returns 5.",
)
STORY = (
    "Tell a short story about a fox who finds a lantern in the snow.",
    "Once there was a fox who lived at the edge of a quiet forest. One winter night, when the snow lay deep "
    "and the wind had gone to sleep, she saw a light between the trees.\n\n"
    "It was a lantern. Its glass was cold, but the small flame inside was warm, and it did not go out when "
    "she breathed on it. The fox sat down beside it and waited for whoever had lost it.\n\n"
    "Nobody came. So she took the ring of the lantern between her teeth and carried it home, and from that "
    "night on every animal that lost its way in the snow looked for the light at the edge of the forest. "
    "They found the fox there, and a place to sleep, and in the morning they could not say which of the two "
    "had been the warmer.",
)
LIST = (
    "Name the planets of the solar system in order.",
    "1. Mercury\n2. Venus\n3. Earth\n4. Mars\n5. Jupiter\n6. Saturn\n7. Uranus\n8. Neptune",
)
RHYME = (
    "Write the first verses of The Wheels on the Bus.",
    "The wheels on the bus go round and round, round and round, round and round. The wheels on the bus go round "
    "and round, all day long.\n\nThe wipers on the bus go swish, swish, swish; swish, swish, swish; swish, swish, "
    "swish. The wipers on the bus go swish, swish, swish, all day long.\n\nThe horn on the bus goes beep, beep, "
    "beep; beep, beep, beep; beep, beep, beep. The horn on the bus goes beep, beep, beep, all day long.",
)
"""Something that repeats itself: guesses that are copied from it are often right."""
REPLIES = dict([SHORT, CODE, STORY, LIST, RHYME, (sample.PROMPT, sample.REPLY)])


def _reply(request: Generate) -> str:
    return REPLIES.get(request.messages[-1].content, "I do not know.")


def make_screenshots(folder: Path, language: Language = Language.ENGLISH) -> int:
    """Make all pictures; returns an exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    for scale in SCALES:
        environment = dict(os.environ, QT_SCALE_FACTOR=str(scale), PYTHONUTF8="1")
        environment["PYTHONPATH"] = os.pathsep.join(
            part for part in (str(PROJECT_ROOT), environment.get("PYTHONPATH", "")) if part
        )
        if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & environment.keys():
            environment.setdefault("QT_QPA_PLATFORM", "offscreen")
        scene = [str(folder.absolute()), f"{scale * 100:.0f}", language.value]
        command = [sys.executable, "-m", "app.screenshots", *scene]
        code = subprocess.run(command, env=environment, check=False).returncode
        if code:
            return code
    for path in sorted(folder.glob("*.png")):
        print(path)
    return 0


class Studio:
    """One window in one theme, and the means to wait for it."""

    def __init__(self, app: QApplication, folder: Path, theme: ThemeChoice, label: str) -> None:
        self._app = app
        self._folder = folder
        self._label = label
        self._data = tempfile.TemporaryDirectory(prefix="eyrie-pictures-")
        self.store = SettingsStore(Path(self._data.name))
        self.store.update(theme=theme, licences_seen=("Gemma Terms of Use",), max_new_tokens=4096)
        style.apply(app, theme, None)
        model = replace(REHEARSAL_MODEL, methods=METHODS, method=TREE.id)
        self.engine = RehearsalEngine(Script(_reply, model, tokens_per_second=600, chunk_seconds=0.0))
        self.client = EngineClient(lambda: ThreadTransport(self.engine.run))
        self.window = MainWindow(
            self.client, self.store, Path(self._data.name), hub=lambda: ThreadTransport(RehearsalHub().run)
        )
        self.window.resize(*SIZE)

    def wait(self, done: Callable[[], bool], seconds: float = 20.0) -> None:
        """Run the event loop until ``done``. :raises TimeoutError: it does not come true."""
        deadline = QDeadlineTimer(round(seconds * 1000))
        while not done():
            if deadline.hasExpired():
                raise TimeoutError("the window did not get into the state to be pictured")
            self._app.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 20)

    def settle(self, seconds: float = 0.25) -> None:
        """Let layouts and the panel's frames catch up."""
        loop = QEventLoop()
        QTimer.singleShot(round(seconds * 1000), loop.quit)
        loop.exec()

    def say(self, prompt: str) -> None:
        self.window.send_prompt(prompt)
        self.wait(lambda: self.window.replies.running is None)

    def picture(self, name: str, widget: QWidget | None = None) -> None:
        self.settle()
        (widget or self.window).grab().save(str(self._folder / f"{name}-{self._label}.png"))

    def close(self) -> None:
        self.window.close()
        self.wait(lambda: not self.window.isVisible())
        self.client.wait_closed()
        self.settle(0.1)
        self.window.deleteLater()
        self._data.cleanup()


def play(studio: Studio) -> None:
    """The scenes, in order."""
    window = studio.window
    window.show()
    studio.settle()
    window.start()
    studio.wait(lambda: studio.client.model is not None)
    studio.picture("1-empty")
    window.notices.demo.hide()
    studio.say(SHORT[0])
    studio.picture("2-short")
    window.book.new()
    for prompt in (LIST[0], STORY[0], CODE[0]):
        studio.say(prompt)
    studio.picture("3-long")
    request = window.book.current.messages[-1].request_id
    window.transcript.point_at(request, 9)
    studio.picture("4-step")
    window.commands.panel.setChecked(False)
    window.notices.show_failure(
        Failed(
            "The prompt has 3,231 tokens, the context holds 2,048.", "Shorten the message, or start a new chat.", detail="…"
        ),
        lambda: None,
    )
    studio.picture("5-error")
    window.resize(760, 620)
    studio.picture("6-narrow")
    window.resize(*SIZE)
    window.notices.error.hide()
    window.chat_list.search.setText("fox")
    window.chat_list.run_search()
    studio.picture("8-search")
    window.chat_list.search.clear()
    picture_markdown(studio)
    picture_methods(studio)
    for number, exhibit in enumerate(exhibits(), 20):
        widget = exhibit.open(window)
        widget.show()
        studio.wait(lambda exhibit=exhibit, widget=widget: exhibit.ready(widget))
        studio.picture(f"{number}-{exhibit.name}", window if isinstance(widget, Tour) else widget)
        put_away(widget)


def picture_methods(studio: Studio) -> None:
    """Guesses that are no tree: a chain copied from earlier text, and n-grams beside their window."""
    window = studio.window
    window.commands.panel.setChecked(True)
    for number, method in enumerate((LOOKUP, LOOKAHEAD), 12):
        window.commands.methods.method_chosen.emit(method.id)
        window.book.new()
        studio.say(RHYME[0])
        request = window.book.current.messages[-1].request_id
        history = window.panel.history
        assert history is not None
        best = max((history.step(position) for position in range(len(history))), key=_told)
        window.panel.show_step(request, best.index)
        studio.picture(f"{number}-{method.id}")
    window.commands.methods.method_chosen.emit("")


def _told(step: Step) -> tuple[int, int]:
    """How much a step has to show: guesses that stood, then guesses."""
    return len(step.accepted), len(step.nodes)


def picture_markdown(studio: Studio) -> None:
    """A reply with everything, from its top and from its end, its thoughts unfolded."""
    window = studio.window
    window.book.new()
    studio.say(sample.PROMPT)
    studio.settle()
    studio.wait(lambda: not formulas.setter().is_busy)
    studio.picture("10-markdown-end")
    view = window.transcript.view_of(window.book.current.messages[-1])
    if view is not None and view.body.thoughts is not None:
        view.body.thoughts.open()
    window.transcript.verticalScrollBar().setValue(0)
    studio.picture("11-markdown-top")


def main(folder: str, percent: str, language: str) -> int:
    """One scale, in this process."""
    from app.application import make_application

    app = make_application()
    shown = installing.install(app, Language(language))
    ending = "" if shown is Language.ENGLISH else f"-{shown.value}"
    for theme in (ThemeChoice.LIGHT, ThemeChoice.DARK):
        studio = Studio(app, Path(folder), theme, f"{theme.value}-{percent}{ending}")
        play(studio)
        studio.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
