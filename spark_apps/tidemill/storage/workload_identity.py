"""As whom a pod is known to Azure, as the workload identity webhook tells it.

The webhook sees a pod's label and its service account's annotation, sets four variables, and mounts a token
that Kubernetes signs and renews. Clients exchange it for one of Azure's; each reads the file again when it
asks. None of the four values is a secret: what proves the identity is the content of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import SpecError

CLIENT_ID = "AZURE_CLIENT_ID"
TENANT_ID = "AZURE_TENANT_ID"
PROOF = "AZURE_FEDERATED_TOKEN_FILE"
AUTHORITY_HOST = "AZURE_AUTHORITY_HOST"


@dataclass(frozen=True)
class WorkloadIdentity:
    """An identity that a pod can prove.

    Args:
        client_id: Of the managed identity or application.
        tenant_id: Of the directory that knows it.
        token_file: What proves it. The same path in every pod of the webhook.
        authority: Who hands out Azure's tokens; without a slash at its end.
    """

    client_id: str
    tenant_id: str
    token_file: str
    authority: str


def read_workload_identity(variables: Mapping[str, str], instead: str) -> WorkloadIdentity:
    """The identity that this process's pod was given.

    Args:
        variables: Those of this process.
        instead: What to use where no pod has one.

    Raises:
        SpecError: TIDE-SPEC-033, naming the variables that are missing.
    """
    names = (CLIENT_ID, TENANT_ID, PROOF, AUTHORITY_HOST)
    if missing := [name for name in names if not variables.get(name)]:
        raise SpecError(
            "TIDE-SPEC-033",
            "A workload identity is wanted, and this process has none.",
            facts={"missing_variables": ", ".join(missing)},
            fix="label the pod azure.workload.identity/use, annotate its service account with "
            f"azure.workload.identity/client-id, and make the pod anew; elsewhere use {instead}",
        )
    return WorkloadIdentity(
        variables[CLIENT_ID],
        variables[TENANT_ID],
        variables[PROOF],
        # The webhook's ends with one; object_store would put a second.
        variables[AUTHORITY_HOST].rstrip("/"),
    )
