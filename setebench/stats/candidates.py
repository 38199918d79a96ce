"""Compare candidate models, each of which predicts a vector of amounts up to an unknown scale, with an observed vector.

The standard error of every element is known for each candidate, as candidates differ in how precisely they predict.
Candidates with equal prior probabilities are ranked by the likelihood at their best scale (weighted least squares; Kass
and Raftery 1995, JASA 90:430). The chi-squared goodness of fit says whether even the best candidate should be rejected.
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
    """Return the `candidates` that are at least 1 / `ratio` as likely as the likeliest, which comes first, each with
    its chi-squared p-value: how likely so large a misfit of a true candidate is. Candidates are predictions by name of
    the vector `observed`; they are scaled to fit it, and have standard `errors` > 0 by name; shapes (n,)."""
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
