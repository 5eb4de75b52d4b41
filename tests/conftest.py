"""Settings for all tests."""

from hypothesis import HealthCheck, settings

# No test fails for being slow: the machine is shared. On CI, hypothesis itself makes the examples repeatable.
settings.register_profile(
    "ace", parent=settings(), deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ace")
