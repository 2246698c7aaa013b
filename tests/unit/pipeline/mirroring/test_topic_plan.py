from kbroker.pipeline.mirroring.topic_plan import Settings, TopicChange, TopicForm, plan_topics

SOURCE = TopicForm(
    name="t",
    partitions=3,
    settings={"retention.ms": "5", "message.timestamp.type": "LogAppendTime"},
)


def form(partitions: int, **settings: str) -> TopicForm:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return TopicForm(name="t", partitions=partitions, settings=named)


def planned(
    target: TopicForm | None,
    seen: Settings | None = None,
    given: Settings | None = None,
    source: TopicForm = SOURCE,
) -> list[TopicChange]:
    targets = {} if target is None else {"t": target}
    return plan_topics([source], targets, {"t": seen or {}}, given or {})


def test_a_missing_topic_is_made_as_it_is_in_the_source() -> None:
    given = {"max.message.bytes": "9"}
    (made,) = planned(None, given=given)

    assert made == TopicChange(
        name="t", is_new=True, partitions=3, sets={"retention.ms": "5", **given}
    )
    (unknown,) = planned(None, given=given, source=TopicForm(name="t", partitions=1, settings=None))
    assert unknown == TopicChange(name="t", is_new=True, partitions=1, sets=given)


def test_a_topic_that_is_the_same_is_left_alone() -> None:
    assert planned(form(3, retention_ms="5")) == []
    assert planned(form(4, retention_ms="5")) == []
    assert planned(form(3), source=TopicForm(name="t", partitions=3, settings=None)) == []


def test_partitions_are_added() -> None:
    assert planned(form(1, retention_ms="5")) == [TopicChange(name="t", partitions=3)]


def test_only_settings_that_changed_in_the_source_are_changed() -> None:
    seen = {"retention.ms": "4", "segment.ms": "7"}
    (change,) = planned(form(3, retention_ms="4", segment_ms="7", flush_ms="8"), seen)
    assert change == TopicChange(name="t", sets={"retention.ms": "5"}, removes=("segment.ms",))

    assert planned(form(3, retention_ms="1"), {"retention.ms": "5"}) == []


def test_a_given_setting_wins_over_that_of_the_source() -> None:
    (change,) = planned(form(3), given={"retention.ms": "6"})

    assert change == TopicChange(name="t", sets={"retention.ms": "6"})
