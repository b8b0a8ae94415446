//go:build !chaos

package main

const crowdSize = 200
