"""What ``python -m engine download`` can be asked; imports nothing heavy."""

from __future__ import annotations

import argparse


def add_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("repository", help="the model's repository, such as Qwen/Qwen3-1.7B")
    sub.add_argument(
        "--head",
        default=None,
        metavar="REPOSITORY",
        help="also the EAGLE head of this repository, if it fits the model",
    )
    sub.add_argument("--anyway", action="store_true", help="download a head that does not fit, too")
    sub.add_argument("--revision", default="main", help="branch, tag or commit of the model")
    which = sub.add_mutually_exclusive_group()
    which.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="NAME",
        help="this file of weights instead of the usual ones, with all its parts; may be given several times",
    )
    which.add_argument(
        "--quant", default="", metavar="NAME", help="this GGUF quantisation, such as Q4_K_M or Q8_0"
    )
    sub.add_argument("--quiet", action="store_true", help="no progress, only the folders at the end")
