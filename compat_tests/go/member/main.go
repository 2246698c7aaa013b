// Command member is a member of a group by franz-go that says what it does, a line each, until standard input ends,
// as Member.java: member BOOTSTRAP TOPIC GROUP PROTOCOL NAME ASSIGNOR
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 10 * time.Second

var output sync.Mutex

func say(format string, values ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf("%d %s\n", time.Now().UnixMilli(), fmt.Sprintf(format, values...))
}

// sayPlaces is what happens to partitions; nothing is said where there are none.
func sayPlaces(what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, places map[string][]int32) {
		var numbers []string
		for _, partitions := range places {
			for _, partition := range partitions {
				numbers = append(numbers, strconv.Itoa(int(partition)))
			}
		}
		if len(numbers) > 0 {
			say("%s %s", what, strings.Join(numbers, ","))
		}
	}
}

func join(bootstrap, topic, group, protocol, name, assignor string) *kgo.Client {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(name),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), // what was read is committed before it is another's
		kgo.RebalanceTimeout(20 * time.Second),
		kgo.OnPartitionsAssigned(sayPlaces("got")),
		kgo.OnPartitionsRevoked(sayPlaces("gave")),
		kgo.OnPartitionsLost(sayPlaces("lost")),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, func() string {
			return strconv.FormatInt(time.Now().UnixMilli(), 10) + " "
		})),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		balancer := kgo.CooperativeStickyBalancer()
		if assignor == "range" {
			balancer = kgo.RangeBalancer()
		}
		options = append(options, kgo.Balancers(balancer),
			kgo.HeartbeatInterval(500*time.Millisecond), kgo.SessionTimeout(10*time.Second))
	}
	consumer, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	return consumer
}

// read takes what there is, and commits it.
func read(consumer *kgo.Client) {
	waiting, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fetched := consumer.PollRecords(waiting, 500)
	defer consumer.AllowRebalance()
	fetched.EachPartition(func(place kgo.FetchTopicPartition) {
		if count := len(place.Records); count > 0 {
			say("read %d %d %d", place.Partition, place.Records[0].Offset, place.Records[count-1].Offset)
		}
	})
	if records := fetched.Records(); len(records) > 0 {
		committing, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := consumer.CommitRecords(committing, records...); err != nil {
			// It is another's now, which reads it again.
			fmt.Fprintln(os.Stderr, time.Now().UnixMilli(), "the commit is refused:", err)
		}
	}
}

func main() {
	say("here")
	consumer := join(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
	var ends atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ends.Store(true)
	}()
	for !ends.Load() {
		read(consumer)
	}
	consumer.CloseAllowingRebalance()
}
