"""The bench's figures on replies made up for the purpose, and its messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.bench.measure import BenchPrompt, Pair, Run, is_looping, read_prompts, spread
from engine.bench.peers import LlamaCppPeer
from engine.bench.report import plot, table
from engine.bench.summary import acceptance_by_depth, summarise
from engine.drafting.registry import METHODS
from engine.errors import EngineError, PromptError
from engine.protocol import Mode, ReplyStats, StepTimes


def stats(new: int, steps: int, seconds: float, mode: Mode, accepted: tuple[int, ...] = ()) -> ReplyStats:
    return ReplyStats(
        mode=mode,
        prompt_tokens=10,
        reused_tokens=0,
        new_tokens=new,
        steps=steps,
        drafted_tokens=7 * steps if accepted else 0,
        accepted_tokens=sum(accepted),
        accepted_by_depth=accepted,
        proposed_by_depth=tuple(steps for _ in accepted),
        time_to_first_token=0.1,
        decode_seconds=seconds,
        times=StepTimes(0.2 * seconds, 0.6 * seconds, 0.1 * seconds, 0.1 * seconds),
    )


def pair(name: str, tokens: tuple[int, ...], plain: float, eagle: float, category: str = "a") -> Pair:
    """A pair whose replies took ``plain`` and ``eagle`` seconds, the latter in half the steps."""
    new = len(tokens)
    return Pair(
        BenchPrompt(name, category, "text"),
        Run(tokens, stats(new, new - 1, plain, Mode.PLAIN)),
        Run(tokens, stats(new, (new - 1) // 2, eagle, Mode.EAGLE, ((new - 1) // 3, (new - 1) // 6))),
    )


VARIED = tuple(range(41))
LOOPED = (1, 2, 3) * 14


def test_medians_leave_out_short_replies_and_loops() -> None:
    pairs = [
        pair("x", VARIED, 4.0, 2.0),
        pair("y", VARIED, 4.0, 1.0, "b"),
        pair("z", LOOPED, 4.1, 0.41, "b"),
        pair("short", (1, 2, 3), 1.0, 1.0),
    ]
    found = summarise(pairs, {"peer": [(5.0, 10.0, 20.0), (5.0, 20.0, 40.0)]})
    assert found["all"]["prompts"] == 3 and found["all"]["speed_up"] == pytest.approx(4.0)
    assert found["without_loops"]["prompts"] == 2
    assert found["without_loops"]["speed_up"] == pytest.approx(3.0)
    assert found["without_loops"]["plain"] == pytest.approx(10.0)
    assert found["without_loops"]["tau"] == pytest.approx(2.0)
    assert found["looping_share"] == 0.25 and found["identical"] == 4
    assert found["peers"]["peer"]["plain_ratio"] == pytest.approx(3.0)
    text = table(found)
    assert "| all | 3 |" in text and "Looping replies: 25%" in text and "EAGLE off is 3.00×" in text
    json.dumps(found)


def test_acceptance_adds_up_over_replies_of_different_depth() -> None:
    one = stats(10, 10, 1, Mode.EAGLE, (6, 3))
    two = stats(10, 10, 1, Mode.EAGLE, (10,))
    assert acceptance_by_depth([one, two]) == [0.8, 0.3]


def test_loops_are_noticed() -> None:
    assert is_looping(LOOPED)
    assert not is_looping(VARIED)
    assert not is_looping((1, 2))


def test_the_plot_is_written(tmp_path: Path) -> None:
    found = summarise([pair("x", VARIED, 4.0, 2.0)], {})
    found |= {"model": "m", "device": "d"}
    plot(found, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_prompts_are_spread_and_checked(tmp_path: Path) -> None:
    built_in = read_prompts(None, None)
    assert len(built_in) >= 10 and len({prompt.category for prompt in built_in}) >= 4
    assert [prompt.name for prompt in spread(built_in, 2)] == [built_in[0].name, built_in[5].name]
    bad = tmp_path / "bad.jsonl"
    for content in ('{"id": 1}', "nonsense", ""):
        bad.write_text(content, encoding="utf-8")
        with pytest.raises(PromptError, match=r"bad\.jsonl"):
            read_prompts(str(bad), None)
    with pytest.raises(PromptError, match="missing"):
        read_prompts(str(tmp_path / "missing"), None)


def test_a_missing_llama_cpp_is_explained(tmp_path: Path) -> None:
    blocked = tmp_path / "llama_cpp.py"
    blocked.write_text("raise ImportError('not here')", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        with pytest.raises(EngineError, match="llama-cpp-python"):
            LlamaCppPeer(tmp_path / "model.gguf", 1)


def test_the_help_of_chat_lists_the_methods_in_their_own_words() -> None:
    done = subprocess.run([sys.executable, "-m", "engine", "chat", "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for method in METHODS:
        assert method.info.id in done.stdout


@pytest.mark.parametrize("command", [[], ["bench"], ["train"], ["inspect"], ["download"]])
def test_every_command_has_help_without_loading_torch(command: list[str]) -> None:
    code = (
        "import sys, runpy; sys.argv = ['engine', *sys.argv[1:]]\n"
        "try: runpy.run_module('engine', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage: python -m engine" in done.stdout
