// Command clients drives a broker with the three Kafka clients that Go programs use, each through the same story.
//
// clients HOST:PORT [franz|sarama|segmentio]... exits with 1 and says what failed.
package main

import (
	"fmt"
	"os"
	"time"
)

// header is a record header; Kafka keeps their order and allows repeated keys.
type header struct {
	key   string
	value []byte
}

// record is what is written and must come back; a nil key or value is Kafka's null.
type record struct {
	key, value []byte
	headers    []header
	at         time.Time
	partition  int32
	offset     int64
}

// settings say how to write.
type settings struct {
	codec      string // none, gzip, snappy, lz4, zstd
	acks       int    // 0, 1, -1
	idempotent bool
}

// member is a consumer of a group that commits what it has seen.
type member interface {
	seen() []string
	close()
}

// group is a group as its coordinator describes it.
type group struct {
	state string
	owned []int // partitions of each member
}

// client is one Kafka library; every method ends the program's story with a panic when it fails.
type client interface {
	create(partitions int, topics ...string)
	partitions(topics ...string) map[string]int
	write(topic string, how settings, records []record)
	read(topic string, from int64, count int) []record
	readsNothing(topic string, from int64, wait time.Duration) bool
	offsetAt(topic string, at time.Time) int64
	ends(topic string) (first, end int64)
	config(topic, name string) string
	// trim deletes the records before an offset; false where the library cannot.
	trim(topic string, before int64) bool
	join(group, topic string) member
	groups() []string
	describe(group string) group
	committed(group, topic string, partitions int) int64
	deleteGroup(group string)
	remove(topics ...string)
	close()
}

// transaction is what is written together and then committed or aborted.
type transaction struct {
	records []record
	commit  bool
}

// transactor is a library that has transactions.
type transactor interface {
	// transact writes transactions one after the other, as the producer of that transactional id.
	transact(id, topic string, transactions []transaction)
	// readCommitted reads so many values of what is committed.
	readCommitted(topic string, count int) []string
}

var libraries = map[string]func(address string) client{
	"franz":     newFranz,
	"sarama":    newSarama,
	"segmentio": newSegmentio,
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...))
	}
}

func run(name, address string) (failed any) {
	step := "connect"
	defer func() {
		if failed = recover(); failed != nil {
			failed = fmt.Sprintf("%s: %s: %v", name, step, failed)
			if os.Getenv("TRACE") != "" {
				panic(failed)
			}
		}
	}()
	c := libraries[name](address)
	defer c.close()
	for _, chapter := range chapters {
		step = chapter.name
		began := time.Now()
		chapter.tell(c, fmt.Sprintf("%s-%d", name, began.UnixNano()))
		fmt.Printf("%s: %s: %d ms\n", name, step, time.Since(began).Milliseconds())
	}
	return nil
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: clients HOST:PORT [LIBRARY]...")
		os.Exit(2)
	}
	names := os.Args[2:]
	if len(names) == 0 {
		names = []string{"franz", "sarama", "segmentio"}
	}
	outcomes := make(chan any)
	for _, name := range names {
		go func() { outcomes <- run(name, os.Args[1]) }()
	}
	code := 0
	for range names {
		if failed := <-outcomes; failed != nil {
			fmt.Fprintln(os.Stderr, failed)
			code = 1
		}
	}
	os.Exit(code)
}
