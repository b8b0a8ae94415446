//go:build !chaos

package main

const replaySize = 2000
