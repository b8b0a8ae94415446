package consumer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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
			order, _ := m.Fields.Get("order")
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

// A batch into Postgres: one statement for all entries, which an entry that comes again does not change. While Postgres is
// down nothing is wrong with the entries.
func ExampleHandler_postgres() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	const insert = `INSERT INTO orders (entry, body) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`
	handler := func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
		verdicts := make([]consumer.Verdict, len(batch))
		var entries, bodies []string
		for i, m := range batch {
			body, ok := m.Fields.Get("body")
			if !ok {
				verdicts[i] = consumer.Reject("it has no body")
				continue
			}
			verdicts[i] = consumer.Ack()
			entries, bodies = append(entries, m.EntryID), append(bodies, body)
		}
		if _, err := db.Exec(ctx, insert, entries, bodies); err != nil {
			for i := range verdicts {
				if verdicts[i].Kind() == consumer.KindAck {
					verdicts[i] = consumer.Unavailable(err)
				}
			}
		}
		return verdicts
	}
	c, err := consumer.New(consumer.Config{
		Options: valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}},
		Group:   "archive",
		Start:   consumer.StartHead,
		Streams: []string{"orders"},
		Handler: handler,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Dead letters are looked after without a running consumer: listed, and put back onto their stream once whatever was
// wrong with them is mended.
func ExampleDeadLetters() {
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	letters := consumer.NewDeadLetters(client, consumer.Config{})
	list, err := letters.List(ctx, "orders", "", 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range list {
		fmt.Printf("attempt %d of %v: %s\n", l.Attempts, l.Fields, l.Reason)
		if _, err := letters.Retry(ctx, "orders", l.ID); err != nil {
			log.Fatal(err)
		}
	}
}

// Many streams, which come while the consumer runs: all keys of a pattern are looked for now and then. Four workers share
// them, each stream in order.
func ExampleConsumer_Join() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	options := valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}
	client, err := valkey.NewClient(options)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	c, err := consumer.New(consumer.Config{
		Options: options,
		Group:   "billing",
		Start:   consumer.StartHead,
		Workers: 4,
		Handler: consumer.Each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			fmt.Println(m.Stream, m.Fields)
			return consumer.Ack()
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		again := time.NewTicker(time.Second)
		defer again.Stop()
		for {
			keys := valkey.NewScanner(func(cursor uint64) (valkey.ScanEntry, error) {
				return client.Do(ctx, client.B().Scan().Cursor(cursor).Match("orders:*").Type("stream").Build()).AsScanEntry()
			})
			for key := range keys.Iter() {
				c.Join(key) // nothing new for those it reads already
			}
			if err := keys.Err(); err != nil {
				log.Print(err)
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A graceful stop: handlers that run may finish within 20 seconds, what was not begun is handed back at once, for others to
// take, and nothing new is read.
func ExampleConsumer_Stop() {
	c, err := consumer.New(consumer.Config{
		Options: valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}},
		Group:   "reports",
		Start:   consumer.StartHead,
		Streams: []string{"orders"},
		Handler: consumer.Each(func(ctx context.Context, m consumer.Message) consumer.Verdict {
			fmt.Println("reporting", m.Fields)
			select { // something slow
			case <-time.After(time.Second):
				return consumer.Ack()
			case <-ctx.Done(): // not within the 20 seconds
				return consumer.Retry(0, ctx.Err())
			}
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	run := make(chan error, 1)
	go func() { run <- c.Run(context.Background()) }()
	select {
	case <-interrupt:
	case err := <-run: // it could not begin
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		log.Print("handlers were cancelled: ", err)
	}
	if err := <-run; err != nil {
		log.Fatal(err)
	}
	fmt.Println("stopped with", c.Stats().Acked, "reported,", c.Stats().HandedBack, "handed back")
}
