"""Text files put into a prompt: read, written as a block of code, and found again in it.

In the prompt's text a file is a fenced block whose info string is ``file`` and its name, at the
end. So a draft, a stored prompt and one that is edited again all keep their files, and the
model reads plain text. No widgets here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from app.language import numbers, tr, tr_n
from app.text_files import decoded

MOST_BYTES = 256 * 1024
"""About 64,000 tokens: more than the context of most models that fit a home computer."""
_OPENING = re.compile(r"(`{3,})file ([^\n`]+)")


class AttachmentError(Exception):
    """A file that cannot be attached: what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file's name and its text."""

    name: str
    text: str

    @property
    def size(self) -> str:
        """For people."""
        length = len(self.text.encode("utf-8", "replace"))
        if length < 1024:
            return tr_n("Composer", "{count} byte", "{count} bytes", length).format(count=numbers.whole(length))
        return tr("Composer", "{count} kB").format(count=numbers.decimal(length / 1024, 0))

    def block(self) -> str:
        """The file as a fenced block; the fence is longer than any in the text."""
        longest = max((len(run) for run in re.findall(r"`+", self.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}file {self.name}\n{self.text}\n{fence}"


def read(path: Path) -> Attachment:
    """The text of a file. :raises AttachmentError: it is no text, too large, or cannot be read."""
    name = re.sub(r"[\x00-\x1f`]", " ", path.name).strip() or "file"
    try:
        if not path.is_file():
            raise AttachmentError(
                tr("Composer", "“{name}” is not a file. Choose single text files.").format(name=name)
            )
        size = path.stat().st_size
        if size > MOST_BYTES:
            refused = tr(
                "Composer",
                "“{name}” is too large ({size} kB; at most {most} kB can be attached). Attach a part of it.",
            )
            most = numbers.whole(MOST_BYTES // 1024)
            raise AttachmentError(
                refused.format(name=name, size=numbers.decimal(size / 1024, 0), most=most)
            )
        raw = path.read_bytes()[: MOST_BYTES + 1]
    except OSError as error:
        raise AttachmentError(
            tr("Composer", "“{name}” could not be read: {reason}. Check that you may open it.").format(
                name=name, reason=error.strerror or error
            )
        ) from error
    try:
        text = decoded(raw)
    except UnicodeDecodeError as error:
        raise AttachmentError(
            tr("Composer", "“{name}” is not text in UTF-8. Save it as UTF-8 text and attach that.").format(name=name)
        ) from error
    if not text.strip():
        raise AttachmentError(tr("Composer", "“{name}” is empty. Choose a file with text in it.").format(name=name))
    if "\0" in text:
        raise AttachmentError(
            tr("Composer", "“{name}” is not a text file. Only text can be attached.").format(name=name)
        )
    return Attachment(name, text.replace("\r\n", "\n").rstrip("\n"))


def joined(text: str, attachments: list[Attachment]) -> str:
    """A prompt's text with its files behind it."""
    return "\n\n".join(part for part in (text, *(each.block() for each in attachments)) if part)


def parted(text: str) -> tuple[str, list[Attachment]]:
    """What was typed, and the files behind it: the reverse of :func:`joined`."""
    if "```file " not in text:
        return text, []
    lines = text.split("\n")
    found: list[Attachment] = []
    typed = place = 0
    while place < len(lines):
        opening = _OPENING.fullmatch(lines[place])
        if opening is None:
            if lines[place].strip():
                # Something follows: the blocks before it belong to what was typed.
                found, typed = [], place + 1
            place += 1
            continue
        try:
            end = lines.index(opening[1], place + 1)
        except ValueError:
            return text, []
        found.append(Attachment(opening[2], "\n".join(lines[place + 1 : end])))
        place = end + 1
    head = "\n".join(lines[:typed])
    return (head, found) if joined(head, found) == text else (text, [])
