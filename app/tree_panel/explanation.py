"""What is going on, for somebody who has never heard of it: the explanation, the legend and the notes."""

from __future__ import annotations

from app.language import mark, tr, tr_n
from app.language.engine_texts import of_engine
from app.tree_panel.history import ReplyHistory
from app.tree_panel.layout import Kind
from app.tree_panel.token_text import quoted
from engine.protocol import Match, MethodInfo, Mode, Shape, Step

LEGEND = (
    (
        Kind.ROOT,
        mark("Panel", "Root"),
        mark("Panel", "Already chosen in the step before; the guesses start from it."),
    ),
    (
        Kind.ACCEPTED,
        mark("Panel", "Accepted"),
        mark("Panel", "A guess that the target confirmed: a token for free."),
    ),
    (
        Kind.BONUS,
        mark("Panel", "Bonus"),
        mark("Panel", "Bonus token: chosen by the target itself. It ends the step and is the next root."),
    ),
    (Kind.REJECTED, mark("Panel", "Rejected"), mark("Panel", "A guess where the target chose another token.")),
    (
        Kind.UNREACHED,
        mark("Panel", "Not reached"),
        mark("Panel", "A guess that follows a rejected one, so it was never looked at."),
    ),
    (
        Kind.WINDOW,
        mark("Panel", "Window"),
        mark("Panel", "Not a guess yet: the target works these out on the side, to find the next guesses."),
    ),
)
"""Kind, its name and what it means; the window's only where there is one."""

BEGINNING = mark(
    "Panel",
    "A language model writes one token (a word or a piece of one) at a time, and each token costs a "
    "pass through the whole model, here called the target. It is like a careful author who reads the "
    "whole text again before every word.",
)
FORMS = {
    Shape.TREE: mark(
        "Panel",
        "A small, quick helper guesses several ways the text may go on. That is the tree, read from left to "
        "right: the thicker a line, the surer the guess. The target then checks all guesses in a single "
        "pass. It keeps the longest path it agrees with (the straight line at the top) and adds one token "
        "of its own, the bonus token. Everything else is thrown away.",
    ),
    Shape.CHAIN: mark(
        "Panel",
        "A quick helper guesses how the text goes on, one token after the other. That is the row, read from "
        "left to right. The target then checks all guesses in a single pass. It keeps them up to the first "
        "one it disagrees with, and puts a token of its own in that place, the bonus token. What follows a "
        "wrong guess is thrown away.",
    ),
    Shape.WINDOW: mark(
        "Panel",
        "There is no helper here: the target guesses for itself. In the grid it fills in several places of "
        "the text ahead at once, roughly at first and better with every pass. Sequences of words that come up "
        "there are collected, and those that begin with the text's last token stand above as guesses. The "
        "target checks them in the same pass, keeps the longest beginning that it agrees with and adds a "
        "token of its own, the bonus token.",
    ),
}
END = mark(
    "Panel",
    "So one pass can give several tokens, and the target still decides every one of them: wrong "
    "guesses cost a little time, never quality. τ (tau) is how many tokens a pass gave on average; "
    "without guessing it is 1.",
)
LOSSY = mark(
    "Panel",
    "One exception: with “typical acceptance” the target also keeps guesses that it would not have "
    "chosen itself. That setting is off unless you choose it.",
)

NO_REPLY = mark("Panel", "No reply yet.\nSend a message, and the guesses behind every token grow here.")
READING = mark("Panel", "Reading the prompt…")
NOTHING_CAME = mark("Panel", "The reply ended before its first token.")
PROMPT_NOTE = mark(
    "Panel", "The target read the prompt and chose this token by itself. Guessing starts from it."
)
PLAIN_NOTE = mark(
    "Panel",
    "Guessing is off: one token per step. There is nothing to draw; "
    "the timeline below still shows every step.",
)
NO_GUESS_NOTE = mark("Panel", "Nothing was guessed in this step.")
DROPPED_NOTE = mark(
    "Panel", "The guesses of this early step were given up to save memory; its token and figures are kept."
)


def explanation(shape: Shape, method: MethodInfo | None = None) -> str:
    """In plain words what is drawn in this form, and what the method that does it is called."""
    parts = [tr("Panel", BEGINNING), tr("Panel", FORMS[shape])]
    if method is not None:
        parts.append(
            tr("Panel", "The helper at work is called {name}. {about}").format(
                name=of_engine(method.name), about=of_engine(method.about)
            )
        )
    parts.append(tr("Panel", END))
    if method is not None and any(setting.lossy for setting in method.settings):
        parts.append(tr("Panel", LOSSY))
    return "\n\n".join(parts)


def note_of(history: ReplyHistory, position: int, step: Step) -> str:
    """The words below a step's picture, "" where it speaks for itself."""
    if step.match is not None and step.nodes:
        return match_words(step.match)
    if len(step.nodes) > 1 or step.window:
        return ""
    if step.index == 0:
        return tr("Panel", PROMPT_NOTE)
    if history.dropped_tree(position) and step.mode is not Mode.PLAIN:
        return tr("Panel", DROPPED_NOTE)
    return tr("Panel", PLAIN_NOTE) if step.mode is Mode.PLAIN else tr("Panel", NO_GUESS_NOTE)


def match_words(match: Match) -> str:
    """Where the guesses were copied from."""
    where = tr_n("Panel", "%n token earlier", "%n tokens earlier", match.back)
    return tr(
        "Panel", "The text's last words, {words}, also stood {where}. The guesses are what followed them there."
    ).format(words=quoted(match.text, 60), where=where)
