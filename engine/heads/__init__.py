"""EAGLE heads: what they are (``config``), their files (``checkpoint``), the module (``eagle3``)."""
