"""DescribeCluster (key 60), versions 0 to 2: cluster id, controller and brokers.

v1: endpoint type; brokers know brokers only, so controllers (2) get MISMATCHED_ENDPOINT_TYPE. v2:
fenced brokers; there are none if ZooKeeper keeps the registrations.
"""

from __future__ import annotations

from kbroker.acl.acl import CLUSTER, AclOperation, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.context import RequestContext
from kbroker.apis.node_address import reachable_brokers
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kbroker.replication.metadata_cache import OPERATIONS_NOT_ASKED

BROKERS = 1
CONTROLLERS = 2


@api(DescribeClusterRequest, AskedInside(AclOperation.DESCRIBE, AclResourceType.CLUSTER))
def handle(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the cluster as this broker knows it."""
    if request.endpoint_type == CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=ctx.services.metadata.cluster_id,
        controller_id=ctx.services.metadata.controller_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=broker.broker_id, host=host, port=port, rack=broker.rack
            )
            for broker, host, port in reachable_brokers(ctx.connection, ctx.services.metadata)
        ],
        cluster_authorized_operations=ctx.authorized_operations(CLUSTER)
        if asked
        else OPERATIONS_NOT_ASKED,
    )
