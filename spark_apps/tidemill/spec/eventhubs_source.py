"""One event hub as a source."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from tidemill.spec.capture import CaptureArchive
from tidemill.spec.hub_login import DOMAIN, HubLogin, namespace_host
from tidemill.spec.isolation import Isolation
from tidemill.spec.options import KafkaSourceOptions
from tidemill.spec.starting_offsets import CheckedStartingOffsets
from tidemill.spec.strict import Strict
from tidemill.spec.text import HUB_PATTERN, NAMESPACE_PATTERN, Expression, Servers
from tidemill.spec.units import Count, Duration

# Azure's quotas. Basic has no Kafka endpoint.
_MOST_KEPT = {"standard": timedelta(days=7), "premium": timedelta(days=90), "dedicated": timedelta(days=90)}


class EventHubsSource(Strict):
    """One event hub, read through its Kafka endpoint (Standard tier and up).

    It needs no consumer group. Spark deals out partitions itself and keeps offsets in the checkpoint: it
    joins no group and commits to none, and `tidemill-<pipeline>` in its requests is only a name. The hub's
    own groups, such as `$Default`, are for readers over AMQP; none has to be made, and none is disturbed. So
    several pipelines may read one hub: each reads all of it, and all of them share the throughput units.
    """

    namespace: str = Field(
        description="Namespace without its domain, e.g. `plant-north`.", pattern=NAMESPACE_PATTERN
    )
    hub: str = Field(description="Name of the event hub.", pattern=HUB_PATTERN)
    auth: HubLogin = Field(description="The login; exactly one of four.")
    endpoint: Servers | None = Field(
        None, description="host:port of the Kafka endpoint, if not <namespace>.servicebus.windows.net:9093."
    )
    amqp_endpoint: Servers | None = Field(
        None,
        description="host:port at which facts of the hub are asked for (status, plan, doctor with --broker), "
        "if not port 5671 of the namespace.",
    )
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if not one that Java trusts."
    )
    starting_offsets: CheckedStartingOffsets = Field("earliest", description="As for kafka.")
    max_offsets_per_batch: Count | None = Field(None, description="Most events in one batch.")
    headers: bool = Field(
        False,
        description="Keep application properties as the column kafka_headers. A value has the bytes that a "
        "Kafka producer sent, or AMQP's encoding of what another producer sent. Null has no bytes. Events "
        "of `capture` have the same headers, but every whole number is a long, as Capture keeps it.",
    )
    isolation: Isolation = "read_committed"
    capture: CaptureArchive | None = Field(
        None,
        description="The hub's archive, if Event Hubs Capture is on: a backfill reads it where the hub no "
        "longer has the events.",
    )
    options: KafkaSourceOptions = Field({}, description="Spark's and the Kafka client's own options.")

    tier: Literal["basic", "standard", "premium", "dedicated"] | None = Field(
        None, description="Tier of the namespace: it says how long events can be kept (7 days, or 90)."
    )
    retention: Duration | None = Field(
        None, description="How long the hub keeps events; by default the most that its tier allows."
    )
    throughput_units: Count | None = Field(
        None,
        description="Throughput units of the namespace; advice on partitions and batches counts on them.",
    )

    @model_validator(mode="before")
    @classmethod
    def _logins_are_below_auth(cls, given: Any) -> Any:
        if isinstance(given, dict) and (alone := HubLogin.model_fields.keys() & given.keys()):
            key = min(alone)
            raise ValueError(f"`{key}` belongs below `auth`: write `auth: {{{key}: …}}`")
        return given

    @field_validator("tier")
    @classmethod
    def _has_a_kafka_endpoint(cls, tier: str | None) -> str | None:
        if tier == "basic":
            raise ValueError(
                "the Basic tier has no Kafka endpoint, no Capture and keeps one day: use Standard or above"
            )
        return tier

    @property
    def kept(self) -> timedelta | None:
        """How long the hub keeps events at most; None if nobody said so."""
        if self.retention is not None:
            return self.retention
        return None if self.tier is None else _MOST_KEPT[self.tier]

    @property
    def server(self) -> str:
        """host:port of the Kafka endpoint."""
        return self.endpoint or f"{self.namespace}.{DOMAIN}:9093"

    @property
    def host(self) -> str:
        """The namespace's own host, in its cloud."""
        return namespace_host(self.server, self.namespace)
