"""``python -m engine train``: from prompts to a head, in stages that each resume where they were killed."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

EAGLE3, EAGLE1, MEDUSA = KINDS = ("eagle3", "eagle1", "medusa")
STAGES = ("all", "replies", "train", "export")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options; imports nothing heavy."""
    parser.add_argument("--model", default="demo", help="folder of the target, or “demo”")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default=EAGLE3,
        help="what to train; EAGLE-2 uses eagle1 heads. eagle1 and medusa read the last layer's output, so replies "
        "for several kinds are written with, say, --taps 2,9,15,18",
    )
    parser.add_argument("--prompts", type=Path, help='file of prompts, one {"turns": ["..."]} a line')
    parser.add_argument("--work", type=Path, required=True, help="folder for replies, hidden states and checkpoints")
    parser.add_argument("--out", type=Path, help="folder for the finished head; in WORK where it is not given")
    parser.add_argument("--stage", choices=STAGES, default="all", help="run one stage only")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads (default: torch's choice)")
    replies = parser.add_argument_group("replies")
    replies.add_argument("--part", type=int, default=0, help="which share of the replies this process writes")
    replies.add_argument("--parts", type=int, default=1, help="into how many shares the replies are split")
    replies.add_argument("--reply-tokens", type=int, default=128, help="length limit of a reply")
    replies.add_argument(
        "--reply-vocabulary",
        type=Path,
        default=None,
        help="JSON list of token ids; replies use only these, which saves most of a small model's output layer",
    )
    head = parser.add_argument_group("head")
    head.add_argument("--taps", type=_layers, default=None, help="hidden states it reads, e.g. 2,9,15 (default: 2, L/2, L-3; for eagle1 and medusa the last)")
    head.add_argument("--draft-vocabulary", type=int, default=10240, help="tokens that an EAGLE-3 head can draft")
    head.add_argument("--heads", type=int, default=8, help="attention heads")
    head.add_argument("--kv-heads", type=int, default=4, help="key/value heads")
    head.add_argument("--head-dim", type=int, default=64, help="width of a head")
    head.add_argument("--intermediate-size", type=int, default=2048, help="width of the MLP")
    head.add_argument("--medusa-heads", type=int, default=4, help="tokens that Medusa heads guess, one head each")
    training = parser.add_argument_group("training")
    training.add_argument("--steps", type=int, default=1000, help="optimiser steps of the whole schedule")
    training.add_argument("--batch-rows", type=int, default=3072, help="reply tokens per step")
    training.add_argument("--unroll", type=_shares, default=(1.0, 0.7, 0.5, 0.35, 0.25),
                          help="share of rows drafted to each depth, e.g. 1,0.7,0.5")  # fmt: skip
    training.add_argument("--learning-rate", type=float, default=1e-3, help="for the output table and the norms")
    training.add_argument("--matrix-learning-rate", type=float, default=3e-3, help="for the layer's matrices")
    training.add_argument("--evaluate-every", type=int, default=75, help="steps between measurements")
    training.add_argument("--max-minutes", type=float, default=float("inf"), help="stop training after this time")


def run(arguments: argparse.Namespace) -> int:
    """Run the stages (raises EngineError for whatever the user can mend)."""
    import torch

    from engine.training import pipeline

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    stage = arguments.stage
    if stage in ("all", "replies"):
        pipeline.write_replies(arguments, _report)
    if stage in ("all", "train"):
        pipeline.train(arguments, _report)
    if stage in ("all", "export"):
        pipeline.export(arguments, _report)
    return 0


def _report(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def _layers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _shares(text: str) -> tuple[float, ...]:
    shares = tuple(float(part) for part in text.split(","))
    if not shares or any(not 0 < share <= 1 for share in shares) or list(shares) != sorted(shares, reverse=True):
        raise argparse.ArgumentTypeError("shares between 0 and 1 which do not grow")
    return shares
