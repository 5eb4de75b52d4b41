"""Settings for all tests."""

import signal

from hypothesis import HealthCheck, settings

# No test fails for being slow: the machine is shared. On CI, hypothesis itself makes the examples repeatable.
settings.register_profile(
    "ace", parent=settings(), deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ace")

# A shell starts its background jobs with Ctrl-C ignored, and whatever they start inherits that; the tests that
# interrupt a process would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
