"""How long the property tests search: HYPOTHESIS_PROFILE=long for a night, not for a commit."""

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("house", max_examples=100, deadline=None, suppress_health_check=SLOW)
settings.register_profile("long", parent=settings.get_profile("house"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))
