"""Markdown becomes blocks whose every span knows where in the source it stood."""

from __future__ import annotations

import pytest

from app.markdown.blocks import BOLD, CODE, DISPLAY, IMAGE, ITALIC, LINK, MATHS, Block, Kind, literal
from app.markdown.growing import LONG_LIST, GrowingText
from app.markdown.reading import Reader
from app.markdown.sections import SectionFinder, Sections, pieces
from tests.app.markdown_samples import FRAGMENTS, cuts, mixture


def read(text: str, offset: int = 0) -> list[Block]:
    return [block for top in Reader().read(text, offset) for block in top.blocks]


def words(block: Block) -> str:
    return "".join(span.text for line in block.lines for span in line)


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_spans_know_their_source(fragment: str) -> None:
    """What a span shows is what stands at its place, unless it says that it stands for something longer."""
    before = "Before.\n\n"
    text = before + fragment
    spans = [span for block in read(text) for line in block.lines for span in line]
    for span in spans:
        stretch = text[span.start : span.start + span.length]
        if span.look & IMAGE or span.length != len(span.text):
            assert stretch.startswith(("\\", "&", "!")), span
        else:
            assert stretch == span.text, span
    assert [span.start for span in spans] == sorted(span.start for span in spans)


def test_looks_and_links() -> None:
    (block,) = read("a **b *c*** `d` [e](http://f.invalid/g) ![h](https://i.invalid) <mailto:a@b.invalid>")
    found = {span.text: (span.look, span.link) for span in block.lines[0] if span.text.strip()}
    assert found == {
        "a ": (0, ""),
        "b ": (BOLD, ""),
        "c": (BOLD | ITALIC, ""),
        "d": (CODE, ""),
        "e": (LINK, "http://f.invalid/g"),
        "h": (IMAGE, "https://i.invalid"),
        "mailto:a@b.invalid": (LINK, "mailto:a@b.invalid"),
    }


@pytest.mark.parametrize("address", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "vbscript:x"])
def test_addresses_of_programs_and_files_are_no_links(address: str) -> None:
    for text in (f"[x]({address})", f"![x]({address})"):
        spans = [span for block in read(text) for line in block.lines for span in line]
        assert not any(span.link for span in spans)
        assert "".join(span.text for span in spans) == text


def test_html_and_definitions_are_text() -> None:
    text = '<img src="http://x.invalid" onerror=alert(1)>\n\n<div>\n*x*\n</div>\n\n[a]: http://b.invalid'
    assert "".join(map(words, read(text))) == text.replace("*", "").replace("\n\n", "")


def test_lists_carry_marks_and_depth() -> None:
    blocks = read("1. a\n2. b\n   - c\n     - d\n3. e\n\n- [x] f\n- [ ] g\n")
    assert [(block.marker, block.containers, words(block)) for block in blocks] == [
        ("1.", "l", "a"), ("2.", "l", "b"), ("◦", "ll", "c"), ("▪", "lll", "d"), ("3.", "l", "e"),
        ("☑", "l", "f"), ("☐", "l", "g"),
    ]  # fmt: skip
    assert [block.tight for block in blocks] == [False, True, True, True, True, False, True]
    assert not any(block.tight for block in read("- a\n\n- b"))


def test_tables_have_cells_row_by_row() -> None:
    (table,) = read("| a | b |\n|:-:|--:|\n| 1 |\n| **2** | x \\| y |\n")
    assert table.kind is Kind.TABLE and table.level == 2 and table.aligns == ("center", "right")
    assert ["".join(span.text for span in line) for line in table.lines] == ["a", "b", "1", "", "2", "x | y"]


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("$x$", ["$x$"]),
        ("It costs $5 and $6.", []),
        ("$ x$ and $x $", []),
        ("a $b$5", []),
        ("`$x$` and \\$x\\$", []),
        ("\\(a\\) and \\[b\\] and $$c$$", ["\\(a\\)", "\\[b\\]", "$$c$$"]),
        ("$$\na\n$$\n\nb", ["$$\na\n$$"]),
        ("$$\na\n\nb", []),
        ("> \\[\n> a\n> \\]", ["\\[\na\n\\]"]),
    ],
)
def test_formulas_are_told_from_money(text: str, formulas: list[str]) -> None:
    spans = [span for block in read(text) for line in block.lines for span in line]
    assert [span.text for span in spans if span.look & MATHS] == formulas
    assert all(bool(span.look & DISPLAY) is not span.text.startswith(("$x", "\\(")) for span in spans if span.look & MATHS)


def test_nothing_is_lost_however_deep() -> None:
    text = ">" * 500 + " deep\n\n" + "- " * 300 + "x"
    assert "deep" in "".join(map(words, read(text))) and "x" in "".join(map(words, read(text)))


@pytest.mark.parametrize("seed", range(12))
def test_growing_text_ends_like_a_whole_one(seed: int) -> None:
    text = mixture(seed)
    growing, shown = GrowingText(), []
    settled = 0
    for piece in cuts(text, seed):
        kept = growing.feed(piece)
        assert growing.blocks[:kept] == shown[:kept], "a finished block never changes"
        assert growing.settled >= settled
        settled = growing.settled
        shown = list(growing.blocks)
    assert shown == read(text)


def test_only_the_tail_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0
    before = Reader.read

    def watched(self: Reader, text: str, offset: int = 0, number: int | None = None) -> list[object]:
        nonlocal longest
        longest = max(longest, len(text))
        return before(self, text, offset, number)  # type: ignore[return-value]

    monkeypatch.setattr(Reader, "read", watched)
    lines = "".join(f"{n}. item number {n} of a long list\n" for n in range(1, 200))
    code = "```python\n" + "x = 1\n" * 800 + "```\n"
    growing = GrowingText()
    for piece in cuts(("A paragraph of text. " * 5 + "\n\n") * 20 + lines + "\nafter\n\n" + code + "\nend", 3, 12):
        growing.feed(piece)
    assert longest < LONG_LIST + 200
    assert [block.marker for block in growing.blocks if block.marker] == [f"{n}." for n in range(1, 200)]
    assert len(next(block for block in growing.blocks if block.kind is Kind.CODE).lines) == 800


@pytest.mark.parametrize("mark", ["- ", "{}. "])
def test_a_long_list_ends_like_a_short_one(mark: str) -> None:
    """Its finished items are given up, and the rest goes on with its numbers."""
    text = "Before\n\n" + "".join(mark.format(n) + f"item with some words {n}\n" for n in range(1, 120)) + "\nafter"
    growing = GrowingText()
    for piece in cuts(text, 2, 20):
        growing.feed(piece)
    assert growing.blocks == read(text) and growing.settled > 60


def test_a_fence_that_may_close_is_not_shown() -> None:
    growing = GrowingText()
    growing.feed("```\ncode\n``")
    assert words(growing.blocks[-1]) == "code"
    growing.feed("x")
    assert words(growing.blocks[-1]) == "code``x"


@pytest.mark.parametrize("seed", range(6))
def test_pieces_read_like_the_whole(seed: int) -> None:
    text = mixture(seed, 60)
    places = pieces(text, 150)
    assert len(places) > 3
    parts = [block for begin, end in zip(places, [*places[1:], len(text)], strict=True) for block in read(text[begin:end], begin)]
    assert parts == read(text)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_thoughts_are_told_from_the_answer(size: int) -> None:
    text = "<think>\nI wonder < 3.\n</think>\n\nThe answer."
    finder = SectionFinder()
    for end in range(size, len(text) + size, size):
        sections, ready = finder.find(text[:end])
        shown = text[: min(ready, end)]
        assert not shown.endswith(("<", "</thi", "</think"))
    assert text[sections.thought_start : sections.thought_end] == "\nI wonder < 3.\n"
    assert text[sections.answer_start :] == "\n\nThe answer." and not sections.thinking


def test_a_closing_tag_alone_ends_thoughts() -> None:
    sections, _ = SectionFinder().find("I wonder.</think>Yes.")
    assert (sections.thought_start, sections.thought_end, sections.answer_start) == (0, 9, 17)
    assert SectionFinder().find("Write `</think>` to end.")[0] == Sections()


def test_prompts_are_literal_but_for_code() -> None:
    blocks = literal("# no *heading*\n```py\n**x**\n```\nend")
    assert [(block.kind, words(block)) for block in blocks] == [
        (Kind.PARAGRAPH, "# no *heading*"), (Kind.CODE, "**x**"), (Kind.PARAGRAPH, "end"),
    ]  # fmt: skip


def test_code_in_a_prompt_stands_apart_by_itself() -> None:
    blocks = literal("text\n\n```\nx\n```\n\nmore\n\n\nend")
    assert [words(block) for block in blocks] == ["text", "x", "more", "", "", "end"]
    assert [block.tight for block in blocks] == [True, False, False, True, True, True]


def test_hostile_marks_are_read_in_time() -> None:
    """Marks without end must not hang the window; the limit is generous."""
    import time

    begun = time.thread_time()
    for text in ("*" * 5000, "[" * 3000, "`" * 5000 + "x", "$" * 5000, "> " * 2000, "\\(" * 3000, "|" * 2000 + "\n" + "|-" * 500):
        growing = GrowingText()
        for piece in cuts(text, 1, 1500):
            growing.feed(piece)
    assert time.thread_time() - begun < 6
