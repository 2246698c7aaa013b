"""Creates topics and partitions of a running cluster, and words its refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kbroker.client.client_error import CONTROLLER_MOVED
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.setting_changes import near_setting, topic_settings
from kbroker.client.topic_requests import (
    BROKERS_DEFAULT,
    TIMEOUT_MS,
    create_topics,
    grow_topic,
)
from kbroker.errors import ErrorCode
from kbroker.wording import counted, shown


class Refusal(NamedTuple):
    """The reason why a topic was not created, or not grown."""

    sentence: str
    code: ErrorCode

    @property
    def may_pass(self) -> bool:
        """Whether the reason may go away by itself, as when a broker for a replica comes back."""
        return self.code.retriable or self.code is ErrorCode.INVALID_REPLICATION_FACTOR


def made_topics(  # noqa: PLR0913 - what a topic may be made with
    links: ClusterLinks,
    names: Sequence[str],
    settings: Mapping[str, str],
    tell: Callable[[str], None],
    *,
    partitions: int,
    replication_factor: int = BROKERS_DEFAULT,
    may_exist: bool = False,
) -> list[Refusal]:
    """Create topics and say so; return the refusals.

    Raises ClientError and OSError if no controller answers.
    """
    failures = []
    for result in create_topics(
        links, names, settings, partitions=partitions, replication_factor=replication_factor
    ):
        if result.error_code == ErrorCode.NONE:
            tell(f"{result.name}: created")
        elif result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            failures.append(_refusal(result, settings))
        elif _is_going(links, str(result.name)):
            sentence = (
                f"topic {result.name} is still being deleted: it goes once all brokers of its "
                "replicas are there (TOPIC_ALREADY_EXISTS)"
            )
            failures.append(Refusal(sentence, ErrorCode.TOPIC_ALREADY_EXISTS))
        elif may_exist:
            tell(f"{result.name}: nothing to do, it exists already")
        else:
            sentence = (
                f"topic {result.name} exists already, which is fine with --if-not-exists "
                "(TOPIC_ALREADY_EXISTS)"
            )
            failures.append(Refusal(sentence, ErrorCode.TOPIC_ALREADY_EXISTS))
    return failures


def grown(
    links: ClusterLinks, name: str, partitions: int, tell: Callable[[str], None]
) -> list[Refusal]:
    """Add partitions to a topic and say so; return the refusal, if there is one.

    Raises ClientError and OSError if no controller answers.
    """
    result = grow_topic(links, name, partitions)
    if result.error_code != ErrorCode.NONE:
        return [_refusal(result, {})]
    tell(f"{name}: {counted(partitions, 'partition')}")
    return []


def _is_going(links: ClusterLinks, name: str) -> bool:
    """Say whether a topic that exists already is being deleted, and no longer described."""
    is_seen = links.topic(name).code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return not is_seen and links.ready_topic(name) is None


def deletion_refusal(result: Any) -> str:
    """Return the controller's refusal to delete a topic."""
    waits = f"it was not gone within {TIMEOUT_MS // 1000} s, and goes once its brokers are there"
    return f"{shown(str(result.name))}: {_worded(result, waits)}"


def _worded(result: Any, waits: str) -> str:
    """Return the words of a controller, or ours if it gave only its code; `waits` are those for
    REQUEST_TIMED_OUT.
    """
    code = ErrorCode(result.error_code)
    reason = result.error_message or {
        ErrorCode.REQUEST_TIMED_OUT: waits,
        ErrorCode.NOT_CONTROLLER: CONTROLLER_MOVED,
        ErrorCode.KAFKA_STORAGE_ERROR: (
            "a disk of the controller is full, or has failed, as its log says"
        ),
        ErrorCode.TOPIC_DELETION_DISABLED: "the brokers have delete.topic.enable=false",
    }.get(code)
    return f"{reason} ({code.name})" if reason else code.name


def _refusal(result: Any, settings: Mapping[str, str]) -> Refusal:
    """Return the controller's refusal of a topic, with names close to unknown settings."""
    code = ErrorCode(result.error_code)
    said = _worded(
        result,
        f"its partitions have no leader within {TIMEOUT_MS // 1000} s: `kbroker topic describe "
        f"{result.name}` shows whether one comes, and the log of their broker says what it lacks, "
        "such as space on its disk",
    )
    hint = near_setting(settings, topic_settings()) if code == ErrorCode.INVALID_CONFIG else ""
    return Refusal(f"{shown(str(result.name))}: {said}{hint}", code)
