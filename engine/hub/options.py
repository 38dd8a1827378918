"""What ``python -m engine download`` can be asked; imports nothing heavy."""

from __future__ import annotations

import argparse


def add_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("repository", help="the model's repository, such as Qwen/Qwen3-1.7B")
    sub.add_argument(
        "--head", default=None, metavar="REPOSITORY", help="also the EAGLE head of this repository"
    )
    sub.add_argument("--revision", default="main", help="branch, tag or commit of the model")
    sub.add_argument("--file", action="append", default=[], help="these weights instead of the usual ones")
    sub.add_argument("--quiet", action="store_true", help="no progress, only the folders at the end")
