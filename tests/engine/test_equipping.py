"""A model with a smaller one beside it, and methods from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.__main__ import main, parser
from engine.commands.method_options import describe, read_options
from engine.drafting.registry import METHODS
from engine.errors import PromptError
from engine.loaded import load_model
from engine.protocol import Load
from tests.engine import tiny
from tests.engine.known_times import KnownMachine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_with_tokenizer(tmp_path_factory.mktemp("models") / "large")


def problems(loaded: Load) -> dict[str, str]:
    return {info.id: info.problem for info in load_model(loaded).info.methods}


def test_a_smaller_model_is_loaded_beside_the_target(
    folder: Path, capsys: pytest.CaptureFixture[str], known_machine: KnownMachine
) -> None:
    assert problems(Load(str(folder), device="cpu", draft=str(folder)))["draft-model"] == ""

    def reply(*more: str) -> tuple[str, str]:
        assert (
            main(["chat", "--model", str(folder), "--device", "cpu", "--max-tokens", "20", *more, "Hello"])
            == 0
        )
        captured = capsys.readouterr()
        return captured.out, captured.err

    plain, _ = reply("--method", "plain")
    how = ("--method", "draft-model", "--draft", str(folder), "--set", "depth=3", "--set", "branches=2")
    drafted, figures = reply(*how, "--no-adapt")
    assert drafted == plain and "draft-model" in figures and "τ" in figures
    for pays in (True, False):
        known_machine.pays = pays
        drafted, figures = reply(*how, "--explain")
        assert drafted == plain
        assert "A pass of the model, by rows:\n  1: 2.0 ms" in figures and "Drafting with draft-model: 0.4 ms" in figures
        assert "Chosen: up to" in figures and "3 levels" in figures
    assert "τ" not in figures and "Drafting pauses, because it loses." in figures  # known from the start to lose


def test_a_smaller_model_that_does_not_fit_is_named(folder: Path, tmp_path: Path) -> None:
    other = tiny.save_with_tokenizer(tmp_path / "other")
    path = other / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    vocabulary = raw["model"]["vocab"]
    swapped = {**vocabulary, "A": vocabulary["B"], "B": vocabulary["A"]}
    path.write_text(json.dumps({**raw, "model": {**raw["model"], "vocab": swapped}}), "utf-8")
    found = problems(Load(str(folder), device="cpu", draft=str(other)))
    assert "other has another vocabulary" in found["draft-model"] and not found["lookahead"]
    found = problems(Load(str(folder), device="cpu", draft=str(tmp_path / "nowhere")))
    assert "nowhere" in found["draft-model"]


def test_a_method_that_cannot_be_used_is_an_error_with_a_way_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in (
        ["--method", "medusa"],
        ["--method", "telepathy"],
        ["--set", "colour=red"],
        ["--set", "nodes"],
    ):
        assert main(["chat", "--model", str(folder), "--device", "cpu", *more, "Hello"]) == 1
        message, way_out = capsys.readouterr().err.strip().splitlines()[-2:]
        assert message.endswith(".") and way_out.endswith(".")


def test_the_help_is_what_the_methods_say(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["chat", "--help"])
    text = capsys.readouterr().out
    for method in METHODS:
        assert method.info.about in text
        assert all(setting.meaning in text for setting in method.info.settings)
    assert "typical changes the distribution" in text
    assert describe([METHODS[0].info]).count("\n") == 2


def test_options_are_read_for_their_method() -> None:
    assert read_options("medusa", ["nodes=20", "acceptance=typical"]) == (
        ("nodes", 20),
        ("acceptance", "typical"),
    )
    assert read_options("", ["branches=3"]) == (("branches", 3),)
    with pytest.raises(PromptError, match="window"):
        read_options("lookahead", ["nodes=20"])
    with pytest.raises(PromptError, match="no method"):
        read_options("lookahaed", [])
    with pytest.raises(PromptError, match="not a setting of plain"):
        read_options("plain", ["nodes=20"])


def test_help_lists_what_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    from engine.__main__ import main

    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert "chat" in text and "bench" in text and "worker" not in text
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "default: None" not in text and "default: )" not in text and "default: False" not in text
    assert "(default: demo)" in text
