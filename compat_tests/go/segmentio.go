package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type segmentio struct {
	address string
	inner   *kafka.Client
}

func newSegmentio(address string) client {
	return &segmentio{address, &kafka.Client{Addr: kafka.TCP(address), Timeout: 30 * time.Second}}
}

func (s *segmentio) create(partitions int, topics ...string) {
	request := &kafka.CreateTopicsRequest{}
	for _, topic := range topics {
		request.Topics = append(request.Topics, kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1})
	}
	made, err := s.inner.CreateTopics(soon(), request)
	must(err)
	for _, err := range made.Errors {
		must(err)
	}
}

func (s *segmentio) partitions(topics ...string) map[string]int {
	metadata, err := s.inner.Metadata(soon(), &kafka.MetadataRequest{Topics: topics})
	must(err)
	found := map[string]int{}
	for _, topic := range metadata.Topics {
		if topic.Error == nil {
			found[topic.Name] = len(topic.Partitions)
		}
	}
	return found
}

// write knows no idempotent producer: the library has none.
func (s *segmentio) write(topic string, how settings, records []record) {
	codecs := map[string]kafka.Compression{
		"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	writer := &kafka.Writer{
		Addr: kafka.TCP(s.address), Topic: topic, Compression: codecs[how.codec], BatchBytes: 1_000_000,
		RequiredAcks: kafka.RequiredAcks(how.acks), BatchTimeout: 5 * time.Millisecond, BatchSize: 10_000,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) }),
	}
	var out []kafka.Message
	for _, r := range records {
		one := kafka.Message{Key: r.key, Value: r.value, Time: r.at, WriterData: int(r.partition)}
		for _, h := range r.headers {
			one.Headers = append(one.Headers, kafka.Header{Key: h.key, Value: h.value})
		}
		out = append(out, one)
	}
	must(writer.WriteMessages(soon(), out...))
	must(writer.Close())
}

func (s *segmentio) reader(topic string, from int64) *kafka.Reader {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{s.address}, Topic: topic, Partition: 0, MaxBytes: 10_000_000, MaxWait: 100 * time.Millisecond,
	})
	must(reader.SetOffset(from))
	return reader
}

func (s *segmentio) read(topic string, from int64, count int) []record {
	reader := s.reader(topic, from)
	defer func() { must(reader.Close()) }()
	var found []record
	for ctx := soon(); len(found) < count; {
		m, err := reader.ReadMessage(ctx)
		must(err)
		one := record{key: m.Key, value: m.Value, at: m.Time, offset: m.Offset}
		for _, h := range m.Headers {
			one.headers = append(one.headers, header{h.Key, h.Value})
		}
		found = append(found, one)
	}
	return found
}

func (s *segmentio) readsNothing(topic string, from int64, wait time.Duration) bool {
	reader := s.reader(topic, from)
	defer func() { must(reader.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_, err := reader.ReadMessage(ctx)
	return errors.Is(err, context.DeadlineExceeded)
}

func (s *segmentio) listed(topic string, request kafka.OffsetRequest) kafka.PartitionOffsets {
	listed, err := s.inner.ListOffsets(soon(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {request}}})
	must(err)
	must(listed.Topics[topic][0].Error)
	return listed.Topics[topic][0]
}

func (s *segmentio) offsetAt(topic string, at time.Time) int64 {
	for offset := range s.listed(topic, kafka.TimeOffsetOf(0, at)).Offsets {
		return offset
	}
	return -1
}

func (s *segmentio) ends(topic string) (first, end int64) {
	return s.listed(topic, kafka.FirstOffsetOf(0)).FirstOffset, s.listed(topic, kafka.LastOffsetOf(0)).LastOffset
}

func (s *segmentio) trim(string, int64) bool {
	return false
}

func (s *segmentio) config(topic, name string) string {
	described, err := s.inner.DescribeConfigs(soon(), &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name}},
	}})
	must(err)
	return described.Resources[0].ConfigEntries[0].ConfigValue
}

type segmentioMember struct {
	reader *kafka.Reader
	mutex  sync.Mutex
	values []string
	done   sync.WaitGroup
}

func (s *segmentio) join(name, topic string) member {
	m := &segmentioMember{reader: kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{s.address}, GroupID: name, Topic: topic, StartOffset: kafka.FirstOffset, MaxBytes: 10_000_000,
		HeartbeatInterval: 200 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond, MaxWait: 200 * time.Millisecond,
		CommitInterval: 50 * time.Millisecond,
	})}
	m.done.Go(func() {
		for {
			message, err := m.reader.ReadMessage(context.Background())
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
				return
			}
			must(err)
			m.mutex.Lock()
			m.values = append(m.values, string(message.Value))
			m.mutex.Unlock()
		}
	})
	return m
}

func (m *segmentioMember) seen() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return append([]string(nil), m.values...)
}

func (m *segmentioMember) close() {
	must(m.reader.Close())
	m.done.Wait()
}

func (s *segmentio) groups() []string {
	listed, err := s.inner.ListGroups(soon(), &kafka.ListGroupsRequest{})
	must(err)
	must(listed.Error)
	var names []string
	for _, g := range listed.Groups {
		names = append(names, g.GroupID)
	}
	return names
}

func (s *segmentio) describe(name string) group {
	described, err := s.inner.DescribeGroups(soon(), &kafka.DescribeGroupsRequest{GroupIDs: []string{name}})
	must(err)
	must(described.Groups[0].Error)
	found := group{state: described.Groups[0].GroupState}
	for _, m := range described.Groups[0].Members {
		owned := 0
		for _, topic := range m.MemberAssignments.Topics {
			owned += len(topic.Partitions)
		}
		found.owned = append(found.owned, owned)
	}
	return found
}

func (s *segmentio) committed(name, topic string, partitions int) int64 {
	wanted := make([]int, partitions)
	for p := range wanted {
		wanted[p] = p
	}
	fetched, err := s.inner.OffsetFetch(soon(), &kafka.OffsetFetchRequest{GroupID: name, Topics: map[string][]int{topic: wanted}})
	must(err)
	sum := int64(0)
	for _, p := range fetched.Topics[topic] {
		must(p.Error)
		sum += p.CommittedOffset
	}
	return sum
}

func (s *segmentio) deleteGroup(name string) {
	deleted, err := s.inner.DeleteGroups(soon(), &kafka.DeleteGroupsRequest{GroupIDs: []string{name}})
	must(err)
	must(deleted.Errors[name])
}

func (s *segmentio) remove(topics ...string) {
	deleted, err := s.inner.DeleteTopics(soon(), &kafka.DeleteTopicsRequest{Topics: topics})
	must(err)
	for _, err := range deleted.Errors {
		must(err)
	}
}

func (s *segmentio) close() {}
