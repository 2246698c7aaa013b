"""StreamsGroupTopologyDescriptionUpdate: a member sends the graph of its topology (KIP-1331).

v0: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    """The member and its graph."""

    class TopologyDescriptionNode(Struct):
        """A node of the graph: what it reads, keeps and hands on."""

        name: str = wire("string", default="")
        node_type: int = wire("int8", default=0)
        source_topics: list[str] = wire("[]string", default=[])
        sink_topic: str | None = wire("string", nullable="0+", default=None)
        stores: list[str] = wire("[]string", default=[])
        successors: list[str] = wire("[]string", default=[])

    class TopologyDescriptionSubtopology(Struct):
        """Nodes that belong together."""

        subtopology_id: str = wire("string", default="")
        nodes: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode] = wire(
            "[]TopologyDescriptionNode", default=[]
        )

    class TopologyDescriptionGlobalStore(Struct):
        """A store that every member has whole, and what fills it."""

        source: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = wire(
            "TopologyDescriptionNode", default=...
        )
        processor: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = wire(
            "TopologyDescriptionNode", default=...
        )

    class TopologyDescription(Struct):
        """The graph of the topology."""

        subtopologies: list[
            StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology
        ] = wire("[]TopologyDescriptionSubtopology", default=[])
        global_stores: list[
            StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore
        ] = wire("[]TopologyDescriptionGlobalStore", default=[])

    group_id: str = wire("string", default="")
    member_id: str = wire("string", default="")
    topology_epoch: int = wire("int32", default=0)
    topology_description: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription = wire(
        "TopologyDescription", default=...
    )


@message(key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    """Whether it was taken."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
