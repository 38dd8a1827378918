"""How the picker says things: sizes, counts, times, verdicts. No widgets here."""

from __future__ import annotations

from PySide6.QtCore import QDate, QLocale, Qt

from app.language import mark, numbers, tr, tr_n
from app.language.engine_texts import of_engine
from engine.protocol.hub import (
    DownloadState,
    Fit,
    HubModel,
    PairOffer,
    PairReport,
    PairVerdict,
    Phase,
    Problem,
    Verdict,
)

FIT_WORDS = {
    Verdict.FITS: mark("Hub", "fits"),
    Verdict.TIGHT: mark("Hub", "tight"),
    Verdict.NO: mark("Hub", "too large"),
    Verdict.UNKNOWN: mark("Hub", "size unknown"),
}
PAIR_WORDS = {
    PairVerdict.FITS: mark("Hub", "The head fits this model."),
    PairVerdict.CAVEAT: mark("Hub", "The head fits, with a caveat."),
    PairVerdict.NOT: mark("Hub", "The head does not fit this model."),
    PairVerdict.UNKNOWN: mark("Hub", "Not known yet whether the head fits."),
}
PAIR_BADGES = {
    PairVerdict.FITS: mark("Hub", "fits"),
    PairVerdict.CAVEAT: mark("Hub", "caveat"),
    PairVerdict.NOT: mark("Hub", "does not fit"),
    PairVerdict.UNKNOWN: mark("Hub", "not checked"),
}


def size(count: int | float) -> str:
    """Bytes for people: 950 kB, 1.4 GB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            number = count / unit
            return f"{numbers.decimal(number, 1 if number < 100 else 0)} {name}"
    amount = round(count)
    return tr_n("Hub", "{count} byte", "{count} bytes", amount).format(count=numbers.whole(amount))


def count(number: int) -> str:
    """12,300,000 as 12.3 M."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{numbers.decimal(number / unit, 1)} {name}"
    return numbers.whole(number)


def parameters(billions: float) -> str:
    if billions <= 0:
        return ""
    if billions >= 1:
        return tr("Hub", "{number} B").format(number=numbers.decimal(billions, 1))
    return tr("Hub", "{number} M").format(number=numbers.significant(billions * 1000, 3))


def date(text: str) -> str:
    """A day as the language writes it; ``text`` is ISO 8601, or shown as it is."""
    day = QDate.fromString(text, Qt.DateFormat.ISODate)
    return numbers.locale().toString(day, QLocale.FormatType.ShortFormat) if day.isValid() else text


def left(seconds: float | None) -> str:
    """Time that a download still takes; "" when it cannot be told."""
    if seconds is None:
        return ""
    if seconds < 90:
        return tr("Hub", "{seconds} s left").format(seconds=numbers.decimal(seconds, 0))
    minutes = round(seconds / 60)
    if minutes < 90:
        return tr("Hub", "{minutes} min left").format(minutes=numbers.whole(minutes))
    hours, minutes = divmod(minutes, 60)
    return tr("Hub", "{hours} h {minutes} min left").format(
        hours=numbers.whole(hours), minutes=numbers.whole(minutes)
    )


def joined(*parts: str) -> str:
    return "  ·  ".join(part for part in parts if part)


def licence(name: str, gated: bool) -> str:
    words = name or tr("Hub", "licence on its page")
    return tr("Hub", "{licence}, gated").format(licence=words) if gated else words


def downloads(number: int) -> str:
    return tr_n("Hub", "{count} download", "{count} downloads", number).format(count=count(number))


def problem(met: Problem) -> str:
    """What stands in the way, and what to do."""
    return f"{of_engine(met.message)} {of_engine(met.next_step)}".strip()


def of_total(done: int, total: int) -> str:
    return tr("Hub", "{done} of {total}").format(done=size(done), total=size(total))


def on_disk(offer: PairOffer) -> str:
    """What both files of a pair take on the disk; about, until the hub has told."""
    if offer.download_bytes:
        return tr("Hub", "{size} on disk").format(size=size(offer.download_bytes))
    if offer.pair.family == "gpt-oss":  # its files are not of 16 bits a weight
        return ""
    return tr("Hub", "about {size} on disk").format(size=size(offer.pair.parameters * 2e9))


def pair_line(offer: PairOffer) -> str:
    """What stands under a pair's name in the list."""
    pair = offer.pair
    speed = tr("Hub", "no speed-up published")
    if pair.speedup:
        speed = tr("Hub", "up to {factor}× published").format(factor=numbers.decimal(pair.speedup, 1))
    return joined(parameters(pair.parameters), on_disk(offer), speed, licence(pair.licence, pair.is_gated))


def pair_facts(offer: PairOffer) -> tuple[tuple[str, str], ...]:
    """Rows of name and value for the details."""
    pair = offer.pair
    not_told = tr("Hub", "its card does not tell")
    speed, drafts, card = tr("Hub", "none was published"), "", tr("Hub", "more than 24 GB")
    if pair.speedup:
        speed = tr("Hub", "{factor}× ({source})").format(
            factor=numbers.decimal(pair.speedup, 2), source=of_engine(pair.speedup_source)
        )
    if pair.draft_vocabulary:
        drafts = tr_n("Hub", "drafts {count} token", "drafts {count} tokens", pair.draft_vocabulary)
        drafts = drafts.format(count=numbers.whole(pair.draft_vocabulary))
    if pair.vram_gb:
        card = tr("Hub", "{size} GB, tight") if pair.is_tight else tr("Hub", "{size} GB")
        card = card.format(size=pair.vram_gb)
    return (
        (tr("Hub", "Expected speed-up"), speed),
        (tr("Hub", "Context"), tokens(pair.context) if pair.context else not_told),
        (tr("Hub", "Languages"), ", ".join(pair.languages) or not_told),
        (tr("Hub", "Head"), joined(pair.format, drafts)),
        (tr("Hub", "Graphics card"), card),
        (tr("Hub", "Notes"), of_engine(pair.notes)),
    )


def tokens(number: int) -> str:
    return tr_n("Hub", "{count} token", "{count} tokens", number).format(count=numbers.whole(number))


def model_line(model: HubModel) -> str:
    return joined(
        parameters(model.parameters),
        model.family,
        downloads(model.downloads),
        tr_n("Hub", "{count} like", "{count} likes", model.likes).format(count=count(model.likes)),
        date(model.updated),
        licence(model.licence, model.is_gated),
    )


def memory(fit: Fit) -> str:
    """The parts of what a pair needs."""
    parts = []
    if fit.weights:
        words = tr("Hub", "{size} weights in {format}")
        parts.append(words.format(size=size(fit.weights), format=of_engine(fit.weight_format)))
    if fit.head:
        parts.append(tr("Hub", "{size} head").format(size=size(fit.head)))
    if fit.cache:
        words = tr_n("Hub", "{size} for {count} token", "{size} for {count} tokens", fit.context)
        parts.append(words.format(size=size(fit.cache), count=numbers.whole(fit.context)))
    if fit.workspace:
        parts.append(tr("Hub", "{size} workspace").format(size=size(fit.workspace)))
    if not parts:
        return ""
    words = tr("Hub", "{parts}. Reckoned from the tensors.")
    if fit.is_rough:
        words = tr("Hub", "{parts}. Estimated from the size alone.")
    return words.format(parts=" + ".join(parts))


def verdict(report: PairReport) -> str:
    return " ".join((tr("Hub", PAIR_WORDS[report.verdict]), *map(of_engine, report.reasons)))


def download_line(state: DownloadState) -> str:
    """State of a download in a line."""
    amount = of_total(state.done, state.total) if state.total else ""
    if state.phase is Phase.QUEUED:
        return joined(tr("Hub", "waiting for its turn"), amount)
    if state.phase is Phase.PLANNING:
        return of_engine(state.note) or tr("Hub", "asking the hub which files there are…")
    if state.phase is Phase.VERIFYING:
        return joined(amount, tr("Hub", "checking the checksum"))
    if state.phase is Phase.PAUSED:
        return joined(tr("Hub", "paused"), amount)
    if state.phase is Phase.DONE:
        return joined(tr("Hub", "ready"), size(state.total))
    if state.phase is Phase.FAILED:
        return joined(tr("Hub", "stopped"), amount)
    if not state.speed:
        return joined(amount, of_engine(state.note) or tr("Hub", "nothing arrives at the moment"))
    return joined(amount, tr("Hub", "{size}/s").format(size=size(state.speed)), left(state.seconds_left))
