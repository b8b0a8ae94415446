//go:build chaos

package main

import "time"

const outageTime = 30 * time.Second
