"""Whether a head belongs to a target, judged in a process of its own.

The rules are :mod:`engine.heads.pairing`'s and need torch to be imported; the hub's
process stays small without it. The judge is started at the first question, reads one
JSON object a line, answers with one, and ends with its input or after a while of
silence.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from engine.hub.headers import Header
from engine.protocol.hub import PairReport, PairVerdict

ROOT = Path(__file__).resolve().parent.parent.parent
IDLE_SECONDS = 90.0
NOT_ASKED = PairReport(PairVerdict.UNKNOWN, ("It could not be checked whether this head fits.",))


def as_plain(header: Header | None) -> dict[str, Any] | None:
    """A header as ``HeadFacts`` and JSON want it."""
    if header is None:
        return None
    return {name: {"dtype": entry.dtype, "shape": list(entry.shape)} for name, entry in header.items()}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """A question of :class:`Judge`, answered; imports torch."""
    from engine.errors import EngineError, HeadError
    from engine.heads.facts import HeadFacts, TargetFacts, header
    from engine.heads.pairing import Fit, pair
    from engine.models.config import DecoderConfig

    try:
        if "gguf" in question:
            return _of_gguf(question["gguf"])
        if "head" not in question:
            DecoderConfig.from_hf(question["target"])
            return {"problem": ""}
        target = TargetFacts.from_config(
            question["target"], question["target_name"], question.get("template", "")
        )
        plain = question["header"]
        try:
            head = HeadFacts.from_files(
                question["head"], None if plain is None else header(plain), question["head_name"]
            )
        except HeadError as error:
            if plain is not None:
                raise
            # Its weights cannot be looked into from afar: what they would tell is not held against it.
            return {"problem": error.message, "verdict": PairVerdict.UNKNOWN, "reasons": [error.message]}
    except EngineError as error:
        return {"problem": error.message, "verdict": PairVerdict.NOT, "reasons": [error.message]}
    found = pair(target, head)
    names = {Fit.FITS: PairVerdict.FITS, Fit.CAVEAT: PairVerdict.CAVEAT, Fit.NOT: PairVerdict.NOT}
    return {"verdict": names[found.fit], "reasons": list(found.reasons), "format": str(head.format)}


def _of_gguf(path: str) -> dict[str, Any]:
    """``config.json`` and the chat template as a GGUF file's own settings give them."""
    from engine.models.gguf_families import family_of
    from engine.models.gguf_file import GGUFFile

    with GGUFFile(path) as file:
        template = "tokenizer.chat_template"
        return {
            "config": family_of(file).config(file),
            "template": file.text(template) if template in file.metadata else "",
        }


class Judge:
    """Asks :func:`answer` in another process. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._timer: threading.Timer | None = None

    def pair(
        self,
        target: dict[str, Any],
        target_name: str,
        head: dict[str, Any],
        header: Header | None,
        head_name: str,
        template: str = "",
    ) -> tuple[PairReport, str]:
        """The verdict, and the head's format as its files show it ("" where they do not).

        ``template`` is the source of the target's chat template, which tells whether it thinks.
        """
        found = self._ask(
            {
                "target": target,
                "target_name": target_name,
                "head": head,
                "header": as_plain(header),
                "head_name": head_name,
                "template": template,
            }
        )
        if found is None:
            return NOT_ASKED, ""
        reasons = tuple(str(reason) for reason in found["reasons"])
        return PairReport(PairVerdict(found["verdict"]), reasons), str(found.get("format", ""))

    def problem_of(self, target: dict[str, Any]) -> str:
        """Why the engine cannot run a target with this configuration, or ""."""
        found = self._ask({"target": target})
        return "" if found is None else str(found["problem"])

    def of_gguf(self, file: Path) -> tuple[dict[str, Any], str]:
        """A GGUF file's configuration and chat template, {} and "" where they cannot be read."""
        found = self._ask({"gguf": str(file)}) or {}
        config, template = found.get("config"), found.get("template")
        return (config if isinstance(config, dict) else {}), (template if isinstance(template, str) else "")

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        with self._lock:
            for _ in range(2):
                try:
                    if self._process is None:
                        self._process = self._start()
                    assert self._process.stdin and self._process.stdout
                    self._process.stdin.write(json.dumps(question) + "\n")
                    self._process.stdin.flush()
                    line = self._process.stdout.readline()
                    if line:
                        self._rest()
                        found: dict[str, Any] = json.loads(line)
                        return found
                except (OSError, ValueError):
                    pass
                self._end()
        return None

    @staticmethod
    def _start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "engine.hub.judging"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(IDLE_SECONDS, self.close)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    process.kill()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception as error:  # a configuration of strangers: anything may be wrong with it
            words = f"Its files cannot be understood ({type(error).__name__})."
            found = {"problem": words, "verdict": PairVerdict.UNKNOWN, "reasons": [words]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
