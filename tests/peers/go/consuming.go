package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// filled creates a topic with messages.
func filled(
	c *cluster, queues int, make func(topic string) []*primitive.Message, options ...producer.Option,
) (string, error) {
	topic, err := c.topic("topic", queues)
	if err != nil {
		return "", err
	}
	sender, err := c.producer(options...)
	if err != nil {
		return "", err
	}
	defer sender.Shutdown()
	return topic, sendAll(sender, make(topic))
}

// selected reports the messages that a selector lets through.
func selected(c *cluster, selector consumer.MessageSelector, count int) (facts, error) {
	topic, err := filled(c, 4, func(topic string) []*primitive.Message {
		messages := numbered(topic, "filtered", 24)
		for i, message := range messages {
			message.WithTag([]string{"a", "b", "c"}[i%3])
			message.WithProperty("number", fmt.Sprint(i))
			message.WithProperty("color", []string{"red", "green"}[i%2])
		}
		return messages
	})
	if err != nil {
		return nil, err
	}
	var found collector
	reader, err := c.push(c.label("readers"), topic, selector, found.accept)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	err = found.settle(count)
	return facts{"bodies": found.sorted()}, err
}

func tags(c *cluster) (facts, error) {
	return selected(c, consumer.MessageSelector{Type: consumer.TAG, Expression: "a || c"}, 16)
}

func sql92(c *cluster) (facts, error) {
	words := "(number BETWEEN 4 AND 15) AND color = 'red' AND TAGS IN ('a', 'b')"
	return selected(c, consumer.MessageSelector{Type: consumer.SQL92, Expression: words}, 4)
}

func clustering(c *cluster) (facts, error) {
	topic, err := c.topic("topic", 4)
	if err != nil {
		return nil, err
	}
	var one, two collector
	for _, found := range []*collector{&one, &two} {
		member, err := c.push(c.label("members"), topic, every, found.accept)
		if err != nil {
			return nil, err
		}
		defer member.Shutdown()
	}
	sender, err := c.producer()
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	// In rounds: both members must get messages, which is so only after a rebalance.
	rounds := 0
	err = until("messages at both members", func() bool {
		err = sendAll(sender, numbered(topic, fmt.Sprintf("round%03d", rounds), 8))
		rounds++
		time.Sleep(time.Second)
		return err != nil || (len(one.messages()) > 0 && len(two.messages()) > 0)
	})
	if err != nil {
		return nil, err
	}
	err = until("all messages", func() bool {
		different := map[string]bool{}
		for _, body := range append(one.bodies(), two.bodies()...) {
			different[body] = true
		}
		return len(different) == rounds*8
	})
	return facts{"both consumed": true}, err
}

func broadcasting(c *cluster) (facts, error) {
	topic, err := c.topic("topic", 4)
	if err != nil {
		return nil, err
	}
	var one, two collector
	for _, found := range []*collector{&one, &two} {
		member, err := c.push(c.label("members"), topic, every, found.accept,
			consumer.WithConsumerModel(consumer.BroadCasting))
		if err != nil {
			return nil, err
		}
		defer member.Shutdown()
	}
	sender, err := c.producer()
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	if err = sendAll(sender, numbered(topic, "all", 12)); err != nil {
		return nil, err
	}
	if err = one.settle(12); err == nil {
		err = two.settle(12)
	}
	return facts{"one": one.sorted(), "two": two.sorted()}, err
}

func fromTimestamp(c *cluster) (facts, error) {
	topic, err := filled(c, 1, func(topic string) []*primitive.Message { return numbered(topic, "old", 5) })
	if err != nil {
		return nil, err
	}
	time.Sleep(3 * time.Second)
	moment := time.Now().Add(-time.Second).Format("20060102150405")
	sender, err := c.producer(producer.WithGroupName(c.label("later")))
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	time.Sleep(time.Second)
	if err = sendAll(sender, numbered(topic, "new", 5)); err != nil {
		return nil, err
	}
	var found collector
	reader, err := c.push(c.label("readers"), topic, every, found.accept,
		consumer.WithConsumeFromWhere(consumer.ConsumeFromTimestamp), consumer.WithConsumeTimestamp(moment))
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	err = found.settle(5)
	return facts{"bodies": found.sorted()}, err
}

func orderly(c *cluster) (facts, error) {
	const keys, each = 5, 12
	topic, err := filled(c, 4, func(topic string) []*primitive.Message {
		messages := []*primitive.Message{}
		for i := 0; i < keys*each; i++ {
			body := fmt.Sprintf("key%d-%02d", i%keys, i/keys)
			messages = append(messages, primitive.NewMessage(topic, []byte(body)).
				WithShardingKey(fmt.Sprintf("key%d", i%keys)))
		}
		return messages
	}, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return nil, err
	}
	var found collector
	reader, err := c.push(c.label("readers"), topic, every, found.accept, consumer.WithConsumerOrder(true))
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	err = found.settle(keys * each)
	byKey := map[string][]string{}
	queues := map[string]int{}
	for _, message := range found.messages() {
		key := strings.Split(string(message.Body), "-")[0]
		byKey[key] = append(byKey[key], string(message.Body))
		queues[key] = message.Queue.QueueId
	}
	for key, bodies := range byKey {
		if !sort.StringsAreSorted(bodies) {
			return nil, fmt.Errorf("%s arrived as %v", key, bodies)
		}
	}
	return facts{"by key": byKey, "queues": queues}, err
}

// refusing is a listener that refuses messages until each was seen a number of times.
type refusing struct {
	collector
	seen   map[string]int
	times  int
	result consumer.ConsumeResult
	guard  sync.Mutex
}

func (r *refusing) call(_ context.Context, found ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	r.guard.Lock()
	defer r.guard.Unlock()
	for _, message := range found {
		body := string(message.Body)
		r.seen[body]++
		if r.seen[body] <= r.times {
			return r.result, nil
		}
	}
	r.add(found...)
	return consumer.ConsumeSuccess, nil
}

func retry(c *cluster) (facts, error) {
	topic, err := filled(c, 2, func(topic string) []*primitive.Message { return numbered(topic, "again", 4) })
	if err != nil {
		return nil, err
	}
	listening := refusing{seen: map[string]int{}, times: 2, result: consumer.ConsumeRetryLater}
	reader, err := c.push(c.label("readers"), topic, every, listening.call)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	err = listening.settle(4)
	times := map[string]int32{}
	for _, message := range listening.messages() {
		times[string(message.Body)] = message.ReconsumeTimes
	}
	return facts{"reconsumed": times, "messages": described(listening.messages())}, err
}

func deadLetter(c *cluster) (facts, error) {
	topic, err := filled(c, 1, func(topic string) []*primitive.Message { return numbered(topic, "dead", 2) })
	if err != nil {
		return nil, err
	}
	group := c.label("readers")
	listening := refusing{seen: map[string]int{}, times: 1000, result: consumer.ConsumeRetryLater}
	reader, err := c.push(group, topic, every, listening.call, consumer.WithMaxReconsumeTimes(1))
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	var dead collector
	var undertaker rocketmq.PushConsumer
	// The topic appears with the first dead letter; a consumer of a missing topic does not start.
	err = until("the topic of dead letters", func() bool {
		undertaker, err = c.push(c.label("dead"), "%DLQ%"+group, every, dead.accept)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	defer undertaker.Shutdown()
	err = dead.settle(2)
	return facts{"dead": described(dead.messages())}, err
}

func orderlyRetry(c *cluster) (facts, error) {
	topic, err := filled(c, 1, func(topic string) []*primitive.Message { return numbered(topic, "again", 4) })
	if err != nil {
		return nil, err
	}
	listening := refusing{seen: map[string]int{}, times: 2, result: consumer.SuspendCurrentQueueAMoment}
	reader, err := c.push(c.label("readers"), topic, every, listening.call, consumer.WithConsumerOrder(true))
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	err = listening.settle(4)
	return facts{"bodies": listening.bodies(), "calls": listening.seen}, err
}

func fromLast(c *cluster) (facts, error) {
	topic, err := filled(c, 1, func(topic string) []*primitive.Message { return numbered(topic, "old", 5) })
	if err != nil {
		return nil, err
	}
	// A broker whose queue still begins in memory starts a new group at its first message.
	return received(c, topic, 5, consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset))
}

func smallPulls(c *cluster) (facts, error) {
	topic, err := filled(c, 2, func(topic string) []*primitive.Message { return numbered(topic, "small", 30) })
	if err != nil {
		return nil, err
	}
	return received(c, topic, 30, consumer.WithPullBatchSize(3), consumer.WithConsumeMessageBatchMaxSize(2),
		consumer.WithPullInterval(10*time.Millisecond))
}

func suspend(c *cluster) (facts, error) {
	topic, err := filled(c, 2, func(topic string) []*primitive.Message { return numbered(topic, "first", 6) })
	if err != nil {
		return nil, err
	}
	var found collector
	reader, err := c.push(c.label("readers"), topic, every, found.accept)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	if err = found.settle(6); err != nil {
		return nil, err
	}
	reader.Suspend()
	time.Sleep(quiet)
	sender, err := c.producer(producer.WithGroupName(c.label("later")))
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	if err = sendAll(sender, numbered(topic, "second", 6)); err != nil {
		return nil, err
	}
	reader.Resume()
	err = found.settle(12)
	return facts{"bodies": found.sorted()}, err
}
