"""Where kbroker is meant to answer a question of administration otherwise than both of Apache
Kafka's lines, each with its reason; and where both brokers answer at random.
"""

from __future__ import annotations

import re

# By the question's name and version, from the beginning. What is not listed must be as 3.9.2 or
# 4.3.1 has it.
DIFFERENCES = {
    r"create: two that collide": (
        "3.9.2 makes one of the two, whichever comes first in a hash map, and 4.3.1 both: here it is "
        "the first one, and validation says so beforehand"
    ),
    r"create: by hand, negative partition": "3.9.2 answers -1, a bug; here it is a bad assignment",
    r"create: (10001 partitions|by hand, (unknown|negative|no replica)).*, version [01]": (
        "versions 0 and 1, which 4.3.1 does not serve, are answered as it answers the others"
    ),
    r"grow: to 10002": "4.3.1 refuses so many as CreateTopics does, but without a code of its own",
    r"grow: (empty|dots?|NUL)": "3.9.2 answers -1 from ZooKeeper's paths; such a topic is not there",
    r"delete: (one|time).*, version 6": (
        "the id is told with the name; 3.9.2 does so when it is quick, 4.3.1 when it deleted"
    ),
    r"delete: neither name nor id": "3.9.2 says 29; in the words of 4.3.1",
    r"describe: .*, version 0": (
        "version 0 says whether a value is the default; Apache Kafka always says that it is not"
    ),
    r"(alter|replace): (topic dots?|topic NUL)": (
        "3.9.2 answers 40 from ZooKeeper's paths; such a topic is not there"
    ),
    r"(alter|replace): (all brokers|broker), metric.reporters": (
        "there are no Java classes to be loaded, and none to be missed"
    ),
    r"alter: (broker|all brokers), operation 2 of no.such": "3.9.2 answers -1, a bug; as 4.3.1",
    r"alter: operation [23] of no.such": "3.9.2 answers -1, a bug; as 4.3.1 answers",
    r"metadata: (creates|a missing one)": (
        "a topic that is created on first use is usable in the same answer"
    ),
    r"elect: kind (2|-1), twice": "a partition named twice has one answer",
    r"coordinator: (kind 0|.*, version 0)": (
        "the topic of the offsets is made within the request; Apache Kafka lets the client ask again"
    ),
    r"coordinator: kind 2": "share groups have no coordinator here, in no version",
    r"producer id": "the first request of a broker has ids already; Apache Kafka answers 14",
    r"acls: .* (of kind|operation|permission) 0": (
        "Apache Kafka closes the connection; what is asked of nobody is refused all the same"
    ),
    r"page: empty name": "4.3.1 answers -1, a bug; an empty name is a bad one",
    r"quota of (a dot|two dots)": (
        "3.9.2 answers -1 from ZooKeeper's paths, and 4.3.1 has none; here such an entity is refused"
    ),
    r"quota \w+ of NaN": "Apache Kafka takes it, as a whole number for 0; here it is no limit",
    r"describe: kind 32": "3.9.2 has no groups with settings, 4.3.1 lists those of share groups too",
    r"create: -1 partitions": "the broker's own values are those of its profile",
}


def reason_of(question: str, version: int) -> str | None:
    """Why the answer to a question may differ; None where it may not."""
    asked = f"{question}, version {version}"
    return next((why for name, why in DIFFERENCES.items() if re.match(name, asked)), None)
