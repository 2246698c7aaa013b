// Command writer writes rising numbers with franz-go until SIGTERM, and tells of each as Apache Kafka's
// VerifiableProducer does.
//
// writer HOST:PORT,... TOPIC PARTITIONS RECORDS_PER_S DELIVERY_TIMEOUT_S
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	mostBuffered = 10_000          // more would wait in Produce, where SIGTERM is not heard
	patience     = 3 * time.Second // a broker that sleeps keeps its connections open
)

// event is a line of output.
type event struct {
	Name      string `json:"name"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     string `json:"value"`
	Message   string `json:"message,omitempty"`
}

var output sync.Mutex

func tell(told event) {
	output.Lock()
	defer output.Unlock()
	must(json.NewEncoder(os.Stdout).Encode(told))
}

func tellError(record *kgo.Record, message string) {
	tell(event{Name: "producer_send_error", Partition: record.Partition, Value: string(record.Value), Message: message})
}

func delivered(record *kgo.Record, err error) {
	if err != nil {
		tellError(record, err.Error())
		return
	}
	tell(event{"producer_send_success", record.Partition, record.Offset, string(record.Value), ""})
}

func connect(addresses, topic string, deliveryTimeout time.Duration) *kgo.Client {
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(addresses, ",")...),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.UnknownTopicRetries(-1), // a broker that starts may not have heard of the topic yet
		kgo.ProduceRequestTimeout(patience),
		kgo.RequestTimeoutOverhead(patience),
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.ProducerOnDataLossDetected(func(_ string, partition int32) {
			tellError(&kgo.Record{Partition: partition}, "franz-go found that records were lost")
		}),
	)
	must(err)
	return producer
}

// write returns when told to stop; what is written may still be on its way.
func write(producer *kgo.Client, partitions, perSecond int, stop <-chan os.Signal) {
	begin := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for number := 0; ; {
		due := int(time.Since(begin).Seconds() * float64(perSecond))
		for ; number < due && producer.BufferedProduceRecords() < mostBuffered; number++ {
			record := &kgo.Record{Value: fmt.Append(nil, number), Partition: int32(number % partitions)}
			producer.Produce(context.Background(), record, delivered)
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

func number(argument string) int {
	value, err := strconv.Atoi(argument)
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: writer HOST:PORT,... TOPIC PARTITIONS RECORDS_PER_S DELIVERY_TIMEOUT_S")
		os.Exit(2)
	}
	deliveryTimeout := time.Duration(number(os.Args[5])) * time.Second
	producer := connect(os.Args[1], os.Args[2], deliveryTimeout)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	write(producer, number(os.Args[3]), number(os.Args[4]), stop)
	ctx, cancel := context.WithTimeout(context.Background(), deliveryTimeout)
	defer cancel()
	if err := producer.Flush(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	producer.Close() // tells of each record that was never answered as an error
}
