"""The bench's figures, recomputed from made-up rows by other means, and its messages."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.bench.options import numbers
from engine.bench.peers import LlamaCppPeer, peer_lines
from engine.bench.plots import plot, require_matplotlib
from engine.bench.prompts import per_category, read_prompts, spread
from engine.bench.report import aligned, markdown, terminal
from engine.bench.rows import Row
from engine.bench.store import Store
from engine.bench.summary import result, results
from engine.bench.sweep import plain_rate, sentence, standings, sweep_table, verdict
from engine.bench.variants import PLAIN, Variant, grid, parse_methods
from engine.drafting.registry import METHODS
from engine.errors import EngineError, PromptError
from engine.looping import is_looping
from engine.settings import TreeSettings

EAGLE, LOOKUP = Variant("eagle3"), Variant("prompt-lookup")
LOOPED, VARIED = (1, 2, 3) * 14, tuple(range(41))


def row(
    prompt: str, variant: str, tokens: int, steps: int, seconds: float, category: str = "qa", **changes: object
) -> Row:
    """A reply in ``steps`` passes, of which two thirds accepted at depth 1 and a third at depth 2."""
    depths = (0, 0) if variant == PLAIN else (2 * steps // 3, steps // 3)
    made = Row(
        prompt=prompt,
        category=category,
        temperature=0.0,
        variant=variant,
        identical=True,
        looping=False,
        tokens=tokens,
        seconds=seconds,
        steps=steps,
        drafted=0 if variant == PLAIN else 5 * steps,
        accepted=sum(depths),
        accepted_by_depth=depths,
        proposed_by_depth=() if variant == PLAIN else (steps, steps // 2),
        draft=0.2 * seconds,
        verify=0.6 * seconds,
        accept=0.1 * seconds,
    )
    return replace(made, **changes)


def pair(prompt: str, tokens: int, plain: float, drafted: float, steps: int, **changes: object) -> list[Row]:
    return [
        row(prompt, PLAIN, tokens, tokens - 1, plain, **changes),
        row(prompt, EAGLE.label, tokens, steps, drafted, **changes),
    ]


ROWS = [
    *pair("x", 41, 4.0, 2.0, 12),
    *pair("y", 61, 6.0, 1.5, 30, category="code"),
    *pair("z", 41, 4.1, 0.41, 10, looping=True, category="code"),
    *pair("short", 9, 1.0, 1.0, 4),
]


def test_figures_are_those_of_the_rows() -> None:
    """Every figure again, from the definition."""
    found = result(ROWS, EAGLE, 0.0, memory=5_000_000)
    assert found is not None and found.all is not None
    ours = {row.prompt: row for row in ROWS if row.variant == "eagle3"}
    theirs = {row.prompt: row for row in ROWS if row.variant == "plain"}
    timed = ["x", "y", "z"]
    ratios = [theirs[p].seconds / ours[p].seconds for p in timed]
    assert found.all.speed_up == pytest.approx(statistics.median(ratios))
    assert found.all.drafted == pytest.approx(statistics.median((ours[p].tokens - 1) / ours[p].seconds for p in timed))
    assert found.all.tau == pytest.approx((40 + 60 + 40) / (12 + 30 + 10))
    assert found.all.replies == 3 and found.replies == 4
    assert found.without_loops is not None and found.without_loops.speed_up == pytest.approx((2 + 4) / 2)
    code = found.categories["code"]
    assert code is not None and code.speed_up == pytest.approx((4 + 10) / 2) and code.replies == 2
    assert found.looping_share == 0.25
    steps = 12 + 30 + 10 + 4
    assert found.acceptance_by_depth == pytest.approx((sum((8, 20, 6, 2)) / steps, sum((4, 10, 3, 1)) / sum((6, 15, 5, 2))))
    assert found.step_ms["total"] == pytest.approx(1000 * (2.0 + 1.5 + 0.41 + 1.0) / steps)
    assert found.share("draft") == pytest.approx(0.2) and found.share("verify") == pytest.approx(0.6)
    assert found.plain_ms["total"] == pytest.approx(1000 * (4.0 + 6.0 + 4.1 + 1.0) / (40 + 60 + 40 + 8))
    assert found.drafting_share == 1.0 and found.identical == 4


def test_tables_name_every_method_and_what_is_missing() -> None:
    wrong = [replace(each, identical=each.variant == PLAIN, temperature=1.0) for each in ROWS]
    found = results([*ROWS, *wrong], [EAGLE], [0.0, 1.0], {"eagle3": 12_300_000})
    missing = {"medusa": "It needs Medusa heads."}
    text = terminal(found, missing, {"peer": "5.0 tokens/s"})
    assert "Temperature 0: 4 prompts (3 replies long enough to time)" in text and "Temperature 1: 4 prompts" in text
    assert "Not measured: medusa. It needs Medusa heads." in text and "peer: 5.0 tokens/s" in text
    assert "4 of 4" in text and "0 of 4" in text and "12 MB" in text
    for_readme = markdown(found, missing, {}, "A model on a machine.")
    head, _, first, second = for_readme.split("\n\n")[1].split("\n")
    assert "EAGLE-3 paper" in head and "Spec-Bench" in head
    assert first.startswith("| EAGLE-3 | 0 | 4.00× | 2.69 | 12 MB | 20% / 60% | 4 of 4 | 5.51× (6.62) |")
    assert second.startswith("| EAGLE-3 | 1 | ") and "4.65× (5.67)" in second
    assert "arXiv 2503.01840" in for_readme and for_readme.startswith("A model on a machine.")
    lines = aligned([["a", "b"], ["long", "1"]]).split("\n")
    assert lines == ["a     b", "───────", "long  1"]


def test_only_guesses_without_chance_give_the_text_of_plain_decoding() -> None:
    assert all(Variant(m.info.id).same_text(0.0) for m in METHODS)
    assert {m.info.id for m in METHODS if not Variant(m.info.id).same_text(1.0)} == {"eagle1", "draft-model"}
    assert Variant("eagle1", (("draw", False),)).same_text(1.0)
    assert not Variant("medusa", (("acceptance", "typical"),)).same_text(1.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eagle3", [Variant("eagle3")]),
        ("lookahead, eagle3:nodes=8,depth=4", [Variant("lookahead"), Variant("eagle3", (("nodes", 8), ("depth", 4)))]),
        (
            "eagle1:tree=[[0],[1],[0,0]],draw=off,prompt-lookup",
            [Variant("eagle1", (("tree", "[[0],[1],[0,0]]"), ("draw", False))), Variant("prompt-lookup")],
        ),
    ],
)
def test_methods_are_read_with_their_settings(text: str, expected: list[Variant]) -> None:
    assert parse_methods(text, TreeSettings()) == expected


@pytest.mark.parametrize("text", ["telepathy", "eagle3:wings=2", "eagle3:nodes=1", "eagle3:nodes=x", "plain", ","])
def test_a_wrong_method_or_setting_is_refused(text: str) -> None:
    with pytest.raises(PromptError) as error:
        parse_methods(text, TreeSettings())
    assert error.value.next_step


def test_all_is_every_method_that_drafts() -> None:
    assert [v.method for v in parse_methods("all", TreeSettings())] == [m.info.id for m in METHODS if m.info.drafts]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "telepathy"], "telepathy"),
        (["--temperatures", "warm"], "warm"),
        (["--batch", "0"], "batch sizes"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--sweep", "--methods", "eagle3,lookahead"], "one method"),
        (["--sweep", "--methods", "eagle3", "--grid", "wings=2"], "wings"),
        (["--max-tokens", "0"], "reply length"),
        (["--repeats", "0"], "repeats"),
    ],
)
def test_what_is_wrong_is_told_before_a_model_is_loaded(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model does not exist either, which would be told of next."""
    assert main(["bench", "--model", "/no/such/model", *options]) == 1
    told = capsys.readouterr().err
    assert words in told and "/no/such/model" not in told


# --------------------------------------------------------------------------- sweeps


def test_a_grid_is_every_combination_that_makes_sense() -> None:
    """Two nodes, of which one is the root, have no second level."""
    found = grid("eagle3", "nodes=2,8;depth=1,2,6")
    assert [each.options for each in found] == [
        (("nodes", 2), ("depth", 1)),
        *((("nodes", 8), ("depth", depth)) for depth in (1, 2, 6)),
    ]
    assert all(each.fixed for each in found)
    assert {name for each in grid("prompt-lookup", "") for name, _ in each.options} == {"nodes", "depth"}
    for method, text in (("lookahead", ""), ("eagle3", "wings=1"), ("eagle3", "nodes=1"), ("telepathy", "")):
        with pytest.raises(PromptError):
            grid(method, text)


def test_the_verdict_compares_with_the_fastest_fixed_setting() -> None:
    slow, fast = Variant("eagle3", (("nodes", 4),), True), Variant("eagle3", (("nodes", 8),), True)
    rows = [
        row(prompt, name, tokens, tokens // 2, tokens / rate)
        for prompt, tokens in (("a", 31), ("b", 61), ("c", 91))
        for name, rate in (("plain", 10), (EAGLE.label, 19), (slow.label, 15), (fast.label, 20))
    ]
    found = verdict(rows, [EAGLE, slow, fast], 0.0)
    assert found is not None and found.best.variant is fast
    assert found.ratio == pytest.approx(0.95) and found.low == pytest.approx(0.95) == found.high
    assert "5.0 % slower" in sentence(found) and "nodes=8" in sentence(found)
    order = [each.variant for each in standings(rows, [EAGLE, slow, fast], 0.0)]
    assert order == [fast, EAGLE, slow]
    table = sweep_table(standings(rows, [EAGLE, slow], 0.0), plain_rate(rows, 0.0))
    assert table[1][0] == "eagle3, chosen by the engine" and table[-1][0] == "plain"
    assert verdict(rows, [EAGLE], 0.0) is None


# --------------------------------------------------------------------------- files


def test_a_bench_is_resumed_only_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "bench.json"
    store = Store(path, {"model": "m", "temperatures": [0.0]})
    store.resume()
    store.rows += ROWS[:2]
    store.write({"results": []})
    again = Store(path, {"model": "m", "temperatures": [0.0]})
    again.resume()
    assert again.rows == ROWS[:2] and again.has("x", 0.0) and not again.has("y", 0.0)
    with pytest.raises(EngineError, match="another model"):
        Store(path, {"model": "other", "temperatures": [0.0]}).resume()
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(EngineError, match="no bench"):
        again.resume()
    with pytest.raises(EngineError, match="nothing to resume"):
        Store(None, {}).resume()
    path.mkdir(exist_ok=True) if not path.exists() else None
    with pytest.raises(EngineError, match="cannot be written"):
        Store(path / "below", {}).write()


def test_plots_are_written_or_the_lack_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = results(ROWS, [EAGLE], [0.0])
    written = plot(found, tmp_path / "plots", "a model")
    assert len(written) == 3 and all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(EngineError, match="matplotlib"):
        require_matplotlib()


def test_prompts_are_spread_and_checked(tmp_path: Path) -> None:
    built_in = read_prompts(None)
    assert len(built_in) >= 10 and len({prompt.category for prompt in built_in}) >= 4
    assert [prompt.name for prompt in spread(built_in, 2)] == [built_in[0].name, built_in[5].name]
    one_each = per_category(built_in, 1)
    assert [p.category for p in one_each] == list(dict.fromkeys(p.category for p in built_in))
    assert sorted(p.name for p in per_category(built_in, None)) == sorted(p.name for p in built_in)
    bad = tmp_path / "bad.jsonl"
    for content in ('{"id": 1}', "[1]", "nonsense", ""):
        bad.write_text(content, encoding="utf-8")
        with pytest.raises(PromptError, match=r"bad\.jsonl"):
            read_prompts(str(bad))
    with pytest.raises(PromptError, match="missing"):
        read_prompts(str(tmp_path / "missing"))


def test_lists_of_numbers() -> None:
    assert numbers("1,2,4,2", int, "sizes") == [1, 2, 4] and numbers("0,0.7", float, "t") == [0.0, 0.7]
    for text, kind in (("0", int), ("-1", float), ("a", int), ("", float), ("nan", float)):
        with pytest.raises(PromptError):
            numbers(text, kind, "things")


def test_loops_are_noticed() -> None:
    assert is_looping(LOOPED)
    assert not is_looping(VARIED)
    assert not is_looping((1, 2))


def test_peers_are_compared_prompt_by_prompt() -> None:
    lines = peer_lines({"peer": [(5.0, {"plain": 10.0, "eagle3": 20.0}), (4.0, {"plain": 4.0, "eagle3": 4.0})], "none": []})
    assert lines == {"peer": "4.5 tokens/s on 2 prompts; as fast as that: plain 1.50×, eagle3 2.50×."}


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


def test_rows_survive_json() -> None:
    assert [Row.from_json(json.loads(json.dumps(each.to_json()))) for each in ROWS] == ROWS
