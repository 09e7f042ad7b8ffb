"""The API server in memory keeps what the real one is held to in tests/e2e/test_runtime.py."""

from __future__ import annotations

from tests.support.api_contract import ApiContract
from tests.support.api_server import ApiServerInMemory
from tidemill.control.kubernetes.api import KubernetesApi


class TestApi(ApiContract):
    """The one in memory keeps the contract."""

    def take_turn(self, api: KubernetesApi) -> None:
        assert isinstance(api, ApiServerInMemory)
        api.controllers()
