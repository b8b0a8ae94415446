package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

// A plain handler: one message at a time. Run ends with the process's interrupt, after what is in hand is settled.
func Example() {
	c, err := consumer.New(consumer.Config{
		Options: valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}},
		Group:   "billing",
		Start:   consumer.StartHead,
		Streams: []string{"orders"},
		Handler: consumer.Each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			order, ok := m.Fields.Get("order")
			if !ok {
				return consumer.Reject("it names no order")
			}
			fmt.Println("charged", order)
			return consumer.Ack()
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// insert is what a real one does in one statement over all rows: INSERT ... SELECT FROM unnest($1, $2) ON CONFLICT DO NOTHING.
func insert(_ context.Context, ids, bodies []string) error {
	if len(ids) != len(bodies) {
		return errors.New("uneven")
	}
	return nil
}

// A batch into a database: one statement for all entries. Where the database is down nothing is wrong with the entries.
func ExampleHandler_batch() {
	var _ consumer.Handler = func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
		verdicts := make([]consumer.Verdict, len(batch))
		var ids, bodies []string
		var rows []int
		for i, m := range batch {
			body, ok := m.Fields.Get("body")
			if !ok {
				verdicts[i] = consumer.Reject("it has no body")
				continue
			}
			ids, bodies, rows = append(ids, m.EntryID), append(bodies, body), append(rows, i)
		}
		err := insert(ctx, ids, bodies)
		for _, i := range rows {
			if verdicts[i] = consumer.Ack(); err != nil {
				verdicts[i] = consumer.Unavailable(err)
			}
		}
		return verdicts
	}
}

// Dead letters are looked after without a running consumer.
func ExampleDeadLetters() {
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	letters := consumer.NewDeadLetters(client, consumer.Config{})
	list, err := letters.List(context.Background(), "orders", "", 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range list {
		fmt.Println(l.EntryID, l.Attempts, l.Reason)
		if _, err := letters.Retry(context.Background(), "orders", l.ID); err != nil {
			log.Fatal(err)
		}
	}
}

// Streams come and go while the consumer runs: each is joined when it is found and left when it is done with.
func ExampleConsumer_Join() {
	var c *consumer.Consumer // running
	found, ended := make(chan string), make(chan string)
	for {
		select {
		case stream := <-found:
			c.Join(stream)
		case stream := <-ended:
			c.Leave(stream) // what is in hand of it is still handled
		}
	}
}

// A stop with a deadline: handlers that run may finish until then; what was not begun is handed back at once.
func ExampleConsumer_Stop() {
	var c *consumer.Consumer // running
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		log.Print("handlers were cancelled: ", err)
	}
}
