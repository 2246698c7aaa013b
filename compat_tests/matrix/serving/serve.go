// The line protocol for client programs in Go: a request in JSON a line, an answer a line. See serve.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const patience = 90 * time.Second

// header is a record header; Kafka keeps their order and allows repeated keys. In JSON it is a pair.
type header struct {
	key   string
	value []byte
}

// MarshalJSON writes the pair.
func (h header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.key, h.value}) }

// UnmarshalJSON reads the pair.
func (h *header) UnmarshalJSON(data []byte) error {
	var parts [2]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if err := json.Unmarshal(parts[0], &h.key); err != nil {
		return err
	}
	return json.Unmarshal(parts[1], &h.value)
}

// record is what is written and must come back; a nil key or value is Kafka's null.
type record struct {
	Partition int32    `json:"partition"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
	Timestamp int64    `json:"timestamp"` // ms
	Offset    int64    `json:"offset"`
}

// transaction is what is written together and then committed or aborted.
type transaction struct {
	Values []string
	Commit bool
}

// request is any request: those of a kind use some of the fields.
type request struct {
	Do           string
	Topic        string
	Topics       []string
	Partitions   int
	Config       map[string]string
	Name         string
	Records      []record
	Codec        string
	Acks         int
	Idempotent   bool
	Pause        int64 `json:"pause_ms"`
	Start        int64
	Count        int
	Committed    bool
	Timestamp    int64 // ms
	Before       int64
	Member       string
	Group        string
	Assignor     string
	Instance     string
	Pattern      string
	Transactions []transaction
}

// member is a consumer of a group that commits what it has seen.
type member interface{ close() }

// values are what a member has seen.
type values struct {
	mutex sync.Mutex
	all   []string
}

func (v *values) add(more ...string) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.all = append(v.all, more...)
}

func (v *values) list() []string {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return append([]string{}, v.all...)
}

// calls are what a library can be asked, by the names of the protocol. They panic with the library's error.
type calls map[string]func(request) any

// joined are the members that have not left.
type joined struct {
	members map[string]member
	seen    map[string]*values
}

// groupCalls are the three about members; join starts one.
func groupCalls(join func(r request, seen *values) member) calls {
	all := joined{map[string]member{}, map[string]*values{}}
	return calls{
		"join": func(r request) any {
			all.seen[r.Member] = &values{}
			all.members[r.Member] = join(r, all.seen[r.Member])
			return nil
		},
		"seen": func(r request) any { return all.seen[r.Member].list() },
		"leave": func(r request) any {
			all.members[r.Member].close()
			return all.seen[r.Member].list()
		},
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Errorf(format, args...))
	}
}

// soon is a context that ends before anyone gets impatient.
func soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// versionOf is the version of a module that the program is built with.
func versionOf(module string) any {
	info, _ := debug.ReadBuildInfo()
	for _, one := range info.Deps {
		if one.Path == module {
			return map[string]string{"version": one.Version[1:]}
		}
	}
	return map[string]string{"version": "unknown"}
}

// inTurn lets pauses be between records: each is then written by itself.
func inTurn(r request, write func([]record)) any {
	if r.Pause == 0 {
		write(r.Records)
		return nil
	}
	for _, one := range r.Records {
		write([]record{one})
		time.Sleep(time.Duration(r.Pause) * time.Millisecond)
	}
	return nil
}

func answer(all calls, code func(error) any, r request) (told map[string]any) {
	defer func() {
		if failed := recover(); failed != nil {
			told = map[string]any{"error": fmt.Sprint(failed), "code": nil}
			if err, ok := failed.(error); ok {
				told["code"] = code(err)
			}
		}
	}()
	call, ok := all[r.Do]
	check(ok, "the program knows no %s", r.Do)
	return map[string]any{"ok": call(r)}
}

// serve answers requests until there are no more; code is Kafka's code of an error, or nil.
func serve(all calls, code func(error) any) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var r request
		must(json.Unmarshal(lines.Bytes(), &r))
		must(out.Encode(answer(all, code, r)))
	}
}
