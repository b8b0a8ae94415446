//go:build chaos

package consumer_test

// failovers is how many clusters lose a primary.
const failovers = 10
