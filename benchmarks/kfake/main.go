// kfake, the broker that franz-go has for tests: in Go, in memory, on a free port, which it prints.
package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		panic(err)
	}
	fmt.Println(cluster.ListenAddrs()[0])
	select {}
}
