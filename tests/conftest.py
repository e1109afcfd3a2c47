"""One setting for all property tests: the same examples in every run, and no clock.

`HYPOTHESIS_PROFILE=explore make test` draws new examples instead.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
