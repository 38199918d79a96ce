"""Which of several candidates predicts what was observed, up to a common scale; and whether any of them does.

Each candidate predicts a vector of amounts. What was observed is that vector times an unknown scale, with errors that
are known for each element and candidate, as one may be vague where another one is sharp. The likelihood at the best
scale (weighted least squares) gives the posterior of the candidates, each as likely as the others beforehand; the
smallest sum of squares gives how much even the best one leaves unexplained (chi-squared goodness of fit), so that "none
of them" is an answer (Kass and Raftery 1995, JASA 90:430).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

Numbers = NDArray[np.float64]


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate's fit: its best scale and that one's standard error, the logarithm of its likelihood but for a
    constant, and the chance that a true candidate leaves as much unexplained (`fits`)."""

    scale: float
    error: float
    likelihood: float
    fits: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All fits by name, and the posterior probability of each candidate given that one of them is true."""

    fits: dict[str, Fit]
    posterior: dict[str, float]

    @property
    def best(self) -> str:
        """The most probable candidate; of equals the first."""
        return max(self.posterior, key=lambda name: self.posterior[name])

    def equals(self, ratio: float) -> list[str]:
        """Candidates that are at least 1 / `ratio` as probable as the best."""
        least = self.posterior[self.best] / ratio
        return [name for name, probability in self.posterior.items() if probability >= least]


def fit(observed: Numbers, errors: Numbers, predicted: Numbers) -> Fit:
    """The best scale of one candidate; shapes (n,), errors > 0."""
    weights = 1.0 / errors**2
    power = float(weights @ predicted**2)
    scale = float(weights @ (predicted * observed)) / power if power > 0 else 0.0
    squares = float(weights @ (observed - scale * predicted) ** 2)
    degrees = max(len(observed) - 1, 1)
    return Fit(
        scale=scale,
        error=float(power**-0.5 if power > 0 else np.inf),
        likelihood=float(-0.5 * squares - np.log(errors).sum()),
        fits=float(special.chdtrc(degrees, squares)),
    )


def compare(observed: Numbers, errors: Mapping[str, Numbers], candidates: Mapping[str, Numbers]) -> Comparison:
    """Compare candidates (name -> predicted amounts, shape (n,)) on the same observations, each with its own errors
    (shape (n,)). Needs one candidate."""
    fits = {name: fit(observed, errors[name], predicted) for name, predicted in candidates.items()}
    exponents = np.array([each.likelihood for each in fits.values()])
    weights = np.exp(exponents - exponents.max())
    posterior = dict(zip(fits, (weights / weights.sum()).tolist(), strict=True))
    return Comparison(fits=fits, posterior=posterior)
