package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func admins(c *cluster) (facts, error) {
	ctx := context.Background()
	topic, err := c.topic("topic", 6)
	if err != nil {
		return nil, err
	}
	operator, err := admin.NewAdmin(admin.WithResolver(c.resolver()))
	if err != nil {
		return nil, err
	}
	queues, err := operator.FetchPublishMessageQueues(ctx, topic)
	if err != nil {
		return nil, err
	}
	before, err := operator.FetchAllTopicList(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := operator.GetAllSubscriptionGroup(ctx, c.broker, 5*time.Second)
	if err != nil {
		return nil, err
	}
	tools, known := groups.SubscriptionGroupTable["TOOLS_CONSUMER"]
	if err = operator.DeleteTopic(ctx, admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(c.broker),
		admin.WithNameSrvAddr([]string{c.namesrv})); err != nil {
		return nil, err
	}
	after, err := operator.FetchAllTopicList(ctx)
	if err != nil {
		return nil, err
	}
	return facts{
		"queues": len(queues), "listed": contains(before.TopicList, topic),
		"listed after deletion": contains(after.TopicList, topic),
		"tools group":           known, "tools retries": tools.RetryMaxTimes,
		"tools queues": tools.RetryQueueNums, "tools enabled": tools.ConsumeEnable,
	}, nil
}

func contains(names []string, wanted string) bool {
	for _, name := range names {
		if name == wanted {
			return true
		}
	}
	return false
}

// answered runs ask with a producer, while a consumer answers every request on a topic.
func answered(
	c *cluster, ask func(rocketmq.Producer, *primitive.Message) (*primitive.Message, error),
) (facts, error) {
	topic, err := c.topic("topic", 2)
	if err != nil {
		return nil, err
	}
	replier, err := c.producer(producer.WithGroupName(c.label("repliers")))
	if err != nil {
		return nil, err
	}
	defer replier.Shutdown()
	answer := func(_ context.Context, found ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range found {
			// The client registers a requester with the broker a moment after its first send.
			time.Sleep(time.Second)
			reply, err := consumer.CreateReplyMessage(message, []byte("reply to "+string(message.Body)))
			if err == nil {
				_, err = replier.SendSync(context.Background(), reply)
			}
			if err != nil {
				return consumer.ConsumeRetryLater, err
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	reader, err := c.push(c.label("readers"), topic, every, answer)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	requester, err := c.producer()
	if err != nil {
		return nil, err
	}
	defer requester.Shutdown()
	replies := []string{}
	for i := 0; i < 3; i++ {
		reply, err := ask(requester, primitive.NewMessage(topic, []byte(fmt.Sprintf("request-%d", i))))
		if err != nil {
			return nil, err
		}
		replies = append(replies, string(reply.Body))
	}
	return facts{"replies": replies}, nil
}

func requestReply(c *cluster) (facts, error) {
	return answered(c, func(from rocketmq.Producer, message *primitive.Message) (*primitive.Message, error) {
		return from.Request(context.Background(), patience/2, message)
	})
}

func requestAsync(c *cluster) (facts, error) {
	return answered(c, func(from rocketmq.Producer, message *primitive.Message) (*primitive.Message, error) {
		type result struct {
			reply *primitive.Message
			err   error
		}
		results := make(chan result, 1)
		err := from.RequestAsync(context.Background(), patience/2,
			func(_ context.Context, reply *primitive.Message, err error) { results <- result{reply, err} },
			message)
		if err != nil {
			return nil, err
		}
		found := <-results
		return found.reply, found.err
	})
}

func requestTimeout(c *cluster) (facts, error) {
	topic, err := c.topic("topic", 1)
	if err != nil {
		return nil, err
	}
	requester, err := c.producer()
	if err != nil {
		return nil, err
	}
	defer requester.Shutdown()
	_, err = requester.Request(context.Background(), 2*time.Second,
		primitive.NewMessage(topic, []byte("nobody answers")))
	if err == nil {
		return nil, fmt.Errorf("a reply came from nowhere")
	}
	return facts{"timed out": strings.Contains(err.Error(), "timeout")}, nil
}

func trace(c *cluster) (facts, error) {
	topic, err := c.topic("topic", 1)
	if err != nil {
		return nil, err
	}
	sender, err := c.producer(producer.WithTrace(&primitive.TraceConfig{
		Access: primitive.Local, Resolver: c.resolver(), GroupName: c.label("tracers"),
	}))
	if err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	result, err := sender.SendSync(context.Background(), primitive.NewMessage(topic, []byte("traced")))
	if err != nil {
		return nil, err
	}
	return traced(c, "Pub", result.MsgID)
}

func consumerTrace(c *cluster) (facts, error) {
	topic, err := filled(c, 1, func(topic string) []*primitive.Message { return numbered(topic, "traced", 1) })
	if err != nil {
		return nil, err
	}
	var found collector
	reader, err := c.push(c.label("traced"), topic, every, found.accept,
		consumer.WithTrace(&primitive.TraceConfig{
			Access: primitive.Local, Resolver: c.resolver(), GroupName: c.label("tracers"),
		}))
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	if err = found.settle(1); err != nil {
		return nil, err
	}
	return traced(c, "SubAfter", found.messages()[0].GetProperty("UNIQ_KEY"))
}

// traced waits for a trace of a kind about a message.
func traced(c *cluster, kind, id string) (facts, error) {
	var found collector
	reader, err := c.push(c.label("readers"), "RMQ_SYS_TRACE_TOPIC", every, found.accept)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	count := 0
	err = until("a "+kind+" trace of "+id, func() bool {
		for _, message := range found.messages() {
			for _, trace := range strings.Split(string(message.Body), "\x02") {
				fields := strings.Split(trace, "\x01")
				if fields[0] == kind && strings.Contains(message.GetKeys(), id) {
					count = len(fields)
					return true
				}
			}
		}
		return false
	})
	return facts{"kind": kind, "fields": count}, err
}
