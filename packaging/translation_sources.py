"""Finds the texts that can be translated: those of ``app`` by their calls, those of ``engine`` by their form.

In ``app`` a text is an argument of ``tr``, ``tr_n`` or ``mark``. ``engine`` knows no language, so
that its texts are found where a reader would: whole sentences, names and meanings of methods and
their settings, and what it reports while it loads. The parts of an f-string that are filled in
become numbered fields: ``f"The prompt has {count} tokens."`` is kept as ``The prompt has {0} tokens.``
"""

from __future__ import annotations

import ast
import builtins
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ENGINE = "engine"
"""The context of the texts that come from the engine."""
LEFT_OUT = ("commands", "bench", "training", "__main__.py")
"""Parts of ``engine`` that speak to a terminal only."""
NAMED = {
    "MethodInfo": ("name", "about"),
    "MethodSetting": ("title", "meaning"),
    "Problem": ("message", "next_step"),
}
"""Descriptions: which of their fields are texts for people, however short. An id stands before them."""
REPORTS = ("report", "progress", "Loading")
"""What is said while something loads is the first argument of these."""
FAILURES = re.compile(r"[A-Z]\w*Error|Failed")
"""Calls whose arguments are told to the user; the built-in exceptions are not."""
CATALOGUE_TEXTS = ("notes", "speedup_source")
SENTENCES = re.compile(r"(?<=[.!?])\s+")
LETTERS = 8
"""A text with fewer letters of its own than this would be found in anything."""

Key = tuple[str, str]
"""Context and text."""


@dataclass
class Sources:
    """All texts of the project."""

    texts: dict[Key, bool] = field(default_factory=dict)
    """In the order found; whether they have plural forms."""
    faults: list[str] = field(default_factory=list)
    """Calls that cannot be understood, as ``file:line: why``."""

    def add(self, context: str, text: str, plural: bool, where: str) -> None:
        if self.texts.setdefault((context, text), plural) is not plural:
            self.faults.append(f"{where}: “{text}” has plural forms in one place and none in another")


def collect(root: Path) -> Sources:
    """The texts of the project that lies in ``root``."""
    found = Sources()
    for path in sorted((root / "app").rglob("*.py")):
        collect_app(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), found)
    for path in sorted((root / "engine").rglob("*.py")):
        if not set(path.relative_to(root / "engine").parts) & set(LEFT_OUT):
            for text in engine_texts(path.read_text(encoding="utf-8")):
                found.texts.setdefault((ENGINE, text), False)
    for text in catalogue_texts(root / "resources" / "catalog.toml"):
        found.texts.setdefault((ENGINE, text), False)
    return found


def catalogue_texts(path: Path) -> Iterator[str]:
    """What the list of known pairs says of them."""
    for pair in tomllib.loads(path.read_text(encoding="utf-8"))["pair"]:
        yield from (pair[name] for name in CATALOGUE_TEXTS if pair.get(name))


# --------------------------------------------------------------------------- app


def collect_app(source: str, name: str, found: Sources) -> None:
    """Put the texts of one file of ``app`` into ``found``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        where = f"{name}:{node.lineno}"
        called, arguments = node.func.id, node.args
        if called in ("tr", "mark") and len(arguments) == 2:
            context, text = _literal(arguments[0]), _literal(arguments[1])
            if context is None:
                if called == "mark" or not _is_reference(arguments[0]):
                    found.faults.append(f"{where}: the context is no literal")
            elif text is not None:
                found.add(context, text, False, where)
            elif called == "mark" or not _is_reference(arguments[1]):
                found.faults.append(f"{where}: the text is no literal")
        elif called == "tr_n" and len(arguments) == 4:
            context, one, many = (_literal(argument) for argument in arguments[:3])
            if context is None or one is None or many is None:
                found.faults.append(f"{where}: a text is no literal")
            else:
                found.add(context, many, True, where)
        elif called in ("tr", "mark", "tr_n"):
            found.faults.append(f"{where}: {called} takes other arguments")


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_reference(node: ast.expr) -> bool:
    """Whether it can name a text that was marked elsewhere."""
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


# --------------------------------------------------------------------------- engine


def engine_texts(source: str) -> Iterator[str]:
    """The texts of one file of ``engine``, with numbered fields."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and template(node.value) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    yield from _visit(tree, False, constants)


Constants = Mapping[str, ast.expr]
"""A module's texts by the name they were given."""


def _visit(node: ast.AST, asked: bool, constants: Constants) -> Iterator[str]:
    """``asked``: what stands here is a text for people even if it is no sentence."""
    if asked and isinstance(node, ast.Name) and node.id in constants:
        node = constants[node.id]
    if isinstance(node, ast.expr) and (text := template(node)) is not None:
        text = text.strip()
        short = asked and "{" not in text
        if asked or is_sentence(text):
            found = [text]
        else:  # a sentence or two between what is filled in
            parts = (re.sub(r"^(\{\d+\} )+(?=[A-Z])", "", part) for part in SENTENCES.split(text))
            found = [part for part in parts if is_sentence(part)]
        yield from (each for each in found if _letters(each) >= (1 if short else LETTERS))
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.Name):
        return  # a docstring
    if isinstance(node, ast.Assert):
        return
    if isinstance(node, ast.Call):
        yield from _visit_call(node, asked, constants)
        return
    if isinstance(node, ast.IfExp):
        yield from _visit(node.test, False, constants)
        yield from _visit(node.body, asked, constants)
        yield from _visit(node.orelse, asked, constants)
        return
    for child in ast.iter_child_nodes(node):
        yield from _visit(child, False, constants)


def _visit_call(node: ast.Call, asked: bool, constants: Constants) -> Iterator[str]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if ast.unparse(node.func).startswith(("log.", "logging.")):
        return
    telling = bool(FAILURES.fullmatch(called)) and not hasattr(builtins, called)
    named = NAMED.get(called, ())
    if isinstance(node.func, ast.Attribute):
        yield from _visit(node.func.value, asked, constants)
    for place, argument in enumerate(node.args):
        wanted = place in (1, 2) if named else telling or (called in REPORTS and place == 0)
        yield from _visit(argument, wanted, constants)
    for keyword in node.keywords:
        wanted = keyword.arg in named or (telling and keyword.arg in ("message", "next_step"))
        yield from _visit(keyword.value, wanted, constants)


def template(node: ast.expr) -> str | None:
    """A literal, an f-string or a sum of these with its fields numbered; ``None`` for anything else."""
    parts = list(_parts(node))
    if not any(isinstance(part, str) for part in parts):
        return None
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    number = -1
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part.replace("{", "{{").replace("}", "}}")
        else:
            number += 1
            text += f"{{{number}}}"
    return text


def _parts(node: ast.expr) -> Iterator[str | None]:
    """Literal parts as texts, others as ``None``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _parts(node.left)
        yield from _parts(node.right)
    else:
        yield None


def is_sentence(text: str) -> bool:
    """Whether somebody is spoken to: it begins and ends as a sentence does, and has words between."""
    begins = re.match(r"[A-Z“{]", text) is not None
    return begins and text[-1:] in (".", "!", "?") and " " in text and "\n" not in text


def _letters(text: str) -> int:
    return len(re.findall(r"[^\W\d_]", re.sub(r"\{[^}]*\}", "", text)))
