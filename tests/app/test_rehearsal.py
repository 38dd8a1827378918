"""The scripted engine keeps the protocol's promises; the other tests rest on that."""

from __future__ import annotations

import pytest

from app.rehearsal import RehearsalEngine, Script, Tally, tokenise
from app.screenshots import REPLIES
from engine.protocol import Origin, Shape, Step, Verdict


@pytest.mark.parametrize("text", [*REPLIES.values(), "a_b  c\n\n\t日本語 😀 x²", ""])
def test_tokens_join_to_the_text(text: str) -> None:
    assert "".join(tokenise(text)) == text


def steps(eagle: bool, text: str = REPLIES[next(iter(REPLIES))] * 8, method: str = "") -> list[Step]:
    engine = RehearsalEngine(Script(lambda request: text))
    engine._eagle, engine._method = eagle, method
    made = list(engine._steps("r", tokenise(text), Tally()))
    assert "".join(step.text for step in made) == text
    return made


def test_plain_steps_have_one_token() -> None:
    assert all(len(step.pieces) == 1 and not step.nodes for step in steps(False))


@pytest.mark.parametrize(
    ("method", "shape"), [("", Shape.TREE), ("prompt-lookup", Shape.CHAIN), ("lookahead", Shape.WINDOW)]
)
def test_guesses_of_every_shape_are_well_formed(method: str, shape: Shape) -> None:
    made = steps(True, method=method)
    assert all((step.method, step.shape) == (method, shape) for step in made[1:])
    assert any(step.window for step in made) == (shape is Shape.WINDOW)
    assert any(step.match is not None for step in made) == (shape is Shape.CHAIN)
    assert made[0].nodes == () and len(made[0].pieces) == 1
    before = made[0].pieces[-1].text
    for step in made[1:]:
        assert step.nodes[0].text == before and step.nodes[0].verdict is Verdict.ROOT
        for place, node in enumerate(step.nodes[1:], start=1):
            parent = step.nodes[node.parent]
            assert node.parent < place and node.depth == parent.depth + 1
            assert node.path_probability == pytest.approx(parent.path_probability * node.draft_probability)
        at = 0
        for index, piece in zip(step.accepted, step.pieces, strict=False):
            assert step.nodes[index].parent == at and step.nodes[index].text == piece.text
            assert step.nodes[index].verdict is Verdict.ACCEPTED and piece.origin is Origin.DRAFT
            at = index
        assert step.bonus is not None and step.bonus.parent == at
        assert step.bonus.text == step.pieces[-1].text and step.pieces[-1].origin is Origin.TARGET
        assert len(step.pieces) == len(step.accepted) + 1
        assert sum(node.verdict is Verdict.ACCEPTED for node in step.nodes) == len(step.accepted)
        rows = step.nodes + step.window
        for place, node in enumerate(step.window, start=len(step.nodes)):
            assert node.parent < place and node.depth == rows[node.parent].depth + 1
            assert node.verdict is Verdict.WINDOW
        if step.match is not None:
            assert len(step.nodes) > 1 and step.match.text.endswith(before)
            assert [node.parent for node in step.nodes] == list(range(-1, len(step.nodes) - 1))
        before = step.pieces[-1].text
    assert max(len(step.accepted) for step in made) >= 3 and min(len(step.accepted) for step in made[1:]) == 0
