"""Two settings on the same prompts, side by side.

``comparison`` (where two replies part), ``sides``, ``prompts``, ``plan`` (which reply comes when),
``record`` (what is kept), ``spread`` and ``words`` know no widgets; ``runner`` has the engine write the
replies; ``dialog.CompareDialog`` is the window.
"""
