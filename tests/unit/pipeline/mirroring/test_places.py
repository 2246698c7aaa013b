from dataclasses import replace

import pytest

from kbroker.client.transactional_producer import NOTHING, Position
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirroring.places import Beginning, PlaceNote, SourcePartition, beginning

SOURCE = SourcePartition(
    partition=TopicPartition("t", 0),
    topic_id="id-1",
    start_offset=100,
    stable_offset=180,
    end_offset=200,
)
NOTE = str(PlaceNote("id-1", "copy-1", 3))


def begun(
    position: Position, source: SourcePartition = SOURCE, *, allows_loss: bool = False
) -> Beginning:
    return beginning(source, "copy-1", position, allows_loss=allows_loss)


def refusal(position: Position, source: SourcePartition = SOURCE) -> str:
    with pytest.raises(PipelineError) as caught:
        begun(position, source)
    return caught.value.sentence


def test_a_new_copy_begins_where_the_log_does() -> None:
    assert begun(NOTHING) == Beginning(100, 100)


def test_a_copy_goes_on_at_its_place() -> None:
    assert begun(Position(150, NOTE)) == Beginning(150, 150)
    assert begun(Position(150, "a note of somebody else")) == Beginning(150, 150)
    assert begun(Position(150, str(PlaceNote("", "", -1)))) == Beginning(150, 150)


def test_a_copy_whose_topic_was_deleted_begins_again() -> None:
    found = begun(Position(150, str(PlaceNote("id-1", "copy-0", 3))))

    assert found.offset == 100
    assert "t-0 was created again in the target" in found.notes[0]


def test_a_topic_that_was_created_again_is_refused() -> None:
    position = Position(150, str(PlaceNote("id-0", "copy-1", 3)))

    assert "has the id id-1, and id-0 was copied: --allow-loss" in refusal(position)
    assert begun(position, allows_loss=True)[:2] == (100, 100)


def test_offsets_that_retention_took_are_refused() -> None:
    assert "offsets 90 to 99 of t-0 are gone" in refusal(Position(90, NOTE))
    assert begun(Position(90, NOTE), allows_loss=True)[:2] == (100, 90)


def test_a_log_that_was_cut_is_refused() -> None:
    regrown = replace(SOURCE, epoch_end_offset=140)

    assert "copied up to offset 201, and the source has lost what it had from 200" in refusal(
        Position(201, NOTE)
    )
    assert "has lost what it had from 140" in refusal(Position(150, NOTE), regrown)
    assert begun(Position(150, NOTE), regrown, allows_loss=True)[:2] == (140, 140)
    assert begun(Position(140, NOTE), regrown) == Beginning(140, 140)
    assert begun(Position(150, str(PlaceNote("id-1", "copy-1"))), regrown).offset == 150
