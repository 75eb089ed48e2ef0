// franz-go with its default settings (an idempotent producer); commands as in ci/clients/adapter.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"rillway/ci/clients/go/adapter"
)

type client struct{ bootstrap string }

func main() {
	if wish, ok := adapter.Member(); ok {
		join(os.Args[1], wish)
		return
	}
	adapter.Serve("github.com/twmb/franz-go", client{os.Args[1]})
}

func within(seconds int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
}

func (c client) open(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.bootstrap)}, options...)...)
}

func (c client) Create(topic string, partitions int) error {
	cl, err := c.open()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return err
}

func (c client) Write(topic, codec string, records []adapter.Record) ([]string, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	cl, err := c.open(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codecs[codec]))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	sent := make([]*kgo.Record, 0, len(records))
	for _, r := range records {
		k := &kgo.Record{
			Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp), Key: r.Key, Value: r.Value,
		}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		sent = append(sent, k)
	}
	var acknowledged []string
	for _, result := range cl.ProduceSync(ctx, sent...) {
		if result.Err != nil {
			return nil, result.Err
		}
		acknowledged = append(acknowledged, fmt.Sprintf("%d %d", result.Record.Partition, result.Record.Offset))
	}
	return acknowledged, nil
}

func (c client) Read(topic string, wanted map[int32]adapter.Range) ([]adapter.Record, error) {
	places := map[int32]kgo.Offset{}
	for p, r := range wanted {
		places[p] = kgo.NewOffset().At(r.First)
	}
	cl, err := c.open(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: places}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	var got []adapter.Record
	for len(wanted) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("still waiting for %v: %w", wanted, err)
		}
		fetches.EachRecord(func(k *kgo.Record) {
			r, ok := wanted[k.Partition]
			if !ok || k.Offset >= r.End {
				return
			}
			one := adapter.Record{
				Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp.UnixMilli(), Key: k.Key, Value: k.Value,
			}
			for _, h := range k.Headers {
				one.Headers = append(one.Headers, adapter.Header{Name: h.Key, Value: h.Value})
			}
			got = append(got, one)
			if k.Offset+1 == r.End {
				delete(wanted, k.Partition)
			}
		})
	}
	return got, nil
}

// listed asks the admin client for one offset.
func (c client) listed(
	topic string, partition int32, ask func(*kadm.Client, context.Context) (kadm.ListedOffsets, error),
) (int64, error) {
	cl, err := c.open()
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	all, err := ask(kadm.NewClient(cl), ctx)
	if err != nil {
		return 0, err
	}
	found, ok := all.Lookup(topic, partition)
	if !ok {
		return 0, fmt.Errorf("no answer for partition %d", partition)
	}
	return found.Offset, found.Err
}

func (c client) OffsetFor(topic string, partition int32, timestamp int64) (string, error) {
	// The end where there is no record that late.
	offset, err := c.listed(topic, partition, func(a *kadm.Client, ctx context.Context) (kadm.ListedOffsets, error) {
		return a.ListOffsetsAfterMilli(ctx, timestamp, topic)
	})
	return fmt.Sprint(offset), err
}

func (c client) Bounds(topic string, partition int32) (int64, int64, error) {
	first, err := c.listed(topic, partition, func(a *kadm.Client, ctx context.Context) (kadm.ListedOffsets, error) {
		return a.ListStartOffsets(ctx, topic)
	})
	if err != nil {
		return 0, 0, err
	}
	end, err := c.listed(topic, partition, func(a *kadm.Client, ctx context.Context) (kadm.ListedOffsets, error) {
		return a.ListEndOffsets(ctx, topic)
	})
	return first, end, err
}

func (c client) OutOfRange(topic string, partition int32, offset int64, where string) (string, error) {
	if where == "latest" {
		return "", adapter.Cannot("franz-go does not tell its position at the end of a partition")
	}
	reset := kgo.NoResetOffset()
	if where == "earliest" {
		reset = kgo.NewOffset().AtStart()
	}
	place := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}
	cl, err := c.open(kgo.ConsumePartitions(place), kgo.ConsumeResetOffset(reset))
	if err != nil {
		return "", err
	}
	defer cl.Close()
	ctx, cancel := within(adapter.Patience / 2)
	defer cancel()
	for {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if errors.Is(e.Err, kerr.OffsetOutOfRange) {
				return kerr.OffsetOutOfRange.Message, nil
			}
			return "", e.Err
		}
		if records := fetches.Records(); len(records) > 0 {
			return fmt.Sprint(records[0].Offset), nil
		}
	}
}

func (c client) Transactional(timeoutSeconds int) (string, error) {
	cl, err := c.open(kgo.TransactionalID("t"))
	if err != nil {
		return "", err
	}
	defer cl.Close()
	ctx, cancel := within(timeoutSeconds)
	defer cancel()
	_, _, err = cl.ProducerID(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	if err != nil {
		return err.Error(), nil
	}
	return "accepted", nil
}
