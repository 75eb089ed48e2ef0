package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"

	"rillway/ci/clients/go/adapter"
)

// join reads as a member of a group. The Reader does not tell its assignment.
func join(bootstrap string, wish adapter.Wish) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: wish.Group, GroupTopics: wish.Topics, StartOffset: kafka.FirstOffset,
		SessionTimeout: wish.Session, HeartbeatInterval: adapter.Heartbeat, RebalanceTimeout: wish.Session,
		WatchPartitionChanges: true, PartitionWatchInterval: adapter.Metadata, JoinGroupBackoff: 500 * time.Millisecond,
		MaxWait: 200 * time.Millisecond, ReadBackoffMin: 10 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(func(format string, words ...any) { fmt.Fprintf(os.Stderr, format+"\n", words...) }),
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-adapter.Leave()
		cancel()
	}()
	for {
		m, err := reader.FetchMessage(ctx)
		if errors.Is(err, context.Canceled) {
			break
		}
		adapter.Must(err)
		adapter.Say(m.Partition, m.Offset, string(m.Value))
		// Not with ctx: what was shown is committed before it leaves.
		if err := reader.CommitMessages(context.Background(), m); err != nil {
			fmt.Fprintln(os.Stderr, "commit:", err)
			continue
		}
		adapter.Say("committed", m.Partition, m.Offset+1)
	}
	adapter.Must(reader.Close())
}
