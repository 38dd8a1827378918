"""What methods say of themselves, their settings, and static trees as data."""

from __future__ import annotations

from typing import Any

import pytest

from engine.drafting.method import options_of, parse_value
from engine.drafting.registry import METHODS
from engine.drafting.tree_shapes import (
    EAGLE_MC_SIM_7B_63,
    MEDUSA_MC_SIM_7B_63,
    RankTree,
    likely_tree,
    parse_tree,
)
from engine.errors import PromptError
from engine.protocol import GenerationSettings, SettingKind
from engine.sampling import Sampler


def test_the_published_trees_and_their_parts() -> None:
    assert len(EAGLE_MC_SIM_7B_63) == 26 and max(map(len, EAGLE_MC_SIM_7B_63.paths)) == 5
    assert len(MEDUSA_MC_SIM_7B_63) == 64 and max(map(len, MEDUSA_MC_SIM_7B_63.paths)) == 4
    assert EAGLE_MC_SIM_7B_63.counts[()] == 4 and EAGLE_MC_SIM_7B_63.counts[(0, 0)] == 3
    assert EAGLE_MC_SIM_7B_63.cut(26, 5) is EAGLE_MC_SIM_7B_63
    for nodes, depth in ((2, 1), (8, 3), (20, 2)):
        part = MEDUSA_MC_SIM_7B_63.cut(nodes, depth)
        assert len(part) == min(nodes, len(part)) and set(part.paths) <= set(MEDUSA_MC_SIM_7B_63.paths)
        assert max(map(len, part.paths)) <= depth
    assert likely_tree(5, 9, 1).paths == ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0))
    assert len(likely_tree(30, 3, 3)) == 30
    custom = parse_tree("[[0, 0], [0], [1]]", {})
    assert custom.paths == ((0,), (1,), (0, 0)) and custom.counts == {(): 2, (0,): 1}


@pytest.mark.parametrize("text", ["", "[]", "[[1]]", "[[0],[0]]", "[[0,0]]", "[[-1]]", "[0]", '{"a":1}', "[[true]]"])
def test_trees_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(PromptError):
        parse_tree(text, {"known": EAGLE_MC_SIM_7B_63})
    with pytest.raises(PromptError):
        run_options("eagle1", ("tree", text))


def run_options(method: str, *options: tuple[str, Any]) -> dict[str, Any]:
    found = next(each for each in METHODS if each.info.id == method)
    return dict(options_of(found, GenerationSettings(options=options)))


def test_every_method_describes_itself_whole() -> None:
    assert len({method.info.id for method in METHODS}) == len(METHODS)
    for method in METHODS:
        info = method.info
        assert info.name and info.about.endswith(".") and info.drafts == (method.make is not None)
        assert len({setting.name for setting in info.settings}) == len(info.settings)
        for setting in info.settings:
            assert setting.title and setting.meaning.endswith(".")
            if setting.kind in (SettingKind.INTEGER, SettingKind.NUMBER):
                assert setting.low is not None and setting.high is not None
            if setting.kind is SettingKind.CHOICE:
                assert setting.default in setting.choices
            assert set(setting.lossy) <= set(setting.choices) and setting.default not in setting.lossy
        assert set(run_options(info.id)) == {setting.name for setting in info.settings}


@pytest.mark.parametrize(
    ("method", "option"),
    [
        ("eagle3", ("nodes", 1)),
        ("eagle3", ("nodes", 257)),
        ("eagle3", ("nodes", 8.5)),
        ("eagle3", ("nodes", True)),
        ("eagle3", ("threshold", 1.5)),
        ("eagle3", ("threshold", "high")),
        ("eagle3", ("colour", "red")),
        ("plain", ("nodes", 8)),
        ("eagle1", ("draw", 1)),
        ("eagle1", ("tree", 5)),
        ("medusa", ("acceptance", "loose")),
    ],
)
def test_settings_out_of_range_are_refused(method: str, option: tuple[str, Any]) -> None:
    with pytest.raises(PromptError):
        run_options(method, option)


def test_settings_are_read_from_the_command_line() -> None:
    settings = {s.name: s for method in METHODS for s in method.info.settings}
    assert parse_value(settings["nodes"], "12") == 12
    assert parse_value(settings["threshold"], "0.3") == 0.3
    assert parse_value(settings["draw"], "off") is False
    assert parse_value(settings["acceptance"], "typical") == "typical"
    for name, text in (("nodes", "many"), ("threshold", "x"), ("draw", "maybe")):
        with pytest.raises(PromptError):
            parse_value(settings[name], text)


def test_a_rank_tree_must_hang_together() -> None:
    with pytest.raises(ValueError, match="sibling"):
        RankTree(((0,), (2,)))


def test_noise_depends_on_its_address_alone() -> None:
    ours, again = (Sampler(GenerationSettings(temperature=1.0, seed=8)).noise for _ in range(2))
    numbers = [ours.uniform(position) for position in range(2000)]
    assert numbers[::-1] == [again.uniform(position) for position in range(1999, -1, -1)]
    assert abs(sum(numbers) / 2000 - 0.5) < 0.03 and len(set(numbers)) == 2000
    other = Sampler(GenerationSettings(temperature=1.0, seed=9)).noise
    assert other.uniform(0) != numbers[0]
