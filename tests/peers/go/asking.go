package main

import (
	"context"
	"fmt"
	"strings"
	"time"

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

func requestReply(c *cluster) (facts, error) {
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
		reply, err := requester.Request(context.Background(), patience/2,
			primitive.NewMessage(topic, []byte(fmt.Sprintf("request-%d", i))))
		if err != nil {
			return nil, err
		}
		replies = append(replies, string(reply.Body))
	}
	return facts{"replies": replies}, nil
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
	var found collector
	reader, err := c.push(c.label("readers"), "RMQ_SYS_TRACE_TOPIC", every, found.accept)
	if err != nil {
		return nil, err
	}
	defer reader.Shutdown()
	fields := []string{}
	err = until("the trace of the message", func() bool {
		for _, message := range found.messages() {
			if strings.Contains(message.GetKeys(), result.MsgID) {
				fields = strings.Split(string(message.Body), "\x01")
				return true
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	return facts{"kind": fields[0], "fields": len(fields)}, nil
}
