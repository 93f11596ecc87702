package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// sent runs send on a new topic and reports what a consumer then receives.
func sent(
	c *cluster, count int, send func(rocketmq.Producer, string) error, options ...producer.Option,
) (facts, error) {
	topic, err := c.topic("topic", 4)
	if err != nil {
		return nil, err
	}
	sender, err := c.producer(options...)
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	if err = send(sender, topic); err != nil {
		return nil, err
	}
	return received(c, topic, count)
}

func received(c *cluster, topic string, count int, options ...consumer.Option) (facts, error) {
	var found collector
	reader, err := c.push(c.label("readers"), topic, every, found.accept, options...)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	if err = found.settle(count); err != nil {
		return nil, err
	}
	return facts{"messages": described(found.messages())}, nil
}

func sendSync(c *cluster) (facts, error) {
	return sent(c, 20, func(sender rocketmq.Producer, topic string) error {
		messages := numbered(topic, "sync", 20)
		for i, message := range messages {
			message.WithTag(fmt.Sprintf("tag%d", i%2)).WithKeys([]string{fmt.Sprintf("key%d", i), "all"})
			message.WithProperty("color", "blue – 蓝")
			message.Flag = int32(i)
		}
		return sendAll(sender, messages)
	})
}

func sendAsync(c *cluster) (facts, error) {
	return sent(c, 20, func(sender rocketmq.Producer, topic string) error {
		var all sync.WaitGroup
		failures := make(chan error, 20)
		for _, message := range numbered(topic, "async", 20) {
			all.Add(1)
			err := sender.SendAsync(context.Background(),
				func(_ context.Context, result *primitive.SendResult, err error) {
					defer all.Done()
					if err == nil && result.Status != primitive.SendOK {
						err = fmt.Errorf("send status %d", result.Status)
					}
					failures <- err
				}, message)
			if err != nil {
				return err
			}
		}
		all.Wait()
		close(failures)
		for failure := range failures {
			if failure != nil {
				return failure
			}
		}
		return nil
	})
}

func sendOneWay(c *cluster) (facts, error) {
	return sent(c, 20, func(sender rocketmq.Producer, topic string) error {
		for _, message := range numbered(topic, "one-way", 20) {
			if err := sender.SendOneWay(context.Background(), message); err != nil {
				return err
			}
		}
		return nil
	})
}

func sendBatch(c *cluster) (facts, error) {
	var result *primitive.SendResult
	found, err := sent(c, 10, func(sender rocketmq.Producer, topic string) error {
		messages := numbered(topic, "batch", 10)
		for _, message := range messages {
			message.WithTag("b").WithProperty("color", "red")
		}
		var err error
		result, err = sender.SendSync(context.Background(), messages...)
		return err
	})
	if err != nil {
		return nil, err
	}
	found["status"] = result.Status
	found["ids"] = len(strings.Split(result.MsgID, ","))
	found["offset ids"] = len(strings.Split(result.OffsetMsgID, ","))
	return found, nil
}

func sendCompressed(c *cluster) (facts, error) {
	return sent(c, 2, func(sender rocketmq.Producer, topic string) error {
		return sendAll(sender, []*primitive.Message{
			primitive.NewMessage(topic, []byte(strings.Repeat("long and repeated ", 600))),
			primitive.NewMessage(topic, []byte("short")),
		})
	})
}

func sendDelayed(c *cluster) (facts, error) {
	const levelMs = 3000 // of level 2, in the settings that the test gives the brokers
	topic, err := c.topic("topic", 1)
	if err != nil {
		return nil, err
	}
	sender, err := c.producer()
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	messages := numbered(topic, "delayed", 3)
	for _, message := range messages {
		message.WithDelayTimeLevel(2)
	}
	if err = sendAll(sender, messages); err != nil {
		return nil, err
	}
	var found collector
	reader, err := c.push(c.label("readers"), topic, every, found.accept)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	if err = found.settle(3); err != nil {
		return nil, err
	}
	early := 0
	for _, message := range found.messages() {
		if message.StoreTimestamp-message.BornTimestamp < levelMs {
			early++
		}
	}
	return facts{"messages": described(found.messages()), "early": early}, nil
}

func sendToMissingTopic(c *cluster) (facts, error) {
	topic := c.label("auto")
	sender, err := c.producer()
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	if err = sendAll(sender, numbered(topic, "auto", 8)); err != nil {
		return nil, err
	}
	return received(c, topic, 8)
}

func vipPort(c *cluster) (facts, error) {
	return sent(c, 5, func(sender rocketmq.Producer, topic string) error {
		return sendAll(sender, numbered(topic, "vip", 5))
	}, producer.WithVIPChannel(true))
}

// credentials: a broker without access control ignores signatures.
func credentials(c *cluster) (facts, error) {
	account := primitive.Credentials{AccessKey: "a-sender", SecretKey: "a secret of mine"}
	topic, err := filled(c, 2, func(topic string) []*primitive.Message {
		return numbered(topic, "signed", 6)
	}, producer.WithCredentials(account))
	if err != nil {
		return nil, err
	}
	return received(c, topic, 6, consumer.WithCredentials(account))
}

func queueSelector(c *cluster) (facts, error) {
	queues := map[string]int{}
	found, err := sent(c, 8, func(sender rocketmq.Producer, topic string) error {
		for i, message := range numbered(topic, "chosen", 8) {
			message.Queue = &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: i % 3}
			result, err := sender.SendSync(context.Background(), message)
			if err != nil {
				return err
			}
			queues[string(message.Body)] = result.MessageQueue.QueueId
		}
		return nil
	}, producer.WithQueueSelector(producer.NewManualQueueSelector()))
	if err == nil {
		found["queues"] = queues
	}
	return found, err
}

func namespaces(c *cluster) (facts, error) {
	const space = "go-space"
	topic := c.label("topic")
	if err := c.createTopic(space+"%"+topic, 2); err != nil {
		return nil, err
	}
	sender, err := c.producer(producer.WithNamespace(space))
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	if err = sendAll(sender, numbered(topic, "space", 6)); err != nil {
		return nil, err
	}
	return received(c, topic, 6, consumer.WithNamespace(space))
}

// decisions answers each message of a transaction by its body: first at the send, then at a check.
type decisions struct {
	lock   sync.Mutex
	checks map[string]int
}

func (d *decisions) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	switch strings.Split(string(message.Body), "-")[0] {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decisions) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	d.lock.Lock()
	defer d.lock.Unlock()
	body := string(message.Body)
	d.checks[body]++
	if strings.HasPrefix(body, "later") {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (d *decisions) checked() []string {
	d.lock.Lock()
	defer d.lock.Unlock()
	bodies := []string{}
	for body := range d.checks {
		bodies = append(bodies, body)
	}
	return bodies
}

func transacted(c *cluster, decided *decisions, bodies []string, wait func() error) (facts, error) {
	topic, err := c.topic("topic", 2)
	if err != nil {
		return nil, err
	}
	sender, err := rocketmq.NewTransactionProducer(decided, producer.WithNsResolver(c.resolver()),
		producer.WithGroupName(c.label("producers")), producer.WithInstanceName(c.instance()))
	if err != nil {
		return nil, err
	}
	if err = sender.Start(); err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	expected := 0
	for _, body := range bodies {
		result, err := sender.SendMessageInTransaction(
			context.Background(), primitive.NewMessage(topic, []byte(body)))
		if err != nil {
			return nil, err
		}
		if result.Status != primitive.SendOK {
			return nil, fmt.Errorf("send status %d", result.Status)
		}
		if strings.HasPrefix(body, "commit") || strings.HasPrefix(body, "later") {
			expected++
		}
	}
	if err = wait(); err != nil {
		return nil, err
	}
	return received(c, topic, expected)
}

func transactions(c *cluster) (facts, error) {
	bodies := []string{"commit-1", "rollback-1", "commit-2", "rollback-2", "commit-3"}
	return transacted(c, &decisions{checks: map[string]int{}}, bodies, func() error { return nil })
}

func transactionChecks(c *cluster) (facts, error) {
	decided := &decisions{checks: map[string]int{}}
	bodies := []string{"later-1", "never-1", "later-2", "commit-1"}
	return transacted(c, decided, bodies, func() error {
		err := until("three checks", func() bool { return len(decided.checked()) == 3 })
		time.Sleep(quiet)
		return err
	})
}
