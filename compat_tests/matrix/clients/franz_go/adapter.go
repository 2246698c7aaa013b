package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	address string
	admin   *kadm.Client
}

func connect(address string, options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(address), kgo.MetadataMinAge(50*time.Millisecond))
	made, err := kgo.NewClient(options...)
	must(err)
	return made
}

func (f *franz) create(r request) any {
	config := map[string]*string{}
	for name, value := range r.Config {
		config[name] = &value
	}
	made, err := f.admin.CreateTopics(soon(), int32(r.Partitions), 1, config, r.Topics...)
	must(err)
	for _, topic := range made {
		must(topic.Err)
	}
	return nil
}

func (f *franz) delete(r request) any {
	deleted, err := f.admin.DeleteTopics(soon(), r.Topics...)
	must(err)
	for _, topic := range deleted {
		must(topic.Err)
	}
	return nil
}

func (f *franz) topics(request) any {
	details, err := f.admin.ListTopics(soon())
	must(err)
	return details.Names()
}

func (f *franz) partitions(r request) any {
	details, err := f.admin.ListTopics(soon(), r.Topic)
	must(err)
	return len(details[r.Topic].Partitions)
}

func (f *franz) config(r request) any {
	configs, err := f.admin.DescribeTopicConfigs(soon(), r.Topic)
	must(err)
	for _, config := range configs[0].Configs {
		if config.Key == r.Name {
			return config.MaybeValue()
		}
	}
	return nil
}

func (f *franz) deleteRecords(r request) any {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: r.Topic, Partition: 0, At: r.Before})
	deleted, err := f.admin.DeleteRecords(soon(), offsets)
	must(err)
	must(deleted.Error())
	found, _ := deleted.Lookup(r.Topic, 0)
	return found.LowWatermark
}

func (f *franz) write(r request) any {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[int]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}
	options := []kgo.Opt{
		kgo.DefaultProduceTopic(r.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[r.Codec]), kgo.RequiredAcks(acks[r.Acks]),
	}
	if !r.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	producer := connect(f.address, options...)
	defer producer.Close()
	return inTurn(r, func(records []record) {
		var out []*kgo.Record
		for _, one := range records {
			made := &kgo.Record{Key: one.Key, Value: one.Value, Partition: one.Partition, Timestamp: time.UnixMilli(one.Timestamp)}
			for _, h := range one.Headers {
				made.Headers = append(made.Headers, kgo.RecordHeader{Key: h.key, Value: h.value})
			}
			out = append(out, made)
		}
		must(producer.ProduceSync(soon(), out...).FirstErr())
	})
}

func (f *franz) transact(r request) any {
	producer := connect(f.address, kgo.TransactionalID(r.Name), kgo.DefaultProduceTopic(r.Topic))
	defer producer.Close()
	for _, t := range r.Transactions {
		must(producer.BeginTransaction())
		for _, value := range t.Values {
			must(producer.ProduceSync(soon(), &kgo.Record{Value: []byte(value)}).FirstErr())
		}
		must(producer.EndTransaction(soon(), kgo.TransactionEndTry(t.Commit)))
	}
	return nil
}

func (f *franz) read(r request) any {
	start := map[string]map[int32]kgo.Offset{r.Topic: {0: kgo.NewOffset().At(r.Start)}}
	options := []kgo.Opt{kgo.ConsumePartitions(start), kgo.ConsumeResetOffset(kgo.NoResetOffset())}
	if r.Committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	reader := connect(f.address, options...)
	defer reader.Close()
	found := []record{}
	for ctx := soon(); len(found) < r.Count; {
		fetched := reader.PollFetches(ctx)
		must(fetched.Err())
		fetched.EachRecord(func(one *kgo.Record) {
			made := record{one.Partition, one.Key, one.Value, []header{}, one.Timestamp.UnixMilli(), one.Offset}
			for _, h := range one.Headers {
				made.Headers = append(made.Headers, header{h.Key, h.Value})
			}
			found = append(found, made)
		})
	}
	return found
}

func (f *franz) ends(r request) any {
	starts, err := f.admin.ListStartOffsets(soon(), r.Topic)
	must(err)
	ends, err := f.admin.ListEndOffsets(soon(), r.Topic)
	must(err)
	return []int64{starts.Offsets()[r.Topic][0].At, ends.Offsets()[r.Topic][0].At}
}

func (f *franz) offsetAt(r request) any {
	listed, err := f.admin.ListOffsetsAfterMilli(soon(), r.Timestamp, r.Topic)
	must(err)
	return listed.Offsets()[r.Topic][0].At
}

type franzMember struct {
	consumer *kgo.Client
	seen     *values
	done     sync.WaitGroup
}

func (f *franz) join(r request, seen *values) member {
	balancers := map[string]kgo.GroupBalancer{"eager": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()}
	options := []kgo.Opt{kgo.ConsumerGroup(r.Group), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200 * time.Millisecond)}
	if r.Assignor == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		options = append(options, kgo.Balancers(balancers[r.Assignor]))
	}
	if r.Instance != "" {
		options = append(options, kgo.InstanceID(r.Instance))
	}
	if r.Pattern != "" {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(r.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(r.Topic))
	}
	m := &franzMember{seen: seen, consumer: connect(f.address, options...)}
	m.done.Go(m.run)
	return m
}

func (m *franzMember) run() {
	for {
		fetched := m.consumer.PollRecords(context.Background(), 100)
		if fetched.IsClientClosed() {
			return
		}
		fetched.EachRecord(func(one *kgo.Record) { m.seen.add(string(one.Value)) })
		// Where the broker restarts, the next commit has these records too.
		_ = m.consumer.CommitUncommittedOffsets(soon())
		m.consumer.AllowRebalance()
	}
}

func (m *franzMember) close() {
	time.Sleep(100 * time.Millisecond) // the last commit is on its way
	m.consumer.CloseAllowingRebalance()
	m.done.Wait()
}

func (f *franz) groups(request) any {
	listed, err := f.admin.ListGroups(soon())
	must(err)
	return listed.Groups()
}

func (f *franz) describeGroup(r request) any {
	described, err := f.admin.DescribeGroups(soon(), r.Group)
	must(err)
	must(described[r.Group].Err)
	return map[string]any{"state": described[r.Group].State, "members": len(described[r.Group].Members)}
}

func (f *franz) committed(r request) any {
	fetched, err := f.admin.FetchOffsets(soon(), r.Group)
	must(err)
	sum := int64(0)
	for _, offset := range fetched[r.Topic] {
		must(offset.Err)
		sum += offset.At
	}
	return sum
}

func (f *franz) deleteGroup(r request) any {
	deleted, err := f.admin.DeleteGroup(soon(), r.Group)
	must(err)
	must(deleted.Err)
	return nil
}

func code(err error) any {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	return nil
}

func main() {
	address := os.Args[1]
	f := &franz{address, kadm.NewClient(connect(address))}
	all := groupCalls(f.join)
	for name, call := range (calls{
		"hello":  func(request) any { return versionOf("github.com/twmb/franz-go") },
		"create": f.create, "delete": f.delete, "topics": f.topics, "partitions": f.partitions, "config": f.config,
		"delete_records": f.deleteRecords, "write": f.write, "transact": f.transact, "read": f.read, "ends": f.ends,
		"offset_at": f.offsetAt, "groups": f.groups, "describe_group": f.describeGroup, "committed": f.committed,
		"delete_group": f.deleteGroup,
	}) {
		all[name] = call
	}
	serve(all, code)
}
