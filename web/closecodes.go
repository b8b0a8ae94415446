package web

import "github.com/coder/websocket"

// closing is why a socket is closed. Codes below 4500 mean "come back", those from 4500 on "do not": what would be asked
// again would be refused again. This table is the whole of them.
type closing struct {
	code   websocket.StatusCode
	reason string
}

var (
	closeDraining  = closing{4000, "draining: the server goes away, come back elsewhere"}
	closeLagging   = closing{4001, "lagging: frames were not taken fast enough, twice within a minute"}
	closeSlow      = closing{4002, "slow: a write took too long"}
	closeSilent    = closing{4003, "silent: no answer to a ping"}
	closeExpired   = closing{4004, "expired: the token has run out, come back with another"}
	closeBusy      = closing{4005, "busy: a limit of the tenant is reached, come back later"}
	closeSuspended = closing{4006, "suspended: the tenant is, come back later"}

	closeMalformed = closing{4500, "malformed: too many frames that are not understood"}
	closeTooLarge  = closing{4501, "too large: a frame above the limit"}
	closeBinary    = closing{4502, "binary: frames are JSON text"}
	closeUnproven  = closing{4503, "unproven: no key or token that is good for this tenant"}
	closeBadKey    = closing{4504, "credential: the key or token is malformed, expired or revoked"}
)
