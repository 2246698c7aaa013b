"""Quotas and SCRAM credentials as Apache Kafka 3.9.2 writes them to ZooKeeper: its nodes, byte for
byte, and names for the entities they speak of.
"""

from __future__ import annotations

from tests.fakes.requests.admin_context import AdminClient

_SALT = "salt=c2FsdHNhbHQ="
_SHA_256 = (
    f"{_SALT},stored_key=5fFUxV0AD26xWkoJJg7bXVrfsC18oO/9teoJx9PJtT0=,"
    "server_key=HEtYAvOwTubW02jJL+5MEEljbbOmsXhQuGr9eFqJSO0=,iterations=4096"
)
_SHA_512 = (
    f"{_SALT},stored_key=CmnsxkMt9eSdBtF5Tg3mJ8/B5zA+9fWKhEGvRkZ63Ytx7SpglwuzJ3SzBG9G7JxK3Lcy7dKXNfq"
    "/Rqct8zGGAg==,server_key=mgGcAIhyWQhGRFa5LII4mPu9aiaSWTNFhkv2zRKaU1h7QiV3odlEHbL5iPPROoeq5zklATd"
    "UQeJ0Hwusdm1yMg==,iterations=8192"
)
_NODES = {
    "/config/users/<default>": '"producer_byte_rate":"3000"',
    "/config/users/<default>/clients/<default>": '"producer_byte_rate":"6500"',
    "/config/users/<default>/clients/c2": '"producer_byte_rate":"6000"',
    "/config/users/alice": (
        f'"SCRAM-SHA-512":"{_SHA_512}","SCRAM-SHA-256":"{_SHA_256}",'
        '"request_percentage":"12.5","producer_byte_rate":"1000","consumer_byte_rate":"2000"'
    ),
    "/config/users/alice/clients/<default>": '"consumer_byte_rate":"5000"',
    "/config/users/alice/clients/c%201": '"producer_byte_rate":"4000"',
    "/config/users/b%40%2F%C3%B6": f'"SCRAM-SHA-512":"{_SHA_512}","producer_byte_rate":"1"',
    "/config/users/cut/clients/x": '"producer_byte_rate":"1"',
    "/config/users/only": f'"SCRAM-SHA-512":"{_SHA_512}"',
    "/config/clients/<default>": '"controller_mutation_rate":"1.5"',
    "/config/clients/c%201": '"request_percentage":"200.0"',
    "/config/ips/127.0.0.1": '"connection_creation_rate":"10"',
    "/config/ips/<default>": '"connection_creation_rate":"100"',
}


async def store_entities(client: AdminClient) -> None:
    """Write them all."""
    for path, config in _NODES.items():
        await store_entity(client, path, config)


async def store_entity(client: AdminClient, path: str, config: str) -> None:
    """Write a node with these settings, given as the inside of a JSON object."""
    data = f'{{"version":1,"config":{{{config}}}}}'.encode()
    await client.broker.zk.create_if_absent(path, data)
