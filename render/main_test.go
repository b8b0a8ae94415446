package render

import (
	"testing"

	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

func TestMain(m *testing.M) { serverstest.Main(m) }
