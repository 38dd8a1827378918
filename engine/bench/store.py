"""The bench's JSON: what was measured, reply by reply, written after every prompt so that nothing is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.bench.rows import Row
from engine.errors import EngineError


@dataclass
class Store:
    """Rows of one bench, and where they are kept; without a ``path`` nowhere."""

    path: Path | None
    about: Mapping[str, Any]
    """What the rows depend on: model, methods, lengths. Rows of another bench are not added to."""
    rows: list[Row] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    """Bytes beside the target's that each variant held when it was last measured."""

    def resume(self) -> None:
        """Take over the rows of the file. Raises :class:`EngineError` for that of another bench."""
        if self.path is None:
            raise EngineError("There is nothing to resume.", "Name the file with --json.")
        if not self.path.exists():
            return
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            about, rows = kept["about"], [Row.from_json(raw) for raw in kept["rows"]]
            memory = {str(name): int(size) for name, size in kept.get("memory", {}).items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise EngineError(
                f"{self.path} holds no bench: {error}.", "Name another file with --json."
            ) from error
        ours = json.loads(json.dumps(self.about))
        differing = sorted(name for name in {*ours, *about} if ours.get(name) != about.get(name))
        if differing:
            raise EngineError(
                f"{self.path} holds a bench with another {', '.join(differing)}.",
                "Repeat the options that it was begun with, or name another file with --json.",
            )
        self.rows, self.memory = rows, memory

    def has(self, prompt: str, temperature: float, repeat: int = 0) -> bool:
        asked = (prompt, temperature, repeat)
        return any((row.prompt, row.temperature, row.repeat) == asked for row in self.rows)

    def write(self, more: Mapping[str, Any] | None = None) -> None:
        """Everything so far; ``more`` are figures made of it. A file is replaced only by a whole one."""
        if self.path is None:
            return
        date = datetime.now(UTC).isoformat(timespec="seconds")
        rows = [row.to_json() for row in self.rows]
        whole = {"date": date, "about": self.about, "memory": self.memory, **(more or {}), "rows": rows}
        part = self.path.with_name(self.path.name + ".part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(whole, indent=1, ensure_ascii=False), encoding="utf-8")
            os.replace(part, self.path)
        except OSError as error:
            raise EngineError(
                f"{self.path} cannot be written: {error.strerror or error}.", "Name another file with --json."
            ) from error
