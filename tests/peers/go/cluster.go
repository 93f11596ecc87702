package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	// The client rebalances every 20 s and updates routes every 30 s.
	patience = 90 * time.Second
	// How long to look for messages that must not arrive.
	quiet = 2 * time.Second
	step  = 100 * time.Millisecond
)

var every = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

// cluster is the far side of one scenario; topics and groups carry the scenario's name.
type cluster struct {
	namesrv, broker, name, scenario string
}

var instances int64

// One at a time: Apache's broker registers at the name server for each, and the client waits only 5 s.
var creating sync.Mutex

func (c *cluster) instance() string {
	return fmt.Sprintf("%s-%d", c.scenario, atomic.AddInt64(&instances, 1))
}

func (c *cluster) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{c.namesrv})
}

func (c *cluster) label(what string) string {
	return "go-" + c.scenario + "-" + what
}

// topic creates a topic and returns when its route is published.
func (c *cluster) topic(what string, queues int) (string, error) {
	name := c.label(what)
	return name, c.createTopic(name, queues)
}

func (c *cluster) createTopic(name string, queues int) error {
	operator, err := admin.NewAdmin(admin.WithResolver(c.resolver()))
	if err != nil {
		return err
	}
	// Not closed: closing an admin ends the client that all admins of the process share.
	creating.Lock()
	err = operator.CreateTopic(context.Background(), admin.WithTopicCreate(name),
		admin.WithBrokerAddrCreate(c.broker), admin.WithReadQueueNums(queues),
		admin.WithWriteQueueNums(queues))
	creating.Unlock()
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return until("the route of "+name, func() bool {
		found, err := operator.FetchPublishMessageQueues(context.Background(), name)
		return err == nil && len(found) == queues
	})
}

func (c *cluster) producer(options ...producer.Option) (rocketmq.Producer, error) {
	made, err := rocketmq.NewProducer(append([]producer.Option{
		producer.WithNsResolver(c.resolver()), producer.WithGroupName(c.label("producers")),
		producer.WithInstanceName(c.instance()), producer.WithRetry(2),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func (c *cluster) consumerOptions(group string, options []consumer.Option) []consumer.Option {
	return append([]consumer.Option{
		consumer.WithNsResolver(c.resolver()), consumer.WithGroupName(group),
		consumer.WithInstance(c.instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
}

type listener func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func (c *cluster) push(
	group, topic string, selector consumer.MessageSelector, call listener, options ...consumer.Option,
) (rocketmq.PushConsumer, error) {
	made, err := rocketmq.NewPushConsumer(c.consumerOptions(group, options)...)
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(topic, selector, call); err != nil {
		return nil, err
	}
	return made, made.Start()
}

// collector keeps the messages that a listener received.
type collector struct {
	lock sync.Mutex
	all  []*primitive.MessageExt
}

func (k *collector) add(found ...*primitive.MessageExt) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.all = append(k.all, found...)
}

func (k *collector) accept(_ context.Context, found ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	k.add(found...)
	return consumer.ConsumeSuccess, nil
}

func (k *collector) messages() []*primitive.MessageExt {
	k.lock.Lock()
	defer k.lock.Unlock()
	return append([]*primitive.MessageExt(nil), k.all...)
}

// bodies returns the bodies in the order of their arrival.
func (k *collector) bodies() []string {
	bodies := []string{}
	for _, message := range k.messages() {
		bodies = append(bodies, string(message.Body))
	}
	return bodies
}

func (k *collector) sorted() []string {
	bodies := k.bodies()
	sort.Strings(bodies)
	return bodies
}

// settle waits for a number of messages and then for more that must not come.
func (k *collector) settle(count int) error {
	err := until(fmt.Sprintf("%d messages", count), func() bool { return len(k.messages()) >= count })
	if err != nil {
		return fmt.Errorf("%w; received %v", err, k.sorted())
	}
	time.Sleep(quiet)
	return nil
}

func until(what string, done func() bool) error {
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", patience, what)
		}
		time.Sleep(step)
	}
	return nil
}

func numbered(topic, prefix string, count int) []*primitive.Message {
	messages := []*primitive.Message{}
	for i := 0; i < count; i++ {
		messages = append(messages, primitive.NewMessage(topic, []byte(fmt.Sprintf("%s-%02d", prefix, i))))
	}
	return messages
}

// sendAll sends one after the other and fails unless each is stored.
func sendAll(sender rocketmq.Producer, messages []*primitive.Message) error {
	for _, message := range messages {
		result, err := sender.SendSync(context.Background(), message)
		if err != nil {
			return err
		}
		if result.Status != primitive.SendOK {
			return fmt.Errorf("send status %d", result.Status)
		}
	}
	return nil
}

// Properties whose values are ids, times or places that differ from run to run.
var varying = map[string]bool{
	"CONSUME_START_TIME": true, "MAX_OFFSET": true, "MIN_OFFSET": true, "ORIGIN_MESSAGE_ID": true,
	"REAL_QID": true, "UNIQ_KEY": true,
}

// described is what a consumer sees of each message, without ids and times.
func described(found []*primitive.MessageExt) []string {
	lines := []string{}
	for _, message := range found {
		properties := []string{}
		for name, value := range message.GetProperties() {
			if varying[name] {
				value = "?"
			}
			properties = append(properties, name+"="+value)
		}
		sort.Strings(properties)
		lines = append(lines, fmt.Sprintf("%s %v sysFlag=%d flag=%d reconsumed=%d",
			message.Body, properties, message.SysFlag, message.Flag, message.ReconsumeTimes))
	}
	sort.Strings(lines)
	return lines
}
