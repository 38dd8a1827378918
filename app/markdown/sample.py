"""A reply with everything that Markdown offers, for pictures of the window."""

from __future__ import annotations

PROMPT = "Explain how the speed of a reply is measured, with everything you have."

REPLY = r'''<think>
The user wants to know how speed is measured. I should say what counts and show it in code.
</think>

# How speed is measured

Only **decoding** counts: the time from the first token to the *last* one, read with
`time.perf_counter()`, which never runs backwards.

```python
from dataclasses import dataclass

@dataclass(frozen=True)
class Run:
    """One reply."""
    tokens: int
    seconds: float

def speed(runs: list[Run]) -> float:
    # The first token belongs to the prompt.
    return sum(run.tokens - 1 for run in runs) / sum(run.seconds for run in runs)
```

| Method | Tokens/s | Speed-up | |
|:-------|---------:|:--------:|---|
| plain | 24.1 | 1.0 | the base line |
| EAGLE-3 | **60.3** | 2.5 | drafted by the head |

With $n$ runs the mean is $\bar{x} = \frac{1}{n}\sum_{i=1}^{n} x_i$ and the spread

$$
s = \sqrt{\frac{1}{n-1} \sum_{i=1}^{n} (x_i - \bar{x})^2}
$$

> A speed-up without its spread says little.

1. Warm up once.
2. Then measure:
   - the same prompt,
   - the same seed.
- [x] measured
- [ ] published

---

See [the documentation](https://docs.python.org/3/library/time.html#time.perf_counter).

日本語の段落です。**強調**と`コード`。这是中文段落。

هذه فقرة بالعربية مع **تشديد**.
'''
