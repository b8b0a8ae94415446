package consumer

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type entry struct{}

func (e *entry) watch(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}
func (e *entry) stillMine(context.Context) (bool, error)   { return false, errors.ErrUnsupported }
func (c *Consumer) Health(context.Context) (Health, error) { return Health{}, errors.ErrUnsupported }
func (c *Consumer) Collector() prometheus.Collector        { return prometheus.NewRegistry() }
