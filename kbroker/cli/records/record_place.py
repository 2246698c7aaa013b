"""Places in a topic where reading begins or ends, as options name them."""

from __future__ import annotations

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.shown.output import say
from kbroker.client.record_places import PLACES, Kind, Place, place_named
from kbroker.client.wall_clock import unix_now_ms
from kbroker.model import TopicPartition

PLACE_METAVAR = "start|end|OFFSET|-100|-1h|DATE"


def parse_place(option: str, text: str) -> Place:
    """Read the value of an option as a place. UsageError if it is none."""
    place = place_named(text, unix_now_ms())
    if place is None:
        raise click.UsageError(f"{option} '{text}' is none of: {PLACES}")
    return place


def check_start(place: Place, starts: dict[TopicPartition, int]) -> None:
    """Say that no partition has the offset to begin at. CommandError if all end before it."""
    if place.kind is not Kind.OFFSET or not starts:
        return
    if all(at < place.number for at in starts.values()):
        reason = f"--from {place.number} is beyond the end offset {max(starts.values())}"
        raise CommandError(reason, ExitCode.ITEM_FAILED)
    if all(at > place.number for at in starts.values()):
        say(f"offset {place.number} is no longer there: beginning at {min(starts.values())}")
