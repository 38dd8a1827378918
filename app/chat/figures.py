"""Numbers of a reply in words. Defined once, so that every place says the same.

Speed counts decoding only (the prompt is left out); tau is the tokens emitted per
pass of the target, the bonus token included.
"""

from __future__ import annotations

from app.chat.conversation import ChatMessage, Live, MessageState
from engine.protocol import FinishReason, Mode, ReplyStats

MODES = {Mode.PLAIN: "plain", Mode.EAGLE: "EAGLE", Mode.MIXED: "mixed"}

REASONS = {
    FinishReason.EOS: "complete",
    FinishReason.LENGTH: "length limit reached",
    FinishReason.CONTEXT: "context is full",
    FinishReason.STOPPED: "stopped by you",
    FinishReason.ERROR: "ended by an error",
}

SPEED_HELP = "Tokens per second while writing; reading the prompt is left out."
TAU_HELP = (
    "Acceptance length τ: tokens gained per pass of the target model, the bonus token included. "
    "Plain decoding has 1."
)


def seconds(value: float) -> str:
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def speed(tokens_per_second: float) -> str:
    digits = 0 if tokens_per_second >= 99.5 else 1
    return f"{tokens_per_second:.{digits}f} tokens/s"


def summary(stats: ReplyStats, reason: FinishReason | None) -> list[str]:
    """The parts of the line under a finished reply."""
    parts = [count(stats.new_tokens, "token")]
    if stats.tokens_per_second > 0:
        parts.append(speed(stats.tokens_per_second))
    parts.append(f"first token after {seconds(stats.time_to_first_token)}")
    if stats.steps:
        parts.append(f"τ {stats.acceptance_length:.2f}")
    parts.append(MODES[stats.mode])
    if reason is not None:
        parts.append(REASONS[reason])
    return parts


def details(stats: ReplyStats) -> str:
    """The longer account, for the tooltip of the line."""
    lines = [
        f"Prompt: {count(stats.prompt_tokens, 'token')}, {stats.reused_tokens:,} of them kept from the turn before",
        f"Passes of the target after the prompt: {stats.steps:,}",
    ]
    if stats.drafted_tokens:
        share = stats.accepted_tokens / stats.drafted_tokens
        lines.append(
            f"Drafted: {stats.drafted_tokens:,} tokens, accepted {stats.accepted_tokens:,} ({share:.0%})"
        )
    lines += [SPEED_HELP, TAU_HELP]
    return "\n".join(lines)


def line(parts: list[str]) -> str:
    """Parts on one line, which breaks only between them."""
    return "\u00a0\u00a0· ".join(part.replace(" ", "\u00a0") for part in parts).replace("· ", "·\u00a0 ")


def live(figures: Live) -> list[str]:
    """The parts of the status line while a reply grows."""
    parts = [count(figures.tokens, "token")]
    if figures.tokens_per_second > 0:
        parts.append(speed(figures.tokens_per_second))
    if figures.acceptance_length > 0:
        parts.append(f"τ {figures.acceptance_length:.2f}")
        parts.append(MODES[figures.mode])
    return parts


def progress(message: ChatMessage) -> str:
    """What a reply without text is doing."""
    if message.state is MessageState.WAITING:
        return "Waiting for the engine…"
    if message.state is MessageState.READING and message.progress is not None:
        done, total = message.progress.done_tokens, message.progress.total_tokens
        if total > done > 0:
            return f"Reading the prompt: {done:,} of {total:,} tokens"
        return f"Reading the prompt ({count(total, 'token')})…"
    return ""
