"""The list of known pairs: its schema, its facts that can be checked, and the user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.heads.formats import HeadFormat
from engine.hub.catalogue import FORMATS, catalogue, parse, shipped
from engine.hub.fit import from_parameters
from engine.protocol.hub import Machine, Verdict

PAIR = """
format_version = 1
[[pair]]
target = "Qwen/Qwen3-1.7B"
head = "AngelSlim/Qwen3-1.7B_eagle3"
format = "AngelSlim EAGLE-3"
family = "Qwen3"
parameters = 1.7
"""


def test_the_shipped_list_is_valid_and_has_what_the_picker_shows() -> None:
    pairs = shipped()
    assert len(pairs) >= 30
    assert set(FORMATS) == {str(format) for format in HeadFormat}
    recommended = [pair for pair in pairs if pair.is_recommended]
    for size in (8, 12, 16, 24):
        assert any(pair.vram_gb == size for pair in pairs)
    for pair in recommended:
        assert pair.vram_gb and pair.licence and pair.context
    assert {pair.target for pair in recommended} >= {
        "Qwen/Qwen3-1.7B",
        "meta-llama/Llama-3.1-8B-Instruct",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    }
    # Llama's licence is asked for, Qwen's is not.
    assert all(pair.is_gated == pair.target.startswith("meta-llama/") for pair in pairs)


def test_the_list_and_the_estimate_agree_on_which_card_is_needed() -> None:
    """Two independent sources: the table's VRAM classes, and what parameters take in NF4."""
    for pair in shipped():
        if not pair.vram_gb or pair.family == "gpt-oss":
            continue
        card = Machine("a card", True, round(pair.vram_gb * 1e9 * 1.05), round(pair.vram_gb * 1e9))
        assert from_parameters(card, pair.parameters).verdict is not Verdict.NO, pair.target


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("format_version = 2", "format_version 1"),
        ('colour = "red"', "“colour” is not known"),
        ("vram_gb = 9", "vram_gb is one of"),
        ("vram_gb = true", "not of the type int"),
        ("taps = [2, 1, 3]", "ascending"),
        ('taps = ["2"]', "no list of numbers"),
        ("speedup = 2.5", "needs its source"),
        ("is_gated = 1", "not of the type bool"),
    ],
)
def test_a_wrong_file_is_refused_by_name(change: str, words: str) -> None:
    text = PAIR.replace("format_version = 1", change) if "version" in change else PAIR + change
    with pytest.raises(EngineError) as caught:
        parse(text, "mine.toml")
    assert words in caught.value.message and "mine.toml" in caught.value.message


def test_the_users_file_adds_and_replaces(tmp_path: Path) -> None:
    own = PAIR + 'notes = "mine"\n' + PAIR.replace("format_version = 1", "").replace("1.7B", "9B")
    (tmp_path / "catalog.toml").write_text(own, encoding="utf-8")
    pairs, problem = catalogue(tmp_path)
    assert problem == ""
    assert len(pairs) == len(shipped()) + 1
    assert [pair.notes for pair in pairs if pair.head == "AngelSlim/Qwen3-1.7B_eagle3"] == ["mine"]
    (tmp_path / "catalog.toml").write_text("nonsense", encoding="utf-8")
    pairs, problem = catalogue(tmp_path)
    assert pairs == shipped() and "catalog.toml" in problem


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00pair",
        b"format_version = 1\npair = [1]",
        b"format_version = 1\npair = 1",
        PAIR.replace("1.7\n", f"1{'0' * 400}\n").encode(),
        b"a = " + b"[" * 50_000,
    ],
)
def test_a_damaged_file_of_the_user_costs_no_shipped_pair(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "catalog.toml").write_bytes(content)
    pairs, problem = catalogue(tmp_path)
    assert pairs == shipped() and "catalog.toml" in problem
