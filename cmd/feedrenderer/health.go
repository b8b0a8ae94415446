package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

type healthCommand struct {
	PrivateListen string `default:"127.0.0.1:9090" help:"Private address of the serve process."`
}

func (c *healthCommand) check(f *faults) { listenAddress(f, "private-listen", c.PrivateListen) }

const healthPatience = 5 * time.Second

func (c *healthCommand) run(ctx context.Context, p process) error {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	answer, err := readiness(ctx, c.PrivateListen)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, answer)
	return err
}

// readiness asks for /readyz. What is not ready is an error that says why.
func readiness(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy: it is this machine
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return "", fmt.Errorf("read /readyz: %w", err)
	}
	answer := strings.TrimSpace(string(text))
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("not ready: %s", answer)
	}
	return answer, nil
}
