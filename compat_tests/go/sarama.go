package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct {
	address string
	inner   sarama.Client
	admin   sarama.ClusterAdmin
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Timeout = time.Minute // acks=all waits for the disk, which others may keep busy
	config.Admin.Timeout = time.Minute    // and so do topics that are made
	config.Net.ReadTimeout = 90 * time.Second
	config.Producer.Retry.Max = 20                       // the leader of a new partition may not know of it yet
	config.Consumer.MaxWaitTime = 100 * time.Millisecond // closing a consumer waits for it
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	return config
}

func newSarama(address string) client {
	inner, err := sarama.NewClient([]string{address}, saramaConfig())
	must(err)
	admin, err := sarama.NewClusterAdminFromClient(inner)
	must(err)
	return &saramaClient{address, inner, admin}
}

func (s *saramaClient) create(partitions int, topics ...string) {
	for _, topic := range topics {
		must(s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false))
	}
	// Sarama asks a leader once more at the most: it may not have heard of the topic yet.
	for _, topic := range topics {
		eventually("its leader has heard of "+topic, func() bool {
			_, err := s.inner.GetOffset(topic, 0, sarama.OffsetNewest)
			return err == nil
		})
	}
}

func (s *saramaClient) partitions(topics ...string) map[string]int {
	described, err := s.admin.DescribeTopics(topics)
	must(err)
	found := map[string]int{}
	for _, topic := range described {
		if topic.Err == sarama.ErrNoError {
			found[topic.Name] = len(topic.Partitions)
		}
	}
	return found
}

func (s *saramaClient) write(topic string, how settings, records []record) {
	config := saramaConfig()
	must(config.Producer.Compression.UnmarshalText([]byte(how.codec)))
	config.Producer.RequiredAcks = sarama.RequiredAcks(how.acks)
	config.Producer.Idempotent = how.idempotent
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{s.address}, config)
	must(err)
	defer func() { must(producer.Close()) }()
	var out []*sarama.ProducerMessage
	for _, r := range records {
		one := &sarama.ProducerMessage{Topic: topic, Partition: r.partition, Timestamp: r.at}
		if r.key != nil {
			one.Key = sarama.ByteEncoder(r.key)
		}
		if r.value != nil {
			one.Value = sarama.ByteEncoder(r.value)
		}
		for _, h := range r.headers {
			one.Headers = append(one.Headers, sarama.RecordHeader{Key: []byte(h.key), Value: h.value})
		}
		out = append(out, one)
	}
	var refused sarama.ProducerErrors
	if err := producer.SendMessages(out); errors.As(err, &refused) {
		panic(fmt.Sprintf("%d records are not delivered: %v", len(refused), refused[0].Err))
	} else {
		must(err)
	}
}

func (s *saramaClient) transact(id, topic string, transactions []transaction) {
	config := saramaConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{s.address}, config)
	must(err)
	defer func() { must(producer.Close()) }()
	for _, t := range transactions {
		must(producer.BeginTxn())
		for _, r := range t.records {
			_, _, err := producer.SendMessage(
				&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(r.value)},
			)
			must(err)
		}
		if t.commit {
			must(producer.CommitTxn())
		} else {
			must(producer.AbortTxn())
		}
	}
}

func (s *saramaClient) readCommitted(topic string, count int) []string {
	config := saramaConfig()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer([]string{s.address}, config)
	must(err)
	defer func() { must(consumer.Close()) }()
	partition, err := consumer.ConsumePartition(topic, 0, 0)
	must(err)
	defer func() { must(partition.Close()) }()
	var found []string
	for len(found) < count {
		select {
		case m := <-partition.Messages():
			found = append(found, string(m.Value))
		case err := <-partition.Errors():
			must(err)
		case <-soon().Done():
			panic("nothing more is committed")
		}
	}
	return found
}

func (s *saramaClient) read(topic string, from int64, count int) []record {
	consumer, err := sarama.NewConsumer([]string{s.address}, saramaConfig())
	must(err)
	defer func() { must(consumer.Close()) }()
	partition, err := consumer.ConsumePartition(topic, 0, from)
	must(err)
	defer func() { must(partition.Close()) }()
	var found []record
	for len(found) < count {
		select {
		case m := <-partition.Messages():
			one := record{key: m.Key, value: m.Value, at: m.Timestamp, offset: m.Offset}
			for _, h := range m.Headers {
				one.headers = append(one.headers, header{string(h.Key), h.Value})
			}
			found = append(found, one)
		case err := <-partition.Errors():
			must(err)
		case <-soon().Done():
			panic("nothing more to read")
		}
	}
	return found
}

func (s *saramaClient) readsNothing(topic string, from int64, wait time.Duration) bool {
	consumer, err := sarama.NewConsumer([]string{s.address}, saramaConfig())
	must(err)
	defer func() { must(consumer.Close()) }()
	partition, err := consumer.ConsumePartition(topic, 0, from)
	must(err)
	defer func() { must(partition.Close()) }()
	select {
	case <-partition.Messages():
		return false
	case err := <-partition.Errors():
		panic(err)
	case <-time.After(wait):
		return true
	}
}

func (s *saramaClient) offset(topic string, at int64) int64 {
	offset, err := s.inner.GetOffset(topic, 0, at)
	must(err)
	return offset
}

func (s *saramaClient) offsetAt(topic string, at time.Time) int64 {
	return s.offset(topic, at.UnixMilli())
}

func (s *saramaClient) ends(topic string) (first, end int64) {
	return s.offset(topic, sarama.OffsetOldest), s.offset(topic, sarama.OffsetNewest)
}

func (s *saramaClient) trim(topic string, before int64) bool {
	must(s.admin.DeleteRecords(topic, map[int32]int64{0: before}))
	return true
}

func (s *saramaClient) config(topic, name string) string {
	entries, err := s.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}})
	must(err)
	return entries[0].Value
}

type saramaMember struct {
	consumer sarama.ConsumerGroup
	mutex    sync.Mutex
	values   []string
	done     sync.WaitGroup
}

func (s *saramaClient) join(name, topic string) member {
	consumer, err := sarama.NewConsumerGroup([]string{s.address}, name, saramaConfig())
	must(err)
	m := &saramaMember{consumer: consumer}
	m.done.Go(func() {
		for {
			err := consumer.Consume(context.Background(), []string{topic}, m)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			must(err)
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
		m.mutex.Lock()
		m.values = append(m.values, string(message.Value))
		m.mutex.Unlock()
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *saramaMember) seen() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return append([]string(nil), m.values...)
}

func (m *saramaMember) close() {
	must(m.consumer.Close())
	m.done.Wait()
}

func (s *saramaClient) groups() []string {
	listed, err := s.admin.ListConsumerGroups()
	must(err)
	var names []string
	for name := range listed {
		names = append(names, name)
	}
	return names
}

func (s *saramaClient) describe(name string) group {
	described, err := s.admin.DescribeConsumerGroups([]string{name})
	must(err)
	found := group{state: described[0].State}
	for _, m := range described[0].Members {
		owned := 0
		if assignment, err := m.GetMemberAssignment(); err == nil && assignment != nil {
			for _, partitions := range assignment.Topics {
				owned += len(partitions)
			}
		}
		found.owned = append(found.owned, owned)
	}
	return found
}

func (s *saramaClient) committed(name, topic string, partitions int) int64 {
	wanted := map[string][]int32{topic: {}}
	for p := range partitions {
		wanted[topic] = append(wanted[topic], int32(p))
	}
	fetched, err := s.admin.ListConsumerGroupOffsets(name, wanted)
	must(err)
	sum := int64(0)
	for _, block := range fetched.Blocks[topic] {
		check(block.Err == sarama.ErrNoError, "%v", block.Err)
		sum += block.Offset
	}
	return sum
}

func (s *saramaClient) deleteGroup(name string) { must(s.admin.DeleteConsumerGroup(name)) }

func (s *saramaClient) remove(topics ...string) {
	for _, topic := range topics {
		must(s.admin.DeleteTopic(topic))
	}
}

func (s *saramaClient) close() { must(s.admin.Close()) }
