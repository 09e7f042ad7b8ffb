from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.patient_fixtures import patient

__all__ = ["patient"]


@pytest.fixture(autouse=True, scope="session")
def short_patience() -> Iterator[None]:
    """No broker answers here; a tenth of a second is enough to know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidemill.sources.offsets.ANSWER_TIMEOUT_SECONDS", 0.1)
        yield
