"""The engine's command line: ``python -m engine chat | bench | train | inspect | download``.

Commands import what they need when they run, so that ``--help`` answers at once; only that of
``chat`` waits for torch, since the methods it lists describe themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from engine import __version__
from engine.commands.method_options import HelpfulParser, QuietDefaults
from engine.commands.method_options import add_arguments as add_method_arguments
from engine.errors import EngineError
from engine.hub.place import set_aside_endpoint
from engine.huge_pages import restart_with_huge_pages
from engine.paths import DATA_DIR_VARIABLE


def _chat(arguments: argparse.Namespace) -> int:
    from engine.commands.chat import run

    return run(arguments)


def _bench(arguments: argparse.Namespace) -> int:
    from engine.bench.command import run

    return run(arguments)


def _train(arguments: argparse.Namespace) -> int:
    from engine.training.cli import run

    return run(arguments)


def _inspect(arguments: argparse.Namespace) -> int:
    from engine.commands.inspect import run

    return run(arguments)


def _download(arguments: argparse.Namespace) -> int:
    from engine.commands.download import run

    return run(arguments)


def _hub_worker(arguments: argparse.Namespace) -> int:
    if arguments.data_dir:
        os.environ[DATA_DIR_VARIABLE] = arguments.data_dir
    from engine.hub.worker import connect

    connect(arguments.connect)
    return 0


def _worker(arguments: argparse.Namespace) -> int:
    from engine.worker import connect

    connect(arguments.connect)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the interpreter takes a second to let go of a model, the system none


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="python -m engine",
        description="Eyrie without its window: chat with a model, measure EAGLE, train a head.",
    )
    root.add_argument("--version", action="version", version=f"Eyrie {__version__}")
    commands = root.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=HelpfulParser
    )

    def add(
        name: str, action: Callable[[argparse.Namespace], int], text: str, more: str = ""
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}. {more}".strip(),
            formatter_class=QuietDefaults,
        )
        sub.set_defaults(run=action)
        return sub

    chat = add(
        "chat",
        _chat,
        "answer a message, or talk until Ctrl+D when none is given",
        "The reply streams to standard output; figures go to standard error.",
    )
    chat.add_argument("message", nargs="?", help="the message; without it a conversation is held")
    _model_options(chat)
    chat.add_argument("--no-eagle", action="store_true", help="decode plainly, one token per step")
    chat.add_argument("--compare", action="store_true", help="answer both ways and say whether they agree")
    chat.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    chat.add_argument("--top-p", type=float, default=1.0, help="keep the likeliest tokens up to this mass")
    chat.add_argument("--top-k", type=int, default=0, help="keep this many tokens; 0 keeps all")
    chat.add_argument("--max-tokens", type=int, default=256, help="length limit of the reply")
    chat.add_argument("--seed", type=int, default=None, help="makes sampling repeatable")
    chat.add_argument("--system", default="", help="a system message")
    chat.add_argument(
        "--thinking",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="thoughts before the answer, where the model's template can switch them",
    )
    chat.add_argument("--quiet", action="store_true", help="no progress, no figures")
    chat.add_argument(
        "--explain", action="store_true", help="say what was measured on this machine, and what is drafted"
    )
    _tree_options(chat)
    add_method_arguments(chat)

    bench = add(
        "bench",
        _bench,
        "measure speed, acceptance and where a step's time goes",
        "Ratios are taken within one run: the same prompts, interleaved, on the same machine.",
    )
    from engine.bench.options import add_arguments as bench_arguments

    _model_options(bench)
    bench_arguments(bench)
    _tree_options(bench)

    train = add(
        "train",
        _train,
        "train an EAGLE head or Medusa heads for a target on the target's own replies",
        "Every stage resumes where it was killed.",
    )
    from engine.training.cli import add_arguments as train_arguments

    train_arguments(train)

    inspect = add(
        "inspect",
        _inspect,
        "say what a model or a head is, what it pairs with and what memory it takes",
        "Of a repository on the hub only its configuration and the headers of its files are read.",
    )
    inspect.add_argument("path", help="a folder, a .gguf file, a repository such as Qwen/Qwen3-1.7B, or “demo”")
    inspect.add_argument("--target", default=None, help="also say whether the head fits this model (folder or repository)")
    inspect.add_argument("--head", default=None, help="also say whether this head fits the model (folder or repository)")

    download = add(
        "download",
        _download,
        "download a model, and its head, into the hub cache",
        "Ctrl+C pauses; the same command goes on where it stopped.",
    )
    from engine.hub.options import add_arguments as download_arguments

    download_arguments(download)

    # Not in the list of commands: they are for the application.
    hub_worker = commands.add_parser("hub-worker", description="Serve the application's model hub.")
    hub_worker.set_defaults(run=_hub_worker)
    hub_worker.add_argument("--data-dir", default=None, help="where the queue of downloads is kept")
    hub_worker.add_argument("--connect", required=True, help="address of the application's listener")

    worker = commands.add_parser("worker", description="Serve the application.")
    worker.set_defaults(run=_worker)
    worker.add_argument("--connect", required=True, help="address of the application's listener")
    return root


def _model_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--model", default="demo", help="a model folder, a .gguf file, or “demo”")
    sub.add_argument("--head", default=None, help="folder of the EAGLE head; the model's own by default")
    sub.add_argument("--device", default="", help="cpu or cuda; a GPU where there is one")
    sub.add_argument(
        "--format",
        default="",
        choices=["", "nf4", "int8", "bfloat16", "float16", "float32"],
        help="how weights are kept; nf4 on a GPU, int8 on a CPU",
    )
    sub.add_argument("--double-quant", action="store_true", help="nf4 that is 8 %% smaller, a little slower")
    sub.add_argument("--context", type=int, default=0, help="tokens of one chat; 0 is a usual length")


def _tree_options(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("draft tree", "chosen for this machine where not given")
    group.add_argument("--nodes", type=int, default=None, help="rows verified in one pass, root included")
    group.add_argument("--depth", type=int, default=None, help="levels below the root")
    group.add_argument("--tree-top-k", type=int, default=None, help="children considered per node")


def main(argv: Sequence[str] | None = None) -> int:
    set_aside_endpoint()
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except EngineError as error:
        print(f"{error.message}\n{error.next_step}".strip(), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141


if __name__ == "__main__":
    restart_with_huge_pages()
    sys.exit(main())
