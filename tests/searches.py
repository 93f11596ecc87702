"""How far the property tests search, by HYPOTHESIS_PROFILE: quick, house, or long for a night."""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = {"quick": 20, "house": 100, "long": 5_000}
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a machine may be busy

_chosen = os.environ.get("HYPOTHESIS_PROFILE", "house")
for _name, _count in _EXAMPLES.items():
    settings.register_profile(
        _name, max_examples=_count, deadline=None, suppress_health_check=_SLOW
    )
settings.load_profile(_chosen)


def examples(count: int) -> int:
    """So many in the whole suite, and as much fewer or more as the profile has it."""
    return max(1, count * _EXAMPLES[_chosen] // _EXAMPLES["house"])
