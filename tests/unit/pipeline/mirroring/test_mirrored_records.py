from kbroker.pipeline.mirroring.mirrored_records import SOURCE_HEADER, RecordMarks
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.default_record import Record

MARKS = RecordMarks("east", "west")
PLAIN = Record(0, 5, b"k", None)
WITH_HEADERS = Record(1, 6, None, b"v", (("a", None), ("a", b"2")))
FROM_SOUTH = Record(2, 7, b"k", b"v", ((SOURCE_HEADER, b"south"),))
FROM_WEST = Record(3, 8, b"k", b"v", ((SOURCE_HEADER, b"west"), (SOURCE_HEADER, b"south")))


def test_a_record_goes_to_no_cluster_in_which_it_has_been() -> None:
    records = [PLAIN, FROM_WEST, WITH_HEADERS, FROM_SOUTH]

    assert MARKS.to_copy(records) == [PLAIN, WITH_HEADERS, FROM_SOUTH]


def test_a_record_gets_the_id_of_its_source_behind_its_own_headers() -> None:
    records = [PLAIN, WITH_HEADERS, FROM_SOUTH]
    marked = [
        record._replace(headers=(*record.headers, (SOURCE_HEADER, b"east"))) for record in records
    ]

    assert MARKS.bodies(records) == list(map(whole_body_of, marked))
