"""``python -m engine bench``: runs the prompts, prints the tables, writes JSON and pictures."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from engine.bench import equipment, report
from engine.bench.batch import BatchBench
from engine.bench.batch_figures import EXPLANATION, BatchFigures, batch_table, measure_batches
from engine.bench.measure import Bench
from engine.bench.memory import memory_added
from engine.bench.options import numbers
from engine.bench.peers import PeerRows, peer_lines, start_peers
from engine.bench.plots import plot, require_matplotlib
from engine.bench.progress import Progress, say
from engine.bench.prompts import BenchPrompt, per_category, read_prompts, spread
from engine.bench.published import BATCHES
from engine.bench.rows import SHORT_REPLY
from engine.bench.store import Store
from engine.bench.summary import Result, results
from engine.bench.sweep import plain_rate, sentence, standings, sweep_table, verdict
from engine.bench.variants import Variant, grid, parse_methods
from engine.errors import PromptError
from engine.loaded import LoadedModel
from engine.protocol import GenerationSettings, TreeSettings
from engine.sampling import check

USUAL_TEMPERATURES = "0,1"


def run(arguments: argparse.Namespace) -> int:
    """Everything that can be wrong is told before a model is loaded."""
    tree = TreeSettings(arguments.nodes, arguments.depth, arguments.tree_top_k)
    base = GenerationSettings(
        max_new_tokens=arguments.max_tokens,
        seed=arguments.seed,
        tree=tree,
        adapt=not arguments.no_adapt and not arguments.identity,
    )
    check(base)
    asked = parse_methods(arguments.methods, tree) if arguments.methods else []
    temperatures = numbers(
        arguments.temperatures or ("0" if arguments.sweep else USUAL_TEMPERATURES), float, "temperatures"
    )
    sizes = numbers(arguments.batch, int, "batch sizes") if arguments.batch else []
    if arguments.grid and asked:
        grid(asked[0].method, arguments.grid)
    if (arguments.sweep or sizes) and len(asked) > 1:
        raise PromptError("A sweep and a batch look at one method at a time.", "Name one with --methods.")
    if arguments.repeats < 1:
        raise PromptError(f"The number of repeats is {arguments.repeats}.", "It must be 1 or more.")
    prompts = spread(read_prompts(arguments.prompts), arguments.limit)
    prompts = per_category(prompts, arguments.prompts_per_category)
    if arguments.plots:
        require_matplotlib()
    model = equipment.load(arguments)
    variants, missing = equipment.usable(model, asked or [Variant(model.info.method)])
    if sizes:
        return _batches(model, variants[0], base, prompts, sizes, arguments)
    if arguments.sweep:
        variants = [Variant(variants[0].method), *grid(variants[0].method, arguments.grid)]
    bench = Bench(model, variants, base)
    store = Store(
        Path(arguments.json) if arguments.json else None,
        _about(model, arguments, variants, temperatures, prompts),
    )
    if arguments.resume:
        store.resume()
    peer_rows = _measure(bench, store, prompts, temperatures, arguments)
    if not store.rows:
        print("Nothing was measured.", file=sys.stderr)
        return 130
    if arguments.sweep:
        return _sweep(store, variants, temperatures, arguments)
    found = results(store.rows, variants, temperatures, store.memory)
    store.write(
        {"results": [each.to_json() for each in found], "missing": missing, "peers": peer_lines(peer_rows)}
    )
    title = (
        f"{model.info.name} in {model.info.weight_format}, {_device(model)}; replies of at most "
        f"{arguments.max_tokens} tokens, medians over those of at least {SHORT_REPLY}."
    )
    _print(found, missing, peer_lines(peer_rows), arguments, title)
    if arguments.plots:
        for path in plot(found, Path(arguments.plots), f"{model.info.name}, {_device(model)}"):
            print(f"Picture: {path}")
    return 0


# --------------------------------------------------------------------------- measuring


def _measure(
    bench: Bench,
    store: Store,
    prompts: Sequence[BenchPrompt],
    temperatures: Sequence[float],
    arguments: argparse.Namespace,
) -> PeerRows:
    """Fill the store; Ctrl+C keeps what is there."""
    left = [
        (repeat * len(prompts) + place, prompt, temperature, repeat)
        for repeat in range(arguments.repeats)
        for place, prompt in enumerate(prompts)
        for temperature in temperatures
        if not store.has(prompt.name, temperature, repeat)
    ]
    peers = start_peers(bench.model, arguments.llama_cpp_python) if arguments.compare else []
    chosen = {prompt.name for prompt in spread(prompts, arguments.peer_prompts)}
    found: PeerRows = {peer.name: [] for peer in peers}
    progress = Progress(len(left))
    try:
        if left and not arguments.identity:
            bench.ask(prompts[0], left[0][2], 0)  # warms caches; not counted
        for turn, prompt, temperature, repeat in left:
            rows = bench.ask(prompt, temperature, turn, repeat)
            store.rows += rows
            store.memory |= _memory(bench)
            store.write()
            if (
                prompt.name in chosen
                and temperature == 0
                and not repeat
                and all(row.long_enough for row in rows)
            ):
                for peer in peers:
                    rate = peer.tokens_per_second(bench.prompt_ids(prompt), rows[0].tokens)
                    found[peer.name].append((rate, {row.variant: row.rate for row in rows}))
            progress.step("replies" if len(temperatures) * arguments.repeats > 1 else "prompts")
    except KeyboardInterrupt:
        print(f"\nStopped; {len(left) - progress.left} of {len(left)} were measured.", file=sys.stderr)
    finally:
        for peer in peers:
            peer.close()
    say("")
    return found


def _memory(bench: Bench) -> dict[str, int]:
    """Bytes that each variant's drafter holds after the last reply."""
    return {
        variant.label: memory_added(drafter, bench.model.decoder)
        for variant, drafter in bench.drafters.items()
    }


def _batches(
    model: LoadedModel,
    variant: Variant,
    base: GenerationSettings,
    prompts: Sequence[BenchPrompt],
    sizes: Sequence[int],
    arguments: argparse.Namespace,
) -> int:
    method, options = model.methods.choose(variant.settings(base))
    limits = model.session().limits_for(variant.settings(base))
    bench = BatchBench(model, method, options, limits, arguments.max_tokens)
    asking = Bench(model, [variant], base)
    progress = Progress(len(prompts))
    read = []
    for each in bench.read([(prompt.name, asking.prompt_ids(prompt)) for prompt in prompts]):
        read.append(each)
        progress.step("prompts read")
    found: list[BatchFigures] = []
    try:
        for figures in measure_batches(bench, read, sizes, say):
            found.append(figures)
            print(f"{figures.sequences} sequences: {figures.speed_up:.2f}×", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
    say("")
    title = (
        f"{variant.name} with up to {limits.nodes} rows and {limits.depth} levels a sequence, {len(prompts)} prompts, "
        f"at most {arguments.max_tokens} tokens a reply"
    )
    table = batch_table(found)
    print(title, report.markdown_table(table) if arguments.markdown else report.aligned(table), sep="\n\n")
    print("", EXPLANATION, *([BATCHES] if arguments.markdown else []), sep="\n")
    about = _about(model, arguments, [variant], [0.0], prompts)
    figures_json = [{name: getattr(each, name) for name in each.__slots__} for each in found]
    Store(Path(arguments.json) if arguments.json else None, about).write({"batches": figures_json})
    return 0 if found else 130


# --------------------------------------------------------------------------- telling


def _sweep(
    store: Store, variants: Sequence[Variant], temperatures: Sequence[float], arguments: argparse.Namespace
) -> int:
    figures: list[dict[str, Any]] = []
    for temperature in temperatures:
        table = sweep_table(standings(store.rows, variants, temperature), plain_rate(store.rows, temperature))
        print(f"\nTemperature {temperature:g}")
        print(report.markdown_table(table) if arguments.markdown else report.aligned(table))
        found = verdict(store.rows, variants, temperature)
        if found is not None:
            print(sentence(found))
            figures.append(
                {
                    "temperature": temperature,
                    "best": found.best.variant.label,
                    "ratio": found.ratio,
                    "low": found.low,
                    "high": found.high,
                    "crossed": asdict(found.crossed) if found.crossed is not None else None,
                }
            )
    store.write({"sweep": figures})
    return 0


def _print(
    found: Sequence[Result],
    missing: dict[str, str],
    peers: dict[str, str],
    arguments: argparse.Namespace,
    title: str,
) -> None:
    if arguments.identity:
        table = report.identity_table(found)
        print(report.markdown_table(table) if arguments.markdown else report.aligned(table))
        for name, reason in missing.items():
            print(f"Not measured: {name}. {reason}")
    elif arguments.markdown:
        print(report.markdown(found, missing, peers, title))
    else:
        print(report.terminal(found, missing, peers))
    wrong = [each for each in found if each.same_text and each.identical < each.replies]
    for each in wrong:
        print(
            f"{each.variant.label}, temperature {each.temperature:g}: {each.replies - each.identical} replies differ "
            "from plain decoding; on a GPU near-ties can fall the other way, on the CPU path that is a fault.",
            file=sys.stderr,
        )


def _about(
    model: LoadedModel,
    arguments: argparse.Namespace,
    variants: Sequence[Variant],
    temperatures: Sequence[float],
    prompts: Sequence[BenchPrompt],
) -> dict[str, Any]:
    """What the rows depend on."""
    return {
        "model": model.info.name,
        "head": model.info.head_name,
        "medusa_head": arguments.medusa_head,
        "draft": arguments.draft,
        "device": _device(model),
        "torch": torch.__version__,
        "prompts": len(prompts),
        "max_tokens": arguments.max_tokens,
        "temperatures": list(temperatures),
        "seed": arguments.seed,
        "tree": [arguments.nodes, arguments.depth, arguments.tree_top_k],
        "adapt": not arguments.no_adapt and not arguments.identity,
        "variants": [variant.label for variant in variants],
    }


def _device(model: LoadedModel) -> str:
    return f"{model.info.device}, {_processor()}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
