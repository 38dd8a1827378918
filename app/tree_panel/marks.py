"""How each kind of token is drawn: shape, border, line and icon, colour only on top.

Every kind differs from the others in its outline, its line style and its icon, so the tree can
be read in grey. The tree and its legend draw through the same functions.
"""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF

from app.theme import Tokens
from app.tree_panel.layout import Kind

ICON = 9.0
"""Side of an icon, in the tree's units."""


def ink(kind: Kind, colours: Tokens) -> QColor:
    return {
        Kind.ROOT: colours.root,
        Kind.ACCEPTED: colours.accepted,
        Kind.REJECTED: colours.rejected,
        Kind.UNREACHED: colours.edge,
        Kind.BONUS: colours.bonus,
        Kind.WINDOW: colours.edge,
    }[kind]


def _faint(colour: QColor, alpha: float) -> QColor:
    made = QColor(colour)
    made.setAlphaF(alpha)
    return made


def _dashes(pen: QPen, lengths: tuple[float, ...]) -> QPen:
    """Dashes of the given lengths whatever the pen's width (Qt counts in widths)."""
    width = max(pen.widthF(), 0.1)
    pen.setDashPattern([length / width for length in lengths])
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen


def outline(kind: Kind, box: QRectF) -> QPainterPath:
    path = QPainterPath()
    add_outline(path, kind, box)
    return path


def add_outline(path: QPainterPath, kind: Kind, box: QRectF) -> None:
    """Root a pill, bonus token a tag that points on, accepted rounded, of the window with cut
    corners, the others nearly square."""
    if kind is Kind.ROOT:
        path.addRoundedRect(box, box.height() / 2, box.height() / 2)
    elif kind is Kind.BONUS:
        tip = min(box.height() * 0.36, box.width() / 4)
        path.addPolygon(
            QPolygonF(
                [
                    box.topLeft(),
                    QPointF(box.right() - tip, box.top()),
                    QPointF(box.right(), box.center().y()),
                    QPointF(box.right() - tip, box.bottom()),
                    box.bottomLeft(),
                ]
            )
        )
        path.closeSubpath()
    elif kind is Kind.ACCEPTED:
        path.addRoundedRect(box, 6, 6)
    elif kind is Kind.WINDOW:
        notch = min(box.height() * 0.2, box.width() / 8)
        path.addPolygon(
            QPolygonF(
                [
                    QPointF(box.left() + notch, box.top()),
                    QPointF(box.right() - notch, box.top()),
                    QPointF(box.right(), box.top() + notch),
                    QPointF(box.right(), box.bottom() - notch),
                    QPointF(box.right() - notch, box.bottom()),
                    QPointF(box.left() + notch, box.bottom()),
                    QPointF(box.left(), box.bottom() - notch),
                    QPointF(box.left(), box.top() + notch),
                ]
            )
        )
        path.closeSubpath()
    else:
        path.addRoundedRect(box, 2, 2)


def border(kind: Kind, colours: Tokens) -> QPen:
    colour = ink(kind, colours)
    if kind is Kind.REJECTED:
        return _dashes(QPen(colour, 1.1), (4, 2.5))
    if kind is Kind.UNREACHED:
        return _dashes(QPen(colour, 1.1), (1.2, 2.4))
    if kind is Kind.WINDOW:
        return QPen(colour, 0.9)
    pen = QPen(colour, 1.7)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    return pen


def fill(kind: Kind, colours: Tokens, base: QColor) -> QColor:
    if kind is Kind.ACCEPTED:
        return colours.accepted_fill
    if kind in (Kind.ROOT, Kind.BONUS):
        return _faint(ink(kind, colours), 0.13)
    return base


def fills(kind: Kind, colours: Tokens, base: QColor) -> tuple[QColor, ...]:
    """What lies in a box from the ground up; ``base`` hides what is under it."""
    own = fill(kind, colours, base)
    return (own,) if own.alpha() == 255 else (base, own)


def draw_box(painter: QPainter, kind: Kind, box: QRectF, colours: Tokens, base: QColor) -> None:
    """Fill and border of one token."""
    path = outline(kind, box)
    for each in fills(kind, colours, base):
        painter.fillPath(path, each)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(border(kind, colours))
    painter.drawPath(path)


def draw_icon(painter: QPainter, kind: Kind, centre: QPointF, colours: Tokens, size: float = ICON) -> None:
    """Diamond, tick, cross, dot, star or hollow square; painted, so that no font needs to have them."""
    path = QPainterPath()
    add_icon(path, kind, centre, size)
    pen, grounds = icon_style(kind, colours)
    painter.setPen(pen)
    painter.setBrush(grounds[0] if grounds else Qt.BrushStyle.NoBrush)
    painter.drawPath(path)
    painter.setBrush(Qt.BrushStyle.NoBrush)


def icon_style(kind: Kind, colours: Tokens) -> tuple[QPen, tuple[QColor, ...]]:
    """Line and ground of a kind's icon."""
    if kind is Kind.WINDOW:
        return QPen(colours.muted, 1.2), ()
    if kind in (Kind.ACCEPTED, Kind.REJECTED):
        pen = QPen(ink(kind, colours), 1.7)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        return pen, ()
    return QPen(Qt.PenStyle.NoPen), (colours.muted if kind is Kind.UNREACHED else ink(kind, colours),)


def add_icon(path: QPainterPath, kind: Kind, centre: QPointF, size: float) -> None:
    r = size / 2
    x, y = centre.x(), centre.y()
    if kind is Kind.ACCEPTED:
        path.moveTo(x - r, y)
        path.lineTo(x - r * 0.3, y + r * 0.7)
        path.lineTo(x + r, y - r * 0.75)
    elif kind is Kind.REJECTED:
        d = r * 0.7
        path.moveTo(x - d, y - d)
        path.lineTo(x + d, y + d)
        path.moveTo(x - d, y + d)
        path.lineTo(x + d, y - d)
    elif kind is Kind.WINDOW:
        path.addRect(x - r * 0.7, y - r * 0.7, r * 1.4, r * 1.4)
    elif kind is Kind.ROOT:
        path.moveTo(x, y - r)
        path.lineTo(x + r, y)
        path.lineTo(x, y + r)
        path.lineTo(x - r, y)
        path.closeSubpath()
    elif kind is Kind.BONUS:
        _add_star(path, x, y, r * 1.15)
    else:
        path.addEllipse(centre, r * 0.3, r * 0.3)


def _add_star(path: QPainterPath, x: float, y: float, r: float) -> None:
    """Four points with curved sides."""
    path.moveTo(x, y - r)
    k = r * 0.18
    path.quadTo(x + k, y - k, x + r, y)
    path.quadTo(x + k, y + k, x, y + r)
    path.quadTo(x - k, y + k, x - r, y)
    path.quadTo(x - k, y - k, x, y - r)
    path.closeSubpath()


def edge_pen(kind: Kind, probability: float | None, colours: Tokens) -> QPen:
    """The line that leads to a token: as wide as the draft was sure, styled like the token."""
    sure = 0.5 if probability is None else min(max(probability, 0.0), 1.0)
    width = 0.8 + 3.4 * sure
    if kind is Kind.ACCEPTED:
        pen = QPen(colours.accepted, max(width, 1.6))
    elif kind is Kind.BONUS:
        return _dashes(QPen(colours.bonus, 1.8), (6, 2.5, 1.8, 2.5))
    elif kind is Kind.WINDOW:
        return QPen(colours.edge, 0.8)
    elif kind is Kind.REJECTED:
        return _dashes(QPen(_faint(colours.rejected, 0.75), width), (5, 3.5))
    else:
        return _dashes(QPen(colours.edge, width), (1.6, 3.2))
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen
