"""Which of several candidates predicts what was observed, up to a common scale; and whether any of them does.

Each candidate predicts a vector of amounts. What was observed is that vector times an unknown scale, with errors that
are known for each element and candidate, as one may be vague where another one is sharp. The likelihood at the best
scale (weighted least squares) orders the candidates, each as likely as the others beforehand; the smallest sum of
squares gives how much even the best one leaves unexplained (chi-squared goodness of fit), so that "none of them" is an
answer (Kass and Raftery 1995, JASA 90:430).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import special

Numbers = NDArray[np.float64]


def likeliest(
    observed: Numbers, errors: Mapping[str, Numbers], candidates: Mapping[str, Numbers], ratio: float
) -> dict[str, float]:
    """Fit the observed amounts, shape (n,), by each candidate's prediction and errors > 0 (by name, shape (n,)) at its
    best scale. Return the most likely one, first, and all that are at least 1 / `ratio` as likely, with the chance that
    a true candidate leaves as much unexplained. Needs one candidate."""
    likelihood, fits = dict[str, float](), dict[str, float]()
    for name, predicted in candidates.items():
        weights = 1.0 / errors[name] ** 2
        power = float(weights @ predicted**2)
        scale = float(weights @ (predicted * observed)) / power if power > 0 else 0.0
        squares = float(weights @ (observed - scale * predicted) ** 2)
        likelihood[name] = float(-0.5 * squares - np.log(errors[name]).sum())  # its logarithm, but for a constant
        fits[name] = float(special.chdtrc(max(len(observed) - 1, 1), squares))
    best = max(likelihood, key=lambda name: likelihood[name])
    return {name: fits[name] for name in (best, *fits) if likelihood[name] >= likelihood[best] - np.log(ratio)}
