"""The written list: where kbroker answers otherwise than Apache Kafka, and why. Everything else is a
difference to be mended.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Accepted(NamedTuple):
    """Fields that may differ in answers to such questions."""

    asked: str  # a pattern of `what is asked vVERSION`, or of `sequence: step`
    path: str  # a pattern of the field's path
    why: str
    own: str = r"(?s).*"  # a pattern of kbroker's value
    levels: tuple[int, ...] = (0, 2)  # of `transaction.version`, at which it differs
    like: str = ""  # the version of Apache Kafka that answers as kbroker does: it may not differ


# Of the questions of `answers/`: neither as 3.9.2 nor as 4.3.1 answers them.
ANSWERS = (
    Accepted(
        r"isolation_level[= ]",
        r"^answer",
        "42 says what is wrong with the request; Apache: -1, its own fault",
    ),
    Accepted(
        r"fetch with .*max_bytes[= ]-",
        r"^answer",
        "less than nothing counts as 0: the first batch; Apache: -1",
    ),
    Accepted(
        r"^(fetch with session_id[= ]|session (2147483647|-1|-2147483648) epoch)",
        r"^answer",
        "no session has such an id: 70, or an answer without one; Apache: -1, no shard has it",
    ),
    Accepted(
        r"^offsets: .* v1[01]$",
        r"\.topics",
        "as 3.9.2 for a partition named twice: each is refused",
        like="3.9.2",
    ),
    Accepted(
        r"^metadata (of no name|with topics\.name null v)",
        r"^answer\.(brokers|error_code)",
        "the brokers are told all the same; Apache fails at it, and tells of none",
    ),
    Accepted(r"^api.versions", r"\.(api_keys|finalized|supported)", "what each of them serves"),
    Accepted(r"^old offsets of .*, -1 v0", r"^answer$", "fewer than none: none; Apache: -1"),
    Accepted(
        r"^old offsets of '\w*' at [0-9]+, [0-9]",
        r"^answer$",
        "segments by the times of their records; Apache: by when their files were written",
    ),
    Accepted(r"^deletion ", r"\.aborted_transactions$", "empty or null: neither has a transaction"),
)

# Where two brokers are compared: most often 3.9.2 and 4.3.1 differ from each other, and kbroker is as
# one of them; and what kbroker does not offer, or does otherwise than both.
OF_TWO_BROKERS = (
    Accepted(
        r"^offers (Create|Renew|Expire|Describe)DelegationToken$"
        r"|^offers (DescribeQuorum|UnregisterBroker|AddRaftVoter|RemoveRaftVoter)$"
        r"|^offers (ShareGroupDescribe|ShareFetch|ShareAcknowledge)$"
        r"|^offers (Initialize|Read|Write|Delete)ShareGroupState(Summary)?$"
        r"|^offers (Describe|Alter|Delete)ShareGroupOffsets$|^offers StreamsGroup\w+$",
        r"^versions$",
        "not there: KRaft, share groups and streams groups",
        own="not served",
    ),
    Accepted(
        r"^offers (LeaderAndIsr|StopReplica|UpdateMetadata|ControlledShutdown|AlterPartition"
        r"|Envelope|AllocateProducerIds)$",
        r"^versions$",
        "as 4.3.1: requests between brokers are not listed where clients ask",
        own="not served",
        like="4.3.1",
    ),
    Accepted(
        r"^offers (ListConfigResources|DescribeTopicPartitions|ShareGroupHeartbeat)$",
        r"^versions$",
        "as 4.3.1; 3.9.2 does not have it",
        own="0-1|0-0|1-1",
        like="4.3.1",
    ),
    Accepted(
        r"^offset_commit with topics(\.partitions)? one twice v",
        r"^answer\.topics\[\w*(#2\]|\]\.partitions\[0#2\])$",
        "as 4.3.1: each of a partition's entries is answered",
        own=r"\{.*'error_code': 0\}.*",
        like="4.3.1",
    ),
    Accepted(
        r"^(offset_fetch|txn_offset_commit) with (groups\.)?topics(\.partition\w*)? (one twice|nothing) v",
        r"^answer\.(groups\[[\w-]+\]\.)?topics\[\w*(#2\]|\]|\]\.partitions\[0#2\])$",
        "as 4.3.1: each of a partition's entries is answered, and topics without partitions are",
        own=r"\{.*\}",
        like="4.3.1",
    ),
    Accepted(
        r"^delete_topics (with topics\.topic_id zero )?v6$",
        r"topic_id$",
        "as 4.3.1: the id is told with the name",
        own="an id",
        like="4.3.1",
    ),
    Accepted(
        r"^delete_topics with topics one twice v6$",
        r"topic_id$",
        "deleted as in 3.9.2, where the name is told alone; 4.3.1 refuses, and tells no id either",
        own="an id",
    ),
    Accepted(
        r"^delete_topics with topics\.name null v6$",
        r"error_code$",
        "as 4.3.1: neither a name nor an id; 3.9.2: 29",
        own="42",
        like="4.3.1",
    ),
    Accepted(
        r"^delete_groups with groups_names \[(unknown|with a space|too long)\] v",
        r"error_code$",
        "as 4.3.1: a group is there once offsets of it are committed; in 3.9.2 also while they are pending",
        own="69",
        like="4.3.1",
    ),
    Accepted(
        r"^create_partitions with topics\.name empty v",
        r"error_code$",
        "as 4.3.1: no topic has this name; 3.9.2: -1, its own fault",
        own="3",
        like="4.3.1",
    ),
    Accepted(
        r"^describe_client_quotas with components\.(match_type (-\d+|127)|match null) v",
        r"^answer\.error_code$",
        "as 4.3.1; 3.9.2: -1, its own fault",
        own="42",
        like="4.3.1",
    ),
    Accepted(
        r"^describe_client_quotas with components\.match_type [12] v",
        r"^answer\.(entries|error_code)$",
        "as 3.9.2: what is to match is not looked at; 4.3.1: 42",
        own=r"0|\[\]",
        like="3.9.2",
    ),
    Accepted(
        r"^share_group_heartbeat (with .* )?v",
        r"^answer\.error_code$",
        "as 3.9.2 where the newer groups are off: clients stop at that answer",
        own="35",
        like="3.9.2",
    ),
    Accepted(
        r"^list_offsets with topics(\.partitions)? (one twice|nothing) v|^offsets: .* (twice|times), ",
        r"^answer\.topics\[\w*(#2\]|\]|\]\.partitions\[0#[23]\])$",
        "as 3.9.2: each of a partition's entries is answered, and topics without partitions are",
        own=r"\{.*\}",
        like="3.9.2",
    ),
    Accepted(
        r"^update_features (with .* )?v[01]$",
        r"^answer\.(error_code|results\[.*\])$",
        "as 3.9.2: a feature that is unknown is told in its own entry; 4.3.1: 95 for all of them",
        own=r"0|\{'feature': '.*', 'error_code': 42\}",
        like="3.9.2",
    ),
    Accepted(
        r"^update_features (with .* )?v2$",
        r"^answer\.error_code$",
        "as 3.9.2: 42 where a feature is unknown; 4.3.1: 95",
        own="42",
        like="3.9.2",
    ),
    Accepted(
        r"^create_topics with topics one twice v",
        r"^answer\.topics\[.*#2\]$",
        "as 3.9.2: each entry of a topic named twice is refused",
        own=r"\{.*'error_code': 42\b.*\}",
        like="3.9.2",
    ),
    Accepted(
        r"^create_topics with validate_only True v",
        r"topic_id$",
        "as 3.9.2: a topic that is not made has no id",
        own="None",
        like="3.9.2",
    ),
    Accepted(
        r"^(create_topics|describe_configs)\b",
        r"configs\[message\.(downconversion\.enable|format\.version|timestamp\.(after|difference)\.max\.ms)\]",
        "as 3.9.2: 4.x has other defaults, and knows no older message formats",
        like="3.9.2",
    ),
    Accepted(
        r"^(create_topics|describe_configs)\b",
        r"configs\[min\.insync\.replicas\]\.(config_source|synonyms)",
        "as 3.9.2: a cluster of KRaft has it as a setting of the cluster",
        own="5|not there",
        like="3.9.2",
    ),
    Accepted(
        r"^delete_topics with topic(s|_names) one twice v",
        r"^answer\.responses\[.*(#2\]|\]\.error_code)$",
        "as 3.9.2: a topic named twice is deleted, and told twice",
        own=r"0|\{.*'error_code': 0\}",
        like="3.9.2",
    ),
    Accepted(
        r"^describe_groups with include_authorized_operations True v",
        r"authorized_operations$",
        "as 4.3.1: groups have settings, which may be described and altered",
        own="3400",
        like="4.3.1",
    ),
    Accepted(
        r"^consumer_group_(heartbeat|describe)( with .*)? v",
        r"error_code$",
        "as 4.3.1; in 3.9.2 the groups of KIP-848 are off",
        own="24|42|69|112",
        like="4.3.1",
    ),
    Accepted(
        r"^offset_commit with group_id .* v(9|10)$",
        r"error_code$",
        "as 4.3.1: clients of these versions know 69; 3.9.2: 22",
        own="69",
        like="4.3.1",
    ),
    Accepted(
        r"^find_coordinator with key_type 2 v6$",
        r"error_code$",
        "as 3.9.2: share groups have no coordinator; 4.3.1 looks at their keys first",
        own="15",
        like="3.9.2",
    ),
    Accepted(
        r"^(incremental_)?alter_configs with resources\.resource_name (with a space|too long) v",
        r"error_code$",
        "as 3.9.2: such a topic is not there",
        own="3",
        like="3.9.2",
    ),
    Accepted(
        r"^(elect_leaders|alter_partition_reassignments) with .*(one twice|partitions nothing) v",
        r"^answer\.(replica_election_results|responses)\[",
        "as 3.9.2: a partition named twice has one answer, and a topic without partitions none",
        own="not there",
        like="3.9.2",
    ),
    Accepted(
        r"^offset_delete with topics(\.partitions)? one twice v",
        r"^answer\.topics\[",
        "as 3.9.2: a partition named twice has one answer",
        own="not there",
        like="3.9.2",
    ),
    Accepted(
        r"^elect_leaders with election_type -?\d+ v",
        r"error_code$",
        "as 3.9.2, which fails at it: -1; 4.3.1: 42",
        own="-1",
        like="3.9.2",
    ),
    Accepted(
        r"^add_partitions_to_txn with v3_and_below_topics(\.partitions)? (one twice|nothing) v",
        r"^answer\.results_by_topic_v3_and_below\[",
        "a partition named twice has one answer, and a topic without partitions none; Apache answers each",
        own="not there",
    ),
    Accepted(
        r"^(describe|create|delete)_acls with .*(type|filter|operation) 0 v",
        r"^answer$",
        "what is asked of nobody is refused all the same; Apache closes the connection",
        own=r"\{('results': \[\{)?'error_code': 54\b.*\}|\{'filter_results': \[\{'error_code': 54\b.*\}",
    ),
    Accepted(
        r"^write_txn_markers with markers\.(producer_id|producer_epoch) -\d+ v",
        r"error_code$",
        "a marker of nobody is refused, for each number below 0; Apache refuses -1 only",
        own="-1",
    ),
    Accepted(
        r"^write_txn_markers with markers\.transaction_result True v",
        r"error_code$",
        "only a coordinator knows that all partitions are ready for a commit",
        own="31",
    ),
    Accepted(
        r"^write_txn_markers with markers\.coordinator_epoch [1-9]\d* v",
        r"error_code$",
        "no coordinator has had that epoch, and those that come would be refused until they have it",
        own="42",
    ),
    Accepted(
        r"^write_txn_markers with markers\.topics(\.partition_indexes)? nothing v",
        r"^answer\.markers\[\]$",
        "each marker is answered; Apache leaves one without partitions out",
        own=r"\{.*'topics': \[\]\}",
    ),
    Accepted(
        r"^describe_producers with topics(\.partition_indexes)? one twice v",
        r"^answer\.topics\[[\w-]+(#2\]\.partitions\[0\]|\]\.partitions\[0#2\])\.error_code$",
        "a partition's second entry is refused: a small request would be answered with gigabytes",
        own="42",
    ),
    Accepted(
        r"^describe_topic_partitions with topics\.name empty v",
        r"(error_code|operations)$",
        "an empty name is a bad one; 4.3.1: -1, its own fault",
        own="17|3576",
    ),
    Accepted(
        r"^produce with timeout=-?\d+ v",
        r"error_code$",
        "of brokers that sync before they answer (`kbroker.flush`): no more time than was given",
        own="7",
    ),
)

# Of sequences about transactions (`transactions/sequences/`). With `transaction.version` below 2 kbroker
# follows 3.9.2, and 4.3.1 where 3.9.2 does not serve a request; at 2 it follows 4.3.1.
# A test holds that each entry still explains something.
SEQUENCES = (
    Accepted(
        r"^adding: a partition twice: add p t:0 t:0$",
        r"^answer$",
        "each partition is answered once, however often it is named",
        own=r"\[t \[0 OK\]\]",
    ),
    Accepted(
        r"^adding: a batch .*: (add/[45]|describe) .*$",
        r"^answer$",
        "batches of transactions are for brokers; a client finds no version above 3",
        own=r"not served|.*state=Empty.*",
    ),
    Accepted(
        r"^(adding|initialising): .*: describe p$",
        r"^answer$",
        "none has begun since the start of the producer; Apache: the time of the one before, which it forgets where it loads its log again",
        own=r".* state=Empty .* began=-1 .*",
        levels=(0,),
    ),
    Accepted(
        r"^describing: ListTransactions .*: list/2.*$",
        r"^answer$",
        "as 3.9.2, which has no patterns",
        own=r"not served",
    ),
    Accepted(
        r"^markers: .*: marker p .*commit$",
        r"^answer$",
        "only a coordinator knows that all partitions are ready for a commit",
        own=r".*CLUSTER_AUTHORIZATION_FAILED.*",
    ),
    Accepted(
        r"^markers: .*: (fetch|produce) .*$",
        r"^answer$",
        "what follows from commits that were refused",
        own=r".*",
    ),
    Accepted(
        r"^markers: a marker without partitions: marker p commit$",
        r"^answer$",
        "each marker is answered; Apache leaves one without partitions out",
        own=r"\[producer_id=p \[\]\]",
    ),
    Accepted(
        r"^offsets: TxnOffsetCommit with an old epoch after a newer one wrote: offset-fetch g t:0$",
        r"^answer$",
        "as 4.3.1; 3.9.2 forgets what is pending where a later commit of it is refused",
        own=r".*committed_offset=6 OK.*",
        levels=(0,),
    ),
    Accepted(
        r"^offsets: OffsetDelete while offsets are pending: offset-delete g t:0$",
        r"^answer$",
        "a group is there once offsets of it are committed",
        own=r"GROUP_ID_NOT_FOUND \[\]",
    ),
    Accepted(
        r"^producing: an (old epoch|epoch that was never given): produce.* epoch=own.*$",
        r"^answer$",
        "as 4.3.1: another epoch than that of the open transaction is verified; 3.9.2 would take sequence 0 of the next epoch",
        own=r".*INVALID_PRODUCER_EPOCH base_offset=-1 log_append_time=None log_start=-1.*",
        levels=(0,),
    ),
    Accepted(
        r"^second_protocol: (a batch of transactions adds and asks|markers of the second protocol): (add/5|marker/2|end/5|fetch) .*$",
        r"^answer$",
        "requests between brokers, in versions that no client has a use for, and what follows",
        own=r".*",
        levels=(2,),
    ),
    Accepted(
        r"^second_protocol: an end in the first protocol is not that of the producer before: end/5 p (commit|abort) epoch=own-1$",
        r"^answer$",
        "it is fenced; Apache takes the end of its successor for its own, and gives it that epoch",
        own=r"PRODUCER_FENCED producer_id=-1 epoch=-1",
        levels=(2,),
    ),
    Accepted(
        r"^offsets: TxnOffsetCommit with unknown members and generations: commit p g t:0=5 member=x generation=5$",
        r"^answer$",
        "as 4.3.1, and as OffsetCommit in both: a group that is not there has no generation",
        own=r"\[t \[0 ILLEGAL_GENERATION\]\]",
        levels=(0,),
        like="4.3.1",
    ),
    Accepted(
        r"^markers: a marker of a newer epoch fences: produce(/11)? p t:0$",
        r"^answer$",
        "as 4.3.1: an epoch that is over needs no coordinator to be refused; 3.9.2: its log does it",
        own=r".*INVALID_PRODUCER_EPOCH base_offset=-1 log_append_time=None log_start=-1.*",
        levels=(0,),
        like="4.3.1",
    ),
)

# Of batches that are hard to read (`batches/outcomes.py`).
HARD_BATCHES = (
    Accepted(
        r"^produce of (linked lz4|lz4 after a skippable frame)$",
        r"",
        "refused by all; Apache: -1, which clients take for a fault of the broker and send again",
        own="87 INVALID_RECORD",
    ),
    Accepted(
        r"^fetch [13], ",
        r"",
        "as 3.9.2: 4.3.1 serves no Fetch below version 4",
        like="3.9.2",
    ),
)


def reason(
    entries: tuple[Accepted, ...], asked: str, path: str, *values: object, other: str = ""
) -> Accepted | None:
    """The entry that explains why a field differs; one of `values` is kbroker's. `other` is the
    version of Apache Kafka that it differs from, where that is known.
    """
    return next(
        (
            entry
            for entry in entries
            if not (other and entry.like == other)
            and re.search(entry.asked, asked)
            and re.search(entry.path, path)
            and any(re.fullmatch(entry.own, str(value)) for value in values)
        ),
        None,
    )
