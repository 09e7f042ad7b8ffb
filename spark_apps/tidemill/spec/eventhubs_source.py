"""An event hub as a source."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from tidemill.spec.capture import CaptureArchive
from tidemill.spec.hub_login import DOMAIN, HubLogin, namespace_host
from tidemill.spec.isolation import Isolation
from tidemill.spec.options import KafkaSourceOptions
from tidemill.spec.starting_offsets import CheckedStartingOffsets
from tidemill.spec.strict import Strict
from tidemill.spec.text import HUB_PATTERN, NAMESPACE_PATTERN, Expression, Servers
from tidemill.spec.units import Count, Duration, format_duration

# Azure's quotas. Basic has no Kafka endpoint.
LONGEST_KEPT = {"standard": timedelta(days=7), "premium": timedelta(days=90), "dedicated": timedelta(days=90)}
SHORTEST_KEPT = timedelta(hours=1)


class EventHubsSource(Strict):
    """An event hub, read through its Kafka endpoint (Standard tier and up).

    It needs no consumer group. Spark assigns partitions itself and keeps offsets in the checkpoint. It
    neither joins a group nor commits to one; `tidemill-<pipeline>` in its requests is only a name. The hub's
    consumer groups, such as `$Default`, are for AMQP readers and are not affected. Several pipelines may read
    one hub. Each reads all events, and all share the throughput units.
    """

    namespace: str = Field(
        description="Namespace without its domain, e.g. `plant-north`.", pattern=NAMESPACE_PATTERN
    )
    hub: str = Field(description="Name of the event hub.", pattern=HUB_PATTERN)
    auth: HubLogin = Field(description="The login, which is exactly one of four.")
    endpoint: Servers | None = Field(
        None,
        description="host:port of the Kafka endpoint. Default: <namespace>.servicebus.windows.net:9093.",
    )
    amqp_endpoint: Servers | None = Field(
        None,
        description="host:port for queries about the hub (status, plan and doctor with --broker). Default: "
        "port 5671 of the namespace.",
    )
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if Java does not trust it by default."
    )
    starting_offsets: CheckedStartingOffsets = Field("earliest", description="As for kafka.")
    max_offsets_per_batch: Count | None = Field(None, description="Maximum number of events in one batch.")
    headers: bool = Field(
        False,
        description="Keep application properties in the column kafka_headers. A value has the bytes that a "
        "Kafka producer sent, or AMQP's encoding of the value that another producer sent. Null has no bytes. "
        "Events from `capture` have the same headers, except that every integer is a long, as in Capture.",
    )
    isolation: Isolation = "read_committed"
    capture: CaptureArchive | None = Field(
        None,
        description="The hub's archive, if Event Hubs Capture is on. Backfills read events from it that the "
        "hub no longer has.",
    )
    options: KafkaSourceOptions = Field({}, description="Options of Spark and of the Kafka client.")

    tier: Literal["basic", "standard", "premium", "dedicated"] | None = Field(
        None, description="Tier of the namespace. It limits the retention to 7 or 90 days."
    )
    retention: Duration | None = Field(
        None,
        description="Retention of the hub, from 1 hour to the maximum of its tier, which is the default. "
        "More than 7 days need `tier`.",
    )
    throughput_units: Count | None = Field(
        None,
        description="Throughput units of the namespace, used for advice on partitions and batches.",
    )

    @model_validator(mode="after")
    def _retention_is_possible(self) -> Self:
        if self.retention is None:
            return self
        if self.retention > self.longest_kept:
            raise ValueError(f"`retention`: {self._longest_kept_reason}")
        if self.retention < self.shortest_kept:
            raise ValueError(f"`retention`: expected at least {format_duration(self.shortest_kept)}")
        return self

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
        """Return how long the hub keeps events; None if neither `retention` nor `tier` is declared."""
        if self.retention is not None:
            return self.retention
        return None if self.tier is None else self.longest_kept

    @property
    def longest_kept(self) -> timedelta:
        """Return the maximum retention that the service allows; without a tier, that of Standard."""
        return LONGEST_KEPT[self.tier or "standard"]

    @property
    def shortest_kept(self) -> timedelta:
        """Return the minimum retention that the service allows."""
        return SHORTEST_KEPT

    @property
    def _longest_kept_reason(self) -> str:
        longest = format_duration(self.longest_kept)
        if self.tier is None:
            return f"without a `tier` a hub counts as Standard, which keeps at most {longest}: declare `tier`"
        return f"a hub of the tier {self.tier} keeps at most {longest}"

    @property
    def server(self) -> str:
        """Return host:port of the Kafka endpoint."""
        return self.endpoint or f"{self.namespace}.{DOMAIN}:9093"

    @property
    def host(self) -> str:
        """Return the namespace's host in its cloud."""
        return namespace_host(self.server, self.namespace)
