"""What happened? Pictures of what was measured.

- `prequential`: how the error of models went along a stream, beside the baselines.

Every function draws into matplotlib axes, its own or those it is given, and returns
them, so that titles, limits and files are left to matplotlib (``axes.figure.savefig``).
matplotlib comes with the extra ``plots`` and is imported when something is drawn.
"""

from tiercel.plots.prequential import prequential

__all__ = ["prequential"]
