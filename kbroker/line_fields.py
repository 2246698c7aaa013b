"""Names and values that a line of the log has for programs, beside its text for people.

Pure. A formatter that writes JSON finds them at the record, others show the text alone. Names are
event, client_id, api, version, topic, partition, code, and what an event has beyond these; what is
unknown is absent.
"""

from __future__ import annotations

ATTRIBUTE = "kbroker_fields"  # of a record of the log


def fields_of(event: str, **known: str | int | None) -> dict[str, dict[str, str | int]]:
    """Return the `extra` of a line about an event of that name; None is left out.

    >>> fields_of("refused", code="NOT_COORDINATOR", topic=None)
    {'kbroker_fields': {'event': 'refused', 'code': 'NOT_COORDINATOR'}}
    """
    fields: dict[str, str | int] = {"event": event}
    fields.update({name: value for name, value in known.items() if value is not None})
    return {ATTRIBUTE: fields}
