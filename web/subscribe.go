package web

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// Bounds of what a client may send over a socket.
const (
	maxClientFrame = 16 << 10 // bytes; a token is the largest part of any
	maxMisread     = 10       // frames that are not understood
	maxGames       = 500      // on one socket
	framesASecond  = 100      // as many as are taken at once when all games are subscribed may come faster
	defaultLimit   = 100      // lines of a snapshot or a page
	maxLimit       = 500
)

// clientFrame is what a client sends.
type clientFrame struct {
	T     string `json:"t"`
	Game  string `json:"g"`
	Since string `json:"since"`
	Limit int    `json:"limit"`
	Token string `json:"token"`
}

// parseClientFrame reads a client's frame. Its error is fit for the client.
func parseClientFrame(data []byte) (clientFrame, error) {
	var in clientFrame
	if err := json.Unmarshal(data, &in); err != nil {
		return in, errors.New("not a frame: want a JSON object with t, g, since, limit or token")
	}
	switch in.T {
	case "sub":
		if in.Limit < 0 || in.Limit > maxLimit {
			return in, fmt.Errorf("limit %d: want 1 to %d", in.Limit, maxLimit)
		}
		if in.Limit == 0 {
			in.Limit = defaultLimit
		}
	case "unsub", "ping", "auth", "operate":
	default:
		return in, fmt.Errorf("t %.40q: want auth, sub, unsub, operate or ping", in.T)
	}
	return in, nil
}

// subscribe answers a sub frame: by a snapshot or a delta, sooner or later, or by an err.
func (s *Server) subscribe(w *watcher, in clientFrame) {
	game := feed.GameID(shorten(in.Game))
	id, err := feed.ParseGameID(in.Game)
	key := feed.GameKey{Tenant: w.tenant, Game: id}
	if err == nil {
		err = s.permit(s.ctx, tenants.Watch, w.caller(), key)
	} else {
		err = errNoSuch
	}
	if err == nil {
		err = s.limits.join(s.ctx, w.tenant)
	}
	var no *refusal
	switch {
	case errors.As(err, &no):
		w.sendAway(no.after)
		return
	case errors.Is(err, errSuspended) && w.knows(id):
		w.say(goneFrame(errDark, game))
		return
	case errors.Is(err, errNoSuch):
		w.say(goneFrame(errNotFound, game))
		return
	case err != nil:
		s.faults.warn("tenant not looked up", "tenant", w.tenant, "err", err)
		w.say(errorFrame(errLater, "not available now, subscribe again later", game))
		return
	case w.size() >= maxGames && !w.has(id):
		w.say(errorFrame(errTooMany, fmt.Sprintf("at most %d games on one socket", maxGames), game))
		return
	}
	h := s.hubs.of(key)
	defer h.release()
	next := &sub{hub: h, watcher: w, limit: in.Limit}
	if in.Since != "" {
		if next.cursor, err = feed.ParseCursor(in.Since); err != nil {
			next.reset = resetCursor
		}
		next.sent = next.cursor
	}
	before, ok := w.add(next)
	if before != nil {
		before.hub.leave(before)
	}
	if ok {
		h.join(next)
	}
}

// shorten cuts what a client sent to what may be said back to it.
func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
