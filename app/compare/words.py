"""What a comparison says, in sentences. No widgets; everything is made from the record when it is shown."""

from __future__ import annotations

from collections.abc import Sequence

from app.compare.comparison import Difference, Outcome, Place, Which
from app.compare.record import Answers, Margin, Record
from app.compare.spread import SpeedUp, speed, speed_up, tau
from app.language import tr, tr_n
from app.language.engine_texts import of_engine
from app.language.numbers import decimal, moment, whole
from app.tree_panel.token_text import isolated, percent, quoted, visible
from engine.protocol import Mode

SHORT = 32
"""Replies of fewer tokens give no steady speed."""
ABOUT = 0.02
"""Factors nearer to 1 are called the same."""


def letter(which: Which) -> str:
    return which.value.upper()


def title(record: Record) -> str:
    """One line for the list of comparisons."""
    return tr("Compare", "{a} or {b}").format(a=record.a.name, b=record.b.name)


def times(factor: float) -> str:
    return f"{decimal(factor, 2)}×"


# --------------------------------------------------------------------------- speed


def factor_words(factor: float) -> str:
    """What stands under the factor of A's speed over B's."""
    if factor > 1 + ABOUT:
        return tr("Compare", "A is faster: its speed over B's")
    if factor < 1 - ABOUT:
        return tr("Compare", "A is slower: its speed over B's")
    return tr("Compare", "About the same: A's speed over B's")


def spread_words(found: SpeedUp) -> str:
    """How exact the factor is, as a sentence or three."""
    said = []
    repeats, prompts = found.repeats, found.prompts
    if repeats.count == 1:
        said.append(tr("Compare", "From one repeat: more of them would tell how exact it is."))
    else:
        said.append(
            tr("Compare", "Median of {count} repeats, which lie between {low} and {high}.").format(
                count=repeats.count, low=times(repeats.low), high=times(repeats.high)
            )
        )
        if not found.is_certain:
            said.append(tr("Compare", "They do not agree on which is faster."))
    if prompts.count > 1:
        said.append(
            tr("Compare", "Over {count} prompts, from {low} to {high} by prompt.").format(
                count=prompts.count, low=times(prompts.low), high=times(prompts.high)
            )
        )
    return " ".join(said)


def figures(record: Record, which: Which, prompt: int | None = None) -> str:
    """A side's speed and acceptance length on one line, or ""."""
    found = speed(record, which, prompt)
    if found is None:
        return ""
    text = tr("Compare", "{speed} tokens/s").format(speed=decimal(found.median, 1))
    length = tau(record, which, prompt)
    return f"{text}, τ {decimal(length, 2)}" if length else text


# --------------------------------------------------------------------------- texts


def verdict(record: Record) -> str:
    """Whether the texts are the same, in one line."""
    known = [each for each in record.answers if each.outcome is not None]
    different = [each for each in known if each.outcome is Outcome.DIFFERENT]
    if not known:
        return tr("Compare", "Nothing was compared yet")
    if len(known) == 1:
        return answer_verdict(record, record.answers.index(known[0]))
    if not different:
        return tr("Compare", "Identical: the texts of all {count} prompts").format(count=len(known))
    parts = tr_n(
        "Compare", "%n of {count} texts differs", "%n of {count} texts differ", len(different)
    ).format(count=len(known))
    ties = sum(each.margin is not None and each.margin.is_tie for each in different)
    if ties and record.temperature == 0:
        parts += tr_n("Compare", ", %n of them by a tie within rounding", ", %n of them by ties within rounding", ties)
    return parts


def answer_verdict(record: Record, prompt: int) -> str:
    """The same for one prompt."""
    answers = record.answers[prompt]
    if answers.outcome is Outcome.IDENTICAL:
        tokens = max((reply.tokens for reply in record.replies_of(Which.A, prompt)), default=0)
        return tr_n("Compare", "Identical: the one token is the same", "Identical: all %n tokens are the same", tokens)
    if answers.outcome is Outcome.PREFIX:
        return tr("Compare", "The same as far as both go; one reply did not reach its end")
    if answers.difference is None:
        return tr("Compare", "Not compared")
    return tr("Compare", "First difference at token {number}").format(number=whole(answers.difference.index + 1))


def difference_words(record: Record, answers: Answers) -> str:
    """Where two texts part, with both tokens and how near the race was; "" where they do not."""
    difference = answers.difference
    if difference is None:
        return ""
    lines = [_context(difference)]
    for which in Which:
        chance = None
        if answers.margin is not None:
            chance = answers.margin.chance_a if which is Which.A else answers.margin.chance_b
        lines.append(_place(which, difference.place(which), chance))
    lines.append(margin_words(record, answers))
    return "\n".join(line for line in lines if line)


def _context(difference: Difference) -> str:
    if not difference.before:
        return tr("Compare", "At the very beginning")
    return tr("Compare", "After “…{text}”").format(text=isolated(visible(difference.before, 120)))


def _place(which: Which, place: Place, chance: float | None) -> str:
    if place.token_id is None:
        return tr("Compare", "{side}: the reply had ended").format(side=letter(which))
    token = quoted(place.text, 32) if place.text else tr("Compare", "a part of a character")
    if chance is None:
        return tr("Compare", "{side}: {token} (id {id})").format(side=letter(which), token=token, id=place.token_id)
    return tr("Compare", "{side}: {token} (id {id}, the target gives it {chance})").format(
        side=letter(which), token=token, id=place.token_id, chance=percent(chance)
    )


def margin_words(record: Record, answers: Answers) -> str:
    """How near the race was at the difference, and what that means."""
    margin = answers.margin
    if margin is None:
        if not answers.margin_problem:
            return ""
        return tr("Compare", "The margin is not known: {reason}").format(reason=of_engine(answers.margin_problem))
    if margin.difference is None:
        return tr("Compare", "A penalty forbids one of the two tokens there: a real difference.")
    logits = tr("Compare", "{margin} logits apart").format(margin=_logits(abs(margin.difference)))
    if record.temperature > 0:
        return tr(
            "Compare",
            "The two lie {apart}. Tokens are drawn here, so a difference says nothing against either side.",
        ).format(apart=logits)
    if margin.is_tie:
        if margin.difference == 0 and margin.noise == 0:
            return tr("Compare", "A tie: the target's logits of the two are equal.")
        return tr(
            "Compare",
            "A tie within rounding: the two lie {apart}, and rounding accounts for {noise} on this machine.",
        ).format(apart=logits, noise=_logits(margin.noise))
    return _real(record, margin, logits)


def _real(record: Record, margin: Margin, logits: str) -> str:
    assert margin.difference is not None
    ahead = Which.A if margin.difference > 0 else Which.B
    said = tr(
        "Compare", "A real difference: {side}'s token is ahead, the two lie {apart}; rounding accounts for {noise}."
    ).format(side=letter(ahead), apart=logits, noise=_logits(margin.noise))
    if margin.best_text:
        said += " " + tr("Compare", "The target itself would write {token}.").format(token=quoted(margin.best_text, 32))
    lossy = [letter(which) for which in Which if record.side(which).lossy]
    if lossy:
        return said + " " + tr("Compare", "{sides} may leave the target's own distribution, so this is expected.").format(
            sides=", ".join(lossy)
        )
    return said + " " + tr("Compare", "Without a setting that changes the distribution this is a fault: please report it.")


def _logits(value: float) -> str:
    if value == 0:
        return "0"
    return decimal(value, 2 if value >= 0.1 else 4 if value >= 0.001 else 7)


# --------------------------------------------------------------------------- caveats


def caveats(record: Record) -> list[str]:
    """What to keep in mind, a sentence each."""
    said = [text for which in Which if (text := _drafted(record, which))]
    pairs = record.pairs()
    if any(a.tokens != b.tokens for a, b in pairs):
        said.append(
            tr("Compare", "Some replies differ in length. Speed changes with length, so the factor is not exact.")
        )
    if pairs and min(min(a.tokens, b.tokens) for a, b in pairs) < SHORT:
        said.append(tr("Compare", "Some replies are short: longer ones give a steadier figure."))
    for which in Which:
        if any(not reply.as_first for reply in record.replies_of(which)):
            said.append(
                tr("Compare", "{side} itself wrote different texts in its repeats.").format(side=letter(which))
            )
    if record.temperature > 0:
        said.append(
            tr(
                "Compare",
                "The temperature is above 0: both sides draw from the target's own distribution with the same seed. "
                "They agree where each guess is checked against the drawn token, and differ by design where a "
                "method draws its guesses.",
            )
        )
    for which in Which:
        if record.side(which).lossy:
            said.append(
                tr("Compare", "{side} changes the distribution: its text need not be the target's.").format(
                    side=letter(which)
                )
            )
    return said


def _drafted(record: Record, which: Which) -> str:
    """What is to be said where a side did not draft all the time."""
    replies = record.replies_of(which)
    if not record.side(which).drafting or not replies:
        return ""
    plain = sum(reply.mode is Mode.PLAIN for reply in replies)
    mixed = sum(reply.mode is Mode.MIXED for reply in replies)
    notice = next((of_engine(reply.notice) for reply in replies if reply.notice and reply.mode is not Mode.EAGLE), "")
    if plain == len(replies):
        text = tr("Compare", "{side} never drafted, so this compares plain decoding.").format(side=letter(which))
    elif plain or mixed:
        text = tr("Compare", "{side} paused drafting in {some} of {all} replies.").format(
            side=letter(which), some=plain + mixed, all=len(replies)
        )
    else:
        return ""
    return f"{text} {notice}".strip()


# --------------------------------------------------------------------------- as text


def conditions(record: Record) -> list[str]:
    """Under what it was measured, in short parts."""
    prompts = tr_n("Compare", "%n prompt", "%n prompts", len(record.answers))
    repeats = tr_n("Compare", "%n repeat", "%n repeats", record.repeats)
    return [
        record.model,
        record.weight_format,
        record.device,
        f"{prompts} × {repeats}",
        tr("Compare", "temperature {value}").format(value=decimal(record.temperature, 2)),
        tr("Compare", "seed {value}").format(value=record.seed),
        tr("Compare", "at most {count} tokens").format(count=whole(record.max_new_tokens)),
        moment(record.created),
    ]


def as_text(record: Record) -> str:
    """Everything but the replies, to paste somewhere."""
    lines = [tr("Compare", "Eyrie compared two settings"), " · ".join(conditions(record)), ""]
    for which in Which:
        lines.append(f"{letter(which)}: {record.side(which).name}, {figures(record, which)}".rstrip(", "))
    found = speed_up(record)
    if found is not None:
        lines += ["", f"{times(found.factor)}  {factor_words(found.factor)}. {spread_words(found)}"]
    lines.append(verdict(record))
    lines += [difference_words(record, record.answers[place]) for place in _differing(record)[:3]]
    lines += [f"• {text}" for text in caveats(record)]
    if record.problem:
        lines.append(record.problem)
    return "\n".join(line for line in lines if line is not None)


def _differing(record: Record) -> Sequence[int]:
    return [place for place, each in enumerate(record.answers) if each.difference is not None]
