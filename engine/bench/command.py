"""``python -m engine bench``: runs the prompts, prints the table, writes JSON and a plot."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from engine.bench.measure import Bench, BenchPrompt, Pair, read_prompts, spread
from engine.bench.peers import LlamaCppPeer, Peer, TransformersPeer, demo_gguf
from engine.bench.report import plot, table
from engine.bench.summary import summarise
from engine.errors import EngineError, HeadError
from engine.loaded import LoadedModel, load_model
from engine.protocol import GenerationSettings, Load, TreeSettings

PeerRows = dict[str, list[tuple[float, float, float]]]


def run(arguments: argparse.Namespace) -> int:
    prompts = read_prompts(arguments.prompts, arguments.limit)
    model = load_model(Load(arguments.model, arguments.head), lambda message, _: _say(message))
    if model.head is None:
        raise HeadError(model.info.head_problem or "There is no EAGLE head.", "Name one with --head.")
    settings = GenerationSettings(
        temperature=arguments.temperature,
        max_new_tokens=arguments.max_tokens,
        seed=arguments.seed,
        tree=TreeSettings(arguments.nodes, arguments.depth, arguments.tree_top_k),
    )
    bench = Bench(model, settings)
    peers = _peers(model, arguments) if arguments.compare else []
    chosen = {prompt.name for prompt in spread(prompts, arguments.peer_prompts)}
    bench.pair(prompts[0], True)  # warms caches and reads the shared prompt; not counted
    pairs: list[Pair] = []
    rows: PeerRows = {peer.name: [] for peer in peers}
    began = time.monotonic()
    try:
        for index, prompt in enumerate(prompts):
            pair = bench.pair(prompt, eagle_first=index % 2 == 0)
            pairs.append(pair)
            if prompt.name in chosen:
                _ask_peers(bench, prompt, pair, peers, rows)
            left = (time.monotonic() - began) / (index + 1) * (len(prompts) - index - 1)
            _say(f"{index + 1}/{len(prompts)} prompts, about {left:.0f} s left")
    except KeyboardInterrupt:
        if not pairs:
            raise
        _say(f"Stopped after {len(pairs)} prompts.")
    finally:
        for peer in peers:
            peer.close()
    _say("")
    summary = summarise(pairs, rows)
    summary["model"] = model.info.name
    summary["head"] = model.info.head_name
    summary["device"] = f"{model.info.device}, {_processor()}"
    summary["tree"] = {
        "nodes": arguments.nodes or model.limits.nodes,
        "depth": arguments.depth or model.limits.depth,
        "top_k": arguments.tree_top_k or model.limits.top_k,
    }
    summary["temperature"] = arguments.temperature
    summary["max_tokens"] = arguments.max_tokens
    summary["torch"] = torch.__version__
    summary["date"] = datetime.now(UTC).isoformat(timespec="seconds")
    print(table(summary))
    _write(summary, Path(arguments.output))
    return 0


def _peers(model: LoadedModel, arguments: argparse.Namespace) -> list[Peer]:
    _say("Loading transformers for the comparison")
    peers: list[Peer] = [TransformersPeer(Path(model.info.path))]
    if model.info.is_demo:
        try:
            _say("Loading llama.cpp for the comparison")
            peers.append(LlamaCppPeer(demo_gguf(), torch.get_num_threads(), arguments.llama_cpp_python))
        except EngineError as error:
            print(f"{error.message} {error.next_step}", file=sys.stderr)
    return peers


def _ask_peers(bench: Bench, prompt: BenchPrompt, pair: Pair, peers: list[Peer], rows: PeerRows) -> None:
    if not pair.long_enough:
        return
    for peer in peers:
        speed = peer.tokens_per_second(bench.prompt_ids(prompt), pair.plain.stats.new_tokens)
        row = (speed, pair.plain.stats.tokens_per_second, pair.eagle.stats.tokens_per_second)
        rows[peer.name].append(row)


def _write(summary: dict[str, object], folder: Path) -> None:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"bench-{stamp}.json"
    path.write_text(json.dumps(summary, indent=1, ensure_ascii=False), encoding="utf-8")
    print(f"\nReport: {path}")
    picture = path.with_suffix(".png")
    try:
        plot(summary, picture)
        print(f"Plot:   {picture}")
    except ImportError:
        print("No plot: matplotlib is not installed (pip install matplotlib).")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _say(message: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{message}")
        sys.stderr.flush()
