package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-project/weir/pkg/testkit"
)

func TestKafkaCreatesNoTopicByItself(t *testing.T) {
	address := testkit.Kafka(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(address[len("kafka://"):]), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	topics, err := kadm.NewClient(client).ListTopics(ctx, "nobody.made.this")
	if err != nil {
		t.Fatal(err)
	}
	if topics["nobody.made.this"].Err == nil {
		t.Error("asking for a topic created it")
	}
}
