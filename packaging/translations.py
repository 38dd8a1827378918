"""Brings the translations up to date with the sources, and compiles them.

    python packaging/translations.py            # update resources/translations/*.ts, make the .qm
    python packaging/translations.py --check    # only tell what is missing, stale or wrong

New texts come into the ``.ts`` files empty, to be translated with any editor or Qt Linguist; texts
that are gone are left out. ``lrelease``, which comes with PySide6, makes the ``.qm`` files that the
application reads. Both are kept in the repository, because users run Eyrie from a clone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from translation_files import FORMS, brought_up_to_date, faults, read, write
from translation_sources import Sources, collect

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "resources" / "translations"
COMMAND = "python packaging/translations.py"


def ts_path(language: str) -> Path:
    return FOLDER / f"eyrie_{language}.ts"


def qm_path(language: str) -> Path:
    return FOLDER / f"eyrie_{language}.qm"


def update(sources: Sources) -> None:
    """Write the ``.ts`` and ``.qm`` files of every language."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for language in FORMS:
        path = ts_path(language)
        write(path, language, brought_up_to_date(read(path), sources.texts, language))
        compile_to_qm(path, qm_path(language))


def compile_to_qm(source: Path, target: Path) -> None:
    """:raises subprocess.CalledProcessError: the file cannot be compiled."""
    import PySide6

    name = "lrelease.exe" if sys.platform == "win32" else "lrelease"
    tool = Path(PySide6.__file__).parent / name
    subprocess.run([str(tool), "-silent", str(source), "-qm", str(target)], check=True)


def check(sources: Sources) -> list[str]:
    """Everything that keeps the translations from being complete and right."""
    found = list(sources.faults)
    for language in FORMS:
        entries = read(ts_path(language))
        for context, text in sources.texts.keys() - entries.keys():
            found.append(f"{language}, {context}: “{text}” is missing; run {COMMAND}")
        for context, text in entries.keys() - sources.texts.keys():
            found.append(f"{language}, {context}: “{text}” is no longer said; run {COMMAND}")
        found += faults(language, entries)
    return sorted(found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Bring the translations up to date with the sources.")
    parser.add_argument("--check", action="store_true", help="change nothing, tell what is wrong")
    options = parser.parse_args(arguments)
    sources = collect(ROOT)
    if not options.check:
        update(sources)
    found = check(sources)
    print("\n".join(found) if found else f"{len(sources.texts)} texts in {len(FORMS)} languages: all well.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
