package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type client struct {
	address string
	inner   sarama.Client
	admin   sarama.ClusterAdmin
}

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Timeout = time.Minute // acks=all waits for the disk, which others may keep busy
	config.Admin.Timeout = time.Minute    // and so do topics that are made
	config.Net.ReadTimeout = 90 * time.Second
	config.Producer.Retry.Max = 200 // a broker may restart for some seconds
	config.Metadata.Retry.Max = 200
	config.Consumer.MaxWaitTime = 100 * time.Millisecond // closing a consumer waits for it
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	return config
}

func (c *client) create(r request) any {
	config := map[string]*string{}
	for name, value := range r.Config {
		config[name] = &value
	}
	for _, topic := range r.Topics {
		detail := &sarama.TopicDetail{NumPartitions: int32(r.Partitions), ReplicationFactor: 1, ConfigEntries: config}
		must(c.admin.CreateTopic(topic, detail, false))
	}
	return nil
}

func (c *client) delete(r request) any {
	for _, topic := range r.Topics {
		must(c.admin.DeleteTopic(topic))
	}
	return nil
}

func (c *client) topics(request) any {
	found, err := c.admin.ListTopics()
	must(err)
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	return names
}

func (c *client) partitions(r request) any {
	described, err := c.admin.DescribeTopics([]string{r.Topic})
	must(err)
	return len(described[0].Partitions)
}

func (c *client) config(r request) any {
	entries, err := c.admin.DescribeConfig(
		sarama.ConfigResource{Type: sarama.TopicResource, Name: r.Topic, ConfigNames: []string{r.Name}},
	)
	must(err)
	return entries[0].Value
}

// deleteRecords does not tell where the partition begins now: the library does not.
func (c *client) deleteRecords(r request) any {
	must(c.admin.DeleteRecords(r.Topic, map[int32]int64{0: r.Before}))
	return nil
}

func (c *client) write(r request) any {
	config := newConfig()
	must(config.Producer.Compression.UnmarshalText([]byte(r.Codec)))
	config.Producer.RequiredAcks = sarama.RequiredAcks(r.Acks)
	config.Producer.Idempotent = r.Idempotent
	config.Producer.MaxMessageBytes = 2_000_000
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{c.address}, config)
	must(err)
	defer func() { _ = producer.Close() }()
	return inTurn(r, func(records []record) {
		var out []*sarama.ProducerMessage
		for _, one := range records {
			made := &sarama.ProducerMessage{Topic: r.Topic, Partition: one.Partition, Timestamp: time.UnixMilli(one.Timestamp)}
			if one.Key != nil {
				made.Key = sarama.ByteEncoder(one.Key)
			}
			if one.Value != nil {
				made.Value = sarama.ByteEncoder(one.Value)
			}
			for _, h := range one.Headers {
				made.Headers = append(made.Headers, sarama.RecordHeader{Key: []byte(h.key), Value: h.value})
			}
			out = append(out, made)
		}
		var refused sarama.ProducerErrors
		err := producer.SendMessages(out)
		if errors.As(err, &refused) {
			panic(refused[0].Err)
		}
		must(err)
	})
}

func (c *client) transact(r request) any {
	config := newConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = r.Name
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{c.address}, config)
	must(err)
	defer func() { _ = producer.Close() }()
	for _, t := range r.Transactions {
		must(producer.BeginTxn())
		for _, value := range t.Values {
			_, _, err := producer.SendMessage(
				&sarama.ProducerMessage{Topic: r.Topic, Value: sarama.ByteEncoder(value)},
			)
			must(err)
		}
		if t.Commit {
			must(producer.CommitTxn())
		} else {
			must(producer.AbortTxn())
		}
	}
	return nil
}

func (c *client) read(r request) any {
	config := newConfig()
	if r.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{c.address}, config)
	must(err)
	defer func() { _ = consumer.Close() }()
	partition, err := consumer.ConsumePartition(r.Topic, 0, r.Start)
	must(err)
	defer func() { _ = partition.Close() }()
	found := []record{}
	for ctx := soon(); len(found) < r.Count; {
		select {
		case m := <-partition.Messages():
			made := record{m.Partition, m.Key, m.Value, []header{}, m.Timestamp.UnixMilli(), m.Offset}
			for _, h := range m.Headers {
				made.Headers = append(made.Headers, header{string(h.Key), h.Value})
			}
			found = append(found, made)
		case err := <-partition.Errors():
			must(err)
		case <-ctx.Done():
			check(false, "%d of %d records came", len(found), r.Count)
		}
	}
	return found
}

func (c *client) offset(topic string, at int64) int64 {
	offset, err := c.inner.GetOffset(topic, 0, at)
	must(err)
	return offset
}

func (c *client) ends(r request) any {
	return []int64{c.offset(r.Topic, sarama.OffsetOldest), c.offset(r.Topic, sarama.OffsetNewest)}
}

func (c *client) offsetAt(r request) any { return c.offset(r.Topic, r.Timestamp) }

type saramaMember struct {
	consumer sarama.ConsumerGroup
	seen     *values
	done     sync.WaitGroup
}

func (c *client) join(r request, seen *values) member {
	consumer, err := sarama.NewConsumerGroup([]string{c.address}, r.Group, newConfig())
	must(err)
	m := &saramaMember{consumer: consumer, seen: seen}
	m.done.Go(func() {
		for {
			err := consumer.Consume(context.Background(), []string{r.Topic}, m)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil { // the broker restarts
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	return m
}

// Setup begins a generation.
func (m *saramaMember) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup ends a generation.
func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim reads one partition until the group is rebalanced.
func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.seen.add(string(message.Value))
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *saramaMember) close() {
	_ = m.consumer.Close() // after a restart it tells of errors that are over
	m.done.Wait()
}

func (c *client) groups(request) any {
	listed, err := c.admin.ListConsumerGroups()
	must(err)
	names := []string{}
	for name := range listed {
		names = append(names, name)
	}
	return names
}

func (c *client) describeGroup(r request) any {
	described, err := c.admin.DescribeConsumerGroups([]string{r.Group})
	must(err)
	return map[string]any{"state": described[0].State, "members": len(described[0].Members)}
}

func (c *client) committed(r request) any {
	fetched, err := c.admin.ListConsumerGroupOffsets(r.Group, nil)
	must(err)
	sum := int64(0)
	for _, block := range fetched.Blocks[r.Topic] {
		check(block.Err == sarama.ErrNoError, "%v", block.Err)
		sum += block.Offset
	}
	return sum
}

func (c *client) deleteGroup(r request) any {
	must(c.admin.DeleteConsumerGroup(r.Group))
	return nil
}

func code(err error) any {
	var topic *sarama.TopicError
	if errors.As(err, &topic) {
		return int16(topic.Err)
	}
	var known sarama.KError
	if errors.As(err, &known) {
		return int16(known)
	}
	return nil
}

func main() {
	address := os.Args[1]
	inner, err := sarama.NewClient([]string{address}, newConfig())
	must(err)
	admin, err := sarama.NewClusterAdminFromClient(inner)
	must(err)
	c := &client{address, inner, admin}
	all := groupCalls(c.join)
	for name, call := range (calls{
		"hello":  func(request) any { return versionOf("github.com/IBM/sarama") },
		"create": c.create, "delete": c.delete, "topics": c.topics, "partitions": c.partitions, "config": c.config,
		"delete_records": c.deleteRecords, "write": c.write, "transact": c.transact, "read": c.read, "ends": c.ends,
		"offset_at": c.offsetAt, "groups": c.groups, "describe_group": c.describeGroup, "committed": c.committed,
		"delete_group": c.deleteGroup,
	}) {
		all[name] = call
	}
	serve(all, code)
}
