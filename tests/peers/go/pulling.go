package main

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func (c *cluster) puller(group, topic string) (rocketmq.PullConsumer, error) {
	made, err := rocketmq.NewPullConsumer(c.consumerOptions(group, nil)...)
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(topic, every); err != nil {
		return nil, err
	}
	return made, made.Start()
}

// polled polls until a number of messages came, or until nothing came for a while.
func polled(from rocketmq.PullConsumer, count int, patience time.Duration) []string {
	bodies := []string{}
	deadline := time.Now().Add(patience)
	for len(bodies) < count && time.Now().Before(deadline) {
		request, err := from.Poll(context.Background(), time.Second)
		if err != nil {
			continue // no message in this second, which the client reports as an error
		}
		for _, message := range request.GetMsgList() {
			bodies = append(bodies, string(message.Body))
		}
		from.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	sort.Strings(bodies)
	return bodies
}

// poll: this client's Poll asks for 0 messages, whatever its settings say.
func poll(c *cluster) (facts, error) {
	const count = 12
	topic, err := filled(c, 2, func(topic string) []*primitive.Message { return numbered(topic, "poll", count) })
	if err != nil {
		return nil, err
	}
	group := c.label("readers")
	first, err := c.puller(group, topic)
	if err != nil {
		return nil, err
	}
	bodies := polled(first, count, patience/2)
	if len(bodies) != count {
		first.Shutdown()
		return nil, fmt.Errorf("polled %d of %d messages: %v", len(bodies), count, bodies)
	}
	if err = first.PersistOffset(context.Background(), topic); err != nil {
		return nil, err
	}
	if err = first.Shutdown(); err != nil {
		return nil, err
	}
	second, err := c.puller(group, topic)
	if err != nil {
		return nil, err
	}
	defer second.Shutdown()
	return facts{"bodies": bodies, "after a restart": polled(second, 1, 5*time.Second)}, nil
}

func pull(c *cluster) (facts, error) {
	const count = 10
	topic, err := filled(c, 1, func(topic string) []*primitive.Message { return numbered(topic, "pull", count) })
	if err != nil {
		return nil, err
	}
	reader, err := c.puller(c.label("readers"), topic)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	queue := &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: 0}
	pulls := facts{}
	for _, asked := range []struct {
		offset int64
		count  int
	}{{0, 3}, {3, 32}, {9, 1}, {10, 5}, {50, 5}} {
		result, err := reader.PullFrom(context.Background(), queue, asked.offset, asked.count)
		if err != nil {
			return nil, fmt.Errorf("pull of %v: %w", asked, err)
		}
		bodies := []string{}
		for _, message := range result.GetMessageExts() {
			bodies = append(bodies, string(message.Body))
		}
		pulls[fmt.Sprintf("%d from %d", asked.count, asked.offset)] = facts{
			"status": result.Status, "bodies": bodies, "next": result.NextBeginOffset,
			"min": result.MinOffset, "max": result.MaxOffset,
		}
	}
	if err = reader.UpdateOffset(queue, 4); err != nil {
		return nil, err
	}
	if err = reader.PersistOffset(context.Background(), topic); err != nil {
		return nil, err
	}
	offset, err := reader.CurrentOffset(queue)
	pulls["offset"] = offset
	return pulls, err
}
