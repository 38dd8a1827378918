"""Text of a reply: stop strings inside a block, what is held back, and the first space."""

from __future__ import annotations

import pytest

from engine.reply import ReplyText
from engine.tokenizing import Tokenizer
from tests.engine import tiny


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(tiny.save_with_tokenizer(tmp_path_factory.mktemp("tiny")))


def shown(tokenizer: Tokenizer, text: str, stops: list[str], block: int) -> tuple[str, int]:
    """What is shown of ``text`` taken in blocks of tokens, and how many tokens were used."""
    reply = ReplyText(tokenizer, stops, [1])
    ids = [*tokenizer.encode(text), 1]
    pieces: list[str] = []
    for begin in range(0, len(ids), block):
        for place, token in enumerate(ids[begin : begin + block]):
            ended = reply.emit(token) or token == 1
            if ended:
                pieces += [piece for _, piece in reply.take(True)]
                return "".join(pieces), begin + place + 1
        pieces += [piece for _, piece in reply.take(False)]
    raise AssertionError("the end token ends every reply")


@pytest.mark.parametrize("block", [1, 3, 5, 50])
def test_a_stop_string_ends_the_reply_wherever_blocks_fall(tokenizer: Tokenizer, block: int) -> None:
    text = " Grüße 🙂.\nUser: more"
    assert shown(tokenizer, text, ["\nUser:"], block)[0] == "Grüße 🙂."
    used = shown(tokenizer, text, ["\nUser:"], block)[1]
    assert used == len(tokenizer.encode(" Grüße 🙂.\nUser:"))
    assert shown(tokenizer, " ends in \nUse", ["\nUser:"], block)[0] == "ends in \nUse"


def test_only_one_joining_space_goes(tokenizer: Tokenizer) -> None:
    assert shown(tokenizer, "  two", [], 1)[0] == " two"
    assert shown(tokenizer, "none", [], 2)[0] == "none"
    assert shown(tokenizer, "\n then", [], 2)[0] == "\n then"
    assert shown(tokenizer, " a b", [], 1)[0] == "a b"


def test_a_reply_that_goes_on_keeps_its_first_space(tokenizer: Tokenizer) -> None:
    reply = ReplyText(tokenizer, [], [1], begun=True)
    for token in tokenizer.encode(" more"):
        reply.emit(token)
    assert "".join(text for _, text in reply.take(True)) == " more"


def test_the_end_token_shows_nothing(tokenizer: Tokenizer) -> None:
    reply = ReplyText(tokenizer, [], [1])
    reply.emit(tokenizer.encode("x")[0])
    reply.emit(1)
    assert [text for _, text in reply.take(True)] == ["x", ""]


