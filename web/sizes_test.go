//go:build !chaos

package web

import "time"

// churn is how many connections come and go.
const churn = 360

// soon is how long lines may take to flow again. Two seconds are promised; a machine that runs all tests at once gets five
// times that, and the figure is logged.
const soon = 10 * time.Second

// revocation is how long an end of access may take. Five seconds are promised; likewise.
const revocation = 20 * time.Second
