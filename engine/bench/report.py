"""A bench's summary as a table for the terminal and as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Summary = dict[str, Any]


def table(summary: Summary) -> str:
    """Markdown, so that it can be pasted into a README."""
    lines = [
        "| prompts | replies | EAGLE off, tokens/s | EAGLE on, tokens/s | speed-up | τ |",
        "|---|---|---|---|---|---|",
    ]
    rows = [("all", summary["all"]), ("without loops", summary["without_loops"])]
    rows += list(summary["categories"].items())
    for name, speed in rows:
        if speed is None:
            lines.append(f"| {name} | 0 | – | – | – | – |")
        else:
            lines.append(
                f"| {name} | {speed['prompts']} | {speed['plain']:.1f} | {speed['eagle']:.1f} "
                f"| {speed['speed_up']:.2f}× | {speed['tau']:.2f} |"
            )
    lines.append("")
    depths = ", ".join(f"{share:.0%}" for share in summary["acceptance_by_depth"])
    lines.append(
        f"Identical replies: {summary['identical']} of {summary['prompts']}. "
        f"Looping replies: {summary['looping_share']:.0%}. "
        f"Drafted tokens accepted: {summary['acceptance_rate']:.0%}; "
        f"steps accepting at depth 1, 2, …: {depths or '–'}."
    )
    for mode, label in (("eagle", "on"), ("plain", "off")):
        ms = summary["step_ms"][mode]
        lines.append(
            f"A step with EAGLE {label} takes {ms['total']:.1f} ms: draft {ms['draft']:.1f}, "
            f"verify {ms['verify']:.1f}, accept {ms['accept']:.1f}, other {ms['other']:.1f}."
        )
    for name, peer in summary["peers"].items():
        lines.append(
            f"{name}: {peer['tokens_per_second']:.1f} tokens/s on {peer['prompts']} prompts; "
            f"EAGLE off is {peer['plain_ratio']:.2f}×, EAGLE on {peer['eagle_ratio']:.2f}× as fast."
        )
    return "\n".join(lines)


def plot(summary: Summary, path: Path) -> None:
    """Three panels: speed by category, acceptance by depth, where a step's time goes.

    Raises ImportError without matplotlib.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    speed, depth, time = figure.subplots(1, 3, width_ratios=(2.2, 1.2, 1))
    named = [("all", summary["all"]), *summary["categories"].items()]
    shown = [(name, one) for name, one in named if one]
    places = range(len(shown))
    speed.bar(
        [p - 0.2 for p in places], [one["plain"] for _, one in shown], 0.4, label="EAGLE off", hatch="//"
    )
    speed.bar([p + 0.2 for p in places], [one["eagle"] for _, one in shown], 0.4, label="EAGLE on")
    for place, (_, one) in enumerate(shown):
        speed.annotate(
            f"{one['speed_up']:.2f}×", (place + 0.2, one["eagle"]), ha="center", va="bottom", fontsize=8
        )
    speed.set_xticks(list(places), [name.replace("_", "\n") for name, _ in shown], fontsize=8)
    speed.set_ylabel("tokens/s (median)")
    speed.legend(fontsize=8)
    shares = summary["acceptance_by_depth"]
    depth.bar(range(1, len(shares) + 1), shares)
    depth.set_ylim(0, 1)
    depth.set_xlabel("depth")
    depth.set_ylabel("steps accepting there")
    bottom = [0.0, 0.0]
    for part in ("draft", "verify", "accept", "other"):
        values = [summary["step_ms"][mode][part] for mode in ("plain", "eagle")]
        time.bar(["off", "on"], values, bottom=bottom, label=part)
        bottom = [a + b for a, b in zip(bottom, values, strict=True)]
    time.set_ylabel("ms per step")
    time.legend(fontsize=8)
    figure.suptitle(f"{summary['model']} · {summary['device']} · {summary['prompts']} prompts", fontsize=10)
    figure.savefig(path, dpi=120)
