// segmentio's kafka-go: its Writer and its Reader of one partition; commands as in ci/clients/adapter.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"rillway/ci/clients/go/adapter"
)

type client struct{ bootstrap string }

func main() {
	if wish, ok := adapter.Member(); ok {
		join(os.Args[1], wish)
		return
	}
	adapter.Serve("github.com/segmentio/kafka-go", client{os.Args[1]})
}

func within(seconds int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
}

func (c client) low() *kafka.Client { return &kafka.Client{Addr: kafka.TCP(c.bootstrap)} }

func (c client) Create(topic string, partitions int) error {
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	config := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	answer, err := c.low().CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

// byRecord puts each message where its record says: the writer has no other way to name a partition.
type byRecord struct{}

func (byRecord) Balance(m kafka.Message, _ ...int) int { return int(m.WriterData.(int32)) }

func (c client) Write(topic, codec string, records []adapter.Record) ([]string, error) {
	codecs := map[string]kafka.Compression{
		"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	var mutex sync.Mutex
	var acknowledged []string
	writer := &kafka.Writer{
		Addr: kafka.TCP(c.bootstrap), Topic: topic, Balancer: byRecord{}, Compression: codecs[codec],
		RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
		Completion: func(messages []kafka.Message, err error) {
			mutex.Lock()
			defer mutex.Unlock()
			for _, m := range messages {
				if err == nil {
					acknowledged = append(acknowledged, fmt.Sprintf("%d %d", m.Partition, m.Offset))
				}
			}
		},
	}
	var messages []kafka.Message
	for _, r := range records {
		m := kafka.Message{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp), WriterData: r.Partition}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
		messages = append(messages, m)
	}
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		return nil, err
	}
	err := writer.Close() // waits for the completions
	return acknowledged, err
}

func (c client) reader(topic string, partition int32) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{c.bootstrap}, Topic: topic, Partition: int(partition), OffsetOutOfRangeError: true,
		MaxBytes: 10 << 20, MaxWait: 200 * time.Millisecond, ReadBackoffMin: 10 * time.Millisecond,
	})
}

func (c client) Read(topic string, wanted map[int32]adapter.Range) ([]adapter.Record, error) {
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	var got []adapter.Record
	for partition, r := range wanted {
		reader := c.reader(topic, partition)
		if err := reader.SetOffset(r.First); err != nil {
			return nil, err
		}
		for offset := r.First; offset < r.End; offset++ {
			m, err := reader.ReadMessage(ctx)
			if err != nil {
				return nil, fmt.Errorf("partition %d offset %d: %w", partition, offset, err)
			}
			one := adapter.Record{
				Partition: int32(m.Partition), Offset: m.Offset, Timestamp: m.Time.UnixMilli(), Key: m.Key, Value: m.Value,
			}
			for _, h := range m.Headers {
				one.Headers = append(one.Headers, adapter.Header{Name: h.Key, Value: h.Value})
			}
			got = append(got, one)
		}
		if err := reader.Close(); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// leader connects to the leader of a partition; its connection has the calls for offsets.
func (c client) leader(ctx context.Context, topic string, partition int32) (*kafka.Conn, error) {
	conn, err := kafka.DialLeader(ctx, "tcp", c.bootstrap, topic, int(partition))
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(adapter.Patience * time.Second))
}

func (c client) OffsetFor(topic string, partition int32, timestamp int64) (string, error) {
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	conn, err := c.leader(ctx, topic, partition)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	offset, err := conn.ReadOffset(time.UnixMilli(timestamp))
	if offset < 0 {
		return "none", err
	}
	return fmt.Sprint(offset), err
}

func (c client) Bounds(topic string, partition int32) (int64, int64, error) {
	ctx, cancel := within(adapter.Patience)
	defer cancel()
	conn, err := c.leader(ctx, topic, partition)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	return conn.ReadOffsets()
}

func (c client) OutOfRange(topic string, partition int32, offset int64, where string) (string, error) {
	if where != "none" {
		return "", adapter.Cannot("kafka-go's reader of one partition does not reset its offset")
	}
	ctx, cancel := within(adapter.Patience / 2)
	defer cancel()
	reader := c.reader(topic, partition)
	defer reader.Close()
	if err := reader.SetOffset(offset); err != nil {
		return "", err
	}
	m, err := reader.ReadMessage(ctx)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return "OFFSET_OUT_OF_RANGE", nil
	}
	return fmt.Sprint(m.Offset), err
}

func (c client) Transactional(timeoutSeconds int) (string, error) {
	ctx, cancel := within(timeoutSeconds)
	defer cancel()
	answer, err := c.low().InitProducerID(ctx, &kafka.InitProducerIDRequest{
		TransactionalID: "t", TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1,
	})
	if err == nil {
		err = answer.Error
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	if err != nil {
		return err.Error(), nil
	}
	return "accepted", nil
}
