"""How far a model is from a reference: statistics over the tokens of a text."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orin_llm.quality.estimates import Estimate, Values, mean


@dataclass(frozen=True)
class Divergence:
    """KL divergence of the model from the reference, in nats a token: 0 where both say the same."""

    mean: Estimate
    median: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class ProbabilityChange:
    """The probability of the text's own token, the model's less the reference's."""

    mean: Estimate
    rms: Estimate
    max: float  # of its magnitude


@dataclass(frozen=True)
class Comparison:
    """A model beside a reference, token by token.

    Attributes:
        nlls, reference_nlls: [n]: -log(probability) of the text's tokens.
        kl_divergences: [n].
        same_top: [n]: whether both hold the same token for the likeliest.
        max_logits: [n]: the largest difference of two logits; NaN where the reference is known by
            its log-probabilities alone.
    """

    nlls: Values
    reference_nlls: Values
    kl_divergences: Values
    same_top: NDArray[np.bool_]
    max_logits: Values

    @property
    def ppl(self) -> Estimate:
        """The model's perplexity."""
        return mean(self.nlls).exp()

    @property
    def reference_ppl(self) -> Estimate:
        """The reference's."""
        return mean(self.reference_nlls).exp()

    @property
    def ppl_ratio(self) -> Estimate:
        """The model's perplexity over the reference's.

        The uncertainty is that of the difference of two models on the same tokens, and so much
        smaller than that of either: most of what makes a token hard is the same for both.
        """
        return mean(self.nlls - self.reference_nlls).exp()

    @property
    def divergence(self) -> Divergence:
        """Of all distributions, not only of the text's tokens."""
        found = self.kl_divergences
        median, p90, p99 = (float(value) for value in np.quantile(found, (0.5, 0.9, 0.99)))
        return Divergence(mean(found), median, p90, p99, float(found.max()))

    @property
    def top_agreement(self) -> Estimate:
        """The share of positions whose likeliest token is the same."""
        return mean(self.same_top.astype(np.float64))

    @property
    def probability_change(self) -> ProbabilityChange:
        """Of the text's tokens."""
        change = np.exp(-self.nlls) - np.exp(-self.reference_nlls)
        squares = mean(change * change)
        rms = math.sqrt(squares.value)
        return ProbabilityChange(
            mean(change),
            Estimate(rms, squares.uncertainty / (2 * rms) if rms > 0 else 0.0),
            float(np.abs(change).max()),
        )

    @property
    def max_logit_difference(self) -> float | None:
        """The largest of all; None where the reference's logits are not known."""
        largest = float(self.max_logits.max())
        return None if math.isnan(largest) else largest
