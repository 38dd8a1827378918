"""What ``python -m engine bench`` can be asked; imports nothing heavy."""

from __future__ import annotations

import argparse
import math
from typing import TypeVar

from engine.errors import PromptError

Number = TypeVar("Number", int, float)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "--methods",
        default="",
        metavar="LIST",
        help="“all”, or method[:name=value,…] separated by commas; the model's own without it. "
        "“chat --help” lists the methods and their settings",
    )
    what.add_argument("--medusa-head", default="", help="folder of Medusa heads, beside the EAGLE head")
    what.add_argument("--draft", default="", help="folder of a smaller model, for the method draft-model")
    what.add_argument(
        "--no-adapt", action="store_true", help="keep every size as it is, and draft also where it loses"
    )
    what.add_argument(
        "--temperatures",
        default="",
        metavar="LIST",
        help="0 is greedy; 0,1 unless something else measures at 0",
    )
    what.add_argument("--seed", type=int, default=0, help="seed of the sampled replies")
    what.add_argument("--max-tokens", type=int, default=128, help="tokens of every reply")

    which = parser.add_argument_group("on which prompts")
    which.add_argument(
        "--prompts",
        default=None,
        help="JSON lines with “turns” (and “category”); ten built-in ones without it",
    )
    which.add_argument(
        "--prompts-per-category", type=int, default=None, metavar="N", help="N of each category"
    )
    which.add_argument(
        "--repeats",
        type=int,
        default=1,
        metavar="N",
        help="answer every prompt N times, going through all of them each time; what differs between the rounds is noise",
    )
    which.add_argument("--limit", type=int, default=None, help="use this many prompts, spread over the file")

    other = parser.add_argument_group("instead of the table of methods")
    other.add_argument(
        "--identity",
        action="store_true",
        help="no timing: count the replies that are those of plain decoding, sizes kept as they are",
    )
    other.add_argument(
        "--batch", default="", metavar="LIST", help="1,2,4,8,16: so many sequences share the model's pass"
    )
    other.add_argument(
        "--sweep", action="store_true", help="fixed sizes of one method against those that the engine chooses"
    )
    other.add_argument(
        "--grid", default="", metavar="LIST", help="of the sweep: name=value,value;name=value,…"
    )

    peers = parser.add_argument_group("beside other programs")
    peers.add_argument(
        "--compare",
        action="store_true",
        help="also time transformers in float32, and llama.cpp if it is installed",
    )
    peers.add_argument(
        "--peer-prompts",
        type=int,
        default=12,
        help="prompts that the slow peers answer, spread over the file",
    )
    peers.add_argument(
        "--llama-cpp-python", default=None, help="Python that has llama-cpp-python, if this one has not"
    )

    out = parser.add_argument_group("what becomes of it")
    out.add_argument("--json", default="", metavar="FILE", help="write everything there, after every prompt")
    out.add_argument(
        "--resume", action="store_true", help="go on with what the file of --json holds of the same bench"
    )
    out.add_argument(
        "--markdown", action="store_true", help="print for a README, with the published figures beside ours"
    )
    out.add_argument("--plots", default="", metavar="DIR", help="draw pictures there (needs matplotlib)")


def numbers(text: str, kind: type[Number], what: str) -> list[Number]:
    """``1,2,4`` as numbers, each once. :class:`PromptError` for anything else, and below 1 for whole ones."""
    try:
        found = [kind(part) for part in text.split(",")]
    except ValueError:
        found = []
    least = 1 if kind is int else 0
    if not found or not all(least <= number < math.inf for number in found):
        raise PromptError(f"“{text}” is no list of {what}.", "Write numbers with commas, such as 1,2,4.")
    return list(dict.fromkeys(found))
