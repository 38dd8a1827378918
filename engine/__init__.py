"""Eyrie's engine: a target model, an EAGLE head and the loop that joins them.

The engine speaks token ids and plain data. It never imports Qt or ``app``; the
application meets it only in :mod:`engine.protocol`.
"""

__version__ = "0.1.0"
