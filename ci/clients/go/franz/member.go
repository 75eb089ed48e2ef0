package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"rillway/ci/clients/go/adapter"
)

// held is what the member has: a cooperative rebalance tells only what changes.
type held struct {
	sync.Mutex
	all map[string][]int32
}

func (h *held) add(more map[string][]int32) {
	h.Lock()
	defer h.Unlock()
	for topic, partitions := range more {
		h.all[topic] = append(h.all[topic], partitions...)
	}
	adapter.SayAssigned(h.all)
}

func (h *held) drop(less map[string][]int32) {
	h.Lock()
	defer h.Unlock()
	for topic, partitions := range less {
		h.all[topic] = slices.DeleteFunc(h.all[topic], func(p int32) bool { return slices.Contains(partitions, p) })
	}
}

// commit says what was acknowledged. Without an answer, what is uncommitted stays so and is tried again.
func commit(ctx context.Context, cl *kgo.Client) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	offsets := cl.UncommittedOffsets()
	if len(offsets) == 0 {
		return
	}
	if err := cl.CommitUncommittedOffsets(limited); err != nil {
		fmt.Fprintln(os.Stderr, "commit:", err)
		return
	}
	acknowledged := cl.CommittedOffsets()
	for topic, partitions := range offsets {
		for p, offset := range partitions {
			if acknowledged[topic][p].Offset >= offset.Offset {
				adapter.Say("committed", p, offset.Offset)
			}
		}
	}
}

func join(bootstrap string, wish adapter.Wish) {
	has := &held{all: map[string][]int32{}}
	revoked := func(ctx context.Context, cl *kgo.Client, less map[string][]int32) {
		commit(ctx, cl)
		has.drop(less)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(wish.Group), kgo.ConsumeTopics(wish.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(wish.Session), kgo.HeartbeatInterval(adapter.Heartbeat),
		kgo.MetadataMinAge(adapter.Metadata / 4), kgo.MetadataMaxAge(adapter.Metadata),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, more map[string][]int32) { has.add(more) }),
		kgo.OnPartitionsRevoked(revoked),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, less map[string][]int32) { has.drop(less) }),
	}
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	if wish.Assignor != "" {
		options = append(options, kgo.Balancers(balancers[wish.Assignor]))
	}
	if wish.Instance != "" {
		options = append(options, kgo.InstanceID(wish.Instance))
	}
	cl, err := kgo.NewClient(options...)
	adapter.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-adapter.Leave()
		cancel()
	}()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(k *kgo.Record) { adapter.Say(k.Partition, k.Offset, string(k.Value)) })
		fetches.EachError(func(topic string, p int32, err error) { fmt.Fprintln(os.Stderr, topic, p, err) })
		commit(context.Background(), cl)
		cl.AllowRebalance()
	}
	cl.CloseAllowingRebalance()
}
