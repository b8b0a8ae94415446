//go:build chaos

package web

import "time"

// churn is how many connections come and go: 30 a second for two minutes.
const churn = 3600

// soon is how long lines may take to flow again.
const soon = 2 * time.Second

// revocation is how long an end of access may take.
const revocation = 5 * time.Second
