// sarama with its default settings; commands as in ci/clients/adapter.py.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"

	"rillway/ci/clients/go/adapter"
)

type client struct{ brokers []string }

func main() {
	if wish, ok := adapter.Member(); ok {
		join(os.Args[1], wish)
		return
	}
	adapter.Serve("github.com/IBM/sarama", client{os.Args[1:2]})
}

func (c client) Create(topic string, partitions int) error {
	admin, err := sarama.NewClusterAdmin(c.brokers, sarama.NewConfig())
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
}

// encoder keeps nil what is null.
func encoder(data []byte) sarama.Encoder {
	if data == nil {
		return nil
	}
	return sarama.ByteEncoder(data)
}

func (c client) Write(topic, codec string, records []adapter.Record) ([]string, error) {
	config := sarama.NewConfig()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[codec]
	producer, err := sarama.NewSyncProducer(c.brokers, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, r := range records {
		m := &sarama.ProducerMessage{
			Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp),
			Key: encoder(r.Key), Value: encoder(r.Value),
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
		messages = append(messages, m)
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, err
	}
	var acknowledged []string
	for _, m := range messages {
		acknowledged = append(acknowledged, fmt.Sprintf("%d %d", m.Partition, m.Offset))
	}
	return acknowledged, nil
}

func (c client) Read(topic string, wanted map[int32]adapter.Range) ([]adapter.Record, error) {
	consumer, err := sarama.NewConsumer(c.brokers, sarama.NewConfig())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	until := time.After(adapter.Patience * time.Second)
	var got []adapter.Record
	for partition, r := range wanted {
		part, err := consumer.ConsumePartition(topic, partition, r.First)
		if err != nil {
			return nil, err
		}
		for offset := r.First; offset < r.End; offset++ {
			select {
			case m, open := <-part.Messages():
				if !open {
					return nil, fmt.Errorf("partition %d ended at offset %d", partition, offset)
				}
				one := adapter.Record{
					Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value,
				}
				for _, h := range m.Headers {
					one.Headers = append(one.Headers, adapter.Header{Name: string(h.Key), Value: h.Value})
				}
				got = append(got, one)
			case <-until:
				return nil, fmt.Errorf("partition %d offset %d: %w", partition, offset, adapter.ErrTimeout)
			}
		}
		if err := part.Close(); err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (c client) offset(topic string, partition int32, times ...int64) ([]int64, error) {
	cl, err := sarama.NewClient(c.brokers, sarama.NewConfig())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var offsets []int64
	for _, t := range times {
		offset, err := cl.GetOffset(topic, partition, t)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

func (c client) OffsetFor(topic string, partition int32, timestamp int64) (string, error) {
	offsets, err := c.offset(topic, partition, timestamp)
	if err != nil {
		return "", err
	}
	if offsets[0] < 0 {
		return "none", nil
	}
	return fmt.Sprint(offsets[0]), nil
}

func (c client) Bounds(topic string, partition int32) (int64, int64, error) {
	offsets, err := c.offset(topic, partition, sarama.OffsetOldest, sarama.OffsetNewest)
	if err != nil {
		return 0, 0, err
	}
	return offsets[0], offsets[1], nil
}

func (c client) OutOfRange(topic string, partition int32, offset int64, where string) (string, error) {
	if where != "none" {
		return "", adapter.Cannot("sarama's reader of one partition does not reset its offset")
	}
	consumer, err := sarama.NewConsumer(c.brokers, sarama.NewConfig())
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	part, err := consumer.ConsumePartition(topic, partition, offset)
	if errors.Is(err, sarama.ErrOffsetOutOfRange) {
		return "OFFSET_OUT_OF_RANGE", nil
	}
	if err != nil {
		return "", err
	}
	defer part.Close()
	return "", errors.New("the offset was taken")
}

func (c client) Transactional(timeoutSeconds int) (string, error) {
	config := sarama.NewConfig()
	config.Producer.Transaction.ID = "t"
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	failed := make(chan error, 1)
	go func() {
		producer, err := sarama.NewAsyncProducer(c.brokers, config)
		if err == nil {
			producer.AsyncClose()
		}
		failed <- err
	}()
	select {
	case err := <-failed:
		if err != nil {
			return err.Error(), nil
		}
		return "accepted", nil
	case <-time.After(time.Duration(timeoutSeconds) * time.Second):
		return "", adapter.ErrTimeout
	}
}
