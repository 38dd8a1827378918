"""The command line, the data folder, the log, and a whole session in a process of its own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QObject, qInstallMessageHandler, qWarning
from pytestqt.qtbot import QtBot

from app.application import _interrupts, chosen_folder, load_command, main, parse
from app.crash_log import CrashLog
from app.diagnostics import version
from app.folders import data_folder
from app.settings.store import Settings
from app.transport import PROJECT_ROOT
from engine.protocol import Load

SESSION = """
import sys
from PySide6.QtCore import QTimer
from app import application
from app.main_window import MainWindow

real = MainWindow.start
def start(window):
    real(window)
    def look():
        if window.client.model is None:
            return
        if not window.book.current.messages:
            window.send_prompt("/long")
        elif window.replies.running and len(window.replies.running.text) > 50:
            timer.stop()
            print("SAW", window.replies.running.text[:19], flush=True)
            crash = window.notices.crash
            print("TOLD", crash.isVisible() and crash.label.text(), [each.text() for each in crash.offers()], flush=True)
            window.close()
    timer = QTimer(window)
    timer.timeout.connect(look)
    timer.start(20)
MainWindow.start = start
sys.exit(application.main(sys.argv[1:]))
"""


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"Eyrie {version()}"


def test_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    assert load_command(parse([]), Settings()) == Load("demo", None)
    assert load_command(parse(["--model", "model", "--head", "none"]), Settings()) == Load(
        str(tmp_path / "model"), ""
    )
    assert load_command(parse(["--model", "org/name", "--head", "model"]), Settings()) == Load(
        "org/name", str(tmp_path / "model")
    )
    last = Settings(last={"model": "/models/one", "head": "/heads/one"})
    assert load_command(parse([]), last) == Load("/models/one", "/heads/one"), "the pair of the last time"
    assert load_command(parse(["--head", "none"]), last) == Load("/models/one", "")
    assert load_command(parse(["--model", "demo"]), last) == Load("demo", None)
    assert load_command(parse([]), Settings(last={"model": 3})) == Load()


def test_the_data_folder(tmp_path: Path, data_dir: Path) -> None:
    assert data_folder() == data_dir and data_dir.is_dir()
    asked = tmp_path / "Größe 鷲"
    assert data_folder(str(asked)) == asked and asked.is_dir()
    with chosen_folder(parse(["--temp-data-dir"])) as folder:
        assert folder.is_dir() and folder != data_dir
    assert not folder.exists()


def test_a_data_folder_that_cannot_be_used_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--data-dir", str(tmp_path / "file" / "below")]) == 4
    assert "--data-dir" in capsys.readouterr().err


def test_a_home_that_nobody_has_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data-dir", "~nobody-of-this-name/eyrie"]) == 4
    assert "--data-dir" in capsys.readouterr().err
    assert load_command(parse(["--model", "~nobody-of-this-name/model"]), Settings()).model.startswith("~nobody")


def test_everything_lands_in_one_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = sys.excepthook
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    monkeypatch.setattr(sys, "__excepthook__", lambda *arguments: None)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "faults.log").write_text("Fatal Python error: Segmentation fault")
    crash_log = CrashLog(tmp_path)
    told: list[str] = []
    crash_log.on_exception = lambda message, detail: told.append(message)
    try:
        crash_log.install()
        crash_log.watch_faults()
        qWarning("something about a font")
        try:
            raise ValueError("a bug")
        except ValueError as error:
            sys.excepthook(ValueError, error, error.__traceback__)
        logged = (tmp_path / "logs" / "eyrie.log").read_text("utf-8")
    finally:
        crash_log.close()
        sys.excepthook = hooks
        for handler in set(root.handlers) - set(handlers):
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
        qInstallMessageHandler(None)
    assert "Segmentation fault" in crash_log.last_crash and "Segmentation fault" in logged
    assert "qt: something about a font" in logged and "ValueError: a bug" in logged
    assert told == ["Something unexpected went wrong: ValueError."]
    assert not (tmp_path / "logs" / "faults.log").exists(), "a proper end leaves nothing behind"


def test_a_start_in_vain_takes_nothing_from_the_log_of_crashes(tmp_path: Path) -> None:
    """A second start finds that the folder is in use, and ends: the window there goes on writing its faults."""
    faults = tmp_path / "logs" / "faults.log"
    faults.parent.mkdir()
    faults.write_text("Fatal Python error: Segmentation fault")
    code = (
        "import sys; from pathlib import Path; from app.crash_log import CrashLog; "
        "log = CrashLog(Path(sys.argv[1])); log.install(); log.close(); print(log.last_crash)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "" and faults.read_text() == "Fatal Python error: Segmentation fault"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="terminals end otherwise there")
def test_the_end_of_a_terminal_closes_the_window(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    stage = QObject()
    stage.window = SimpleNamespace(close=lambda: closed.append(True))  # type: ignore[attr-defined]
    with _interrupts(stage):  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGHUP)
        qtbot.waitUntil(lambda: bool(closed), timeout=20000)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _interrupts(stage):  # type: ignore[arg-type]
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, "nohup has said that it is to go on"
    finally:
        signal.signal(signal.SIGHUP, before)
    stage.deleteLater()


@pytest.mark.parametrize("folder", ["data", "Données d’Élodie 鷲"])
def test_a_session_from_start_to_end(tmp_path: Path, folder: str) -> None:
    """Start, load, stream, close in mid-reply: ends by itself with a clean log."""
    environment = dict(
        os.environ,
        EYRIE_ENGINE_COMMAND=f'"{sys.executable}" -m tests.app.fake_engine --load-seconds 0.05',
        PYTHONPATH=str(PROJECT_ROOT),
        PYTHONUTF8="1",
    )
    crashed = folder != "data"
    if crashed:
        faults = tmp_path / folder / "logs" / "faults.log"
        faults.parent.mkdir(parents=True)
        faults.write_text("Fatal Python error: Segmentation fault", encoding="utf-8")
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", SESSION, "--data-dir", str(tmp_path / folder)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "SAW The quick brown fox" in done.stdout, f"{done.stderr} after {time.monotonic() - begun:.1f} s"
    log = (tmp_path / folder / "logs" / "eyrie.log").read_text("utf-8")
    if crashed:
        assert "TOLD Eyrie did not end properly last time." in done.stdout and "'Copy details'" in done.stdout, (
            "still there when the model is loaded and a reply comes"
        )
        log = log.replace("ERROR eyrie: the session before crashed", "")
    else:
        assert "TOLD False" in done.stdout
    assert "ERROR" not in log and "Traceback" not in log, log
    assert (tmp_path / folder / "window.ini").exists()
