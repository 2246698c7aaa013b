"""What the controller makes of the answers of brokers."""

from kbroker.controller.channels.controller_responses import event_of_response
from kbroker.controller.state_machines import events
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

State = LeaderAndIsrRequest.LeaderAndIsrPartitionState
PartitionError = LeaderAndIsrResponse.LeaderAndIsrPartitionError


def test_of_topics_without_ids_the_one_that_failed_is_taken_for_failed() -> None:
    """One protocol version long, all topics of a cluster have none (KIP-516)."""
    request = LeaderAndIsrRequest(
        broker_epoch=7,
        topic_states=[
            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                topic_name=topic, partition_states=[State(partition_index=0)]
            )
            for topic in ("broken", "healthy")
        ],
    )
    codes = {"broken": ErrorCode.KAFKA_STORAGE_ERROR, "healthy": ErrorCode.NONE}
    errors = {
        topic: PartitionError(topic_name=topic, partition_index=0, error_code=code)
        for topic, code in codes.items()
    }
    response = LeaderAndIsrResponse(
        partition_errors=list(errors.values()),
        topics=[
            LeaderAndIsrResponse.LeaderAndIsrTopicError(partition_errors=[error])
            for error in errors.values()
        ],
    )

    event = event_of_response(1, request, response)

    assert event == events.LeaderAndIsrResponseReceived(
        1,
        7,
        offline=frozenset({TopicPartition("broken", 0)}),
        online=frozenset({TopicPartition("healthy", 0)}),
    )
