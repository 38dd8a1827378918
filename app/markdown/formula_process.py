"""Sets formulas as SVG, in a process of its own: ``python -m app.markdown.formula_process``.

One JSON object a line comes in (``id``, ``tex``, ``display``) and one goes out: ``id`` with
``svg``, ``width``, ``height`` and ``depth`` (below the base line, all in :data:`SIZE` units an em),
or ``id`` alone when the formula cannot be set. It ends when its input ends.

A formula is written by a model, so it is untrusted: here it can at worst take time, and a
process that takes too long is killed by :mod:`app.markdown.formulas`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from xml.etree import ElementTree

SIZE = 24
EDGE = 1.5
INK = "currentColor"
_FIRST_LETTER_WITHOUT_GLYPH = 0x2E80
"""From here on scripts that the maths font does not have."""
_UNKNOWN = re.compile(r">\\[A-Za-z]")
"""A command that was not understood stands in the result as it was written."""


def set_formula(tex: str, display: bool) -> dict[str, object]:
    """The picture of a formula. :raises ValueError: it cannot be set."""
    import ziamath

    if any(ord(letter) >= _FIRST_LETTER_WITHOUT_GLYPH for letter in tex):
        raise ValueError("letters that the font lacks")
    made = ziamath.Latex(tex, size=SIZE, color=INK, inline=not display)
    if _UNKNOWN.search(made.mathmlstr()):
        raise ValueError("an unknown command")
    svg = made.svgxml()
    left, top, width, height = map(float, str(svg.get("viewBox")).split())
    # The box is the letters' own: round ones reach beyond it.
    left, top, width, height = left - EDGE, top - EDGE, width + 2 * EDGE, height + 2 * EDGE
    svg.set("viewBox", f"{left} {top} {width} {height}")
    return {
        "svg": ElementTree.tostring(svg, encoding="unicode"),
        "width": width,
        "height": height,
        "depth": max(0.0, top + height),
    }


def main() -> None:
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)
    import ziafont
    import ziamath

    # Plain paths: what SVG 2 has beyond them Qt does not draw.
    ziafont.config.svg2 = False
    ziamath.config.svg2 = False
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object] = {"id": request["id"]}
        # Whatever a formula does to the library, the next one must still be set.
        with contextlib.suppress(Exception):
            answer |= set_formula(request["tex"], request["display"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
