// Package consumer is a consumer-group library for Valkey and Redis streams: one group over many streams, entries handled in
// batches, nothing lost and nothing stuck.
//
//	c, err := consumer.New(consumer.Config{
//		Options: valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}},
//		Group:   "billing",
//		Start:   consumer.StartHead,
//		Streams: []string{"orders"},
//		Handler: consumer.Each(func(ctx context.Context, m consumer.Message) consumer.Verdict {
//			if err := charge(ctx, m); err != nil {
//				return consumer.Retry(0, err)
//			}
//			return consumer.Ack()
//		}),
//	})
//	...
//	err = c.Run(ctx)
//
// # Three phases
//
// Joining a stream, a consumer first makes the group where there is none. Then it reads its own backlog: what was
// delivered under its name and never settled, as after a crash; once, in order, before anything newer of that stream. Then
// it listens for new entries. Beside that, each Config.Beat, it takes over what other consumers left pending for longer
// than Config.MinIdle, and its own timer brings back what a handler asked to retry. New and reclaimed entries wait in two
// queues; while both have something, Config.Ratio batches of new entries are handled for one of reclaimed ones, and more
// where reclaimed ones only ever fail.
//
// A stream belongs to one of Config.Workers for good, so its first deliveries are handled in stream order. An entry that
// comes again may come after newer ones.
//
// # Shares
//
// Streams that belong together, to one customer, say, are a share: those with the same hash tag, or what Config.Share says.
// Shares take turns: a batch holds something of each that has something, and one that was silent comes first. None may take
// all the room in flight, and while a batch of one is in the handler the streams of the others are listened to. So a flood
// on one share delays an entry of another by the batch that runs and, while that other has much to say itself, the next.
//
// # Four verdicts
//
// A handler says of each entry: Ack, it is done; Retry, it stays pending and comes back after a delay; Reject, it can never
// be done and moves to the dead letters; Unavailable, the store behind the handler is down. The last opens a breaker:
// reading pauses, what is in hand keeps its leases and its counts, and one batch is tried again now and then until the
// store is back. An outage makes no dead letters.
//
// Delays are kept in the group's pending list itself, as the entry's idle time, so they survive the consumer, and any
// other consumer of the group may take the entry when it is due. After Config.MaxAttempts deliveries a failing entry is run
// once alone, so that the neighbours in its batch are not dragged along, and then becomes a dead letter. So does an entry
// that was run alone and never got a verdict, because it kills the process. DeadLetters lists, retries and drops them.
//
// # What is read, and when
//
// A consumer at rest listens. While its handler has a batch it reads ahead of it only where a stream is known to have more; what
// else comes is read when the handler is done, all of it, and is the next batch, or goes to another consumer of the group that is
// at rest. So an entry waits for no batch to fill, and behind no busy consumer while there is an idle one.
//
// # What at-least-once asks of a handler
//
// An entry is handled again when its consumer died, or its acknowledgement was lost, or its lease was. A handler must be
// safe to repeat: write by a key that the entry determines, compare versions, or insert with a unique id. It must also
// bear an entry that comes after a newer one. The context of Each ends with cause ErrLeaseLost when somebody else has the
// entry; Message.StillMine asks the server before something that cannot be repeated.
//
// # Choosing min-idle
//
// Leases are renewed each third of Config.MinIdle for as long as an entry is in hand, queued ones included, however slow
// the handler is. MinIdle is therefore not the time a handler may take. It is how late the work of a dead consumer is
// resumed (MinIdle and a Beat), and the longest delay of a retry. It must be well above the longest pause of a living
// process: a frozen machine, a long garbage collection, a network cut. Below a few seconds the renewals cost more than the
// sooner takeover is worth. All consumers of a group should have the same.
//
// # Watching it
//
// Stats counts what this consumer did; Health asks the server how the group stands on each stream: lag, pending, the age of
// the oldest pending entry, entries lost to trimming before they were read, dead letters, names. Collector and
// HealthCollector show them to Prometheus. An Observer asks the same where no consumer runs, and DeadLetters looks after what was given up on. Logs go
// to Config.Logger; a fault that lasts is logged once a minute, not once a try.
//
// # Testing a handler
//
// Package consumertest, beside this one, runs batches through a handler without a server, and has the consumer die at each
// of its commands in turn.
//
// # Servers
//
// Valkey from 7.2 and Redis from 7.0 are supported, single or as a cluster, over RESP3 or RESP2, with TLS and ACL users.
// Consumers trim nothing: Trim is for whoever owns a stream, and removes what every group on it has settled. Nothing here
// ever removes a group.
package consumer
