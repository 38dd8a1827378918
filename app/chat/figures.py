"""Numbers of a reply in words. Defined once, so that every place says the same.

Speed counts decoding only (the prompt is left out); tau is the tokens emitted per
pass of the target, the bonus token included.
"""

from __future__ import annotations

import re

from app.chat.conversation import ChatMessage, Live, MessageState
from app.language import mark, numbers, tr, tr_n
from app.language.engine_texts import of_engine
from engine.protocol import FinishReason, Mode, ReplyStats

MODES = {
    Mode.PLAIN: mark("Reply", "plain"),
    Mode.EAGLE: mark("Reply", "EAGLE"),
    Mode.MIXED: mark("Reply", "mixed"),
}

REASONS = {
    FinishReason.EOS: mark("Reply", "complete"),
    FinishReason.LENGTH: mark("Reply", "length limit reached"),
    FinishReason.CONTEXT: mark("Reply", "context is full"),
    FinishReason.STOPPED: mark("Reply", "stopped by you"),
    FinishReason.ERROR: mark("Reply", "ended by an error"),
}

WORD_JOINER = "\u2060"
ANYWHERE = re.compile("(?<=[\u3000-\u9fff\uff00-\uffef])(?=.)|(?<=.)(?=[\u3000-\u9fff\uff00-\uffef])")
"""Places beside Chinese and Japanese characters, where a line may break."""

SPEED_HELP = mark("Reply", "Tokens per second while writing; reading the prompt is left out.")
TAU_HELP = mark(
    "Reply",
    "Acceptance length τ: tokens gained per pass of the target model, the bonus token included. "
    "Plain decoding has 1.",
)


def seconds(value: float) -> str:
    if value < 0.0995:
        return tr("Reply", "{number} ms").format(number=numbers.decimal(value * 1000, 0))
    return tr("Reply", "{number} s").format(number=numbers.decimal(value, 2 if value < 10 else 0))


def tokens(number: int) -> str:
    return tr_n("Reply", "{count} token", "{count} tokens", number).format(count=numbers.whole(number))


def speed(tokens_per_second: float) -> str:
    digits = 0 if tokens_per_second >= 99.5 else 1
    return tr("Reply", "{number} tokens/s").format(number=numbers.decimal(tokens_per_second, digits))


def tau(acceptance_length: float) -> str:
    return f"τ {numbers.decimal(acceptance_length, 2)}"


def mode(which: Mode, method: str = "") -> str:
    """How a reply was decoded. ``method`` is the id of what drafted: only some of them are EAGLE."""
    if which is Mode.EAGLE and method and not method.startswith("eagle"):
        return of_engine(method.replace("-", " ").capitalize())
    return tr("Reply", MODES[which])


def reason(why: FinishReason) -> str:
    return tr("Reply", REASONS[why])


def explanation() -> str:
    """What the speed and tau of a reply mean."""
    return "\n".join((tr("Reply", SPEED_HELP), tr("Reply", TAU_HELP)))


def summary(stats: ReplyStats, why: FinishReason | None) -> list[str]:
    """The parts of the line under a finished reply."""
    parts = [tokens(stats.new_tokens)]
    if stats.tokens_per_second > 0:
        parts.append(speed(stats.tokens_per_second))
    parts.append(tr("Reply", "first token after {time}").format(time=seconds(stats.time_to_first_token)))
    if stats.steps:
        parts.append(tau(stats.acceptance_length))
    parts.append(mode(stats.mode, stats.method))
    if why is not None:
        parts.append(reason(why))
    return parts


def details(stats: ReplyStats) -> str:
    """The longer account, for the tooltip of the line."""
    prompt = tr_n(
        "Reply",
        "Prompt: {count} token, {reused} of them kept from the turn before",
        "Prompt: {count} tokens, {reused} of them kept from the turn before",
        stats.prompt_tokens,
    )
    passes = tr("Reply", "Passes of the target after the prompt: {count}")
    lines = [
        prompt.format(count=numbers.whole(stats.prompt_tokens), reused=numbers.whole(stats.reused_tokens)),
        passes.format(count=numbers.whole(stats.steps)),
    ]
    if stats.drafted_tokens:
        drafted = tr_n(
            "Reply",
            "Drafted: {count} token, accepted {accepted} ({share})",
            "Drafted: {count} tokens, accepted {accepted} ({share})",
            stats.drafted_tokens,
        )
        lines.append(
            drafted.format(
                count=numbers.whole(stats.drafted_tokens),
                accepted=numbers.whole(stats.accepted_tokens),
                share=numbers.percent(stats.accepted_tokens / stats.drafted_tokens),
            )
        )
    return "\n".join((*lines, explanation()))


def line(parts: list[str]) -> str:
    """Parts on one line, which breaks only between them."""
    kept = (ANYWHERE.sub(WORD_JOINER, part.replace(" ", "\u00a0")) for part in parts)
    return "\u00a0\u00a0· ".join(kept).replace("· ", "·\u00a0 ")


def live(figures: Live) -> list[str]:
    """The parts of the status line while a reply grows, and of the line under one that broke off."""
    parts = [tokens(figures.tokens)]
    if figures.tokens_per_second > 0:
        parts.append(speed(figures.tokens_per_second))
    if figures.acceptance_length > 0:
        parts.append(tau(figures.acceptance_length))
        parts.append(mode(figures.mode, figures.method))
    return parts


def progress(message: ChatMessage) -> str:
    """What a reply without text is doing."""
    if message.state is MessageState.WAITING:
        return tr("Reply", "Waiting for the engine…")
    if message.state is MessageState.READING and message.progress is not None:
        done, total = message.progress.done_tokens, message.progress.total_tokens
        if total > done > 0:
            words = tr_n(
                "Reply",
                "Reading the prompt: {done} of {count} token",
                "Reading the prompt: {done} of {count} tokens",
                total,
            )
            return words.format(done=numbers.whole(done), count=numbers.whole(total))
        words = tr_n(
            "Reply", "Reading the prompt ({count} token)…", "Reading the prompt ({count} tokens)…", total
        )
        return words.format(count=numbers.whole(total))
    return ""
