from __future__ import annotations

import pytest

from kbroker.apis.describe_cluster import handle
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described(call, version):
    response = call(handle, DescribeClusterRequest(), version)

    assert (response.cluster_id, response.controller_id) == ("cluster", 0)
    assert [(broker.broker_id, broker.port) for broker in response.brokers] == [
        (0, 9092),
        (1, 9093),
        (2, 9094),
    ]
    assert encode(response, version)


@pytest.mark.parametrize(("asked", "bits"), [(False, -(2**31)), (True, 8096)])
def test_authorized_operations_are_told_when_asked_for(call, asked, bits):
    request = DescribeClusterRequest(include_cluster_authorized_operations=asked)

    assert call(handle, request, 0).cluster_authorized_operations == bits


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_only_brokers_are_described(call, endpoint_type, code):
    with pytest.raises(KafkaError) as refused:
        call(handle, DescribeClusterRequest(endpoint_type=endpoint_type), 1)

    assert refused.value.code is code
