"""How the picker says things: sizes, counts, times, verdicts. No Qt here."""

from __future__ import annotations

from engine.protocol.hub import (
    CataloguePair,
    DownloadState,
    Fit,
    HubModel,
    PairReport,
    PairVerdict,
    Phase,
    Verdict,
)

FIT_WORDS = {
    Verdict.FITS: "fits",
    Verdict.TIGHT: "tight",
    Verdict.NO: "too large",
    Verdict.UNKNOWN: "size unknown",
}
PAIR_WORDS = {
    PairVerdict.FITS: "The head fits this model.",
    PairVerdict.CAVEAT: "The head fits, with a caveat.",
    PairVerdict.NOT: "The head does not fit this model.",
    PairVerdict.UNKNOWN: "Not known yet whether the head fits.",
}
PAIR_BADGES = {
    PairVerdict.FITS: "fits",
    PairVerdict.CAVEAT: "caveat",
    PairVerdict.NOT: "does not fit",
    PairVerdict.UNKNOWN: "not checked",
}


def size(count: int | float) -> str:
    """Bytes for people: 950 kB, 1.4 GB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            number = count / unit
            return f"{number:.1f} {name}" if number < 100 else f"{number:,.0f} {name}"
    return f"{count:.0f} bytes"


def count(number: int) -> str:
    """12,300,000 as 12.3 M."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return str(number)


def parameters(billions: float) -> str:
    if billions <= 0:
        return ""
    return f"{billions:.1f} B" if billions >= 1 else f"{billions * 1000:.3g} M"


def left(seconds: float | None) -> str:
    """Time that a download still takes; "" when it cannot be told."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s left"
    minutes = round(seconds / 60)
    return f"{minutes} min left" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min left"


def joined(*parts: str) -> str:
    return "  ·  ".join(part for part in parts if part)


def licence(name: str, gated: bool) -> str:
    words = name or "licence on its page"
    return f"{words}, gated" if gated else words


def pair_line(pair: CataloguePair) -> str:
    """What stands under a pair's name in the list."""
    speed = f"up to {pair.speedup:.1f}× published" if pair.speedup else "no speed-up published"
    return joined(parameters(pair.parameters), pair.format, speed, licence(pair.licence, pair.is_gated))


def pair_facts(pair: CataloguePair) -> tuple[tuple[str, str], ...]:
    """Rows of name and value for the details."""
    return (
        (
            "Expected speed-up",
            f"{pair.speedup:.2f}× ({pair.speedup_source})" if pair.speedup else "none was published",
        ),
        ("Context", f"{pair.context:,} tokens" if pair.context else ""),
        ("Languages", ", ".join(pair.languages)),
        (
            "Head",
            joined(pair.format, f"drafts {pair.draft_vocabulary:,} tokens" if pair.draft_vocabulary else ""),
        ),
        (
            "Graphics card",
            f"{pair.vram_gb} GB{', tight' if pair.is_tight else ''}" if pair.vram_gb else "more than 24 GB",
        ),
        ("Notes", pair.notes),
    )


def model_line(model: HubModel) -> str:
    return joined(
        parameters(model.parameters),
        model.family,
        f"{count(model.downloads)} downloads",
        "1 like" if model.likes == 1 else f"{count(model.likes)} likes",
        model.updated,
        licence(model.licence, model.is_gated),
    )


def memory(fit: Fit) -> str:
    """The parts of what a pair needs."""
    parts = [f"{size(fit.weights)} weights in {fit.weight_format}" if fit.weights else ""]
    parts += [f"{size(fit.head)} head" if fit.head else ""]
    parts += [f"{size(fit.cache)} for {fit.context:,} tokens" if fit.cache else ""]
    parts += [f"{size(fit.workspace)} workspace" if fit.workspace else ""]
    words = " + ".join(part for part in parts if part)
    if not words:
        return ""
    return f"{words}. {'Estimated from the size alone.' if fit.is_rough else 'Reckoned from the tensors.'}"


def verdict(report: PairReport) -> str:
    return " ".join((PAIR_WORDS[report.verdict], *report.reasons))


def download_line(state: DownloadState) -> str:
    """State of a download in a line."""
    amount = f"{size(state.done)} of {size(state.total)}" if state.total else ""
    if state.phase is Phase.QUEUED:
        return joined("waiting for its turn", amount)
    if state.phase is Phase.PLANNING:
        return state.note or "asking the hub which files there are…"
    if state.phase is Phase.VERIFYING:
        return joined(amount, "checking the checksum")
    if state.phase is Phase.PAUSED:
        return joined("paused", amount)
    if state.phase is Phase.DONE:
        return joined("ready", size(state.total))
    if state.phase is Phase.FAILED:
        return joined("stopped", amount)
    if not state.speed:
        return joined(amount, state.note or "nothing arrives at the moment")
    return joined(amount, f"{size(state.speed)}/s", left(state.seconds_left))
