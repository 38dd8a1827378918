"""The same prompt with EAGLE and without it, side by side.

``comparison`` (what the two runs tell) knows no Qt; ``dialog.CompareDialog`` is the window.
"""
