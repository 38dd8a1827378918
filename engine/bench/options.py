"""What ``python -m engine bench`` can be asked; imports nothing heavy."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompts",
        default=None,
        help="JSON lines with “turns” (and “category”); ten built-in prompts without it",
    )
    parser.add_argument("--limit", type=int, default=None, help="use this many prompts, spread over the file")
    parser.add_argument("--max-tokens", type=int, default=128, help="tokens of every reply")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampled replies")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="also time transformers in float32, and llama.cpp if it is installed",
    )
    parser.add_argument(
        "--peer-prompts",
        type=int,
        default=12,
        help="prompts that the slow peers answer, spread over the file",
    )
    parser.add_argument(
        "--llama-cpp-python", default=None, help="Python that has llama-cpp-python, if this one has not"
    )
    parser.add_argument("--output", default="bench-results", help="folder of the JSON report and the plot")
