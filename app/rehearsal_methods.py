"""Drafting methods of the rehearsals' model: one of every kind that the window tells apart.

They are described in the engine's own sentences, which are translated.
"""

from __future__ import annotations

from engine.protocol import MethodInfo, MethodSetting, Needs, SettingKind, Shape

PLAIN = MethodInfo(
    "plain", "Plain decoding", "The model alone, one token at a time: what every other method is measured against.",
    Needs.NOTHING, Shape.CHAIN, drafts=False,
)  # fmt: skip
TREE = MethodInfo(
    "eagle3", "EAGLE-3",
    "A small head continues states from three depths of the model; the tree grows where the head is sure.",
    Needs.HEAD, Shape.TREE,
    (
        MethodSetting(
            "nodes", "Nodes", "Rows verified in one pass of the target, root included.", SettingKind.INTEGER, None, 2, 256
        ),
        MethodSetting(
            "threshold", "Confidence threshold",
            "A guess that the drafter gives less than this gets no guesses of its own; 0.2 to 0.4 are usual, "
            "0 switches it off.",
            SettingKind.NUMBER, 0.0, 0.0, 1.0,
        ),
        MethodSetting(
            "acceptance", "Acceptance",
            "Lossless: what the model would have said. Typical: also what it finds likely enough; faster, but the "
            "replies are no longer the model's own.",
            SettingKind.CHOICE, "lossless", choices=("lossless", "typical"), lossy=("typical",),
        ),
        MethodSetting(
            "draw", "Draw the guesses",
            "At temperatures above 0, draw guesses from the drafter's own distribution, as published, and verify them "
            "by p/q. Off: try its likeliest tokens; a seed's text is then that of plain decoding.",
            SettingKind.SWITCH, False,
        ),
    ),
)  # fmt: skip
LOOKUP = MethodInfo(
    "prompt-lookup", "Prompt lookup",
    "Guesses that the text goes on as it did when its last words stood here before. Needs no second model, and helps "
    "where a reply repeats its prompt.",
    Needs.NOTHING, Shape.CHAIN,
)  # fmt: skip
LOOKAHEAD = MethodInfo(
    "lookahead", "Lookahead",
    "The model fills a window of future positions beside its own next token and keeps the n-grams that come up. Needs "
    "no second model, but many rows a pass.",
    Needs.NOTHING, Shape.WINDOW,
)  # fmt: skip
MEDUSA = MethodInfo(
    "medusa", "Medusa",
    "Several heads guess the next positions all at once; a fixed tree combines their likeliest tokens.",
    Needs.MEDUSA_HEADS, Shape.TREE,
    problem="It needs Medusa heads. Choose some that were made for this model.",
)  # fmt: skip
METHODS = (PLAIN, TREE, LOOKUP, LOOKAHEAD, MEDUSA)
