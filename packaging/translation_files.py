"""Reads and writes Qt's ``.ts`` files, and tells what is wrong with a translation.

Only what Eyrie uses of the format: contexts, sources, translations, plural forms, and whether a
translation is finished. Entries are sorted, so that a change of one text changes one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from translation_sources import Key

FORMS = {"de": 2, "ja": 1, "zh_CN": 1}
"""Our languages, and how many plural forms each has."""
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n'


@dataclass(frozen=True, slots=True)
class Entry:
    """One text and its translation: one form, or as many as the language has."""

    forms: tuple[str, ...]
    plural: bool = False

    @property
    def is_finished(self) -> bool:
        return all(self.forms)


def empty(language: str, plural: bool) -> Entry:
    """What a new text begins with."""
    return Entry(("",) * (FORMS[language] if plural else 1), plural)


def read(path: Path) -> dict[Key, Entry]:
    """The entries of a file; none where there is no file.

    :raises ElementTree.ParseError: the file is no XML
    """
    if not path.exists():
        return {}
    found: dict[Key, Entry] = {}
    for context in ElementTree.parse(path).getroot().iter("context"):
        name = context.findtext("name", "")
        for message in context.iter("message"):
            plural = message.get("numerus") == "yes"
            translation = message.find("translation")
            assert translation is not None, f"{path}: a message of {name} has no translation"
            forms = [form.text or "" for form in translation.iter("numerusform")]
            texts = tuple(forms) if plural else (translation.text or "",)
            found[name, message.findtext("source", "")] = Entry(texts, plural)
    return found


def write(path: Path, language: str, entries: Mapping[Key, Entry]) -> None:
    """Write all entries, sorted; what is not translated is marked as unfinished."""
    lines = [f'{HEAD}<TS version="2.1" language="{language}" sourcelanguage="en">']
    contexts = sorted({context for context, _ in entries})
    for context in contexts:
        lines += ["<context>", f"    <name>{escape(context)}</name>"]
        for (_, source), entry in sorted(item for item in entries.items() if item[0][0] == context):
            state = "" if entry.is_finished else ' type="unfinished"'
            lines.append('    <message numerus="yes">' if entry.plural else "    <message>")
            lines.append(f"        <source>{escape(source)}</source>")
            if entry.plural:
                lines.append(f"        <translation{state}>")
                lines += [f"            <numerusform>{escape(form)}</numerusform>" for form in entry.forms]
                lines.append("        </translation>")
            else:
                lines.append(f"        <translation{state}>{escape(entry.forms[0])}</translation>")
            lines.append("    </message>")
        lines.append("</context>")
    lines.append("</TS>\n")
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")


def brought_up_to_date(
    entries: Mapping[Key, Entry], texts: Mapping[Key, bool], language: str
) -> dict[Key, Entry]:
    """The entries for ``texts``: translations that are there stay, what is gone is left out."""
    return {
        key: entries[key] if key in entries and entries[key].plural is plural else empty(language, plural)
        for key, plural in texts.items()
    }


def fields(text: str) -> list[tuple[str, str, str]] | None:
    """The placeholders of a text, sorted; ``None`` where its braces mean something else."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return None
    return sorted((name, spec or "", way or "") for _, name, spec, way in parts if name is not None)


def faults(language: str, entries: Mapping[Key, Entry]) -> Iterable[str]:
    """What a reader would stumble over, or the program could not use."""
    for (context, source), entry in entries.items():
        where = f"{language}, {context}: “{source}”"
        if not entry.is_finished:
            yield f"{where} is not translated"
            continue
        if len(entry.forms) != (FORMS[language] if entry.plural else 1):
            yield f"{where} has {len(entry.forms)} forms"
        if entry.plural and "%n" in source and "%n" not in entry.forms[-1]:  # that of one may do without
            yield f"{where} has no %n"
        for form in entry.forms:
            if fields(form) != fields(source):
                yield f"{where} has other placeholders: “{form}”"
            if form != form.strip() and source == source.strip():
                yield f"{where} begins or ends with a space: “{form}”"
