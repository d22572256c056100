"""How likely a drafted token is accepted, learned while decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Confidences of 0 and 1 have no finite log-odds.
_LARGEST_LOGIT = 6.0
# What is known at first: the drafter's confidence is about right (intercept 0, slope 1), give or take this.
_PRIOR_VARIANCES = (0.5, 0.1)
# Older observations count less, with a memory of some 300: texts and topics change.
_FORGETTING = 0.997
_LARGEST_INTERCEPT = 4.0
_SMALLEST_SLOPE, _LARGEST_SLOPE = 0.1, 3.0


@dataclass(slots=True)
class AcceptanceModel:
    """P(accepted | all drafted before it were), from the drafter's confidence.

    Logistic regression on the confidence's log-odds, updated after each judged token by one step of an
    extended Kalman filter, so that it needs no learning rate. A drafter's softmax overstates how often it is
    right; what it lacks is learned here.

    Attributes:
        intercept, slope: of the log-odds of acceptance.
        variances: of both, with their covariance in the middle.
    """

    intercept: float = 0.0
    slope: float = 1.0
    variances: tuple[float, float, float] = (_PRIOR_VARIANCES[0], 0.0, _PRIOR_VARIANCES[1])

    def probability(self, confidence: float) -> float:
        """Between 0 and 1, both excluded."""
        return _sigmoid(self.intercept + self.slope * _logit(confidence))

    def learn(self, confidence: float, accepted: bool) -> None:
        """Takes one judged token into account."""
        x = _logit(confidence)
        probability = self.probability(confidence)
        a, b, c = self._faded_variances()
        # Covariance times the features (1, x).
        to_intercept, to_slope = a + b * x, b + c * x
        information = probability * (1 - probability)
        scale = information / (1 + information * (to_intercept + to_slope * x))
        self.variances = a, b, c = (
            a - scale * to_intercept * to_intercept,
            b - scale * to_intercept * to_slope,
            c - scale * to_slope * to_slope,
        )
        surprise = float(accepted) - probability
        intercept = self.intercept + (a + b * x) * surprise
        self.intercept = max(-_LARGEST_INTERCEPT, min(_LARGEST_INTERCEPT, intercept))
        # More confidence never means less acceptance.
        self.slope = max(_SMALLEST_SLOPE, min(_LARGEST_SLOPE, self.slope + (b + c * x) * surprise))

    def _faded_variances(self) -> tuple[float, float, float]:
        """Uncertainty grows as observations fade, up to what it was at first.

        Where every confidence is the same, one direction is never observed and would grow without end;
        scaling rows and columns keeps the matrix positive.
        """
        a, b, c = (value / _FORGETTING for value in self.variances)
        first = min(1.0, (_PRIOR_VARIANCES[0] / a) ** 0.5)
        second = min(1.0, (_PRIOR_VARIANCES[1] / c) ** 0.5)
        return a * first * first, b * first * second, c * second * second


def _logit(confidence: float) -> float:
    confidence = min(max(confidence, 1e-6), 1 - 1e-6)
    return max(-_LARGEST_LOGIT, min(_LARGEST_LOGIT, math.log(confidence / (1 - confidence))))


def _sigmoid(log_odds: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, log_odds))))
