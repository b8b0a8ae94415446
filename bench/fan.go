package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	fanBurst  = 250 // lines
	fanBursts = 8
	fanBare   = 30 // lines: each is a write to every socket
	paceLines = 50
	paceEvery = 100 * time.Millisecond // to 1000 sockets: 10 000 deliveries/s
	stormMiss = 500
)

// fan is how many lines a second reach all of many sockets at saturation: the whole product, fed by XADD in bursts of
// which two are under way, beside one write a line and socket.
func fan(ctx context.Context, rig *rig, report *report) error {
	for _, size := range []struct {
		sockets int
		ratio   string
	}{{1000, "fan_out"}, {5000, "fan_out_5000"}} {
		ours, bare := fmt.Sprintf("lines to %d sockets", size.sockets), fmt.Sprintf("lines to %d sockets, bare loop", size.sockets)
		sides := []func(context.Context) error{
			func(ctx context.Context) error { return rig.fanProduct(ctx, report, ours, size.sockets) },
			func(ctx context.Context) error { return rig.fanBareLoop(ctx, report, bare, size.sockets) },
		}
		for range rig.rounds {
			for _, i := range rand.Perm(len(sides)) {
				bounded, cancel := context.WithTimeout(ctx, runLimit)
				err := sides[i](bounded)
				cancel()
				if err != nil {
					return fmt.Errorf("%d sockets: %w", size.sockets, err)
				}
			}
		}
		report.compare(size.ratio, ours, bare)
	}
	report.compare("fan_p99", paceOurs+", p99", paceBare+", p99")
	report.compare("resume_storm", stormOurs, stormBare)
	return nil
}

const (
	paceOurs  = "XADD to each of 1000 sockets, 10 lines/s"
	paceBare  = "a line to each of 1000 sockets, 10 lines/s, bare loop"
	stormOurs = "1000 watchers resume, 500 lines missed each"
	stormBare = "1000 watchers resume, one prebuilt message to each"
)

// fanProduct serves one game to a crowd. With 1000 sockets, lines come one at a time first, and another 1000 that missed
// lines resume in the end.
func (r *rig) fanProduct(ctx context.Context, report *report, name string, sockets int) (err error) {
	databaseURL, _, drop, err := r.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	game := feed.GameKey{Tenant: "bench", Game: feed.GameID("fan" + strconv.Itoa(r.labels))}
	r.labels++
	mint, err := feed.NewMint(4)
	if err != nil {
		return err
	}
	producer := feed.NewProducer(r.client, mint)
	if _, err := producer.Append(ctx, game, opening()); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, r.empty(context.WithoutCancel(ctx), &backlog{games: []feed.GameKey{game}}))
	}()
	server, err := r.serve(ctx, databaseURL, "--roles", "render,web", "--tenants", "bench")
	if err != nil {
		return err
	}
	defer func() {
		_, stopped := server.stop()
		err = errors.Join(err, stopped)
	}()
	ready, err := newWatcher(ctx, server.listen, game)
	if err != nil {
		return err
	}
	if err := ready.close(); err != nil {
		return err
	}
	const path = "/v1/tenants/bench/live"
	crowd, err := gather(ctx, server.listen, path, sockets, fmt.Appendf(nil, `{"t":"sub","g":%q,"limit":1}`, game.Game))
	if err != nil {
		return err
	}
	version, epoch, err := cursorOf(ctx, server, game)
	if err == nil {
		err = crowd.until(ctx, version)
	}
	if err == nil && sockets == 1000 {
		err = keepPace(ctx, report, paceOurs, crowd, version+1, func(n int) error {
			_, err := producer.Append(ctx, game, score(n))
			return err
		})
		version += paceLines
	}
	if err == nil {
		err = playBursts(ctx, report, name, producer, game, crowd, version)
	}
	if err := errors.Join(err, crowd.close()); err != nil || sockets != 1000 {
		return err
	}
	version += fanBurst * fanBursts
	late, err := gather(ctx, server.listen, path, sockets, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, late.close()) }()
	began := time.Now()
	if err := late.say(fmt.Appendf(nil, `{"t":"sub","g":%q,"since":"%s:%d"}`, game.Game, epoch, version-stormMiss)); err != nil {
		return err
	}
	err = late.until(ctx, version)
	report.add(stormOurs, "ms", time.Since(began).Seconds()*1000)
	return err
}

// keepPace sends lines one at a time, which must get versions from the first on, and reports how long they took to each socket.
func keepPace(ctx context.Context, report *report, name string, crowd *crowd, first int64, send func(n int) error) error {
	p := newPace(first, paceLines, len(crowd.conns))
	crowd.pace.Store(p)
	defer crowd.pace.Store(nil)
	for n := range paceLines {
		p.sent[n].Store(time.Now().UnixNano())
		if err := errors.Join(send(n), pause(ctx, paceEvery)); err != nil {
			return err
		}
	}
	if err := crowd.until(ctx, first+paceLines-1); err != nil {
		return err
	}
	took := slices.Concat(p.took...)
	report.add(name+", p50", "ms", quantile(took, 0.50))
	report.add(name+", p99", "ms", quantile(took, 0.99))
	return nil
}

// playBursts appends bursts, each when all sockets have the last but one.
func playBursts(ctx context.Context, report *report, name string, producer *feed.Producer, game feed.GameKey, crowd *crowd, version int64) error {
	burst := make([]feed.Fields, fanBurst)
	for i := range burst {
		burst[i] = score(i)
	}
	began := time.Now()
	for n := range int64(fanBursts) {
		if _, err := producer.AppendAll(ctx, game, burst); err != nil {
			return err
		}
		if err := crowd.until(ctx, version+n*fanBurst); err != nil {
			return err
		}
	}
	err := crowd.until(ctx, version+fanBursts*fanBurst)
	report.add(name, "lines/s", fanBurst*fanBursts/time.Since(began).Seconds())
	return err
}

func cursorOf(ctx context.Context, server *process, game feed.GameKey) (version int64, epoch string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://%s/v1/tenants/%s/games/%s", server.listen, game.Tenant, game.Game), nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	var header feed.Game
	if err := json.NewDecoder(response.Body).Decode(&header); err != nil {
		return 0, "", err
	}
	return header.Cursor.Ver, header.Cursor.Epoch, nil
}

// fanBareLoop writes line after line to a crowd, and with 1000 sockets in the end one message of as many lines as others
// missed.
func (r *rig) fanBareLoop(ctx context.Context, report *report, name string, sockets int) (err error) {
	const seen = paceLines + fanBare
	prebuilt := fmt.Appendf(nil, `{"t":"delta","g":"fan","epoch":"e","from":%d,"to":%d,"lines":[%s]}`, seen, seen+stormMiss,
		strings.TrimSuffix(strings.Repeat(barePayload+",", stormMiss), ","))
	bare := newBareFan()
	defer bare.close()
	crowd, err := gather(ctx, bare.listen(), "/", sockets, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crowd.close()) }()
	if err := bare.full(ctx, sockets); err != nil {
		return err
	}
	version := 0
	if sockets == 1000 {
		if err := keepPace(ctx, report, paceBare, crowd, 1, func(n int) error { return bare.broadcast(ctx, bareLine(n+1)) }); err != nil {
			return err
		}
		version += paceLines
	}
	began := time.Now()
	for range fanBare {
		version++
		if err := bare.broadcast(ctx, bareLine(version)); err != nil {
			return err
		}
	}
	if err := crowd.until(ctx, int64(version)); err != nil {
		return err
	}
	report.add(name, "lines/s", fanBare/time.Since(began).Seconds())
	if sockets != 1000 {
		return nil
	}
	began = time.Now()
	if err := bare.broadcast(ctx, prebuilt); err != nil {
		return err
	}
	err = crowd.until(ctx, seen+stormMiss)
	report.add(stormBare, "ms", time.Since(began).Seconds()*1000)
	return err
}
