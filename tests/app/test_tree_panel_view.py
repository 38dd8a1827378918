"""The painted tree: told apart without colour, legible, scrolling, literal."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QImage, QPainter, QPainterPath, QWheelEvent
from PySide6.QtWidgets import QToolTip

from app import theme
from app.tree_panel import marks, picture
from app.tree_panel.batches import SHADES, shade
from app.tree_panel.layout import Kind
from app.tree_panel.legend import Legend
from app.tree_panel.tree_view import TreeView
from app.tree_panel.zoom_area import LEGIBLE, SMALLEST, Zoom
from tests.app.tree_panel_steps import plain_steps, step

INK = QColor("#404040")
GREY = theme.Tokens(**{field.name: INK for field in dataclasses.fields(theme.Tokens)})
"""Every colour the same: what still differs differs by shape."""


def drawn(paint) -> bytes:
    image = QImage(80, 40, QImage.Format.Format_Grayscale8)
    image.fill(Qt.GlobalColor.white)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    paint(painter)
    painter.end()
    return bytes(image.constBits())


def differing(one: bytes, other: bytes) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


@pytest.fixture
def view(qtbot) -> TreeView:
    made = TreeView()
    qtbot.addWidget(made)
    made.resize(420, 300)
    made.show()
    return made


@pytest.mark.parametrize("pair", list(itertools.combinations(Kind, 2)), ids=lambda pair: "-".join(pair))
def test_kinds_differ_in_outline_and_icon_without_colour(qapp, pair) -> None:
    def box(kind: Kind) -> bytes:
        return drawn(lambda p: marks.draw_box(p, kind, QRectF(5, 8, 70, 24), GREY, QColor("white")))

    def line_only(kind: Kind) -> bytes:
        def paint(painter: QPainter) -> None:
            painter.setPen(marks.border(kind, GREY))
            painter.drawPath(marks.outline(kind, QRectF(5, 8, 70, 24)))

        return drawn(paint)

    def icon(kind: Kind) -> bytes:
        return drawn(lambda p: marks.draw_icon(p, kind, QPointF(40, 20), GREY, 20))

    for shape in (box, line_only, icon):
        assert differing(shape(pair[0]), shape(pair[1])) > 20


def test_edges_differ_in_style_and_grow_with_probability(qapp) -> None:
    kinds = (Kind.ACCEPTED, Kind.REJECTED, Kind.UNREACHED, Kind.BONUS)
    styles = {tuple(marks.edge_pen(kind, 0.5, GREY).dashPattern()) for kind in kinds}
    assert len(styles) == len(kinds)
    for kind in (Kind.ACCEPTED, Kind.REJECTED, Kind.UNREACHED):
        widths = [marks.edge_pen(kind, p, GREY).widthF() for p in (0.2, 0.5, 0.9)]
        assert widths == sorted(set(widths))
    # Dashes keep their length on a thicker line: Qt counts them in widths.
    thin, thick = (marks.edge_pen(Kind.REJECTED, p, GREY) for p in (0.1, 0.9))
    assert thin.dashPattern()[0] * thin.widthF() == pytest.approx(thick.dashPattern()[0] * thick.widthF())


@pytest.mark.parametrize("dark", [False, True])
def test_every_token_is_painted_in_its_place(view: TreeView, dark: bool) -> None:
    view.setPalette(theme.palette(dark))
    one = step(1, 12, 4, seed=6)
    view.show_step(one)
    image = view.grab().toImage()
    ratio = image.devicePixelRatio()
    base = view.palette().base().color().rgb()
    seen = 0
    for number in range(len(view.tree.items)):
        rect = view.item_rect(number)
        if not QRectF(view.viewport().rect()).contains(rect):
            continue
        inside = rect.adjusted(2, 2, -2, -2)
        colours = {
            image.pixel(int(x * ratio), int(y * ratio))
            for x in range(int(inside.left()), int(inside.right()))
            for y in range(int(inside.top()), int(inside.bottom()))
        }
        assert len(colours) > 5, f"item {number} has no text"
        seen += 1
    assert seen > 5
    assert image.pixel(image.width() - 3, image.height() - 3) == base


def test_a_different_verdict_changes_the_picture(view: TreeView) -> None:
    one = step(1, 8, 3, seed=2)
    view.show_step(one)
    before = view.grab().toImage()
    turned = dataclasses.replace(one, accepted=(), nodes=tuple(
        dataclasses.replace(node, verdict=one.nodes[0].verdict if n == 0 else "rejected")
        for n, node in enumerate(one.nodes)
    ))
    view.show_step(turned)
    assert view.grab().toImage() != before


def test_painting_lays_nothing_out(view: TreeView, monkeypatch) -> None:
    calls = []
    real = picture.place
    monkeypatch.setattr(picture, "place", lambda *a: calls.append(1) or real(*a))
    view.show_step(step(1, 60, 8))
    assert len(calls) == 1
    view.grab()
    view.set_zoom(0.5)
    view.pointed_at(QPointF(view.item_rect(0).center()))
    view.grab()
    assert len(calls) == 1


def test_small_trees_fit_and_large_ones_scroll_but_stay_legible(view: TreeView) -> None:
    view.resize(520, 300)
    view.show_step(step(1, 3, 2))
    assert view.zoom == 1.0
    assert view.horizontalScrollBar().maximum() == view.verticalScrollBar().maximum() == 0
    view.show_step(step(1, 60, 8))
    assert view.zoom == LEGIBLE
    assert view.horizontalScrollBar().maximum() > 0 and view.verticalScrollBar().maximum() > 0
    last = max(range(61), key=lambda n: view.tree.boxes[n].bottom)
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum())
    assert view.item_rect(last).bottom() <= view.viewport().height()


def test_fit_shows_the_whole_tree(view: TreeView) -> None:
    view.show_step(step(1, 60, 8, seed=3))
    view.set_zoom_mode(Zoom.FIT)
    assert SMALLEST <= view.zoom < LEGIBLE
    assert view.horizontalScrollBar().maximum() == view.verticalScrollBar().maximum() == 0
    area = QRectF(view.viewport().rect())
    assert all(area.contains(view.item_rect(number)) for number in range(61))


def test_the_zoom_is_calm_within_a_reply(view: TreeView) -> None:
    view.resize(700, 400)
    view.show_step(step(1, 30, 6))
    zoomed = view.zoom
    view.show_step(step(2, 3, 2))
    assert view.zoom == zoomed  # not back to 1, or the tree would breathe with every step
    view.forget_extent()
    assert view.zoom == 1.0


def test_zooming_by_wheel_keeps_what_is_under_the_pointer(view: TreeView) -> None:
    view.show_step(step(1, 60, 8))
    view.horizontalScrollBar().setValue(60)
    at = QPointF(200, 150)
    before = view.to_content(at)
    event = QWheelEvent(
        at, view.mapToGlobal(at), QPoint(), QPoint(0, 240), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.ControlModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    view.wheelEvent(event)
    assert view.zoom > LEGIBLE and view.zoom_mode is Zoom.HAND
    after = view.to_content(at)
    assert abs(after.x() - before.x()) < 2 and abs(after.y() - before.y()) < 2


@pytest.mark.qt_log_ignore("OpenType support missing")
def test_long_and_strange_tokens_stay_in_their_boxes(view: TreeView) -> None:
    words = ("x" * 500, "漢" * 60, "شجرة", " עולם", "👩‍👩‍👧‍👦", "\u202eabc", "\n" * 9, "<b>x</b>", "e\u0301" * 90, "")
    for seed in range(4):
        view.show_step(step(1, 30, 5, seed=seed, words=words, root="w" * 300))
        assert max(box.width for box in view.tree.boxes) < 250
        assert not view.grab().isNull()


def test_tooltips_show_markup_literally(view: TreeView, qtbot) -> None:
    view.show_step(step(1, 5, 2, words=("<b>bold</b>",), root="<img src=x>"))
    assert "<img␣src=x>" in view.tooltip_text(0)
    where = view.item_rect(0).center().toPoint()
    view.viewportEvent(QHelpEvent(QEvent.Type.ToolTip, where, view.viewport().mapToGlobal(where)))
    assert QToolTip.text() == view.tooltip_text(0)
    view.viewportEvent(QHelpEvent(QEvent.Type.ToolTip, QPoint(400, 290), view.mapToGlobal(QPoint(400, 290))))
    qtbot.waitUntil(lambda: not QToolTip.isVisible())


def test_pointing_at_a_token_shows_its_path(view: TreeView) -> None:
    view.show_step(step(1, 12, 4, seed=1))
    plain = view.grab().toImage()
    deepest = max(range(12), key=lambda n: view.tree.items[n].depth)
    view.pointed_at(view.item_rect(deepest).center())
    assert view.grab().toImage() != plain
    view.pointed_at(QPointF(1, 1))
    assert view.grab().toImage() == plain


def test_dragging_scrolls(view: TreeView, qtbot) -> None:
    view.show_step(step(1, 60, 8))
    viewport = view.viewport()
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=QPoint(200, 200))
    qtbot.mouseMove(viewport, QPoint(150, 170))
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=QPoint(150, 170))
    assert (view.horizontalScrollBar().value(), view.verticalScrollBar().value()) == (50, 30)


def test_words_stand_where_there_is_no_tree(view: TreeView) -> None:
    blank = view.grab().toImage()
    view.show_message("No reply yet.")
    assert view.grab().toImage() != blank
    assert view.accessibleDescription() == "No reply yet."
    view.show_step(plain_steps(["a", "b"])[1], "EAGLE is off")
    view.describe()
    assert "plain decoding" in view.accessibleDescription() and "EAGLE is off" in view.accessibleDescription()


def test_a_theme_change_repaints_in_the_new_colours(view: TreeView) -> None:
    view.show_step(step(1, 8, 3))
    view.setPalette(theme.palette(dark=False))
    light = view.grab().toImage()
    view.setPalette(theme.palette(dark=True))
    dark = view.grab().toImage()
    assert dark.pixelColor(2, 200).lightness() < 60 < 200 < light.pixelColor(2, 200).lightness()


def test_the_legend_wraps_and_names_every_kind(qtbot) -> None:
    legend = Legend()
    qtbot.addWidget(legend)
    assert legend.heightForWidth(200) > legend.heightForWidth(900)
    legend.resize(QSize(900, legend.heightForWidth(900)))
    assert not legend.grab().isNull()
    for name in ("Root", "Accepted", "Rejected", "Not reached", "Bonus"):
        assert name in legend.accessibleDescription()
    assert "Window" not in legend.accessibleDescription()
    before = legend.grab().toImage()
    legend.show_window(True)
    assert "Window" in legend.accessibleDescription() and legend.grab().toImage() != before


def test_outlines_are_closed_shapes_within_their_box(qapp) -> None:
    box = QRectF(10, 10, 60, 20)
    for kind in Kind:
        path: QPainterPath = marks.outline(kind, box)
        assert path.contains(box.center())
        assert box.adjusted(-0.1, -0.1, 0.1, 0.1).contains(path.boundingRect())


def test_lines_of_the_tree_have_few_widths() -> None:
    """So that many are drawn at once; no two neighbours can be told apart."""
    assert [shade(p) for p in (None, -1.0, 0.0, 0.5, 1.0, 7.0)] == [SHADES // 2, 0, 0, SHADES // 2, SHADES, SHADES]
    assert 3.4 / SHADES < 0.3
