"""What a measured row is judged to be."""

from enum import StrEnum


class Judgement(StrEnum):
    """Whether a row can be trusted, the gravest first."""

    ABOVE_CEILING = "above ceiling"
    DISTURBED = "disturbed"
    IMPLAUSIBLY_LOW = "implausibly low"
    DRIFTING = "drifting"
    NOISY = "noisy"
    OK = "ok"


UNSTEADY = (Judgement.NOISY, Judgement.DRIFTING)
"""Only a row's own spread or course is against it."""
