"""Markdown that grows at its end, read into plain blocks and written into Qt's text objects.

``blocks`` are the plain data, ``reading`` makes them from a text with markdown-it-py,
``growing`` does so for a text that streams in and says which blocks can no longer change,
``writing`` puts them into a document and rewrites only what differs. Nothing passes
through HTML at any point: what a model writes is untrusted.
"""
