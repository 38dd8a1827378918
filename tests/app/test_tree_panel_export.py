"""Steps as files: read again, they say what the panel showed."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageSequence
from PySide6.QtCore import QBuffer, QIODevice
from PySide6.QtGui import QFont, QImage
from PySide6.QtWidgets import QFileDialog, QMessageBox

from app import theme
from app.tree_panel import animation, exports
from app.tree_panel.animation import FRAME_MS, LAST_MS, frames_of
from app.tree_panel.exports import ExportError, Form, Source, free_name, write
from app.tree_panel.figure import Look, StepFigure
from app.tree_panel.history import ReplyHistory
from app.tree_panel.panel import TreePanel
from app.tree_panel.token_text import visible
from app.whole_files import Cancelled
from engine.protocol import (
    Bonus,
    Match,
    Mode,
    Origin,
    Piece,
    Shape,
    Step,
    StepTimes,
    TreeNode,
    Verdict,
)
from tests.app.tree_panel_steps import chain_step, finished, play, step, window_step

WORDS = (" the", "漢字", "👩‍👧", "<b>x</b>", " & co", "\n", "\ud800", "שלום")
PLAYED = [
    step(0),
    step(1, 20, 4, seed=3, words=WORDS),
    replace(chain_step(2, bonus=" 海", match=Match(" the old man", 3, 41)), notice="Drafting pauses."),
    step(3, nodes=0),
    window_step(4),
]


@pytest.fixture
def source(qapp) -> Source:
    history = ReplyHistory("r")
    for one in PLAYED:
        history.add(one)
    history.finish(finished(PLAYED))
    return Source(history, 1, Look.of(QFont(), theme.palette(dark=False)), lambda method: method.upper())


def read_step(found: dict[str, Any]) -> Step:
    """A step of the file as the protocol has it."""

    def node(values: dict[str, Any]) -> TreeNode:
        return TreeNode(**{**values, "verdict": Verdict(values["verdict"])})

    found = dict(found)
    found.pop("nodes_dropped", None)
    return Step(
        request_id="r",
        **{
            **found,
            "pieces": tuple(Piece(**{**each, "origin": Origin(each["origin"])}) for each in found["pieces"]),
            "times": StepTimes(**found["times"]),
            "nodes": tuple(map(node, found["nodes"])),
            "window": tuple(map(node, found["window"])),
            "accepted": tuple(found["accepted"]),
            "bonus": Bonus(**found["bonus"]) if found["bonus"] else None,
            "mode": Mode(found["mode"]),
            "shape": Shape(found["shape"]),
            "match": Match(**found["match"]) if found["match"] else None,
        },
    )


def test_json_holds_the_same_steps(source: Source, tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    assert write(Form.JSON, source, path) == 5
    read = json.loads(path.read_text("utf-8"))
    assert (read["format"], read["version"], read["reason"]) == ("eyrie-steps", 1, "eos")
    assert read["stats"]["steps"] == 4
    assert [read_step(each) for each in read["steps"]] == PLAYED
    assert " 海" in path.read_text("utf-8")  # readable where it can be


def test_json_says_which_trees_were_given_up_and_stays_json(qapp, source: Source, tmp_path: Path) -> None:
    history = ReplyHistory("r", tree_bytes=10)
    odd = replace(step(1), times=StepTimes(float("nan"), float("inf"), 0.0, 0.0))
    for one in (step(0), odd, step(2)):
        history.add(one)
    write(Form.JSON, replace(source, history=history), tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text("utf-8"), parse_constant=lambda name: pytest.fail(name))
    assert [each.get("nodes_dropped", False) for each in read["steps"]] == [True, True, False]
    assert read["steps"][1]["times"]["draft"] is None


@pytest.mark.parametrize("position", range(5))
def test_svg_is_well_formed_and_holds_the_words(source: Source, tmp_path: Path, position: int) -> None:
    path = tmp_path / "step.svg"
    assert write(Form.SVG, replace(source, position=position), path) == 1
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = "".join("".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text"))
    one = PLAYED[position]
    shown = [*one.nodes, *one.window, *([one.bonus] if one.bonus else [])] or list(one.pieces)
    for token in shown:
        if "ש" not in token.text:  # written from right to left, it comes in pieces
            assert visible(token.text) in words
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None and title.text is not None
    assert title.text.startswith("Step" if position else "Prompt pass")
    if one.method:
        assert one.method.upper() in title.text
    description = root.find("{http://www.w3.org/2000/svg}desc")
    assert description is not None and description.text


def test_png_is_the_figure_at_twice_its_size(source: Source, tmp_path: Path) -> None:
    figure = StepFigure(source.look)
    source.lay_out(figure, 1)
    write(Form.PNG, source, tmp_path / "step.png")
    with Image.open(tmp_path / "step.png") as image:
        assert image.format == "PNG"
        assert image.size == pytest.approx((2 * figure.width, 2 * figure.height), abs=1)
        assert len(image.getcolors(1 << 24) or []) > 20


def test_a_huge_tree_gives_a_picture_of_a_sensible_size(source: Source, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(exports, "LARGEST_SIDE", 600)
    write(Form.PNG, source, tmp_path / "step.png")
    with Image.open(tmp_path / "step.png") as image:
        assert 590 <= max(image.size) <= 601


@pytest.mark.parametrize("dark", [False, True])
def test_gif_has_a_frame_for_each_step(source: Source, tmp_path: Path, dark: bool) -> None:
    look = Look.of(QFont(), theme.palette(dark))
    path = tmp_path / "steps.gif"
    assert write(Form.GIF, replace(source, look=look), path) == 5
    with Image.open(path) as image:
        assert image.format == "GIF" and image.info["loop"] == 0
        assert image.n_frames == 5  # type: ignore[attr-defined]
        frames = [frame.copy().convert("RGB") for frame in ImageSequence.Iterator(image)]
        assert [frame.size for frame in frames] == [image.size] * 5
        durations = []
        for number in range(5):
            image.seek(number)
            durations.append(image.info["duration"])
    assert durations == [FRAME_MS] * 4 + [LAST_MS]
    assert image.size[0] <= animation.LARGEST[0] and image.size[1] <= animation.LARGEST[1]
    assert len({frame.tobytes() for frame in frames}) == 5
    base = look.palette.base().color().getRgb()[:3]
    assert all(frame.getpixel((2, 2)) == base for frame in frames)


def test_a_long_reply_is_cut_to_the_steps_up_to_the_one_that_is_shown(monkeypatch) -> None:
    monkeypatch.setattr(animation, "MOST_FRAMES", 10)
    assert frames_of(10, 3) == range(10)
    assert frames_of(50, 49) == range(40, 50)
    assert frames_of(50, 20) == range(11, 21)
    assert frames_of(50, 2) == range(10)


# --------------------------------------------------------------------------- when it goes wrong


@pytest.mark.parametrize("form", list(Form))
def test_cancelled_nothing_is_left_behind_and_an_older_file_stays(source: Source, tmp_path: Path, form: Form) -> None:
    path = tmp_path / f"steps.{form}"
    path.write_text("older")

    def stop(done: int, total: int) -> None:
        assert 0 <= done < total
        raise Cancelled

    with pytest.raises(Cancelled):
        write(form, source, path, stop)
    assert os.listdir(tmp_path) == [path.name] and path.read_text() == "older"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "no room left on the disk"),
        (errno.EACCES, "Nothing may be written"),
        (errno.EROFS, "Nothing may be written"),
        (errno.EIO, "could not be written"),
    ],
)
def test_a_disk_that_refuses_is_told_in_words(source: Source, tmp_path: Path, monkeypatch, code: int, said: str) -> None:
    def refuse(_file: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(ExportError) as caught:
        write(Form.JSON, source, tmp_path / "steps.json")
    assert said in caught.value.message and caught.value.next_step
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_gone_is_told(source: Source, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="There is no folder"):
        write(Form.PNG, source, tmp_path / "gone" / "step.png")


def test_a_suggested_name_is_free(tmp_path: Path) -> None:
    first = free_name(tmp_path, "eyrie-steps", Form.GIF)
    assert first.name == "eyrie-steps.gif"
    first.touch()
    second = free_name(tmp_path, "eyrie-steps", Form.GIF)
    second.touch()
    assert second.name == "eyrie-steps-2.gif" and free_name(tmp_path, "eyrie-steps", Form.GIF).name == "eyrie-steps-3.gif"


def test_a_history_that_is_exported_stays_as_it_was() -> None:
    history = ReplyHistory("r", tree_bytes=3000)
    for index in range(20):
        history.add(step(index, 20))
    frozen = history.frozen()
    before = [frozen.step(position) for position in range(20)]
    for index in range(20, 60):
        history.add(step(index, 20))
    assert len(frozen) == 20 and [frozen.step(position) for position in range(20)] == before
    assert frozen.figures() != history.figures()


# --------------------------------------------------------------------------- the button


@pytest.fixture
def panel(qtbot) -> Iterator[TreePanel]:
    made = TreePanel()
    qtbot.addWidget(made)
    made.resize(440, 820)
    made.show()
    qtbot.waitExposed(made)
    yield made
    made.export_button.close_job()


def test_nothing_is_offered_while_there_is_nothing(panel: TreePanel) -> None:
    button = panel.export_button
    button.menu().aboutToShow.emit()
    assert [action.isEnabled() for action in button.actions_of.values()] == [False] * 4
    assert button.ask(Form.PNG) is None
    play(panel, PLAYED)
    button.menu().aboutToShow.emit()
    assert [action.isEnabled() for action in button.actions_of.values()] == [True] * 4
    assert all(action.text() for action in button.actions_of.values())


def test_a_file_is_written_behind_and_the_strip_tells_of_it(
    panel: TreePanel, qtbot, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("app.job.TELL_SECONDS", 0.0)
    play(panel, PLAYED)
    panel.go_to(2)
    button = panel.export_button
    seen: list[int] = []
    source = panel.exported()
    assert source is not None
    for form in Form:
        with qtbot.waitSignal(button.ended, timeout=20000) as ended:
            button.start(form, source, tmp_path / f"out.{form}")
            assert button.job is not None
            button.job.advanced.connect(lambda done, _total: seen.append(done))
            assert panel.export_strip.isVisible() and panel.export_strip.button.text() == "Cancel"
        assert ended.args == [5 if form in (Form.GIF, Form.JSON) else 1]
        assert panel.export_strip.label.text() == f"Saved as {tmp_path / f'out.{form}'}."
        assert (tmp_path / f"out.{form}").stat().st_size > 200
    assert seen and button.job is None
    panel.export_strip.button.click()
    assert not panel.export_strip.isVisible()


def test_the_picture_of_the_thread_is_the_picture_of_this_one(panel: TreePanel, qtbot, tmp_path: Path) -> None:
    play(panel, PLAYED)
    panel.go_to(1)
    source = panel.exported()
    assert source is not None
    with qtbot.waitSignal(panel.export_button.ended, timeout=20000):
        panel.export_button.start(Form.PNG, source, tmp_path / "out.png")
    buffer = io.BytesIO()
    exports.write_png(source, buffer, lambda _done, _total: None)
    here = QImage.fromData(buffer.getvalue())
    there = QBuffer()
    there.setData((tmp_path / "out.png").read_bytes())
    there.open(QIODevice.OpenModeFlag.ReadOnly)
    assert here == QImage.fromData(there.data())


def test_a_long_export_is_cancelled_by_its_button(panel: TreePanel, qtbot, tmp_path: Path) -> None:
    play(panel, [step(index, 20) for index in range(150)])
    source = panel.exported()
    assert source is not None
    button = panel.export_button
    with qtbot.waitSignal(button.ended, timeout=20000) as ended:
        button.start(Form.GIF, source, tmp_path / "long.gif")
        assert button.ask(Form.JSON) is None  # one at a time
        panel.export_strip.button.click()
    assert ended.args == [None] and "Cancelled" in panel.export_strip.label.text()
    assert os.listdir(tmp_path) == []


def test_a_failure_stays_until_it_is_dismissed(panel: TreePanel, qtbot, tmp_path: Path) -> None:
    play(panel, PLAYED)
    source = panel.exported()
    assert source is not None
    with qtbot.waitSignal(panel.export_button.ended, timeout=20000):
        panel.export_button.start(Form.SVG, source, tmp_path / "gone" / "x.svg")
    assert "There is no folder" in panel.export_strip.label.text()
    assert "Choose another folder." in panel.export_strip.label.text()
    assert panel.export_strip.isVisible() and not panel.export_strip.bar.isVisible()


def test_the_reader_is_told_of_frames_that_are_left_out(panel: TreePanel, qtbot, tmp_path: Path, monkeypatch) -> None:
    for module in (animation, exports):
        monkeypatch.setattr(module, "MOST_FRAMES", 3)
    monkeypatch.setattr("app.tree_panel.exporting.MOST_FRAMES", 3)
    play(panel, PLAYED)
    button = panel.export_button
    button.menu().aboutToShow.emit()
    assert "last 3 steps" in button.actions_of[Form.GIF].text()
    source = panel.exported()
    assert source is not None
    with qtbot.waitSignal(button.ended, timeout=20000) as ended:
        button.start(Form.GIF, source, tmp_path / "x.gif")
    assert ended.args == [3]
    assert "holds 3 steps at most; the reply has 5" in panel.export_strip.label.text()


def test_the_dialog_asks_before_a_file_is_replaced(panel: TreePanel, qtbot, tmp_path: Path) -> None:
    play(panel, PLAYED)
    panel.go_to(2)
    button = panel.export_button
    button._folder = tmp_path
    dialog = button.ask(Form.PNG)
    assert dialog is not None and dialog.defaultSuffix() == "png"
    assert dialog.acceptMode() is QFileDialog.AcceptMode.AcceptSave
    assert not dialog.testOption(QFileDialog.Option.DontConfirmOverwrite)
    assert Path(dialog.selectedFiles()[0]).name == "eyrie-step-2.png"
    dialog.reject()
    (tmp_path / "eyrie-step-2.png").touch()
    source = panel.exported()
    assert source is not None and button.suggested(Form.PNG, source).name == "eyrie-step-2-2.png"
    assert not panel.findChildren(QMessageBox)
