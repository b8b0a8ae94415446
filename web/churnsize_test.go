//go:build !chaos

package web

// churn is how many connections come and go.
const churn = 360
