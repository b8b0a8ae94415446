package consumer

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
)

// errNameLost says that another consumer took our name while we were not looking, as when this process was frozen.
var errNameLost = errors.New("consumer: name lost to another consumer")

// session is one life of a consumer under one name.
type session struct {
	c        *Consumer
	cfg      Config
	log      *slog.Logger
	cmd      valkey.Client
	listen   valkey.Client
	conns    *clients
	scripts  *scripts
	observer *Observer
	lease    *nameLease
	name     string
	cluster  bool
	timeout  time.Duration // for a reply, beyond what a read may block

	breaker    *breaker
	partitions []*partition
	seed       maphash.Seed // which stream belongs to which

	handling context.Context // of all handlers
	cancel   context.CancelCauseFunc
	quit     chan struct{} // closed when no new work is to begin
	quits    atomic.Bool   // says so
	ended    sync.Once
	loops    sync.WaitGroup // readers, workers, reclaimers
	lost     chan struct{}  // closed when the name is lost
}

func newSession(c *Consumer, conns *clients, scripts *scripts, lease *nameLease) *session {
	s := &session{
		c: c, cfg: c.cfg, log: c.cfg.Logger.With("group", c.cfg.Group, "consumer", lease.name),
		cmd: conns.cmd, listen: conns.listen, conns: conns, scripts: scripts, lease: lease, name: lease.name,
		cluster: conns.cmd.Mode() == valkey.ClientModeCluster, timeout: c.cfg.Options.ConnWriteTimeout,
		observer: &Observer{client: conns.cmd, cfg: c.cfg, scripts: scripts, lost: &c.lost},
		breaker:  newBreaker(), quit: make(chan struct{}), lost: make(chan struct{}), seed: maphash.MakeSeed(),
	}
	if s.timeout == 0 {
		s.timeout = 10 * time.Second
	}
	s.handling, s.cancel = context.WithCancelCause(context.Background())
	for range c.cfg.Workers {
		s.partitions = append(s.partitions, newPartition(s))
	}
	return s
}

// run works until stop gives a context, whose end is the deadline of the stop, or until the name is lost.
func (s *session) run(stop <-chan context.Context) error {
	s.conns.wires.until(context.Background())
	keeper := make(chan struct{})
	kept := make(chan struct{})
	go func() { defer close(kept); s.keep(keeper) }()
	for _, p := range s.partitions {
		s.loops.Go(p.work)
		s.loops.Go(p.reclaim)
	}
	s.loops.Go(s.monitor)
	var err error
	var ctx context.Context
	select {
	case ctx = <-stop:
	case <-s.lost:
		err = errNameLost
		s.cancel(ErrLeaseLost)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), s.cfg.StopTimeout)
		defer cancel()
	}
	s.conns.wires.until(ctx)
	s.end()
	s.log.Info("stopping", "in_flight", s.inFlight())
	idle := make(chan struct{})
	go func() { defer close(idle); s.loops.Wait() }()
	select {
	case <-idle:
	case <-ctx.Done():
		s.cancel(context.Cause(ctx))
		<-idle
	}
	rest := func(ctx context.Context) {
		s.settleRest(ctx, err == nil)
		close(keeper)
		<-kept
		if err == nil {
			s.lease.drop(ctx, s.conns, s.scripts)
		}
	}
	if ctx.Err() == nil {
		rest(ctx)
	} else {
		s.atLast(rest)
	}
	s.cancel(nil)
	return err
}

// atLast does what should be done though it is late, as what was handled should not be handled again: within a second.
func (s *session) atLast(do func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.conns.wires.until(ctx)
	do(ctx)
}

// end begins the end: no new work.
func (s *session) end() {
	s.ended.Do(func() {
		s.quits.Store(true)
		close(s.quit)
		s.wake()
	})
}

func (s *session) quitting() bool { return s.quits.Load() }

// wake makes all that waits look again. No partition's mutex is held.
func (s *session) wake() {
	for _, p := range s.partitions {
		p.wake()
	}
}

// after wakes a partition later, unless stopped.
func (s *session) after(d time.Duration, p *partition) (stop func()) {
	t := time.AfterFunc(d, p.wake)
	return func() { t.Stop() }
}

// settleRest sends the last acknowledgements, and hands back what no handler began: the next delivery comes at once and
// shows the same attempts. Under a lost name there is nothing of ours to hand back.
func (s *session) settleRest(ctx context.Context, ours bool) {
	for _, p := range s.partitions {
		back := map[*stream][]held{}
		p.mu.Lock()
		var rest []acks
		for _, r := range p.readers {
			rest = append(rest, r.takeAcks()...)
		}
		for _, st := range p.streams {
			for id, e := range st.inHand {
				if e.state != stateQueued {
					continue
				}
				attempts := e.msg.Attempts - 1
				back[st] = append(back[st], held{id: id, idle: s.cfg.MinIdle, count: strconv.FormatInt(attempts, 10)})
			}
		}
		p.mu.Unlock()
		p.sendAcks(ctx, rest)
		if !ours {
			continue
		}
		for _, codes := range s.holdAll(ctx, back) {
			for _, code := range codes {
				if code == holdDone {
					s.c.count.handedBack.Add(1)
				}
			}
		}
	}
}

// keep renews leases and the name until stop is closed.
func (s *session) keep(stop <-chan struct{}) {
	tick := min(s.cfg.MinIdle/9, s.cfg.NameTTL/6, time.Second)
	t := time.NewTicker(max(tick, 5*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		ctx := context.Background()
		if !s.keepName(ctx) {
			return
		}
		for _, p := range s.partitions {
			p.renew(ctx)
			p.mu.Lock()
			late := p.takeIdleAcks()
			p.mu.Unlock()
			p.sendAcks(ctx, late)
		}
	}
}

// keepName renews the name when a third of its time is over, and is false when another consumer has it.
func (s *session) keepName(ctx context.Context) bool {
	if time.Until(s.lease.until) > s.cfg.NameTTL*2/3 {
		return true
	}
	ok, err := s.lease.take(ctx, s.conns, s.scripts, s.name)
	if ok || err != nil {
		return true
	}
	s.log.Error("name taken over by another consumer")
	close(s.lost)
	return false
}

// checkStart makes the groups of the configured streams and refuses keys that are not streams. A server that does not
// answer is no fault of theirs.
func (s *session) checkStart(ctx context.Context) error {
	starts := map[string]string{}
	for _, key := range s.cfg.Streams {
		starts[key] = s.start()
	}
	var bad []error
	for _, err := range s.doors(ctx, starts) {
		if errors.Is(err, ErrNotStream) {
			bad = append(bad, err)
		}
	}
	return errors.Join(bad...)
}

// start is where a group begins that is made for the first time, as the server has it.
func (s *session) start() string {
	if s.cfg.Start == StartNew {
		return "$"
	}
	return remadeStart
}

// join begins to read streams and their retry streams; those it reads it leaves as they are.
func (s *session) join(streams ...string) {
	for _, key := range streams {
		s.partitionOf(key).join(key)
		if s.cfg.RetryStream != nil {
			retry := s.cfg.RetryStream(key)
			s.partitionOf(retry).join(retry)
		}
	}
}

func (s *session) leave(streams ...string) {
	for _, key := range streams {
		s.partitionOf(key).leave(key)
	}
}

// partitionOf gives each stream one worker for good: its entries keep their order.
func (s *session) partitionOf(key string) *partition {
	return s.partitions[maphash.String(s.seed, key)%uint64(len(s.partitions))]
}

func (p *partition) join(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.cond.Broadcast()
	if p.s.quitting() {
		return
	}
	if st := p.streams[key]; st != nil {
		if st.leaving = false; !st.listed {
			st.listed, st.phase = true, phaseDoor
			st.r.streams = append(st.r.streams, st)
		}
		return
	}
	st := &stream{key: key, start: p.s.start(), cursor: "0-0", inHand: map[string]*entry{}}
	if err := p.s.cfg.streamFault(key); err != nil {
		p.s.c.faults.warn("stream not readable", key, err)
		st.fault, st.retryAt = err, time.Now().AddDate(100, 0, 0)
	}
	st.share = p.shareOf(key)
	st.share.streams++
	st.r = p.readerFor(key)
	st.r.streams, st.listed = append(st.r.streams, st), true
	p.streams[key] = st
}

// shareOf finds the share of a stream. The mutex is held.
func (p *partition) shareOf(key string) *share {
	name := p.s.cfg.Share(key)
	sh := p.shares[name]
	if sh == nil {
		sh = &share{name: name}
		p.shares[name] = sh
	}
	return sh
}

// readerFor finds a reader with room for a stream, of its slot in a cluster, or starts one. The mutex is held.
func (p *partition) readerFor(key string) *reader {
	var sl uint16
	if p.s.cluster {
		sl = slot(key)
	}
	for _, r := range p.readers {
		if r.slot == sl && len(r.streams) < readerStreams {
			return r
		}
	}
	r := newReader(p, sl)
	p.readers = append(p.readers, r)
	p.s.loops.Go(r.loop)
	return r
}

func (p *partition) leave(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.streams[key]
	if st == nil || st.leaving {
		return
	}
	st.leaving = true
	p.cond.Broadcast() // its reader unlists it, once no read asks for it any more
}

// forget lets go of a stream that was left once nothing of it is in hand. The mutex is held.
func (p *partition) forget(st *stream) {
	if st.leaving && !st.listed && len(st.inHand) == 0 && len(st.acks) == 0 && p.streams[st.key] == st {
		delete(p.streams, st.key)
		if st.share.streams--; st.share.streams == 0 {
			delete(p.shares, st.share.name)
		}
	}
}

// inFlight is how many entries are queued or in handlers.
func (s *session) inFlight() int {
	var into Stats
	s.stats(&into)
	return into.InFlight
}

// stats adds what stands now.
func (s *session) stats(into *Stats) {
	into.Name = s.name
	for i, p := range s.partitions {
		p.mu.Lock()
		into.InFlight += p.lanes[laneNew].used + p.lanes[laneAgain].used - p.asked
		into.Bytes += p.bytes
		into.Delayed += len(p.delays)
		if i == 0 || p.ratio.now > into.Ratio {
			into.Ratio = p.ratio.now
		}
		p.mu.Unlock()
	}
	s.breaker.state(into)
}
