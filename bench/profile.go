package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// profileSeconds is about what a drain takes.
const profileSeconds = 8

// profile saves a processor profile of a process at work, where one is wanted, and says when that is done.
func (r *rig) profile(ctx context.Context, p *process, label string) <-chan error {
	done := make(chan error, 1)
	if r.profiles == "" {
		done <- nil
		return done
	}
	go func() {
		done <- save(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.private, profileSeconds), filepath.Join(r.profiles, label+".prof"))
	}()
	return done
}

func save(ctx context.Context, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, body, 0o600)
}
