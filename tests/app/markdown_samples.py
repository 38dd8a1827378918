"""Markdown of every kind, and random mixtures of it."""

from __future__ import annotations

import random

FRAGMENTS = (
    "# Heading with *stress* and `code`\n\n",
    "Setext heading\n=====\n\n",
    "A paragraph with **bold**, *italics*, ~~struck~~ and `code` in it.\nA second line, \\* escaped and &amp; an entity.\n\n",
    "- one\n- two with **bold**\n  - nested\n    still nested\n- three\n\n",
    "1. first\n2. second\n\n   with a paragraph\n3. third\n\n",
    "7) seven\n8) eight\n",
    "> quoted\n> > deeper\n>\n> - a list\n\n",
    "```python\ndef f(x):\n    return x  # comment\n\n```\n\n",
    "~~~\ntilde ``` inside\n~~~\n",
    "- item with code\n\n  ```js\n  let x = 1;\n  ```\n- next\n\n",
    "| a | b |\n|:--|--:|\n| 1 | **2** |\n| `3` | 4 |\n\n",
    "Inline $x^2 + y$ and \\(z\\), then $5 and $6.\n\n",
    "$$\n\\frac{1}{2}\n$$\n\n",
    "\\[ a + b \\]\n",
    "---\n\n",
    "[a link](http://example.invalid/a_(b)) and ![a picture](https://example.invalid/x.png) <http://example.invalid>\n\n",
    "Emoji 😀👩‍🚀, العربية, 日本語 and **強調**.\n\n",
    "    indented code\n\n",
    "<script>alert(1)</script> <b>not bold</b>\n\n",
    "- [ ] open\n- [x] done\n",
    "Broken **bold and `code\n",
    "\n\n",
)


def mixture(seed: int, count: int = 12) -> str:
    """Fragments in a random order, the last one broken off."""
    chosen = random.Random(seed).choices(FRAGMENTS, k=count)
    text = "".join(chosen)
    return text[: len(text) - random.Random(seed + 1).randrange(12)]


def cuts(text: str, seed: int, longest: int = 30) -> list[str]:
    """The text in random pieces."""
    made, place, generator = [], 0, random.Random(seed)
    while place < len(text):
        size = generator.randint(1, longest)
        made.append(text[place : place + size])
        place += size
    return made


CODE = "".join(
    f"def step_{n}(state: dict[str, int]) -> int:\n"
    f'    """Take step {n}."""\n'
    f"    return state.get('count', {n}) + {n}  # no side effects\n\n\n"
    for n in range(6)
)
FORMULAS = "".join(
    f"The term $a_{{{n}}} = \\frac{{{n}}}{{n+1}}$ grows, and\n\n$$\n\\sum_{{i=1}}^{{{n}}} i^2 = \\frac{{{n}(n+1)}}{{6}}\n$$\n\n"
    for n in range(4)
)
PROSE = "The quick **brown** fox jumps over the *lazy* dog, and `then` it sits down to think about it. "


def mixed_text(tokens: int) -> str:
    """A reply of about so many tokens with everything in it, formulas that repeat and ones that are new."""
    parts, length, number = [], 0, 0
    while length < tokens * 3.2:
        number += 1
        part = (
            f"## Part {number}\n\n{PROSE * 5}\n\n```python\n{CODE}```\n\n{FORMULAS}"
            f"Here $x_{{{number}}}$ is new.\n\n" + "".join(FRAGMENTS[:15]) + "".join(f"{n}. {PROSE}\n" for n in range(1, 6)) + "\n"
        )
        parts.append(part)
        length += len(part)
    return "".join(parts)
