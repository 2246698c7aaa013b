"""The screens of the console, in the order of the navigation. A new screen is a module of its own,
and one more row here.
"""

from __future__ import annotations

from typing import Final

from kbroker.console.web import static_files
from kbroker.console.web.routes import Screen
from kbroker.console.web.screens import (
    brokers,
    overview,
    topic,
    topic_changes,
    topic_settings,
    topics,
)

SCREENS: Final[tuple[Screen, ...]] = (
    overview.SCREEN,
    topics.SCREEN,
    topic.SCREEN,
    topic_settings.SCREEN,
    topic_changes.SCREEN,
    brokers.SCREEN,
    static_files.SCREEN,
)
