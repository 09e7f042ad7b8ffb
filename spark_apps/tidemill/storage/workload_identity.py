"""A pod's identity for Azure, from the workload identity webhook.

The webhook sees a pod's label and the annotation of its service account. It sets four variables and mounts a
token that Kubernetes signs and renews. Clients exchange this token for one of Azure's, and read the file
again for each request. None of the four values is secret, because the content of the file proves the
identity.
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
        client_id: Id of the managed identity or application.
        tenant_id: Id of the directory that knows it.
        token_file: File with the token that proves it, at the same path in every pod.
        authority: Address that issues Azure's tokens, without a trailing slash.
    """

    client_id: str
    tenant_id: str
    token_file: str
    authority: str


def read_workload_identity(variables: Mapping[str, str], instead: str) -> WorkloadIdentity:
    """Return the identity that this process's pod was given.

    Args:
        variables: Environment variables of this process.
        instead: Alternative to name in the error.

    Raises:
        SpecError: TIDE-SPEC-033, naming the missing variables.
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
        # The webhook's value ends with a slash, and object_store would add a second one.
        variables[AUTHORITY_HOST].rstrip("/"),
    )
