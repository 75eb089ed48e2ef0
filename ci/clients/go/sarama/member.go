package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"

	"rillway/ci/clients/go/adapter"
)

// handler marks each record behind its line; sarama commits what is marked, and all of it when a session
// ends. It does not tell when that is acknowledged, so nothing is said of commits.
type handler struct{}

func (handler) Setup(s sarama.ConsumerGroupSession) error {
	adapter.SayAssigned(s.Claims())
	return nil
}

func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, open := <-claim.Messages():
			if !open {
				return nil
			}
			// What came in before the session ended may wait here after it has.
			if s.Context().Err() != nil {
				return nil
			}
			adapter.Say(m.Partition, m.Offset, string(m.Value))
			s.MarkMessage(m, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

func join(bootstrap string, wish adapter.Wish) {
	config := sarama.NewConfig()
	// A commit of its own for each record would wait behind the fetch on the same connection.
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	config.Consumer.Group.Session.Timeout = wish.Session
	config.Consumer.Group.Heartbeat.Interval = adapter.Heartbeat
	config.Consumer.Group.InstanceId = wish.Instance
	config.Metadata.RefreshFrequency = adapter.Metadata
	strategies := map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky": sarama.NewBalanceStrategySticky(), "cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky(),
	}
	if wish.Assignor != "" {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[wish.Assignor]}
	}
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, wish.Group, config)
	adapter.Must(err)
	go func() {
		for err := range group.Errors() {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-adapter.Leave()
		cancel()
	}()
	// A session ends with each rebalance, and with an error when the broker goes.
	for ctx.Err() == nil {
		if err := group.Consume(ctx, wish.Topics, handler{}); err != nil {
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				break
			}
			fmt.Fprintln(os.Stderr, err)
		}
	}
	adapter.Must(group.Close())
}
