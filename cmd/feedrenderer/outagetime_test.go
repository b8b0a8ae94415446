//go:build !chaos

package main

import "time"

const outageTime = 6 * time.Second
