"""``python -m engine chat``: one answer, or a conversation, in the terminal."""

from __future__ import annotations

import argparse
import sys
import unicodedata
from collections.abc import Callable

from engine.calibration.at_load import explain
from engine.commands.method_options import generation_fields
from engine.errors import PromptError
from engine.generation import Session, Switches
from engine.loaded import LoadedModel, load_model
from engine.protocol import (
    Event,
    Finished,
    FinishReason,
    Generate,
    GenerationSettings,
    Load,
    Message,
    Mode,
    Role,
    Step,
    TreeSettings,
)
from engine.reply import run_reply
from engine.sampling import check


def run(arguments: argparse.Namespace) -> int:
    quiet = arguments.quiet
    if arguments.message is not None and not arguments.message.strip():
        raise PromptError("The message is empty.", "Write one, or leave it out to hold a conversation.")
    settings = GenerationSettings(
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        top_k=arguments.top_k,
        max_new_tokens=arguments.max_tokens,
        seed=arguments.seed,
        eagle=not arguments.no_eagle,
        tree=TreeSettings(arguments.nodes, arguments.depth, arguments.tree_top_k),
        thinking=arguments.thinking,
        **generation_fields(arguments),
    )
    check(settings)  # a slip of the keyboard should not wait for the model
    model = load_model(load_command(arguments), _progress(quiet))
    if not quiet:
        _clear_line()
        info = model.info
        print(f"{info.name} · {info.weight_format} · {info.device}", file=sys.stderr)
        if info.head_problem and not arguments.no_eagle:
            print(f"EAGLE is off: {info.head_problem}", file=sys.stderr)
        if info.notice:
            print(info.notice, file=sys.stderr)
        if arguments.thinking is not None and not info.thinking_optional:
            print("This model's template has no switch for thoughts.", file=sys.stderr)
    if settings.adapt:
        model = model.calibrated()
    history = [Message(Role.SYSTEM, arguments.system)] if arguments.system else []
    session = model.session()
    if arguments.message is not None:
        history.append(Message(Role.USER, arguments.message))
        if arguments.compare:
            return _compare(model, history, settings, quiet)
        _answer(model, session, history, settings, quiet)
        _explain(arguments, session)
        return 0
    code = _converse(model, session, history, settings, quiet)
    _explain(arguments, session)
    return code


def _explain(arguments: argparse.Namespace, session: Session) -> None:
    """What the last reply ended with; the sizes move with the chat."""
    if arguments.explain:
        print(explain(session.timing, session.pilot, session.limits), file=sys.stderr)


def load_command(arguments: argparse.Namespace) -> Load:
    """What the options of every command that loads a model ask for."""
    return Load(
        arguments.model,
        arguments.head,
        device=arguments.device,
        weight_format=arguments.format,
        double_quant=arguments.double_quant,
        context=arguments.context,
        draft=getattr(arguments, "draft", ""),
    )


def _converse(
    model: LoadedModel, session: Session, history: list[Message], settings: GenerationSettings, quiet: bool
) -> int:
    if sys.stdin.isatty():
        print("Type a message; Ctrl+D ends.", file=sys.stderr)
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return 0
        if not text.strip():
            continue
        history.append(Message(Role.USER, text))
        finished = _answer(model, session, history, settings, quiet)
        history.append(Message(Role.ASSISTANT, finished.text))


def _compare(model: LoadedModel, history: list[Message], settings: GenerationSettings, quiet: bool) -> int:
    from dataclasses import replace

    results = []
    # The first reply also reads the shared prompt; both start from a fresh session.
    for eagle in (False, True):
        print("— drafting —" if eagle else "— plain —", file=sys.stderr)
        results.append(_answer(model, model.session(), history, replace(settings, eagle=eagle), quiet))
    plain, eagle_reply = results
    if plain.stats.tokens_per_second:
        ratio = eagle_reply.stats.tokens_per_second / plain.stats.tokens_per_second
        print(f"Speed-up {ratio:.2f}×", file=sys.stderr)
    same = plain.token_ids == eagle_reply.token_ids
    if same:
        print("The replies are identical.", file=sys.stderr)
    else:
        pairs = zip(plain.token_ids, eagle_reply.token_ids, strict=False)
        length = min(len(plain.token_ids), len(eagle_reply.token_ids))
        where = next((i for i, (a, b) in enumerate(pairs) if a != b), length)
        print(f"The replies differ from token {where + 1} on.", file=sys.stderr)
    return 0


def _answer(
    model: LoadedModel, session: Session, history: list[Message], settings: GenerationSettings, quiet: bool
) -> Finished:
    prompt = model.prompt(history, settings.thinking)
    switches = Switches(settings.eagle)
    begun = False

    def send(event: Event) -> None:
        nonlocal begun
        if isinstance(event, Step):
            begun = True
            sys.stdout.write(_shown(event) if sys.stdout.isatty() else event.text)
            sys.stdout.flush()

    try:
        finished = run_reply(
            session,
            model.tokenizer,
            Generate("chat", tuple(history), settings),
            prompt,
            stop_strings=model.chat.stop_strings,
            end_tokens=model.chat.eos_token_ids,
            switches=switches,
            send=send,
            trees=False,
            thinking_tags=model.chat.thinking_tags,
        )
    finally:
        if begun:
            sys.stdout.write("\n")
            sys.stdout.flush()
    model.learn(session)
    if not quiet:
        print(figures(finished), file=sys.stderr)
        if finished.notice:
            print(finished.notice, file=sys.stderr)
    return finished


def _shown(step: Step) -> str:
    """A step's text for a terminal: thoughts dim, and nothing that a terminal would obey."""
    shown = []
    for piece in step.pieces:
        text = "".join(c for c in piece.text if c in "\n\t" or not unicodedata.category(c).startswith("C"))
        shown.append(f"\x1b[2m{text}\x1b[22m" if piece.thinking and text else text)
    return "".join(shown)


def figures(finished: Finished) -> str:
    """One line for people: tokens, speed, first token, tau, mode and why it ended."""
    stats = finished.stats
    parts = [
        f"{stats.new_tokens} tokens",
        f"{stats.tokens_per_second:.1f} tokens/s",
        f"first after {stats.time_to_first_token:.2f} s",
        f"{stats.reused_tokens}/{stats.prompt_tokens} prompt tokens reused",
    ]
    if stats.drafted_tokens:
        parts.append(f"τ {stats.acceptance_length:.2f}")
    how = {Mode.PLAIN: "off", Mode.EAGLE: "on", Mode.MIXED: "on and off"}[stats.mode]
    parts.append(f"{stats.method} {how}" if stats.method != "plain" else "plain")
    if finished.reason is FinishReason.LENGTH:
        parts.append("cut at the length limit")
    elif finished.reason is FinishReason.CONTEXT:
        parts.append("the context is full")
    return "[" + " · ".join(parts) + "]"


def _progress(quiet: bool) -> Callable[[str, float | None], None]:
    told: set[str] = set()

    def show(message: str, fraction: float | None) -> None:
        if quiet:
            return
        if not sys.stderr.isatty():
            if fraction is not None and message not in told:  # the long ones, a line each
                told.add(message)
                print(f"{message} …", file=sys.stderr)
        else:
            share = "" if fraction is None else f" {fraction:4.0%}"
            sys.stderr.write(f"\r\x1b[K{message}{share} …")
            sys.stderr.flush()

    return show


def _clear_line() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
