"""Authentication at an Event Hubs namespace, without values of secrets and tokens."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import SecretName
from tidemill.spec.web_address import check_encrypted

# A directory's id, or one of its domains.
TENANT_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$"
CLIENT_PATTERN = r"^[A-Za-z0-9-]{1,64}$"
AUTHORITY_PATTERN = r"^https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?/?$"
PLACE_PATTERN = r"^/[A-Za-z0-9._/-]{1,500}$"

# Addresses of Azure's public cloud.
AUTHORITY = "https://login.microsoftonline.com"
DOMAIN = "servicebus.windows.net"

# A namespace's host in any of Azure's clouds.
_NAMESPACE_HOST = re.compile(r"[A-Za-z0-9-]+\.servicebus\.[a-z0-9.]+")


def _encrypted(authority: str) -> str:
    check_encrypted(authority, None, has_credentials=True)
    return authority.rstrip("/")


Tenant = Annotated[str, Field(pattern=TENANT_PATTERN)]
Client = Annotated[str, Field(pattern=CLIENT_PATTERN)]
Authority = Annotated[str, Field(pattern=AUTHORITY_PATTERN), AfterValidator(_encrypted)]
TokenFile = Annotated[str, Field(pattern=PLACE_PATTERN)]


class ClientSecretLogin(Strict):
    """An application of Microsoft Entra ID that authenticates with a client secret."""

    tenant: Tenant = Field(description="Id of the directory (tenant), or one of its domains.")
    client: Client = Field(description="Client id of the application.")
    secret: SecretName = Field(
        description="Name of the secret with the application's client secret, never the value itself."
    )
    authority: Authority = Field(
        AUTHORITY,
        description="Authority that issues tokens. Sovereign clouds have another one, such as "
        "https://login.microsoftonline.us.",
    )


class WorkloadIdentityLogin(Strict):
    """The pod's identity from Azure's workload identity webhook (variables `AZURE_*`), without a secret."""

    client: Client | None = Field(
        None, description="Client id to use instead of AZURE_CLIENT_ID, if the pod has several identities."
    )
    tenant: Tenant | None = Field(None, description="Tenant id to use instead of AZURE_TENANT_ID.")


class HubLogin(OneOf):
    """Authentication of clients at the namespace."""

    connection_string: SecretName | None = Field(
        None, description="Name of the secret with the SAS connection string, never the string itself."
    )
    client_secret: ClientSecretLogin | None = Field(
        None, description="An application of Microsoft Entra ID with a client secret."
    )
    token_file: TokenFile | None = Field(
        None,
        description="Absolute path of a file with a token for the namespace, the same in each pod. Another "
        "process must refresh it. The file is read again whenever a token is needed.",
    )
    workload_identity: WorkloadIdentityLogin | None = Field(
        None, description="The pod's workload identity on AKS, usually `{}`."
    )

    @property
    def facts(self) -> dict[str, object]:
        """Return the facts of errors: the kind of login and the name of its secret."""
        secret = self.connection_string or (self.client_secret and self.client_secret.secret)
        return {"login": self.kind, **({"secret": secret} if secret else {})}


def namespace_host(server: str, namespace: str | None = None) -> str:
    """Return the namespace's host name, for which tokens are issued even behind a tunnel or a proxy.

    Args:
        server: `host:port[,host:port…]` to which clients connect.
        namespace: Name of the namespace, needed if the address is not Azure's.
    """
    host = server.partition(",")[0].strip().rpartition(":")[0]
    return host if namespace is None or _NAMESPACE_HOST.fullmatch(host) else f"{namespace}.{DOMAIN}"
