"""Methods and their settings on the command line, built from what the methods say of themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from engine.errors import PromptError
from engine.settings import MethodInfo, MethodSetting, SettingKind, SettingValue


class QuietDefaults(argparse.HelpFormatter):
    """Tells a default that says something: none is left to guess, and none is noise."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        told = action.default not in (None, "", False, argparse.SUPPRESS) and action.default != []
        if not text or not told or not action.option_strings or "%(default)" in text:
            return text
        return f"{text} (default: %(default)s)"


class HelpfulParser(argparse.ArgumentParser):
    """Its help ends with the methods where ``names_methods`` is set; only then they are imported."""

    names_methods = False

    def format_help(self) -> str:
        text = super().format_help()
        if self.names_methods:
            from engine.drafting.registry import METHODS

            text += "\n" + describe(method.info for method in METHODS)
        return text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for every command that makes a reply."""
    if isinstance(parser, HelpfulParser):
        parser.names_methods = True
    group = parser.add_argument_group("drafting", "the methods and their settings are listed below")
    group.add_argument("--method", default="", help="the model's own by default")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the method; may be given several times",
    )
    group.add_argument("--draft", default="", help="folder of a smaller model, for the method draft-model")
    group.add_argument(
        "--no-adapt", action="store_true", help="keep every size as it is, and draft also where it loses"
    )
    sampling = parser.add_argument_group("more about sampling")
    sampling.add_argument("--min-p", type=float, default=0.0, help="least share of the likeliest token")
    sampling.add_argument("--repetition-penalty", type=float, default=1.0, help="1 is off")
    sampling.add_argument("--presence-penalty", type=float, default=0.0, help="0 is off")
    sampling.add_argument("--frequency-penalty", type=float, default=0.0, help="0 is off")
    sampling.add_argument(
        "--no-repeat-ngram", type=int, default=0, help="so many tokens in a row never come twice; 0 is off"
    )
    sampling.add_argument(
        "--logit-bias", action="append", default=[], metavar="TOKEN=BIAS", help="token id and what is added"
    )


def generation_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fields of GenerationSettings that these options give. :class:`PromptError` for one that makes no sense."""
    return {
        "method": arguments.method,
        "options": read_options(arguments.method, arguments.set),
        "adapt": not arguments.no_adapt,
        "min_p": arguments.min_p,
        "repetition_penalty": arguments.repetition_penalty,
        "presence_penalty": arguments.presence_penalty,
        "frequency_penalty": arguments.frequency_penalty,
        "no_repeat_ngram": arguments.no_repeat_ngram,
        "logit_bias": tuple(_bias(text) for text in arguments.logit_bias),
    }


def read_options(method: str, pairs: Iterable[str]) -> tuple[tuple[str, SettingValue], ...]:
    """``name=value`` texts as options of ``method``; of any method that has the name where none is given."""
    pairs = list(pairs)
    if not pairs and not method:
        return ()
    from engine.drafting.method import parse_value
    from engine.drafting.registry import METHODS

    ids = [each.info.id for each in METHODS]
    if method and method not in ids:
        raise PromptError(f"There is no method “{method}”.", f"Choose one of {', '.join(ids)}.")
    known: dict[str, MethodSetting] = {}
    for each in METHODS:
        if not method or each.info.id == method:
            for setting in each.info.settings:
                known.setdefault(setting.name, setting)
    found: dict[str, SettingValue] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in known:
            what = f"“{pair}” is not a setting" + (f" of {method}." if method else ".")
            names = f"Write name=value with one of {', '.join(sorted(known))}."
            raise PromptError(what, names if known else f"{method} has none: leave it out.")
        found[name] = parse_value(known[name], text)
    return tuple(found.items())


def _bias(text: str) -> tuple[int, float]:
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError:
        raise PromptError(f"“{text}” is not a logit bias.", "Write a token id and a number: 42=-1.5.") from None


def describe(methods: Iterable[MethodInfo]) -> str:
    """The methods with their settings, for a terminal."""
    lines = ["methods:"]
    for info in methods:
        lines.append(f"  {info.id:<15}{info.name}. {info.about}")
        if info.problem:
            lines.append(f"{'':17}Not here: {info.problem}")
        for setting in info.settings:
            lines.append(f"{'':17}{setting.name}  {setting.meaning} {_values(setting)}")
    return "\n".join(lines) + "\n"


def _values(setting: MethodSetting) -> str:
    default = "chosen for this machine" if setting.default is None else _spelt(setting.default)
    if setting.kind is SettingKind.SWITCH:
        span = "on or off"
    elif setting.choices:
        lossy = [f"{_spelt(value)} changes the distribution" for value in setting.lossy]
        span = "; ".join([" or ".join(setting.choices), *lossy])
    elif setting.low is not None and setting.high is not None:
        span = f"{setting.low:g} to {setting.high:g}"
    else:
        span = "text"
    return f"({span}; default: {default})"


def _spelt(value: SettingValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
