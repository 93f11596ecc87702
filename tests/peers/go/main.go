// Exercises Apache's Go client (rocketmq-client-go 2.1.2) against a name server and one broker.
//
// Usage: campaign NAMESRV BROKER CLUSTER SCENARIO...
//
// The scenarios run at the same time. Each prints one JSON line: its name, its facts, and its error
// if it failed. Facts contain only values that must be the same on every broker: no ids, no times.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type facts map[string]interface{}

type scenario func(*cluster) (facts, error)

var scenarios = map[string]scenario{
	"admin":             admins,
	"async":             sendAsync,
	"auto-topic":        sendToMissingTopic,
	"batch":             sendBatch,
	"broadcasting":      broadcasting,
	"clustering":        clustering,
	"compressed":        sendCompressed,
	"consumer-trace":    consumerTrace,
	"credentials":       credentials,
	"dead-letter":       deadLetter,
	"delayed":           sendDelayed,
	"from-last":         fromLast,
	"from-timestamp":    fromTimestamp,
	"namespace":         namespaces,
	"one-way":           sendOneWay,
	"orderly":           orderly,
	"orderly-retry":     orderlyRetry,
	"poll":              poll,
	"pull":              pull,
	"queue-selector":    queueSelector,
	"request":           requestReply,
	"request-async":     requestAsync,
	"request-timeout":   requestTimeout,
	"retry":             retry,
	"small-pulls":       smallPulls,
	"sql92":             sql92,
	"suspend":           suspend,
	"sync":              sendSync,
	"tags":              tags,
	"trace":             trace,
	"transaction":       transactions,
	"transaction-check": transactionChecks,
	"vip-port":          vipPort,
}

var output sync.Mutex

func report(name string, found facts, failure error) {
	line := facts{"scenario": name, "facts": found}
	if failure != nil {
		line["error"] = failure.Error()
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

func run(name string, c *cluster) {
	var found facts
	err := fmt.Errorf("unknown scenario")
	defer func() {
		if crash := recover(); crash != nil {
			err = fmt.Errorf("panic: %v", crash)
		}
		report(name, found, err)
	}()
	if story, ok := scenarios[name]; ok {
		found, err = story(c)
	}
}

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: campaign NAMESRV BROKER CLUSTER SCENARIO...")
		os.Exit(2)
	}
	rlog.SetLogLevel("error")
	var all sync.WaitGroup
	for _, name := range os.Args[4:] {
		all.Add(1)
		go func(name string) {
			defer all.Done()
			run(name, &cluster{os.Args[1], os.Args[2], os.Args[3], name})
		}(name)
	}
	all.Wait()
}
