package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

// chapters are told in order, each with names of topics and groups of its own.
var chapters = []struct {
	name string
	tell func(c client, id string)
}{
	{"every codec", everyCodec},
	{"every acks", everyAcks},
	{"a record of 900 KB", bigRecord},
	{"offsets", offsets},
	{"nothing to read", nothingToRead},
	{"deleted records", deletedRecords},
	{"transactions", transactions},
	{"a group of two", groupOfTwo},
	{"200 topics", manyTopics},
}

// firstTime is an hour ago: what is older than a topic's retention may be deleted at any moment.
var firstTime = time.Now().Add(-time.Hour).Truncate(time.Millisecond)

// samples are records of all shapes, one millisecond apart.
func samples(count int) []record {
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	shapes := []record{
		{key: []byte("key"), value: []byte("value")},
		{value: []byte("no key")},
		{key: []byte("tombstone")},
		{key: []byte("h"), value: []byte("headers"), headers: []header{{"a", []byte("1")}, {"a", []byte("2")}}},
		{key: binary, value: binary, headers: []header{{"bin", binary}}},
		{key: []byte("big"), value: bytes.Repeat([]byte("0123456789abcdef"), 64)},
	}
	records := make([]record, count)
	for i := range records {
		records[i] = shapes[i%len(shapes)]
		records[i].at = firstTime.Add(time.Duration(i) * time.Millisecond)
		records[i].offset = int64(i)
	}
	return records
}

func numbers(first, count, partitions int) []record {
	records := make([]record, count)
	for i := range records {
		number := first + i
		records[i] = record{value: fmt.Append(nil, number), partition: int32(number % partitions)}
	}
	return records
}

func same(got, want []record) {
	check(len(got) == len(want), "%d records instead of %d", len(got), len(want))
	for i, w := range want {
		g := got[i]
		equal := g.offset == w.offset && bytes.Equal(g.key, w.key) && bytes.Equal(g.value, w.value) &&
			(g.value == nil) == (w.value == nil) && (g.key == nil) == (w.key == nil) &&
			g.at.UnixMilli() == w.at.UnixMilli() && len(g.headers) == len(w.headers)
		for j := range w.headers {
			equal = equal && g.headers[j].key == w.headers[j].key && bytes.Equal(g.headers[j].value, w.headers[j].value)
		}
		check(equal, "record %d is %v instead of %v", i, g, w)
	}
}

func eventually(what string, done func() bool) {
	deadline := time.Now().Add(30 * time.Second)
	for !done() {
		check(time.Now().Before(deadline), "not within 30 s: %s", what)
		time.Sleep(20 * time.Millisecond)
	}
}

// create makes topics and waits until the broker tells of them all.
func create(c client, partitions int, topics ...string) {
	c.create(partitions, topics...)
	eventually("the topics are there", func() bool { return len(c.partitions(topics...)) == len(topics) })
}

func everyCodec(c client, id string) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := id + codec
		create(c, 1, topic)
		c.write(topic, settings{codec: codec, acks: -1}, samples(600))
		same(c.read(topic, 0, 600), samples(600))
		same(c.read(topic, 300, 300), samples(600)[300:])
	}
}

func everyAcks(c client, id string) {
	for i, how := range []settings{{"none", 0, false}, {"none", 1, false}, {"gzip", -1, true}} {
		topic := fmt.Sprint(id, i)
		create(c, 1, topic)
		c.write(topic, how, samples(60))
		same(c.read(topic, 0, 60), samples(60))
	}
}

func bigRecord(c client, id string) {
	create(c, 1, id)
	value := bytes.Repeat([]byte("x"), 900_000)
	records := []record{{value: value, at: firstTime}, {value: value, at: firstTime, offset: 1}}
	c.write(id, settings{"none", -1, false}, records)
	same(c.read(id, 0, 2), records)
}

func offsets(c client, id string) {
	create(c, 1, id)
	c.write(id, settings{"none", -1, false}, samples(100))
	first, end := c.ends(id)
	check(first == 0 && end == 100, "the offsets go from %d to %d", first, end)
	found := c.offsetAt(id, firstTime.Add(42*time.Millisecond))
	check(found == 42, "offset %d has the time of record 42", found)
	check(c.config(id, "cleanup.policy") == "delete", "cleanup.policy is %q", c.config(id, "cleanup.policy"))
}

func deletedRecords(c client, id string) {
	create(c, 1, id)
	c.write(id, settings{"none", -1, false}, samples(100))
	if !c.trim(id, 42) {
		return
	}
	first, end := c.ends(id)
	check(first == 42 && end == 100, "the offsets go from %d to %d", first, end)
	same(c.read(id, 42, 58), samples(100)[42:])
}

func transactions(c client, id string) {
	t, ok := c.(transactor)
	if !ok {
		return
	}
	create(c, 1, id)
	t.transact(id, id, []transaction{
		{numbers(0, 3, 1), true}, {numbers(3, 3, 1), false}, {numbers(6, 3, 1), true},
	})
	found := t.readCommitted(id, 6)
	check(slices.Equal(found, []string{"0", "1", "2", "6", "7", "8"}), "committed are %v", found)
}

func nothingToRead(c client, id string) {
	create(c, 1, id)
	began := time.Now()
	check(c.readsNothing(id, 0, 300*time.Millisecond), "an empty topic has records")
	took := time.Since(began)
	check(took > 200*time.Millisecond && took < 5*time.Second, "the wait took %v", took)
}

func distinct(members ...member) int {
	all := map[string]bool{}
	for _, m := range members {
		for _, value := range m.seen() {
			all[value] = true
		}
	}
	return len(all)
}

func groupOfTwo(c client, id string) {
	const partitions = 50
	create(c, partitions, id)
	c.write(id, settings{"none", -1, false}, numbers(0, 1000, partitions))
	one := c.join(id, id)
	eventually("the first member reads", func() bool { return len(one.seen()) > 0 })
	two := c.join(id, id)
	eventually("two members share 50 partitions", func() bool {
		g := c.describe(id)
		return g.state == "Stable" && slices.Equal(g.owned, []int{25, 25})
	})
	c.write(id, settings{"none", -1, false}, numbers(1000, 1000, partitions))
	eventually("all 2000 records are seen", func() bool { return distinct(one, two) == 2000 })
	check(len(two.seen()) > 0, "the second member saw nothing")
	check(slices.Contains(c.groups(), id), "the group is not listed: %s", strings.Join(c.groups(), " "))
	one.close()
	eventually("the second member owns everything", func() bool { return slices.Equal(c.describe(id).owned, []int{50}) })
	c.write(id, settings{"none", -1, false}, numbers(2000, 500, partitions))
	eventually("all 2500 records are seen", func() bool { return distinct(one, two) == 2500 })
	two.close()
	check(c.committed(id, id, partitions) == 2500, "%d records are committed", c.committed(id, id, partitions))
	c.write(id, settings{"none", -1, false}, numbers(2500, 100, partitions))
	three := c.join(id, id)
	eventually("the group goes on", func() bool { return distinct(three) == 100 })
	check(len(three.seen()) == 100, "%d records are read instead of 100", len(three.seen()))
	three.close()
	eventually("the group is empty", func() bool { return c.describe(id).state == "Empty" })
	c.deleteGroup(id)
	check(!slices.Contains(c.groups(), id), "the group is still there")
}

func manyTopics(c client, id string) {
	topics := make([]string, 200)
	for i := range topics {
		topics[i] = fmt.Sprintf("%s-%d", id, i)
	}
	create(c, 2, topics...)
	for topic, count := range c.partitions(topics...) {
		check(count == 2, "%s has %d partitions", topic, count)
	}
	check(len(c.partitions(topics...)) == 200, "only %d topics are there", len(c.partitions(topics...)))
	c.remove(topics...)
	eventually("the topics are gone", func() bool { return len(c.partitions(topics[:3]...)) == 0 })
}
