package main

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type client struct {
	address string
}

// inner is a client that knows topics that are new: a transport keeps what it has heard of them for seconds.
func (c *client) inner() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(c.address), Timeout: patience, Transport: &kafka.Transport{}}
}

func (c *client) create(r request) any {
	request := &kafka.CreateTopicsRequest{}
	for _, topic := range r.Topics {
		one := kafka.TopicConfig{Topic: topic, NumPartitions: r.Partitions, ReplicationFactor: 1}
		for name, value := range r.Config {
			one.ConfigEntries = append(one.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
		}
		request.Topics = append(request.Topics, one)
	}
	made, err := c.inner().CreateTopics(soon(), request)
	must(err)
	for _, err := range made.Errors {
		must(err)
	}
	return nil
}

func (c *client) delete(r request) any {
	deleted, err := c.inner().DeleteTopics(soon(), &kafka.DeleteTopicsRequest{Topics: r.Topics})
	must(err)
	for _, err := range deleted.Errors {
		must(err)
	}
	return nil
}

func (c *client) metadata(topics ...string) []kafka.Topic {
	metadata, err := c.inner().Metadata(soon(), &kafka.MetadataRequest{Topics: topics})
	must(err)
	return metadata.Topics
}

func (c *client) topics(request) any {
	names := []string{}
	for _, topic := range c.metadata() {
		names = append(names, topic.Name)
	}
	return names
}

func (c *client) partitions(r request) any { return len(c.metadata(r.Topic)[0].Partitions) }

func (c *client) config(r request) any {
	described, err := c.inner().DescribeConfigs(soon(), &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: r.Topic, ConfigNames: []string{r.Name}},
	}})
	must(err)
	return described.Resources[0].ConfigEntries[0].ConfigValue
}

func (c *client) write(r request) any {
	codecs := map[string]kafka.Compression{
		"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	writer := &kafka.Writer{
		Transport: &kafka.Transport{}, Addr: kafka.TCP(c.address), Topic: r.Topic, Compression: codecs[r.Codec], BatchBytes: 1_000_000,
		RequiredAcks: kafka.RequiredAcks(r.Acks), BatchTimeout: 5 * time.Millisecond, BatchSize: 10_000,
		MaxAttempts: 100, Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) }),
	}
	defer func() { _ = writer.Close() }()
	return inTurn(r, func(records []record) {
		var out []kafka.Message
		for _, one := range records {
			made := kafka.Message{Key: one.Key, Value: one.Value, Time: time.UnixMilli(one.Timestamp), WriterData: int(one.Partition)}
			for _, h := range one.Headers {
				made.Headers = append(made.Headers, kafka.Header{Key: h.key, Value: h.value})
			}
			out = append(out, made)
		}
		err := writer.WriteMessages(soon(), out...)
		var each kafka.WriteErrors
		if errors.As(err, &each) {
			for _, one := range each {
				must(one)
			}
		}
		must(err)
	})
}

func (c *client) read(r request) any {
	config := kafka.ReaderConfig{
		Brokers: []string{c.address}, Topic: r.Topic, Partition: 0, MaxBytes: 10_000_000, MaxWait: 100 * time.Millisecond,
		OffsetOutOfRangeError: true,
	}
	if r.Committed {
		config.IsolationLevel = kafka.ReadCommitted
	}
	reader := kafka.NewReader(config)
	defer func() { _ = reader.Close() }()
	must(reader.SetOffset(r.Start))
	found := []record{}
	for ctx := soon(); len(found) < r.Count; {
		m, err := reader.ReadMessage(ctx)
		must(err)
		made := record{int32(m.Partition), m.Key, m.Value, []header{}, m.Time.UnixMilli(), m.Offset}
		for _, h := range m.Headers {
			made.Headers = append(made.Headers, header{h.Key, h.Value})
		}
		found = append(found, made)
	}
	return found
}

func (c *client) listed(topic string, request kafka.OffsetRequest) kafka.PartitionOffsets {
	listed, err := c.inner().ListOffsets(soon(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {request}}})
	must(err)
	must(listed.Topics[topic][0].Error)
	return listed.Topics[topic][0]
}

func (c *client) ends(r request) any {
	first, last := c.listed(r.Topic, kafka.FirstOffsetOf(0)), c.listed(r.Topic, kafka.LastOffsetOf(0))
	return []int64{first.FirstOffset, last.LastOffset}
}

func (c *client) offsetAt(r request) any {
	for offset := range c.listed(r.Topic, kafka.TimeOffsetOf(0, time.UnixMilli(r.Timestamp))).Offsets {
		return offset
	}
	return -1
}

type kafkaGoMember struct {
	reader *kafka.Reader
	done   sync.WaitGroup
}

func (c *client) join(r request, seen *values) member {
	m := &kafkaGoMember{reader: kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{c.address}, GroupID: r.Group, Topic: r.Topic, StartOffset: kafka.FirstOffset, MaxBytes: 10_000_000,
		HeartbeatInterval: 200 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond, MaxWait: 200 * time.Millisecond,
	})}
	m.done.Go(func() {
		for {
			message, err := m.reader.ReadMessage(context.Background())
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
				return
			}
			if err == nil { // else the broker restarts
				seen.add(string(message.Value))
			}
		}
	})
	return m
}

func (m *kafkaGoMember) close() {
	must(m.reader.Close())
	m.done.Wait()
}

func (c *client) groups(request) any {
	listed, err := c.inner().ListGroups(soon(), &kafka.ListGroupsRequest{})
	must(err)
	must(listed.Error)
	names := []string{}
	for _, g := range listed.Groups {
		names = append(names, g.GroupID)
	}
	return names
}

func (c *client) describeGroup(r request) any {
	described, err := c.inner().DescribeGroups(soon(), &kafka.DescribeGroupsRequest{GroupIDs: []string{r.Group}})
	must(err)
	must(described.Groups[0].Error)
	return map[string]any{"state": described.Groups[0].GroupState, "members": len(described.Groups[0].Members)}
}

func (c *client) committed(r request) any {
	var wanted []int
	for _, partition := range c.metadata(r.Topic)[0].Partitions {
		wanted = append(wanted, partition.ID)
	}
	fetched, err := c.inner().OffsetFetch(soon(), &kafka.OffsetFetchRequest{GroupID: r.Group, Topics: map[string][]int{r.Topic: wanted}})
	must(err)
	sum := int64(0)
	for _, p := range fetched.Topics[r.Topic] {
		must(p.Error)
		sum += p.CommittedOffset
	}
	return sum
}

func (c *client) deleteGroup(r request) any {
	deleted, err := c.inner().DeleteGroups(soon(), &kafka.DeleteGroupsRequest{GroupIDs: []string{r.Group}})
	must(err)
	must(deleted.Errors[r.Group])
	return nil
}

func code(err error) any {
	var known kafka.Error
	if errors.As(err, &known) {
		return int(known)
	}
	var large kafka.MessageTooLargeError
	if errors.As(err, &large) {
		return int(kafka.MessageSizeTooLarge)
	}
	return nil
}

func main() {
	address := os.Args[1]
	c := &client{address}
	all := groupCalls(c.join)
	for name, call := range (calls{
		"hello":  func(request) any { return versionOf("github.com/segmentio/kafka-go") },
		"create": c.create, "delete": c.delete, "topics": c.topics, "partitions": c.partitions, "config": c.config,
		"write": c.write, "read": c.read, "ends": c.ends, "offset_at": c.offsetAt, "groups": c.groups,
		"describe_group": c.describeGroup, "committed": c.committed, "delete_group": c.deleteGroup,
	}) {
		all[name] = call
	}
	serve(all, code)
}
