"""Where two replies part, how figures are put together, and what is said of them; no window."""

from __future__ import annotations

import itertools
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from app.compare import words
from app.compare.comparison import CONTEXT, Outcome, Which, compare, first_difference
from app.compare.plan import jobs_of
from app.compare.prompts import MOST, PromptFileError, asked, lines_of, of_conversation, read_file
from app.compare.record import Answers, Margin, Record, Reply, SideFacts, from_json, to_json
from app.compare.sides import PLAIN, SideChoice, from_settings, is_lossy, name_of, problem_of
from app.compare.spread import speed_up, tau
from engine.protocol import FinishReason, GenerationSettings, Load, Message, Mode, Role, TreeSettings
from tests.app.compare_replies import MODEL, TREE, plan, run

# --------------------------------------------------------------------------- where replies part


@pytest.mark.parametrize(
    ("left", "right", "index"),
    [
        ((), (), None),
        ((1, 2, 3), (1, 2, 3), None),
        ((1, 2, 3), (1, 9, 3), 1),
        ((1, 2), (1, 2, 3), 2),
        ((), (1,), 0),
    ],
)
def test_the_first_token_that_differs(left: tuple[int, ...], right: tuple[int, ...], index: int | None) -> None:
    assert first_difference(left, right) == first_difference(right, left) == index


def test_ids_decide_and_not_the_text() -> None:
    assert compare(run(["a", "bc"], [1, 2]), run(["ab", "c"], [1, 2])) == (Outcome.IDENTICAL, None)
    outcome, difference = compare(run(["a", "bc"], [1, 2]), run(["a", "bc"], [1, 3]))
    assert outcome is Outcome.DIFFERENT and difference is not None and difference.index == 1


def test_a_difference_names_both_tokens_and_what_came_before() -> None:
    a, b = run(["The", " cat", " sat", "."], [1, 2, 3, 4]), run(["The", " cat", " ran", " off"], [1, 2, 8, 9])
    found = compare(a, b)[1]
    assert found is not None and (found.index, found.before) == (2, "The cat")
    assert (found.a.token_id, found.a.text, found.b.token_id, found.b.text) == (3, " sat", 8, " ran")
    assert a.finished.text[found.a.start : found.a.end] == " sat"
    assert b.finished.text[found.b.start : found.b.end] == " ran"


def test_the_end_of_one_reply_is_a_difference_unless_it_was_stopped() -> None:
    outcome, difference = compare(run(["a", "b"]), run(["a", "b", "c"]))
    assert outcome is Outcome.DIFFERENT and difference is not None
    assert difference.a.token_id is None and difference.a.start == difference.a.end == 2
    assert difference.b.text == "c"
    assert compare(run(["a", "b"], reason=FinishReason.STOPPED), run(["a", "b", "c"]))[0] is Outcome.PREFIX
    assert compare(run(["a", "x"], [0, 9], reason=FinishReason.STOPPED), run(["a", "b"]))[0] is Outcome.DIFFERENT


def test_half_a_character_is_marked_with_the_text_that_completes_it() -> None:
    found = compare(run(["a", "", "é"], [1, 2, 3]), run(["a", "b", "c"], [1, 5, 6]))[1]
    assert found is not None and found.a.text == "" and (found.a.start, found.a.end) == (1, 2)


def test_the_context_is_short_however_long_the_reply() -> None:
    texts = ["x" * 30] * 20
    found = compare(run([*texts, "a"], range(21)), run([*texts, "b"], [*range(20), 99]))[1]
    assert found is not None and len(found.before) == CONTEXT and found.index == 20


# --------------------------------------------------------------------------- order, prompts, sides


@pytest.mark.parametrize(("prompts", "repeats"), [(1, 1), (1, 3), (3, 2), (4, 5)])
def test_sides_take_turns_and_every_reply_comes_once(prompts: int, repeats: int) -> None:
    jobs = jobs_of(prompts, repeats)
    assert len({(job.prompt, job.repeat, job.which) for job in jobs}) == len(jobs) == 2 * prompts * repeats
    firsts = [job.which for job in jobs[::2]]
    assert all(one is not other for one, other in itertools.pairwise(firsts)), "A B, B A, A B, …"
    changes = sum(one.which is not other.which for one, other in itertools.pairwise(jobs))
    assert changes == prompts * repeats, "another head is loaded once a pair"


def test_loads_are_counted_only_where_a_side_needs_them() -> None:
    other = replace(TREE, head="/heads/new")
    assert plan(repeats=3).loads == 0 and plan(TREE, other, repeats=3).loads == 3
    assert plan(other, PLAIN, repeats=3).loads == 1, "plain decoding does not mind which head is there"
    assert plan(other, other, ["x", "y"]).loads == 1
    assert other.load(Load("tiny", "old", device="cpu")) == Load("tiny", "/heads/new", device="cpu")


def test_prompts_of_lines_and_of_a_chat() -> None:
    assert lines_of("one\n\n  two  \r\n") == ("one", "two")
    made = asked(("one", " "), "Be kind.")
    assert [prompt.messages for prompt in made] == [(Message(Role.SYSTEM, "Be kind."), Message(Role.USER, "one"))]
    chat = [Message(Role.USER, "q1"), Message(Role.ASSISTANT, "a1"), Message(Role.USER, "q2")]
    assert [(prompt.text, len(prompt.messages)) for prompt in of_conversation(chat)] == [("q1", 1), ("q2", 3)]


def test_broken_lines_of_a_file_are_told_by_number(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    rows = ['{"id": 1, "category": "x", "turns": ["first", "later"]}', "", "{broken", '{"turns": []}', '{"text": "second"}',
            '["no table"]', '{"prompt": 7}']  # fmt: skip
    path.write_text("\n".join(rows), encoding="utf-8")
    found = read_file(path)
    assert found.texts == ("first", "second")
    assert [text.split()[1] for text in found.problems] == ["3", "4", "6", "7"]
    path.write_text("\n".join(["{"] * 9 + [rows[0]]), encoding="utf-8")
    assert read_file(path).problems[-1] == "4 more lines were left out."
    path.write_text("\n".join(['{"text": "x"}'] * (MOST + 3)), encoding="utf-8")
    many = read_file(path)
    assert len(many.texts) == MOST and str(MOST + 3) in many.problems[0]
    (tmp_path / "set.txt").write_text("\ufeffeins\n{zwei}\n", encoding="utf-8")
    assert read_file(tmp_path / "set.txt").texts == ("eins", "{zwei}")
    (tmp_path / "set.txt").write_bytes("größer\r\n\r\nzwei\r\n".encode("utf-16"))
    assert read_file(tmp_path / "set.txt").texts == ("größer", "zwei"), "as Windows writes it"
    built_in = Path(__file__).parents[2] / "resources" / "bench_prompts.json"
    assert read_file(built_in).texts and not read_file(built_in).problems


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("gone.txt", None, "cannot be read"), ("a.txt", b"\xff\xfe\x00", "UTF-8"), ("b.jsonl", b"{\n", "Line 1 is no JSON")],
)
def test_a_file_without_a_prompt_is_refused_in_words(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PromptFileError, match=said) as caught:
        read_file(tmp_path / name)
    assert "Choose another file" in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such pipes there")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(PromptFileError, match="cannot be read"):
        read_file(tmp_path / "pipe.txt")


def test_a_side_is_what_the_engine_is_asked_for() -> None:
    shared = GenerationSettings(seed=3, tree=TreeSettings(9, 4), method="x", options=(("y", 1),))
    assert PLAIN.settings(shared) == GenerationSettings(seed=3, eagle=False)
    side = SideChoice(method="tree", options=(("nodes", 12),))
    assert side.settings(shared) == GenerationSettings(seed=3, method="tree", options=(("nodes", 12),))
    assert from_settings(shared, None).options == (("y", 1),)
    chat = replace(shared, method="", options=(("accept", "typical"), ("unknown", 1)))
    assert dict(from_settings(chat, MODEL).options) == {"nodes": 9, "accept": "typical"}
    assert name_of(side, MODEL) == "Dynamic tree (Nodes 12)"
    assert name_of(SideChoice(head="/h/new", head_name="new"), MODEL) == "Dynamic tree, automatic, head new"
    assert is_lossy(SideChoice(method="tree", options=(("accept", "typical"),)), MODEL) and not is_lossy(side, MODEL)
    assert "Medusa" in problem_of(SideChoice(method="medusa"), MODEL) and problem_of(PLAIN, MODEL) == ""
    assert "gone" in problem_of(SideChoice(method="gone"), MODEL)


# --------------------------------------------------------------------------- figures


def reply(prompt: int, repeat: int, which: Which, speed: float, tokens: int = 101, **more: object) -> Reply:
    steps = (tokens - 1) // 2 if which is Which.A else tokens - 1
    made = Reply(
        prompt, repeat, which, tokens, steps, (tokens - 1) / speed, 0.1, FinishReason.LENGTH,
        Mode.EAGLE if which is Which.A else Mode.PLAIN,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def record(speeds: dict[tuple[int, int], tuple[float, float]], prompts: int = 1, **more: object) -> Record:
    """``speeds``: by prompt and repeat, A's and B's tokens per second."""
    replies = [
        reply(*key, which, speed) for key, both in speeds.items() for which, speed in zip(Which, both, strict=True)
    ]
    made = Record(
        "id", 1e9, "Tiny", "CPU", "int8", SideFacts("Tree"), SideFacts("Plain", drafting=False), 0.0, 7, 128, True,
        max((repeat for _, repeat in speeds), default=0) + 1,
        tuple(Answers(f"prompt {n}", ("x", "x"), Outcome.IDENTICAL) for n in range(prompts)), tuple(replies),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def test_speed_up_is_the_median_of_ratios_with_their_range() -> None:
    found = speed_up(record({(0, 0): (30, 20), (0, 1): (40, 20), (0, 2): (33, 20)}))
    assert found is not None and found.factor == pytest.approx(1.65)
    assert (found.repeats.low, found.repeats.high, found.repeats.count) == (pytest.approx(1.5), pytest.approx(2.0), 3)
    assert found.is_certain and not speed_up(record({(0, 0): (30, 20), (0, 1): (19, 20)})).is_certain
    assert speed_up(record({(0, 0): (19, 20), (0, 1): (18, 20)})).is_certain
    assert tau(record({(0, 0): (30, 20)}), Which.A) == 2.0 and tau(record({(0, 0): (30, 20)}), Which.B) == 1.0
    assert speed_up(record({})) is None


def test_a_set_has_the_median_over_prompts_and_both_spreads() -> None:
    chance = random.Random(3)
    speeds = {(p, r): (chance.uniform(20, 60), chance.uniform(20, 40)) for p in range(5) for r in range(3)}
    found = speed_up(record(speeds, 5))
    ratio = {key: a / b for key, (a, b) in speeds.items()}
    of_prompts = [median(ratio[p, r] for r in range(3)) for p in range(5)]
    of_repeats = [median(ratio[p, r] for p in range(5)) for r in range(3)]
    assert found is not None and found.factor == pytest.approx(median(of_prompts))
    assert (found.prompts.low, found.prompts.high) == (pytest.approx(min(of_prompts)), pytest.approx(max(of_prompts)))
    assert (found.repeats.low, found.repeats.high) == (pytest.approx(min(of_repeats)), pytest.approx(max(of_repeats)))
    # Stopped in the middle: what is whole counts for the repeats, everything for the prompts.
    left = {key: both for key, both in speeds.items() if key not in ((4, 1), (4, 2), (3, 2))}
    part = speed_up(record(left, 5))
    assert part is not None and part.repeats.count == 3 and part.prompts.count == 5
    text = words.spread_words(found)
    assert "Median of 3 repeats" in text and "Over 5 prompts" in text


def test_a_reply_of_one_token_has_no_speed() -> None:
    made = record({(0, 0): (30, 20)})
    short = replace(made, replies=(replace(made.replies[0], tokens=1), made.replies[1]))
    assert speed_up(short) is None and words.figures(short, Which.A) == ""


@pytest.mark.parametrize(
    ("factor", "said"), [(1.5, "A is faster"), (1.01, "About the same"), (0.99, "About the same"), (0.5, "A is slower")]
)
def test_the_factor_in_words(factor: float, said: str) -> None:
    assert words.factor_words(factor).startswith(said)


# --------------------------------------------------------------------------- what is said


def parted(margin: Margin | None = None, problem: str = "", **more: object) -> Record:
    difference = compare(run(["The", " cat"], [1, 2]), run(["The", " <i>dog</i>"], [1, 777]))[1]
    answers = Answers("p", ("The cat", "The dog"), Outcome.DIFFERENT, difference, margin, problem)
    return record({(0, 0): (30, 20)}, answers=(answers,), **more)


def said_of(made: Record) -> str:
    return words.difference_words(made, made.answers[0])


def test_margins_in_words() -> None:
    tie = said_of(parted(Margin(0.02, 0.05, 0.4, 0.39)))
    assert "A tie within rounding" in tie and "0.0200 logits" in tie and "0.0500" in tie
    assert "“\u2068␣<i>dog</i>\u2069” (id 777, the target gives it 39 %)" in tie and "After “…\u2068The\u2069”" in tie
    real = said_of(parted(Margin(-1.3, 0.0, 0.2, 0.7, " bird")))
    assert "B's token is ahead" in real and "1.30 logits" in real and "rounding accounts for 0." in real
    assert "␣bird" in real and "please report it" in real
    lossy = said_of(parted(Margin(1.3, 0.0, 0.2, 0.7), a=SideFacts("Tree", lossy=True)))
    assert "expected" in lossy and "report" not in lossy
    drawn = said_of(parted(Margin(1.3, 0.0, 0.2, 0.7), temperature=0.8))
    assert "drawn" in drawn and "report" not in drawn and "tie" not in drawn
    assert "equal" in said_of(parted(Margin(0.0, 0.0, 0.4, 0.4)))
    assert "forbids" in said_of(parted(Margin(None, 0.0, 0.0, 0.4)))
    assert "not known: No model is loaded." in said_of(parted(problem="No model is loaded."))


def test_the_verdict_over_a_set() -> None:
    assert words.verdict(record({(0, 0): (3, 2), (1, 0): (3, 2)}, 2)) == "Identical: the texts of all 2 prompts"
    one = parted(Margin(0.01, 0.05, 0.4, 0.4))
    mixed = replace(one, answers=(*one.answers, Answers("q", ("x", "x"), Outcome.IDENTICAL)))
    assert words.verdict(mixed) == "1 of 2 texts differs, 1 of them by a tie within rounding"
    assert words.verdict(replace(mixed, temperature=0.5)) == "1 of 2 texts differs"
    assert words.verdict(record({(0, 0): (3, 2)})) == "Identical: all 101 tokens are the same"
    assert words.verdict(record({}, answers=(Answers("p"),))) == "Nothing was compared yet"


def test_caveats() -> None:
    assert words.caveats(record({(0, 0): (30, 20)})) == []
    base = record({(0, 0): (30, 20), (0, 1): (30, 20)})

    def altered(place: int, **more: object) -> str:
        replies = list(base.replies)
        replies[place] = replace(replies[place], **more)  # type: ignore[arg-type]
        return " ".join(words.caveats(replace(base, replies=tuple(replies))))

    assert "differ in length" in altered(0, tokens=90)
    assert "short" in altered(1, tokens=12)
    assert "B itself wrote different texts" in altered(3, as_first=False)
    assert "A paused drafting in 1 of 2 replies. It loses here." in altered(0, mode=Mode.MIXED, notice="It loses here.")
    plain = replace(base, replies=tuple(replace(each, mode=Mode.PLAIN) for each in base.replies))
    assert "A never drafted" in words.caveats(plain)[0] and len(words.caveats(plain)) == 1
    assert "temperature is above 0" in " ".join(words.caveats(replace(base, temperature=0.7)))
    assert "B changes the distribution" in " ".join(words.caveats(replace(base, b=SideFacts("x", lossy=True))))


def test_a_record_survives_as_text_and_damage_is_told() -> None:
    made = parted(Margin(-1.3, 0.0, 0.2, 0.7, " bird"), a=SideFacts("Tree", True, False, "tree", (("nodes", 12),), "head"))
    text = to_json(made)
    assert from_json(text) == made
    for path, wrong in (
        (("version",), 9), (("answers",), []), (("replies", 0, "prompt"), 5), (("replies", 0, "which"), "c"),
        (("replies", 0, "seconds"), "long"), (("answers", 0, "texts"), ["one"]), (("a", "name"), None), (("seed",), None),
        (("answers", 0, "difference"), {"index": 1}),
    ):  # fmt: skip
        values = json.loads(text)
        at = values
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = wrong
        with pytest.raises(ValueError, match="cannot be read"):
            from_json(json.dumps(values))
    with pytest.raises(ValueError, match="cannot be read"):
        from_json("nonsense")


def test_everything_as_text_for_the_clipboard() -> None:
    text = words.as_text(parted(Margin(0.02, 0.05, 0.4, 0.39)))
    for part in ("A: Tree, 30.0 tokens/s, τ 2.00", "B: Plain, 20.0 tokens/s", "1.50×", "token 2", "tie", "Tiny", "seed 7"):
        assert part in text
