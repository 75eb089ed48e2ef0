package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/IBM/sarama"

	"rillway/ci/clients/go/adapter"
)

// handler commits each record behind its line. Commit waits for the answer and does not tell it, so
// nothing is said of commits.
type handler struct{}

func (handler) Setup(s sarama.ConsumerGroupSession) error {
	adapter.SayAssigned(s.Claims())
	return nil
}

func (handler) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	return nil
}

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
			s.Commit()
		case <-s.Context().Done():
			return nil
		}
	}
}

func join(bootstrap string, wish adapter.Wish) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	config.Consumer.Group.Session.Timeout = wish.Session
	config.Consumer.Group.Heartbeat.Interval = adapter.Heartbeat
	config.Consumer.Group.InstanceId = wish.Instance
	config.Metadata.RefreshFrequency = adapter.Metadata
	strategies := map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky": sarama.NewBalanceStrategySticky(),
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
