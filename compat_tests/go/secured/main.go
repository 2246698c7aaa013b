// Makes a topic, writes a record and reads it in a group: secured CLIENT WAY TOPIC, where WAY is the JSON of
// secured_clients.Way. Says "done", or "refused" if the login is.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	segmentsasl "github.com/segmentio/kafka-go/sasl"
	segmentplain "github.com/segmentio/kafka-go/sasl/plain"
	segmentscram "github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 30 * time.Second

type way struct {
	Address, Protocol, Mechanism, Password, Ca, Certificate string
}

func must(err error) {
	if err == nil {
		return
	}
	if errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kafka.SASLAuthenticationFailed) {
		fmt.Println("refused")
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func keys(its way) *tls.Config {
	if !strings.HasSuffix(its.Protocol, "SSL") {
		return nil
	}
	authority, err := os.ReadFile(its.Ca)
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	own, err := tls.LoadX509KeyPair(its.Certificate, its.Certificate)
	must(err)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}}
}

func franz(ctx context.Context, its way, topic string) {
	options := []kgo.Opt{
		kgo.SeedBrokers(its.Address), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if config := keys(its); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	var mechanism sasl.Mechanism
	switch its.Mechanism {
	case "PLAIN":
		mechanism = plain.Auth{User: "ann", Pass: its.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: "ann", Pass: its.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: "ann", Pass: its.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		mechanism = oauth.Auth{Token: its.Password}.AsMechanism()
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	must(client.Ping(ctx))
	_, err = kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic)
	must(err)
	must(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("value")}).FirstErr())
	for {
		fetches := client.PollFetches(ctx)
		must(fetches.Err0())
		for _, record := range fetches.Records() {
			if string(record.Value) == "value" {
				return
			}
		}
	}
}

func segment(ctx context.Context, its way, topic string) {
	var mechanism segmentsasl.Mechanism
	var err error
	switch its.Mechanism {
	case "PLAIN":
		mechanism = segmentplain.Mechanism{Username: "ann", Password: its.Password}
	case "SCRAM-SHA-256":
		mechanism, err = segmentscram.Mechanism(segmentscram.SHA256, "ann", its.Password)
	case "SCRAM-SHA-512":
		mechanism, err = segmentscram.Mechanism(segmentscram.SHA512, "ann", its.Password)
	}
	must(err)
	dialer := &kafka.Dialer{Timeout: patience, TLS: keys(its), SASLMechanism: mechanism}
	connection, err := dialer.DialContext(ctx, "tcp", its.Address)
	must(err)
	must(connection.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}))
	must(connection.Close())
	writer := &kafka.Writer{
		Addr: kafka.TCP(its.Address), Topic: topic, Transport: &kafka.Transport{TLS: keys(its), SASL: mechanism},
		BatchTimeout: time.Millisecond,
	}
	must(writer.WriteMessages(ctx, kafka.Message{Value: []byte("value")}))
	must(writer.Close())
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{its.Address}, GroupID: topic, Topic: topic, Dialer: dialer, StartOffset: kafka.FirstOffset,
	})
	message, err := reader.ReadMessage(ctx)
	must(err)
	if string(message.Value) != "value" {
		must(fmt.Errorf("read %q", message.Value))
	}
	must(reader.Close())
}

func main() {
	var its way
	must(json.Unmarshal([]byte(os.Args[2]), &its))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if os.Args[1] == "franz-go" {
		franz(ctx, its, os.Args[3])
	} else {
		segment(ctx, its, os.Args[3])
	}
	fmt.Println("done")
}
