"""Which of several candidates predicts what was observed, up to a common scale; and whether any of them does.

Each candidate predicts a vector of amounts. What was observed is that vector times an unknown scale, with errors that
are known for each element and candidate, as one may be vague where another one is sharp. The likelihood at the best
scale (weighted least squares) orders the candidates, each as likely as the others beforehand; the smallest sum of
squares gives how much even the best one leaves unexplained (chi-squared goodness of fit), so that "none of them" is an
answer (Kass and Raftery 1995, JASA 90:430).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

Numbers = NDArray[np.float64]


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate's fit: the logarithm of its likelihood but for a constant, and the chance that a true candidate
    leaves as much unexplained (`fits`)."""

    likelihood: float
    fits: float


def fit(observed: Numbers, errors: Numbers, predicted: Numbers) -> Fit:
    """At the best scale of one candidate; shapes (n,), errors > 0."""
    weights = 1.0 / errors**2
    power = float(weights @ predicted**2)
    scale = float(weights @ (predicted * observed)) / power if power > 0 else 0.0
    squares = float(weights @ (observed - scale * predicted) ** 2)
    likelihood = float(-0.5 * squares - np.log(errors).sum())
    return Fit(likelihood=likelihood, fits=float(special.chdtrc(max(len(observed) - 1, 1), squares)))


def likeliest(
    observed: Numbers, errors: Mapping[str, Numbers], candidates: Mapping[str, Numbers], ratio: float
) -> dict[str, Fit]:
    """Fit the observed amounts, shape (n,), by each candidate's prediction and errors (by name, shape (n,)). Return the
    most likely one, first, and all that are at least 1 / `ratio` as likely. Needs one candidate."""
    fits = {name: fit(observed, errors[name], predicted) for name, predicted in candidates.items()}
    best = max(fits, key=lambda name: fits[name].likelihood)
    least = fits[best].likelihood - np.log(ratio)
    return {best: fits[best]} | {name: each for name, each in fits.items() if each.likelihood >= least}
