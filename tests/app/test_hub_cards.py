"""Cards of strangers that are made to hold up the window, and those of the usual kind."""

from __future__ import annotations

import time

import pytest
from pytestqt.qtbot import QtBot

from app.hub.card_view import CardView, plain_markdown

HOSTILE = {
    "comments": "<!--" * 30_000,
    "scripts": "<script>" * 15_000,
    "list": "- a\n" * 15_000,
    "tasks": "- [ ] a\n" * 8_000,
    "table": "|a|b|\n|-|-|\n" + "|x|y|\n" * 10_000,
    "wide table": f"|{'a|' * 128}\n|{'-|' * 128}\n" + f"|{'b|' * 128}\n" * 230,
    "bold": "**a" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_card_holds_the_window_up(qtbot: QtBot, name: str) -> None:
    """Time of this thread alone; each of them took from two to sixteen seconds."""
    view = CardView()
    qtbot.addWidget(view)
    begun = time.thread_time()
    view.show_card(HOSTILE[name])
    assert time.thread_time() - begun < 1
    assert view.toPlainText()


def test_a_long_card_of_the_usual_kind_is_shown_whole() -> None:
    table = "| a | b | c | d |\n|---|---|---|---|\n" + "| 1 | 2 | 3 | 4 |\n" * 60
    card = "\n\n".join(
        f"## Part {part}\n\n{table}\n\nSome **bold** text, [a link](https://x.y)." for part in range(8)
    )
    assert plain_markdown(card) == card.strip()
    cut = plain_markdown(card * 9)
    assert cut.endswith("(The card goes on; its page has the rest.)") and cut.startswith(card[:1000])
    assert (
        plain_markdown("a <!-- b --> c <!-- d\n--> e <script x>f</script > g <!-- h") == "a  c  e  g <!-- h"
    )
