"""The card of a trained head: what it is, how it was made and how well it drafts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.heads.checkpoint import Checkpoint
from engine.heads.config import Eagle3Config, EagleConfig
from engine.heads.medusa import MedusaConfig
from engine.training.recipe import Recipe

CURVES = "training.png"


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The measurements of a run, oldest first; a run that was killed may repeat a step, the later one counts."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list({line["step"]: line for line in lines}.values())


def draw_curves(metrics: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Draw loss and acceptance over the steps as PNG; false when matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    steps = [line["step"] for line in metrics]
    left.plot(steps, [line["loss"] for line in metrics], color="#8a6d3b")
    left.set(xlabel="step", ylabel="cross-entropy at depth 1", title="Training loss")
    for kind, colour in (("greedy", "#1f6feb"), ("sampled", "#bf5700")):
        points = [(line["step"], line[kind]["chain_length"], line[kind]["tree_length"]) for line in metrics if kind in line]
        if points:
            xs, chain, tree = zip(*points, strict=True)
            right.plot(xs, tree, color=colour, label=f"{kind}, tree")
            right.plot(xs, chain, color=colour, linestyle="--", label=f"{kind}, chain")
    right.set(xlabel="step", ylabel="tokens per target pass", title="Held-out acceptance length")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    return True


def write_card(
    folder: Path, head: Checkpoint, recipe: Recipe[Any], measured: Mapping[str, Any], curves: bool, terms: str = ""
) -> None:
    """Write ``README.md`` beside a head; ``measured`` is the last line of its metrics, ``terms`` the target's licence."""
    config = head.config
    target = config.target_name or "its target"
    kind = f" ({config.target_model_type})" if isinstance(config, EagleConfig) and config.target_model_type else ""
    name = recipe.title.split(" ", 1)[1]
    lines = [
        f"# {name[0].upper()}{name[1:]} for {target}",
        "",
        f"Drafts for {target}{kind} in Eyrie, and in anything else that reads the public format of {recipe.title}.",
        "It is of no use with another model.",
        "",
        "## Shape",
        "",
        *(f"- {line}" for line in _shape(config)),
        "",
        "## How it was made",
        "",
        "`python -m engine train` of this repository: the target answers the training prompts itself, greedily and by",
        f"sampling; the head, while it is trained, {recipe.objective}.",
        "",
        *(f"- {name}: {value}" for name, value in config.training.items()),
        "",
        "## How well it drafts",
        "",
        "On the target's replies to held-out prompts, teacher-forced, without running the target; the speed in use",
        "also depends on the machine and is measured by `python -m engine bench`.",
        "",
        "| replies | right at depth 1, 2, 3 ... given all before | chain: tokens per pass | next token among the best 4 | tree: tokens per pass |",
        "|---|---|---|---|---|",
    ]
    for kind in ("greedy", "sampled"):
        if kind in measured:
            m = measured[kind]
            chain = ", ".join(f"{value:.2f}" for value in m["chain"] if value > 0)
            lines.append(
                f"| {kind} ({m['rows']:,} rows) | {chain} | {m['chain_length']:.2f} | {m['first'][3]:.2f} | {m['tree_length']:.2f} |"
            )
    lines += [
        "",
        "Tokens per pass count the bonus token, so 1.00 is plain decoding. Tree: four nodes at depth 1, two below each, then one.",
        "",
    ]
    if curves:
        lines += [f"![loss and acceptance over the steps]({CURVES})", ""]
    if terms:
        lines += ["## Terms", "", f"Trained on the outputs of its target and derived from it: {terms} apply to this head too.", ""]
    part = folder / "README.md.part"
    part.write_text("\n".join(lines), encoding="utf-8")
    part.replace(folder / "README.md")


def _shape(config: EagleConfig | MedusaConfig) -> list[str]:
    if isinstance(config, MedusaConfig):
        return [
            f"{config.heads} heads, each of {config.layers} residual block of width {config.hidden_size}",
            "reads the target's final state, behind its last norm",
            f"drafts all {config.vocab_size:,} tokens",
        ]
    layer = (
        f"one decoder layer: width {config.hidden_size}, {config.num_attention_heads} heads of {config.head_dim}, "
        f"{config.num_key_value_heads} key/value heads, MLP {config.intermediate_size}"
    )
    positions = f"rotary base {config.rope_theta:,.0f}, positions counted from 0 for the first pair"
    embedding = "uses the target's embedding table as stored, without the target's own scaling of it"
    if not isinstance(config, Eagle3Config):
        return [
            layer,
            "reads the target's final state, behind its last norm, and predicts the next one",
            f"drafts all {config.vocab_size:,} tokens, with the target's own output table",
            embedding,
            positions,
        ]
    return [
        layer,
        f"reads the hidden states {', '.join(map(str, config.taps))} of its target (inputs of those layers; "
        f"`config.json` names the layers before, whose output they are: {', '.join(map(str, config.output_layer_ids))})",
        f"drafts {config.draft_vocab_size:,} of {config.vocab_size:,} tokens",
        embedding,
        positions,
    ]
