package feed

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// MaxNode is the highest node number of a mint.
const MaxNode = 1<<nodeBits - 1

const (
	nodeBits = 10
	seqBits  = 12
	seqMask  = 1<<seqBits - 1
)

// ErrMintExhausted says that no id is left above the one asked for: the last is of 2093-09-06.
var ErrMintExhausted = errors.New("no EVT id is left above the last one")

// Mint makes ids by a logical clock that never goes back: in a burst, or when the wall clock steps back, ids run ahead
// of it. Safe for concurrent use.
type Mint struct {
	node int64
	now  func() time.Time

	mu   sync.Mutex
	last ID // newest id made; guarded by mu
}

// NewMint makes a mint for a node, 0 .. [MaxNode]. Two mints of one node may make the same id.
func NewMint(node int) (*Mint, error) {
	if node < 0 || node > MaxNode {
		return nil, fmt.Errorf("mint node %d: want 0 .. %d", node, MaxNode)
	}
	return &Mint{node: int64(node), now: time.Now}, nil
}

// Next makes an id above every one it made before.
func (m *Mint) Next() (ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := IDAt(m.now()) | ID(m.node<<seqBits)
	if id <= m.last {
		var err error
		if id, err = m.above(m.last); err != nil {
			return 0, err
		}
	}
	m.last = id
	return id, nil
}

// above is the lowest id of this node above floor.
func (m *Mint) above(floor ID) (ID, error) {
	if floor&tailMask>>seqBits == ID(m.node) && floor&seqMask < seqMask {
		return floor + 1, nil
	}
	id := floor&^tailMask | ID(m.node<<seqBits)
	if id > floor {
		return id, nil
	}
	if id > maxSnowflake-(1<<tailBits) {
		return 0, fmt.Errorf("%w: %s", ErrMintExhausted, floor)
	}
	return id + 1<<tailBits, nil
}
