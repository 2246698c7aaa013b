package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	address string
	admin   *kadm.Client
}

func newFranz(address string) client {
	return &franz{address, kadm.NewClient(connectFranz(address))}
}

func connectFranz(address string, options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(address), kgo.MetadataMinAge(50*time.Millisecond))
	made, err := kgo.NewClient(options...)
	must(err)
	return made
}

func (f *franz) create(partitions int, topics ...string) {
	made, err := f.admin.CreateTopics(soon(), int32(partitions), 1, nil, topics...)
	must(err)
	for _, topic := range made {
		must(topic.Err)
	}
}

func (f *franz) partitions(topics ...string) map[string]int {
	details, err := f.admin.ListTopics(soon(), topics...)
	must(err)
	found := map[string]int{}
	for name, detail := range details {
		if detail.Err == nil {
			found[name] = len(detail.Partitions)
		}
	}
	return found
}

func (f *franz) write(topic string, how settings, records []record) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[int]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}
	options := []kgo.Opt{
		kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[how.codec]), kgo.RequiredAcks(acks[how.acks]),
	}
	if !how.idempotent {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	producer := connectFranz(f.address, options...)
	defer producer.Close()
	var out []*kgo.Record
	for _, r := range records {
		one := &kgo.Record{Key: r.key, Value: r.value, Partition: r.partition, Timestamp: r.at}
		for _, h := range r.headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: h.key, Value: h.value})
		}
		out = append(out, one)
	}
	must(producer.ProduceSync(soon(), out...).FirstErr())
}

func (f *franz) transact(id, topic string, transactions []transaction) {
	producer := connectFranz(f.address, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
	defer producer.Close()
	for _, t := range transactions {
		must(producer.BeginTransaction())
		for _, r := range t.records {
			must(producer.ProduceSync(soon(), &kgo.Record{Value: r.value}).FirstErr())
		}
		must(producer.EndTransaction(soon(), kgo.TransactionEndTry(t.commit)))
	}
}

func (f *franz) readCommitted(topic string, count int) []string {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	reader := connectFranz(
		f.address, kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	defer reader.Close()
	var found []string
	for ctx := soon(); len(found) < count; {
		fetched := reader.PollFetches(ctx)
		must(fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) { found = append(found, string(r.Value)) })
	}
	return found
}

func (f *franz) reader(topic string, from int64) *kgo.Client {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}
	return connectFranz(f.address, kgo.ConsumePartitions(start))
}

func (f *franz) read(topic string, from int64, count int) []record {
	reader := f.reader(topic, from)
	defer reader.Close()
	var found []record
	for ctx := soon(); len(found) < count; {
		fetched := reader.PollFetches(ctx)
		must(fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) {
			one := record{key: r.Key, value: r.Value, at: r.Timestamp, offset: r.Offset}
			for _, h := range r.Headers {
				one.headers = append(one.headers, header{h.Key, h.Value})
			}
			found = append(found, one)
		})
	}
	return found
}

func (f *franz) readsNothing(topic string, from int64, wait time.Duration) bool {
	reader := f.reader(topic, from)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	fetched := reader.PollFetches(ctx)
	return fetched.NumRecords() == 0 && fetched.Err() == context.DeadlineExceeded
}

func (f *franz) offsetAt(topic string, at time.Time) int64 {
	listed, err := f.admin.ListOffsetsAfterMilli(soon(), at.UnixMilli(), topic)
	must(err)
	return listed.Offsets()[topic][0].At
}

func (f *franz) ends(topic string) (first, end int64) {
	starts, err := f.admin.ListStartOffsets(soon(), topic)
	must(err)
	ends, err := f.admin.ListEndOffsets(soon(), topic)
	must(err)
	return starts.Offsets()[topic][0].At, ends.Offsets()[topic][0].At
}

func (f *franz) trim(topic string, before int64) bool {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: before})
	deleted, err := f.admin.DeleteRecords(soon(), offsets)
	must(err)
	must(deleted.Error())
	found, ok := deleted.Lookup(topic, 0)
	check(ok && found.LowWatermark == before, "the low watermark is %v", found)
	dirs, err := f.admin.DescribeAllLogDirs(soon(), nil)
	must(err)
	size := int64(0)
	for _, broker := range dirs {
		broker.EachPartition(func(replica kadm.DescribedLogDirPartition) {
			if replica.Topic == topic {
				size += replica.Size
			}
		})
	}
	check(size > 0, "the directories do not tell of %s", topic)
	return true
}

func (f *franz) config(topic, name string) string {
	configs, err := f.admin.DescribeTopicConfigs(soon(), topic)
	must(err)
	for _, config := range configs[0].Configs {
		if config.Key == name {
			return config.MaybeValue()
		}
	}
	return ""
}

type franzMember struct {
	consumer *kgo.Client
	mutex    sync.Mutex
	values   []string
	done     sync.WaitGroup
}

func (f *franz) join(group, topic string) member {
	m := &franzMember{consumer: connectFranz(f.address,
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200*time.Millisecond))}
	m.done.Go(m.run)
	return m
}

func (m *franzMember) run() {
	for {
		fetched := m.consumer.PollRecords(context.Background(), 100)
		if fetched.IsClientClosed() {
			return
		}
		must(fetched.Err())
		m.mutex.Lock()
		fetched.EachRecord(func(r *kgo.Record) { m.values = append(m.values, string(r.Value)) })
		m.mutex.Unlock()
		must(m.consumer.CommitUncommittedOffsets(soon()))
		m.consumer.AllowRebalance()
	}
}

func (m *franzMember) seen() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return append([]string(nil), m.values...)
}

func (m *franzMember) close() {
	time.Sleep(100 * time.Millisecond) // the last commit is on its way
	m.consumer.CloseAllowingRebalance()
	m.done.Wait()
}

func (f *franz) groups() []string {
	listed, err := f.admin.ListGroups(soon())
	must(err)
	return listed.Groups()
}

func (f *franz) describe(name string) group {
	described, err := f.admin.DescribeGroups(soon(), name)
	must(err)
	found := group{state: described[name].State}
	for _, m := range described[name].Members {
		assigned, _ := m.Assigned.AsConsumer()
		owned := 0
		if assigned != nil && len(assigned.Topics) > 0 {
			owned = len(assigned.Topics[0].Partitions)
		}
		found.owned = append(found.owned, owned)
	}
	return found
}

func (f *franz) committed(group, topic string, _ int) int64 {
	fetched, err := f.admin.FetchOffsets(soon(), group)
	must(err)
	sum := int64(0)
	for _, offset := range fetched[topic] {
		must(offset.Err)
		sum += offset.At
	}
	return sum
}

func (f *franz) deleteGroup(name string) {
	deleted, err := f.admin.DeleteGroup(soon(), name)
	must(err)
	must(deleted.Err)
}

func (f *franz) remove(topics ...string) {
	deleted, err := f.admin.DeleteTopics(soon(), topics...)
	must(err)
	for _, topic := range deleted {
		must(topic.Err)
	}
}

func (f *franz) close() { f.admin.Close() }

// soon is a context that ends before anyone gets impatient.
func soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	context.AfterFunc(ctx, cancel)
	return ctx
}
