package web

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// proof is what a watcher has shown. Guarded by the watcher.
type proof struct {
	who    *caller
	peer   string
	since  time.Time // when the connection opened
	seated bool      // it counts among the tenant's sockets
	left   bool      // the connection has ended: no seat any more
}

func (w *watcher) caller() *caller {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proof.who
}

// greet takes in who opens a connection. Where that is somebody who may watch the tenant it is given a seat at once,
// else when it has shown so. The error is that there is none.
func (s *Server) greet(ctx context.Context, w *watcher, who *caller, peer string) error {
	w.mu.Lock()
	w.proof.who, w.proof.peer = who, peer
	w.mu.Unlock()
	return s.seat(ctx, w)
}

// seat counts a watcher that may watch its tenant; one that may not is passed over.
func (s *Server) seat(ctx context.Context, w *watcher) error {
	w.mu.Lock()
	who, seated := w.proof.who, w.proof.seated
	w.mu.Unlock()
	if seated || s.watches(ctx, w.tenant, who) != nil {
		return nil
	}
	if err := s.limits.enter(ctx, w.tenant); err != nil {
		return err
	}
	w.mu.Lock()
	needless := w.proof.seated || w.proof.left // another was faster, or it went meanwhile
	w.proof.seated = !w.proof.left
	w.mu.Unlock()
	if needless {
		s.limits.leave(w.tenant)
	}
	return nil
}

// unseat is to be called when a connection has ended.
func (s *Server) unseat(w *watcher) {
	w.mu.Lock()
	seated := w.proof.seated
	w.proof.seated, w.proof.left = false, true
	w.mu.Unlock()
	if seated {
		s.limits.leave(w.tenant)
	}
}

// watches says whether a caller may watch some game of a tenant, or errNoSuch.
func (s *Server) watches(ctx context.Context, id feed.TenantID, who *caller) error {
	tenant, err := s.known(ctx, id)
	if err == nil && !tenant.Public && (who.tenant != id || !who.role.May(tenants.Watch)) {
		err = errNoSuch
	}
	return err
}

// authenticate takes the credential of an auth frame. A later one takes the place of the one before, so that a token can
// be renewed on an open socket.
func (s *Server) authenticate(w *watcher, token string) {
	w.mu.Lock()
	peer := w.proof.peer
	w.mu.Unlock()
	who, err := s.recognize(s.ctx, peer, token)
	if err == nil {
		err = s.greet(s.ctx, w, who, peer)
	}
	var no *refusal
	switch {
	case err == nil:
	case errors.Is(err, errCredential):
		w.close(closeBadKey)
	case errors.As(err, &no):
		w.sendAway(no.after)
	default:
		s.faults.warn("tenant, key or token not looked up", "tenant", w.tenant, "err", err)
		w.sendAway(comeBack)
	}
}

// sendAway closes a watcher that is to come back later: not before after, and not all at once.
func (w *watcher) sendAway(after time.Duration) {
	w.say(byeFrame(after, after))
	w.close(closeBusy)
}

// review looks again, each second, at all who watch: keys are revoked, tokens run out, tenants are suspended or no
// longer public.
func (s *Server) review(ctx context.Context) {
	period := time.NewTicker(min(time.Second, s.config.Times.Sweep))
	defer period.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-period.C:
		}
		for _, w := range s.outlets.watchers() {
			s.reviewOne(ctx, w)
		}
	}
}

func (s *Server) reviewOne(ctx context.Context, w *watcher) {
	w.mu.Lock()
	who, since := w.proof.who, w.proof.since
	w.mu.Unlock()
	switch err := s.vouch(ctx, who); {
	case errors.Is(err, tenants.ErrExpired):
		w.close(closeExpired)
		return
	case errors.Is(err, errCredential):
		w.close(closeBadKey)
		return
	case err != nil:
		return // the store is down: what it said last holds
	}
	switch err := s.watches(ctx, w.tenant, who); {
	case errors.Is(err, errSuspended) && w.knows(""):
		for _, sub := range w.games() {
			s.revoke(w, sub, errDark)
		}
		if !w.seated() && time.Since(since) >= s.config.Times.Auth { // nothing would bound how many there are
			w.say(byeFrame(comeBack, comeBack))
			w.close(closeSuspended)
		}
		return
	case errors.Is(err, errNoSuch):
		for _, sub := range w.games() {
			s.revoke(w, sub, errNotFound)
		}
		if time.Since(since) >= s.config.Times.Auth {
			w.close(closeUnproven)
		}
		return
	case err != nil:
		return
	}
	var no *refusal
	if errors.As(s.seat(ctx, w), &no) { // it may watch only since a moment ago
		w.sendAway(no.after)
		return
	}
	if len(who.games) == 0 {
		return
	}
	for _, sub := range w.games() { // what was public may be so no longer
		if errors.Is(s.permit(ctx, tenants.Watch, who, sub.hub.key), errNoSuch) {
			s.revoke(w, sub, errNotFound)
		}
	}
}

// revoke takes a subscription away from who may not have it any more.
func (s *Server) revoke(w *watcher, sub *sub, code string) {
	sub.hub.leave(sub)
	w.refuse(sub, goneFrame(code, sub.hub.key.Game))
}

func (w *watcher) seated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proof.seated
}

// knows reports whether a watcher may be told that its tenant is suspended: it watched before that, or has a right to the
// game, or to some where game is "".
func (w *watcher) knows(game feed.GameID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	who := w.proof.who
	return w.proof.seated || who.tenant == w.tenant && who.role.May(tenants.Watch) && (game == "" || who.may(tenants.Watch, feed.GameKey{Tenant: w.tenant, Game: game}))
}

// peerAddress finds the address of the peer: of the connection, or what proxies say that are trusted by their exact
// addresses. No header of anybody else counts.
func (s *Server) peerAddress() echo.IPExtractor {
	if len(s.config.TrustedProxies) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, prefix := range s.config.TrustedProxies {
		options = append(options, echo.TrustIPRange(ipNet(prefix)))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	prefix = prefix.Masked()
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
