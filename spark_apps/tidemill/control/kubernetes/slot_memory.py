"""The history of a pipeline's drivers in the ConfigMap of its main slot."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.control.kubernetes.api import CONFIG_MAPS, Document, KubernetesApi, insist
from tidemill.control.kubernetes.slot_record import HISTORY_KEY
from tidemill.names import kubernetes_name


class SlotMemory:
    """One key of the ConfigMap, changed by compare-and-swap on its version.

    Args:
        api: The API server.
        pipeline: The pipeline.
    """

    def __init__(self, api: KubernetesApi, pipeline: str) -> None:
        self._api = api
        self._name = kubernetes_name(pipeline)

    def read(self) -> str | None:
        """Return the text; None if there is none."""
        return text_in(self._api.get(CONFIG_MAPS, self._name))

    def change(self, edit: Callable[[str | None], str]) -> None:
        """Replace the text by the result of `edit`.

        Without a ConfigMap nothing was ever started here, or everything was uninstalled. Then nothing is
        stored.

        Raises:
            ConflictError: TIDE-K8S-003, if other clients keep changing it.
        """
        insist(lambda: self._change(edit))

    def _change(self, edit: Callable[[str | None], str]) -> bool:
        seen = self._api.get(CONFIG_MAPS, self._name)
        if seen is None:
            return False
        changes: Document = {
            "metadata": {"resourceVersion": seen["metadata"]["resourceVersion"]},
            "data": {HISTORY_KEY: edit(text_in(seen))},
        }
        self._api.patch(CONFIG_MAPS, self._name, changes)
        return True


def text_in(config_map: Document | None) -> str | None:
    """Return the history in the ConfigMap of a slot."""
    text = ((config_map or {}).get("data") or {}).get(HISTORY_KEY)
    return None if text is None else str(text)
