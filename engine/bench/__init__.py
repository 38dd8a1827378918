"""Measuring: the same prompts with EAGLE on and off, in one run."""
