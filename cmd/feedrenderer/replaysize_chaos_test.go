//go:build chaos

package main

const replaySize = 100_000
